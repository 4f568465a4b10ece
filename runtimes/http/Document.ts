/**
 * The published OpenAPI 3.1 document (Spec 9): what Effect derives from the
 * contract, made tidy for people and generators. Constraints that the
 * derivation loses (numbers in the query, what is closed) are put back here.
 */
import { Effect } from "effect"
import { OpenApi } from "effect/http-api"
import * as Limits from "../../core/model/Limits.ts"
import { requiredScopes as scopes, type Operation } from "../../core/operations/Access.ts"
import { Api } from "./Api.ts"
import * as Events from "./DocumentEvents.ts"
import { json, schemaRef, type Node } from "./DocumentEvents.ts"
import * as Examples from "./DocumentExamples.ts"
import * as Texts from "./DocumentTexts.ts"
import { catalogue, codes, schemaName, type Code } from "./ErrorBody.ts"

export type { Node, WebhookObject } from "./DocumentEvents.ts"

interface Body<S> {
  readonly content: { readonly "application/json": { readonly schema: S; readonly example?: unknown } }
}

interface Parameter {
  readonly name: string
  readonly in: string
  readonly required: boolean
  readonly description: string
  readonly schema: Node
}

export interface OperationObject {
  readonly operationId: Operation
  readonly summary: string
  readonly description: string
  readonly tags: ReadonlyArray<string>
  readonly security: ReadonlyArray<Node>
  readonly parameters?: ReadonlyArray<Parameter>
  readonly requestBody?: Body<Node> & { readonly required: true }
  readonly responses: Readonly<Record<string, Body<Node> & { readonly description: string; readonly headers: Node }>>
}

export interface Document {
  readonly openapi: "3.1.0"
  readonly info: {
    readonly title: string
    readonly version: string
    readonly description: string
    readonly license: Node
  }
  readonly servers: ReadonlyArray<{ readonly url: string }>
  readonly security: ReadonlyArray<Node>
  readonly tags: ReadonlyArray<{ readonly name: string; readonly description: string }>
  readonly paths: Readonly<Record<string, Readonly<Record<string, OperationObject>>>>
  /** What we post to the endpoints of our callers. */
  readonly webhooks: typeof Events.webhooks
  readonly components: {
    readonly securitySchemes: Node
    readonly headers: Readonly<Record<string, Node>>
    readonly schemas: Readonly<Record<string, Node>>
  }
}

/** The document, for the addresses at which the service can be reached. */
export const make = (servers: ReadonlyArray<string>): Document => {
  const derived = OpenApi.fromApi(Api)
  return {
    openapi: "3.1.0",
    info: {
      title: "Mailroom email API",
      version: "1.0.0",
      description: Texts.introduction,
      license: { name: "MIT", identifier: "MIT" }
    },
    servers: servers.map((url) => ({ url })),
    security: [{ apiKey: [] }],
    tags: Object.entries(Texts.tags).map(([name, description]) => ({ name, description })),
    paths: Object.fromEntries(
      Object.entries(derived.paths).map(([path, item]) => [
        path,
        Object.fromEntries(
          Object.entries(item).map(([method, operation]) => [
            method,
            operationOf(method, operation as OpenApi.OpenAPISpecOperation) // the derived path items hold operations only
          ])
        )
      ])
    ),
    webhooks: Events.webhooks,
    components: {
      securitySchemes: { apiKey: { ...derived.components.securitySchemes["apiKey"], scheme: "bearer" } },
      headers: Object.fromEntries(
        Object.entries(Texts.headers).map(([name, header]) => [name, { required: isAlways(name), ...header }])
      ),
      schemas: Object.fromEntries(
        Object.entries({ ...derived.components.schemas, ...Events.schemas, Error: anyError })
          .map(([name, schema]) => [name, schemaOf(name, schema as Node)] as const) // definitions are never booleans here
          .sort(([left], [right]) => (left < right ? -1 : 1))
      )
    }
  }
}

/** The document as it is served. It loads `yaml`, which programs that embed Mailroom may do without until somebody asks. */
export const toYaml = (document: Document): Effect.Effect<string> =>
  Effect.map(
    Effect.promise(() => import("yaml")),
    // Quoted also where only readers of YAML 1.1 would take a text for a date or a number.
    (YAML) => YAML.stringify(document, { aliasDuplicateObjects: false, lineWidth: 0, compat: "yaml-1.1" })
  )

const operationOf = (method: string, derived: OpenApi.OpenAPISpecOperation): OperationObject => {
  const operationId = derived.operationId as Operation // the API's endpoints are the operations
  const { summary, description } = Texts.operations[operationId]
  const body = derived.requestBody && json(contentSchema(derived.requestBody.content), Examples.requests[operationId])
  return {
    operationId,
    summary,
    description: `${description}\n\nScope: \`${scopes[operationId]}\`.`,
    tags: derived.tags,
    security: [{ apiKey: [scopes[operationId]] }],
    ...(derived.parameters.length === 0
      ? {}
      : { parameters: derived.parameters.map((parameter) => parameterOf(operationId, parameter)) }),
    ...(body === undefined ? {} : { requestBody: { required: true, ...body } }),
    responses: {
      ...Object.fromEntries(
        Object.entries(derived.responses).flatMap(([status, response]) => {
          const made = Number(status) < 400 ? successOf(operationId, response) : refusalOf(method, derived, response)
          return made === null ? [] : [[status, made]]
        })
      ),
      default: otherwise()
    }
  }
}

const parameterOf = (operationId: Operation, derived: OpenApi.OpenAPISpecParameter): Parameter => {
  const { name, in: where, required } = derived
  return {
    name: name === "idempotency-key" ? "Idempotency-Key" : name,
    in: where,
    required,
    description: Texts.parameters[`${operationId}.${name}`] ?? Texts.parameters[`*.${name}`] ?? "",
    schema: parameterSchema(operationId, name, derived.schema as Node) // an object
  }
}

const parameterSchema = (operationId: Operation, name: string, schema: Node): Node => {
  if (name === "limit") {
    return { type: "integer", minimum: 1, maximum: Limits.pageSizeMax, default: Limits.pageSizeDefault }
  }
  if (name !== "cursor") return tidy(schema)
  return operationId === "listMessages"
    ? { type: "string", format: "date-time" }
    : { type: "string", minLength: 1, maxLength: Limits.eventCursorLengthMax }
}

const successOf = (operationId: Operation, response: OpenApi.OpenApiSpecResponse) => ({
  description: Texts.operations[operationId].summary,
  headers: headerRefs([...always, ...(operationId === "sendMessage" ? ["Idempotent-Replayed"] : [])]),
  ...json(open(contentSchema(response.content!)), Examples.responses[operationId])
})

/** The envelope, whatever the code. */
const anyError: Node = {
  type: "object",
  description: "The envelope of all errors.",
  properties: {
    code: { type: "string", description: "Stable. Expect codes that you do not know." },
    message: { type: "string", description: "What happened and what to do, for a person. Its wording may change." },
    requestId: { type: "string", format: "uuid", description: "Equal to X-Request-Id. Quote it when you ask for help." },
    error: { type: "string", description: "The reason phrase of the HTTP status." },
    details: { type: "object", description: "Its members depend on the code." }
  },
  required: ["code", "message", "requestId", "error", "details"],
  additionalProperties: false
}

/** What no operation by itself is answered with, and what is not known yet. */
const otherwise = () => ({
  description: `- \`method_not_allowed\`: ${catalogue.method_not_allowed.meaning}\n- Codes that are added later.`,
  headers: headerRefs([...always, "Allow", "Retry-After"]),
  ...json({ anyOf: [{ $ref: schemaRef(schemaName("method_not_allowed")) }, { $ref: schemaRef("Error") }] })
})

/** A status and the codes it can have here; null if this operation has none of them. */
const refusalOf = (method: string, operation: OpenApi.OpenAPISpecOperation, response: OpenApi.OpenApiSpecResponse) => {
  const text = JSON.stringify(response.content)
  const here = codes.filter((code) => text.includes(`/${schemaName(code)}"`) && applies(method, operation, code))
  if (here.length === 0) return null
  const refs = here.map((code) => ({ $ref: schemaRef(schemaName(code)) }))
  const mapping = Object.fromEntries(here.map((code) => [code, schemaRef(schemaName(code))]))
  const list = here.map((code) => `- \`${code}\`: ${catalogue[code].meaning}`).join("\n")
  return {
    description: here.length === 1 ? catalogue[here[0]!].meaning : list,
    headers: headerRefs([
      ...always,
      ...(here.some((code) => retried.has(code)) ? ["Retry-After"] : []),
      ...(here.includes("unauthorized") ? ["WWW-Authenticate"] : [])
    ]),
    ...json(refs.length === 1 ? refs[0]! : { oneOf: refs, discriminator: { propertyName: "code", mapping } })
  }
}

/** What the guard refuses for all, it can only refuse where there is such a thing. */
const applies = (method: string, operation: OpenApi.OpenAPISpecOperation, code: Code): boolean => {
  if (code === "method_not_allowed") return false // an operation has its method
  if (code === "unsupported_media_type") return method !== "get" // where none is wanted, a body is looked at all the same
  return code !== "invalid_idempotency_key" || operation.parameters.some(({ name }) => name === "idempotency-key")
}

const retried: ReadonlySet<Code> = new Set([
  "rate_limited",
  "quota_exceeded",
  "unavailable",
  "idempotency_pending",
  "attachment_not_clean"
])

const always = [
  "X-Request-Id",
  "RateLimit-Limit",
  "RateLimit-Remaining",
  "RateLimit-Reset",
  "Cache-Control",
  "X-Content-Type-Options"
]
/** Guards that did not run have nothing to tell. */
const isAlways = (name: string): boolean => always.includes(name) && !name.startsWith("RateLimit-")

const headerRefs = (names: ReadonlyArray<string>): Node =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))

const contentSchema = (content: OpenApi.OpenApiSpecContent): Node =>
  tidy(content["application/json"]!.schema as Node) // an object

/** Resources that the specification closes, and what a request may hold. All else stays open for additions. */
const closed: ReadonlySet<string> = new Set([
  "Mailbox",
  "Domain",
  "QueuedMessage",
  "Event",
  "SendMessageInput",
  "UpdateMessageInput",
  "UploadAttachmentInput",
  "WebhookEndpoint",
  "CreateWebhookEndpointInput"
])

const schemaOf = (name: string, derived: Node): Node => {
  const tidied = tidy(derived)
  const isError = name === "Error" || codes.some((code) => schemaName(code) === name)
  const shape = isError ? { ...open(tidied), additionalProperties: false } : closed.has(name) ? tidied : open(tidied)
  const properties = shape["properties"] as Readonly<Record<string, Node>> // all components are objects
  return {
    ...shape,
    properties: Object.fromEntries(
      Object.entries(properties).map(([member, schema]) => {
        const inherited = name === "Message" ? Texts.members[`MessageSummary.${member}`] : undefined
        const description = Texts.members[`${name}.${member}`] ?? inherited
        const isAnything = isError && member === "details" && schema["type"] === undefined
        const value = isAnything
          ? { type: "object" }
          : name === "Event" && member === "data"
            ? Events.anyEventData
            : { ...schema, ...beyond[`${name}.${member}`] }
        return [member, description === undefined ? value : { ...value, description }]
      })
    ),
    ...atLeastOne[name]
  }
}

/** One of these as well; `anyOf` beside members would be read as one of these instead by some who make types of it. */
const andOneOf = (choices: ReadonlyArray<Node>): Node => ({ allOf: [{ anyOf: choices }] })

/** What the schemas' filters ask for beyond the shape. */
const atLeastOne: Readonly<Record<string, Node>> = {
  SendMessageInput: andOneOf(["text", "html"].map((member) => ({ required: [member], properties: { [member]: { type: "string" } } }))),
  UpdateMessageInput: andOneOf(["isRead", "isStarred", "folder"].map((member) => ({ required: [member] })))
}

/**
 * What else is known of members, as the operations check it themselves. What stands for one that is missing is said in words:
 * a `default` makes the member one that must be given, in types that some make of the document.
 */
const beyond: Readonly<Record<string, Node>> = {
  "CreateWebhookEndpointInput.url": { maxLength: Limits.webhookUrlLengthMax },
  "CreateWebhookEndpointInput.eventTypes": { items: { type: "string", enum: Events.subscribable } }
}

const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && !Array.isArray(value)

const mapNodes = (value: unknown, change: (node: Node) => Node): unknown => {
  if (Array.isArray(value)) return value.map((item) => mapNodes(item, change))
  if (!isNode(value)) return value
  return change(Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, mapNodes(inner, change)])))
}

/** The same schema in fewer words; moments in time are marked as such. */
const tidy = (schema: Node): Node =>
  mapNodes(schema, (node) => dated(constant(bounded(flattened(node))))) as Node // an object stays one

/** The same schema, open for additions. */
const open = (schema: Node): Node =>
  mapNodes(schema, ({ additionalProperties, ...node }) =>
    additionalProperties === false || additionalProperties === undefined ? node : { ...node, additionalProperties }
  ) as Node // an object stays one

/** `allOf` of bounds only, moved to where they belong. */
const flattened = (node: Node): Node => {
  const { allOf, ...rest } = node
  if (!Array.isArray(allOf) || !allOf.every(isNode)) return node
  const names = allOf.flatMap(Object.keys)
  const isPlain = names.every((name) => !name.startsWith("$") && !(name in rest)) && new Set(names).size === names.length
  return isPlain ? Object.assign({}, rest, ...allOf) as Node : node // of objects
}

/** Without the bounds of JavaScript's integers; an id by its format alone. */
const bounded = (node: Node): Node =>
  Object.fromEntries(
    Object.entries(node).filter(
      ([name, value]) =>
        !(name === "maximum" && value === Number.MAX_SAFE_INTEGER) &&
        !(name === "minimum" && value === Number.MIN_SAFE_INTEGER) &&
        !(name === "pattern" && node["format"] === "uuid")
    )
  )

const constant = (node: Node): Node => {
  const { enum: values, ...rest } = node
  return Array.isArray(values) && values.length === 1 ? { ...rest, const: values[0] as unknown } : node
}

/** A property that ends in `At` is a moment. */
const dated = (node: Node): Node => {
  if (!isNode(node["properties"])) return node
  const properties = Object.entries(node["properties"])
  return {
    ...node,
    properties: Object.fromEntries(properties.map(([name, schema]) => [name, name.endsWith("At") ? moment(schema) : schema]))
  }
}

const moment = (schema: unknown): unknown =>
  mapNodes(schema, (node) => (node["type"] === "string" ? { ...node, format: "date-time" } : node))

/** The operations with their method and path, in the order of the contract. */
export const operationsOf = (document: Document) =>
  Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation }))
  )
