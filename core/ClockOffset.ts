/**
 * How far this process's clock is from the store's, as its runtime last
 * measured it. Versions keep the state right whatever clocks say; but a process
 * that is far off would take jobs before they are due or long after, hold them
 * too long or not long enough, and forget what is to be kept. So beyond a bound
 * it takes no work, and leaves it to the others.
 */
import { Context } from "effect"
import type { Millis } from "./model/Ids.ts"

/** A process that is further off takes no work. */
export const clockOffsetMax: Millis = 5_000

/** The store's clock less ours, in milliseconds. A runtime that does not measure is trusted. */
export const ClockOffset = Context.Reference<() => Millis>("mailroom/core/ClockOffset", { defaultValue: () => () => 0 })

/** Whether a process whose clock is as far off as this may take work. */
export const isClockTrusted = (offset: () => Millis): boolean => Math.abs(offset()) <= clockOffsetMax
