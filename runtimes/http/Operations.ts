/**
 * The contract made into functions, once, when the process starts: what an
 * operation takes of a request, and how its result is written. A request is
 * decoded once and its answer encoded once, without a step of the runtime.
 */
import { Context, Result, Schema, SchemaParser, type Effect, type SchemaAST, type SchemaIssue, type Scope } from "effect"
import { HttpServerResponse, type Headers, type HttpServerRequest } from "effect/http"
import { HttpApi, HttpApiSchema, type HttpApiEndpoint } from "effect/http-api"
import type { Operation, Principal } from "../../core/operations/Access.ts"
import { Api, BodyBytesMax, operationOf, ReadsBody, type Endpoints, type GuardCode } from "./Api.ts"
import type { CallState } from "./Call.ts"
import type { RefusalWith } from "./ErrorBody.ts"
import * as Issues from "./Issues.ts"
import { InvalidIdempotencyKey, InvalidRequest } from "./Refusals.ts"

type Endpoint<O extends Operation> = HttpApiEndpoint.WithIdentifier<Endpoints, O>

/** What a handler is given: the parts that the contract declares, decoded; the whole request where it reads the body itself. */
type Input<O extends Operation> = O extends "uploadAttachment"
  ? HttpApiEndpoint.RequestRaw<Endpoint<O>>
  : Omit<HttpApiEndpoint.Request<Endpoint<O>>, "endpoint" | "group">

/**
 * A handler for each operation. What it refuses must have a code that the contract declares for the operation, or for
 * all of them.
 */
export type Handlers = {
  readonly [O in Operation]: (
    caller: Principal,
    input: Input<O>,
    call: CallState
  ) => Effect.Effect<
    HttpApiEndpoint.SuccessWithIdentifier<Endpoints, O> | HttpServerResponse.HttpServerResponse,
    RefusalWith<HttpApiEndpoint.ErrorsWithIdentifier<Endpoints, O>["code"] | GuardCode>,
    Scope.Scope
  >
}

/** What comes with a request, before it is decoded. */
export interface Given {
  readonly request: HttpServerRequest.HttpServerRequest
  readonly params: Readonly<Record<string, string>>
  /** The body, where it has been read; it is JSON. */
  readonly text: string | null
}

/** An operation of the contract, as it is served. */
export interface Served {
  readonly name: Operation
  readonly method: string
  /** With the names of its parameters. */
  readonly path: string
  readonly bodyBytesMax: number
  /** Who reads the body; null where the operation takes none. */
  readonly body: "guard" | "handler" | null
  readonly takesIdempotencyKey: boolean
  /** The input of its handler; or what is wrong with the first part that does not fit. */
  readonly decode: (given: Given) => Result.Result<unknown, InvalidRequest | InvalidIdempotencyKey>
  /** The answer to what its handler succeeds with. */
  readonly respond: (value: unknown, headers: Readonly<Record<string, string>>) => HttpServerResponse.HttpServerResponse
}

/** No schema of the contract asks for a service. */
const codec = (schema: Schema.Top) => schema as Schema.Top & Schema.ConstraintDecoder<unknown> & Schema.ConstraintEncoder<unknown>

type Annotations = Context.Context<never>

/** A part of a request: where it is, what it must be, and what it is refused as. */
interface Part {
  readonly name: "params" | "headers" | "query" | "payload"
  readonly read: (given: Given) => unknown
  readonly parse: (read: unknown) => Result.Result<unknown, SchemaIssue.Issue>
  readonly refuse: (issue: SchemaIssue.Issue) => InvalidRequest | InvalidIdempotencyKey
}

/** The parts that an operation takes, in the order in which they are looked at. */
const partsOf = ({ params, headers, query, payload }: HttpApiEndpoint.Top, reader: Served["body"], annotations: Annotations): ReadonlyArray<Part> => {
  const part = (
    name: Part["name"],
    schema: Schema.Top | undefined,
    options: SchemaAST.ParseOptions | undefined,
    read: Part["read"],
    refuse: Part["refuse"]
  ): ReadonlyArray<Part> => (schema === undefined ? [] : [{ name, read, refuse, parse: SchemaParser.decodeUnknownResult(codec(schema), options) }])
  const faults = (issue: SchemaIssue.Issue) => new InvalidRequest({ issues: Issues.fromSchema(issue) })
  const [body] = reader === "guard" ? [...payload.values()].flatMap(({ schemas }) => schemas) : []
  return [
    ...part("params", params, Context.getOrUndefined(annotations, HttpApi.ParamsParseOptions), (given) => given.params, faults),
    // No other header is decoded.
    ...part("headers", headers, undefined, ({ request }) => request.headers, () => new InvalidIdempotencyKey()),
    ...part(
      "query",
      query && Schema.toCodecArrayFromSingle(query),
      Context.getOrUndefined(annotations, HttpApi.QueryParseOptions),
      ({ request }) => queryOf(request.url),
      (issue) => new InvalidRequest({ issues: Issues.fromQuery(issue) })
    ),
    ...part("payload", body, Context.getOrUndefined(annotations, HttpApi.PayloadParseOptions), ({ text }) => JSON.parse(text ?? "null"), faults)
  ]
}

const decoderOf =
  (parts: ReadonlyArray<Part>): Served["decode"] =>
  (given) => {
    const input: { -readonly [K in Part["name"] | "request"]?: unknown } = { request: given.request }
    for (const { name, read, parse, refuse } of parts) {
      const parsed = parse(read(given))
      if (Result.isFailure(parsed)) return Result.fail(refuse(parsed.failure))
      input[name] = parsed.success
    }
    return Result.succeed(input)
  }

/** A parameter that was given more than once has all of its values. */
const queryOf = (url: string): Readonly<Record<string, string | Array<string>>> => {
  const start = url.indexOf("?")
  const query = Object.create(null) as Record<string, string | Array<string>> // it has none yet
  if (start < 0) return query
  for (const [name, value] of new URLSearchParams(url.slice(start + 1))) {
    const before = query[name]
    if (Array.isArray(before)) before.push(value)
    else query[name] = before === undefined ? value : [before, value]
  }
  return query
}

const contentType = "application/json"

const responderOf = (status: number, schema: Schema.Top): Served["respond"] => {
  const json = (body: unknown, headers: Readonly<Record<string, string>>) =>
    HttpServerResponse.text(JSON.stringify(body), { status, contentType, headers })
  if (!HttpApiSchema.isWithHeaders(schema)) {
    const encode = SchemaParser.encodeUnknownSync(codec(schema))
    return (value, headers) => json(encode(value), headers)
  }
  const encodeBody = SchemaParser.encodeUnknownSync(codec(schema.schema))
  const encodeHeaders = SchemaParser.encodeUnknownSync(codec(schema.headers))
  return (value, headers) => {
    // The handler's type says so.
    const { body, headers: own } = value as HttpApiSchema.withHeaders<unknown, unknown>
    return json(encodeBody(body), { ...headers, ...(encodeHeaders(own) as Headers.Headers) })
  }
}

const serve = (
  endpoint: HttpApiEndpoint.Top,
  annotations: Annotations,
  successes: ReadonlyMap<number, ReadonlyArray<Schema.Top>>
): Served => {
  const all = [...successes].flatMap(([status, schemas]) => schemas.map((schema) => ({ status, schema })))
  const [success] = all
  if (success === undefined || all.length > 1) throw new Error(`${endpoint.identifier} has not one success, but ${all.length}`)
  const respond = responderOf(success.status, success.schema)
  const body = endpoint.payload.size === 0 ? null : Context.get(endpoint.annotations, ReadsBody)
  return {
    name: operationOf(endpoint),
    method: endpoint.method,
    path: endpoint.path,
    bodyBytesMax: Context.get(endpoint.annotations, BodyBytesMax),
    body,
    takesIdempotencyKey: endpoint.headers !== undefined, // no operation takes another header
    decode: decoderOf(partsOf(endpoint, body, annotations)),
    respond: (value, headers) =>
      HttpServerResponse.isHttpServerResponse(value) ? HttpServerResponse.setHeaders(value, headers) : respond(value, headers)
  }
}

/** All operations of the contract, each once. */
export const operations: ReadonlyArray<Served> = (() => {
  const served: Array<Served> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, mergedAnnotations, successes }) => {
      served.push(serve(endpoint, mergedAnnotations, successes))
    }
  })
  return served
})()
