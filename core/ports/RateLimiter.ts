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
import type { Guard, Taken } from "../model/RateLimit.ts"

/** The limiter did not answer: the request may have been counted. */
export class RateLimiterUnavailable extends Data.TaggedError("RateLimiterUnavailable")<{ readonly cause: unknown }> {
  override readonly message = "the rate limiter is unavailable"
}

export class RateLimiter extends Context.Service<
  RateLimiter,
  /** Counts one request against all of these, or against none; a refusal is an answer, and no failure. */
  { readonly take: (guards: ReadonlyArray<Guard>) => Effect.Effect<Taken, RateLimiterUnavailable> }
>()("mailroom/core/ports/RateLimiter") {}
