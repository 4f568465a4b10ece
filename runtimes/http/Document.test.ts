import { assert, describe, it, layer } from "@effect/vitest"
import { createConfig, lintFromString } from "@redocly/openapi-core"
import { Ajv2020, type AnySchema } from "ajv/dist/2020.js"
import addFormats from "ajv-formats"
import { Effect } from "effect"
import * as YAML from "yaml"
import { requiredScopes, type Operation } from "../../core/operations/Access.ts"
import * as DocsPage from "./DocsPage.ts"
import { make, operationsOf, toYaml, type Document, type Node } from "./Document.ts"
import { catalogue, codes, schemaName, type Code } from "./ErrorBody.ts"
import * as Harness from "./harness.ts"

const server = "https://mail-api.test"
const yaml = toYaml(make([server]))
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
  listEvents: ["invalid_cursor"]
}

const refsOf = (schema: Node): ReadonlyArray<string> =>
  [...JSON.stringify(schema).matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)].map(([, name]) => name!)

const schemaOf = (name: string): Node => document.components.schemas[name]!

describe("The OpenAPI document", () => {
  it("passes the linter's recommended rules without an error or a warning", async () => {
    const config = await createConfig({ extends: ["recommended"] })
    const problems = await lintFromString({ source: yaml, config })

    assert.deepStrictEqual(problems.map(({ ruleId, message }) => `${ruleId}: ${message}`), [])
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
        ["listEvents", "GET", "/v1/events"]
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
      for (const status of ["429", "503"]) assert.property(operation.responses[status]!.headers, "Retry-After")
      assert.property(operation.responses["401"]!.headers, "WWW-Authenticate")
      assert.strictEqual("Idempotent-Replayed" in (operation.responses["202"]?.headers ?? {}), id === "sendMessage")
      assert.deepStrictEqual(operation.security, [{ apiKey: [requiredScopes[id]] }])
    })
  }

  it("states the limits of parameters and bodies", () => {
    const parameter = (id: Operation, name: string) =>
      operationsOf(document)
        .find(({ operation }) => operation.operationId === id)!
        .operation.parameters!.find((one) => one.name === name)!
    for (const id of ["listMessages", "listEvents"] as const) {
      assert.deepStrictEqual(parameter(id, "limit").schema, { type: "integer", minimum: 1, maximum: 100, default: 25 })
    }
    assert.deepStrictEqual(parameter("listMessages", "cursor").schema, { type: "string", format: "date-time" })
    assert.deepStrictEqual(parameter("listMessages", "mailboxId").schema, { type: "string", format: "uuid" })
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
    const upload = schemaOf("UploadAttachmentInput")["properties"] as Readonly<Record<string, Node>>
    assert.deepInclude(upload["filename"], { minLength: 1, maxLength: 255 })
    assert.deepInclude(upload["mediaType"], { minLength: 1, maxLength: 120 })
    assert.deepInclude(upload["contentBase64"], { contentEncoding: "base64" })
  })

  it("closes what the specification closes, and leaves the rest open", () => {
    const isClosed = (name: string) => schemaOf(name)["additionalProperties"] === false
    const inputs = ["SendMessageInput", "UpdateMessageInput", "UploadAttachmentInput"]
    for (const name of ["Mailbox", "Domain", "QueuedMessage", "Event", ...inputs, ...codes.map(schemaName)]) {
      assert.isTrue(isClosed(name), name)
    }
    for (const name of ["MessageSummary", "Message", "Attachment", "DownloadedAttachment", "MimePart"]) {
      assert.isFalse(isClosed(name), name)
    }
  })
})

describe("The docs page", () => {
  const page = DocsPage.render(document)

  it("asks for nothing from anywhere, and runs no script", () => {
    assert.notMatch(page, /<script|<link|<img|<iframe|@import|url\(|\son\w+=|src=/i)
    const links = [...page.matchAll(/href="([^"]*)"/g)].map(([, link]) => link!)
    assert.isAbove(links.length, 50)
    for (const link of links) assert.match(link, /^(#[\w-]+|\/openapi\.yaml)$/)
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
    assert.notMatch(page, /undefined|\[object Object\]|<td><\/td><td><\/td>/)
  })
})

/** Validates answers against the schema that the document has for them. */
const validator = () => {
  const ajv = new Ajv2020({ strict: false, allErrors: true })
  addFormats.default(ajv)
  ajv.addSchema({ $id: "document", ...document } as AnySchema) // keywords it does not know are let be
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
      assert.deepStrictEqual([root.status, root.headers.get("location")], [302, "/docs"])
    })
  )
})
