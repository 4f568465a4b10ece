/**
 * A job queue in Redis, shared by all processes on one server. The server may
 * lose all of it, which the epoch tells: it changes when the queue was emptied
 * and when the server was restarted or replaced, and so may have gone back to
 * an older state. A lease that was lost with all else is there again once it is
 * extended, so that nobody begins what takes long a second time. Single keys
 * that it loses are put back when their jobs are offered again, as the sweep
 * does with what is overdue. Calls of one process that come while the server is
 * busy with another go in one round trip.
 *
 * It wants a server that evicts none of its keys: `maxmemory-policy noeviction`,
 * or one of the `volatile` ones. Another is refused, for a queue that forgets
 * single jobs is worse than one that is away.
 */
import { Clock, Deferred, Duration, Effect, Exit, Layer, Random, Scope } from "effect"
import type { Millis } from "../../core/model/Ids.ts"
import { JobQueue, LeaseLost, QueueUnavailable, throttleLifetime } from "../../core/ports/JobQueue.ts"
import type { Job, JobKind, Lease } from "../../core/ports/JobQueue.ts"
import { answersOf, claimedOf, nextOf, realmText } from "./QueueAnswers.ts"
import * as Scripts from "./QueueScripts.ts"
import { RedisClient, RedisUnavailable, understood } from "./RedisClient.ts"

export const make: Effect.Effect<JobQueue["Service"], never, RedisClient | Scope.Scope> = Effect.gen(function* () {
  const redis = yield* RedisClient
  const draw = Effect.map(Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER), (number) => number.toString(36))

  const fitness = makeFitness(redis)
  const run: Run = (script, args) => Effect.andThen(fitness.known, redis.run(script, args))
  const apply = makeSteps(run)
  const { claim, nextWork } = makeClaims(run, `${yield* draw}${yield* draw}`)
  const { untilWork, ring } = makeWaits(nextWork)
  yield* redis.subscribe("news", ring)

  const heldStep = ({ job, token }: Lease, what: string, now: Millis, ...more: Step) => stepOf(what, now, job.kind, job.subject, token, ...more)

  /** The answer to the last of these steps on a job that is held. */
  const stepsHeld = Effect.fnUntraced(function* ({ token }: Lease, steps: ReadonlyArray<Step>) {
    const answer = (yield* apply(steps)).at(-1)
    if (answer === "lost") return yield* new LeaseLost({ token })
    return answer
  })

  const complete = Effect.fnUntraced(function* (lease: Lease) {
    yield* stepsHeld(lease, [heldStep(lease, "complete", yield* Clock.currentTimeMillis)])
  })

  const release = Effect.fnUntraced(function* (lease: Lease, delay: Millis) {
    yield* stepsHeld(lease, [heldStep(lease, "release", yield* Clock.currentTimeMillis, delay)])
  })

  const extend = Effect.fnUntraced(function* (lease: Lease, visibilityTimeout: Millis) {
    const now = yield* Clock.currentTimeMillis
    const expiresAt = now + visibilityTimeout
    const answer = yield* stepsHeld(lease, [heldStep(lease, "extend", now, expiresAt)])
    // In one script, so that nobody else has it in between. Who has it already finds an offer beside it, and nothing to do.
    const anew = [offerStep(lease.job, now), heldStep(lease, "hold", now, expiresAt, lease.claims)]
    if (answer === "emptied") yield* stepsHeld(lease, anew)
    return { ...lease, expiresAt }
  })

  const giveBack = (leases: ReadonlyArray<Lease>) =>
    Effect.forEach(leases, (lease) => Effect.ignore(release(lease, 0)), { concurrency: "unbounded", discard: true })

  return {
    offer: (jobs) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        Effect.forEach(
          chunksOf(jobs.map((job) => offerStep(job, now))),
          apply,
          { discard: true }
        )
      ).pipe(Effect.mapError(unavailable)),
    // Whoever gives up while the server answers gives back what he got.
    claim: (options) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.flatMap(Effect.mapError(claim(options), unavailable), (leases) =>
          Effect.onInterrupt(restore(Effect.succeed(leases)), () => giveBack(leases))
        )
      ),
    complete: (lease) => Effect.catchTag(complete(lease), "RedisUnavailable", asUnavailable),
    extend: (lease, visibilityTimeout) =>
      Effect.catchTag(extend(lease, Duration.toMillis(visibilityTimeout)), "RedisUnavailable", asUnavailable),
    release: (lease, delay) => Effect.catchTag(release(lease, Duration.toMillis(delay)), "RedisUnavailable", asUnavailable),
    throttle: (kind, group, inFlightMax) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        apply([stepOf("throttle", now, kind, group, inFlightMax ?? "", now + throttleLifetime)])
      ).pipe(Effect.asVoid, Effect.mapError(unavailable)),
    epoch: Effect.gen(function* () {
      yield* fitness.judge
      const server = yield* redis.info("server")
      const replication = yield* redis.info("replication")
      const content = yield* understood(redis.run(Scripts.epoch, [yield* draw]), (name) => (typeof name === "string" ? name : null))
      return [content, server.get("run_id"), replication.get("master_replid")].join(".")
    }).pipe(Effect.mapError(unavailable)),
    awaitWork: (kinds, atMost) => Effect.asVoid(Effect.timeoutOption(untilWork([...new Set(kinds)], Duration.toMillis(atMost)), atMost))
  }
})

export const layer: Layer.Layer<JobQueue, never, RedisClient> = Layer.effect(JobQueue, make)

const unavailable = (cause: RedisUnavailable) => new QueueUnavailable({ cause })
const asUnavailable = (cause: RedisUnavailable) => Effect.fail(unavailable(cause))

type Run = RedisClient["Service"]["run"]
type ClaimOptions = Parameters<JobQueue["Service"]["claim"]>[0]

/** Steps, and leases, of one script: while it runs, the server does nothing else. */
const atOnce = 200

type Step = ReadonlyArray<string | number>

const stepOf = (...step: Step): Step => [...step, ...Array.from({ length: Scripts.stepLength - step.length }, () => "")]

const offerStep = ({ kind, subject, group, realm, dueAt }: Job, now: Millis): Step =>
  stepOf("offer", now, kind, subject, group, realmText(realm), dueAt)

const chunksOf = (list: ReadonlyArray<Step>): ReadonlyArray<ReadonlyArray<Step>> =>
  Array.from({ length: Math.ceil(list.length / atOnce) }, (_, index) => list.slice(index * atOnce, (index + 1) * atOnce))

/** Whether the server keeps what it is given; asked anew of each connection. */
const makeFitness = (redis: RedisClient["Service"]) => {
  let verdict: Effect.Effect<void, RedisUnavailable> = Effect.void
  let judged = 0
  const judge = Effect.gen(function* () {
    const connection = redis.connections()
    const memory = yield* redis.info("memory")
    const policy = memory.get("maxmemory_policy") ?? "noeviction"
    const evicts = policy.startsWith("allkeys") && memory.get("maxmemory") !== "0"
    verdict = evicts
      ? new RedisUnavailable({ reason: `its maxmemory-policy is ${policy}, which loses single jobs; set noeviction` })
      : Effect.void
    judged = connection
    yield* verdict
  })
  return { judge, known: Effect.suspend(() => (judged === redis.connections() ? verdict : judge)) }
}

/** Gathers what comes while the last steps are under way. They go on, whoever of those who wait for them gives up. */
const makeSteps = (run: Run) => {
  interface Call {
    readonly steps: ReadonlyArray<Step>
    readonly done: Deferred.Deferred<ReadonlyArray<string>, RedisUnavailable>
  }
  let calls: Array<Call> = []
  let isSending = false

  const send = Effect.gen(function* () {
    while (calls.length > 0) {
      let count = 0
      const fitting = calls.findIndex((call, index) => (count += call.steps.length) > atOnce && index > 0)
      const sent = calls.slice(0, fitting < 0 ? calls.length : fitting)
      calls = calls.slice(sent.length)
      const steps = sent.flatMap((call) => call.steps)
      const exit = yield* Effect.exit(understood(run(Scripts.steps, steps.flat()), (answer) => answersOf(answer, steps.length)))
      let at = 0
      for (const call of sent) {
        const from = at
        at += call.steps.length
        Deferred.doneUnsafe(call.done, Exit.map(exit, (all) => all.slice(from, from + call.steps.length)))
      }
    }
    isSending = false // in one turn with the look at `calls`, or a call that comes in between would wait for ever
  }).pipe(Effect.uninterruptible)

  return (steps: ReadonlyArray<Step>) =>
    // A fiber may stand still, and be interrupted, between any two of its steps: whoever says that it sends has it sent.
    Effect.uninterruptibleMask((restore) => {
      const call: Call = { steps, done: Deferred.makeUnsafe() }
      calls.push(call)
      const answered = restore(Deferred.await(call.done))
      if (isSending) return answered
      isSending = true
      return Effect.andThen(Effect.forkDetach(send), answered) // each command of it ends by itself
    })
}

/**
 * Claims, and looks. A look tells the server what the last claim has seen: jobs of groups at their caps are no work before
 * there is news of their kind. Tokens begin with what is `own` to this process.
 */
const makeClaims = (run: Run, own: string) => {
  let claims = 0
  /** Of each kind, the news after the last claim that left nothing which it was allowed to take. */
  const exhausted = new Map<JobKind, string>()

  const claimSome = Effect.fnUntraced(function* (
    kinds: ReadonlyArray<JobKind>,
    limit: number,
    visibilityTimeout: Duration.Duration,
    inFlightMax: number
  ) {
    const now = yield* Clock.currentTimeMillis
    const expiresAt = now + Duration.toMillis(visibilityTimeout)
    const asked = run(Scripts.claim, [now, limit, expiresAt, inFlightMax, `${own}.${++claims}`, ...kinds])
    const { mayBeMore, news, leases } = yield* understood(asked, (answer) => claimedOf(answer, kinds, expiresAt))
    if (!mayBeMore) kinds.forEach((kind, index) => exhausted.set(kind, news[index]!))
    return { leases, mayBeMore }
  })

  const claim = Effect.fnUntraced(function* ({ kinds, limit, visibilityTimeout, inFlightMax }: ClaimOptions) {
    const asked = [...new Set(kinds)]
    const leases: Array<Lease> = []
    for (let mayBeMore = asked.length > 0; mayBeMore && leases.length < limit; ) {
      const some = yield* Effect.result(claimSome(asked, Math.min(limit - leases.length, atOnce), visibilityTimeout, inFlightMax))
      if (some._tag === "Failure") {
        if (leases.length === 0) return yield* Effect.fail(some.failure)
        break
      }
      leases.push(...some.success.leases)
      mayBeMore = some.success.mayBeMore
    }
    return leases
  })

  /** When a job of these kinds may be claimed, or never, as far as the server knows. */
  const nextWork = Effect.fnUntraced(function* (kinds: ReadonlyArray<JobKind>) {
    const seen = kinds.flatMap((kind) => [kind, exhausted.get(kind) ?? "none"])
    return yield* understood(run(Scripts.look, [yield* Clock.currentTimeMillis, ...seen]), nextOf)
  })

  return { claim, nextWork }
}

/** Who waits in this process for which kinds: they are woken by news, and by the time at which there is work. */
const makeWaits = (nextWork: (kinds: ReadonlyArray<JobKind>) => Effect.Effect<Millis, RedisUnavailable>) => {
  const waiting = new Set<{ readonly kinds: ReadonlyArray<JobKind>; readonly heard: Deferred.Deferred<void> }>()

  /** Wakes who waits for this kind, or everybody; how many that were. */
  const ring = (kind: string | null): number => {
    const woken = [...waiting].filter(({ kinds }) => kind === null || kinds.some((one) => one === kind))
    for (const { heard } of woken) Deferred.doneUnsafe(heard, Exit.void)
    return woken.length
  }

  /** Is there work? If not, waits until there may be. It listens before it looks, for a look knows nothing of what comes after it. */
  const isWork = (kinds: ReadonlyArray<JobKind>, atMost: Millis) =>
    Effect.acquireUseRelease(
      Effect.sync(() => {
        const one = { kinds, heard: Deferred.makeUnsafe<void>() }
        waiting.add(one)
        return one
      }),
      Effect.fnUntraced(function* ({ heard }) {
        const rung = Deferred.await(heard)
        const next = yield* Effect.option(nextWork(kinds))
        if (next._tag === "None") return yield* Effect.as(rung, false) // until the server is back
        const untilNext = next.value - (yield* Clock.currentTimeMillis)
        if (untilNext > 0) yield* Effect.timeoutOption(rung, Math.min(atMost, untilNext))
        return untilNext <= 0
      }),
      (one) => Effect.sync(() => waiting.delete(one))
    )

  const untilWork = (kinds: ReadonlyArray<JobKind>, atMost: Millis) => Effect.repeat(isWork(kinds, atMost), { until: (is) => is })

  return { untilWork, ring }
}
