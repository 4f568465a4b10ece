/**
 * How an attempt at a delivery is made, and what is committed of it (Spec 6,
 * Delivery semantics): the secret is opened, the body signed with the time of
 * the attempt and posted; the attempt, the delivery and the endpoint's counter
 * are one commit. For those who attempt what is due (`DeliverWebhook`) and
 * those who attempt what is new (`EventRelay`).
 */
import { Clock, Context, Duration, Effect, Layer, Option, Random, type Redacted, Result } from "effect"
import { entryOf, system } from "../model/Audit.ts"
import * as Backoff from "../model/Backoff.ts"
import * as Deliveries from "../model/Delivery.ts"
import type { Delivery, Outcome } from "../model/Delivery.ts"
import * as Endpoints from "../model/Endpoint.ts"
import type { Endpoint } from "../model/Endpoint.ts"
import type { EndpointId, Millis } from "../model/Ids.ts"
import * as Limits from "../model/Limits.ts"
import * as Webhook from "../model/Webhook.ts"
import * as WebhookUrl from "../model/WebhookUrl.ts"
import { changing, commit, dieOnRejection, isRejected } from "../operations/Commit.ts"
import { deliverJob } from "../operations/Webhooks.ts"
import { Crypto, type SealBroken, type SealedSecret } from "../ports/Crypto.ts"
import { JobQueue, type Lease } from "../ports/JobQueue.ts"
import { Store, type Change, type StoreUnavailable } from "../ports/Store.ts"
import { WebhookTransport } from "../ports/WebhookTransport.ts"
import * as Deadlines from "../Deadlines.ts"
import * as Metrics from "../Metrics.ts"
import { Settings } from "../Settings.ts"
import * as Tracing from "../Tracing.ts"

/**
 * Requests in flight at a time in one process: of deliveries that are claimed, and as many of those that are new, so that
 * receivers that hang for the ones hold up none of the others. A delivery waits for its turn before its attempt begins, and
 * gives it back with the answer, so that others are sent while it is recorded.
 */
export const requestsMax = 128

/** An answer within this time, in milliseconds, is quick. */
export const quickMax: Millis = 100
/** For how long an endpoint counts as quick that has answered so. */
const quickLifetime: Millis = 60_000
/**
 * Quick answers in a row with which an endpoint makes up for a failure. One that fails now and then is claimed for: what is
 * sent straight from the log and fails is recorded one by one, which takes longer than to claim it with others.
 */
const amends = 50
/** Attempts in flight at an endpoint that has just been found quick, and at one that has been so for a while. */
const [inFlightFirst, inFlightMost] = [8, requestsMax / 2]

/** Endpoints of which something is remembered: opened secrets, URLs as they were read, quickness. */
const rememberedMax = 10_000

/** How an attempt ended, and what the receiver said to that. */
export interface Ending {
  readonly startedAt: Millis
  readonly endedAt: Millis
  readonly outcome: Outcome
  /** Without its body, which nobody reads: endings may be remembered by the thousand. */
  readonly answer: Pick<Webhook.Answer, "status" | "retryAfter"> | null
}

export class WebhookAttempts extends Context.Service<
  WebhookAttempts,
  {
    /** One attempt, whose turn it is. Fails only if the endpoint's secret cannot be opened. */
    readonly attempt: (delivery: Delivery, endpoint: Endpoint, body: string) => Effect.Effect<Ending, SealBroken>
    /**
     * Commits an ending on the versions that the attempt began with; of two who attempted the same, one does. True: the job
     * under this lease has ended.
     */
    readonly record: (delivery: Delivery, endpoint: Endpoint, ending: Ending, lease?: Lease) => Effect.Effect<boolean, StoreUnavailable>
    /**
     * How many attempts at an endpoint may be in flight that nobody has claimed: some, if it has failed at nothing and
     * answered this process quickly of late, and more while it goes on to; 0 if not.
     */
    readonly inFlightMax: (endpoint: Endpoint, now: Millis) => number
    /** It has not answered quickly. */
    readonly doubt: (endpoint: Endpoint) => void
    /**
     * How the attempt ended that a delivery is due for, if this process has made it, and it is not committed: a store that
     * takes no commits must not have receivers called again and again for one attempt.
     */
    readonly unrecorded: (delivery: Delivery) => Ending | null
    /** The attempt that this delivery was due for is committed. */
    readonly recorded: (delivery: Delivery) => void
  }
>()("mailroom/core/jobs/WebhookAttempts") {
  static readonly layer = Layer.effect(
    WebhookAttempts,
    Effect.gen(function* () {
      const store = yield* Store
      const queue = yield* JobQueue
      const crypto = yield* Crypto
      const transport = yield* WebhookTransport
      const settings = yield* Settings
      const deadlines = yield* Deadlines.make(Duration.millis(Limits.webhookDeadline))

      const attempt = (delivery: Delivery, endpoint: Endpoint, body: string) =>
        post(delivery, endpoint, body).pipe(
          Tracing.span("WebhookTransport.post", "client", { "mailroom.attempt": delivery.attemptCount + 1 })
        )

      const post = Effect.fnUntraced(function* (delivery: Delivery, endpoint: Endpoint, body: string) {
        const clock = yield* Clock.Clock
        const startedAt = clock.currentTimeMillisUnsafe()
        const target = targetOf(endpoint)
        if (Result.isFailure(target)) return yield* ended(delivery, endpoint, { startedAt, endedAt: startedAt, outcome: "unsafe_url", answer: null })
        const secret = openedLast(endpoint) ?? (yield* opened(endpoint))
        const { headers, bytes } = yield* signed(delivery, startedAt, body, secret)
        const { outcome, answer } = yield* transport.post({ target: target.success, headers, body: bytes }).pipe(
          Effect.map(answered),
          Effect.catchTag("WebhookUnanswered", (error) =>
            Effect.as(Effect.logDebug("a webhook receiver did not answer", error).pipe(aboutDelivery(delivery)), unanswered(error.reason))
          ),
          deadlines.within(() => Effect.succeed(unanswered("timeout"))),
          Metrics.timed(Metrics.webhookAttemptDuration)
        )
        return yield* ended(delivery, endpoint, { startedAt, endedAt: clock.currentTimeMillisUnsafe(), outcome, answer })
      })

      const signed = ({ eventId }: Delivery, at: Millis, body: string, secret: Redacted.Redacted<string>) => {
        const timestamp = Webhook.timestampOf(at)
        const { signed, bytes } = Webhook.signedBytesOf(eventId, timestamp, body)
        return Effect.map(crypto.sign(secret, signed), (mac) => ({ headers: Webhook.deliveryHeaders(eventId, timestamp, mac), bytes }))
      }

      const ended = (delivery: Delivery, endpoint: Endpoint, ending: Ending): Effect.Effect<Ending> =>
        Effect.withFiber((fiber) => {
          learn(endpoint, ending)
          remember(endings, attemptOf(delivery), ending)
          Metrics.webhookAttempts[ending.outcome].updateUnsafe(1, fiber.context)
          const status = ending.answer?.status
          const told = { "mailroom.outcome": ending.outcome, ...(status === undefined ? {} : { "http.response.status_code": status }) }
          return Tracing.isTraced(fiber) ? Effect.as(Tracing.annotate(told), ending) : Effect.succeed(ending)
        })

      /** By attempt. */
      const endings = new Map<string, Ending>()

      const recorded = (delivery: Delivery): void => void endings.delete(attemptOf(delivery))

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

      const openedLast = ({ id, secret: sealed }: Endpoint): Redacted.Redacted<string> | null => {
        const known = secrets.get(id)
        return known?.sealed.tag === sealed.tag && known.sealed.ciphertext === sealed.ciphertext ? known.secret : null
      }

      const opened = (endpoint: Endpoint) =>
        Effect.map(crypto.open(endpoint.secret, Endpoints.sealContext(endpoint)), (secret) => {
          remember(secrets, endpoint.id, { sealed: endpoint.secret, secret })
          return secret
        })

      /** Endpoints, when they were quick the last time, and how often in a row; below 1 if they have yet to make up for a failure. */
      const quick = new Map<EndpointId, { at: Millis; answers: number }>()

      const learn = (endpoint: Endpoint, { startedAt, endedAt, outcome }: Ending): void => {
        const { id } = endpoint
        if (outcome !== "success") return remember(quick, id, { at: endedAt, answers: -amends })
        const known = quick.get(id)
        if (endedAt - startedAt > quickMax) return doubt(endpoint)
        if (known === undefined) return remember(quick, id, { at: endedAt, answers: 1 })
        known.at = endedAt
        known.answers += 1
      }

      /** What it has to make up for, it still has. */
      const doubt = ({ id }: Endpoint): void => {
        if ((quick.get(id)?.answers ?? 0) > 0) quick.delete(id)
      }

      const inFlightMax = ({ id, enabled, consecutiveFailures, isSlow }: Endpoint, now: Millis): number => {
        const known = quick.get(id)
        if (known === undefined || known.answers < 1 || !enabled || consecutiveFailures > 0 || isSlow) return 0
        return Math.abs(now - known.at) < quickLifetime ? Math.min(inFlightFirst + known.answers - 1, inFlightMost) : 0
      }

      /** Failures that are being recorded, by endpoint: a success that came behind one must not be counted before it. */
      const failing = new Map<EndpointId, number>()

      const record = (delivery: Delivery, endpoint: Endpoint, ending: Ending, lease?: Lease) =>
        Effect.tap(inOrder(endpoint, ending, commitEnding(delivery, endpoint, ending, lease)), () => Effect.sync(() => recorded(delivery)))

      const inOrder = <A, E>({ id }: Endpoint, { outcome }: Ending, recording: Effect.Effect<A, E>): Effect.Effect<A, E> =>
        outcome === "success"
          ? recording
          : Effect.acquireUseRelease(
              Effect.sync(() => void failing.set(id, (failing.get(id) ?? 0) + 1)),
              () => recording,
              () =>
                Effect.sync(() => {
                  const left = failing.get(id)! - 1 // it was counted
                  if (left === 0) failing.delete(id)
                  else failing.set(id, left)
                })
            )

      const commitEnding = Effect.fnUntraced(function* (delivery: Delivery, endpoint: Endpoint, ending: Ending, lease?: Lease) {
        const random = yield* Random.next
        const after = settled(delivery, ending, settings.deliveryBackoff, random)
        const jobs = after.nextAttemptAt === null ? [] : [deliverJob(after, after.nextAttemptAt)]
        const written: Change = { _tag: "Update", kind: "delivery", record: after }

        // A success of a healthy endpoint changes nothing of it, so successes need not wait for each other.
        if (changesNothing(endpoint, ending) && !failing.has(endpoint.id)) {
          const done = yield* commit(store, queue, [unchanged(endpoint), written], jobs, lease).pipe(
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
            if (changesNothing(current, ending)) {
              yield* commit(store, queue, [unchanged(current), written], jobs)
              return yield* countEnded(after)
            }
            const counted = yield* heard(current, count(current, ending))
            const changes: Array<Change> = [written, { _tag: "Update", kind: "endpoint", record: counted }]
            if (current.enabled && !counted.enabled) changes.push(yield* disabledEntry(counted, ending.endedAt))
            yield* commit(store, queue, changes, jobs)
            yield* countEnded(after)
            if (counted.isSlow) yield* throttle(counted.id, 1) // each time: the queue may have lost it
            if (current.enabled && !counted.enabled) {
              yield* Metrics.count(Metrics.endpointsDisabled)
              yield* Effect.logWarning("a webhook endpoint was disabled after ten failed attempts in a row").pipe(aboutDelivery(delivery))
            }
          })
        ).pipe(dieOnRejection)
        return false
      })

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

      return WebhookAttempts.of({
        attempt,
        record,
        inFlightMax,
        doubt,
        unrecorded: (delivery) => endings.get(attemptOf(delivery)) ?? null,
        recorded
      })
    })
  )
}

/** What was remembered first is forgotten where there is too much. */
export const remember = <K, V>(map: Map<K, V>, key: K, value: V): void => {
  if (map.size >= rememberedMax && !map.has(key)) map.delete(map.keys().next().value!) // it holds some
  map.set(key, value)
}

/** What an attempt is known by, whether or not its delivery is there already. */
const attemptOf = ({ eventId, endpointId, round, attemptCount }: Delivery): string => `${eventId} ${endpointId} ${round} ${attemptCount}`

const changesNothing = ({ consecutiveFailures, isSlow }: Endpoint, { outcome }: Ending): boolean =>
  outcome === "success" && consecutiveFailures === 0 && !isSlow

/** That an endpoint is as it was when an attempt at it began. */
export const unchanged = ({ id, version }: Endpoint): Change => ({ _tag: "Require", kind: "endpoint", id, version })

export const countEnded = ({ status }: Delivery): Effect.Effect<void> =>
  status === "pending" ? Effect.void : Metrics.count(Metrics.deliveriesEnded[status])

/** The message that a delivery tells of, if it tells of one. */
const messageOf = ({ eventType, resourceId }: Delivery): string | null => (eventType.startsWith("message.") ? resourceId : null)

/** What log lines about a delivery say of it. */
export const aboutDelivery = (delivery: Delivery) => {
  const messageId = messageOf(delivery)
  return Effect.annotateLogs({ endpointId: delivery.endpointId, ...(messageId === null ? {} : { messageId }) })
}

/** In a message's trace, if the delivery tells of one, else in its own. */
export const traced =
  (name: string, delivery: Delivery, attributes: Tracing.Attributes = {}) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.withFiber((fiber) => {
      if (!Tracing.isTraced(fiber)) return self
      const messageId = messageOf(delivery)
      return Tracing.spanOf(messageId ?? delivery.id, name, {
        ...(messageId === null ? {} : { "mailroom.message_id": messageId }),
        "mailroom.delivery_id": delivery.id,
        "mailroom.endpoint_id": delivery.endpointId,
        "mailroom.event_id": delivery.eventId,
        "mailroom.event_type": delivery.eventType,
        "mailroom.tenant_id": delivery.tenantId,
        "mailroom.environment": delivery.environment,
        ...attributes
      })(self)
    })

const answered = ({ status, retryAfter }: Webhook.Answer) => ({ outcome: Webhook.outcomeOf({ status }), answer: { status, retryAfter } })
const unanswered = (outcome: Outcome) => ({ outcome, answer: null })

/** The delivery after an attempt that was a success, one version on. */
export const succeeded = (delivery: Delivery, ending: Ending): Delivery => after(delivery, ending, { _tag: "Succeeded", at: ending.endedAt })

/** The delivery after an attempt, one version on. */
const settled = (delivery: Delivery, ending: Ending, backoff: ReadonlyArray<Millis>, random: number): Delivery => {
  const { outcome, answer, endedAt } = ending
  if (outcome === "success") return succeeded(delivery, ending)
  const wait = Math.max(
    Backoff.delay(backoff, delivery.attemptCount + 1, random),
    answer === null ? 0 : Webhook.retryAfterOf(answer, endedAt)
  )
  return after(delivery, ending, Deliveries.afterFailure(delivery, endedAt, endedAt + wait))
}

const after = (delivery: Delivery, { outcome, answer, startedAt, endedAt }: Ending, input: Deliveries.Input): Delivery => {
  const decision = Result.getOrThrow(Deliveries.decide(delivery, input)) // pending takes success, another try, and the end
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
