/**
 * One event on its way to one webhook endpoint (Spec 3, Webhook delivery).
 * `dead` and `delivered` are not final: a replay makes either pending again,
 * with a new round of attempts.
 */
import { Result } from "effect"
import type { Millis } from "./Ids.ts"
import { deliveryAttemptsMax } from "./Limits.ts"
import { next, type IllegalTransition, type Table } from "./Machine.ts"

export type State = "pending" | "delivered" | "dead"

/** How one attempt ended. Everything but `success` counts against the endpoint. */
export type Outcome = "success" | "timeout" | "unsafe_url" | "redirect" | "network_error" | "http_error"

export type Input =
  | { readonly _tag: "Succeeded"; readonly at: Millis }
  | { readonly _tag: "Retried"; readonly at: Millis; readonly nextAttemptAt: Millis }
  | { readonly _tag: "Exhausted"; readonly at: Millis }
  | { readonly _tag: "EndpointDisabled"; readonly at: Millis }
  | { readonly _tag: "Replayed"; readonly at: Millis }

export const transitions = {
  pending: {
    Succeeded: { to: "delivered" },
    Retried: { to: "pending" },
    Exhausted: { to: "dead" },
    EndpointDisabled: { to: "dead" }
  },
  delivered: {
    Succeeded: { to: "delivered" },
    Replayed: { to: "pending" }
  },
  dead: {
    Succeeded: { to: "delivered" }, // an attempt that was in flight
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
        // A late success belongs to an attempt of the round that has just ended.
        attemptCount: Math.min(progress.attemptCount + 1, deliveryAttemptsMax),
        nextAttemptAt: null,
        deliveredAt: progress.deliveredAt ?? at,
        deadAt: null
      }
    case "Retried":
      return { ...progress, attemptCount: progress.attemptCount + 1, nextAttemptAt: decision.input.nextAttemptAt }
    case "Exhausted":
    case "EndpointDisabled":
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
