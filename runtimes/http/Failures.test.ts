import { assert, it, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { aroundEach } from "../../conformance/scenarios/Faults.ts"
import { StoreUnavailable, type Store } from "../../core/ports/Store.ts"
import * as Harness from "./harness.ts"

const live = { excludeTestServices: true }
const secretPath = "/srv/mail/db.sock: SELECT * FROM api_key"

/** A store whose every call fails in one way, once it is told to. */
const failing = () => {
  const state = { with: null as Effect.Effect<never, StoreUnavailable> | null }
  const wrap = (store: typeof Store.Service) => aroundEach(store, "Store", (_, effect) => Effect.suspend(() => state.with ?? effect))
  return { state, wrap }
}

const calls = (server: Harness.Harness) => [
  server.call("GET", "/v1/mailboxes"),
  server.call("GET", "/v1/messages"),
  server.call("GET", "/v1/events"),
  server.send(),
  server.call("PATCH", `/v1/messages/${crypto.randomUUID()}`, { body: { mailboxId: server.mailbox.id, isRead: true } }),
  server.call("POST", "/v1/attachments", { body: { mailboxId: server.mailbox.id, filename: "a", mediaType: "a/b", contentBase64: "" } }),
  server.call("GET", "/v1/webhook-endpoints"),
  server.call("GET", "/v1/webhook-deliveries"),
  server.call("POST", "/v1/webhook-endpoints", { body: { url: server.receivers.open().url, eventTypes: ["*"] } }),
  server.call("POST", `/v1/webhook-deliveries/${crypto.randomUUID()}/replay`)
]

it.live("A store that is away makes every operation answer 503, and /readyz too, and nobody is let in", () =>
  Effect.gen(function* () {
    const { state, wrap } = failing()
    const server = yield* Harness.start({ store: wrap })
    assert.strictEqual((yield* server.call("GET", "/v1/mailboxes")).status, 200)
    state.with = Effect.fail(new StoreUnavailable({ cause: new Error(secretPath) }))

    const replies = yield* Effect.all([...calls(server), server.call("GET", "/readyz")])

    for (const { status, json, text, headers } of replies) {
      assert.deepStrictEqual([status, json.code, json.error, json.details], [503, "unavailable", "Service Unavailable", {}])
      assert.isAtLeast(Number(headers.get("retry-after")), 1)
      assert.notInclude(text, "SELECT")
    }
    assert.strictEqual((yield* server.call("GET", "/healthz")).status, 200)
    for (const { json } of replies) {
      assert.isTrue(server.logs.some((line) => line.includes("SELECT") && line.includes(json.requestId)), "the cause is in the log")
      const ended = server.logs.filter((line) => line.includes("\"request\"") && line.includes(json.requestId))
      assert.isTrue(ended.length === 1 && ended[0]!.includes("\"WARN\""), "and so is the request, among the warnings")
    }
  }).pipe(Effect.scoped)
)

/** What `/readyz` answers while each commit ends like this, and reads are as ever. */
const readinessWhere = (committing: Effect.Effect<never, StoreUnavailable>) =>
  Effect.gen(function* () {
    let isOn = false
    const server = yield* Harness.start({
      store: (store) =>
        aroundEach(store, "Store", (call, effect) => Effect.suspend(() => (isOn && call === "Store.commit" ? committing : effect)))
    })
    isOn = true
    const reply = yield* server.call("GET", "/readyz")
    return { ...reply, logs: server.logs.join() }
  }).pipe(Effect.scoped)

it.live("A store that can be read and takes no writes makes /readyz answer 503 and say so", () =>
  Effect.gen(function* () {
    const { status, json, text, headers, logs } = yield* readinessWhere(Effect.fail(new StoreUnavailable({ cause: new Error(secretPath) })))

    assert.deepStrictEqual([status, json.code, json.details], [503, "unavailable", {}])
    assert.include(json.message, "takes no writes")
    assert.isAtLeast(Number(headers.get("retry-after")), 1)
    assert.notInclude(text, "SELECT")
    assert.include(logs, "SELECT")
  })
)

it.live("A store that is slow to commit is ready, for it may take what it is asked", () =>
  Effect.gen(function* () {
    assert.strictEqual((yield* readinessWhere(Effect.never)).status, 200)
  })
)

it.live("A store that does not answer makes /readyz answer 503, which does not say that it takes no writes, for it is asked for none", () =>
  Effect.gen(function* () {
    const asked: Array<string> = []
    let isSilent = false
    const silent = (call: string) => Effect.andThen(Effect.sync(() => void asked.push(call)), Effect.never)
    const server = yield* Harness.start({
      store: (store) => aroundEach(store, "Store", (call, effect) => Effect.suspend(() => (isSilent ? silent(call) : effect)))
    })
    isSilent = true

    const { status, json } = yield* server.call("GET", "/readyz")

    assert.strictEqual(status, 503)
    assert.notInclude(json.message, "writes")
    assert.notInclude(asked, "Store.commit")
  }).pipe(Effect.scoped)
)

it.live("A message that goes while it is looked at is answered with 404", () =>
  Effect.gen(function* () {
    const server = yield* Harness.start({ store: (store) => ({ ...store, messages: { ...store.messages, content: () => Effect.succeed(null) } }) })
    const { json } = yield* server.send()

    assert.strictEqual((yield* server.call("GET", `/v1/messages/${json.id}`)).status, 404)
  }).pipe(Effect.scoped)
)

it.live("A defect is answered with 500 that says nothing of it, and logged with its cause", () =>
  Effect.gen(function* () {
    const { state, wrap } = failing()
    const server = yield* Harness.start({ store: wrap })
    state.with = Effect.die(new Error(secretPath))

    for (const reply of yield* Effect.all(calls(server))) {
      const { status, json, text, headers } = reply
      assert.deepStrictEqual(Object.keys(json).sort(), ["code", "details", "error", "message", "requestId"])
      assert.deepStrictEqual([status, json.code, json.error, json.details], [500, "internal_error", "Internal Server Error", {}])
      assert.strictEqual(headers.get("x-request-id"), json.requestId)
      for (const told of ["SELECT", "/srv", "at ", "Error:"]) assert.notInclude(text, told)
    }
    assert.isTrue(server.logs.some((line) => line.includes("SELECT") && line.includes("ERROR")))
    const requests = server.logs.map((line) => JSON.parse(line)).filter(({ message, annotations }) => message === "request" && annotations.status === 500)
    assert.isAbove(requests.length, 0)
    for (const { level } of requests) assert.strictEqual(level, "WARN")
  }).pipe(Effect.scoped)
)

it.live("A twin of a request that is still running is told so", () =>
  Effect.gen(function* () {
    const isReached = yield* Deferred.make<void>()
    const mayGoOn = yield* Deferred.make<void>()
    let isSlow = false
    const server = yield* Harness.start({
      store: (store) => ({
        ...store,
        commit: (changes, jobs) =>
          Effect.suspend(() => (isSlow ? Effect.andThen(Deferred.succeed(isReached, undefined), Deferred.await(mayGoOn)) : Effect.void)).pipe(
            Effect.andThen(store.commit(changes, jobs))
          )
      })
    })
    isSlow = true
    const headers = { "idempotency-key": crypto.randomUUID() }
    const first = yield* Effect.forkChild(server.send({}, { headers }))
    yield* Deferred.await(isReached)

    const twin = yield* server.send({}, { headers })
    const other = yield* server.send({ text: "another" }, { headers })
    yield* Deferred.succeed(mayGoOn, undefined)

    assert.deepStrictEqual([twin.status, twin.json.code, twin.headers.get("retry-after")], [409, "idempotency_pending", "1"])
    assert.deepStrictEqual([other.status, other.json.code, other.headers.get("retry-after")], [409, "idempotency_conflict", null])
    assert.strictEqual((yield* Fiber.join(first)).status, 202)
  }).pipe(Effect.scoped)
)

it.live("A client who goes away is logged as such, and is no defect", () =>
  Effect.gen(function* () {
    const isReached = yield* Deferred.make<void>()
    const isGone = yield* Deferred.make<void>()
    let isSlow = false
    const server = yield* Harness.start({
      store: (store) => ({
        ...store,
        domains: {
          ...store.domains,
          list: (tenantId) =>
            isSlow
              ? Deferred.succeed(isReached, undefined).pipe(
                  Effect.andThen(Effect.never),
                  Effect.onInterrupt(() => Deferred.succeed(isGone, undefined))
                )
              : store.domains.list(tenantId)
        }
      })
    })
    isSlow = true
    const call = yield* Effect.forkChild(server.call("GET", "/v1/domains"))
    yield* Deferred.await(isReached)
    yield* Fiber.interrupt(call)
    yield* Deferred.await(isGone)
    // Another goes while it sends a body.
    const headers = [Harness.bearer(server), "Content-Type: application/json", "Content-Length: 100", "Idempotency-Key: 12345678"]
    for (const path of ["/v1/attachments", "/v1/messages"]) yield* server.raw(Harness.wire(`POST ${path}`, headers, "{\"to"), 100, 100)
    yield* Harness.eventually(() => server.logs.length === 3)

    const ended = server.logs.map((line) => JSON.parse(line).annotations as { operation: string; status: number }) // ours
    assert.deepStrictEqual(
      ended.map(({ operation, status }) => `${operation} ${status}`),
      ["listDomains 499", "uploadAttachment 499", "sendMessage 499"]
    )
    yield* server.requestLog.flush
    const entries = yield* Effect.orDie(server.store.audit.requests(server.tenantId, 10))
    assert.deepStrictEqual(entries.map(({ status }) => status), [499, 499, 499])
  }).pipe(Effect.scoped)
)

it.live("A request of a client who went away, and after whom it cannot be tidied up, is told of once, as a defect", () =>
  Effect.gen(function* () {
    const isReached = yield* Deferred.make<void>()
    const stuck = Effect.andThen(Deferred.succeed(isReached, undefined), Effect.never)
    const server = yield* Harness.start({
      store: (store) => ({
        ...store,
        domains: { ...store.domains, list: () => Effect.ensuring(stuck, Effect.die(new Error("what was open does not close"))) }
      })
    })
    const call = yield* Effect.forkChild(server.call("GET", "/v1/domains"))
    yield* Deferred.await(isReached)
    yield* Fiber.interrupt(call)
    const told = () => server.logs.map((line) => JSON.parse(line) as { annotations: { status?: number } }) // ours
    yield* Harness.eventually(() => told().some(({ annotations }) => annotations.status === 500))

    assert.deepStrictEqual(told().map(({ annotations }) => annotations.status ?? null), [null, 500])
    assert.isTrue(server.logs[0]!.includes("what was open does not close"))
    yield* server.requestLog.flush
    const entries = yield* Effect.orDie(server.store.audit.requests(server.tenantId, 10))
    assert.deepStrictEqual(entries.map(({ status }) => status), [500])
  }).pipe(Effect.scoped)
)

layer(Harness.layer(), live)("The HTTP runtime", (it) => {
  it.effect("answers with a request id of its own, a new one each time, and with headers that keep answers from caches", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const forged = crypto.randomUUID()
      const replies = yield* Effect.forEach(["/v1/mailboxes", "/v1/nothing", "/docs", "/openapi.yaml", "/", "/healthz"], (path) =>
        server.call("GET", path, { headers: { "x-request-id": forged } })
      )

      const ids = replies.map(({ headers }) => headers.get("x-request-id")!)
      assert.strictEqual(new Set([forged, ...ids]).size, replies.length + 1)
      for (const { headers } of replies) {
        assert.match(headers.get("x-request-id")!, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
        assert.strictEqual(headers.get("cache-control"), "no-store")
        assert.strictEqual(headers.get("x-content-type-options"), "nosniff")
      }
    })
  )

  it.effect("answers probes with the one word that tells how it is", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const replies = yield* Effect.forEach(["/healthz", "/readyz"], (path) => server.call("GET", path, { key: null }))

      assert.deepStrictEqual(replies.map(({ status, json }) => [status, json]), [[200, { status: "alive" }], [200, { status: "ready" }]])
    })
  )

  it.effect("answers that a domain may not send, with its health", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const party = yield* server.party()
      yield* Effect.orDie(server.management.setDomainSuspended(Harness.actor, party.tenantId, party.mailbox.domainId, true))

      const reply = yield* server.call("POST", "/v1/messages", {
        key: party.key,
        headers: { "idempotency-key": crypto.randomUUID() },
        body: { fromMailboxId: party.mailbox.id, to: ["a@mail.example"], text: "x" }
      })

      assert.deepStrictEqual([reply.status, reply.json.code], [409, "domain_not_sendable"])
      assert.deepStrictEqual(reply.json.details, { health: "suspended" })
    })
  )
})
