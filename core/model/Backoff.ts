/**
 * When to try again: schedules as data, with jitter. A delay is never negative
 * and never longer than its step plus the jitter, whatever the clock does.
 */
import type { Millis } from "./Ids.ts"
import { submissionWindow } from "./Limits.ts"

const minute = 60_000
const hour = 60 * minute

/** A submission after a transient refusal: 1 m, 5 m, 15 m, 1 h, then every 4 h. */
export const submission: ReadonlyArray<Millis> = [minute, 5 * minute, 15 * minute, hour, 4 * hour]

/** A webhook delivery after the first, second, … failed attempt of a round. */
export const delivery: ReadonlyArray<Millis> = [minute, 10 * minute, hour, 6 * hour]

/** Jitter as a fraction of the step, both ways. */
export const jitter = 0.2

/** The wait after the `failures`-th failure (from 1); the last step repeats. `random` lies in [0, 1). */
export const delay = (schedule: ReadonlyArray<Millis>, failures: number, random: number): Millis => {
  const step = schedule[Math.min(Math.max(failures, 1), schedule.length) - 1]!
  return Math.round(step * (1 - jitter + 2 * jitter * random))
}

/**
 * The wait for another look at a message of this age that its operator holds up: 1 m, then 5 m. Whoever takes the sender into
 * use again does not wait for hours, and what it then meets with goes by the schedule from its start.
 */
export const whileHeld = (age: Millis, random: number): Millis => delay([minute, 5 * minute], age < minute ? 1 : 2, random)

/** Whether a message accepted then may still be tried at this time. */
export const maySubmit = (acceptedAt: Millis, at: Millis): boolean => at - acceptedAt < submissionWindow
