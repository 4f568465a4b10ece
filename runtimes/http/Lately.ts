/**
 * What probes and scrapes want to know of the store. They come often and from
 * many, also while it is silent: it is asked once for all who come at about the
 * same time, and whoever asks waits for no longer than a moment.
 */
import { Effect, Exit, Fiber, Option } from "effect"

/** How long the store may take to answer. */
const patience = "1 second"
/** For how long an answer is given to others who ask. */
const freshness = "1 second"

/** The store's answer, asked for anew unless the last one is fresh; none where that failed, or did not come in time. */
export const lately = <A, E>(question: Effect.Effect<A, E>): Effect.Effect<Effect.Effect<Option.Option<A>>> =>
  question.pipe(
    Effect.forkDetach,
    // Whoever has waited long enough calls its question off, or each would leave one behind; and does not wait for its end.
    Effect.flatMap((asked) =>
      Effect.timeoutOption(Fiber.await(asked), patience).pipe(Effect.ensuring(Effect.forkDetach(Fiber.interrupt(asked))))
    ),
    Effect.map((exit) => Option.flatMap(exit, Exit.getSuccess)),
    Effect.cachedWithTTL(freshness)
  )
