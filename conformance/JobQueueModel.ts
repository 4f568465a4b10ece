/**
 * Compares a JobQueue with a plain list of jobs: both are asked the same
 * random things, and the queue must answer as the list allows. What fails is
 * shrunk to the fewest commands that show it.
 */
import { Clock, Duration, Effect, type Layer } from "effect"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import assert from "node:assert/strict"
import { JobQueue, type Job, type JobKind, type Lease } from "../core/ports/JobQueue.ts"
import { realm } from "./fixtures.ts"

const of = realm()
const job = (subject: string, group: string, dueAt: number, kind: JobKind): Job => ({ kind, subject, realm: of, group, dueAt })

interface Held {
  job: Job
  claims: number
  token: string | null
  expiresAt: number
  beside: number | null
}

const nameOf = ({ kind, subject }: Job) => `${kind} ${subject}`
const placeOf = ({ kind, group }: Job) => `${kind} ${group}`

/** The contract in the plainest words: a list of jobs, searched from end to end. */
class Plain {
  readonly jobs = new Map<string, Held>()
  readonly throttles = new Map<string, number>()

  offer(offered: Job): void {
    const held = this.jobs.get(nameOf(offered))
    if (held === undefined) {
      this.jobs.set(nameOf(offered), { job: offered, claims: 0, token: null, expiresAt: 0, beside: null })
    } else if (held.token !== null) held.beside = Math.min(held.beside ?? Infinity, offered.dueAt)
    else held.job = { ...held.job, dueAt: Math.min(held.job.dueAt, offered.dueAt) }
  }

  isDue({ job: { dueAt }, token, expiresAt }: Held, now: number): boolean {
    return token === null ? dueAt <= now : expiresAt <= now
  }

  inFlight(place: string, now: number): number {
    return [...this.jobs.values()].filter((one) => placeOf(one.job) === place && one.token !== null && one.expiresAt > now).length
  }

  /** How many jobs a claim must hand out. */
  allowed(kinds: ReadonlyArray<JobKind>, limit: number, inFlightMax: number, now: number): number {
    const due = [...this.jobs.values()].filter((one) => kinds.includes(one.job.kind) && this.isDue(one, now))
    let sum = 0
    for (const [place, { length }] of Map.groupBy(due, (one) => placeOf(one.job))) {
      const cap = Math.min(inFlightMax, this.throttles.get(place) ?? Infinity)
      sum += Math.max(0, Math.min(length, cap - this.inFlight(place, now)))
    }
    return Math.min(limit, sum)
  }

  claimed({ job, token, claims, expiresAt }: Lease, now: number): void {
    const held = this.jobs.get(nameOf(job))
    assert.ok(held !== undefined)
    assert.ok(this.isDue(held, now))
    assert.equal(claims, held.claims + 1)
    assert.deepEqual(job, held.job)
    Object.assign(held, { claims, token, expiresAt, beside: null })
  }

  /** Ends a lease in one of three ways; false if it is lost. */
  ended(how: "complete" | "release" | "extend", { job, token }: Lease, now: number, ms: number): boolean {
    const held = this.jobs.get(nameOf(job))
    if (held?.token !== token) return false
    if (how === "extend") held.expiresAt = now + ms
    else if (how === "release") {
      const dueAt = ms === 0 ? held.job.dueAt : Math.min(held.beside ?? Infinity, Math.max(held.job.dueAt, now + ms))
      Object.assign(held, { job: { ...held.job, dueAt }, claims: held.claims - 1, token: null, beside: null })
    } else if (held.beside === null) this.jobs.delete(nameOf(job))
    else Object.assign(held, { job: { ...held.job, dueAt: held.beside }, claims: 0, token: null, beside: null })
    return true
  }
}

const kind = fc.constantFrom<JobKind>("submit", "deliver")
const ends = fc.record({ do: fc.constantFrom("complete" as const, "extend" as const, "release" as const), lease: fc.nat(30), halves: fc.nat(4) })

const command = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant("offer" as const), subjects: fc.array(fc.nat(11), { maxLength: 3 }), wait: fc.nat(4), kind }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("claim" as const),
      limit: fc.integer({ min: 1, max: 6 }),
      cap: fc.integer({ min: 1, max: 3 }),
      kinds: fc.uniqueArray(kind)
    })
  },
  { weight: 6, arbitrary: ends },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("throttle" as const), group: fc.nat(2), to: fc.option(fc.integer({ min: 1, max: 2 })), kind }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("wait" as const), quarters: fc.integer({ min: 1, max: 3 }) }) }
)

type Command = typeof command extends fc.Arbitrary<infer A> ? A : never

const play = Effect.fnUntraced(function* (commands: ReadonlyArray<Command>) {
  const queue = yield* JobQueue
  const plain = new Plain()
  const leases: Array<Lease> = []
  for (const one of commands) {
    const now = yield* Clock.currentTimeMillis
    if (one.do === "offer") {
      const offered = one.subjects.map((subject) => job(`s${subject}`, `g${subject % 3}`, now + one.wait * 1000 - 1000, one.kind))
      yield* queue.offer(offered)
      for (const job of offered) plain.offer(job)
    } else if (one.do === "claim") {
      const { kinds, limit, cap } = one
      const count = plain.allowed(kinds, limit, cap, now)
      const claimed = yield* queue.claim({ kinds, limit, visibilityTimeout: Duration.seconds(2), inFlightMax: cap })
      for (const lease of claimed) plain.claimed(lease, now)
      assert.equal(claimed.length, count)
      assert.ok(claimed.every((lease) => kinds.includes(lease.job.kind)))
      leases.push(...claimed)
    } else if (one.do === "throttle") {
      yield* queue.throttle(one.kind, `g${one.group}`, one.to)
      plain.throttles.set(`${one.kind} g${one.group}`, one.to ?? Infinity)
    } else if (one.do === "wait") {
      // A run is over before any throttle lapses.
      yield* TestClock.adjust(Duration.millis(one.quarters * 250))
    } else {
      const lease = leases[one.lease % Math.max(1, leases.length)]
      if (lease === undefined) continue
      const ms = one.do === "release" ? one.halves * 500 : 2000
      const outcome = yield* Effect.result(
        one.do === "extend"
          ? queue.extend(lease, Duration.millis(ms))
          : one.do === "release"
            ? queue.release(lease, Duration.millis(ms))
            : queue.complete(lease)
      )
      assert.equal(outcome._tag, plain.ended(one.do, lease, now, ms) ? "Success" : "Failure")
    }
  }
})

/** Plays that many lists of commands, each on an empty queue, which the layer makes. */
export const agrees = <E>(
  emptyQueue: () => Layer.Layer<JobQueue, E>,
  { numRuns, minLength = 0 }: { readonly numRuns: number; readonly minLength?: number }
): Effect.Effect<void> =>
  Effect.gen(function* () {
    const context = yield* Effect.context<never>()
    const property = fc.asyncProperty(fc.array(command, { minLength, maxLength: 80, size: "max" }), (commands) =>
      Effect.runPromiseWith(context)(Effect.provide(play(commands), emptyQueue()))
    )
    yield* Effect.promise(() => fc.assert(property, { numRuns }))
  })
