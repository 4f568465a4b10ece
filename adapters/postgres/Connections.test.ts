import type { PgConnection } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Cause, Deferred, Duration, Effect, Exit, Fiber, Random, Scheduler, Scope } from "effect"
import { SqlError, UnknownError } from "effect/sql/SqlError"
import { times } from "../../conformance/StoreLaw.ts"
import * as Connections from "./Connections.ts"

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
})
