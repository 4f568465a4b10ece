import { assert, describe, it, layer } from "@effect/vitest"
import { createConfig, lintFromString } from "@redocly/openapi-core"
import { Ajv2020, type AnySchema } from "ajv/dist/2020.js"
import addFormats from "ajv-formats"
import { Effect } from "effect"
import * as YAML from "yaml"
import { types, type Type } from "../../core/model/Event.ts"
import { requiredScopes, type Operation } from "../../core/operations/Access.ts"
import * as DocsPage from "./DocsPage.ts"
import { make, operationsOf, toYaml, type Document, type Node } from "./Document.ts"
import { catalogue, codes, schemaName, type Code } from "./ErrorBody.ts"
import * as Harness from "./harness.ts"
import { subscribe } from "./parties.ts"
import { broken } from "./receivers.ts"

const server = "https://mail-api.test"
const yaml = await Effect.runPromise(toYaml(make([server])))
const document = YAML.parse(yaml) as Document // what was written is read again

const always: ReadonlyArray<Code> = [
  "invalid_request",
  "method_not_allowed",
  "unauthorized",
  "insufficient_scope",
  "request_timeout",
  "payload_too_large",
  "rate_limited",
  "headers_too_large",
  "internal_error",
  "unavailable"
]

/** What each operation can be refused with, beyond what all can. */
const beyond: Readonly<Record<Operation, ReadonlyArray<Code>>> = {
  listMailboxes: [],
  listDomains: [],
  listMessages: ["invalid_cursor", "not_found"],
  sendMessage: [
    "invalid_idempotency_key",
    "attachment_infected",
    "not_found",
    "idempotency_conflict",
    "idempotency_pending",
    "attachment_not_clean",
    "mailbox_suspended",
    "domain_not_sendable",
    "unsupported_media_type",
    "quota_exceeded"
  ],
  getMessage: ["not_found"],
  updateMessage: ["not_found", "unsupported_media_type"],
  uploadAttachment: ["not_found", "attachment_too_large", "unsupported_media_type"],
  downloadAttachment: ["not_found", "attachment_not_clean"],
  listEvents: ["invalid_cursor"],
  listWebhookEndpoints: [],
  createWebhookEndpoint: [
    "unsupported_event_type",
    "invalid_webhook_url",
    "too_many_endpoints",
    "webhook_verification_failed",
    "unsupported_media_type"
  ],
  listWebhookDeliveries: ["not_found"],
  replayWebhookDelivery: ["not_found", "endpoint_disabled", "unsupported_media_type"]
}

/** The codes that come with the time after which to try again. */
const retried: ReadonlyArray<Code> = ["rate_limited", "quota_exceeded", "unavailable", "idempotency_pending", "attachment_not_clean"]

const refsOf = (schema: Node): ReadonlyArray<string> =>
  [...JSON.stringify(schema).matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)].map(([, name]) => name!)

const schemaOf = (name: string): Node => document.components.schemas[name]!

describe("The OpenAPI document", () => {
  it("passes the linter's recommended rules without an error or a warning", async () => {
    const config = await createConfig({ extends: ["recommended"] })
    const problems = await lintFromString({ source: yaml, config })

    assert.deepStrictEqual(problems.map(({ ruleId, message }) => `${ruleId}: ${message}`), [])
  })

  it("is the same to readers of YAML 1.1, and refers to nothing by YAML's own means, which not all of them follow", () => {
    assert.deepStrictEqual(YAML.parse(yaml, { version: "1.1" }), document)
    assert.notMatch(yaml, /^ *(?:- )?(?:[\w$/{}"-]+: )?[&*]\w/m)
  })

  it("is of version 1.0.0, and has the operations of the specification", () => {
    assert.deepStrictEqual([document.openapi, document.info.version, document.servers], ["3.1.0", "1.0.0", [{ url: server }]])
    assert.deepStrictEqual(
      operationsOf(document).map(({ method, path, operation }) => [operation.operationId, method, path]),
      [
        ["listMailboxes", "GET", "/v1/mailboxes"],
        ["listDomains", "GET", "/v1/domains"],
        ["listMessages", "GET", "/v1/messages"],
        ["sendMessage", "POST", "/v1/messages"],
        ["getMessage", "GET", "/v1/messages/{messageId}"],
        ["updateMessage", "PATCH", "/v1/messages/{messageId}"],
        ["uploadAttachment", "POST", "/v1/attachments"],
        ["downloadAttachment", "GET", "/v1/attachments/{attachmentId}/download"],
        ["listEvents", "GET", "/v1/events"],
        ["listWebhookEndpoints", "GET", "/v1/webhook-endpoints"],
        ["createWebhookEndpoint", "POST", "/v1/webhook-endpoints"],
        ["listWebhookDeliveries", "GET", "/v1/webhook-deliveries"],
        ["replayWebhookDelivery", "POST", "/v1/webhook-deliveries/{deliveryId}/replay"]
      ]
    )
    const ids = operationsOf(document).map(({ operation }) => operation.operationId)
    assert.deepStrictEqual(ids.sort(), Object.keys(requiredScopes).sort())
  })

  for (const { operation } of operationsOf(document)) {
    it(`says of ${operation.operationId} what it is refused with, what each answer's headers are, and its scope`, () => {
      const id = operation.operationId
      for (const code of codes) {
        const response = operation.responses[code === "method_not_allowed" ? "default" : catalogue[code].status]
        const isHere = response !== undefined && refsOf(response.content["application/json"].schema).includes(schemaName(code))
        assert.strictEqual(isHere, always.includes(code) || beyond[id].includes(code), code)
      }
      for (const { headers } of Object.values(operation.responses)) {
        assert.includeMembers(Object.keys(headers), ["X-Request-Id", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"])
      }
      for (const [status, { headers, content }] of Object.entries(operation.responses)) {
        const isRetried = retried.some((code) => refsOf(content["application/json"].schema).includes(schemaName(code)))
        assert.strictEqual("Retry-After" in headers, isRetried || status === "default", status)
      }
      assert.property(operation.responses["401"]!.headers, "WWW-Authenticate")
      assert.property(operation.responses["default"]!.headers, "Allow")
      assert.strictEqual("Idempotent-Replayed" in (operation.responses["202"]?.headers ?? {}), id === "sendMessage")
      assert.deepStrictEqual(operation.security, [{ apiKey: [requiredScopes[id]] }])
    })
  }

  it("states the limits of parameters and bodies", () => {
    const parameter = (id: Operation, name: string) =>
      operationsOf(document)
        .find(({ operation }) => operation.operationId === id)!
        .operation.parameters!.find((one) => one.name === name)!
    for (const id of ["listMessages", "listEvents", "listWebhookDeliveries"] as const) {
      assert.deepStrictEqual(parameter(id, "limit").schema, { type: "integer", minimum: 1, maximum: 100, default: 25 })
    }
    assert.deepStrictEqual(parameter("listMessages", "cursor").schema, { type: "string", format: "date-time" })
    assert.deepStrictEqual(parameter("listMessages", "mailboxId").schema, { type: "string", format: "uuid" })
    assert.deepStrictEqual(parameter("listWebhookDeliveries", "endpointId").schema, { type: "string", format: "uuid" })
    assert.deepStrictEqual(parameter("replayWebhookDelivery", "deliveryId").schema, { type: "string", format: "uuid" })
    assert.deepStrictEqual(parameter("listEvents", "cursor").schema, { type: "string", minLength: 1, maxLength: 512 })
    assert.deepStrictEqual(parameter("getMessage", "messageId").schema, { type: "string", format: "uuid" })
    const { required, schema } = parameter("sendMessage", "Idempotency-Key")
    assert.deepStrictEqual([required, schema], [true, { type: "string", minLength: 8, maxLength: 255 }])

    const members = schemaOf("SendMessageInput")["properties"] as Readonly<Record<string, Node>>
    const of = (name: string, keyword: string): unknown =>
      members[name]![keyword] ?? (members[name]!["anyOf"] as ReadonlyArray<Node>)[0]![keyword]
    assert.strictEqual(of("to", "minItems"), 1)
    for (const name of ["to", "cc", "bcc"]) assert.strictEqual(of(name, "maxItems"), 50)
    assert.deepStrictEqual(["subject", "text", "html"].map((name) => of(name, "maxLength")), [998, 1_000_000, 2_000_000])
    assert.strictEqual(of("attachmentIds", "maxItems"), 20)
    assert.deepStrictEqual(schemaOf("UpdateMessageInput")["allOf"], [{ anyOf: ["isRead", "isStarred", "folder"].map((name) => ({ required: [name] })) }])
    const upload = schemaOf("UploadAttachmentInput")["properties"] as Readonly<Record<string, Node>>
    assert.deepInclude(upload["filename"], { minLength: 1, maxLength: 255 })
    assert.deepInclude(upload["mediaType"], { minLength: 1, maxLength: 120 })
    assert.deepInclude(upload["contentBase64"], { contentEncoding: "base64" })
    const endpoint = schemaOf("CreateWebhookEndpointInput")
    const { url, description, eventTypes } = endpoint["properties"] as Readonly<Record<string, Node>>
    assert.deepStrictEqual(endpoint["required"], ["url", "eventTypes"])
    assert.deepInclude(url, { type: "string", format: "uri", maxLength: 2_048 })
    assert.deepInclude(description, { anyOf: [{ type: "string", maxLength: 255 }, { type: "null" }] })
    const items = { type: "string", enum: [...types, "*"] }
    assert.deepInclude(eventTypes, { type: "array", minItems: 1, maxItems: 20, items })
  })

  it("says nothing that makers of types take amiss: one of several beside members, or a member that need not be given and has a default", () => {
    for (const [name, schema] of Object.entries(document.components.schemas)) {
      if (schema["properties"] !== undefined) assert.notProperty(schema, "anyOf", name)
      assert.notInclude(JSON.stringify(schema["properties"] ?? {}), `"default":`, name)
    }
  })

  it("marks each moment in time as one", () => {
    const moments = Object.entries(document.components.schemas).flatMap(([schema, { properties }]) =>
      Object.entries((properties ?? {}) as Node).flatMap(([name, member]) => (name.endsWith("At") && schema !== "WebhookPayload" && schema !== "WebhookVerification" ? [[`${schema}.${name}`, JSON.stringify(member)] as const] : []))
    )
    assert.isAbove(moments.length, 10)
    for (const [name, member] of moments) assert.include(member, "\"format\":\"date-time\"", name)
  })

  it("promises of headers those that every answer has", () => {
    const promised = Object.entries(document.components.headers).flatMap(([name, { required }]) => (required === true ? [name] : []))

    assert.sameMembers(promised, ["X-Request-Id", "Cache-Control", "X-Content-Type-Options"])
  })

  it("closes what the specification closes, and leaves the rest open", () => {
    const isClosed = (name: string) => schemaOf(name)["additionalProperties"] === false
    const inputs = ["SendMessageInput", "UpdateMessageInput", "UploadAttachmentInput", "CreateWebhookEndpointInput"]
    for (const name of ["Mailbox", "Domain", "QueuedMessage", "Event", "WebhookEndpoint", ...inputs, ...codes.map(schemaName)]) {
      assert.isTrue(isClosed(name), name)
    }
    for (const name of ["MessageSummary", "Message", "Attachment", "DownloadedAttachment", "MimePart", "WebhookDelivery", "WebhookPayload"]) {
      assert.isFalse(isClosed(name), name)
    }
  })

  it("has no member for an endpoint's secret, but beside the endpoint where it is created", () => {
    const told = Object.entries(document.components.schemas).filter(([, schema]) => "secret" in ((schema["properties"] ?? {}) as Node))
    assert.deepStrictEqual(told, [])

    const holding = operationsOf(document).filter(({ operation }) =>
      Object.values(operation.responses).some(({ content }) => "secret" in ((content["application/json"].schema["properties"] ?? {}) as Node))
    )
    assert.deepStrictEqual(holding.map(({ operation }) => operation.operationId), ["createWebhookEndpoint"])
  })

  it("says what an endpoint gets: headers, an envelope for each type of event, and the handshake", () => {
    assert.deepStrictEqual(Object.keys(document.webhooks), ["event", "endpointVerification"])
    const { event, endpointVerification } = document.webhooks
    for (const { post } of [event!, endpointVerification!]) assert.deepStrictEqual(post.security, [])
    assert.deepStrictEqual(
      event!.post.parameters?.map(({ name, in: where, required }) => [name, where, required]),
      ["Id", "Timestamp", "Signature"].map((name) => [`Service-Webhook-${name}`, "header", true])
    )
    assert.isUndefined(endpointVerification!.post.parameters)
    const bodies = event!.post.requestBody.content["application/json"].schema["anyOf"] as ReadonlyArray<Node>
    assert.deepStrictEqual(bodies.map(({ title }) => title), [...types, undefined])
    assert.deepStrictEqual(bodies.at(-1), { $ref: "#/components/schemas/WebhookPayload" })
    assert.deepInclude((schemaOf("WebhookVerification")["properties"] as Node)["type"], { type: "string", const: "webhook.endpoint_verification" })
    const members = ["id", "type", "apiVersion", "occurredAt", "data"]
    for (const name of ["WebhookPayload", "WebhookVerification"]) {
      assert.deepStrictEqual(Object.keys(schemaOf(name)["properties"] as Node), members)
      assert.deepStrictEqual(schemaOf(name)["required"], members)
    }
  })
})

describe("The docs page", () => {
  const page = DocsPage.render(document)

  it("asks for nothing from anywhere, and runs no script", () => {
    assert.notMatch(page, /<script|<link|<img|<iframe|@import|url\(|\son\w+=|src=/i)
    const links = [...page.matchAll(/href="([^"]*)"/g)].map(([, link]) => link!)
    assert.isAbove(links.length, 50)
    for (const link of links) assert.match(link, /^(#[\w-]+|openapi\.yaml)$/)
    for (const link of links.filter((one) => one.startsWith("#"))) assert.include(page, `id="${link.slice(1)}"`)
    assert.include(DocsPage.contentSecurityPolicy, "default-src 'none'")
  })

  it("shows every operation with a call, and every error", () => {
    for (const { path, operation } of operationsOf(document)) {
      assert.include(page, `id="${operation.operationId}"`)
      assert.include(page, `<code>${path}</code>`)
    }
    assert.strictEqual(page.match(/curl /g)!.length, operationsOf(document).length)
    for (const code of codes) assert.include(page, `id="error-${code}"`)
    for (const name of Object.keys(document.webhooks)) assert.include(page, `id="webhook-${name}"`)
    for (const type of types) assert.include(page, `<tr><td><code>${type}</code></td><td><a href="#schema-`)
    assert.notMatch(page, /undefined|\[object Object\]|<td><\/td><td><\/td>/)
  })
})

/** The document, for validators. */
const withDocument = () => {
  const ajv = new Ajv2020({ strict: false, allErrors: true })
  addFormats.default(ajv)
  ajv.addSchema({ $id: "document", ...document } as AnySchema) // keywords it does not know are let be
  return ajv
}

/** Validates answers against the schema that the document has for them. */
const validator = () => {
  const ajv = withDocument()
  return (operation: Operation, { status, json, headers }: Harness.Reply): void => {
    const found = operationsOf(document).find((one) => one.operation.operationId === operation)!
    const response = found.operation.responses[status]
    assert.isDefined(response, `${operation} has no ${status}`)
    const path = found.path.replaceAll("/", "~1").replaceAll("{", "%7B").replaceAll("}", "%7D")
    const pointer = `paths/${path}/${found.method.toLowerCase()}/responses/${status}/content/application~1json/schema`
    const validate = ajv.compile({ $ref: `document#/${pointer}` })
    assert.isTrue(validate(json), `${operation} ${status}: ${JSON.stringify(validate.errors)}`)
    for (const [name, header] of Object.entries(response!.headers)) {
      assert.deepStrictEqual(header, { $ref: `#/components/headers/${name}` })
      const { required, schema } = document.components.headers[name] as { required: boolean; schema: Node } // ours are
      const value = headers.get(name)
      if (required) assert.isNotNull(value, name)
      const typed = value !== null && schema["type"] === "integer" ? Number(value) : value
      if (value !== null) assert.isTrue(ajv.validate(schema, typed), `${name}: ${value}`)
    }
  }
}

layer(Harness.layer(), { excludeTestServices: true })("The OpenAPI document", (it) => {
  it.effect("describes the answers that the service gives", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const check = validator()
      const replies: Array<readonly [Operation, Harness.Reply]> = []
      const call = (operation: Operation, ...args: Parameters<Harness.Harness["call"]>) =>
        Effect.tap(server.call(...args), (reply) => Effect.sync(() => replies.push([operation, reply])))
      const idempotent = { "idempotency-key": "a-key-of-its-own" }
      const recipients = { to: ["a@mail.example"], cc: ["b@mail.example"] }
      const send = { fromMailboxId: server.mailbox.id, ...recipients, html: "<p>x</p>", subject: "x" }
      const upload = { mailboxId: server.mailbox.id, filename: "a.txt", mediaType: "text/plain", contentBase64: "QUJD" }

      const { json: uploaded } = yield* call("uploadAttachment", "POST", "/v1/attachments", { body: upload })
      const attachment = `/v1/attachments/${uploaded.attachment.id}/download`
      yield* call("downloadAttachment", "GET", attachment)
      yield* server.scanned(server, uploaded.attachment.id, "Clean")
      yield* call("downloadAttachment", "GET", attachment)
      const body = { ...send, attachmentIds: [uploaded.attachment.id] }
      const { json: sent } = yield* call("sendMessage", "POST", "/v1/messages", { body, headers: idempotent })
      yield* call("sendMessage", "POST", "/v1/messages", { body, headers: idempotent })
      yield* call("sendMessage", "POST", "/v1/messages", { body: send, headers: idempotent })
      yield* call("sendMessage", "POST", "/v1/messages", { body: send })
      yield* call("sendMessage", "POST", "/v1/messages", { body: { to: 5 }, headers: idempotent })
      yield* call("sendMessage", "POST", "/v1/messages", { body: "{", headers: idempotent })
      yield* call("sendMessage", "POST", "/v1/messages", { body, headers: { ...idempotent, "content-type": "text/plain" } })
      yield* call("getMessage", "GET", `/v1/messages/${sent.id}`)
      yield* call("getMessage", "GET", `/v1/messages/${crypto.randomUUID()}`)
      yield* call("getMessage", "GET", "/v1/messages/x")
      for (const mailboxId of [server.mailbox.id, crypto.randomUUID()]) {
        yield* call("updateMessage", "PATCH", `/v1/messages/${sent.id}`, { body: { mailboxId, isRead: false } })
      }
      yield* call("listMessages", "GET", "/v1/messages")
      yield* call("listMessages", "GET", "/v1/messages?limit=1&limit=2")
      yield* call("listMessages", "GET", "/v1/messages?cursor=x")
      yield* call("listMessages", "GET", `/v1/messages?mailboxId=${crypto.randomUUID()}`)
      yield* call("listEvents", "GET", "/v1/events?limit=1")
      yield* call("listEvents", "GET", "/v1/events?cursor=x")
      const receiver = server.receivers.open()
      const endpoint = { url: receiver.url, description: null, eventTypes: ["*"] }
      const create = (change: object = {}) => call("createWebhookEndpoint", "POST", "/v1/webhook-endpoints", { body: { ...endpoint, ...change } })
      const { json: created } = yield* create()
      receiver.behave = broken
      yield* call("sendMessage", "POST", "/v1/messages", { body: send, headers: { "idempotency-key": "another-key-of-its-own" } })
      yield* server.relay
      yield* call("listWebhookDeliveries", "GET", "/v1/webhook-deliveries")
      yield* server.settle
      const { json: deliveries } = yield* call("listWebhookDeliveries", "GET", `/v1/webhook-deliveries?endpointId=${created.endpoint.id}&limit=1`)
      yield* call("listWebhookDeliveries", "GET", `/v1/webhook-deliveries?endpointId=${crypto.randomUUID()}`)
      yield* call("listWebhookEndpoints", "GET", "/v1/webhook-endpoints")
      const replayed = `/v1/webhook-deliveries/${deliveries.items[0].id}/replay`
      yield* call("replayWebhookDelivery", "POST", replayed)
      yield* Effect.orDie(server.webhookManagement.enableEndpoint(Harness.actor, server.tenantId, created.endpoint.id, { replayDead: false }))
      yield* call("replayWebhookDelivery", "POST", replayed)
      yield* call("replayWebhookDelivery", "POST", replayed, { body: "[]" })
      yield* call("replayWebhookDelivery", "POST", replayed, { body: "x", headers: { "content-type": "text/plain" } })
      yield* call("replayWebhookDelivery", "POST", replayed.replace(deliveries.items[0].id, crypto.randomUUID()))
      for (const change of [{ eventTypes: [] }, { eventTypes: ["x"] }, { url: "x" }, { url: "https://nobody.hooks.example/" }]) yield* create(change)
      const slow = server.receivers.open(() => Effect.never)
      yield* Effect.forkChild(server.call("POST", "/v1/webhook-endpoints", { body: { ...endpoint, url: slow.url } }))
      yield* Harness.eventually(() => slow.posts.length === 1)
      yield* create({ url: slow.url })
      yield* call("listMailboxes", "GET", "/v1/mailboxes")
      yield* call("listMailboxes", "GET", "/v1/mailboxes", { key: null })
      yield* call("listDomains", "GET", "/v1/domains")
      const { text: key } = yield* server.issueKey(server, [])
      yield* call("listDomains", "GET", "/v1/domains", { key })
      const tiny = yield* server.party({ planId: "tiny" })
      for (let count = 0; count < 4; count++) yield* call("listDomains", "GET", "/v1/domains", { key: tiny.key })

      for (const [operation, reply] of replies) check(operation, reply)
      assert.deepStrictEqual(
        [...new Set(replies.map(([, { status }]) => String(status)))].sort(),
        ["200", "201", "202", "400", "401", "403", "404", "409", "415", "429"]
      )
    })
  )

  it.effect("describes the requests that an endpoint gets", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* server.party()
      const receiver = server.receivers.open()
      yield* subscribe(server, party, receiver)
      const { tenantId, application } = party
      const sendTest = (type: Type) => server.webhookManagement.sendTestEvent(Harness.actor, { tenantId, applicationId: application.id, type })
      yield* Effect.orDie(Effect.forEach(types, sendTest))
      yield* server.settle

      const ajv = withDocument()
      const { event, endpointVerification } = document.webhooks
      const bodies = event!.post.requestBody.content["application/json"].schema["anyOf"] as ReadonlyArray<Node>
      const [handshake, ...posts] = receiver.posts
      assert.isTrue(ajv.validate({ $ref: "document#/components/schemas/WebhookVerification" }, handshake!.json))
      assert.deepStrictEqual(endpointVerification!.post.requestBody.content["application/json"].schema, { $ref: "#/components/schemas/WebhookVerification" })
      assert.sameMembers(posts.map(({ json }) => json.type), [...types])
      for (const { json, headers } of posts) {
        const index = bodies.findIndex(({ title }) => title === json.type)
        const pointer = `webhooks/event/post/requestBody/content/application~1json/schema/anyOf/${index}`
        const validate = ajv.compile({ $ref: `document#/${pointer}` })
        assert.isTrue(validate(json), `${json.type}: ${JSON.stringify(validate.errors)}`)
        assert.isFalse(validate({ ...json, data: { ...json.data, object: "x" } }), `the data of ${json.type} are looked at`)
        for (const { name, schema } of event!.post.parameters!) {
          const value = headers[name.toLowerCase()]
          assert.isTrue(ajv.validate(schema, schema["type"] === "integer" ? Number(value) : value), `${name}: ${value}`)
        }
      }
    })
  )

  it.effect("is served as it is", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const { status, headers, text } = yield* server.call("GET", "/openapi.yaml", { key: null })
      const docs = yield* server.call("GET", "/docs", { key: null })
      const root = yield* server.call("GET", "/", { key: null })

      assert.deepStrictEqual([status, headers.get("content-type")], [200, "application/yaml"])
      assert.deepStrictEqual(YAML.parse(text), { ...document, servers: [{ url: server.baseUrl }] })
      assert.deepStrictEqual([docs.status, docs.headers.get("content-type")], [200, "text/html"])
      assert.strictEqual(docs.headers.get("content-security-policy"), DocsPage.contentSecurityPolicy)
      assert.deepStrictEqual([root.status, root.headers.get("location"), root.headers.get("content-length")], [302, "docs", "0"])
    })
  )
})
