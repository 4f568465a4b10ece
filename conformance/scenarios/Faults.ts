/**
 * Crashes, placed exactly: every call of a port is counted, and at the chosen
 * one the process dies, before the call or after it has taken effect. From
 * then on nothing this process calls does anything. An answer that is lost is
 * milder: the call takes effect, and the caller is told that nobody knows.
 */
import { Data, Duration, Effect, Exit, Stream } from "effect"
import * as assert from "node:assert/strict"
import type { Worker } from "../../core/jobs/Worker.ts"
import { StoreUnavailable } from "../../core/ports/Store.ts"

/** What a dead process's calls die of. */
export class Crashed extends Data.TaggedError("Crashed")<{ readonly call: string }> {}

export type Moment = "before" | "after" | "lost answer"

export class Faults {
  readonly #crashAt: number
  readonly #moment: Moment
  #calls = 0
  crashed: string | null = null
  /** The chosen call has come. */
  hasStruck = false

  /** Crashes at the n-th call of a port, counted from 1; 0 never. */
  constructor(crashAt: number, moment: Moment) {
    this.#crashAt = crashAt
    this.#moment = moment
  }

  /** Ends the process now. */
  kill(): void {
    this.crashed = "killed"
  }

  around<A, E, R>(call: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.suspend(() => {
      const dead = () => Effect.die(new Crashed({ call: this.crashed ?? call }))
      if (this.crashed !== null) return dead()
      if (this.#moment === "lost answer" && call !== "Store.commit") return effect
      this.#calls += 1
      if (this.#calls !== this.#crashAt) return effect
      this.hasStruck = true
      if (this.#moment === "lost answer") {
        return Effect.andThen(effect, Effect.fail(new StoreUnavailable({ cause: "the answer was lost" }) as E)) // of the store alone
      }
      this.crashed = `${this.#moment} ${call}`
      return this.#moment === "before" ? dead() : Effect.andThen(effect, dead())
    })
  }

  /** Reads are no calls: they are left as they are, unless somebody is about them. */
  aroundStream<A, E, R>(_: string, stream: Stream.Stream<A, E, R>): Stream.Stream<A, E, R> {
    return stream
  }
}

/** Crashes at the n-th commit: of all calls only those count. */
export class CommitFaults extends Faults {
  override around<A, E, R>(call: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return call === "Store.commit" || this.crashed !== null ? super.around(call, effect) : effect
  }
}

/** No fault: the calls of ports, in their order. */
export class CallLog extends Faults {
  readonly made: Array<string> = []

  constructor() {
    super(0, "before")
  }

  override around<A, E, R>(call: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.suspend(() => {
      this.made.push(call)
      return effect
    })
  }
}

/** No fault: fibers of the process take turns at each call of a port, also where it is answered at once. */
export class Turns extends Faults {
  constructor() {
    super(0, "before")
  }

  override around<A, E, R>(_: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.andThen(Effect.yieldNow, effect)
  }
}

/** No fault, but an interlude: right behind the n-th call of a port, others do something. */
export class Interlude extends Faults {
  readonly #at: number
  readonly #play: Effect.Effect<unknown, unknown>
  #calls = 0

  constructor(at: number, play: Effect.Effect<unknown, unknown>) {
    super(0, "before")
    this.#at = at
    this.#play = play
  }

  override around<A, E, R>(_: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.tap(effect, () => {
      this.#calls += 1
      if (this.#calls !== this.#at) return Effect.void
      this.hasStruck = true
      return Effect.orDie(this.#play)
    })
  }
}

/** No fault, but an interlude beside each call of this name. */
abstract class Beside extends Faults {
  readonly #call: string
  protected readonly play: Effect.Effect<unknown>

  constructor(call: string, play: Effect.Effect<unknown>) {
    super(0, "before")
    this.#call = call
    this.play = play
  }

  protected abstract beside<A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R>

  override around<A, E, R>(call: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    if (call !== this.#call) return effect
    return Effect.suspend(() => {
      this.hasStruck = true
      return this.beside(effect)
    })
  }
}

/** It is played ahead of the call. */
export class Ahead extends Beside {
  protected override beside<A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.andThen(this.play, effect)
  }
}

/** It is played behind the call, before that is answered. */
export class Behind extends Beside {
  protected override beside<A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.tap(effect, () => this.play)
  }
}

/** What it plays, the first time; nothing after that. */
export const once = <A, E>(play: Effect.Effect<A, E>): Effect.Effect<void> => {
  let isDue = true
  return Effect.suspend(() => {
    if (!isDue) return Effect.void
    isDue = false
    return Effect.asVoid(Effect.orDie(play))
  })
}

/** A store that answers reads, and takes nothing while it is on, or so many commits long. */
export class NoCommits extends Faults {
  isOn = false
  /** Whether it breaks whoever commits, instead of saying so. */
  isBroken = false
  left = Number.POSITIVE_INFINITY

  constructor() {
    super(0, "before")
  }

  /** It is well again. */
  end(): void {
    this.isOn = false
  }

  override around<A, E, R>(call: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.suspend(() => {
      if (call !== "Store.commit" || !this.isOn || this.left === 0) return effect
      this.hasStruck = true
      this.left -= 1
      if (this.isBroken) return Effect.die(new Error("the commit breaks"))
      return Effect.fail(new StoreUnavailable({ cause: "read only" }) as E) // of the store alone
    })
  }
}

/** A store that has commits wait, is not waited for, and carries them out all the same; well again once the first has landed. */
export class LateCommits extends Faults {
  readonly #after: Duration.Duration
  #isOver = false

  constructor(after: Duration.Duration) {
    super(0, "before")
    this.#after = after
  }

  override around<A, E, R>(call: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    if (call !== "Store.commit") return effect
    return Effect.suspend(() => {
      if (this.#isOver) return effect
      this.hasStruck = true
      const landing = Effect.ensuring(effect, Effect.sync(() => void (this.#isOver = true)))
      const late = Effect.forkDetach(Effect.delay(landing, this.#after))
      return Effect.andThen(late, Effect.fail(new StoreUnavailable({ cause: "no answer in time" }) as E)) // of the store alone
    })
  }
}

/** Calls and reads of this name get no answer. */
export class Silence extends Faults {
  readonly #call: string

  constructor(call: string) {
    super(0, "before")
    this.#call = call
  }

  override around<A, E, R>(call: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return call === this.#call ? Effect.suspend(() => this.#struck(Effect.never)) : effect
  }

  override aroundStream<A, E, R>(call: string, stream: Stream.Stream<A, E, R>): Stream.Stream<A, E, R> {
    return call === this.#call ? Stream.suspend(() => this.#struck(Stream.never)) : stream
  }

  #struck<S>(silence: S): S {
    this.hasStruck = true
    return silence
  }
}

/** Those faults, while it is on. */
export class Within extends Faults {
  readonly #faults: Faults
  isOn = false

  constructor(faults: Faults) {
    super(0, "before")
    this.#faults = faults
  }

  override around<A, E, R>(call: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.suspend(() => (this.isOn ? this.#faults.around(call, effect) : effect))
  }

  override aroundStream<A, E, R>(call: string, stream: Stream.Stream<A, E, R>): Stream.Stream<A, E, R> {
    return Stream.suspend(() => (this.isOn ? this.#faults.aroundStream(call, stream) : stream))
  }
}

/** A port whose effects pass through `faults`. */
export const faulty = <S extends object>(faults: Faults, name: string, service: S): S =>
  aroundEach(service, name, (call, effect) => faults.around(call, effect), (call, stream) => faults.aroundStream(call, stream))

type Around = (call: string, effect: Effect.Effect<unknown, unknown, unknown>) => Effect.Effect<unknown, unknown, unknown>
type AroundStream = (call: string, stream: Stream.Stream<unknown, unknown, unknown>) => Stream.Stream<unknown, unknown, unknown>

/** A port with something around each of its effects, in groups of reads too; streams are left as they are, unless told otherwise. */
export const aroundEach = <S extends object>(service: S, name: string, around: Around, aroundStream: AroundStream = (_, stream) => stream): S => {
  const wrap = (call: string, value: unknown): unknown => {
    if (Effect.isEffect(value)) return around(call, value)
    if (typeof value === "function") {
      return (...parameters: ReadonlyArray<unknown>) => {
        const result: unknown = value(...parameters)
        if (Stream.isStream(result)) return aroundStream(call, result)
        return Effect.isEffect(result) ? around(call, result) : result
      }
    }
    return typeof value === "object" && value !== null ? aroundEach(value, call, around, aroundStream) : value
  }
  // The same members with the same types: only what their effects do is changed.
  return Object.fromEntries(Object.entries(service).map(([member, value]) => [member, wrap(`${name}.${member}`, value)])) as S
}

const callsMax = 200

/** Plays a crash at the 1st, 2nd, 3rd … call, until the play comes to its end without one; how many there were. */
export const atEachCall = (
  play: (crash: { readonly faults: Faults; readonly label: string }) => Effect.Effect<void, unknown>,
  moments: ReadonlyArray<Moment> = ["before", "after"]
) =>
  Effect.gen(function* () {
    let crashes = 0
    for (const moment of moments) {
      for (let call = 1; ; call++) {
        assert.ok(call < callsMax, "the play makes calls without end")
        const faults = new Faults(call, moment)
        yield* play({ faults, label: `${moment} call ${call}` })
        if (!faults.hasStruck) break
        crashes += 1
      }
    }
    return crashes
  })

/**
 * Has a process that may crash work until nothing is due. It is not asked any further: at rest it asks the queue the same
 * each time, and a crash there is like the one before.
 */
export const toRest = ({ worker }: { readonly worker: Worker["Service"] }) =>
  Effect.repeat(Effect.exit(worker.tick), { until: (exit) => !Exit.isSuccess(exit) || exit.value === 0, times: 20 })
