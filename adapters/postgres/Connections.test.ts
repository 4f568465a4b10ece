import type { PgConnection } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Cause, Deferred, Duration, Effect, Exit, Fiber, Random, Scheduler, Scope } from "effect"
import { AuthenticationError, SqlError, UnknownError } from "effect/sql/SqlError"
import { onTestFinished, vi } from "vitest"
import { collect } from "../../conformance/Garbage.ts"
import { times } from "../../conformance/StoreLaw.ts"
import * as Connections from "./Connections.ts"

/** The pool imports its timers; these are the global ones, as a test has replaced them. */
vi.mock("node:timers", () => ({
  setTimeout: (run: () => void, ms: number) => globalThis.setTimeout(run, ms),
  clearTimeout: (timer: NodeJS.Timeout) => globalThis.clearTimeout(timer)
}))

/** Effect's clock has this one, whatever stands in its place later. */
const { hrtime } = process

type Connection = PgConnection.PgConnection
const nobody = () => ({}) as Connection // what runs on it is up to the test, and none of it is used

const started = <A, E>(effect: Effect.Effect<A, E>) => Effect.forkChild(effect, { startImmediately: true })

const errorOf = (code: string) =>
  new SqlError({ reason: new UnknownError({ cause: Object.assign(new Error(code), { code }), message: code, operation: "query" }) })

/** What becomes of a statement; after these the connection is of no use. */
const useless = ["lost", "ended", "refused", "on its way out", "late", "left"] as const
const ends = ["well", "well", "wrong", ...useless] as const
type End = (typeof ends)[number]

describe("a connection", () => {
  for (const seed of times(4, (seed) => `seed ${seed}`)) {
    it.live(`has one statement at a time, whose answer is its caller's, and none once it is of no use (${seed})`, () =>
      Effect.gen(function* () {
        const scope = yield* Scope.make()
        const [useless, inUse, onEnds] = [new Set<Connection>(), new Set<Connection>(), new Map<Connection, () => void>()]
        let open = 0
        let openMax = 0
        const connections = yield* Scope.provide(
          Connections.make({
            connectionsMax: 3,
            ageMax: Duration.minutes(30),
            open: (onEnd) =>
              Effect.acquireRelease(
                Effect.sync(() => {
                  openMax = Math.max(openMax, (open += 1))
                  const connection = nobody()
                  onEnds.set(connection, onEnd)
                  return connection
                }),
                () => Effect.sync(() => void (open -= 1))
              )
          }),
          scope
        )
        const statement = (connection: Connection, end: End, number: number, begun: Deferred.Deferred<void>) =>
          Effect.suspend((): Effect.Effect<number, SqlError> => {
            if (useless.has(connection) || inUse.has(connection)) return Effect.die(`it is ${useless.has(connection) ? "of no use" : "in use"}`)
            inUse.add(connection)
            queueMicrotask(() => Deferred.doneUnsafe(begun, Effect.void)) // a server's answer is never there at once
            if (end !== "well" && end !== "wrong") useless.add(connection)
            if (end === "well") return Effect.as(Effect.yieldNow, number)
            if (end === "late" || end === "left") return Effect.never
            if (end === "ended") onEnds.get(connection)!()
            return Effect.fail(end === "wrong" ? errorOf("22P02") : end === "refused" ? errorOf("25006") : end === "on its way out" ? errorOf("57P01") : Connections.lost(end))
          }).pipe(Effect.ensuring(Effect.sync(() => inUse.delete(connection))))
        const call = Effect.fnUntraced(function* (number: number, list: ReadonlyArray<End>, isHeld: boolean) {
          const begun = list.map(() => Deferred.makeUnsafe<void>())
          const at = list.findIndex((end) => end !== "well" && end !== "wrong")
          const run = isHeld
            ? Effect.scoped(
                Effect.flatMap(connections.hold, (held) =>
                  Effect.forEach(list.slice(0, at < 0 ? list.length : at + 1), (end, index) =>
                    Effect.exit(connections.bounded(held, statement(held.connection, end, number, begun[index]!)))
                  )
                )
              )
            : Effect.forEach(list, (end, index) => Effect.exit(connections.run((connection) => statement(connection, end, number, begun[index]!))))
          const fiber = yield* started(Effect.provideService(run, Connections.StatementDeadline, Duration.millis(list.includes("late") ? 1 : 10_000)))
          const left = list.indexOf("left")
          if (left >= 0) yield* Effect.andThen(Effect.raceFirst(Deferred.await(begun[left]!), Fiber.await(fiber)), Fiber.interrupt(fiber))
          const exit = yield* Fiber.await(fiber)
          if (Exit.isFailure(exit)) return assert.isFalse(Cause.hasDies(exit.cause), Cause.pretty(exit.cause))
          exit.value.forEach((one, index) => {
            if (Exit.isFailure(one)) assert.isFalse(Cause.hasDies(one.cause), Cause.pretty(one.cause))
            // While another's has but a millisecond, who waits for a connection may be late, too.
            if (Exit.isSuccess(one)) assert.deepStrictEqual([list[index], one.value], ["well", number])
            else if (!list.includes("late")) assert.notStrictEqual(list[index], "well")
          })
        })

        for (const round of times(20, (round) => round)) {
          const calls = times(12, (place) =>
            Effect.gen(function* () {
              const list = yield* Effect.forEach(times(3, () => 0), () => Effect.map(Random.nextIntBetween(0, ends.length, { halfOpen: true }), (index) => ends[index]!))
              yield* call(12 * round + place, list, yield* Random.nextBoolean)
            })
          )
          yield* Effect.all(calls, { concurrency: "unbounded" })
          assert.deepStrictEqual(connections.counts(), { busy: 0, waiting: 0 })
          for (const [connection, onEnd] of round % 2 === 0 ? onEnds : []) {
            useless.add(connection)
            onEnd() // while nobody has it
          }
        }

        assert.strictEqual(openMax, 3)
        yield* Scope.close(scope, Exit.void)
        assert.strictEqual(open, 0)
      }).pipe(Random.withSeed(seed))
    )
  }

  it.live("is there for the next, wherever who wants it stands still and is interrupted", () =>
    Effect.gen(function* () {
      const connections = yield* Connections.make({ connectionsMax: 1, ageMax: Duration.minutes(30), open: () => Effect.sync(nobody) })
      for (const use of [Effect.scoped(connections.hold), connections.run(() => Effect.void)]) {
        for (let ops = 2; ops <= 60; ops++) {
          // A fiber stands still after so many steps: here at each of its first ones once.
          const caller = yield* started(Effect.provideService(use, Scheduler.MaxOpsBeforeYield, ops))
          yield* Fiber.interrupt(caller)
          assert.deepStrictEqual(connections.counts(), { busy: 0, waiting: 0 }, `after ${ops} steps`)
        }
      }
    })
  )

  it.live("is refused at once by a database that is closed, also to who waits for one", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const connections = yield* Scope.provide(Connections.make({ connectionsMax: 1, ageMax: Duration.minutes(30), open: () => Effect.never }), scope)
      const run = Effect.flip(connections.run(() => Effect.void))
      const waiting = yield* started(run)

      yield* Scope.close(scope, Exit.void)

      const errors = yield* Effect.timeout(Effect.all([Fiber.join(waiting), run]), "5 seconds")
      assert.deepStrictEqual(errors.map(({ message }) => message), ["the database is closed", "the database is closed"])
    })
  )

  it.live("is closed once a statement that its caller left is cancelled, which is told through it", () =>
    Effect.gen(function* () {
      const told: Array<string> = []
      const open = () => Effect.acquireRelease(Effect.sync(nobody), () => Effect.sync(() => void told.push("closed")))
      const connections = yield* Connections.make({ connectionsMax: 1, ageMax: Duration.minutes(30), open })
      const statement = Effect.onInterrupt(Effect.never, () => Effect.andThen(Effect.yieldNow, Effect.sync(() => void told.push("cancelled"))))
      const held = Effect.scoped(Effect.flatMap(connections.hold, (held) => connections.bounded(held, statement)))

      for (const use of [connections.run(() => statement), held]) {
        const caller = yield* started(use)
        yield* Fiber.interrupt(caller)
        assert.deepStrictEqual(told.splice(0), ["cancelled", "closed"])
        assert.deepStrictEqual(connections.counts(), { busy: 0, waiting: 0 })
      }
    })
  )

  it.live("that has ended before it was open is nobody's, and its caller fails", () =>
    Effect.gen(function* () {
      const connections = yield* Connections.make({ connectionsMax: 1, ageMax: Duration.minutes(30), open: (onEnd) => Effect.sync(() => (onEnd(), nobody())) })

      const error = yield* Effect.flip(connections.run(() => Effect.void))

      assert.strictEqual(error.message, "no connection could be opened")
      assert.deepStrictEqual(connections.counts(), { busy: 0, waiting: 0 })
    })
  )

  it.live("is not waited for where there is none, and the server has room for none", () =>
    Effect.gen(function* () {
      const open = () => Effect.andThen(Effect.yieldNow, Effect.fail(errorOf(Connections.noRoom)))
      const connections = yield* Connections.make({ connectionsMax: 2, ageMax: Duration.minutes(30), open })
      const run = Effect.flip(connections.run(() => Effect.void))

      const errors = yield* Effect.all([run, run, run], { concurrency: "unbounded" })

      assert.deepStrictEqual(errors.map(Connections.isNoRoom), [true, true, true])
      assert.deepStrictEqual(connections.counts(), { busy: 0, waiting: 0 })
    })
  )

  it.live("leaves nothing behind in this process, however many of them fail or are lost", () =>
    Effect.gen(function* () {
      const scopes: Array<WeakRef<Scope.Scope>> = []
      const open = () =>
        Effect.flatMap(Effect.scope, (scope) => {
          scopes.push(new WeakRef(scope))
          return scopes.length % 2 === 0 ? Effect.fail(Connections.lost("away")) : Effect.sync(nobody)
        })
      const connections = yield* Connections.make({ connectionsMax: 2, ageMax: Duration.minutes(30), open })

      for (const _ of times(20, (each) => each)) yield* Effect.flip(connections.run(() => Effect.fail(Connections.lost("lost"))))
      yield* Effect.promise(() => new Promise<void>((resolve) => void setImmediate(resolve)))
      collect()

      assert.strictEqual(scopes.length, 20)
      assert.isAtMost(scopes.filter((scope) => scope.deref() !== undefined).length, 2)
    })
  )

  for (const code of ["57P01", "57P02", "57P03", "57P04", "57P05", "53300"]) {
    it(`is lost with ${code}`, () => assert.isTrue(Connections.isConnectionLost(errorOf(code))))
  }
  for (const code of ["57014", "22P02", "40P01", ""]) {
    it(`is not lost with ${code === "" ? "no code" : code}`, () => assert.isFalse(Connections.isConnectionLost(errorOf(code))))
  }
  it("is lost where it is refused who asks", () => {
    const reason = new AuthenticationError({ cause: errorOf("28P01").reason.cause, message: "refused", operation: "connect" })
    assert.isTrue(Connections.isConnectionLost(new SqlError({ reason })))
  })
})

/** A pool whose connections have numbers, and which of them are closed. */
const numbered = Effect.fnUntraced(function* (connectionsMax: number, ageMax: Duration.Duration) {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] })
  onTestFinished(() => void vi.useRealTimers())
  const closed: Array<number> = []
  const ends: Array<() => void> = []
  let opened = 0
  const open = (onEnd: () => void) =>
    Effect.acquireRelease(
      Effect.sync(() => {
        opened += 1
        ends.push(onEnd)
        return Object.assign(nobody(), { number: opened })
      }),
      ({ number }) => Effect.sync(() => void closed.push(number))
    )
  const connections = yield* Connections.make({ connectionsMax, ageMax, open })
  /** So many at once. */
  const use = (count: number, meanwhile: Effect.Effect<void, SqlError> = Effect.void) =>
    Effect.scoped(Effect.andThen(Effect.all(times(count, () => connections.hold)), meanwhile))
  return { connections, closed, ends, use }
})

describe("a connection's time", () => {
  it.live("is a minute while nobody needs it, and does not end while somebody does", () =>
    Effect.gen(function* () {
      const { closed, connections, use } = yield* numbered(2, Duration.minutes(30))
      yield* use(2)

      for (const _ of times(4, (each) => each)) {
        vi.advanceTimersByTime(20_000)
        yield* connections.run(() => Effect.void)
      }
      assert.strictEqual(closed.length, 1, "who needs one has the one that somebody needed last")
      yield* use(1, Effect.sync(() => void vi.advanceTimersByTime(600_000)))
      assert.strictEqual(closed.length, 1)
      vi.advanceTimersByTime(59_999)
      assert.strictEqual(closed.length, 1)
      vi.advanceTimersByTime(1)
      assert.strictEqual(closed.length, 2)
    })
  )

  it.live("ends at its age, or up to a quarter sooner, one after the other", () =>
    Effect.gen(function* () {
      const { closed, use } = yield* numbered(4, Duration.seconds(1_000))
      const [start, gone]: [number, Array<number>] = [vi.getMockedSystemTime()!.getTime(), []]

      for (const seconds of [812, 813, 875, 937, 938, 999, 1_000]) {
        yield* use(4, Effect.sync(() => void vi.setSystemTime(start + seconds * 1_000)))
        gone.push(closed.filter((number) => number <= 4).length)
      }

      assert.deepStrictEqual(gone, [0, 1, 2, 2, 3, 3, 4])
    })
  )

  it.live("ends a second after its caller has left a server that stands still, and does not keep him", () =>
    Effect.gen(function* () {
      const { closed, connections } = yield* numbered(1, Duration.minutes(30))
      const caller = yield* started(connections.run(() => Effect.onInterrupt(Effect.never, () => Effect.never)))

      const leaving = yield* started(Fiber.interrupt(caller))
      vi.advanceTimersByTime(999)
      assert.deepStrictEqual([closed, leaving.pollUnsafe()], [[], undefined])
      vi.advanceTimersByTime(1)
      yield* Fiber.join(leaving)

      assert.deepStrictEqual(closed, [1])
    })
  )

  it.live("ends a second after its statement's deadline where the server stands still, and tells its caller then", () =>
    Effect.gen(function* () {
      const { closed, connections } = yield* numbered(1, Duration.minutes(30))
      const late = connections.run(() => Effect.onInterrupt(Effect.never, () => Effect.never))
      const caller = yield* started(Effect.flip(Effect.provideService(late, Connections.StatementDeadline, Duration.seconds(10))))

      vi.advanceTimersByTime(10_999)
      assert.deepStrictEqual([closed, caller.pollUnsafe()], [[], undefined])
      vi.advanceTimersByTime(1)
      const error = yield* Fiber.join(caller)

      assert.strictEqual(error.message, "the database did not answer within 10s")
      assert.deepStrictEqual([closed, connections.counts().busy], [[1], 0])
    })
  )

  it.live("has a quarter of a second more for what a process that stood still has not read yet", () =>
    Effect.gen(function* () {
      const { connections } = yield* numbered(2, Duration.minutes(30))
      const answer = yield* Deferred.make<string>()
      const statements = [connections.run(() => Deferred.await(answer)), connections.run(() => Effect.never)] as const
      const callers = yield* Effect.forEach(statements, (statement) =>
        started(Effect.provideService(statement, Connections.StatementDeadline, Duration.seconds(10)))
      )

      const waking = vi.spyOn(hrtime, "bigint").mockReturnValue(hrtime.bigint() + 40_000_000_000n)
      vi.advanceTimersByTime(10_000)
      waking.mockRestore()
      vi.advanceTimersByTime(249)
      assert.isUndefined(callers[1]!.pollUnsafe())
      Deferred.doneUnsafe(answer, Effect.succeed("there"))
      yield* Effect.yieldNow
      vi.advanceTimersByTime(1_001)

      assert.strictEqual(yield* Fiber.join(callers[0]!), "there")
      assert.strictEqual((yield* Effect.flip(Fiber.join(callers[1]!))).message, "the database did not answer within 10s")
    })
  )

  it.live("leaves no timer behind: of a statement, of a wait, and of itself", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const { connections, ends, use } = yield* Scope.provide(numbered(1, Duration.minutes(30)), scope)
      const left = () => vi.getTimerCount()
      const waiting = (meanwhile: (waiter: Fiber.Fiber<void, SqlError>) => Effect.Effect<unknown, SqlError>) =>
        Effect.scoped(
          Effect.gen(function* () {
            const { giveUp } = yield* connections.hold
            const waiter = yield* started(connections.run(() => Effect.void))
            yield* meanwhile(waiter)
            giveUp()
            return waiter
          })
        )

      yield* use(1, Effect.sync(() => assert.strictEqual(left(), 0)))
      assert.strictEqual(left(), 1, "until it has been idle for its time")
      yield* connections.run(() => Effect.void)
      assert.strictEqual(left(), 1)
      yield* waiting(Fiber.interrupt)
      assert.strictEqual(left(), 0, "who no longer waits")
      yield* Effect.flatMap(waiting(() => Effect.void), Fiber.join)
      assert.strictEqual(left(), 1, "who has waited")
      ends.at(-1)!()
      assert.strictEqual(left(), 0, "what ended while nobody had it")
      yield* Effect.flip(Effect.flatMap(waiting(() => Scope.close(scope, Exit.void)), Fiber.join))
      assert.strictEqual(left(), 0, "who waited until the end")

      const last = yield* Scope.make()
      yield* (yield* Scope.provide(numbered(1, Duration.minutes(30)), last)).use(1)
      yield* Scope.close(last, Exit.void)
      assert.strictEqual(left(), 0, "what was idle in the end")
    })
  )
})
