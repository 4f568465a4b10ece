/**
 * What the client takes of the machine that it runs on, apart from `fetch` and
 * WebCrypto: the time, chance, and timers. The one place that reads a clock,
 * so that a test can put its own in front.
 */
export interface Platform {
  /** Milliseconds since 1970. */
  readonly now: () => number
  /** From 0 up to, but not including, 1. Guards nothing: it spreads retries. */
  readonly random: () => number
  /** Calls back once, after so many milliseconds; the function that it returns prevents that. */
  readonly after: (milliseconds: number, callback: () => void) => () => void
}

/** The machine's own. */
export const platform: Platform = {
  // @effect-diagnostics-next-line globalDate:off -- the client has no Effect, hence no Clock
  now: () => Date.now(),
  random: () => crypto.getRandomValues(new Uint32Array(1))[0]! / 2 ** 32,
  after: (milliseconds, callback) => {
    // @effect-diagnostics-next-line globalTimers:off -- the client has no Effect, hence no Clock
    const timer = setTimeout(callback, milliseconds)
    return () => clearTimeout(timer)
  }
}

/** The longest that a timer can take; beyond it, timers fire at once. */
export const timerMillisMax = 2 ** 31 - 1

/** Resolves after so many milliseconds; rejects with the signal's reason as soon as that is aborted. */
export const sleep = ({ after }: Platform, milliseconds: number, signal: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve, reject) => {
    if (signal?.aborted === true) return reject(signal.reason)
    const abort = () => {
      cancel()
      reject(signal?.reason)
    }
    const cancel = after(milliseconds, () => {
      signal?.removeEventListener("abort", abort)
      resolve()
    })
    signal?.addEventListener("abort", abort, { once: true })
  })

/** What the promise comes to, which is not begun with once the signal is aborted; rejects with the signal's reason as soon as that is. */
export const unlessAborted = async <A>(signal: AbortSignal | undefined, begin: () => Promise<A>): Promise<A> => {
  signal?.throwIfAborted()
  let abort = () => {}
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal?.reason)
  })
  signal?.addEventListener("abort", abort, { once: true })
  try {
    return await Promise.race([begin(), aborted])
  } finally {
    signal?.removeEventListener("abort", abort)
  }
}
