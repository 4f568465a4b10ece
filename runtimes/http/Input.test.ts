import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as Harness from "./harness.ts"

const live = { excludeTestServices: true }
const idempotent = () => ({ "idempotency-key": crypto.randomUUID() })

interface Case {
  readonly what: string
  readonly change: Readonly<Record<string, unknown>>
  /** The pointers of the faults; none: accepted. */
  readonly faults: ReadonlyArray<string>
}
const accepted = (what: string, change: Case["change"]): Case => ({ what, change, faults: [] })
const refused = (what: string, change: Case["change"], ...faults: ReadonlyArray<string>): Case => ({ what, change, faults })
const addresses = (count: number) => Array.from({ length: count }, (_, index) => `a${index}@mail.example`)

const sends: ReadonlyArray<Case> = [
  refused("no recipient", { to: [] }, "/to"),
  accepted("one recipient", { to: addresses(1) }),
  accepted("50 recipients in each role", { to: addresses(50), cc: addresses(50), bcc: addresses(50) }),
  refused("51 recipients in each role", { to: addresses(51), cc: addresses(51), bcc: addresses(51) }, "/bcc", "/cc", "/to"),
  refused("a recipient that is no address", { to: ["a@mail.example", "Ada <ada@mail.example>"] }, "/to/1"),
  refused("several faults at once", { to: ["x"], cc: ["y"], subject: 5, folder: "inbox" }, "/cc/0", "/folder", "/subject", "/to/0"),
  accepted("a subject of 998 characters", { subject: "x".repeat(998) }),
  refused("a subject of 999 characters", { subject: "x".repeat(999) }, "/subject"),
  accepted("a subject of 998 characters of two units each", { subject: "😀".repeat(998) }),
  refused("a subject of 999 characters of two units each", { subject: "😀".repeat(999) }, "/subject"),
  refused("a subject with a line break", { subject: "x\r\nBcc: eve@mail.example" }, "/subject"),
  accepted("a text of 1,000,000 characters", { text: "é".repeat(1_000_000) }),
  refused("a text of 1,000,001 characters", { text: "x".repeat(1_000_001) }, "/text"),
  accepted("an HTML text of 2,000,000 characters", { text: null, html: "😀".repeat(2_000_000) }),
  refused("an HTML text of 2,000,001 characters", { text: null, html: "x".repeat(2_000_001) }, "/html"),
  accepted("an empty text", { text: "" }),
  refused("neither text nor HTML", { text: null }, "/text"),
  refused("21 attachments", { attachmentIds: Array.from({ length: 21 }, () => crypto.randomUUID()) }, "/attachmentIds"),
  refused("an attachment id that is no UUID", { attachmentIds: ["x"] }, "/attachmentIds/0"),
  refused("a mailbox id that is no UUID", { fromMailboxId: "x" }, "/fromMailboxId"),
  refused("null for a list", { cc: null }, "/cc"),
  ...["tenantId", "id", "status", "appId", "scanState", "__proto__", "constructor", "toString", "a/b"].map((name) =>
    refused(`the member ${name}`, { [name]: "x" }, `/${name.replace("/", "~1")}`)
  )
]

/** Texts that are no good whatever operation they are sent to. */
const bodies: ReadonlyArray<readonly [what: string, body: string | Uint8Array<ArrayBuffer>, code: string]> = [
  ["an empty body", "", "empty_body"],
  ["malformed JSON", "{\"a\":", "malformed_json"],
  ["a list", "[]", "wrong_type"],
  ["a text", "\"x\"", "wrong_type"],
  ["a byte order mark", "\ufeff{}", "malformed_json"],
  ["UTF-16", new Uint8Array(Buffer.from("\ufeff{}", "utf16le")), "malformed_json"],
  ["UTF-16 without a mark", new Uint8Array(Buffer.from("{}", "utf16le")), "malformed_json"],
  ["bytes that are not UTF-8", new Uint8Array([...Buffer.from("{\"a\":\""), 0xc3, 0x28, ...Buffer.from("\"}")]), "invalid_text"],
  ["an overlong NUL", new Uint8Array([...Buffer.from("{\"a\":\""), 0xc0, 0x80, ...Buffer.from("\"}")]), "invalid_text"],
  ["a surrogate in UTF-8", new Uint8Array([...Buffer.from("{\"a\":\""), 0xed, 0xa0, 0x80, ...Buffer.from("\"}")]), "invalid_text"],
  ["a NUL byte", "{\"a\":\"\u0000\"}", "malformed_json"],
  ["an escaped NUL", "{\"a\":\"\\u0000\"}", "invalid_text"],
  ["an escaped half of a surrogate pair", "{\"a\":\"\\ud800\"}", "invalid_text"],
  ["a member given twice", "{\"a\":1,\"a\":1}", "duplicate_member"],
  ["10,000 levels of nesting", "{\"a\":".repeat(10_000) + "1" + "}".repeat(10_000), "too_deep"],
  ["a list of 8,000 items", `{"to":[${Array.from({ length: 8_000 }, () => 1).join()}]}`, "too_many"]
]

layer(Harness.layer(), live)("sendMessage", (it) => {
  for (const { what, change, faults } of sends) {
    it.effect(`${faults.length === 0 ? "takes" : "refuses"} ${what}`, () =>
      Effect.gen(function* () {
        const server = yield* Harness.Running
        const before = (yield* server.call("GET", "/v1/messages?limit=1")).text

        const reply = yield* server.send(change)

        if (faults.length === 0) return assert.strictEqual(reply.status, 202, reply.text.slice(0, 300))
        assert.strictEqual(reply.status, 400)
        assert.strictEqual(reply.json.code, "invalid_request")
        assert.deepStrictEqual(reply.json.details.issues.map(({ path }: { path: string }) => path).sort(), [...faults])
        assert.strictEqual((yield* server.call("GET", "/v1/messages?limit=1")).text, before)
      })
    )
  }

  it.effect("names the kind of each fault", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const faulty = { to: ["x"], subject: 5, text: 5, color: "red" }
      const update = { mailboxId: "x", folder: "outbox" }
      const kindsOf = ({ json }: Harness.Reply) =>
        json.details.issues.map(({ path, code }: { path: string; code: string }) => `${path} ${code}`)

      const sent = yield* server.call("POST", "/v1/messages", { body: faulty, headers: idempotent() })
      const updated = yield* server.call("PATCH", `/v1/messages/${crypto.randomUUID()}`, { body: update })

      assert.sameMembers(kindsOf(sent), [
        "/fromMailboxId required",
        "/to/0 invalid_value",
        "/subject wrong_type",
        "/text wrong_type",
        "/color unknown_member"
      ])
      assert.sameMembers(kindsOf(updated), ["/mailboxId invalid_value", "/folder invalid_value"])
    })
  )

  it.effect("takes what a client sent as defaults for what it left out", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const headers = idempotent()
      const first = yield* server.send({}, { headers })
      const lists = { bcc: [], cc: [], attachmentIds: [] }
      const again = yield* server.send({ ...lists, text: "The engine weaves", html: null, subject: "" }, { headers })

      assert.strictEqual(first.headers.get("idempotent-replayed"), null)
      assert.strictEqual(again.headers.get("idempotent-replayed"), "true")
      assert.deepStrictEqual([again.status, again.json], [first.status, first.json])
    })
  )

  for (const [length, status] of [[7, 400], [8, 202], [255, 202], [256, 400]] as const) {
    it.effect(`answers ${status} to an Idempotency-Key of ${length} characters`, () =>
      Effect.gen(function* () {
        const server = yield* Harness.Running
        const reply = yield* server.send({}, { headers: { "idempotency-key": "k".repeat(length) } })

        assert.strictEqual(reply.status, status)
        if (status === 400) assert.deepStrictEqual([reply.json.code, reply.json.details], ["invalid_idempotency_key", {}])
      })
    )
  }

  it.effect("takes a comma and a space for a part of an Idempotency-Key", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running

      assert.strictEqual((yield* server.send({}, { headers: { "idempotency-key": "order, 12345" } })).status, 202)
    })
  )

  it.effect("refuses a request without an Idempotency-Key, or with two", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const body = JSON.stringify({ fromMailboxId: server.mailbox.id, to: ["a@mail.example"], text: "x" })
      const headers = [Harness.bearer(server), "Content-Type: application/json", `Content-Length: ${body.length}`]
      for (const keys of [[], ["Idempotency-Key: 11111111", "Idempotency-Key: 22222222"]]) {
        const answer = yield* server.raw(Harness.wire("POST /v1/messages", [...headers, ...keys], body))

        assert.match(answer, /^HTTP\/1\.1 400 [^]*"code":"invalid_idempotency_key"/)
      }
    })
  )
})

layer(Harness.layer(), live)("A body", (it) => {
  const routes = [
    ["POST", "/v1/messages"],
    ["PATCH", `/v1/messages/${crypto.randomUUID()}`],
    ["POST", "/v1/attachments"],
    ["POST", "/v1/webhook-endpoints"]
  ] as const

  for (const [what, body, code] of bodies) {
    it.effect(`is refused if it is ${what}`, () =>
      Effect.gen(function* () {
        const server = yield* Harness.Running
        for (const [method, path] of routes) {
          const reply = yield* server.call(method, path, { body, headers: idempotent() })

          assert.strictEqual(reply.status, 400, reply.text)
          assert.strictEqual(reply.json.code, "invalid_request")
          const codes = reply.json.details.issues.map((issue: { code: string }) => issue.code)
          assert.deepStrictEqual(codes, [code], `${method} ${path}`)
        }
      })
    )
  }

  const types: ReadonlyArray<readonly [type: string | null, isTaken: boolean, headers?: Record<string, string>]> = [
    ["application/json", true],
    ["application/json; charset=utf-8", true],
    ["application/json; version=1", true],
    ["application/json;profile=\"https://example.com/a;b\\\"c\" ; charset=utf-8", true],
    ["application/json; version=1; charset=latin1", false],
    ["application/json; charset", false],
    ["application/json; version=a b", false],
    ["application/json ;", true],
    ["Application/JSON;charset=\"UTF-8\"", true],
    ["application/json", true, { "content-encoding": "identity" }],
    ["application/json", true, { "content-encoding": " Identity \t" }],
    [null, false],
    ["text/plain", false],
    ["application/json; charset=utf-16", false],
    ["application/json; boundary=x", true],
    ["application/x-www-form-urlencoded", false],
    ["multipart/form-data; boundary=x", false],
    ["application/jsonx", false],
    ["application/json", false, { "content-encoding": "gzip" }],
    ["application/json", false, { "content-encoding": "identity, gzip" }]
  ]
  for (const [type, isTaken, headers = {}] of types) {
    it.effect(`is ${isTaken ? "taken" : "refused"} as ${type ?? "nothing"} ${Object.values(headers).join()}`, () =>
      Effect.gen(function* () {
        const server = yield* Harness.Running
        const framings = [["Content-Length: 2", "{}"], ["Transfer-Encoding: Chunked \t", "2\r\n{}\r\n0\r\n\r\n"]] as const
        for (const [[method, path], [framing, body]] of routes.flatMap((route) => framings.map((framed) => [route, framed] as const))) {
          const sent = [
            Harness.bearer(server),
            "Idempotency-Key: 12345678",
            framing,
            "Connection: close",
            ...(type === null ? [] : [`Content-Type: ${type}`]),
            ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
          ]
          const answer = yield* server.raw(Harness.wire(`${method} ${path}`, sent, body))

          assert.match(answer, isTaken ? /^HTTP\/1\.1 400 [^]*"invalid_request"/ : /^HTTP\/1\.1 415 [^]*"unsupported_media_type"/)
        }
      })
    )
  }
})

layer(Harness.layer(), live)("A request", (it) => {
  it.effect("is not decoded from another transfer coding than chunked", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const headers = [Harness.bearer(server), "Idempotency-Key: 12345678", "Content-Type: application/json", "Transfer-Encoding: gzip, chunked"]

      const answer = yield* server.raw(Harness.wire("POST /v1/messages", headers, "2\r\n{}\r\n0\r\n\r\n"))

      assert.match(answer, /^HTTP\/1\.1 415 [^]*"unsupported_media_type"/)
    })
  )

  it.effect("that reads may have a body and two Idempotency-Keys, which are nobody's", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const headers = [Harness.bearer(server), "Idempotency-Key: 11111111", "Idempotency-Key: 22222222", "Content-Length: 3", "Connection: close"]

      assert.match(yield* server.raw(Harness.wire("GET /v1/mailboxes", headers, "[1]")), /^HTTP\/1\.1 200 /)
    })
  )

  it.effect("has the first hundred of its faults named", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running

      const { json } = yield* server.send({ to: Array.from({ length: 60 }, () => 1), cc: Array.from({ length: 60 }, () => 1) })

      assert.lengthOf(json.details.issues, 100)
      assert.strictEqual(json.details.issues[99].path, "/cc/39")
    })
  )
})

layer(Harness.layer(), live)("updateMessage", (it) => {
  const updates: ReadonlyArray<Case> = [
    refused("nothing to update", {}, ""),
    refused("a folder that is none", { folder: "outbox" }, "/folder"),
    refused("a flag that is no boolean", { isRead: 1, isStarred: "true" }, "/isRead", "/isStarred"),
    refused("the member status", { isRead: true, status: "sent" }, "/status"),
    refused("the member __proto__", { isRead: true, ["__proto__"]: {} }, "/__proto__"),
    accepted("all it may change", { isRead: false, isStarred: true, folder: "trash" })
  ]
  for (const { what, change, faults } of updates) {
    it.effect(`${faults.length === 0 ? "takes" : "refuses"} ${what}`, () =>
      Effect.gen(function* () {
        const server = yield* Harness.Running
        const { json: sent } = yield* server.send()
        const read = server.call("GET", `/v1/messages/${sent.id}`)
        const before = yield* read

        const body = { mailboxId: server.mailbox.id, ...change }
        const reply = yield* server.call("PATCH", `/v1/messages/${sent.id}`, { body })

        const after = yield* read
        if (faults.length === 0) {
          assert.deepStrictEqual(reply.json, { id: sent.id, updated: true })
          const { isRead, isStarred, folder } = after.json.message
          assert.deepStrictEqual({ isRead, isStarred, folder }, change)
        } else {
          assert.deepStrictEqual(reply.json.details.issues.map(({ path }: { path: string }) => path), [...faults])
          assert.strictEqual(after.text, before.text)
        }
      })
    )
  }
})

layer(Harness.layer(), live)("A query", (it) => {
  const queries: ReadonlyArray<readonly [query: string, fault: readonly [code: string, detail: unknown] | null]> = [
    ["limit=1", null],
    ["limit=100", null],
    ["limit=025", null],
    ["color=red&tenantId=x&limit=2", null],
    ["limit=0", ["invalid_request", "/limit"]],
    ["limit=101", ["invalid_request", "/limit"]],
    ["limit=", ["invalid_request", "/limit"]],
    ["limit=-1", ["invalid_request", "/limit"]],
    ["limit=1.0", ["invalid_request", "/limit"]],
    ["limit=1e1", ["invalid_request", "/limit"]],
    ["limit=0x10", ["invalid_request", "/limit"]],
    ["limit=%201", ["invalid_request", "/limit"]],
    [`limit=${"9".repeat(400)}`, ["invalid_request", "/limit"]],
    ["limit=1&limit=1", ["invalid_request", "/limit"]],
    ["cursor=", ["invalid_cursor", "malformed"]],
    ["cursor=x", ["invalid_cursor", "malformed"]],
    ["cursor=%00", ["invalid_cursor", "malformed"]],
    [`cursor=${encodeURIComponent("' or 1=1; --")}`, ["invalid_cursor", "malformed"]],
    [`cursor=${"e".repeat(512)}`, ["invalid_cursor", "malformed"]],
    [`cursor=${"e".repeat(513)}`, ["invalid_cursor", "malformed"]],
    ["cursor=x&cursor=y", ["invalid_request", "/cursor"]],
    ["cursor=2999-01-01T00:00:00Z", null]
  ]
  for (const [query, fault] of queries) {
    it.effect(`is ${fault === null ? "taken" : `answered with ${fault[0]}`}: ${query.slice(0, 40)}`, () =>
      Effect.gen(function* () {
        const server = yield* Harness.Running
        const paths = ["/v1/messages", "/v1/events", ...(query.startsWith("cursor") ? [] : ["/v1/webhook-deliveries"])]
        for (const path of paths) {
          const reply = yield* server.call("GET", `${path}?${query}`)

          if (fault === null) assert.strictEqual(reply.status, 200, reply.text)
          else {
            const [code, detail] = fault
            assert.strictEqual(reply.json.code, code)
            if (code === "invalid_cursor") assert.deepStrictEqual(reply.json.details, { reason: detail })
            else assert.deepStrictEqual(reply.json.details.issues.map(({ path }: { path: string }) => path), [detail])
          }
        }
      })
    )
  }

  it.effect("is told of a parameter that is given more than once, and of a faulty value as what it is", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const { json } = yield* server.call("GET", "/v1/messages?limit=5&limit=6&mailboxId=x")

      const [twice, faulty, ...more] = json.details.issues
      assert.deepStrictEqual(twice, { path: "/limit", code: "duplicate_member", message: "Expected this parameter once" })
      assert.deepStrictEqual([faulty.path, faulty.code, more], ["/mailboxId", "invalid_value", []])
    })
  )

  it.effect("with an old timestamp as events cursor is told that it is expired", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const reply = yield* server.call("GET", "/v1/events?cursor=2001-01-01T00:00:00Z")

      assert.deepStrictEqual([reply.status, reply.json.details], [400, { reason: "expired" }])
    })
  )

  it.effect("with another tenant's messages cursor shows one's own data only", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const stranger = yield* server.party()
      for (let count = 0; count < 3; count++) yield* server.send()
      const { json: page } = yield* server.call("GET", "/v1/messages?limit=1")
      assert.isString(page.nextCursor)

      const theirs = yield* server.call("GET", `/v1/messages?cursor=${page.nextCursor}`, { key: stranger.key })

      assert.strictEqual(theirs.status, 200)
      const own = yield* server.call("GET", "/v1/messages", { key: stranger.key })
      const ownIds = own.json.items.map(({ id }: { id: string }) => id)
      for (const { id } of theirs.json.items) assert.include(ownIds, id)
    })
  )

  it.effect("with another tenant's events cursor is refused", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const stranger = yield* server.party()
      yield* server.send()
      const { json: page } = yield* server.call("GET", "/v1/events?limit=1")
      assert.isString(page.nextCursor)

      const refused = yield* server.call("GET", `/v1/events?cursor=${page.nextCursor}`, { key: stranger.key })

      assert.deepStrictEqual([refused.status, refused.json.code, refused.json.details], [400, "invalid_cursor", { reason: "malformed" }])
    })
  )

  it.effect("pages through everything once", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* server.party()
      const body = { fromMailboxId: party.mailbox.id, to: ["a@mail.example"], text: "x" }
      for (let count = 0; count < 5; count++) {
        yield* server.call("POST", "/v1/messages", { key: party.key, headers: idempotent(), body })
      }
      for (const [path, total] of [["/v1/messages", 5], ["/v1/events", 7]] as const) {
        const seen: Array<string> = []
        let cursor: string | null = ""
        while (cursor !== null) {
          const query: string = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`
          const { json: page } = yield* server.call("GET", `${path}?limit=2${query}`, { key: party.key })
          seen.push(...page.items.map(({ id }: { id: string }) => id))
          cursor = page.nextCursor
        }

        assert.strictEqual(seen.length, total)
        assert.strictEqual(new Set(seen).size, total)
      }
    })
  )

  const ids = ["x", "%00", "%ff", "..%2f..%2fetc", "1".repeat(2_000), `${crypto.randomUUID()}%20`, "'--"]
  for (const id of ids) {
    it.effect(`is no matter to a path id that is no UUID: ${id.slice(0, 40)}`, () =>
      Effect.gen(function* () {
        const server = yield* Harness.Running
        const paths = [
          ["GET", `/v1/messages/${id}`, "/messageId"],
          ["PATCH", `/v1/messages/${id}`, "/messageId"],
          ["GET", `/v1/attachments/${id}/download`, "/attachmentId"],
          ["POST", `/v1/webhook-deliveries/${id}/replay`, "/deliveryId"]
        ] as const
        for (const [method, path, pointer] of paths) {
          const body = method === "PATCH" ? { mailboxId: server.mailbox.id, isRead: true } : undefined
          const reply = yield* server.call(method, path, { body })

          assert.strictEqual(reply.status, 400, reply.text)
          assert.deepStrictEqual(reply.json.details.issues.map((issue: { path: string }) => issue.path), [pointer])
        }
      })
    )
  }

  const unknown = [
    "/v1/messages/",
    "/V1/messages",
    "//v1/messages",
    "/v1//messages",
    "/v1/%6dessages",
    "/v1/messages;x=1",
    "/v1/messages/0199d6a0-7c4e-7b1a-9f3d-0000000000b2;x=1",
    "/v1/attachments//download",
    "/healthz/",
    "/v1/webhooks/../messages/",
    "/v1/webhooks/../messages",
    "/v1/%2e/messages",
    "/v1\\messages",
    "/v1/webhook-endpoints/",
    "/v1/webhook-deliveries//replay",
    "/v1/webhook-deliveries/x/replay/"
  ]
  it.effect("may have an id that is percent-encoded", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const { id } = (yield* server.send()).json

      const encoded = `%${id.charCodeAt(0).toString(16)}${id.slice(1).replaceAll("-", "%2D")}`
      const { status, json } = yield* server.call("GET", `/v1/messages/${encoded}`)

      assert.deepStrictEqual([status, json.message?.id], [200, id])
    })
  )

  for (const path of unknown) {
    it.effect(`is answered with 404 at ${path}`, () =>
      Effect.gen(function* () {
        const server = yield* Harness.Running
        for (const host of ["", "http://mail.example"]) {
          const answer = yield* server.raw(Harness.wire(`GET ${host}${path}`, [Harness.bearer(server), "Connection: close"]))

          assert.match(answer, /^HTTP\/1\.1 404 [^]*"code":"not_found"[^]*"details":\{\}/)
        }
      })
    )
  }

  it.effect("is taken as it was sent behind a host, which is no Host header", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const statusOf = (target: string, change = (request: string) => request) =>
        Effect.map(server.raw(change(Harness.wire(`GET ${target}`, [Harness.bearer(server), "Connection: close"]))), (answer) => answer.slice(9, 12))

      for (const at of ["http://mail.example", "HTTPS://mail.example:8443"]) {
        assert.strictEqual(yield* statusOf(`${at}/v1/mailboxes?x`), "200")
        for (const path of ["", "?x=/docs"]) assert.strictEqual(yield* statusOf(`${at}${path}`), "302")
        // The router has it as it is, too.
        assert.strictEqual(yield* statusOf(`${at}/providers/../notifications`, (request) => request.replace("GET", "POST")), "404")
        assert.strictEqual(yield* statusOf(`${at}/v1/mailboxes`, (request) => request.replace("Host: mail.example\r\n", "")), "400")
        assert.strictEqual(yield* statusOf(`${at}/v1/mailboxes`, (request) => request.replace("Host:", "Host: other.example\r\nHost:")), "400")
      }
    })
  )
})
