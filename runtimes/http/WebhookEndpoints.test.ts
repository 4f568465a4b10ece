/** Creating and listing webhook endpoints (Spec 4 and 6), over real sockets on our side and a directed transport on the other. */
import { assert, it, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { types } from "../../core/model/Event.ts"
import { WebhookUnanswered } from "../../core/ports/WebhookTransport.ts"
import * as Harness from "./harness.ts"
import { application, eventsOf, idsOf, subscribe } from "./parties.ts"
import { answered, welcoming, type Behaviour, type Posted, type Receiver } from "./receivers.ts"

const live = { excludeTestServices: true }
const version7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const millis = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const whole = /^whsec_[0-9a-f]{64}$/

const list = (server: Harness.Harness, { key }: Pick<Harness.Party, "key">) => server.call("GET", "/v1/webhook-endpoints", { key })

/** All that a create could leave behind. */
const traces = (server: Harness.Harness, party: Harness.Party) =>
  Effect.all([
    Effect.map(list(server, party), ({ text }) => text),
    eventsOf(server, party),
    Effect.map(Effect.orDie(server.store.audit.page(party.tenantId, 100)), (entries) => entries.map(({ id }) => id))
  ])

layer(Harness.layer(), live)("createWebhookEndpoint", (it) => {
  it.effect("answers 201 with the endpoint, enabled, and its secret, and nothing else", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const receiver = server.receivers.open()

      const { status, json } = yield* subscribe(server, server, receiver, { description: "Billing", eventTypes: ["message.sent", "*"] })

      assert.strictEqual(status, 201)
      const { id, createdAt } = json.endpoint
      assert.match(id, version7)
      assert.match(createdAt, millis)
      assert.match(json.secret, whole)
      assert.deepStrictEqual(json, {
        endpoint: {
          id,
          appId: server.application.id,
          url: receiver.url,
          description: "Billing",
          eventTypes: ["message.sent", "*"],
          enabled: true,
          consecutiveFailures: 0,
          disabledAt: null,
          createdAt
        },
        secret: json.secret
      })
    })
  )

  it.effect("posts one challenge before that, unsigned, and another one each time", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const receiver = server.receivers.open()
      const created = [yield* subscribe(server, server, receiver), yield* subscribe(server, server, receiver)]

      assert.deepStrictEqual(created.map(({ status }) => status), [201, 201])
      assert.lengthOf(receiver.posts, 2)
      for (const { url, headers, json } of receiver.posts) {
        assert.strictEqual(url, receiver.url)
        assert.deepStrictEqual(headers, { "content-type": "application/json", "user-agent": "Service-Webhooks/1.0" })
        const { id, occurredAt, data } = json
        assert.match(id, version7)
        assert.match(occurredAt, millis)
        assert.match(data.challenge, /^[0-9a-f]{64}$/)
        assert.deepStrictEqual(json, {
          id,
          type: "webhook.endpoint_verification",
          apiVersion: "2026-12-01",
          occurredAt,
          data: { challenge: data.challenge }
        })
      }
      const [first, second] = receiver.posts.map(({ json }) => json.data.challenge)
      assert.notStrictEqual(first, second)
      assert.notStrictEqual(created[0]!.json.secret, created[1]!.json.secret)
    })
  )

  it.effect("shows the secret this once: no other answer holds it, nor the log", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const { json } = yield* subscribe(server, server, server.receivers.open())
      const hidden = json.secret.slice("whsec_".length)

      const answers = yield* Effect.forEach(["webhook-endpoints", "webhook-deliveries", "events"], (name) => server.call("GET", `/v1/${name}`))

      assert.lengthOf(hidden, 64)
      for (const told of [...answers.map(({ text }) => text), ...server.logs]) {
        assert.notInclude(told, "whsec_")
        assert.notInclude(told, hidden)
      }
    })
  )

  interface Case {
    readonly what: string
    readonly change: Readonly<Record<string, unknown>>
    /** Pointer and kind of each fault, or what the endpoint shows. */
    readonly ends: ReadonlyArray<string> | object
  }
  const all = [...types]
  const inputs: ReadonlyArray<Case> = [
    { what: "no description", change: {}, ends: { description: null } },
    { what: "null for a description", change: { description: null }, ends: { description: null } },
    { what: "an empty description", change: { description: "" }, ends: { description: "" } },
    { what: "a description of 255 characters", change: { description: "x".repeat(255) }, ends: { description: "x".repeat(255) } },
    { what: "a description of 255 characters of two units each", change: { description: "😀".repeat(255) }, ends: { description: "😀".repeat(255) } },
    { what: "a description of 256 characters", change: { description: "x".repeat(256) }, ends: ["/description invalid_value"] },
    { what: "a description of 256 characters of two units each", change: { description: "😀".repeat(256) }, ends: ["/description invalid_value"] },
    { what: "a description that is no text", change: { description: 5 }, ends: ["/description wrong_type"] },
    { what: "one type", change: { eventTypes: ["domain.health_changed"] }, ends: { eventTypes: ["domain.health_changed"] } },
    { what: "every type by its name", change: { eventTypes: all }, ends: { eventTypes: all } },
    { what: "20 types, those that are given twice once", change: { eventTypes: [...all, ...all].slice(0, 20) }, ends: { eventTypes: all } },
    { what: "* and a type besides", change: { eventTypes: ["*", "message.sent", "*"] }, ends: { eventTypes: ["*", "message.sent"] } },
    { what: "no type", change: { eventTypes: [] }, ends: ["/eventTypes invalid_value"] },
    { what: "21 types", change: { eventTypes: [...all, ...all].slice(0, 21) }, ends: ["/eventTypes invalid_value"] },
    { what: "a type that is no text", change: { eventTypes: ["message.sent", 5] }, ends: ["/eventTypes/1 wrong_type"] },
    { what: "a text for the types", change: { eventTypes: "*" }, ends: ["/eventTypes wrong_type"] },
    { what: "null for the types", change: { eventTypes: null }, ends: ["/eventTypes wrong_type"] },
    { what: "no types at all", change: { eventTypes: undefined }, ends: ["/eventTypes required"] },
    { what: "no URL", change: { url: undefined }, ends: ["/url required"] },
    { what: "a number for the URL", change: { url: 5 }, ends: ["/url wrong_type"] },
    { what: "null for the URL", change: { url: null }, ends: ["/url wrong_type"] },
    { what: "a list of URLs", change: { url: ["https://hooks.example/"] }, ends: ["/url wrong_type"] },
    {
      what: "several faults at once",
      change: { url: 5, description: 5, eventTypes: [], color: "red" },
      ends: ["/color unknown_member", "/description wrong_type", "/eventTypes invalid_value", "/url wrong_type"]
    },
    ...["secret", "id", "appId", "applicationId", "tenantId", "enabled", "apiVersion", "__proto__", "constructor", "a/b"].map((name) => ({
      what: `the member ${name}`,
      change: { [name]: "x" },
      ends: [`/${name.replace("/", "~1")} unknown_member`]
    }))
  ]
  for (const { what, change, ends } of inputs) {
    it.effect(`${Array.isArray(ends) ? "refuses" : "takes"} ${what}`, () =>
      Effect.gen(function* () {
        const server = yield* Harness.Running
        const receiver = server.receivers.open()
        const before = yield* traces(server, server)

        const { status, json } = yield* subscribe(server, server, receiver, change)

        if (!Array.isArray(ends)) {
          assert.strictEqual(status, 201)
          assert.deepInclude(json.endpoint, ends)
          return
        }
        assert.deepStrictEqual([status, json.code], [400, "invalid_request"])
        const faults = json.details.issues.map(({ path, code }: { path: string; code: string }) => `${path} ${code}`)
        assert.deepStrictEqual(faults.sort(), [...ends])
        assert.lengthOf(receiver.posts, 0)
        assert.deepStrictEqual(yield* traces(server, server), before)
      })
    )
  }

  it.effect("refuses types that no event has, and says which and what there is", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const before = yield* traces(server, server)
      const wrong = [
        ["message.opened", "message.sent", "message.opened", "MESSAGE.SENT"],
        ["webhook.endpoint_verification"],
        ["message.*"],
        ["*", " *"],
        [""],
        ["toString"]
      ]
      for (const eventTypes of wrong) {
        const receiver = server.receivers.open()

        const { status, json } = yield* subscribe(server, server, receiver, { eventTypes })

        assert.deepStrictEqual([status, json.code], [400, "unsupported_event_type"])
        const unsupported = [...new Set(eventTypes)].filter((type) => !["message.sent", "*"].includes(type))
        assert.deepStrictEqual(json.details, { unsupported, supported: [...types, "*"] })
        assert.lengthOf(receiver.posts, 0)
      }
      assert.deepStrictEqual(yield* traces(server, server), before)
    })
  )

  const urls = [
    "",
    "hooks.example",
    "/mailroom",
    "//hooks.example/",
    "https:",
    "https://",
    "https:hooks.example",
    "http://hooks.example/",
    "ftp://hooks.example/",
    "javascript:alert(1)",
    "data:text/plain,x",
    "file:///etc/passwd",
    "https://user:password@hooks.example/",
    "https://user@hooks.example/",
    "https://@hooks.example/",
    "https://hooks.example/#part",
    "https://hooks.example/#",
    "https://hooks.example:22/",
    "https://hooks.example:80/",
    "https://hooks.example:6379/",
    "https://hooks.example:99999/",
    "https://hooks example/",
    "https://127.0.0.1/",
    "https://2130706433/",
    "https://0x7f.1/",
    "https://169.254.169.254/latest/meta-data/",
    "https://10.0.0.1/",
    "https://[::1]/",
    "https://[::ffff:10.0.0.1]/",
    "https://localhost/",
    "https://api.localhost/",
    `https://hooks.example/${"x".repeat(2_048)}`
  ]
  for (const url of urls) {
    it.effect(`calls no URL such as ${url.slice(0, 60)}`, () =>
      Effect.gen(function* () {
        const server = yield* Harness.Running
        const [before, posts] = [yield* traces(server, server), server.receivers.posts]

        const { status, json } = yield* server.call("POST", "/v1/webhook-endpoints", { body: { url, eventTypes: ["*"] } })

        assert.deepStrictEqual([status, json.code, json.details], [400, "invalid_webhook_url", { reason: "unsafe_url" }])
        assert.strictEqual(server.receivers.posts, posts)
        assert.deepStrictEqual(yield* traces(server, server), before)
      })
    )
  }

  it.effect("takes a URL of 2,048 characters, with a query and a high port, and keeps it as it is parsed", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const { url } = server.receivers.open()
      const { hostname } = new URL(url)
      const short = `https://${hostname}:8443/in?key=%20x`

      const long = yield* subscribe(server, server, { url: url.padEnd(2_048, "x") } as Receiver) // the URL is all it takes
      const odd = yield* subscribe(server, server, { url: `HTTPS://${hostname.toUpperCase()}:8443/a/../in?key=%20x` } as Receiver)

      assert.deepStrictEqual([long.status, long.json.endpoint?.url.length], [201, 2_048])
      assert.deepStrictEqual([odd.status, odd.json.endpoint?.url], [201, short])
    })
  )

  const answering = (answer: ReturnType<typeof answered>): Behaviour => () => Effect.succeed(answer)
  const echo = (change: (challenge: string) => unknown): Behaviour => ({ json }) => Effect.succeed(answered(200, change(json.data.challenge)))
  const secretBody = { banner: "internal-banner-8.4", path: "/srv/secret" }
  const refusals: ReadonlyArray<readonly [what: string, behave: Behaviour, reason: string]> = [
    ["is out of reach", () => Effect.fail(new WebhookUnanswered({ reason: "network_error", cause: new Error("connect 10.1.2.3:443") })), "network_error"],
    ["answers 404", answering(answered(404, secretBody)), "non_2xx"],
    ["answers 500 with the challenge", ({ json }) => Effect.succeed(answered(500, { challenge: json.data.challenge })), "non_2xx"],
    ["answers 199", answering(answered(199)), "non_2xx"],
    ...[300, 301, 302, 303, 304, 307, 308].map((status) => [`answers ${status}`, answering(answered(status, secretBody)), "redirect"] as const),
    ["answers nothing", answering(answered(200)), "invalid_json"],
    ["answers 204", answering(answered(204)), "invalid_json"],
    ["answers text", answering(answered(200, "internal-banner-8.4")), "invalid_json"],
    ["answers the bare challenge", echo((challenge) => challenge), "invalid_json"],
    ["answers a list", echo((challenge) => [challenge]), "invalid_json"],
    ["answers more than is read", ({ json }) => Effect.succeed(answered(200, { challenge: json.data.challenge }, { truncated: true })), "invalid_json"],
    ["answers bytes that are not UTF-8", answering(answered(200, "", { body: Buffer.from("{\"challenge\":\"\xff\"}", "latin1") })), "invalid_json"],
    ["answers an object without a challenge", answering(answered(200, secretBody)), "challenge_mismatch"],
    ["answers an empty challenge", echo(() => ({ challenge: "" })), "challenge_mismatch"],
    ["answers another challenge", echo((challenge) => ({ challenge: `${challenge.slice(0, -1)}x` })), "challenge_mismatch"],
    ["answers more than the challenge", echo((challenge) => ({ challenge: `${challenge}0` })), "challenge_mismatch"],
    ["answers the challenge in upper case", echo((challenge) => ({ challenge: challenge.toUpperCase() })), "challenge_mismatch"],
    ["answers a list as challenge", echo((challenge) => ({ challenge: [challenge] })), "challenge_mismatch"]
  ]
  for (const [what, behave, reason] of refusals) {
    it.effect(`refuses a receiver that ${what} as ${reason}, says nothing more of it, and stores nothing`, () =>
      Effect.gen(function* () {
        const server = yield* Harness.Running
        const before = yield* traces(server, server)
        const receiver = server.receivers.open(behave)

        const { status, json, text } = yield* subscribe(server, server, receiver)

        assert.deepStrictEqual([status, json.code, json.details], [400, "webhook_verification_failed", { reason }])
        for (const told of ["banner", "/srv", "10.1.2.3", new URL(receiver.url).hostname]) assert.notInclude(text, told)
        assert.lengthOf(receiver.posts, 1)
        assert.deepStrictEqual(yield* traces(server, server), before)
      })
    )
  }

  it.effect("names what may keep it from a receiver that it did not reach", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const receiver = server.receivers.open(() => Effect.fail(new WebhookUnanswered({ reason: "network_error", cause: new Error("self-signed certificate") })))

      const { json } = yield* subscribe(server, server, receiver)

      assert.include(json.message, "its name was not found, the connection was refused or broke off, or its certificate is not trusted")
    })
  )

  const welcomes: ReadonlyArray<readonly [what: string, behave: Behaviour]> = [
    ["200 and members besides", echo((challenge) => ({ challenge, name: "Billing" }))],
    ["202", ({ json }) => Effect.succeed(answered(202, { challenge: json.data.challenge }))],
    ["299", ({ json }) => Effect.succeed(answered(299, ` {"challenge":"${json.data.challenge}"}\n`))]
  ]
  for (const [what, behave] of welcomes) {
    it.effect(`takes a receiver that answers ${what}`, () =>
      Effect.gen(function* () {
        const server = yield* Harness.Running

        assert.strictEqual((yield* subscribe(server, server, server.receivers.open(behave))).status, 201)
      })
    )
  }

  it.effect("refuses a host that leads to an address that is not public as it refuses such an address", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const before = yield* traces(server, server)
      const receiver = server.receivers.open(() => Effect.fail(new WebhookUnanswered({ reason: "unsafe_url", cause: new Error("10.1.2.3") })))

      const { status, json, text } = yield* subscribe(server, server, receiver)

      assert.deepStrictEqual([status, json.code, json.details], [400, "invalid_webhook_url", { reason: "unsafe_url" }])
      assert.notInclude(text, "10.1.2.3")
      assert.deepStrictEqual(yield* traces(server, server), before)
    })
  )
})

it.effect("A receiver has five seconds for the challenge, and no more", () =>
  Effect.gen(function* () {
    const server = yield* Harness.start()
    const isReached = yield* Deferred.make<Posted>()
    const mayAnswer = yield* Deferred.make<void>()
    const slow: Behaviour = (posted) =>
      Effect.andThen(Deferred.succeed(isReached, posted), Effect.andThen(Deferred.await(mayAnswer), welcoming(posted)))
    const creating = yield* Effect.forkChild(subscribe(server, server, server.receivers.open(slow)))
    yield* Deferred.await(isReached)
    yield* TestClock.adjust("4999 millis")
    assert.isUndefined(creating.pollUnsafe())

    yield* TestClock.adjust("1 millis")
    const { status, json } = yield* Fiber.join(creating)

    assert.deepStrictEqual([status, json.code, json.details], [400, "webhook_verification_failed", { reason: "timeout" }])
    assert.deepStrictEqual((yield* list(server, server)).json.items, [])
  }).pipe(Effect.scoped)
)

it.live("createWebhookEndpoint answers 409 where an application has a hundred enabled endpoints", () =>
  Effect.gen(function* () {
    const server = yield* Harness.start({ ipRequestsPerMinute: 1_000 })
    const party = yield* server.party({ planId: "dev" })
    for (let count = 0; count < 100; count++) {
      assert.strictEqual((yield* subscribe(server, party, server.receivers.open())).status, 201)
    }
    const receiver = server.receivers.open()

    const { status, json } = yield* subscribe(server, party, receiver)

    assert.deepStrictEqual([status, json.code, json.error, json.details], [409, "too_many_endpoints", "Conflict", { limit: 100 }])
    assert.lengthOf(receiver.posts, 0)
  }).pipe(Effect.scoped)
)

/** A receiver that answers when it is told to, and how many requests wait for it. */
const patient = (server: Harness.Harness) => {
  const mayAnswer = Deferred.makeUnsafe<void>()
  const receiver = server.receivers.open((posted) => Effect.andThen(Deferred.await(mayAnswer), welcoming(posted)))
  return { receiver, answer: Deferred.succeed(mayAnswer, undefined), isWaiting: Harness.eventually(() => receiver.posts.length === 1) }
}

layer(Harness.layer(), live)("The handshakes under way", (it) => {
  const told = (headers: Headers) => ["retry-after", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"].map((name) => headers.get(name)).join(" ")
  const busy = ({ status, headers, json }: Harness.Reply) => [status, json.code, json.details, told(headers)]
  const handshake = (limit: number) => [429, "rate_limited", { scope: "handshake", limit, windowSeconds: 5, retryAfterSeconds: 5 }, `5 ${limit} 0 5`]

  it.effect("are five of an application at most; others are not held up, and an answer makes room", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* server.party()
      const sibling = yield* application(server, party, "sandbox")
      const waiting = Array.from({ length: 5 }, () => patient(server))
      const creating = yield* Effect.forEach(waiting, ({ receiver, isWaiting }) =>
        Effect.tap(Effect.forkChild(subscribe(server, party, receiver)), () => isWaiting)
      )
      const sixth = server.receivers.open()

      assert.deepStrictEqual(busy(yield* subscribe(server, party, sixth)), handshake(5))
      assert.lengthOf(sixth.posts, 0)
      assert.strictEqual((yield* subscribe(server, sibling, sixth)).status, 201)
      assert.strictEqual((yield* subscribe(server, server, sixth)).status, 201)
      assert.deepStrictEqual((yield* list(server, party)).json.items, [])

      yield* waiting[0]!.answer
      assert.strictEqual((yield* Fiber.join(creating[0]!)).status, 201)
      assert.strictEqual((yield* subscribe(server, party, sixth)).status, 201)
      for (const { answer } of waiting) yield* answer
      const ended = yield* Effect.forEach(creating, (fiber) => Fiber.join(fiber))
      assert.deepStrictEqual(ended.map(({ status }) => status), [201, 201, 201, 201, 201])
      assert.lengthOf((yield* list(server, party)).json.items, 6)
    })
  )

  it.effect("are one to a host at most, at whatever port: an application's next is refused, another application's waits", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const stranger = yield* server.party({ environment: "production" })
      const { receiver, answer, isWaiting } = patient(server)
      const { hostname } = new URL(receiver.url)
      const creating = yield* Effect.forkChild(subscribe(server, server, receiver))
      yield* isWaiting

      for (const url of [receiver.url, `https://${hostname.toUpperCase()}:8443/another`, `https://${hostname}./`]) {
        assert.deepStrictEqual(busy(yield* subscribe(server, server, receiver, { url })), handshake(1))
      }
      const waiting = yield* Effect.forkChild(subscribe(server, stranger, receiver))
      assert.strictEqual((yield* subscribe(server, stranger, server.receivers.open())).status, 201)
      assert.lengthOf(receiver.posts, 1)

      yield* answer
      for (const one of [creating, waiting]) assert.strictEqual((yield* Fiber.join(one)).status, 201)
    })
  )

  it.effect("that fail, or whose client goes away, make room as well", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* server.party()
      const isLeft = yield* Deferred.make<void>()
      const silent = server.receivers.open(() => Effect.onInterrupt(Effect.never, () => Deferred.succeed(isLeft, undefined)))
      const creating = yield* Effect.forkChild(subscribe(server, party, silent))
      yield* Harness.eventually(() => silent.posts.length === 1)
      yield* Fiber.interrupt(creating)
      yield* Deferred.await(isLeft)

      silent.behave = () => Effect.succeed(answered(500))
      for (let count = 0; count < 7; count++) {
        assert.strictEqual((yield* subscribe(server, party, silent)).json.code, "webhook_verification_failed")
      }
      silent.behave = welcoming
      assert.strictEqual((yield* subscribe(server, party, silent)).status, 201)
    })
  )
})

layer(Harness.layer(), live)("listWebhookEndpoints", (it) => {
  it.effect("lists the endpoints of the application, oldest first and as they were created, and nobody else's", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* server.party()
      const others = [
        yield* server.party(),
        yield* application(server, party, "sandbox"),
        yield* application(server, party, "production")
      ]
      assert.deepStrictEqual((yield* list(server, party)).json, { items: [] })
      const create = (of: Harness.Party) => Effect.map(subscribe(server, of, server.receivers.open()), ({ json }) => json.endpoint)
      const mine = [yield* create(party), yield* create(party), yield* create(party)]
      const theirs = yield* Effect.forEach(others, create)

      const { status, json } = yield* list(server, party)

      assert.strictEqual(status, 200)
      assert.deepStrictEqual(json, { items: mine })
      for (const [index, other] of others.entries()) {
        assert.deepStrictEqual(idsOf(yield* list(server, other)), [theirs[index].id])
      }
    })
  )

  it.effect("shows what became of an endpoint whose receiver fails", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* server.party()
      const receiver = server.receivers.open()
      const { json: created } = yield* subscribe(server, party, receiver)
      receiver.behave = () => Effect.succeed(answered(500))
      const test = { tenantId: party.tenantId, applicationId: party.application.id, type: "message.sent" as const }
      const sendTest = server.webhookManagement.sendTestEvent(Harness.actor, test)

      yield* Effect.orDie(sendTest)
      yield* server.settle
      const [once] = (yield* list(server, party)).json.items
      yield* Effect.orDie(sendTest)
      yield* server.settle
      const [often] = (yield* list(server, party)).json.items

      assert.deepStrictEqual(once, { ...created.endpoint, consecutiveFailures: 5 })
      assert.match(often.disabledAt, millis)
      assert.deepStrictEqual(often, { ...created.endpoint, consecutiveFailures: 10, enabled: false, disabledAt: often.disabledAt })
    })
  )
})
