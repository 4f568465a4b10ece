/** What authors get wrong about times, leases and waiting for work: each flaw is put into a queue that is right, and a law names it. */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Layer } from "effect"
import * as MemoryJobQueue from "../adapters/memory/MemoryJobQueue.ts"
import { JobQueue, type Job, type Lease } from "../core/ports/JobQueue.ts"
import { suite } from "./JobQueue.ts"
import { suite as reopened } from "./JobQueueReopened.ts"
import { conforms, prove } from "./Proof.ts"

type Queue = JobQueue["Service"]

/** Its waits sleep on when something was done by which they should have ended. */
const deafTo = (makeActs: (queue: Queue, act: () => void) => Partial<Queue>) => (queue: Queue): Queue => {
  let acts = 0
  return {
    ...queue,
    ...makeActs(queue, () => void (acts += 1)),
    awaitWork: (kinds, atMost) =>
      Effect.suspend(() => {
        const before = acts
        return Effect.andThen(queue.awaitWork(kinds, atMost), Effect.suspend(() => (acts === before ? Effect.void : Effect.sleep(atMost))))
      })
  }
}

const first = <A extends ReadonlyArray<unknown>, B>(act: () => void, call: (...parameters: A) => B) => (...parameters: A): B => {
  act()
  return call(...parameters)
}

/** What comes under a lease waits for its completion, and a release knows nothing of it. */
const offersAtCompletion = (queue: Queue): Queue => {
  const besides = new Map<string, Array<Job>>()
  return {
    ...queue,
    offer: (jobs) =>
      Effect.suspend(() => {
        for (const job of jobs) besides.get(job.subject)?.push(job)
        return queue.offer(jobs.filter(({ subject }) => !besides.has(subject)))
      }),
    claim: (options) => Effect.tap(queue.claim(options), (leases) => Effect.sync(() => leases.forEach(({ job }) => besides.set(job.subject, [])))),
    complete: (lease) =>
      Effect.andThen(queue.complete(lease), Effect.suspend(() => {
        const offered = besides.get(lease.job.subject) ?? []
        besides.delete(lease.job.subject)
        return queue.offer(offered)
      })),
    release: (lease, delay) => Effect.andThen(queue.release(lease, delay), Effect.sync(() => void besides.delete(lease.job.subject)))
  }
}

/** Its tokens tell no more of a lease than this. */
const tokensOf = (makeToken: (lease: Lease) => string) => (queue: Queue): Queue => {
  const last = new Map<string, Lease>()
  const real = (lease: Lease): Lease => ({ ...lease, token: last.get(lease.token)?.token ?? lease.token })
  const told = (lease: Lease): Lease => {
    const token = makeToken(lease)
    last.set(token, lease)
    return { ...lease, token }
  }
  return {
    ...queue,
    claim: (options) => Effect.map(queue.claim(options), (leases) => leases.map(told)),
    complete: (lease) => queue.complete(real(lease)),
    extend: (lease, visibilityTimeout) => Effect.map(queue.extend(real(lease), visibilityTimeout), (extended) => ({ ...extended, token: lease.token })),
    release: (lease, delay) => queue.release(real(lease), delay)
  }
}

const bySubjectAndClaims = tokensOf(({ job: { kind, subject }, claims }) => `${kind}.${subject}.${claims}`)
const byMomentToo = tokensOf(({ job: { kind, subject }, claims, expiresAt }) => `${kind}.${subject}.${claims}.${expiresAt}`)
const unlike = "gives no two leases one token"
const fenced = "fences whoever comes late from the job that was completed and offered anew since, or given back"

const flaws: ReadonlyArray<readonly [flaw: string, law: string, make: (queue: Queue) => Queue]> = [
  [
    "due times in whole seconds",
    "hands out nothing before it is due, and everything from then on",
    (queue) => ({ ...queue, offer: (jobs) => queue.offer(jobs.map((job) => ({ ...job, dueAt: Math.floor(job.dueAt / 1_000) * 1_000 }))) })
  ],
  [
    "a release that forgets what was offered under the lease",
    "gives a released job back for the time of an offer that came under its lease, where that is sooner",
    offersAtCompletion
  ],
  [
    "an extension that only prolongs",
    "holds an extended lease no longer than was asked, also where that ends it sooner",
    (queue) => ({
      ...queue,
      extend: (lease, visibilityTimeout) =>
        Effect.flatMap(Clock.currentTimeMillis, (now) => queue.extend(lease, Duration.max(visibilityTimeout, Duration.millis(lease.expiresAt - now))))
    })
  ],
  ["tokens of a subject and its claims", unlike, bySubjectAndClaims],
  ["a fence of a subject and its claims", fenced, bySubjectAndClaims],
  ["tokens of a subject, its claims and the moment", unlike, byMomentToo],
  ["a fence of a subject, its claims and the moment", fenced, byMomentToo],
  [
    "a wait that looks for work all the time",
    "goes on waiting while nothing is due",
    (queue) => ({ ...queue, awaitWork: (kinds, atMost) => Effect.raceFirst(queue.awaitWork(kinds, atMost), Effect.forever(Effect.yieldNow)) })
  ],
  ["a wait that ends at once", "goes on waiting while nothing is due", (queue) => ({ ...queue, awaitWork: () => Effect.void })],
  [
    "a wait that ends at once while a group with due jobs is at its cap",
    "goes on waiting, once a claim has found it so, while all that is due is of groups at their caps or throttled",
    (queue) => {
      const held = new Set<Lease["token"]>()
      return {
        ...queue,
        claim: (options) =>
          Effect.tap(queue.claim(options), (leases) => Effect.sync(() => leases.filter(({ job }) => job.kind === "deliver").forEach(({ token }) => held.add(token)))),
        awaitWork: (kinds, atMost) => Effect.suspend(() => (held.size > 0 ? Effect.void : queue.awaitWork(kinds, atMost)))
      }
    }
  ],
  [
    "a wait that looks at the first due job only",
    "returns at once from waiting for a job that is due behind those of a group at its cap",
    (queue) => {
      let isFull = false
      return {
        ...queue,
        claim: (options) => Effect.tap(queue.claim(options), (leases) => Effect.sync(() => (isFull = options.inFlightMax === 1 && leases.length < options.limit))),
        awaitWork: (kinds, atMost) => Effect.suspend(() => (isFull ? Effect.sleep(atMost) : queue.awaitWork(kinds, atMost)))
      }
    }
  ],
  [
    "a completion that wakes nobody",
    "stops waiting when a lease is completed, and its job was offered as due meanwhile",
    deafTo((queue, act) => ({ complete: first(act, queue.complete) }))
  ],
  [
    "the same, for places",
    "stops waiting when a lease is completed, and a place below the cap is free",
    deafTo((queue, act) => ({ complete: first(act, queue.complete) }))
  ],
  [
    "a claim that begins with what fell due last",
    "hands out the jobs of a group in the order in which they fell due",
    (queue) => ({ ...queue, claim: (options) => Effect.map(queue.claim(options), (leases) => leases.toReversed()) })
  ],
  ["a release that wakes nobody", "stops waiting when a job is released, for at once or for later", deafTo((queue, act) => ({ release: first(act, queue.release) }))],
  ["a throttle that is lifted and wakes nobody", "stops waiting when a throttle is lifted", deafTo((queue, act) => ({ throttle: first(act, queue.throttle) }))]
]

// At once, for what is told of a wait that does not end is told when a law gives it up.
describe("the suite of JobQueue", { concurrent: true }, () => {
  it.live("refuses a queue that is empty when it is opened again, and does not say so", () =>
    Effect.gen(function* () {
      const forgetful = Layer.effect(JobQueue, Effect.map(MemoryJobQueue.make, (queue) => JobQueue.of({ ...queue, epoch: Effect.succeed("always") })))

      const { checks } = yield* prove([conforms("flawed", reopened(forgetful), Layer.empty)], { filter: [], timeout: "8 seconds", onResult: () => Effect.void })

      assert.deepStrictEqual([...new Set(checks.map(({ outcome }) => outcome))], ["failed"])
      assert.include(checks[0]?.reason, "the epoch is the same")
      assert.include(checks[1]?.reason, "each process is handed jobs")
    }))

  for (const [flaw, law, make] of flaws) {
    it.live(`refuses ${flaw}`, () =>
      Effect.gen(function* () {
        const flawed = Layer.effect(JobQueue, Effect.map(MemoryJobQueue.make, (queue) => JobQueue.of(make(queue))))

        const { checks } = yield* prove([conforms("flawed", suite, flawed)], { filter: [law], timeout: "8 seconds", onResult: () => Effect.void })

        assert.deepStrictEqual(checks.map(({ title, outcome }) => [title, outcome]), [[law, "failed"]])
      }))
  }
})
