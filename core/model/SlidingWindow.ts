/**
 * An exact sliding window: in no span of its length are more than the limit
 * accepted, and a client that stays within the limit is never refused. It
 * keeps the time of each accepted request, so it costs 8 bytes each.
 */
import type { Millis } from "./Ids.ts"

export interface Verdict {
  readonly accepted: boolean
  /** How many more would be accepted after this request. */
  readonly remaining: number
  /** Whole milliseconds until one more would be accepted (refused), or until the window is empty again (accepted, and counted). */
  readonly waitMs: Millis
}

export class SlidingWindow {
  readonly #times: Array<Millis> = []
  #start = 0

  /** How many times are held: those in the window, and of those that have left it at most as many again, or 64. */
  get size(): number {
    return this.#times.length
  }

  /** What a request at this time would get. Changes nothing but forgets what has left the window. */
  peek(now: Millis, limit: number, windowMs: Millis): Verdict {
    const held = this.#held(now, windowMs)
    if (held < limit) {
      return { accepted: true, remaining: limit - held - 1, waitMs: Math.ceil(Math.max(this.#last(now), now) + windowMs - now) }
    }
    if (limit <= 0) return { accepted: false, remaining: 0, waitMs: windowMs }
    const frees = this.#times[this.#times.length - limit]!
    return { accepted: false, remaining: 0, waitMs: Math.ceil(frees + windowMs - now) }
  }

  /** How many would be accepted at this time, and how long until the window is empty. */
  rest(now: Millis, limit: number, windowMs: Millis): { readonly remaining: number; readonly waitMs: Millis } {
    const held = this.#held(now, windowMs)
    return {
      remaining: Math.max(0, limit - held),
      waitMs: held === 0 ? 0 : Math.ceil(this.#last(now) + windowMs - now)
    }
  }

  /** Counts an accepted request. A clock that steps back does not shorten anybody's window. */
  push(now: Millis): void {
    this.#times.push(Math.max(this.#last(now), now))
  }

  /** Nothing is in the window any more. */
  isEmpty(now: Millis, windowMs: Millis): boolean {
    return this.#held(now, windowMs) === 0
  }

  #last(otherwise: Millis): Millis {
    return this.#times[this.#times.length - 1] ?? otherwise
  }

  #held(now: Millis, windowMs: Millis): number {
    while (this.#start < this.#times.length && this.#times[this.#start]! <= now - windowMs) this.#start++
    if (this.#start > 64 && this.#start * 2 > this.#times.length) {
      this.#times.splice(0, this.#start)
      this.#start = 0
    }
    return this.#times.length - this.#start
  }
}
