/**
 * One event on its way to one webhook endpoint (Spec 3, Webhook delivery).
 * `dead` and `delivered` are not final: a replay makes either pending again,
 * with a new round of attempts.
 */
import { Result, Schema } from "effect"
import type { Type } from "./Event.ts"
import { DeliveryId, EndpointId, EventId, type ApplicationId, type Environment, type Millis, type TenantId } from "./Ids.ts"
import { deliveryAttemptsKept, deliveryAttemptsMax } from "./Limits.ts"
import { next, type IllegalTransition, type Table } from "./Machine.ts"
import * as Timestamp from "./Timestamp.ts"

export const State = Schema.Literals(["pending", "delivered", "dead"])
export type State = typeof State.Type

/** How one attempt ended. Everything but `success` counts against the endpoint. */
export const Outcome = Schema.Literals(["success", "timeout", "unsafe_url", "redirect", "network_error", "http_error"])
export type Outcome = typeof Outcome.Type

/** What made the delivery pending: the event, a replay of it, or a sandbox test. */
export const Trigger = Schema.Literals(["event", "replay", "test"])
export type Trigger = typeof Trigger.Type

export type Input =
  | { readonly _tag: "Succeeded"; readonly at: Millis }
  | { readonly _tag: "Retried"; readonly at: Millis; readonly nextAttemptAt: Millis }
  | { readonly _tag: "Exhausted"; readonly at: Millis }
  | { readonly _tag: "EndpointDisabled"; readonly at: Millis }
  | { readonly _tag: "Abandoned"; readonly at: Millis }
  | { readonly _tag: "Replayed"; readonly at: Millis }

export const transitions = {
  pending: {
    Succeeded: { to: "delivered" },
    Retried: { to: "pending" },
    Exhausted: { to: "dead" },
    EndpointDisabled: { to: "dead" },
    Abandoned: { to: "dead" } // its job broke every worker, or the event that has its body is gone
  },
  delivered: {
    Replayed: { to: "pending" }
  },
  dead: {
    Replayed: { to: "pending" }
  }
} as const satisfies Table<State, Input["_tag"]>

/** What the machine itself needs to know of a delivery. */
export interface Progress {
  readonly status: State
  /** 1 for the first round, one more with each replay. */
  readonly round: number
  /** Attempts made in the current round. */
  readonly attemptCount: number
  readonly nextAttemptAt: Millis | null
  readonly deliveredAt: Millis | null
  readonly deadAt: Millis | null
}

/** One request that was made, or one that was not because the URL was found unsafe. */
export interface Attempt {
  /** From 1, in its round. */
  readonly number: number
  readonly round: number
  readonly startedAt: Millis
  readonly durationMs: number
  readonly outcome: Outcome
  readonly responseStatus: number | null
}

export interface Delivery extends Progress {
  readonly id: DeliveryId
  readonly tenantId: TenantId
  /** The endpoint's; an event of the tenant as a whole has none. */
  readonly environment: Environment
  readonly applicationId: ApplicationId
  readonly endpointId: EndpointId
  readonly eventId: EventId
  /** Where the event is in the log of its tenant's shard; null: whoever made the delivery did not say. */
  readonly eventPosition: bigint | null
  readonly eventType: Type
  /** What the event is about: a message's, mailbox's or domain's id. */
  readonly resourceId: string
  readonly version: number
  readonly trigger: Trigger
  readonly demo: boolean
  /** Why the last attempt failed, or why there was none: an outcome, `endpoint_disabled` or `internal_error`. */
  readonly lastError: string | null
  /** Oldest first; a replay erases none. */
  readonly attempts: ReadonlyArray<Attempt>
  readonly createdAt: Millis
}

export interface Decision {
  readonly from: State
  readonly to: State
  readonly input: Input
}

/** The input that a failed attempt amounts to: another try, or the end of the round. */
export const afterFailure = (progress: Progress, at: Millis, nextAttemptAt: Millis): Input =>
  progress.attemptCount + 1 >= deliveryAttemptsMax ? { _tag: "Exhausted", at } : { _tag: "Retried", at, nextAttemptAt }

/** What this input would do to this delivery. Changes nothing. */
export const decide = (progress: Progress, input: Input): Result.Result<Decision, IllegalTransition> =>
  Result.map(next<State, Input["_tag"], never>("delivery", transitions, progress.status, input._tag), (cell) => ({
    from: progress.status,
    to: cell.to,
    input
  }))

/** The delivery's progress after a decision. */
export const apply = <P extends Progress>(progress: P, decision: Decision): P => {
  const { at, _tag } = decision.input
  switch (decision.input._tag) {
    case "Succeeded":
      return {
        ...progress,
        status: decision.to,
        attemptCount: progress.attemptCount + 1,
        nextAttemptAt: null,
        deliveredAt: at
      }
    case "Retried":
      return { ...progress, attemptCount: progress.attemptCount + 1, nextAttemptAt: decision.input.nextAttemptAt }
    case "Exhausted":
    case "EndpointDisabled":
    case "Abandoned":
      return {
        ...progress,
        status: decision.to,
        attemptCount: progress.attemptCount + (_tag === "Exhausted" ? 1 : 0),
        nextAttemptAt: null,
        deadAt: at
      }
    case "Replayed":
      return { ...progress, status: decision.to, round: progress.round + 1, attemptCount: 0, nextAttemptAt: at, deliveredAt: null, deadAt: null }
  }
}

/** The delivery as replayed, one version on; null if it is pending already. */
export const replay = (delivery: Delivery, at: Millis): Delivery | null =>
  Result.match(decide(delivery, { _tag: "Replayed", at }), {
    onFailure: () => null,
    onSuccess: (decision) => ({ ...apply(delivery, decision), version: delivery.version + 1, trigger: "replay" })
  })

/** With one more attempt; of very many, the oldest are let go. */
export const withAttempt = (delivery: Delivery, attempt: Attempt): Delivery => ({
  ...delivery,
  attempts: [...delivery.attempts, attempt].slice(-deliveryAttemptsKept)
})

/** The webhook delivery record of the API (Spec 2, resources only partly described). */
export const View = Schema.Struct({
  id: DeliveryId,
  object: Schema.Literal("webhook_delivery"),
  endpointId: EndpointId,
  eventId: EventId,
  eventType: Schema.String,
  status: State,
  trigger: Trigger,
  demo: Schema.Boolean,
  attemptCount: Schema.Int.annotate({ description: "Attempts of the current round." }),
  maxAttempts: Schema.Int,
  nextAttemptAt: Schema.NullOr(Schema.String),
  lastAttemptAt: Schema.NullOr(Schema.String),
  lastResponseStatus: Schema.NullOr(Schema.Int),
  lastError: Schema.NullOr(Schema.String),
  createdAt: Schema.String,
  deliveredAt: Schema.NullOr(Schema.String),
  deadAt: Schema.NullOr(Schema.String),
  attempts: Schema.Array(
    Schema.Struct({
      number: Schema.Int,
      round: Schema.Int,
      startedAt: Schema.String,
      durationMs: Schema.Int,
      outcome: Outcome,
      responseStatus: Schema.NullOr(Schema.Int)
    })
  )
})

/** A delivery as the API shows it. */
export const view = (delivery: Delivery): typeof View.Type => {
  const last = delivery.attempts.at(-1)
  return {
    id: delivery.id,
    object: "webhook_delivery",
    endpointId: delivery.endpointId,
    eventId: delivery.eventId,
    eventType: delivery.eventType,
    status: delivery.status,
    trigger: delivery.trigger,
    demo: delivery.demo,
    attemptCount: delivery.attemptCount,
    maxAttempts: deliveryAttemptsMax,
    nextAttemptAt: Timestamp.fromMillisOrNull(delivery.nextAttemptAt),
    lastAttemptAt: Timestamp.fromMillisOrNull(last?.startedAt ?? null),
    lastResponseStatus: last?.responseStatus ?? null,
    lastError: delivery.lastError,
    createdAt: Timestamp.fromMillis(delivery.createdAt),
    deliveredAt: Timestamp.fromMillisOrNull(delivery.deliveredAt),
    deadAt: Timestamp.fromMillisOrNull(delivery.deadAt),
    attempts: delivery.attempts.map(({ startedAt, ...attempt }) => ({ ...attempt, startedAt: Timestamp.fromMillis(startedAt) }))
  }
}
