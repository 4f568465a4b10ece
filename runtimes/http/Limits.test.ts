import { assert, it, layer } from "@effect/vitest"
import { Clock, Effect } from "effect"
import * as Timestamp from "../../core/model/Timestamp.ts"
import * as Harness from "./harness.ts"

const live = { excludeTestServices: true }
const limitsOf = ({ headers }: Harness.Reply) => ["limit", "remaining", "reset"].map((name) => headers.get(`ratelimit-${name}`))

layer(Harness.layer({ ipRequestsPerMinute: 5 }), live)("The IP guard", (it) => {
  it.effect("accepts so many requests and not one more, whatever address is claimed, and says when to come back", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const claims = ["x-forwarded-for", "forwarded", "x-real-ip", "true-client-ip", "cf-connecting-ip"]
      const replies: Array<Harness.Reply> = []
      for (let count = 0; count < 7; count++) {
        const claimed = `203.0.113.${count}`
        const headers = Object.fromEntries(claims.map((name) => [name, name === "forwarded" ? `for=${claimed}` : claimed]))
        replies.push(yield* server.call("GET", "/v1/mailboxes", { headers }))
      }

      assert.deepStrictEqual(replies.map(({ status }) => status), [200, 200, 200, 200, 200, 429, 429])
      assert.deepStrictEqual(replies.map((reply) => limitsOf(reply)[1]), ["4", "3", "2", "1", "0", "0", "0"])
      const { json, headers } = replies[5]!
      const wait = Number(headers.get("retry-after"))
      assert.isAtLeast(wait, 1)
      assert.deepStrictEqual(json.details, { scope: "ip", limit: 5, windowSeconds: 60, retryAfterSeconds: wait })
      assert.deepStrictEqual(limitsOf(replies[5]!), ["5", "0", String(wait)])
      assert.strictEqual(headers.get("x-request-id"), json.requestId)
    })
  )
})

const behindProxy = Harness.layer({ ipRequestsPerMinute: 3, trustedProxies: ["127.0.0.0/8"] })

layer(behindProxy, live)("The IP guard behind a proxy of ours", (it) => {
  const from = (server: Harness.Harness, address: string) =>
    Effect.map(server.call("GET", "/v1/mailboxes", { headers: { "x-forwarded-for": address } }), ({ status }) => status)

  it.effect("counts each client by itself, an IPv6 client by its /64", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const ipv4 = ["203.0.113.1", "203.0.113.1", "203.0.113.1", "203.0.113.2", "203.0.113.1"]
      const ipv6 = ["2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::3", "2001:db8::4", "2001:db8:0:1::4"]

      assert.deepStrictEqual(yield* Effect.forEach(ipv4, (address) => from(server, address)), [200, 200, 200, 200, 429])
      assert.deepStrictEqual(yield* Effect.forEach(ipv6, (address) => from(server, address)), [200, 200, 200, 429, 200])
    })
  )

  it.effect("does not believe what the client wrote before the proxy's own hop", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const forged = ["1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"]
      const statuses = yield* Effect.forEach(forged, (address) => from(server, `${address}, 198.51.100.7`))

      assert.deepStrictEqual(statuses, [200, 200, 200, 429])
    })
  )
})

layer(Harness.layer({ planId: "tiny" }), live)("The plan", (it) => {
  it.effect("limits a key in a minute, and tells of the tightest guard", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const replies: Array<Harness.Reply> = []
      for (let count = 0; count < 4; count++) replies.push(yield* server.call("GET", "/v1/mailboxes"))

      assert.deepStrictEqual(replies.map(({ status }) => status), [200, 200, 200, 429])
      assert.deepStrictEqual(replies.map((reply) => limitsOf(reply).slice(0, 2).join()), ["3,2", "3,1", "3,0", "3,0"])
      const { scope, limit, windowSeconds } = replies[3]!.json.details
      assert.deepStrictEqual([scope, limit, windowSeconds], ["key", 3, 60])
    })
  )

  it.effect("limits the recipients of a day", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const { key, mailbox } = yield* server.party()
      const send = (to: ReadonlyArray<string>) =>
        server.send({}, { key, body: { fromMailboxId: mailbox.id, to, text: "x" } })
      assert.strictEqual((yield* send(["a@mail.example"])).status, 202)

      const refused = yield* send(["a@mail.example", "b@mail.example"])
      const untilMidnight = Timestamp.secondsToNextDay(yield* Clock.currentTimeMillis)

      const { json, headers, status } = refused
      assert.deepStrictEqual([status, json.code], [429, "quota_exceeded"])
      const wait = Number(headers.get("retry-after"))
      assert.approximately(wait, untilMidnight, 5)
      assert.deepStrictEqual(json.details, { limit: 2, used: 1, requested: 2, retryAfterSeconds: wait })
      assert.strictEqual((yield* send(["b@mail.example"])).status, 202)
    })
  )
})

it.live("A page of docs costs a request of the address and no other", () =>
  Effect.gen(function* () {
    const server = yield* Harness.start({ ipRequestsPerMinute: 10 })
    const docs = yield* server.call("GET", "/docs", { key: null })

    assert.deepStrictEqual(limitsOf(docs).slice(0, 2), ["10", "9"])
  }).pipe(Effect.scoped)
)
