/**
 * From the log to the endpoints: makes one delivery of each event for each
 * endpoint that subscribes to it, and moves its place in the log in the same
 * commit (Spec 6). So an event is fanned out once, however many workers relay.
 */
import { Cause, Clock, Context, Duration, Effect, Layer } from "effect"
import type { Delivery } from "../model/Delivery.ts"
import { subscribes, type Endpoint } from "../model/Endpoint.ts"
import type { LoggedEvent } from "../model/Event.ts"
import type { DeliveryId, Millis } from "../model/Ids.ts"
import * as Webhook from "../model/Webhook.ts"
import { commit, dieOnRejection, isRejected } from "../operations/Commit.ts"
import { deliverJob } from "../operations/Webhooks.ts"
import { ClockOffset, isClockTrusted } from "../ClockOffset.ts"
import { Crypto } from "../ports/Crypto.ts"
import { JobQueue } from "../ports/JobQueue.ts"
import * as Metrics from "../Metrics.ts"
import { Store, type Change, type Relay, type StoreUnavailable } from "../ports/Store.ts"
import * as Tracing from "../Tracing.ts"

/** Events of a shard that are read at a time. */
const batchSize = 200
/** Deliveries of one commit, unless a single event has more. */
const deliveriesPerCommit = 1_000
/** For how long the others leave a shard to the worker that moved it last. */
const holdDuration = Duration.toMillis("5 seconds")
/** How long a shard whose relaying broke is left alone. */
const brokenPause = Duration.toMillis("10 seconds")

export class EventRelay extends Context.Service<
  EventRelay,
  {
    /** Fans out what the log holds by now, up to a batch per shard; how many events that was. 0: nothing, or all of it is others'. */
    readonly tick: Effect.Effect<number>
  }
>()("mailroom/core/jobs/EventRelay") {
  static readonly layer = Layer.effect(
    EventRelay,
    Effect.gen(function* () {
      const store = yield* Store
      const queue = yield* JobQueue
      const crypto = yield* Crypto
      const clockOffset = yield* ClockOffset
      const holder = yield* crypto.uuid

      const relay = Effect.fnUntraced(
        function* ({ shard, position }: Relay) {
          const events = yield* store.events.readLog(shard, position, batchSize)
          // Read behind the events: an endpoint that was there before an event is there now.
          const endpoints = yield* store.endpoints.enabled([...new Set(events.map(({ tenantId }) => tenantId))])
          const now = yield* Clock.currentTimeMillis
          const changes: Array<Change> = []
          const made: Array<Delivery> = []
          let moved: LoggedEvent | undefined
          for (const event of events) {
            const subscribed = endpoints.filter((endpoint) => subscribes(endpoint, event))
            if (made.length > 0 && made.length + subscribed.length > deliveriesPerCommit) break
            const bodies = new Map<string, string>()
            for (const endpoint of subscribed) {
              const body = bodies.get(endpoint.apiVersion) ?? Webhook.envelope(event, endpoint.apiVersion)
              bodies.set(endpoint.apiVersion, body)
              const delivery = deliveryOf(event, endpoint, (yield* crypto.uuid) as DeliveryId, now) // a UUID is any of them
              changes.push({ _tag: "InsertDelivery", delivery, body })
              made.push(delivery)
            }
            moved = event
          }
          if (moved === undefined) return 0
          const next: Relay = { shard, position: moved.position, holder, heldUntil: now + holdDuration }
          changes.push({ _tag: "MoveRelay", relay: next, from: position })
          yield* commit(store, queue, changes, made.map((delivery) => deliverJob(delivery, now)))
          const relayed = events.slice(0, events.indexOf(moved) + 1)
          yield* Metrics.add(Metrics.eventsRelayed, relayed.length)
          yield* Metrics.add(Metrics.deliveriesMade, made.length)
          yield* Effect.forEach(relayed, (event) => traced(event, made), { discard: true })
          return relayed.length
        },
        // Another worker was faster, and goes on from where it is.
        Effect.catchIf((error) => isRejected(error, "VersionMoved"), () => Effect.succeed(0)),
        dieOnRejection
      )

      /** Until when a shard is left alone whose relaying broke. */
      const broken = new Map<number, Millis>()

      /** What breaks one shard's relaying holds up no other's. */
      const apart = (relaying: Effect.Effect<number, StoreUnavailable>, shard: number) =>
        Effect.catchCauseIf(relaying, (cause) => Cause.hasDies(cause), (cause) =>
          Effect.gen(function* () {
            broken.set(shard, (yield* Clock.currentTimeMillis) + brokenPause)
            yield* Effect.logError("a shard could not be relayed; it is tried again", cause).pipe(Effect.annotateLogs({ shard }))
            return 0
          })
        )

      const tick = Effect.gen(function* () {
        if (!isClockTrusted(clockOffset)) return 0
        const now = yield* Clock.currentTimeMillis
        const behind = yield* store.relay.behind
        const open = behind.filter(
          ({ shard, holder: by, heldUntil }) =>
            (by === holder || heldUntil <= now || heldUntil > now + holdDuration) && (broken.get(shard) ?? 0) <= now
        )
        const counts = yield* Effect.forEach(open, (one) => apart(relay(one), one.shard), { concurrency: 4 })
        return counts.reduce((sum, count) => sum + count, 0)
      })

      return EventRelay.of({
        tick: tick.pipe(
          Effect.catch((error) => Effect.as(Effect.logWarning("the relay could not read the store; it goes on later", error), 0))
        )
      })
    })
  )
}

/** A mark in a message's trace: here one of its events became deliveries. */
const traced = (event: LoggedEvent, made: ReadonlyArray<Delivery>): Effect.Effect<void> =>
  event.resourceType !== "message"
    ? Effect.void
    : Effect.suspend(() =>
        Tracing.annotate({ "mailroom.deliveries": made.filter(({ eventId }) => eventId === event.id).length })
      ).pipe(
        Tracing.spanOf(event.resourceId, "EventRelay.relay", {
          "mailroom.message_id": event.resourceId,
          "mailroom.event_id": event.id,
          "mailroom.event_type": event.type,
          "mailroom.tenant_id": event.tenantId
        })
      )

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
