/** Whoever names the same takes turns, one at a time; others are not held up by it. */
import { Effect, Semaphore } from "effect"

export class Turns {
  readonly #named = new Map<string, { readonly turn: Semaphore.Semaphore; asked: number }>()

  /** How many have it or wait for it. */
  asked(name: string): number {
    return this.#named.get(name)?.asked ?? 0
  }

  take<A, E, R>(name: string, self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.uninterruptibleMask((restore) => {
      const own = this.#named.get(name) ?? { turn: Semaphore.makeUnsafe(1), asked: 0 }
      this.#named.set(name, own)
      own.asked += 1
      return Effect.ensuring(
        restore(own.turn.withPermits(1)(self)),
        Effect.sync(() => {
          own.asked -= 1
          if (own.asked === 0) this.#named.delete(name)
        })
      )
    })
  }
}
