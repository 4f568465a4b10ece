/**
 * What probes and scrapes want to know of the store. They come often and from
 * many, also while it is silent: it is asked once for all who come at about the
 * same time, and whoever asks waits for no longer than a moment.
 */
import { Effect, Exit, Fiber, Option } from "effect"

/** How long it may take to answer. */
const patience = "1 second"
/** This often it is asked. */
const freshness = "1 second"

/** What it has answered lately; none if it has not, in time. */
export const lately = <A, E>(question: Effect.Effect<A, E>): Effect.Effect<Effect.Effect<Option.Option<A>>> =>
  question.pipe(
    Effect.forkDetach,
    // Called off then, or each would leave its question behind; and not waited for, however long that takes.
    Effect.flatMap((asked) =>
      Effect.timeoutOption(Fiber.await(asked), patience).pipe(Effect.ensuring(Effect.forkDetach(Fiber.interrupt(asked))))
    ),
    Effect.map((exit) => Option.flatMap(exit, Exit.getSuccess)),
    Effect.cachedWithTTL(freshness)
  )
