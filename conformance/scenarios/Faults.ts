/**
 * Crashes, placed exactly: every call of a port is counted, and at the chosen
 * one the process dies, before the call or after it has taken effect. From
 * then on nothing this process calls does anything.
 */
import { Data, Effect } from "effect"

/** What a dead process's calls die of. */
export class Crashed extends Data.TaggedError("Crashed")<{ readonly call: string }> {}

export class Faults {
  readonly #crashAt: number
  readonly #moment: "before" | "after"
  #calls = 0
  crashed: string | null = null

  /** Crashes at the n-th call of a port, counted from 1; 0 never. */
  constructor(crashAt: number, moment: "before" | "after") {
    this.#crashAt = crashAt
    this.#moment = moment
  }

  around<A, E, R>(call: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.suspend(() => {
      const dead = () => Effect.die(new Crashed({ call: this.crashed ?? call }))
      if (this.crashed !== null) return dead()
      this.#calls += 1
      if (this.#calls !== this.#crashAt) return effect
      this.crashed = `${this.#moment} ${call}`
      return this.#moment === "before" ? dead() : Effect.andThen(effect, dead())
    })
  }
}

/** A port whose effects pass through `faults`, in groups of reads too. Streams are left as they are. */
export const faulty = <S extends object>(faults: Faults, name: string, service: S): S =>
  // The same members with the same types: only what their effects do is changed.
  Object.fromEntries(Object.entries(service).map(([member, value]) => [member, wrap(faults, `${name}.${member}`, value)])) as S

const wrap = (faults: Faults, call: string, value: unknown): unknown => {
  if (Effect.isEffect(value)) return faults.around(call, value)
  if (typeof value === "function") {
    return (...parameters: ReadonlyArray<unknown>) => {
      const result: unknown = value(...parameters)
      return Effect.isEffect(result) ? faults.around(call, result) : result
    }
  }
  return typeof value === "object" && value !== null ? faulty(faults, call, value) : value
}
