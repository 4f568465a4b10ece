/**
 * Many deadlines of one duration. They fall due in the order in which they are
 * set, so that one fiber sleeps for all of them, on Effect's clock: a fiber and
 * a timer for each would cost a job that is over in a moment a quarter of its time.
 */
import { Clock, Duration, Effect, Exit, Fiber, type Scope } from "effect"

/**
 * A process that wakes up too late, because it was stopped or had no processor, has not read yet what came to it meanwhile.
 * So what is under way is given another moment to be over, before that counts as nothing.
 */
export const tooLate = Duration.toNanosUnsafe(Duration.millis(20))
export const moment = Duration.millis(250)

export interface Deadlines {
  /** Null if it never falls due. */
  readonly set: (onDue: () => void) => Deadline | null
  readonly clear: (deadline: Deadline | null) => void
  /** All that are set fall due now. */
  readonly end: Effect.Effect<void>
  /** Interrupts what is not over when its deadline falls due, and goes on with this instead once that has ended. */
  readonly within: <A2, E2, R2>(
    orElse: () => Effect.Effect<A2, E2, R2>
  ) => <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A | A2, E | E2, R | R2>
}

export interface Deadline {
  readonly at: bigint
  /** Let go of when it is cleared: what a Set has left behind as it changed may be held, with all that was in it, for long. */
  onDue: (() => void) | null
}

/** On the clock of whoever makes them. What has not fallen due when the scope closes never does. */
export const make = (duration: Duration.Duration): Effect.Effect<Deadlines, never, Scope.Scope> =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const fork = Effect.runForkWith(yield* Effect.context<never>())
    const nanos = Duration.isFinite(duration) ? Duration.toNanosUnsafe(duration) : null
    const all = new Set<Deadline>()
    let isWatched = false
    let watching: Fiber.Fiber<void> | null = null

    const fall = (deadline: Deadline) => {
      const { onDue } = deadline
      clear(deadline)
      // What breaks is not the end of all others' deadlines.
      return Effect.catchDefect(Effect.sync(() => onDue?.()), (defect) => Effect.logError("what a deadline calls broke; the others go on", defect))
    }

    const watch = Effect.gen(function* () {
      for (;;) {
        // Asked anew each time: an iterator that is kept while this sleeps keeps all that has been in the Set since.
        const [next] = all
        if (next === undefined) break
        const left = next.at - clock.monotonicTimeNanosUnsafe()
        if (left > 0n) {
          yield* Effect.sleep(Duration.nanos(left))
          if (clock.monotonicTimeNanosUnsafe() - next.at > tooLate) yield* Effect.sleep(moment)
        } else {
          yield* fall(next)
        }
      }
      isWatched = false
    })
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        all.clear()
        watching?.interruptUnsafe()
      })
    )

    const set: Deadlines["set"] = (onDue) => {
      if (nanos === null) return null
      const deadline: Deadline = { at: clock.monotonicTimeNanosUnsafe() + nanos, onDue }
      all.add(deadline)
      if (!isWatched) {
        isWatched = true
        watching = fork(watch)
      }
      return deadline
    }

    const clear: Deadlines["clear"] = (deadline) => {
      if (deadline === null) return
      all.delete(deadline)
      deadline.onDue = null
    }

    const within =
      <A2, E2, R2>(orElse: () => Effect.Effect<A2, E2, R2>) =>
      <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A | A2, E | E2, R | R2> =>
        Effect.flatMap(Effect.forkChild(self, { startImmediately: true }), (fiber) => {
          const ended = fiber.pollUnsafe()
          if (ended !== undefined) return ended
          return Effect.flatMap(
            Effect.callback<Exit.Exit<A, E> | null>((resume) => {
              let isLate = false
              const deadline = set(() => {
                isLate = true
                fiber.interruptUnsafe()
              })
              fiber.addObserver((exit) => {
                clear(deadline)
                resume(Effect.succeed(isLate ? null : exit))
              })
              return Effect.suspend(() => Fiber.interrupt(fiber))
            }),
            (exit): Effect.Effect<A | A2, E | E2, R2> => exit ?? orElse()
          )
        })

    const end = Effect.suspend(() => Effect.forEach([...all], fall, { discard: true }))

    return { set, clear, end, within }
  })
