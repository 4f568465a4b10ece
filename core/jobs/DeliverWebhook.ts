/**
 * One attempt at a delivery that is due: reads delivery and endpoint anew, and
 * has the attempt made (`WebhookAttempts`) and committed (`RecordAttempts`).
 */
import { Clock, Context, Duration, Effect, Layer, Result, Semaphore } from "effect"
import * as Deliveries from "../model/Delivery.ts"
import type { Delivery } from "../model/Delivery.ts"
import type { Endpoint } from "../model/Endpoint.ts"
import type { DeliveryId, Millis } from "../model/Ids.ts"
import { claimsMax } from "../model/Limits.ts"
import { commit, dieOnRejection, isRejected, offer, unchanged } from "../operations/Commit.ts"
import { bodyAnew, deliverJob } from "../operations/Webhooks.ts"
import type { SealBroken } from "../ports/Crypto.ts"
import { JobQueue, type Lease } from "../ports/JobQueue.ts"
import { Store, type Change, type Next, type Outgoing, type StoreUnavailable } from "../ports/Store.ts"
import { countEnded, RecordAttempts } from "./RecordAttempts.ts"
import { aboutDelivery, requestsMax, traced, WebhookAttempts } from "./WebhookAttempts.ts"

/** How old a look at an endpoint may be when an attempt begins: 100 ms. */
const lookLifetime = Duration.toNanosUnsafe("100 millis")

/** An attempt that is to be made. */
interface Ready {
  readonly _tag: "Ready"
  readonly delivery: Delivery
  readonly endpoint: Endpoint
  readonly body: string
}

/** No attempt is to be made. `isJobEnded`: what was committed has ended the job, too. */
interface NothingToSend {
  readonly _tag: "NothingToSend"
  readonly isJobEnded: boolean
}

const nothingToSend: NothingToSend = { _tag: "NothingToSend", isJobEnded: false }

/** How a delivery ends without an attempt, and why. */
interface EndWithoutAttempt {
  readonly input: Deliveries.Input
  readonly lastError: string
  /** The endpoint that is the reason: if it has changed by now, nothing ends. */
  readonly because: Endpoint | null
  /** Runs once the delivery has ended. */
  readonly log: Effect.Effect<void>
}

export class DeliverWebhook extends Context.Service<
  DeliverWebhook,
  {
    /**
     * One attempt at the job's delivery, if it is due. True: its job ended with what it committed. Fails only if the store
     * does, or the endpoint's secret cannot be opened.
     */
    readonly handle: (lease: Lease | Next) => Effect.Effect<boolean, StoreUnavailable | SealBroken>
  }
>()("mailroom/core/jobs/DeliverWebhook") {
  static readonly layer = Layer.effect(
    DeliverWebhook,
    Effect.gen(function* () {
      const store = yield* Store
      const queue = yield* JobQueue
      const attempts = yield* WebhookAttempts
      const recording = yield* RecordAttempts
      const requests = Semaphore.makeUnsafe(requestsMax)

      const outgoingOf = ({ job }: Lease) => store.deliveries.outgoing(job.realm, job.subject as DeliveryId) // by its kind

      const handle = Effect.fnUntraced(function* (lease: Lease | Next) {
        const known = "outgoing" in lease ? lease.outgoing : null
        const outgoing = known ?? (yield* outgoingOf(lease))
        if (outgoing === null || outgoing.delivery.nextAttemptAt === null) return false
        return yield* deliver(lease, outgoing).pipe(
          traced("DeliverWebhook.handle", outgoing.delivery, { "mailroom.job.claims": lease.claims }),
          aboutDelivery(outgoing.delivery)
        )
      })

      const deliver = Effect.fnUntraced(function* (lease: Lease | Next, outgoing: Outgoing) {
        const prepared = yield* prepare(lease, outgoing)
        if (prepared._tag === "NothingToSend") return prepared.isJobEnded
        const clock = yield* Clock.Clock
        const since = clock.monotonicTimeNanosUnsafe()
        const sent = yield* requests.withPermit(
          Effect.suspend(() => (clock.monotonicTimeNanosUnsafe() - since < lookLifetime ? attempt(prepared) : attemptAnew(lease)))
        )
        if (sent._tag === "NothingToSend") return sent.isJobEnded
        return yield* recording.record(sent.delivery, sent.endpoint, sent.ending, lease)
      })

      /** The attempt that the delivery is due for. What stands against one is committed here. */
      const prepare = Effect.fnUntraced(function* (
        lease: Lease,
        { delivery, endpoint, body }: Outgoing
      ): Effect.fn.Return<Ready | NothingToSend, StoreUnavailable> {
        const now = yield* Clock.currentTimeMillis
        const { nextAttemptAt } = delivery
        if (nextAttemptAt === null) return nothingToSend
        if (nextAttemptAt > now) return yield* Effect.as(offer(queue, [deliverJob(delivery, nextAttemptAt)]), nothingToSend)
        if (lease.claims >= claimsMax) return yield* abandon(delivery, now, `it was claimed ${lease.claims} times and came to no end`)
        if (endpoint === null) return yield* Effect.die(new Error(`delivery ${delivery.id} has no endpoint`))
        const unrecorded = attempts.unrecorded(delivery)
        if (unrecorded !== null) return { ...nothingToSend, isJobEnded: yield* recording.record(delivery, endpoint, unrecorded, lease) }
        if (!endpoint.enabled) {
          // Never before that, by whatever clock: a replay of what died of it begins there.
          const at = Math.max(now, endpoint.disabledAt ?? now)
          const input = { _tag: "EndpointDisabled", at } as const
          return yield* end(delivery, { input, lastError: "endpoint_disabled", because: endpoint, log: Effect.void })
        }
        // While processes of an older version run, one may replay what left its body to its event, without making it anew.
        const sent = body ?? (yield* bodyAnew(store, delivery, endpoint))
        if (sent === null) return yield* abandon(delivery, now, "its body was left to its event, and that is forgotten")
        return { _tag: "Ready", delivery, endpoint, body: sent }
      })

      const attempt = ({ delivery, endpoint, body }: Ready) =>
        Effect.map(attempts.attempt(delivery, endpoint, body), (ending) => ({ _tag: "Sent", delivery, endpoint, ending }) as const)

      /** For one that had to wait for its request: its endpoint may be disabled by now. */
      const attemptAnew = Effect.fnUntraced(function* (lease: Lease) {
        const outgoing = yield* outgoingOf(lease)
        if (outgoing === null) return nothingToSend
        const prepared = yield* prepare(lease, outgoing)
        return prepared._tag === "Ready" ? yield* attempt(prepared) : prepared
      })

      /** For a reason that the receiver has no part in: its owner reads `internal_error`, the operator's log says why. */
      const abandon = (delivery: Delivery, at: Millis, why: string) =>
        end(delivery, {
          input: { _tag: "Abandoned", at },
          lastError: "internal_error",
          because: null,
          log: Effect.logError(`a delivery was given up: ${why}`)
        })

      /** Ends a delivery without an attempt. If it, or the endpoint that is the reason, has changed by now, the job comes again instead. */
      const end = Effect.fnUntraced(
        function* (delivery: Delivery, { input, lastError, because, log }: EndWithoutAttempt) {
          const decision = Deliveries.decide(delivery, input)
          if (Result.isFailure(decision)) return nothingToSend
          const record = { ...Deliveries.apply(delivery, decision.success), version: delivery.version + 1, lastError }
          const premise: ReadonlyArray<Change> = because === null ? [] : [unchanged("endpoint", because)]
          yield* commit(store, queue, [...premise, { _tag: "Update", kind: "delivery", record }], [])
          yield* log
          yield* countEnded(record)
          return nothingToSend
        },
        (effect, delivery) =>
          effect.pipe(
            Effect.catchIf(
              (error) => isRejected(error, "VersionMoved"),
              () => Effect.as(offer(queue, [deliverJob(delivery, delivery.nextAttemptAt ?? 0)]), nothingToSend)
            ),
            dieOnRejection
          )
      )

      return DeliverWebhook.of({ handle })
    })
  )
}
