import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Layer, Logger, Scope } from "effect"
import { TestClock } from "effect/testing"
import { CheckDomains } from "./jobs/CheckDomains.ts"
import { EventRelay } from "./jobs/EventRelay.ts"
import { Sweep } from "./jobs/Sweep.ts"
import { Worker } from "./jobs/Worker.ts"
import { RequestLog } from "./operations/RequestLog.ts"
import * as Loops from "./Loops.ts"

const nothing = Effect.succeed(0)

const quietRelay = Layer.succeed(EventRelay, { tick: nothing, ended: Effect.void, release: Effect.void })

const silentLog = { append: () => undefined, touch: () => undefined }

const withWorker = (run: (typeof Worker.Service)["run"], relay: Layer.Layer<EventRelay> = quietRelay, release: Effect.Effect<void> = Effect.void, cutOff: Effect.Effect<void> = Effect.void) =>
  Layer.provide(
    Loops.working,
    Layer.mergeAll(
      Layer.mock(Worker, { run, release, cutOff, recordTaken: Effect.void }),
      relay,
      Layer.mock(Sweep, { tick: nothing, retain: Effect.void }),
      Layer.mock(CheckDomains, { tick: nothing })
    )
  )

describe("the loops", () => {
  const ways: ReadonlyArray<readonly [how: string, end: Effect.Effect<never>]> = [
    ["breaks", Effect.die(new Error("the queue's driver broke"))],
    ["is interrupted by an adapter", Effect.interrupt]
  ]
  for (const [how, end] of ways) {
    it.effect(`go on with a worker that ${how} over and over, and leave time between`, () =>
      Effect.gen(function* () {
        let [begun, told] = [0, 0]
        const broken = Effect.suspend(() => {
          begun += 1
          return end
        })
        const scope = yield* Scope.make()
        yield* Layer.buildWithScope(withWorker(() => broken), scope).pipe(
          Effect.provide(Logger.layer([Logger.make(() => void (told += 1))]))
        )

        yield* TestClock.adjust("1 minute")
        const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
        yield* TestClock.adjust("1 second")
        yield* Fiber.join(closing)

        assert.isAtLeast(begun, 30)
        assert.isAtMost(begun, 120)
        assert.strictEqual(told, begun)
      })
    )
  }

  it.effect("are over as soon as the jobs are that were under way", () =>
    Effect.gen(function* () {
      const jobs = yield* Deferred.make<void>()
      const scope = yield* Scope.make()
      yield* Layer.buildWithScope(withWorker(() => Deferred.await(jobs)), scope)

      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      yield* TestClock.adjust("1 second")
      const early = closing.pollUnsafe()
      yield* Deferred.succeed(jobs, undefined)
      yield* TestClock.adjust("10 millis")
      const late = closing.pollUnsafe()
      yield* TestClock.adjust("1 minute")
      yield* Fiber.join(closing)

      assert.isUndefined(early)
      assert.isDefined(late)
    })
  )

  for (const how of ["does its work", "breaks", "is interrupted by an adapter"] as const) {
    it.effect(`go round each at its own pace, also where it ${how}`, () =>
      Effect.gen(function* () {
        const times: Record<string, number> = {}
        const tick = (name: string) =>
          Effect.suspend(() => {
            times[name] = (times[name] ?? 0) + 1
            if (how === "breaks") return Effect.die(new Error("a bug"))
            return how === "does its work" ? nothing : Effect.interrupt
          })
        const loops = Layer.provide(
          Loops.layer,
          Layer.mergeAll(
            Layer.mock(Worker, { run: () => Effect.never, cutOff: Effect.void, release: Effect.void, recordTaken: Effect.asVoid(tick("taken")) }),
            Layer.succeed(EventRelay, { tick: tick("relay"), ended: Effect.void, release: Effect.void }),
            Layer.mock(Sweep, { tick: tick("sweep"), retain: Effect.asVoid(tick("retain")) }),
            Layer.mock(CheckDomains, { tick: tick("domains") }),
            Layer.succeed(RequestLog, { ...silentLog, flush: tick("flush") })
          )
        )
        const scope = yield* Scope.make()
        yield* Effect.provide(Layer.buildWithScope(loops, scope), Logger.layer([]))
        assert.deepStrictEqual(times, { sweep: 1 }, "the first at once")

        yield* TestClock.adjust("10 minutes")

        assert.deepStrictEqual(times, { relay: 12_000, flush: 600, taken: 600, sweep: 61, domains: 60, retain: 1 })
        const closing = yield* Effect.forkChild(Effect.exit(Scope.close(scope, Exit.void)))
        yield* TestClock.adjust("11 seconds")
        yield* Fiber.join(closing)
        assert.deepStrictEqual([times["flush"], times["taken"]], [601, 601], "once more on the way out")
      })
    )
  }

  it.effect("relay to the end of the log in one go", () =>
    Effect.gen(function* () {
      const pages = [2, 1, 0]
      const relay = Layer.mock(EventRelay, { tick: Effect.sync(() => pages.shift() ?? 0) })
      yield* Layer.buildWithScope(withWorker(() => Effect.never, relay), yield* Scope.make())

      yield* TestClock.adjust("50 millis")

      assert.deepStrictEqual(pages, [])
    })
  )

  it.effect("end with what the relay has begun, its shards left to others at once; put off what takes longer than ten seconds, and then give it back", () =>
    Effect.gen(function* () {
      const relayed = yield* Deferred.make<void>()
      let cut = yield* Deferred.make<void>()
      const did: Array<string> = []
      const say = (what: string) => Effect.sync(() => void did.push(what))
      const closed = Effect.fnUntraced(function* (work: () => Effect.Effect<void>) {
        did.length = 0
        cut = yield* Deferred.make<void>()
        const scope = yield* Scope.make()
        const relay = Layer.succeed(EventRelay, { tick: nothing, ended: Deferred.await(relayed), release: say("leave") })
        const release = Effect.andThen(say("release"), Effect.never)
        const cutOff = Effect.andThen(say("cut off"), Deferred.succeed(cut, undefined))
        yield* Layer.buildWithScope(withWorker(() => Effect.onInterrupt(work(), () => say("interrupted")), relay, release, cutOff), scope)
        return yield* Effect.forkChild(Scope.close(scope, Exit.void))
      })

      const early = yield* closed(() => Effect.void)
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual([early.pollUnsafe(), did], [undefined, ["leave"]], "nobody waits for the jobs of this process")
      yield* Deferred.succeed(relayed, undefined)
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(early)

      const slow = yield* closed(() => Deferred.await(cut))
      yield* TestClock.adjust("9999 millis")
      assert.deepStrictEqual(did, ["leave"])
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(did, ["leave", "cut off", "release"], "it ended by itself then")
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(slow)

      const hung = yield* closed(() => Effect.never)
      yield* TestClock.adjust("10999 millis")
      assert.deepStrictEqual(did, ["leave", "cut off"])
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual([hung.pollUnsafe(), did], [undefined, ["leave", "cut off", "interrupted", "release"]])
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(hung) // though the queue does not answer
    })
  )

  it.effect("in one tick do all that is due, again until nothing is left", () =>
    Effect.gen(function* () {
      const did: Array<string> = []
      const note = (name: string, counts: Array<number> = []) =>
        Effect.sync(() => {
          did.push(name)
          return counts.shift() ?? 0
        })
      const services = Layer.mergeAll(
        Layer.mock(Worker, { tick: note("work", [3, 1]), recordTaken: Effect.asVoid(note("taken")) }),
        Layer.mock(EventRelay, { tick: note("relay", [0, 2]), ended: Effect.asVoid(note("relayed")) }),
        Layer.mock(Sweep, { tick: note("sweep") }),
        Layer.mock(CheckDomains, { tick: note("domains") }),
        Layer.succeed(RequestLog, { ...silentLog, flush: note("flush") })
      )

      assert.strictEqual(yield* Effect.provide(Loops.tick, services), 6)
      assert.deepStrictEqual(did, ["taken", "sweep", "domains", "relay", "work", "relay", "work", "relay", "work", "relayed", "flush"])
    })
  )
})
