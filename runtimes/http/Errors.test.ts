/**
 * What succeeds builds no error: each has its stack written down as it is built,
 * which takes as long as a good part of a request, and none is read.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Session } from "node:inspector/promises"
import * as Harness from "./harness.ts"
import { subscribe, upload } from "./parties.ts"
import { welcoming } from "./receivers.ts"

/** How many errors of Effect's are built meanwhile: V8 counts the calls of their constructors. */
const errorsOf = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const session = yield* Effect.acquireRelease(
      Effect.sync(() => new Session()),
      (session) => Effect.sync(() => session.disconnect())
    )
    session.connect()
    yield* Effect.promise(() => session.post("Profiler.enable"))
    yield* Effect.promise(() => session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false }))
    yield* work
    const { result } = yield* Effect.promise(() => session.post("Profiler.takePreciseCoverage"))
    const constructors = result
      .filter(({ url }) => url.includes("/effect/dist/internal/core.js"))
      .flatMap(({ functions }) => functions.filter(({ functionName }) => functionName === "Base"))
    return constructors.reduce((sum, { ranges }) => sum + ranges[0]!.count, 0)
  }).pipe(Effect.scoped)

layer(Harness.layer())((it) => {
  it.effect("is built by nothing between a send and its delivery, webhooks included, nor where it is asked for", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const { mailbox, call, send, settle } = server
      const receiver = server.receivers.open(welcoming)
      const succeeded = Effect.fnUntraced(function* (reply: Effect.Effect<Harness.Reply>, status: number) {
        const { json, ...answer } = yield* reply
        assert.strictEqual(answer.status, status)
        return json
      })
      const everything = Effect.gen(function* () {
        yield* succeeded(subscribe(server, server, receiver), 201)
        const { attachment } = yield* succeeded(upload(server, server), 201)
        yield* settle
        const again = { headers: { "idempotency-key": "order-4711" } }
        const input = { attachmentIds: [attachment.id] }
        const { id } = yield* succeeded(send(input, again), 202)
        yield* succeeded(send(input, again), 202)
        yield* settle
        const { message } = yield* succeeded(call("GET", `/v1/messages/${id}`), 200)
        assert.strictEqual(message.status, "sent")
        const { items: deliveries } = yield* succeeded(call("GET", "/v1/webhook-deliveries"), 200)
        assert.isNotEmpty(deliveries)
        for (const { status } of deliveries) assert.strictEqual(status, "delivered")
        for (const list of ["messages", "events", `messages?mailboxId=${mailbox.id}`]) yield* succeeded(call("GET", `/v1/${list}`), 200)
      })

      assert.strictEqual(yield* errorsOf(everything), 0)
      // A refusal builds some: they are seen where there are any.
      assert.isAbove(yield* errorsOf(succeeded(send({ to: [] }), 400)), 0)
    })
  )
})
