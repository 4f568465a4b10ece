/**
 * How an attempt at a delivery is made (Spec 6, Delivery semantics): the secret
 * is opened, the body signed with the time of the attempt, and posted. For those
 * who attempt what is due (`DeliverWebhook`) and those who attempt what is new
 * (`FirstAttempts`). It is known from then on who answers quickly, and who fails.
 */
import { Clock, Context, Duration, Effect, Layer, type Redacted, Result } from "effect"
import type { Delivery, Outcome } from "../model/Delivery.ts"
import * as Endpoints from "../model/Endpoint.ts"
import type { Endpoint } from "../model/Endpoint.ts"
import type { EndpointId, Millis } from "../model/Ids.ts"
import * as Limits from "../model/Limits.ts"
import type { SealedSecret } from "../model/SealedSecret.ts"
import * as Webhook from "../model/Webhook.ts"
import * as WebhookUrl from "../model/WebhookUrl.ts"
import { Crypto, type SealBroken } from "../ports/Crypto.ts"
import { postAnew, WebhookTransport } from "../ports/WebhookTransport.ts"
import * as Deadlines from "../Deadlines.ts"
import * as Metrics from "../Metrics.ts"
import { remember } from "../Remember.ts"
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
/** Successes in a row with which an endpoint makes up for a failure. Until then it is claimed for. */
const amends = 50
/** Attempts in flight at an endpoint that has just been found quick, and at one that has been so for a while. */
const [inFlightFirst, inFlightMost] = [8, requestsMax / 2]

/** So much is remembered of each kind: opened secrets, URLs as they were read, who is quick, endings that are not recorded. */
export const rememberedMax = 10_000

/** How an attempt ended, and what the receiver said to that. */
export interface Ending {
  /** Endings of this process are counted: many may come within a millisecond, and its clock may be turned back. */
  readonly sequence: number
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
    /** A failure of it is not made up for: its endings are recorded in the order in which they came (`RecordAttempts`). */
    readonly hasFailedLately: (endpoint: Endpoint) => boolean
    /**
     * How many attempts at an endpoint may be in flight that nobody has claimed: some, if it has failed at nothing and
     * answered this process quickly of late, and more while it goes on to; 0 if not.
     */
    readonly inFlightMax: (endpoint: Endpoint, now: Millis) => number
    /** Takes an endpoint for slow until it has answered quickly again. */
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
        const sealed = Endpoints.signingSecret(endpoint, startedAt)
        const secret = openedLast(endpoint, sealed) ?? (yield* opened(endpoint, sealed))
        const { headers, bytes } = yield* signed(delivery, startedAt, body, secret)
        const posted = Effect.map(postAnew(transport, { target: target.success, headers, body: bytes }), answered)
        const { outcome, answer } = yield* Effect.catchTag(posted, "WebhookUnanswered", (error) =>
          Effect.as(Effect.logDebug("a webhook receiver did not answer", error).pipe(aboutDelivery(delivery)), unanswered(error.reason))
        ).pipe(
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

      let sequence = 0

      const ended = (delivery: Delivery, endpoint: Endpoint, end: Omit<Ending, "sequence">): Effect.Effect<Ending> =>
        Effect.withFiber((fiber) => {
          const ending = { ...end, sequence: ++sequence }
          learn(endpoint, ending)
          remember(endings, attemptOf(delivery), ending, rememberedMax)
          Metrics.webhookAttempts[ending.outcome].updateUnsafe(1, fiber.context)
          const status = ending.answer?.status
          const attributes = { "mailroom.outcome": ending.outcome, ...(status === undefined ? {} : { "http.response.status_code": status }) }
          return Tracing.isTraced(fiber) ? Effect.as(Tracing.annotate(attributes), ending) : Effect.succeed(ending)
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
        remember(targets, url, target, rememberedMax)
        return target
      }

      /** Signing secrets as they were opened last, by endpoint. One that was sealed anew is opened anew. */
      const secrets = new Map<EndpointId, { readonly sealed: SealedSecret; readonly secret: Redacted.Redacted<string> }>()

      const openedLast = ({ id }: Endpoint, sealed: SealedSecret): Redacted.Redacted<string> | null => {
        const known = secrets.get(id)
        return known?.sealed.tag === sealed.tag && known.sealed.ciphertext === sealed.ciphertext ? known.secret : null
      }

      const opened = (endpoint: Endpoint, sealed: SealedSecret) =>
        Effect.map(crypto.open(sealed, Endpoints.sealContext(endpoint)), (secret) => {
          remember(secrets, endpoint.id, { sealed, secret }, rememberedMax)
          return secret
        })

      /** Endpoints that have failed: how many successes in a row they have yet to make up for it with. */
      const owed = new Map<EndpointId, number>()

      /** Endpoints that have answered quickly, when they did so last, and how often in a row. */
      const quick = new Map<EndpointId, { at: Millis; answers: number }>()

      const learn = (endpoint: Endpoint, { startedAt, endedAt, outcome }: Ending): void => {
        const { id } = endpoint
        if (outcome !== "success") {
          remember(owed, id, amends, rememberedMax)
          return doubt(endpoint)
        }
        const left = owed.get(id)
        if (left !== undefined) return void (left === 1 ? owed.delete(id) : owed.set(id, left - 1))
        if (endedAt - startedAt > quickMax) return doubt(endpoint)
        const known = quick.get(id)
        if (known === undefined) return remember(quick, id, { at: endedAt, answers: 1 }, rememberedMax)
        known.at = endedAt
        known.answers += 1
      }

      const doubt = ({ id }: Endpoint): void => void quick.delete(id)

      const inFlightMax = ({ id, enabled, consecutiveFailures, isSlow }: Endpoint, now: Millis): number => {
        const known = quick.get(id)
        if (known === undefined || !enabled || consecutiveFailures > 0 || isSlow) return 0
        return Math.abs(now - known.at) < quickLifetime ? Math.min(inFlightFirst + known.answers - 1, inFlightMost) : 0
      }

      return WebhookAttempts.of({
        attempt,
        hasFailedLately: ({ id }) => owed.has(id),
        inFlightMax,
        doubt,
        unrecorded: (delivery) => endings.get(attemptOf(delivery)) ?? null,
        recorded
      })
    })
  )
}

/** What an attempt is known by, whether or not its delivery is there already. */
export const attemptOf = ({ eventId, endpointId, round, attemptCount }: Delivery): string => `${eventId} ${endpointId} ${round} ${attemptCount}`

/** The message that a delivery tells of, if it tells of one. */
const messageOf = ({ eventType, resourceId }: Delivery): string | null => (eventType.startsWith("message.") ? resourceId : null)

/** What log lines about a delivery say of it. */
export const aboutDelivery =
  (delivery: Delivery) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> => {
    const messageId = messageOf(delivery)
    return Effect.annotateLogs(self, { endpointId: delivery.endpointId, ...(messageId === null ? {} : { messageId }) })
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
