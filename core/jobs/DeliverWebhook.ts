/**
 * One attempt at a delivery: reads delivery and endpoint anew, opens the
 * secret, signs with the time of this attempt, posts, and commits the attempt,
 * the delivery and the endpoint's counter together (Spec 6, Delivery semantics).
 */
import { Clock, Context, Duration, Effect, Layer, Option, Random, type Redacted, Result, Semaphore } from "effect"
import { entryOf, system } from "../model/Audit.ts"
import * as Backoff from "../model/Backoff.ts"
import * as Deliveries from "../model/Delivery.ts"
import type { Delivery, Outcome } from "../model/Delivery.ts"
import * as Endpoints from "../model/Endpoint.ts"
import type { Endpoint } from "../model/Endpoint.ts"
import type { DeliveryId, EndpointId, Millis } from "../model/Ids.ts"
import * as Limits from "../model/Limits.ts"
import * as Webhook from "../model/Webhook.ts"
import * as WebhookUrl from "../model/WebhookUrl.ts"
import { changing, commit, dieOnRejection, isRejected, offer } from "../operations/Commit.ts"
import { deliverJob } from "../operations/Webhooks.ts"
import { Crypto, type SealBroken, type SealedSecret } from "../ports/Crypto.ts"
import { JobQueue, type Lease } from "../ports/JobQueue.ts"
import { Store, type Change, type Next, type Outgoing, type StoreUnavailable } from "../ports/Store.ts"
import { WebhookTransport } from "../ports/WebhookTransport.ts"
import * as Deadlines from "../Deadlines.ts"
import * as Metrics from "../Metrics.ts"
import { Settings } from "../Settings.ts"
import * as Tracing from "../Tracing.ts"
import { claimsMax } from "./SubmitMessage.ts"

/**
 * Requests in flight at a time in one process. A delivery waits for its turn before its attempt begins, and gives it back
 * with the answer, so that others are sent while it is recorded.
 */
export const requestsMax = 128

/** Endings that are remembered while the store takes none; endpoints whose secrets are kept open, and whose URLs read. */
const rememberedMax = 10_000

/** How an attempt ended, and what the receiver said to that. */
interface Ending {
  readonly startedAt: Millis
  readonly endedAt: Millis
  readonly outcome: Outcome
  /** Without its body, which nobody reads: endings may be remembered by the thousand. */
  readonly answer: Pick<Webhook.Answer, "status" | "retryAfter"> | null
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
      const crypto = yield* Crypto
      const transport = yield* WebhookTransport
      const settings = yield* Settings
      const deadlines = yield* Deadlines.make(Duration.millis(Limits.webhookDeadline))
      const requests = Semaphore.makeUnsafe(requestsMax)

      const handle = Effect.fnUntraced(function* (lease: Lease | Next) {
        const known = "outgoing" in lease ? lease.outgoing : null
        const outgoing = known ?? (yield* store.deliveries.outgoing(lease.job.realm, lease.job.subject as DeliveryId))
        if (outgoing === null || outgoing.delivery.nextAttemptAt === null) return false
        const { delivery } = outgoing
        const messageId = delivery.eventType.startsWith("message.") ? delivery.resourceId : null
        return yield* deliver(lease, outgoing, outgoing.delivery.nextAttemptAt).pipe(
          Tracing.spanOf(messageId ?? delivery.id, "DeliverWebhook.handle", {
            ...(messageId === null ? {} : { "mailroom.message_id": messageId }),
            "mailroom.delivery_id": delivery.id,
            "mailroom.endpoint_id": delivery.endpointId,
            "mailroom.event_id": delivery.eventId,
            "mailroom.event_type": delivery.eventType,
            "mailroom.tenant_id": delivery.tenantId,
            "mailroom.environment": delivery.environment,
            "mailroom.job.claims": lease.claims
          }),
          Effect.annotateLogs({ endpointId: delivery.endpointId, ...(messageId === null ? {} : { messageId }) })
        )
      })

      const deliver = Effect.fnUntraced(function* (lease: Lease, { delivery, endpoint, body }: Outgoing, nextAttemptAt: Millis) {
        const now = yield* Clock.currentTimeMillis
        if (nextAttemptAt > now) return yield* Effect.as(offer(queue, [deliverJob(delivery, nextAttemptAt)]), false)
        if (lease.claims >= claimsMax) return yield* end(delivery, { _tag: "Abandoned", at: now }, "internal_error", null)
        if (endpoint === null) return yield* Effect.die(new Error(`delivery ${delivery.id} has no endpoint`))
        const unrecorded = endings.get(keyOf(delivery))
        if (unrecorded !== undefined) return yield* record(lease, delivery, endpoint, unrecorded)
        if (!endpoint.enabled) return yield* end(delivery, { _tag: "EndpointDisabled", at: now }, "endpoint_disabled", endpoint)
        if (body === null) return yield* Effect.die(new Error(`delivery ${delivery.id} has no body`))
        const ending = yield* attempt(delivery, endpoint, new TextEncoder().encode(body)).pipe(
          Effect.tap(({ outcome, answer }) => told(outcome, answer?.status ?? null)),
          Tracing.span("WebhookTransport.post", "client", { "mailroom.attempt": delivery.attemptCount + 1 }),
          requests.withPermit
        )
        // A store that takes no commits must not have receivers called again and again for one attempt.
        remember(endings, keyOf(delivery), ending)
        return yield* record(lease, delivery, endpoint, ending)
      })

      const told = (outcome: Outcome, status: number | null) =>
        Effect.andThen(
          Metrics.count(Metrics.webhookAttempts[outcome]),
          Tracing.annotate({ "mailroom.outcome": outcome, ...(status === null ? {} : { "http.response.status_code": status }) })
        )

      const attempt = Effect.fnUntraced(function* (delivery: Delivery, endpoint: Endpoint, body: Uint8Array) {
        const startedAt = yield* Clock.currentTimeMillis
        const target = targetOf(endpoint)
        if (Result.isFailure(target)) return { startedAt, endedAt: startedAt, outcome: "unsafe_url", answer: null } satisfies Ending
        const secret = yield* opened(endpoint)
        const timestamp = Webhook.timestampOf(startedAt)
        const mac = yield* crypto.sign(secret, Webhook.signedBytes(delivery.eventId, timestamp, body))
        const headers = Webhook.deliveryHeaders(delivery.eventId, timestamp, mac)
        const unanswered = (outcome: Outcome) => ({ outcome, answer: null })
        const { outcome, answer } = yield* transport.post({ target: target.success, headers, body }).pipe(
          Effect.map(({ status, retryAfter }) => ({ outcome: Webhook.outcomeOf({ status }), answer: { status, retryAfter } })),
          Effect.catchTag("WebhookUnanswered", (error) =>
            Effect.as(Effect.logDebug("a webhook receiver did not answer", error), unanswered(error.reason))
          ),
          deadlines.within(() => Effect.succeed(unanswered("timeout"))),
          Metrics.timed(Metrics.webhookAttemptDuration)
        )
        return { startedAt, endedAt: yield* Clock.currentTimeMillis, outcome, answer } satisfies Ending
      })

      /** Where URLs lead. The rules may have become stricter since their endpoints were created. */
      const targets = new Map<string, ReturnType<typeof WebhookUrl.parse>>()

      const targetOf = ({ url }: Endpoint) => {
        const known = targets.get(url)
        if (known !== undefined) return known
        const target = WebhookUrl.parse(url, settings.webhookTargets)
        remember(targets, url, target)
        return target
      }

      /** Signing secrets as they were opened last, by endpoint. One that was sealed anew is opened anew. */
      const secrets = new Map<EndpointId, { readonly sealed: SealedSecret; readonly secret: Redacted.Redacted<string> }>()

      const opened = Effect.fnUntraced(function* (endpoint: Endpoint) {
        const sealed = endpoint.secret
        const known = secrets.get(endpoint.id)
        if (known?.sealed.tag === sealed.tag && known.sealed.ciphertext === sealed.ciphertext) return known.secret
        const secret = yield* crypto.open(sealed, Endpoints.sealContext(endpoint))
        remember(secrets, endpoint.id, { sealed, secret })
        return secret
      })

      /** Endings of attempts that were made and are not recorded yet, by delivery and version. */
      const endings = new Map<string, Ending>()
      const keyOf = ({ id, version }: Delivery) => `${id} ${version}`

      const record = (lease: Lease, delivery: Delivery, endpoint: Endpoint, ending: Ending) =>
        Effect.tap(commitEnding(lease, delivery, endpoint, ending), () => Effect.sync(() => endings.delete(keyOf(delivery))))

      /** Commits an ending on the versions that the attempt began with; of two holders of one job, one does. True: the job has ended. */
      const commitEnding = Effect.fnUntraced(function* (lease: Lease, delivery: Delivery, endpoint: Endpoint, ending: Ending) {
        const random = yield* Random.next
        const after = settled(delivery, ending, settings.deliveryBackoff, random)
        const jobs = after.nextAttemptAt === null ? [] : [deliverJob(after, after.nextAttemptAt)]
        const written: Change = { _tag: "Update", kind: "delivery", record: after }

        // A success of a healthy endpoint changes nothing of it, so successes need not wait for each other.
        if (ending.outcome === "success" && endpoint.consecutiveFailures === 0 && !endpoint.isSlow) {
          const unchanged: Change = { _tag: "Require", kind: "endpoint", id: endpoint.id, version: endpoint.version }
          const done = yield* commit(store, queue, [unchanged, written], jobs, lease).pipe(
            Effect.catchIf((error) => isRejected(error, "VersionMoved"), () => Effect.succeed(null)),
            dieOnRejection
          )
          if (done !== null) return yield* Effect.as(countEnded(after), done.leaseEnded)
        }

        yield* changing(
          endpoint.id,
          Effect.gen(function* () {
            const current = yield* store.endpoints.get(delivery, endpoint.id)
            const held = yield* store.deliveries.get(delivery, delivery.id)
            if (current === null || held?.version !== delivery.version) return // another holder's result stands
            const counted = yield* heard(current, count(current, ending))
            const changes: Array<Change> = [written, { _tag: "Update", kind: "endpoint", record: counted }]
            if (current.enabled && !counted.enabled) changes.push(yield* disabledEntry(counted, ending.endedAt))
            yield* commit(store, queue, changes, jobs)
            yield* countEnded(after)
            if (counted.isSlow) yield* throttle(counted.id, 1) // each time: the queue may have lost it
            if (current.enabled && !counted.enabled) {
              yield* Metrics.count(Metrics.endpointsDisabled)
              yield* Effect.logWarning("a webhook endpoint was disabled after ten failed attempts in a row").pipe(
                Effect.annotateLogs({ endpointId: counted.id })
              )
            }
          })
        ).pipe(dieOnRejection)
        return false
      })

      /**
       * Ends a delivery without an attempt, because of what an endpoint is, if it is so still; else it is looked at again.
       */
      const end = Effect.fnUntraced(
        function* (delivery: Delivery, input: Deliveries.Input, lastError: string, because: Endpoint | null) {
          const decision = Deliveries.decide(delivery, input)
          if (Result.isFailure(decision)) return false
          const record = { ...Deliveries.apply(delivery, decision.success), version: delivery.version + 1, lastError }
          const premise: ReadonlyArray<Change> =
            because === null ? [] : [{ _tag: "Require", kind: "endpoint", id: because.id, version: because.version }]
          yield* commit(store, queue, [...premise, { _tag: "Update", kind: "delivery", record }], [])
          yield* countEnded(record)
          return false
        },
        (effect, delivery) =>
          effect.pipe(
            Effect.catchIf(
              (error) => isRejected(error, "VersionMoved"),
              () => Effect.as(offer(queue, [deliverJob(delivery, delivery.nextAttemptAt ?? 0)]), false)
            ),
            dieOnRejection
          )
      )

      /** A receiver that does not answer gets one delivery at a time until it does, so that it keeps few places busy. */
      const throttle = (id: EndpointId, inFlightMax: number | null) => Effect.option(queue.throttle("deliver", id, inFlightMax))

      /** An endpoint that answers again counts as slow until the queue has heard of it: else nobody would tell the queue. */
      const heard = Effect.fnUntraced(function* (before: Endpoint, after: Endpoint) {
        if (!before.isSlow || after.isSlow) return after
        return { ...after, isSlow: Option.isNone(yield* throttle(after.id, null)) }
      })

      const disabledEntry = Effect.fnUntraced(function* ({ id, tenantId, environment }: Endpoint, at: Millis) {
        const entry = entryOf({
          id: yield* crypto.uuid,
          tenantId,
          environment,
          at,
          actor: system,
          action: "webhook_endpoint.disable"
        }, id)
        return { _tag: "AppendAudit", entry } satisfies Change
      })

      return DeliverWebhook.of({ handle })
    })
  )
}

/** What was remembered first is forgotten where there is too much. */
const remember = <K, V>(map: Map<K, V>, key: K, value: V): void => {
  if (map.size >= rememberedMax && !map.has(key)) map.delete(map.keys().next().value!) // it holds some
  map.set(key, value)
}

const countEnded = ({ status }: Delivery): Effect.Effect<void> =>
  status === "pending" ? Effect.void : Metrics.count(Metrics.deliveriesEnded[status])

/** The delivery after an attempt, one version on. */
const settled = (delivery: Delivery, ending: Ending, backoff: ReadonlyArray<Millis>, random: number): Delivery => {
  const { outcome, answer, startedAt, endedAt } = ending
  const wait = Math.max(
    Backoff.delay(backoff, delivery.attemptCount + 1, random),
    answer === null ? 0 : Webhook.retryAfterOf(answer, endedAt)
  )
  const input: Deliveries.Input =
    outcome === "success" ? { _tag: "Succeeded", at: endedAt } : Deliveries.afterFailure(delivery, endedAt, endedAt + wait)
  const decision = Result.getOrThrow(Deliveries.decide(delivery, input)) // pending takes each of the three
  const attempt: Deliveries.Attempt = {
    number: delivery.attemptCount + 1,
    round: delivery.round,
    startedAt,
    durationMs: Math.max(0, endedAt - startedAt),
    outcome,
    responseStatus: answer?.status ?? null
  }
  return {
    ...Deliveries.withAttempt(Deliveries.apply(delivery, decision), attempt),
    version: delivery.version + 1,
    lastError: outcome === "success" ? null : outcome
  }
}

/** The endpoint after an attempt, one version on. */
const count = (endpoint: Endpoint, { outcome, answer, endedAt }: Ending): Endpoint => {
  const input: Endpoints.Input =
    outcome === "success" ? { _tag: "Succeeded", at: endedAt } : Endpoints.afterFailure(endpoint, endedAt)
  const decision = Result.getOrThrow(Endpoints.decide(endpoint, input)) // each state takes success and failure
  return {
    ...Endpoints.apply(endpoint, decision),
    version: endpoint.version + 1,
    isSlow: outcome === "timeout" || (endpoint.isSlow && answer === null)
  }
}
