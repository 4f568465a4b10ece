import { assert, describe, it } from "@effect/vitest"
import { Context, Duration, Effect, Layer } from "effect"
import * as Memory from "../../adapters/memory/index.ts"
import * as Fixtures from "../../conformance/fixtures.ts"
import { jobOf, JobQueue, type Lease } from "../ports/JobQueue.ts"
import { CommitRejected, Store, StoreUnavailable, type Ending, type Hold, type Next } from "../ports/Store.ts"
import { commit, Place, retryOnVersionMoved } from "./Commit.ts"

const moved = new CommitRejected({ reason: { _tag: "VersionMoved", kind: "message", id: "1" } })

/** A decision whose version moves so many times, and how often it was made. */
const deciding = (moves: number) => {
  let made = 0
  const decision = Effect.suspend(() => (made++ < moves ? Effect.fail(moved) : Effect.succeed("decided")))
  return Effect.map(Effect.result(retryOnVersionMoved(decision)), (result) => ({ result, made }))
}

describe("a decision whose version moves", () => {
  it.effect("is made anew 50 times, and then the store is said to be unavailable", () =>
    Effect.gen(function* () {
      const [last, late] = [yield* deciding(50), yield* deciding(51)]

      assert.deepStrictEqual([last.result._tag, last.made], ["Success", 51])
      assert.ok(late.result._tag === "Failure" && late.result.failure instanceof StoreUnavailable)
      assert.deepStrictEqual([late.result.failure.cause, late.made], [moved, 51])
    })
  )
})

describe("a commit of a job that has a place", () => {
  const leaseOf = (token: string): Lease => ({ job: jobOf("deliver", Fixtures.delivery(Fixtures.endpoint(Fixtures.realm())), 0), token, claims: 1, expiresAt: 60_000 })
  const [lease, next] = [leaseOf("ends"), { ...leaseOf("next"), outgoing: null } satisfies Next]
  const hold: Hold = { jobsMax: 1, visibilityTimeout: Duration.minutes(1) }

  /** Commits under a place; what the store was given, how often the place was asked, and what it took. */
  const committing = Effect.fnUntraced(function* (held: Hold | null, ending?: Lease) {
    const ports = yield* Layer.build(Layer.merge(Memory.MemoryStore.layer, Memory.MemoryJobQueue.layer))
    const seen = { given: [] as Array<Ending | undefined>, asked: 0, taken: [] as Array<Next> }
    const store: typeof Store.Service = {
      ...Context.get(ports, Store),
      commit: (_changes, _jobs, given) =>
        Effect.sync(() => {
          seen.given.push(given)
          return { jobsOffered: true, leaseEnded: given !== undefined, forgotten: 0, next: given?.holdNext === undefined ? [] : [next] }
        })
    }
    const place: Place = { holdNext: () => ((seen.asked += 1), held), take: (some) => void seen.taken.push(...some), isStopping: () => false }
    yield* Effect.provideService(commit(store, Context.get(ports, JobQueue), [], [], ending), Place, place)
    return seen
  })

  it.effect("that ends with it has the next job held for that place, and hands it over", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* committing(hold, lease), { given: [{ ...lease, holdNext: hold }], asked: 1, taken: [next] })
    }).pipe(Effect.scoped)
  )

  it.effect("that ends with it holds nothing where nothing more is wanted", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* committing(null, lease), { given: [lease], asked: 1, taken: [] })
    }).pipe(Effect.scoped)
  )

  it.effect("that goes on does not give the place away", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* committing(hold), { given: [undefined], asked: 0, taken: [] })
    }).pipe(Effect.scoped)
  )
})
