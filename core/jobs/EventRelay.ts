/**
 * From the log to the endpoints: makes one delivery of each event for each
 * endpoint that subscribes to it, and moves its position in the log in the same
 * commit (Spec 6). So an event is fanned out once, however many workers relay.
 */
import { Clock, Context, Duration, Effect, Exit, Fiber, FiberSet, Layer } from "effect"
import type { Delivery } from "../model/Delivery.ts"
import { subscribes, type Endpoint } from "../model/Endpoint.ts"
import type { LoggedEvent } from "../model/Event.ts"
import type { DeliveryId, EndpointId, Millis } from "../model/Ids.ts"
import * as Limits from "../model/Limits.ts"
import * as Webhook from "../model/Webhook.ts"
import { commit, dieOnRejection, isRejected, unchanged } from "../operations/Commit.ts"
import { deliverJob } from "../operations/Webhooks.ts"
import { ClockOffset, clockOffsetMax, isClockTrusted } from "../ClockOffset.ts"
import { Crypto } from "../ports/Crypto.ts"
import { JobQueue, type Job } from "../ports/JobQueue.ts"
import * as Metrics from "../Metrics.ts"
import * as SeldomLog from "../SeldomLog.ts"
import { CommitRejected, Store, type Change, type Relay, type StoreUnavailable } from "../ports/Store.ts"
import * as Tracing from "../Tracing.ts"
import { FirstAttempts, type FirstAttempt, type NewDelivery } from "./FirstAttempts.ts"
import { RecordAttempts, succeeded } from "./RecordAttempts.ts"
import { requestsMax, WebhookAttempts } from "./WebhookAttempts.ts"
import { isBroken, visibilityTimeout } from "./Lanes.ts"

/** Events of a shard that are read at a time. */
const batchSize = 500
/** Deliveries of one commit, unless a single event has more. */
const deliveriesPerCommit = 1_000
/** The same where some are attempted first: a few for each request that may be in flight. */
const attemptsPerCommit = 4 * requestsMax
/** For how long the others leave a shard to the worker that moved it last. */
const holdDuration = Duration.toMillis("5 seconds")
/** Whoever holds one for longer had a clock that was wrong. */
const holdMax = holdDuration + clockOffsetMax
/** What is left of that time at least when attempts begin: longer than they take, and their commit. */
const holdMargin = Duration.toMillis("2 seconds")
/** So many endpoints of a page may turn out, one by one, to have changed meanwhile, before all of them are doubted. */
const landTries = 3
/** How long one shard is relayed at a time where others wait. */
const turn = Duration.toNanosUnsafe("250 millis")
/** How long a shard whose relaying broke is left alone. */
const brokenPause = Duration.toNanosUnsafe("10 seconds")

export class EventRelay extends Context.Service<
  EventRelay,
  {
    /**
     * Fans out what the log holds, each shard for a moment, and on while no other waits; how many events that was. 0: nothing,
     * or all of it is others'.
     */
    readonly tick: Effect.Effect<number>
    /** Waits for the attempts of past ticks that nobody has waited for, until they are recorded. */
    readonly ended: Effect.Effect<void>
    /** For a process that ends, once its ticks are over: leaves the shards that it holds to the others, who would wait for it. */
    readonly release: Effect.Effect<void>
  }
>()("mailroom/core/jobs/EventRelay") {
  static readonly layer = Layer.effect(
    EventRelay,
    Effect.gen(function* () {
      const store = yield* Store
      const queue = yield* JobQueue
      const crypto = yield* Crypto
      const clockOffset = yield* ClockOffset
      const attempts = yield* WebhookAttempts
      const recording = yield* RecordAttempts
      const firstAttempts = yield* FirstAttempts
      const late = yield* FiberSet.make()
      const holder = yield* crypto.uuid
      /** By shard, what this process has moved it to last. */
      const moved = new Map<number, Relay>()

      /** What comes next in a shard behind this position; null: nothing. */
      const read = Effect.fnUntraced(function* (shard: number, from: bigint): Effect.fn.Return<Page | null, StoreUnavailable> {
        const events = yield* store.events.readLog(shard, from, batchSize)
        // Read behind the events: an endpoint that was there before an event is there now.
        const endpoints = yield* store.endpoints.enabled([...new Set(events.map(({ tenantId }) => tenantId))])
        const now = yield* Clock.currentTimeMillis
        const made: Array<NewDelivery> = []
        const most = endpoints.some((endpoint) => attempts.inFlightMax(endpoint, now) > 0) ? attemptsPerCommit : deliveriesPerCommit
        let count = 0
        for (const event of events) {
          const subscribed = endpoints.filter((endpoint) => subscribes(endpoint, event))
          if (made.length > 0 && made.length + subscribed.length > most) break
          const bodies = new Map<string, string>()
          for (const endpoint of subscribed) {
            const body = bodies.get(endpoint.apiVersion) ?? Webhook.bodyOf(event, endpoint.apiVersion)
            bodies.set(endpoint.apiVersion, body)
            const delivery = deliveryOf(event, endpoint, yield* crypto.uuid, now)
            made.push({ delivery, endpoint, body, attempt: firstAttempts.begun(delivery) })
          }
          count += 1
        }
        return count === 0 ? null : { shard, from, events: events.slice(0, count), made }
      })

      /** By the store's clock: who holds a shard is for all to know. */
      const holdClock = Effect.map(Clock.currentTimeMillis, (now) => now + clockOffset())

      /**
       * Commits a page, the deliveries in it with what has come of their first attempts. One that is under way, or whose
       * endpoint is doubted or has failed, is recorded behind it: until then its delivery waits, as if somebody had leased
       * it. What has succeeded is sent again only if somebody asks for it; of a fresh event its body can be made anew then, and
       * is not kept twice. The answer is until when the shard is held.
       */
      const land = Effect.fnUntraced(function* (page: Page, doubted: ReadonlySet<EndpointId>): Effect.fn.Return<Millis, CommitRejected | StoreUnavailable> {
        const { shard, from, events, made } = page
        const now = yield* Clock.currentTimeMillis
        const changes: Array<Change> = []
        const jobs: Array<Job> = []
        const left: Array<NewDelivery> = []
        const ended: Array<NewDelivery> = []
        const failed = new Set(made.flatMap(({ endpoint, attempt }) => (hasFailed(attempt) ? endpoint.id : [])))
        const fresh = new Set(events.flatMap(({ id, occurredAt }) => (now - occurredAt < Limits.freshEventMax ? id : [])))
        const isDoubted = (endpoint: Endpoint) => doubted.has(endpoint.id) || failed.has(endpoint.id) || attempts.hasFailedLately(endpoint)
        for (const one of made) {
          const delivery = deliveryAfter(one, now, isDoubted(one.endpoint))
          const isBodyKept = delivery.status === "pending" || !fresh.has(delivery.eventId)
          changes.push({ _tag: "InsertDelivery", delivery, body: isBodyKept ? one.body : null })
          if (delivery.status !== "pending") ended.push(one)
          else {
            jobs.push(deliverJob(delivery, delivery.nextAttemptAt ?? now))
            if (one.attempt !== null) left.push({ ...one, delivery })
          }
        }
        const endpoints = new Map(ended.map(({ endpoint }) => [endpoint.id, endpoint]))
        const next: Relay = { shard, position: endOf(page), holder, heldUntil: (yield* holdClock) + holdDuration }
        changes.push({ _tag: "MoveRelay", relay: next, from }, ...[...endpoints.values()].map((endpoint) => unchanged("endpoint", endpoint)))
        yield* commit(store, queue, changes, jobs)
        moved.set(shard, next)
        firstAttempts.forget(made)
        for (const { delivery } of ended) attempts.recorded(delivery)
        for (const one of left) yield* FiberSet.run(late, recordLate(one))
        yield* Metrics.add(Metrics.deliveriesEnded.delivered, ended.length)
        yield* Metrics.add(Metrics.eventsRelayed, events.length)
        yield* Metrics.add(Metrics.deliveriesMade, made.length)
        yield* traced(page)
        return next.heldUntil
      })

      /** Lands a page. An endpoint that has changed since its attempts began is doubted: each of them is recorded by itself. */
      const landed = (page: Page) =>
        Effect.suspend(() => {
          const all = new Set(page.made.map(({ endpoint }) => endpoint.id))
          const landDoubting = (doubted: ReadonlySet<EndpointId>, tries: number): ReturnType<typeof land> =>
            Effect.catchIf(
              land(page, doubted),
              (error) => movedEndpoint(error) !== null,
              (error) => landDoubting(tries === 0 ? all : new Set([...doubted, movedEndpoint(error)!]), tries - 1) // it is one
            )
          return landDoubting(new Set(), landTries)
        })

      const recordLate = Effect.fnUntraced(
        function* ({ delivery, endpoint, attempt }: NewDelivery) {
          const ending = attempt === null ? null : yield* firstAttempts.ended(attempt)
          if (ending !== null) yield* recording.record(delivery, endpoint, ending)
        },
        Effect.catch((error) => Effect.logWarning("a first attempt is recorded when its delivery is claimed", error))
      )

      const attemptedAndLanded = (page: Page, before: Landing, isHeld: boolean) =>
        (isHeld ? firstAttempts.make(page.made) : Effect.void).pipe(Effect.andThen(Fiber.join(before)), Effect.andThen(landed(page)))

      /**
       * Goes on while there is more, for a turn, and on while no other shard waits. A page is attempted while the one before it
       * is committed; whoever ends waits for all that is in flight, with ever less to do meanwhile.
       *
       *     this loop   read 1, read 2 · · · · · · · · · read 3 · · · · · · · · · read 4
       *     page 1             attempts ──────── commit
       *     page 2                     attempts ── · · · commit ─────────────────
       *     page 3                                              attempts ── · · · commit
       *
       * Dots wait: a page's commit for its attempts and for the commit before it, the loop for the commit before the page that
       * it has just begun. So two pages are in flight at most, and a third is never read before the first has landed.
       */
      const relay = Effect.fnUntraced(
        function* (
          { shard, position, holder: by, heldUntil }: Relay,
          othersWait: Effect.Effect<boolean, StoreUnavailable>
        ): Effect.fn.Return<number, CommitRejected | StoreUnavailable> {
          const clock = yield* Clock.Clock
          let begun = clock.monotonicTimeNanosUnsafe()
          /** Whether it is to end here, also because the process stops, its clock has gone wrong, or the store cannot tell. */
          const isOver = Effect.gen(function* () {
            const now = clock.monotonicTimeNanosUnsafe()
            if (now - begun <= turn) return false
            begun = now
            if (!isClockTrusted(clockOffset)) return true
            const asked = yield* Effect.exit(Effect.interruptible(othersWait))
            return Exit.isFailure(asked) || asked.value
          })
          const isHeld = (until: Millis) => until - (clock.currentTimeMillisUnsafe() + clockOffset()) >= holdMargin
          let relayed = 0
          let held = by === holder ? heldUntil : 0
          let page = yield* read(shard, position)
          if (page !== null && !isHeld(held)) {
            // From then on nobody else relays this shard, and what this process sends nobody else sends. So little is claimed.
            const now = clock.currentTimeMillisUnsafe()
            const [first, rest] = page.made.some(({ endpoint }) => attempts.inFlightMax(endpoint, now) > 0) ? firstOf(page) : [page, null]
            held = yield* landed(first)
            relayed += first.events.length
            page = rest ?? (yield* read(shard, endOf(first)))
          }
          let landing: Landing = yield* Effect.forkChild(Effect.succeed(held))
          while (page !== null) {
            const before: Landing = landing
            landing = yield* Effect.forkChild(attemptedAndLanded(page, before, isHeld(held)), { uninterruptible: true })
            held = yield* Fiber.join(before)
            relayed += page.events.length
            page = (yield* isOver) ? null : yield* read(shard, endOf(page))
          }
          yield* Fiber.join(landing)
          return relayed
        },
        // Another worker was faster, and goes on from where it is.
        Effect.catchIf((error) => isRejected(error, "VersionMoved"), () => Effect.succeed(0)),
        dieOnRejection,
        // What was sent is committed, also on the way out.
        Effect.uninterruptible
      )

      const seldom = SeldomLog.make()

      /** Until when a shard is left alone whose relaying broke, by the monotonic clock. */
      const broken = new Map<number, bigint>()

      /** What breaks one shard's relaying holds up no other's. */
      const apart = (relaying: Effect.Effect<number, StoreUnavailable>, shard: number) =>
        Effect.catchCauseIf(relaying, isBroken, (cause) =>
          Effect.gen(function* () {
            broken.set(shard, (yield* Clock.monotonicTimeNanos) + brokenPause)
            yield* Effect.logError("a shard could not be relayed; it is tried again", cause).pipe(Effect.annotateLogs({ shard }))
            return 0
          })
        )

      /** Shards that are behind, and nobody else's. */
      const open = Effect.gen(function* () {
        const [steady, storeNow] = [yield* Clock.monotonicTimeNanos, yield* holdClock]
        const behind = yield* store.relay.behind
        return behind.filter(
          ({ shard, holder: by, heldUntil }) =>
            (by === holder || heldUntil <= storeNow || heldUntil > storeNow + holdMax) && (broken.get(shard) ?? steady) <= steady
        )
      })

      const tick = Effect.gen(function* () {
        if (!isClockTrusted(clockOffset)) return 0
        const relaying = new Set<number>()
        const othersWait = Effect.map(open, (shards) => shards.some(({ shard }) => !relaying.has(shard)))
        const counts = yield* Effect.forEach(
          yield* open,
          (one) =>
            Effect.acquireUseRelease(
              Effect.sync(() => relaying.add(one.shard)),
              () => apart(relay(one, othersWait), one.shard),
              () => Effect.sync(() => relaying.delete(one.shard))
            ),
          { concurrency: 4 }
        )
        return counts.reduce((sum, count) => sum + count, 0)
      })

      const release = Effect.gen(function* () {
        const storeNow = yield* holdClock
        const mine = [...moved.values()].filter(({ heldUntil }) => heldUntil > storeNow)
        // Who moved a shard since has it; where the store is away, the others wait as for one that was killed.
        yield* Effect.forEach(
          mine,
          (relay) => Effect.ignore(commit(store, queue, [{ _tag: "MoveRelay", relay: { ...relay, heldUntil: 0 }, from: relay.position }], [])),
          { concurrency: "unbounded", discard: true }
        )
      })

      return EventRelay.of({
        tick: tick.pipe(
          Effect.catch((error) => Effect.as(seldom(Effect.logWarning("the relay could not read the store; it goes on later", error)), 0))
        ),
        ended: FiberSet.awaitEmpty(late),
        release
      })
    })
  )
}

/** Events that follow each other in a shard behind a position, one at least, and the deliveries to be made of them. */
interface Page {
  readonly shard: number
  readonly from: bigint
  readonly events: ReadonlyArray<LoggedEvent>
  readonly made: ReadonlyArray<NewDelivery>
}

/** A page's commit, which follows that of the page before it. */
type Landing = Fiber.Fiber<Millis, CommitRejected | StoreUnavailable>

const endOf = ({ events }: Page): bigint => events.at(-1)!.position // it has some

/** The first event of a page, and the page that is left. */
const firstOf = ({ shard, from, events, made }: Page): readonly [Page, Page | null] => {
  const [event, ...others] = events
  const { id, position } = event! // it has some
  const first = { shard, from, events: [event!], made: made.filter(({ delivery }) => delivery.eventId === id) }
  const rest = { shard, from: position, events: others, made: made.filter(({ delivery }) => delivery.eventId !== id) }
  return [first, others.length === 0 ? null : rest]
}

/** A delivery as it is committed after its first attempt, or without one. */
const deliveryAfter = ({ delivery, attempt }: NewDelivery, now: Millis, isDoubted: boolean): Delivery => {
  if (attempt === null) return delivery
  if (attempt.ending?.outcome === "success" && !isDoubted) return { ...succeeded(delivery, attempt.ending), version: delivery.version }
  return { ...delivery, nextAttemptAt: now + Duration.toMillis(visibilityTimeout) }
}

const hasFailed = (attempt: FirstAttempt | null): boolean => attempt?.ending != null && attempt.ending.outcome !== "success"

/** The endpoint at whose version a commit was rejected; null if it was not. */
const movedEndpoint = (error: CommitRejected | StoreUnavailable): EndpointId | null =>
  error instanceof CommitRejected && error.reason._tag === "VersionMoved" && error.reason.kind === "endpoint"
    ? (error.reason.id as EndpointId) // by its kind
    : null

/** Marks in the traces of messages: here their events became deliveries. */
const traced = ({ events, made }: Page): Effect.Effect<void> =>
  Effect.withFiber((fiber) => {
    if (!Tracing.isTraced(fiber)) return Effect.void
    const deliveries = Map.groupBy(made, ({ delivery }) => delivery.eventId)
    return Effect.forEach(
      events.filter(({ resourceType }) => resourceType === "message"),
      ({ id, type, resourceId, tenantId }) =>
        Tracing.annotate({ "mailroom.deliveries": deliveries.get(id)?.length ?? 0 }).pipe(
          Tracing.spanOf(resourceId, "EventRelay.relay", {
            "mailroom.message_id": resourceId,
            "mailroom.event_id": id,
            "mailroom.event_type": type,
            "mailroom.tenant_id": tenantId
          })
        ),
      { discard: true }
    )
  })

/** An event on its way to an endpoint, due at once. */
const deliveryOf = (event: LoggedEvent, endpoint: Endpoint, id: DeliveryId, now: Millis): Delivery => {
  const demo = event.data.demo === true
  return {
    id,
    tenantId: endpoint.tenantId,
    environment: endpoint.environment,
    applicationId: endpoint.applicationId,
    endpointId: endpoint.id,
    eventId: event.id,
    eventPosition: event.position,
    eventType: event.type,
    resourceId: event.resourceId,
    version: 1,
    status: "pending",
    trigger: demo ? "test" : "event",
    demo,
    round: 1,
    attemptCount: 0,
    nextAttemptAt: now,
    deliveredAt: null,
    deadAt: null,
    lastError: null,
    attempts: [],
    createdAt: now
  }
}
