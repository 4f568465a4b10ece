/** A process that runs until it is told to stop. Its log says when it was, and when all is finished and closed; of one that was killed, neither. */
import { Effect, Layer } from "effect"

export const untilStopped = <E, R, A, E2, R2>(
  role: "serve" | "worker" | "smtp",
  /** What is said and done once all of it is there. */
  begin: Effect.Effect<void, E, R>,
  /** What works meanwhile, and finishes what is under way as it closes. */
  working: Layer.Layer<A, E2, R2>
): Effect.Effect<never, E | E2, Exclude<R, A> | R2> =>
  Effect.suspend(() => {
    let isStopping = false
    const stopping = Effect.suspend(() => {
      isStopping = true
      return Effect.logInfo(`${role}: stopping`)
    })
    return begin.pipe(
      Effect.andThen(Effect.never),
      Effect.onInterrupt(() => stopping),
      Effect.provide(working),
      // Of one that was not there yet there is nothing to say.
      Effect.onInterrupt(() => (isStopping ? Effect.logInfo(`${role}: stopped`) : Effect.void))
    )
  })
