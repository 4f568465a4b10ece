/**
 * Whether this process is about to end: once it is, new requests are turned
 * away, and each answer closes its connection.
 */
import { Context, Effect, Layer } from "effect"

export class DrainState {
  isDraining = false
}

export class Drain extends Context.Service<Drain, DrainState>()("mailroom/http/Drain") {
  static readonly layer = Layer.sync(Drain, () => new DrainState())

  /** Begins to drain when its scope closes. It must be built after the server, for then it closes before it. */
  static readonly onClose = Layer.effectDiscard(
    Effect.flatMap(Drain, (drain) => Effect.addFinalizer(() => Effect.sync(() => void (drain.isDraining = true))))
  )
}
