/**
 * What the published document says of events: the schema of `data` for each
 * type, and the requests that an endpoint gets (OpenAPI 3.1, `webhooks`).
 */
import { Schema } from "effect"
import * as Event from "../../core/model/Event.ts"
import { apiVersion } from "../../core/model/Webhook.ts"
import * as Examples from "./DocumentExamples.ts"
import * as Texts from "./DocumentTexts.ts"

/** A JSON Schema, or any other object of the document. */
export interface Node {
  readonly [member: string]: unknown
}

export const schemaRef = (name: string): string => `#/components/schemas/${name}`

export const json = <S>(schema: S, example?: unknown) => ({
  content: { "application/json": { schema, ...(example === undefined ? {} : { example }) } }
})

/** `message.bounced` has its data in `MessageBouncedData`. */
const dataName = (type: Event.Type): string =>
  `${type.split(/[._]/).map((word) => word[0]!.toUpperCase() + word.slice(1)).join("")}Data`

/** The schema of `data` for each type of event. */
const eventData: Readonly<Record<string, Node>> = Object.fromEntries(
  Event.types.map((type) => [
    dataName(type),
    { ...Schema.toJsonSchemaDocument(Event.data[type]).schema, description: `\`data\` of an event of type \`${type}\`.` }
  ])
)

/** One of the known types' data; or any object, for there will be other types. */
export const anyEventData: Node = {
  type: "object",
  anyOf: [...Event.types.map((type) => ({ $ref: schemaRef(dataName(type)) })), { type: "object" }]
}

const text: Node = { type: "string" }
const uuid: Node = { type: "string", format: "uuid" }

/** The body of a request to an endpoint, with data of some kind. */
const payload = (description: string, type: Node, data: Node): Node => ({
  type: "object",
  description,
  properties: { id: uuid, type, apiVersion: { ...text, examples: [apiVersion] }, occurredAt: text, data },
  required: ["id", "type", "apiVersion", "occurredAt", "data"]
})

const challenge: Node = { type: "object", properties: { challenge: text }, required: ["challenge"] }

/** The components that belong to events. */
export const schemas: Readonly<Record<string, Node>> = {
  ...eventData,
  WebhookPayload: payload("An event, as it is posted to an endpoint.", text, { type: "object" }),
  WebhookVerification: payload("The handshake of a new endpoint.", { ...text, const: Event.verificationType }, challenge)
}

/** The payload of one type of event. */
const payloadOf = (type: Event.Type): Node => ({
  title: type,
  allOf: [
    { $ref: schemaRef("WebhookPayload") },
    { type: "object", properties: { type: { const: type }, data: { $ref: schemaRef(dataName(type)) } } }
  ]
})

/** A request that we make, and the answers that we understand. */
export interface WebhookObject {
  readonly operationId: string
  readonly summary: string
  readonly description: string
  readonly tags: ReadonlyArray<string>
  readonly security: readonly []
  readonly parameters?: ReadonlyArray<Node & { readonly name: string; readonly description: string; readonly schema: Node }>
  readonly requestBody: ReturnType<typeof json<Node>> & { readonly required: true }
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content?: Node }>>
}

const header = (name: keyof typeof Texts.webhookHeaders, schema: Node) => ({
  name,
  in: "header",
  required: true,
  ...Texts.webhookHeaders[name],
  schema
})

const common = { tags: ["webhooks"], security: [] } as const

export const webhooks: Readonly<Record<string, { readonly post: WebhookObject }>> = {
  event: {
    post: {
      ...common,
      operationId: "receiveEvent",
      ...Texts.webhooks.event,
      parameters: [
        header("Service-Webhook-Id", uuid),
        header("Service-Webhook-Timestamp", { type: "integer", minimum: 0 }),
        header("Service-Webhook-Signature", { ...text, pattern: "^v1=[0-9a-f]{64}$" })
      ],
      requestBody: {
        required: true,
        ...json<Node>({ anyOf: [...Event.types.map(payloadOf), { $ref: schemaRef("WebhookPayload") }] }, Examples.webhook)
      },
      responses: Texts.webhookAnswers.event
    }
  },
  endpointVerification: {
    post: {
      ...common,
      operationId: "verifyEndpoint",
      ...Texts.webhooks.endpointVerification,
      requestBody: { required: true, ...json<Node>({ $ref: schemaRef("WebhookVerification") }, Examples.verification) },
      responses: {
        "2XX": { ...Texts.webhookAnswers.endpointVerification["2XX"], ...json(challenge, Examples.verification.data) },
        default: Texts.webhookAnswers.endpointVerification.default
      }
    }
  }
}

/** What a subscription may hold. */
export const subscribable: ReadonlyArray<string> = [...Event.types, "*"]
