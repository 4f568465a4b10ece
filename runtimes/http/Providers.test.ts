import { assert, it } from "@effect/vitest"
import { Clock, Effect, Exit, Redacted, Scope } from "effect"
import { TestClock } from "effect/testing"
import { subscribe, unsubscribe } from "node:diagnostics_channel"
import { connect } from "node:net"
import { generate } from "selfsigned"
import * as FakeSes from "../../adapters/ses/FakeSes.ts"
import * as FakeSns from "../../adapters/ses/FakeSns.ts"
import * as SesMailProvider from "../../adapters/ses/SesMailProvider.ts"
import * as SesNotificationIntake from "../../adapters/ses/SesNotificationIntake.ts"
import type { SnsMessage } from "../../adapters/ses/SnsMessage.ts"
import * as PostmarkNotificationIntake from "../../adapters/postmark/PostmarkNotificationIntake.ts"
import type { Address } from "../../core/model/Address.ts"
import { intakeBytesMax, type NotificationIntake } from "../../core/ports/NotificationIntake.ts"
import { StoreUnavailable } from "../../core/ports/Store.ts"
import { WebhookTransport } from "../../core/ports/WebhookTransport.ts"
import { forStrangers } from "./BodyRoom.ts"
import * as Harness from "./harness.ts"

const [genuine, stranger] = [await generate([{ name: "commonName", value: "sns" }]), await generate([{ name: "commonName", value: "sns" }])]

/** Where the certificate is, and nothing else. */
const transport = WebhookTransport.of({
  post: () => Effect.die(new Error("nothing is posted")),
  get: ({ target }) =>
    Effect.succeed({
      status: target.href === FakeSns.certificateUrl ? 200 : 404,
      retryAfter: null,
      body: new TextEncoder().encode(genuine.cert),
      truncated: false
    })
})

const [bob, cyd] = ["bob@example.org", "cyd@example.org"]

interface Told {
  readonly by?: string
  readonly topic?: string
}

/** A server whose production mail goes to SES, with a message on its way to two people. */
const sending = Effect.fnUntraced(function* (options: Partial<Harness.Options> = {}): Effect.fn.Return<World, never, Scope.Scope> {
  const fake = yield* FakeSes.start
  const { accessKeyId, secretAccessKey } = FakeSes.credentials
  const production = yield* SesMailProvider.make({
    region: FakeSes.region,
    endpoint: fake.endpoint,
    credentials: { accessKeyId, secretAccessKey: Redacted.make(secretAccessKey) }
  })
  const ses = yield* Effect.provideService(SesNotificationIntake.make({ topics: [FakeSns.topic] }), WebhookTransport, transport)
  const postmark = PostmarkNotificationIntake.make({ secret: Redacted.make("the secret of the webhook") })
  const server = yield* Harness.start({ production, intakes: [ses, postmark], ...options })
  const party = yield* server.party({ environment: "production" })
  const { json } = yield* server.send({}, { key: party.key, body: { fromMailboxId: party.mailbox.id, to: [bob, cyd], text: "Hi" } })
  yield* server.settle
  const post = (body: BodyInit, name = "ses", headers: Readonly<Record<string, string>> = {}) =>
    server.call("POST", `/providers/${name}/notifications`, { key: null, body, headers: { "content-type": "text/plain; charset=UTF-8", ...headers } })
  const bodyOf = (event: object, { by = genuine.private, topic = FakeSns.topic }: Told = {}) => {
    const mail = { messageId: fake.sent[0]!.messageId, timestamp: "2026-12-01T09:30:00.000Z" }
    const text = JSON.stringify({ mail, ...event })
    const message: SnsMessage = FakeSns.message(text, Date.now(), { TopicArn: topic })
    return new TextDecoder().decode(FakeSns.request(FakeSns.signed(message, by)).body)
  }
  return {
    server,
    party,
    fake,
    post,
    bodyOf,
    status: Effect.map(server.call("GET", `/v1/messages/${json.id}`, { key: party.key }), (reply) => reply.json.message.status as string),
    events: Effect.map(server.call("GET", "/v1/events?limit=100", { key: party.key }), (reply) =>
      (reply.json.items as ReadonlyArray<{ readonly type: string }>).map(({ type }) => type).filter((type) => type.startsWith("message."))
    )
  }
})

interface World {
  readonly server: Harness.Harness
  readonly party: Harness.Party
  readonly fake: FakeSes.FakeSes
  readonly post: (body: BodyInit, name?: string, headers?: Readonly<Record<string, string>>) => Effect.Effect<Harness.Reply>
  readonly bodyOf: (event: object, told?: Told) => string
  readonly status: Effect.Effect<string>
  readonly events: Effect.Effect<ReadonlyArray<string>>
}

const delivery = (...recipients: ReadonlyArray<string>) => ({
  eventType: "Delivery",
  delivery: { timestamp: "2026-12-01T09:30:05.000Z", recipients, smtpResponse: "250 2.0.0 Ok" }
})
const bounce = (emailAddress: string) => ({
  eventType: "Bounce",
  bounce: {
    bounceType: "Permanent",
    bounceSubType: "General",
    timestamp: "2026-12-01T09:30:06.000Z",
    bouncedRecipients: [{ emailAddress, action: "failed", status: "5.1.1", diagnosticCode: "smtp; 550 5.1.1 no mailbox of that name" }]
  }
})

it.live("What SES says by SNS becomes events and a suppression, once, in whatever order and however often it is said", () =>
  Effect.gen(function* () {
    const { server, party, bodyOf, post, status, events } = yield* sending()
    assert.deepStrictEqual([yield* status, yield* events], ["sent", ["message.queued", "message.sent"]])
    const [bounced, delivered] = [bodyOf(bounce(cyd)), bodyOf(delivery(bob, cyd))]

    for (const body of [bounced, delivered, bounced, delivered, delivered]) {
      const reply = yield* post(body)
      assert.deepStrictEqual([reply.status, reply.text], [200, ""])
    }
    yield* server.settle

    assert.strictEqual(yield* status, "bounced")
    const types = yield* events
    assert.deepStrictEqual(types.toSorted(), ["message.bounced", "message.delivered", "message.queued", "message.sent"])
    const realm = { tenantId: party.tenantId, environment: "production" } as const
    const suppressed = yield* Effect.orDie(server.store.suppressions.among(realm, [bob as Address, cyd as Address])) // they are
    assert.deepStrictEqual(suppressed.map(({ address, reason }) => [address, reason]), [[cyd, "bounce"]])
    const kept = yield* Effect.orDie(server.store.audit.payloads("ses", 10))
    assert.deepStrictEqual(kept.map(({ kind, text, notifications }) => [kind, text, notifications]), [["Delivery", delivered, 2], ["Bounce", bounced, 1]])
  }).pipe(Effect.scoped)
)

it.live("What SES did not say changes nothing, leaves nothing, and is not told why", () =>
  Effect.gen(function* () {
    const { server, bodyOf, post, status, events } = yield* sending()
    const body = bodyOf(bounce(cyd))
    const forged = [
      bodyOf(bounce(cyd), { by: stranger.private }),
      bodyOf(bounce(cyd), { topic: "arn:aws:sns:eu-central-1:999999999999:mailroom" }),
      body.replace("5.1.1", "5.1.2"),
      body.replace(cyd, bob),
      body.replace("eu-central-1.amazonaws.com/Simple", "eu-central-1.amazonaws.com.evil.example/Simple"),
      "{}",
      "",
      "[".repeat(100_000)
    ]

    for (const text of forged) {
      const reply = yield* post(text)
      assert.deepStrictEqual([reply.status, reply.text], [403, ""], text.slice(0, 200))
    }
    const postmark = JSON.stringify({ RecordType: "SpamComplaint", Email: cyd, BouncedAt: "2026-12-01T09:30:00Z" })
    for (const authorization of ["", "Basic cG9zdG1hcms6c2VjcmV0", "Bearer the secret of the webhook"]) {
      assert.strictEqual((yield* post(postmark, "postmark", { authorization })).status, 403)
    }
    yield* server.settle

    assert.strictEqual(yield* status, "sent")
    assert.deepStrictEqual(yield* events, ["message.queued", "message.sent"])
    assert.deepStrictEqual(yield* Effect.orDie(server.store.audit.payloads(null, 10)), [])
  }).pipe(Effect.scoped)
)

it.live("The way in is open to what configured providers post, and to nothing else", () =>
  Effect.gen(function* () {
    const { server, bodyOf, post } = yield* sending()
    const body = bodyOf(delivery(bob))

    assert.strictEqual((yield* post(body, "sendmail")).json.code, "not_found")
    assert.strictEqual((yield* post(body, "Ses")).status, 404)
    assert.strictEqual((yield* post(body, "%73es")).status, 404)
    assert.strictEqual((yield* server.call("GET", "/providers/ses/notifications", { key: null })).status, 405)
    assert.strictEqual((yield* post(body, "ses/more")).status, 404)
    assert.strictEqual((yield* post(body, "s".repeat(8_000))).status, 404)
    // Before its body, which nobody is there for.
    assert.match(yield* server.raw(Harness.wire("POST /providers/nobody/notifications", ["Content-Length: 262144"])), /^HTTP\/1\.1 404 /)
    // And before one that is too large, which would wait for room that there never is.
    const announced = Harness.wire("POST /providers/ses/notifications", [`Content-Length: ${intakeBytesMax + 1}`])
    assert.match(yield* server.raw(announced), /^HTTP\/1\.1 413 /)
    const tooLarge = yield* post(" ".repeat(intakeBytesMax + 1))
    assert.deepStrictEqual([tooLarge.status, tooLarge.json.code, tooLarge.json.details], [413, "payload_too_large", { limitBytes: intakeBytesMax }])
    assert.strictEqual((yield* post(body)).status, 200)
    assert.notInclude((yield* server.call("GET", "/openapi.yaml", { key: null })).text, "/providers/")
  }).pipe(Effect.scoped)
)

it.live("Bodies of one stranger that do not end hold up nobody else's, and none that has come whole", () =>
  Effect.gen(function* () {
    const { server } = yield* sending({ trustedProxies: ["127.0.0.1"] })
    let reached = 0
    const met = () => void (reached += 1)
    subscribe("http.server.request.start", met)
    const announced = (address: string, length: number) =>
      Harness.wire("POST /providers/ses/notifications", [`X-Forwarded-For: ${address}`, `Content-Length: ${length}`, "Connection: close"])
    // Whoever has one address of IPv6 has a whole /64 of them.
    const places = forStrangers.mostOfCaller / intakeBytesMax
    const slow = Array.from({ length: places }, () => connect(server.port, "127.0.0.1").on("error", () => {}))
    for (const socket of slow) socket.write(announced("2001:db8:0:1::1", intakeBytesMax))
    yield* Harness.eventually(() => reached === places)
    const one = (address: string, body = "") => {
      const socket = connect(server.port, "127.0.0.1")
      let answer = ""
      socket.on("data", (chunk) => (answer += chunk.toString()))
      socket.write(`${announced(address, 2)}${body}`)
      return { socket, answer: () => answer }
    }
    const whole = one("2001:db8:0:1::2", "{}")
    yield* Harness.eventually(() => whole.answer().startsWith("HTTP/1.1 403 "))
    const own = one("2001:db8:0:1::3")
    yield* Harness.eventually(() => reached === places + 2)
    const other = one("2001:db8:0:2::1")
    yield* Harness.eventually(() => reached === places + 3)

    own.socket.write("{}")
    other.socket.write("{}")

    yield* Harness.eventually(() => other.answer().startsWith("HTTP/1.1 403 "))
    assert.strictEqual(own.answer(), "", "one's own wait")
    slow[0]!.destroy()
    yield* Harness.eventually(() => own.answer().startsWith("HTTP/1.1 403 "))
    for (const socket of [...slow, whole.socket, own.socket, other.socket]) socket.destroy()
    unsubscribe("http.server.request.start", met)
  }).pipe(Effect.scoped)
)

it.effect("A stranger whose bodies do not come is told so in ten seconds, and told to stop like any other", () =>
  Effect.gen(function* () {
    const intakes = [PostmarkNotificationIntake.make({ secret: Redacted.make("the secret of the webhook") })]
    const server = yield* Harness.start({ intakes, ipRequestsPerMinute: 5 })
    const since = yield* Clock.currentTimeMillis
    const seconds = Effect.map(Clock.currentTimeMillis, (now) => (now - since) / 1_000)
    let closed = 0
    const answers = Array.from({ length: 8 }, () => {
      const socket = connect(server.port, "127.0.0.1")
      const answer = { text: "" }
      socket.on("data", (chunk) => (answer.text += chunk.toString())).on("end", () => socket.end()).on("close", () => (closed += 1))
      socket.write(Harness.wire("POST /providers/postmark/notifications", [`Content-Length: ${intakeBytesMax}`], "{"))
      return answer
    })

    while (closed < answers.length && (yield* seconds) < 60) {
      assert.isTrue((yield* seconds) >= 10 || answers.every(({ text }) => text === ""))
      yield* TestClock.adjust("100 millis")
      yield* Effect.promise(() => new Promise(setImmediate))
    }

    const [late, stopped] = ["408", "429"].map((status) => answers.filter(({ text }) => text.startsWith(`HTTP/1.1 ${status} `)))
    assert.deepStrictEqual([late!.length, stopped!.length], [5, 3])
    for (const { text } of late!) assert.include(text, `"code":"request_timeout"`)
    for (const { text } of answers) assert.match(text, /\r\nConnection: close\r\n/i)
  }).pipe(Effect.scoped)
)

it.live("A notification is asked for again until it is committed", () =>
  Effect.gen(function* () {
    let isDown = false
    const { server, bodyOf, post, status } = yield* sending({
      store: (store) => ({
        ...store,
        commit: (...of) => Effect.suspend(() => (isDown ? Effect.fail(new StoreUnavailable({ cause: "down" })) : store.commit(...of)))
      })
    })
    const body = bodyOf(delivery(bob, cyd))
    isDown = true
    const unavailable = yield* post(body)
    isDown = false

    assert.deepStrictEqual([unavailable.status, unavailable.headers.get("retry-after")], [503, "5"])
    assert.lengthOf(server.logs.filter((line) => line.includes("\"down\"") && line.includes(unavailable.json.requestId)), 1, "why is in the log")
    assert.strictEqual(yield* status, "sent")
    assert.strictEqual((yield* post(body)).status, 200)
    yield* server.settle
    assert.strictEqual(yield* status, "delivered")
  }).pipe(Effect.scoped)
)

it.live("A burst of a provider passes the IP guard, and who is refused over and over is told to stop", () =>
  Effect.gen(function* () {
    const { bodyOf, post } = yield* sending({ ipRequestsPerMinute: 20 })
    const bursts = yield* Effect.forEach(Array.from({ length: 60 }), () => post(bodyOf(delivery(bob))), { concurrency: 10 })
    assert.deepStrictEqual([...new Set(bursts.map((reply) => reply.status))], [200])

    const refused = yield* Effect.forEach(Array.from({ length: 40 }), () => post("{}"))

    assert.strictEqual(refused[0]?.status, 403)
    assert.strictEqual(refused.at(-1)?.status, 429)
    assert.isNotNull(refused.at(-1)?.headers.get("retry-after"))
  }).pipe(Effect.scoped)
)

it.live("Who posts for providers that there are none of is told to stop, too", () =>
  Effect.gen(function* () {
    const server = yield* Harness.start({ ipRequestsPerMinute: 20 })

    const refused = yield* Effect.forEach(Array.from({ length: 40 }), (_, index) =>
      server.call("POST", `/providers/p${index}/notifications`, { key: null, body: "{}" })
    )

    assert.deepStrictEqual([refused[0]?.status, refused.at(-1)?.status], [404, 429])
    assert.strictEqual((yield* server.call("POST", "/providers/;/notifications", { key: null, body: "{}" })).status, 429)
  }).pipe(Effect.scoped)
)

it.live("Whoever is refused at the way in by another method, without a Host, or by the body is told to stop, too", () =>
  Effect.gen(function* () {
    const path = "/providers/postmark/notifications"
    const intakes = [PostmarkNotificationIntake.make({ secret: Redacted.make("the secret of the webhook") })]
    const announced = `Content-Length: ${intakeBytesMax + 1}`
    const requests = [
      Harness.wire(`GET ${path}`),
      Harness.wire(`POST ${path}`, ["Content-Length: 0"]).replace("Host: mail.example\r\n", ""),
      Harness.wire(`POST ${path}`, [announced]),
      Harness.wire(`POST ${path}`, ["Transfer-Encoding: chunked"], `${(intakeBytesMax + 1).toString(16)}\r\n${" ".repeat(intakeBytesMax + 1)}\r\n0\r\n\r\n`)
    ]
    for (const request of requests) {
      const server = yield* Harness.start({ intakes, ipRequestsPerMinute: 2 })

      const answers = yield* Effect.forEach([1, 2, 3], () => server.raw(request.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")))

      assert.match(answers[0]!, /^HTTP\/1\.1 4(?:00|05|13) /)
      assert.match(answers.at(-1)!, /^HTTP\/1\.1 429 /)
    }
  }).pipe(Effect.scoped)
)

it.live("The log joins a notification to its request and its message, and holds nothing of what it says", () =>
  Effect.gen(function* () {
    const { server, bodyOf, fake, post } = yield* sending()
    const good = yield* post(bodyOf(bounce(cyd)))
    const bad = yield* post(bodyOf(bounce(cyd), { by: stranger.private }))
    yield* post("{}", "postmark", { authorization: "Basic c2VjcmV0LW9mLXRoZS13ZWJob29r" })

    const lines = server.logs.map((line) => JSON.parse(line) as { readonly message: string; readonly annotations: Record<string, unknown> }) // ours
    const of = (reply: Harness.Reply) => lines.filter(({ annotations }) => annotations["requestId"] === reply.headers.get("x-request-id"))
    const recorded = of(good).find(({ message }) => message === "a provider's notification is recorded")
    assert.deepInclude(recorded?.annotations, { provider: "ses", kind: "Bounce", notifications: 1 })
    assert.deepInclude(of(good).at(-1)?.annotations, { method: "POST", route: "/providers/ses/notifications", status: 200, code: null })
    assert.deepInclude(of(bad).at(-1)?.annotations, { status: 403, reason: "bad_signature" })
    const log = server.logs.join("\n")
    for (const told of [cyd, fake.sent[0]!.messageId, "5.1.1", "c2VjcmV0", genuine.cert.split("\n")[1]!]) assert.notInclude(log, told)
  }).pipe(Effect.scoped)
)

it.live("A provider that is still posting when the server stops is told so, which is no fault of ours to tell of", () =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    const intakes = [PostmarkNotificationIntake.make({ secret: Redacted.make("the secret of the webhook") })]
    const server = yield* Scope.provide(Harness.start({ intakes, grace: "1300 millis" }), scope)
    const slow = connect(server.port, "127.0.0.1")
    let answer = ""
    slow.on("data", (chunk) => (answer += chunk.toString()))
    slow.write(Harness.wire("POST /providers/postmark/notifications", ["Content-Length: 2"])) // which never come
    yield* server.call("GET", "/v1/mailboxes") // by its answer the other has been read, too

    yield* Scope.close(scope, Exit.void)

    yield* Harness.eventually(() => slow.closed)
    const requestId = /\r\nx-request-id: (\S+)/i.exec(answer)?.[1] ?? "none"
    assert.match(answer, /^HTTP\/1\.1 503 /)
    assert.lengthOf(server.logs.filter((line) => line.includes(requestId)), 1)
  }).pipe(Effect.scoped)
)

it.live("A notification that cannot be verified now is asked for again, and nothing is kept of it", () =>
  Effect.gen(function* () {
    const intake: NotificationIntake = yield* Effect.provideService(
      SesNotificationIntake.make({ topics: [FakeSns.topic] }),
      WebhookTransport,
      WebhookTransport.of({ ...transport, get: () => Effect.succeed({ status: 503, retryAfter: null, body: new Uint8Array(), truncated: false }) })
    )
    const { server, bodyOf, post } = yield* sending({ intakes: [intake] })

    const reply = yield* post(bodyOf(delivery(bob)))

    assert.deepStrictEqual([reply.status, reply.json.code, reply.headers.get("retry-after")], [503, "unavailable", "5"])
    assert.deepStrictEqual(yield* Effect.orDie(server.store.audit.payloads(null, 10)), [])
    const told = server.logs.filter((line) => line.includes(reply.json.requestId) && line.includes("the certificate's host answered 503"))
    assert.lengthOf(told.filter((line) => line.includes("the notification cannot be verified now")), 1, "the log tells it from a store that is away")
  }).pipe(Effect.scoped)
)
