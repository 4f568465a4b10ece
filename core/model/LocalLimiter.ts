/**
 * A rate limiter for one process, as a plain value: the in-memory adapter, what
 * the core falls back on when a shared limiter cannot be reached, and what
 * counts the mail of mailboxes.
 */
import type { Millis } from "./Ids.ts"
import type { Guard, Standing, Taken } from "./RateLimit.ts"
import { SlidingWindow } from "./SlidingWindow.ts"
import { untilNextDay } from "./Timestamp.ts"

const minute: Millis = 60_000
const day: Millis = 86_400_000

export class LocalLimiter<Scope extends string = Guard["scope"]> {
  readonly #windows = new Map<string, SlidingWindow>()
  readonly #days = new Map<string, { day: number; used: number }>()
  #roundAt = 0

  /** How many counters are held. Idle ones are dropped once a minute, as long as anybody asks. */
  get size(): number {
    return this.#windows.size + this.#days.size
  }

  /** Takes all guards or none. `steadyNanos` is a clock that never jumps, for the minute; `now` is the wall's, for the day. */
  take(guards: ReadonlyArray<Guard<Scope>>, steadyNanos: bigint, now: Millis): Taken<Scope> {
    const steady = toMillis(steadyNanos)
    if (steady - this.#roundAt >= minute) this.#forgetIdle(steady, now)
    const verdicts = guards.map((guard) => this.#peek(guard, steady, now))
    const refusedBy = verdicts.find(({ accepted }) => !accepted) ?? null
    if (refusedBy === null) for (const guard of guards) this.#push(guard, steady, now)
    return {
      refusedBy: refusedBy === null ? null : refusedBy.standing,
      standings: verdicts.map(({ accepted, standing }) =>
        refusedBy !== null && accepted ? this.#uncounted(standing.guard, steady, now) : standing
      )
    }
  }

  /** What a request would get, counted if it is accepted. */
  #peek(guard: Guard<Scope>, steady: Millis, now: Millis): { readonly accepted: boolean; readonly standing: Standing<Scope> } {
    if (guard.window === "minute") {
      const { accepted, remaining, waitMs } = this.#window(guard).peek(steady, guard.limit, minute)
      return { accepted, standing: { guard, remaining, resetMs: waitMs } }
    }
    const used = this.#day(guard, now).used
    return {
      accepted: used < guard.limit,
      standing: { guard, remaining: Math.max(0, guard.limit - used - 1), resetMs: untilNextDay(now) }
    }
  }

  /** Where a guard stands that would have accepted what another one refused. */
  #uncounted(guard: Guard<Scope>, steady: Millis, now: Millis): Standing<Scope> {
    if (guard.window === "minute") {
      const { remaining, waitMs } = this.#window(guard).rest(steady, guard.limit, minute)
      return { guard, remaining, resetMs: waitMs }
    }
    return { guard, remaining: guard.limit - this.#day(guard, now).used, resetMs: untilNextDay(now) }
  }

  #push(guard: Guard<Scope>, steady: Millis, now: Millis): void {
    if (guard.window === "minute") this.#window(guard).push(steady)
    else this.#day(guard, now).used += 1
  }

  #window(guard: Guard<Scope>): SlidingWindow {
    const name = nameOf(guard)
    let window = this.#windows.get(name)
    if (window === undefined) {
      window = new SlidingWindow()
      this.#windows.set(name, window)
    }
    return window
  }

  #day(guard: Guard<Scope>, now: Millis): { day: number; used: number } {
    const today = Math.floor(now / day)
    const name = `${nameOf(guard)} ${today}`
    let counter = this.#days.get(name)
    if (counter === undefined) {
      counter = { day: today, used: 0 }
      this.#days.set(name, counter)
    }
    return counter
  }

  #forgetIdle(steady: Millis, now: Millis): void {
    this.#roundAt = steady
    for (const [name, window] of this.#windows) if (window.isEmpty(steady, minute)) this.#windows.delete(name)
    const today = Math.floor(now / day) // a clock that steps back over midnight finds yesterday's counter again
    for (const [name, counter] of this.#days) if (Math.abs(counter.day - today) > 1) this.#days.delete(name)
  }
}

const nameOf = (guard: Guard<string>): string => `${guard.scope} ${guard.bucket}`

/** To 1/1024 ms: whole milliseconds would let a request in before its minute is over, and decimal fractions do not add up. */
const toMillis = (nanos: bigint): Millis => Number((nanos * 1024n) / 1_000_000n) / 1024
