/**
 * The breaker of a webhook endpoint (Spec 3, Webhook endpoint): it counts
 * failed attempts since the last success, and the one that makes ten disables
 * the endpoint. A success that arrives after that resets the counter only.
 */
import { Result } from "effect"
import type { Millis } from "./Ids.ts"
import { consecutiveFailuresMax } from "./Limits.ts"
import { next, type IllegalTransition, type Table } from "./Machine.ts"

export type State = "enabled" | "disabled"

export type Input =
  | { readonly _tag: "Succeeded"; readonly at: Millis }
  | { readonly _tag: "Failed"; readonly at: Millis }
  | { readonly _tag: "FailedOften"; readonly at: Millis }
  | { readonly _tag: "Enabled"; readonly at: Millis }

export const transitions = {
  enabled: {
    Succeeded: { to: "enabled" },
    Failed: { to: "enabled" },
    FailedOften: { to: "disabled" }
  },
  disabled: {
    Succeeded: { to: "disabled" }, // an attempt that was in flight
    Failed: { to: "disabled" },
    Enabled: { to: "enabled" }
  }
} as const satisfies Table<State, Input["_tag"]>

export interface Breaker {
  readonly enabled: boolean
  readonly consecutiveFailures: number
  readonly disabledAt: Millis | null
}

export interface Decision {
  readonly from: State
  readonly to: State
  readonly input: Input
}

export const closed: Breaker = { enabled: true, consecutiveFailures: 0, disabledAt: null }

export const state = (breaker: Breaker): State => (breaker.enabled ? "enabled" : "disabled")

/** The input that a failed attempt amounts to. */
export const afterFailure = (breaker: Breaker, at: Millis): Input =>
  breaker.enabled && breaker.consecutiveFailures + 1 >= consecutiveFailuresMax
    ? { _tag: "FailedOften", at }
    : { _tag: "Failed", at }

/** What this input would do to this endpoint. Changes nothing. */
export const decide = (breaker: Breaker, input: Input): Result.Result<Decision, IllegalTransition> =>
  Result.map(next<State, Input["_tag"], never>("endpoint", transitions, state(breaker), input._tag), (cell) => ({
    from: state(breaker),
    to: cell.to,
    input
  }))

/** The breaker after a decision. */
export const apply = <B extends Breaker>(breaker: B, decision: Decision): B => {
  switch (decision.input._tag) {
    case "Succeeded":
      return { ...breaker, consecutiveFailures: 0 }
    case "Failed":
      return { ...breaker, consecutiveFailures: breaker.consecutiveFailures + 1 }
    case "FailedOften":
      return { ...breaker, enabled: false, consecutiveFailures: breaker.consecutiveFailures + 1, disabledAt: decision.input.at }
    case "Enabled":
      return { ...breaker, enabled: true, consecutiveFailures: 0, disabledAt: null }
  }
}
