/**
 * A conformance suite is data: a list of titled checks over a port. Vitest
 * binds it in a few lines per adapter, and the command line runs the same list
 * with a reporter of its own.
 *
 * A check may use whatever is in the port it is given, and nothing is cleared
 * between checks: each invents a fresh tenant. It runs on a virtual clock
 * (effect/testing's TestClock).
 */
import { Data, type Effect, type Scope } from "effect"

/** What a check would need is not there; nothing is said about its subject. */
export class NotApplicable extends Data.TaggedError("NotApplicable")<{ readonly reason: string }> {
  override get message(): string {
    return this.reason
  }
}

export interface Check<R> {
  /** A claim about the adapter, in the present tense. */
  readonly title: string
  /** Succeeds if the claim holds; fails with `NotApplicable` where it cannot be judged, and fails or dies with what broke it. */
  readonly check: Effect.Effect<void, unknown, R | Scope.Scope>
}

export interface Suite<R> {
  /** The port, or the scenario. */
  readonly name: string
  readonly checks: ReadonlyArray<Check<R>>
}
