/**
 * What stands between a route and its handler, in the order of refusal: the
 * announced length, the credential, the key's and the tenant's limit, the
 * scope, the media type, the body's bytes; then, inside, the schemas.
 */
import { Context, Deferred, Effect, Layer } from "effect"
import { HttpServerRequest } from "effect/http"
import { HttpApiMiddleware } from "effect/http-api"
import type { IncomingMessage } from "node:http"
import { Access } from "../../core/operations/Access.ts"
import { BodyBytesMax, Caller, Guard, InputFaults, operationOf, ReadsBody } from "./Api.ts"
import * as Body from "./Body.ts"
import { Call } from "./Call.ts"
import { Drain } from "./Drain.ts"
import type { CodeOf, ErrorBody } from "./ErrorBody.ts"
import * as Issues from "./Issues.ts"
import { InvalidIdempotencyKey, InvalidRequest, type Refusal } from "./Refusals.ts"

/** Fails with the body that a refusal is answered with. What failed on our side is logged with its cause. */
export const refuse = <R extends Refusal>(refusal: R): Effect.Effect<never, ErrorBody<CodeOf<R>>> =>
  Effect.flatMap(Call, (call) => {
    const { status, body } = call.refuse(refusal)
    if (status < 500) return Effect.fail(body)
    return Effect.andThen(Effect.logWarning(refusal.message, "cause" in refusal ? refusal.cause : refusal._tag), Effect.fail(body))
  })

export const guardLayer = Layer.effect(
  Guard,
  Effect.gen(function* () {
    const access = yield* Access
    const drain = yield* Drain
    return Guard.of({
      apiKey: Effect.fnUntraced(function* (httpEffect, { endpoint }) {
        const call = yield* Call
        const request = yield* HttpServerRequest.HttpServerRequest
        const { headers } = request
        call.operation = operationOf(endpoint)
        call.route = endpoint.path
        const bodyBytesMax = Context.get(endpoint.annotations, BodyBytesMax)
        const takesBody = endpoint.payload.size > 0
        const mayHaveBody = endpoint.method !== "GET" // a GET's is nobody's, and not looked at

        const admitted = Effect.gen(function* () {
          yield* Body.checkLength(headers, bodyBytesMax)
          const principal = yield* access.admit(
            {
              authorization: headers["authorization"],
              operation: operationOf(endpoint),
              requestId: call.requestId,
              clientAddress: call.clientAddress
            },
            (standings) => call.guarded(standings),
            (principal) => void (call.principal = principal)
          )
          if (takesBody) yield* Body.checkMediaType(headers)
          if (endpoint.headers !== undefined && isRepeated(request, "idempotency-key")) {
            return yield* new InvalidIdempotencyKey()
          }
          if (!takesBody) {
            if (mayHaveBody) yield* Body.readNone(request, bodyBytesMax)
            return { principal, request }
          }
          if (Context.get(endpoint.annotations, ReadsBody) === "handler") return { principal, request }
          return { principal, request: withText(request, yield* Body.read(request, bodyBytesMax)) }
        })
        const served = Effect.gen(function* () {
          const { principal, request: checked } = yield* Effect.catch(admitted, refuse)
          return yield* httpEffect.pipe(
            Effect.provideService(Caller, principal),
            Effect.provideService(HttpServerRequest.HttpServerRequest, checked)
          )
        })
        // Only a body can keep a request waiting for its client.
        return yield* mayHaveBody ? Effect.raceFirst(served, Effect.catch(Deferred.await(drain.expired), refuse)) : served
      })
    })
  })
)

/** Node joins the values of a repeated header; which of them would be the key? */
const isRepeated = ({ source }: HttpServerRequest.HttpServerRequest, name: string): boolean =>
  "headersDistinct" in source &&
  ((source as IncomingMessage).headersDistinct[name]?.length ?? 0) > 1 // Node's requests have it, and no others

/** The request, its body read and checked. */
const withText = (request: HttpServerRequest.HttpServerRequest, text: string): HttpServerRequest.HttpServerRequest =>
  // It inherits all else; the prototype's getters run on it as they would on the request.
  Object.create(request, { text: { value: Effect.succeed(text) } }) as HttpServerRequest.HttpServerRequest

export const inputFaultsLayer = HttpApiMiddleware.layerSchemaErrorTransform(InputFaults, (error) => {
  switch (error.kind) {
    case "Headers":
      return refuse(new InvalidIdempotencyKey()) // no other header is decoded
    case "Query":
      return refuse(new InvalidRequest({ issues: Issues.fromQuery(error.cause.issue) }))
    case "Params":
    case "Payload":
      return refuse(new InvalidRequest({ issues: Issues.fromSchema(error.cause.issue) }))
    default:
      return Effect.die(error) // our own answer does not fit its schema
  }
})
