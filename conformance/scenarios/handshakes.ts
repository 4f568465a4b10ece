/** Endpoints come to be: by an echoed challenge and in no other way, and their secrets are told once. */
import { Cause, Deferred, Effect, Exit, Fiber, Option, Redacted, Result, Scheduler } from "effect"
import * as assert from "node:assert/strict"
import { system } from "../../core/model/Audit.ts"
import { types, verificationType } from "../../core/model/Event.ts"
import * as Endpoints from "../../core/model/Endpoint.ts"
import type { Answer } from "../../core/model/Webhook.ts"
import { WebhookUnanswered } from "../../core/ports/WebhookTransport.ts"
import { Ahead, once } from "./Faults.ts"
import { broken, happen, hook, hookUrl, postsTo, respond, untilPosted } from "./Receivers.ts"
import * as Time from "./Time.ts"
import { answered, scenario, settle, welcoming, type Posted, type Process, type ScenarioSuite, type Tenancy, type World } from "./World.ts"

const input = (over: Partial<Parameters<Process["webhooks"]["createEndpoint"]>[1]> = {}) => ({
  url: hookUrl(),
  description: null,
  eventTypes: ["message.sent"],
  ...over
})

const create = (process: Process, { principal }: Tenancy, over: Parameters<typeof input>[0] = {}) =>
  process.webhooks.createEndpoint(principal, input(over))

/** What a refused creation must not leave behind. */
const assertNothing = (world: World, process: Process, of: Tenancy, label = "") =>
  Effect.gen(function* () {
    assert.deepEqual((yield* process.webhooks.listEndpoints(of.principal)).items, [], label)
    const audited = yield* world.store.audit.page(of.realm.tenantId, 100)
    assert.ok(!audited.some(({ action }) => action.startsWith("webhook_endpoint")), label)
  })

const assertNotLetIn = (world: World, process: Process, of: Tenancy, label: string) =>
  Effect.gen(function* () {
    const error = yield* Effect.flip(create(process, of))

    assert.equal(error._tag, "Unauthorized", label)
    yield* assertNothing(world, process, of, label)
  })

/** What an operator does to be called by somebody no more. */
const endings: Readonly<Record<string, (process: Process, of: Tenancy) => Effect.Effect<unknown, unknown>>> = {
  "the key is revoked": ({ management }, { realm, principal }) => management.revokeKey(system, realm.tenantId, principal.apiKeyId),
  "the application is suspended": ({ management }, { realm, application }) =>
    management.setApplicationStatus(system, realm.tenantId, application.id, "suspended"),
  "the tenant is suspended": ({ management }, { realm }) => management.setTenantStatus(system, realm.tenantId, "suspended")
}

const json = (text: string): Answer => ({ ...answered(200), body: new TextEncoder().encode(text) })
const challengeOf = ({ json }: Posted): string => json.data.challenge as string
const unanswered = (reason: "unsafe_url" | "network_error") => new WebhookUnanswered({ reason })

/** Answers with something that is made of the challenge. */
const echoing = (status: number, body: (challenge: string) => unknown) => (posted: Posted) =>
  Effect.succeed(answered(status, body(challengeOf(posted))))

/** Every way in which a receiver can fail to verify, and what its maker is told. */
const refusals: ReadonlyArray<readonly [what: string, receive: World["stage"]["receive"], reason: string]> = [
  ["404", echoing(404, () => undefined), "non_2xx"],
  ["500 with the challenge", echoing(500, (challenge) => ({ challenge })), "non_2xx"],
  ["a redirect with the challenge", echoing(302, (challenge) => ({ challenge })), "redirect"],
  ["another challenge", echoing(200, () => ({ challenge: "0".repeat(64) })), "challenge_mismatch"],
  ["the challenge in capitals", echoing(200, (challenge) => ({ challenge: challenge.toUpperCase() })), "challenge_mismatch"],
  ["the challenge and a digit more", echoing(200, (challenge) => ({ challenge: `${challenge}0` })), "challenge_mismatch"],
  ["the challenge less a digit", echoing(200, (challenge) => ({ challenge: challenge.slice(0, -1) })), "challenge_mismatch"],
  ["an empty object", echoing(200, () => ({})), "challenge_mismatch"],
  ["a challenge that is no text", echoing(200, () => ({ challenge: 7 })), "challenge_mismatch"],
  ["the challenge as plain text", (posted) => Effect.succeed(json(challengeOf(posted))), "invalid_json"],
  ["the challenge as a JSON text", echoing(200, (challenge) => challenge), "invalid_json"],
  ["a list", echoing(200, (challenge) => [{ challenge }]), "invalid_json"],
  ["nothing", echoing(200, () => undefined), "invalid_json"],
  [
    "more than is read",
    (posted) => Effect.map(echoing(200, (challenge) => ({ challenge }))(posted), (answer) => ({ ...answer, truncated: true })),
    "invalid_json"
  ],
  ["no connection", () => Effect.fail(unanswered("network_error")), "network_error"],
  ["a name that leads inside", () => Effect.fail(unanswered("unsafe_url")), "unsafe_url"]
]

export const suite: ScenarioSuite = {
  name: "webhook handshakes",
  checks: [
    scenario("an endpoint whose receiver echoes the challenge is created, enabled, and its creation is audited", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found()

        const { endpoint } = yield* create(process, of, { description: "Billing", url: "https://Hooks.Example:443/a/../b?c=d" })

        const { id, createdAt, ...rest } = endpoint
        assert.deepEqual(rest, {
          appId: of.application.id,
          url: "https://hooks.example/b?c=d",
          description: "Billing",
          eventTypes: ["message.sent"],
          enabled: true,
          consecutiveFailures: 0,
          disabledAt: null
        })
        assert.equal(createdAt, "1970-01-01T00:00:00.000Z")
        assert.deepEqual((yield* process.webhooks.listEndpoints(of.principal)).items, [endpoint])
        const audited = (yield* world.store.audit.page(of.realm.tenantId, 100)).filter(({ action }) => action === "webhook_endpoint.create")
        assert.deepEqual(audited.map(({ subject, actor }) => [subject.id, actor.id]), [[id, of.principal.apiKeyId]])
      })
    ),

    scenario("the handshake posts a challenge under its own type, and no signature or event id", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found()

        const { endpoint } = yield* create(process, of)

        const [posted, ...more] = world.stage.posts
        assert.equal(more.length, 0)
        assert.equal(posted!.url, endpoint.url)
        assert.deepEqual(posted!.headers, { "content-type": "application/json", "user-agent": "Service-Webhooks/1.0" })
        assert.deepEqual(Object.keys(posted!.json as object), ["id", "type", "apiVersion", "occurredAt", "data"])
        assert.equal(posted!.json.type, "webhook.endpoint_verification")
        assert.deepEqual(Object.keys(posted!.json.data as object), ["challenge"])
        const { items } = yield* process.events.list(of.principal, { limit: 100, cursor: null })
        assert.ok(!items.some(({ id }) => id === posted!.json.id))
      })
    ),

    scenario("each challenge and each secret is new, and holds 256 random bits", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found()
        const secrets = yield* Effect.forEach(Array.from({ length: 50 }), () => Effect.map(create(process, of), ({ secret }) => Redacted.value(secret)))

        const challenges = world.stage.posts.map(challengeOf)
        for (const challenge of challenges) assert.match(challenge, /^[0-9a-f]{64}$/)
        for (const secret of secrets) assert.match(secret, /^whsec_[0-9a-f]{64}$/)
        const random = [...challenges, ...secrets.map((secret) => secret.slice("whsec_".length))]
        assert.equal(new Set(random).size, 100)
        // 100 random texts share no byte at any place; a constant or a counter would.
        for (let place = 0; place < 64; place++) assert.ok(new Set(random.map((text) => text[place])).size >= 8, `place ${place}`)
      })
    ),

    scenario("the secret is told at creation, kept sealed, and shown nowhere again", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found()

        const { endpoint, secret } = yield* create(process, of)

        const stored = (yield* world.store.endpoints.get(of.realm, endpoint.id))!
        assert.ok(!JSON.stringify(stored, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value)).includes(Redacted.value(secret)))
        assert.equal(Redacted.value(yield* world.crypto.open(stored.secret, Endpoints.sealContext(stored))), Redacted.value(secret))
        const elsewhere = { tenantId: stored.tenantId, id: of.application.id as never } // another row
        assert.equal((yield* Effect.flip(world.crypto.open(stored.secret, Endpoints.sealContext(elsewhere))))._tag, "SealBroken")
        assert.ok(!JSON.stringify((yield* process.webhooks.listEndpoints(of.principal)).items).includes("whsec_"))
        assert.ok(!("secret" in endpoint))
      })
    ),

    ...refusals.map(([what, receive, reason]) =>
      scenario(`a receiver that answers with ${what} is refused: ${reason}, and nothing is stored`, (world) =>
        Effect.gen(function* () {
          const process = yield* world.boot()
          const of = yield* world.found()
          world.stage.receive = receive

          const error = yield* Effect.flip(create(process, of, { url: "https://target.example/" }))

          const tag = reason === "unsafe_url" ? "InvalidWebhookUrl" : "WebhookVerificationFailed"
          assert.deepEqual([error._tag, "reason" in error && error.reason], [tag, reason])
          const [posted] = world.stage.posts
          for (const text of ["target.example", challengeOf(posted!)]) assert.ok(!error.message.includes(text), `told: ${text}`)
          yield* assertNothing(world, process, of)
          world.stage.receive = welcoming
          yield* create(process, of)
        })
      )
    ),

    scenario("a receiver has five seconds to echo", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found()
        world.stage.receive = (posted) => Effect.delay(welcoming(posted), 5_001)
        const late = yield* Effect.forkChild(Effect.flip(create(process, of)))
        yield* untilPosted(world, 1)
        yield* Time.adjust(4_999)
        assert.equal(late.pollUnsafe(), undefined)
        yield* Time.adjust(1)
        const error = yield* Fiber.join(late)
        assert.deepEqual([error._tag, "reason" in error && error.reason], ["WebhookVerificationFailed", "timeout"])
        yield* assertNothing(world, process, of)

        world.stage.receive = (posted) => Effect.delay(welcoming(posted), 4_999)
        const punctual = yield* Effect.forkChild(create(process, of))
        yield* untilPosted(world, 2)
        yield* Time.adjust("5 seconds")

        assert.equal((yield* Fiber.join(punctual)).endpoint.enabled, true)
      })
    ),

    scenario("a type that cannot be subscribed is refused before the receiver hears of it, with those that can", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found()

        const error = yield* Effect.flip(create(process, of, { eventTypes: ["message.sent", "message.opened", verificationType, "message.opened"] }))

        assert.ok(error._tag === "UnsupportedEventType")
        assert.deepEqual(error.unsupported, ["message.opened", verificationType])
        assert.deepEqual(error.supported.toSorted(), [...types, "*"].toSorted())
        assert.equal(world.stage.posts.length, 0)
        yield* assertNothing(world, process, of)
      })
    ),

    scenario("types that are named twice are subscribed once, in the order given", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found()

        const { endpoint } = yield* create(process, of, { eventTypes: ["message.sent", "message.queued", "message.sent"] })
        const to = yield* hook(process, of, { eventTypes: ["message.queued", "message.queued", "*"] })
        yield* happen(process, of)
        yield* settle(process)

        assert.deepEqual(endpoint.eventTypes, ["message.sent", "message.queued"])
        assert.equal(postsTo(world, to).filter(({ json }) => json.type === "message.queued").length, 1)
      })
    ),

    scenario("a URL that may not be called is refused before anybody is called", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found()
        const urls = [
          "http://hooks.example/",
          "ftp://hooks.example/",
          "hooks.example",
          "",
          "https://127.0.0.1/",
          `https://hooks.example/${"a".repeat(2_048)}`
        ]

        for (const url of urls) {
          const error = yield* Effect.flip(create(process, of, { url }))
          assert.deepEqual([error._tag, "reason" in error && error.reason], ["InvalidWebhookUrl", "unsafe_url"], url)
        }

        assert.equal(world.stage.posts.length, 0)
        yield* assertNothing(world, process, of)
      })
    ),

    scenario("a caller who is let in no more when the receiver has echoed gets no endpoint", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        for (const [what, end] of Object.entries(endings)) {
          const of = yield* world.found()
          world.stage.receive = (posted) => Effect.andThen(Effect.orDie(end(process, of)), welcoming(posted))

          yield* assertNotLetIn(world, process, of, what)
        }
      })
    ),

    scenario("a caller who is let in no more when the endpoint is about to be stored gets none", (world) =>
      Effect.gen(function* () {
        const operator = yield* world.boot()
        for (const [what, end] of Object.entries(endings)) {
          const of = yield* world.found()
          const process = yield* world.boot(new Ahead("Store.commit", once(end(operator, of))))

          yield* assertNotLetIn(world, process, of, what)
        }
      })
    ),

    scenario("an application has five handshakes at a time, and the next when one ends", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const [of, other] = [yield* world.found(), yield* world.found()]
        const sibling = yield* world.foundApplication(of, "production")
        const gate = yield* Deferred.make<void>()
        world.stage.receive = (posted) => Effect.andThen(Deferred.await(gate), welcoming(posted))
        const held = yield* Effect.forEach([1, 2, 3, 4, 5], () => Effect.forkChild(create(process, of)))
        yield* untilPosted(world, 5)

        const error = yield* Effect.flip(create(process, of))
        assert.ok(error._tag === "HandshakesBusy")
        assert.equal(error.limit, 5)
        assert.equal(world.stage.posts.length, 5, "the sixth receiver hears nothing")
        const others = yield* Effect.forEach([other, sibling], (one) => Effect.forkChild(create(process, one)))
        yield* untilPosted(world, 7)
        yield* Deferred.succeed(gate, undefined)
        yield* Fiber.joinAll([...held, ...others])

        for (let again = 0; again < 6; again++) yield* create(process, of)
        assert.equal((yield* process.webhooks.listEndpoints(of.principal)).items.length, 11)
      })
    ),

    scenario("a host has one handshake at a time: its own next one is refused, another application's waits for the time of one", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const [of, other, third] = [yield* world.found(), yield* world.found(), yield* world.found()]
        const gate = yield* Deferred.make<void>()
        world.stage.receive = (posted) => Effect.andThen(Deferred.await(gate), welcoming(posted))
        const held = yield* Effect.forkChild(create(process, of, { url: "https://hooks.example/a" }))
        yield* untilPosted(world, 1)

        const waiting = yield* Effect.forkChild(create(process, other, { url: "https://HOOKS.example:8443/" }))
        for (const [one, url] of [[of, "https://hooks.example/b"], [of, "https://HOOKS.example:8443/"]] as const) {
          const error = yield* Effect.flip(create(process, one, { url }))
          assert.ok(error._tag === "HandshakesBusy")
          assert.equal(error.limit, 1)
        }
        yield* Time.adjust("4 seconds")
        assert.equal(world.stage.posts.length, 1, "who waits is not at the host yet")
        yield* Deferred.succeed(gate, undefined)
        yield* Fiber.joinAll([held, waiting])

        // Whom the host refused takes no place of the application's either.
        for (let again = 0; again < 5; again++) yield* create(process, of)

        world.stage.receive = () => Effect.never
        const url = "https://silent.example/"
        const posted = world.stage.posts.length
        const silent = yield* Effect.forkChild(Effect.exit(create(process, of, { url })))
        yield* untilPosted(world, posted + 1)
        yield* Time.adjust("1 second")
        const [second, refused] = [
          yield* Effect.forkChild(Effect.exit(create(process, other, { url }))),
          yield* Effect.forkChild(Effect.exit(create(process, third, { url })))
        ]
        yield* Time.adjust("4 seconds")
        yield* untilPosted(world, posted + 2)
        yield* Time.adjust("1 second")
        const tags = [yield* Fiber.join(silent)]
        yield* Time.adjust("5 seconds")
        tags.push(yield* Fiber.join(second), yield* Fiber.join(refused))
        const told = tags.map((exit) => (Exit.isFailure(exit) ? Option.getOrThrow(Cause.findErrorOption(exit.cause))._tag : "created"))
        assert.deepEqual(told.toSorted(), ["HandshakesBusy", "WebhookVerificationFailed", "WebhookVerificationFailed"])
      })
    ),

    scenario("an application has a hundred enabled endpoints, and the next when one is disabled", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found()
        const sibling = yield* world.foundApplication(of, "sandbox")
        const { endpoint } = yield* create(process, of)
        for (let count = 1; count < 100; count++) yield* create(process, of, { eventTypes: ["message.failed"] })
        const posted = world.stage.posts.length

        const error = yield* Effect.flip(create(process, of))

        assert.ok(error._tag === "TooManyEndpoints")
        assert.equal(error.limit, 100)
        assert.equal(world.stage.posts.length, posted, "its receiver hears nothing")
        yield* create(process, sibling)

        respond(world, () => broken)
        for (let count = 0; count < 10; count++) yield* happen(process, of)
        yield* settle(process)
        const { items } = yield* process.webhooks.listEndpoints(of.principal)
        assert.deepEqual(items.filter(({ enabled }) => !enabled).map(({ id }) => id), [endpoint.id])
        yield* create(process, of)
      })
    ),

    scenario("of endpoints whose receivers echo at the same time as many are created as there is room for", (world) =>
      Effect.gen(function* () {
        const [process, of] = [yield* world.boot(), yield* world.found()]
        for (let count = 0; count < 98; count++) yield* create(process, of)
        const posted = world.stage.posts.length
        const gate = yield* Deferred.make<void>()
        world.stage.receive = (posted) => Effect.andThen(Deferred.await(gate), welcoming(posted))
        const asked = yield* Effect.forEach([1, 2, 3, 4, 5], () => Effect.forkChild(Effect.result(create(process, of))))
        yield* untilPosted(world, posted + 5)

        yield* Deferred.succeed(gate, undefined)

        const answers = yield* Effect.forEach(asked, Fiber.join)
        assert.deepEqual(
          answers.map((answer) => (Result.isSuccess(answer) ? "created" : answer.failure._tag)).toSorted(),
          ["TooManyEndpoints", "TooManyEndpoints", "TooManyEndpoints", "created", "created"]
        )
        assert.equal((yield* process.webhooks.listEndpoints(of.principal)).items.length, 100)
      })
    ),

    scenario("of two processes that count at the same time only as many create an endpoint as there is room for", (world) =>
      Effect.gen(function* () {
        const [other, of] = [yield* world.boot(), yield* world.found()]
        let isAhead = false
        /** The other process's endpoint lands between this one's count and its commit. */
        const play = Effect.suspend(() => {
          if (!isAhead) return Effect.void
          isAhead = false
          return Effect.orDie(create(other, of))
        })
        const process = yield* world.boot(new Ahead("Store.commit", play))
        for (let count = 0; count < 97; count++) yield* create(other, of)
        const { items: before } = yield* other.webhooks.listEndpoints(of.principal)

        isAhead = true
        yield* create(process, of)
        isAhead = true
        const error = yield* Effect.flip(create(process, of))

        assert.equal(error._tag, "TooManyEndpoints")
        const { items } = yield* other.webhooks.listEndpoints(of.principal)
        assert.equal(items.length, 100)
        const ids = new Set(before.map(({ id }) => id))
        assert.deepEqual(items.filter(({ id }) => ids.has(id)), before)
        const audited = yield* world.store.audit.page(of.realm.tenantId, 200)
        assert.equal(audited.filter(({ action }) => action === "webhook_endpoint.create").length, 100)
      })
    ),

    scenario("a handshake whose asker hangs up, whose receiver fails, or is silent, frees its places", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found()
        const url = "https://hooks.example/"
        world.stage.receive = () => Effect.never
        for (let count = 0; count < 6; count++) {
          const left = yield* Effect.forkChild(create(process, of, { url }))
          yield* untilPosted(world, 2 * count + 1)
          yield* Fiber.interrupt(left)
          const silent = yield* Effect.forkChild(Effect.flip(create(process, of, { url })))
          yield* untilPosted(world, 2 * count + 2)
          yield* Time.adjust("5 seconds")
          assert.equal((yield* Fiber.join(silent))._tag, "WebhookVerificationFailed")
        }
        world.stage.receive = () => Effect.fail(unanswered("network_error"))
        for (let count = 0; count < 6; count++) yield* Effect.flip(create(process, of, { url }))
        world.stage.receive = () => Effect.die(new Error("a bug of the transport"))
        for (let count = 0; count < 6; count++) yield* Effect.exit(create(process, of, { url }))
        yield* assertNothing(world, process, of)

        world.stage.receive = welcoming
        assert.equal((yield* create(process, of, { url })).endpoint.enabled, true)
      })
    ),

    scenario("a handshake frees its places wherever its asker hangs up", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found()
        const url = "https://hooks.example/"
        world.stage.receive = () => Effect.never
        // A fiber stands still after so many steps: here at each of its first ones once.
        for (let steps = 2; steps <= 200; steps++) {
          const leaving = Effect.provideService(create(process, of, { url }), Scheduler.MaxOpsBeforeYield, steps)
          yield* Fiber.interrupt(yield* Effect.forkChild(leaving, { startImmediately: true }))
        }

        world.stage.receive = welcoming
        assert.equal((yield* create(process, of, { url })).endpoint.enabled, true)
      })
    ),

    scenario("endpoints are listed for their application alone, oldest first", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found("production")
        const others = [
          yield* world.foundApplication(of, "production"),
          yield* world.foundApplication(of, "sandbox"),
          yield* world.found("production")
        ]
        const created: Array<unknown> = []
        for (let count = 0; count < 3; count++) {
          created.push((yield* create(process, of)).endpoint)
          yield* Effect.forEach(others, (other) => create(process, other))
          yield* Time.adjust("1 second")
        }

        assert.deepEqual((yield* process.webhooks.listEndpoints(of.principal)).items, created)
        for (const other of others) assert.equal((yield* process.webhooks.listEndpoints(other.principal)).items.length, 3)
      })
    ),

    scenario("a store that is away when the receiver has echoed leaves no endpoint, and says so", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found()
        world.stage.receive = (posted) => Effect.tap(welcoming(posted), () => Effect.sync(() => void (world.stage.storeIsDown = true)))

        const error = yield* Effect.flip(create(process, of))
        world.stage.storeIsDown = false

        assert.equal(error._tag, "StoreUnavailable")
        yield* assertNothing(world, process, of)
      })
    )
  ]
}
