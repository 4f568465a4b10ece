/**
 * Whether this process is about to end: once it is, new requests are turned
 * away, each answer closes its connection, and who is still sending a body
 * when the time to finish runs out is told so, before the server cuts it off.
 */
import { Context, Deferred, Duration, Effect, Layer } from "effect"
import { ShuttingDown } from "./Refusals.ts"

/** How long requests in flight may take to finish once a server, or a handler, stops. */
export const graceDefault: Duration.Input = "20 seconds"

export class DrainState {
  isDraining = false
  /** Fails when the time to finish has run out; until then it waits. */
  readonly expired = Deferred.makeUnsafe<never, ShuttingDown>()

  /** Breaks off what waits for a client, when the time to finish has run out. */
  unlessExpired<A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | ShuttingDown, R> {
    return Effect.raceFirst(self, Deferred.await(this.expired))
  }
}

/** How long before the server's own end the last answers are given. */
const headStart = Duration.seconds(1)

export class Drain extends Context.Service<Drain, DrainState>()("mailroom/http/Drain") {
  /** To be built before the server: behind the server's own end the time to finish is over, however much was left of it. */
  static readonly layer = Layer.effect(
    Drain,
    Effect.acquireRelease(
      Effect.sync(() => new DrainState()),
      (drain) => Deferred.fail(drain.expired, new ShuttingDown())
    )
  )

  /** Begins to drain when its scope closes. It must be built after the server, for then it closes before it. */
  static readonly onClose = (grace: Duration.Duration) =>
    Layer.effectDiscard(
      Effect.flatMap(Drain, (drain) =>
        Effect.addFinalizer(() => {
          drain.isDraining = true
          // Detached, lest the server's end wait for it; it is over with that, and holds no process that goes on.
          return drain.unlessExpired(Effect.sleep(Duration.max(Duration.zero, Duration.subtract(grace, headStart)))).pipe(
            Effect.andThen(Deferred.fail(drain.expired, new ShuttingDown())),
            Effect.forkDetach
          )
        })
      )
    )
}
