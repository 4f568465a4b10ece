/**
 * What something takes of the processor in this process, on all of its threads, in milliseconds. Tests that say what no input
 * may cost ask for this: others who are at work on the machine have no part in it.
 */
import { Effect } from "effect"

const since = (before: NodeJS.CpuUsage): number => {
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1_000
}

/** The least of three tries, or the first that takes less than `bound`: threads that compile and collect are at work at times. */
export const processorTime = (work: () => unknown, bound: number): number => {
  let least = Infinity
  for (let tries = 0; tries < 3 && least >= bound; tries++) {
    const before = process.cpuUsage()
    work()
    least = Math.min(least, since(before))
  }
  return least
}

export const withProcessorTime = <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<{ readonly result: A; readonly took: number }, E, R> =>
  Effect.suspend(() => {
    const before = process.cpuUsage()
    return Effect.map(work, (result) => ({ result, took: since(before) }))
  })
