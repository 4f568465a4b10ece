/**
 * Takes jobs from the queue, does them, and ends each that came to an end. A
 * job whose worker broke is left to its lease, and comes again; one that the
 * store, the blobs or a sealing key could not serve is offered for later, and
 * starts anew.
 */
import { type Cause, Clock, Context, Duration, Effect, FiberSet, Layer, Semaphore } from "effect"
import { ClockOffset, isClockTrusted } from "../ClockOffset.ts"
import type { BlobUnavailable } from "../ports/BlobStore.ts"
import { JobQueue, type JobKind, type Lease, type QueueUnavailable } from "../ports/JobQueue.ts"
import type { StoreUnavailable } from "../ports/Store.ts"
import { offer, Place } from "../operations/Commit.ts"
import * as Deadlines from "../Deadlines.ts"
import * as Metrics from "../Metrics.ts"
import * as SeldomLog from "../SeldomLog.ts"
import type { SealBroken } from "../ports/Crypto.ts"
import * as Tracing from "../Tracing.ts"
import { DeliverWebhook } from "./DeliverWebhook.ts"
import { extendEvery, HeldLease, isBroken, lanes, LanePlaces, PlaceInLane, SuspectTurn, visibilityTimeout, type Lane } from "./Lanes.ts"
import { ParseMessage } from "./ParseMessage.ts"
import { PollProvider } from "./PollProvider.ts"
import { ScanAttachment } from "./ScanAttachment.ts"
import type { GivenBack } from "./SubmissionAttempt.ts"
import { SubmitMessage } from "./SubmitMessage.ts"

/** What a job's subject is called in the log. */
const subjects = { submit: "messageId", poll: "messageId", scan: "attachmentId", deliver: "deliveryId", parse: "messageId" } as const satisfies {
  readonly [K in JobKind]: string
}

/** Puts what is done to a message, or an attachment, into its trace. What a delivery is about, its handler reads first. */
const joinTrace = ({ job: { kind, subject, realm }, claims }: Lease) => {
  const about = { "mailroom.tenant_id": realm.tenantId, "mailroom.environment": realm.environment, "mailroom.job.claims": claims }
  switch (kind) {
    case "submit":
    case "poll":
    case "parse":
      return Tracing.within(subject, { ...about, "mailroom.message_id": subject })
    case "scan":
      return Tracing.within(subject, { ...about, "mailroom.attachment_id": subject })
    case "deliver":
      return <A, E, R>(self: Effect.Effect<A, E, R>) => self
  }
}

/** Claims of a job that are not held against it: the first, and one more, for a process may end for any reason. */
const trustedClaims = 2
/** After how many milliseconds a job is tried again that the store could not serve. */
const unavailableRetry = 30_000
/** A queue that is away is told of a job's end again after this, and so often: for as long as a lease may last. */
const completePause = Duration.seconds(5)
const completesMax = 12
/** For how long a suspect is put off that may not be worked now. */
const suspectPause = Duration.seconds(1)

/** What a claim in a lane has brought to work on. */
interface Claimed {
  readonly fresh: ReadonlyArray<Lease>
  readonly suspect: Lease | null
  /** Nothing could be claimed: the queue is away, or our clock is wrong. */
  readonly isAway: boolean
  /** It left nothing that may be taken now. */
  readonly isAll: boolean
}

const noClaim: Claimed = { fresh: [], suspect: null, isAway: true, isAll: false }

export class Worker extends Context.Service<
  Worker,
  {
    /** Does what it can claim now, once in each lane, and waits for its end; how many jobs that was. */
    readonly tick: Effect.Effect<number>
    /**
     * Keeps all places busy, so that a slow job holds up nobody else, until it is told to stop; then ends when the
     * jobs under way have. `idle`: how long it sleeps at most where nothing nudges it.
     */
    readonly run: (isStopping: () => boolean, idle: Duration.Duration) => Effect.Effect<void>
    /** Records what providers have taken while the store was away (`SubmitMessage.recordTaken`). */
    readonly recordTaken: Effect.Effect<void>
    /** Puts off what providers have not answered yet, for whoever stops waits no longer (`SubmitMessage.cutOff`). */
    readonly cutOff: Effect.Effect<void>
    /**
     * When `run` was interrupted after it was told to stop: gives back the jobs that did not end, as if they had not been
     * claimed, for they broke nobody. But for mail: what was being submitted, and could not be put off, is left to its lease,
     * and not submitted again at once.
     */
    readonly release: Effect.Effect<void>
  }
>()("mailroom/core/jobs/Worker") {
  static readonly layer = Layer.effect(
    Worker,
    Effect.gen(function* () {
      const queue = yield* JobQueue
      const submitMessage = yield* SubmitMessage
      const scanAttachment = yield* ScanAttachment
      const pollProvider = yield* PollProvider
      const deliverWebhook = yield* DeliverWebhook
      const parseMessage = yield* ParseMessage
      const clockOffset = yield* ClockOffset

      /** Those that answer with true have ended the job themselves. */
      const handlers: Record<
        JobKind,
        (lease: Lease, held: HeldLease) => Effect.Effect<boolean, StoreUnavailable | SealBroken | BlobUnavailable | GivenBack>
      > = {
        submit: submitMessage.handle,
        // To the types an Effect of anything is one of void, and the queue's answer to an offer may be among it.
        scan: (lease) => Effect.as(scanAttachment.handle(lease), false),
        poll: (lease) => Effect.as(pollProvider.handle(lease), false),
        deliver: deliverWebhook.handle,
        parse: parseMessage.handle
      }

      const toExtend = yield* Deadlines.make(extendEvery)
      /** Beside the work: keeps leases, and ends them late. */
      const aside = yield* FiberSet.makeRuntime()

      /**
       * Holds the lease for as long as the work goes on, whatever the queue's moods, until somebody else has it. The
       * store's versions fence the result, so losing it is no error; what cannot be undone is not begun any more.
       */
      const hold = <A, E, R>(lease: Lease, work: (held: HeldLease) => Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
        Clock.clockWith((clock) => {
          const held = new HeldLease(lease, clock)
          let isOver = false
          let deadline: Deadlines.Deadline | null = null
          const wait = () => {
            if (!isOver) deadline = toExtend.set(() => void aside(extend()))
          }
          const extend = () =>
            queue.extend(lease, visibilityTimeout).pipe(
              Effect.map((extended) => held.extended(extended)),
              Effect.catchTag("QueueUnavailable", () => Effect.void),
              Effect.catchCauseIf(isBroken, broke),
              Effect.andThen(Effect.sync(wait)),
              Effect.catchTag("LeaseLost", () => Effect.sync(() => held.lost()))
            )
          wait()
          return Effect.ensuring(
            work(held),
            Effect.sync(() => {
              isOver = true
              toExtend.clear(deadline)
            })
          )
        })

      const seldom = SeldomLog.make()
      const away = (error: QueueUnavailable) => seldom(Effect.logWarning("the job queue is away", error))

      /** A defect of the queue, or that it interrupts whoever calls it: that ends no lane, and no job that is under way. */
      const broke = <E>(cause: Cause.Cause<E>) => Effect.logError("the job queue broke; it is asked again", cause)

      /** What cannot be given back comes again when its lease runs out. */
      const giveBack = (lease: Lease, delay: Duration.Duration): Effect.Effect<void> =>
        Effect.catchTags(queue.release(lease, delay), {
          LeaseLost: () => Effect.void,
          QueueUnavailable: away
        }).pipe(Effect.catchCauseIf(isBroken, broke))

      /** It would come again when its lease runs out, and that claim would count against it, though it broke nobody. */
      const completeLate = (lease: Lease): Effect.Effect<void> =>
        Effect.delay(queue.complete(lease), completePause).pipe(
          Effect.retry({ while: ({ _tag }) => _tag === "QueueUnavailable", times: completesMax }),
          Effect.ignore
        )

      /** The store was away, the blobs, or a sealing key: no fault of the job, so its claims must not count against it. */
      const postpone = Effect.fnUntraced(function* ({ job }: Lease, error: StoreUnavailable | SealBroken | BlobUnavailable) {
        yield* Effect.logWarning("a job could not be done; it is tried again", error)
        yield* offer(queue, [{ ...job, dueAt: (yield* Clock.currentTimeMillis) + unavailableRetry }])
      })

      const workAndEnd = Effect.fnUntraced(function* (lease: Lease, held: HeldLease) {
        const ended = Metrics.jobsEnded[lease.job.kind]
        const end = yield* handlers[lease.job.kind](lease, held).pipe(
          joinTrace(lease),
          Effect.map((isEnded) => ({ metric: ended.completed, isEnded })),
          Effect.catch((error) =>
            error._tag === "GivenBack"
              ? Effect.as(giveBack(lease, Duration.zero), null)
              : Effect.as(postpone(lease, error), { metric: ended.postponed, isEnded: false })
          )
        )
        if (end === null) return
        const { metric, isEnded } = end
        if (isEnded) return yield* Metrics.count(metric)
        const completed = Effect.catchTags(Effect.as(queue.complete(lease), metric), {
          LeaseLost: () => Effect.succeed(ended.lost),
          QueueUnavailable: (error) => {
            aside(completeLate(lease))
            return Effect.as(away(error), ended.postponed)
          }
        })
        yield* Effect.flatMap(completed, Metrics.count)
      })

      const work = (lease: Lease) => {
        const { kind, subject, realm } = lease.job
        const done = Effect.catchCause(hold(lease, (held) => workAndEnd(lease, held)), (cause) =>
          Effect.andThen(
            Metrics.count(Metrics.jobsEnded[kind].broken),
            Effect.logError("a job came to no end; its lease runs out and it comes again", cause)
          )
        )
        return Effect.annotateLogs(done, { job: kind, [subjects[kind]]: subject, tenantId: realm.tenantId })
      }

      /** What was under way when a worker that had been told to stop was interrupted. */
      const unfinished: Array<Lease> = []
      const noteUnfinished = <A, E, R>(lease: Lease, isStopping: () => boolean, self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
        Effect.onInterrupt(self, () => Effect.sync(() => void (isStopping() && lease.job.kind !== "submit" && unfinished.push(lease))))

      const suspectTurn = new SuspectTurn()
      /** Its turn at a suspect, if it has one, ends with this. */
      const thenEndTurn = <A, E, R>(lane: Lane, self: Effect.Effect<A, E, R>) => Effect.ensuring(self, Effect.sync(() => suspectTurn.end(lane)))

      /**
       * Claims, and deals out: jobs to trust, and at most one that came to no end twice before. Such a one is worked
       * alone in its lane, and its like are given back untouched for later, so that what breaks the worker wears out
       * nobody else's job, and jobs to trust go before it.
       */
      const claim = Effect.fnUntraced(function* (lane: Lane, limit: number): Effect.fn.Return<Claimed> {
        const { kinds, inFlightMax } = lane
        if (!isClockTrusted(clockOffset)) return noClaim
        const leases = yield* queue.claim({ kinds, limit, visibilityTimeout, inFlightMax }).pipe(
          Effect.catch((error) => Effect.andThen(Metrics.count(Metrics.claimsUnavailable), Effect.as(away(error), null))),
          Effect.catchCauseIf(isBroken, (cause) => Effect.as(broke(cause), null))
        )
        if (leases === null) return noClaim
        for (const { job } of leases) yield* Metrics.count(Metrics.jobsClaimed[job.kind])
        const fresh = leases.filter(({ claims }) => claims <= trustedClaims)
        const suspects = leases.filter(({ claims }) => claims > trustedClaims)
        if (suspects.length === 0) suspectTurn.pass(lane)
        const suspect = suspects.length > 0 && suspectTurn.begin(lane) ? suspects[0]! : null
        const others = suspects.filter((lease) => lease !== suspect)
        yield* Effect.forEach(others, (lease) => giveBack(lease, suspectPause), { discard: true })
        return { fresh, suspect, isAway: false, isAll: leases.length < limit }
      })

      /** Holds a suspect's lease while others come to their end, and then works it. */
      const workBehind = (lease: Lease, others: Effect.Effect<void>, isStopping: () => boolean) => {
        const waiting = Effect.onInterrupt(hold(lease, () => others), () => Effect.sync(() => void (isStopping() && unfinished.push(lease))))
        return Effect.andThen(waiting, noteUnfinished(lease, isStopping, work(lease)))
      }

      /** Keeps the places of a lane busy until told to stop. */
      const runLane = Effect.fnUntraced(function* (lane: Lane, isStopping: () => boolean, idle: Duration.Duration) {
        const clock = yield* Clock.Clock
        const places = new LanePlaces(lane)
        const permits = Semaphore.makeUnsafe(lane.placesMax)
        const fibers = yield* FiberSet.make()

        /** Works a job in a place of its own, and those that follow it there. */
        const start = (lease: Lease): Effect.Effect<unknown> => {
          places.taken += 1
          const left = Effect.sync(() => void (places.taken -= 1))
          return FiberSet.run(fibers, permits.withPermits(1)(fill(lease)).pipe(Effect.ensuring(left)))
        }
        const fill: (first: Lease) => Effect.Effect<void> = Effect.fnUntraced(function* (first) {
          const place = new PlaceInLane(places, clock, isStopping)
          for (let lease: Lease | null = first; lease !== null; ) {
            yield* noteUnfinished(lease, isStopping, Effect.provideService(work(lease), Place, place))
            lease = null
            for (const next of place.ended()) {
              yield* Metrics.count(Metrics.jobsClaimed[next.job.kind])
              if (next.claims > trustedClaims || isStopping()) yield* giveBack(next, Duration.zero)
              else if (lease === null) lease = next
              else yield* start(next)
            }
          }
        })

        while (!isStopping()) {
          yield* permits.withPermits(1)(Effect.void) // a place is free
          if (places.taken > 0 && !Duration.isZero(lane.claimPause)) yield* Effect.sleep(lane.claimPause)
          if (isStopping()) break
          const { fresh, suspect, isAway, isAll } = yield* claim(lane, places.free)
          if (isStopping()) {
            // Another worker has them at once. Begun here they might not end in time, and would be left to their leases.
            const leases = suspect === null ? fresh : [...fresh, suspect]
            yield* Effect.forEach(leases, (lease) => giveBack(lease, Duration.zero), { concurrency: "unbounded", discard: true })
            break
          }
          places.isSpare = isAll && suspect === null
          for (const lease of fresh) yield* start(lease)
          if (suspect !== null) yield* thenEndTurn(lane, workBehind(suspect, FiberSet.awaitEmpty(fibers), isStopping))
          else if (isAway) yield* Effect.sleep(idle)
          else if (isAll) yield* Effect.catchCauseIf(queue.awaitWork(lane.kinds, idle), isBroken, (cause) => Effect.andThen(broke(cause), Effect.sleep(idle)))
        }
        yield* FiberSet.awaitEmpty(fibers)
      }, Effect.scoped)

      return Worker.of({
        recordTaken: submitMessage.recordTaken,
        cutOff: submitMessage.cutOff,
        release: Effect.suspend(() =>
          Effect.forEach(unfinished.splice(0), (lease) => giveBack(lease, Duration.zero), { concurrency: "unbounded", discard: true })
        ),
        tick: Effect.gen(function* () {
          const claimed = yield* Effect.forEach(lanes, (lane) => claim(lane, lane.placesMax))
          const fresh = claimed.flatMap((one) => one.fresh)
          const suspect = claimed.map((one) => one.suspect).find((lease) => lease !== null) ?? null
          const others = Effect.forEach(fresh, work, { concurrency: "unbounded", discard: true })
          yield* suspect === null ? others : workBehind(suspect, others, () => false)
          return fresh.length + (suspect === null ? 0 : 1)
        }).pipe(Effect.ensuring(Effect.sync(() => lanes.forEach((lane) => suspectTurn.end(lane))))),

        run: (isStopping, idle) =>
          Effect.forEach(lanes, (lane) => thenEndTurn(lane, runLane(lane, isStopping, idle)), {
            concurrency: "unbounded",
            discard: true
          })
      })
    })
  )
}
