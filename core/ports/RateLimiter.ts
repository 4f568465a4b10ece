/**
 * Counts requests against limits. `minute` is a sliding window: in no 60
 * seconds are more than the limit accepted, and whoever stays within the limit
 * is never refused. `day` is the UTC day.
 *
 * An adapter
 * - takes all guards of a call or none: a request that one guard refuses is
 *   counted by none of them;
 * - names the first guard, in the order given, that refuses;
 * - judges the day by `Clock.currentTimeMillis`, and measures a minute by
 *   `Clock.monotonicTimeNanos`, so that no jump of the wall clock shortens it;
 * - keeps a day's count when a request comes whose clock is in the next day
 *   already: processes may differ about midnight;
 * - may count for its process alone, or for all that share a server or a file,
 *   and says which. Monotonic clocks have no common zero: who shares finds one
 *   when it opens, by a clock that all can read, and keeps it;
 * - may forget with its process or server what it counted.
 */
import { Context, Data, type Effect } from "effect"
import type { Millis } from "../model/Ids.ts"

export interface Guard<Scope extends string = "ip" | "key" | "tenant_day"> {
  /** Whose counter it is, in the words of the error's `scope`. */
  readonly scope: Scope
  /** Counters with equal scope and bucket are one, whatever the limit. A call names each once, and never in both windows. */
  readonly bucket: string
  readonly limit: number
  readonly window: "minute" | "day"
}

export interface Standing<Scope extends string = Guard["scope"]> {
  readonly guard: Guard<Scope>
  /** How many more would be accepted now. */
  readonly remaining: number
  /**
   * Until one more would be accepted, of a guard that refuses: at least 1. Of any other, whether or not the request was
   * accepted, until its counter is at its start again.
   */
  readonly resetMs: Millis
}

export interface Taken<Scope extends string = Guard["scope"]> {
  readonly refusedBy: Standing<Scope> | null
  /** One per guard, in order. */
  readonly standings: ReadonlyArray<Standing<Scope>>
}

/** The limiter did not answer: the request may have been counted. */
export class RateLimiterUnavailable extends Data.TaggedError("RateLimiterUnavailable")<{ readonly cause: unknown }> {
  override readonly message = "the rate limiter is unavailable"
}

export class RateLimiter extends Context.Service<
  RateLimiter,
  /** Counts one request against all of these, or against none; a refusal is an answer, and no failure. */
  { readonly take: (guards: ReadonlyArray<Guard>) => Effect.Effect<Taken, RateLimiterUnavailable> }
>()("mailroom/core/ports/RateLimiter") {}
