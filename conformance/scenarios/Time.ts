/**
 * The virtual clock of a scenario, on ports that are really waited for: before
 * and after time is moved, whatever the ports are asked has been answered, and
 * whoever asked has gone on. So a scenario means the same on a database as it
 * does in memory.
 */
import { Clock, Context, Duration, Effect, Stream } from "effect"
import { TestClock } from "effect/testing"
import { aroundEach } from "./Faults.ts"

/** Counts the calls that ports have not answered yet. */
export class Calls {
  underWay = 0
  /** Calls that wait for time to pass. */
  asleep = 0

  /** A port whose calls are counted, and of a blob each piece that is asked for; other streams wait for what they are fed. */
  watch<S extends object>(name: string, service: S): S {
    const counted = <A, E, R>(effect: Effect.Effect<A, E, R>, isSleep = false): Effect.Effect<A, E, R> =>
      Effect.suspend(() => {
        const count = (by: number) => (isSleep ? (this.asleep += by) : (this.underWay += by))
        count(1)
        return Effect.ensuring(effect, Effect.sync(() => void count(-1)))
      })
    return aroundEach(
      service,
      name,
      (call, effect) => counted(effect, call === "JobQueue.awaitWork"),
      (call, stream) => (call === "BlobStore.read" ? Stream.transformPull(stream, (pull) => Effect.succeed(counted(pull))) : stream)
    )
  }
}

/** The calls of the scenario that is played. */
export const WorldCalls = Context.Reference<Calls>("mailroom/conformance/WorldCalls", { defaultValue: () => new Calls() })

/** Turns of the scheduler without a call under way, after which nobody is about to make one. */
const quietTurns = 20
/** Milliseconds of it, where somebody waits for work: a queue may ask its server before it tells that there is some. */
const quietMillis = 10

/** Waits, the clock standing still, until every port has answered and nobody asks on. */
export const calm = Effect.gen(function* () {
  const calls = yield* WorldCalls
  for (let quiet = 0; quiet < (calls.asleep > 0 ? quietTurns + quietMillis : quietTurns); ) {
    quiet = calls.underWay > 0 ? 0 : quiet + 1
    yield* calls.underWay > 0 || quiet > quietTurns ? TestClock.withLive(Effect.sleep(1)) : Effect.yieldNow
  }
})

/** Waits, the clock standing still, until this holds; for half a minute at most. */
export const until = (claim: () => boolean): Effect.Effect<void> =>
  Effect.asVoid(Effect.repeat(TestClock.withLive(Effect.sleep(1)), { until: claim, times: 30_000 }))

/** At most so much passes at once: what one timer sets in motion takes its time, and may set the next one. */
const stepMax = Duration.seconds(1)

/** Longer waits pass at once, unless workers run: nothing is under way in them. */
const steppedMax = Duration.minutes(10)

/** Lets time pass at once: for those who do what is due at its end themselves. */
export const leap = (duration: Duration.Input) => Effect.andThen(calm, Effect.andThen(TestClock.adjust(duration), calm))

/** Lets time pass, bit by bit; in larger bits where nothing happens for long but workers looking for work. */
export const adjust = Effect.fnUntraced(function* (duration: Duration.Input, atOnce: Duration.Input = stepMax) {
  const calls = yield* WorldCalls
  let left = Duration.fromInputUnsafe(duration)
  const isStepped = calls.asleep > 0 || Duration.isLessThanOrEqualTo(left, steppedMax)
  yield* calm
  do {
    const step = isStepped ? Duration.min(left, Duration.fromInputUnsafe(atOnce)) : left
    yield* Effect.andThen(TestClock.adjust(step), calm)
    left = Duration.subtract(left, step)
  } while (Duration.isGreaterThan(left, Duration.zero))
})

/** Runs something on a clock that is so many milliseconds ahead of the world's; less than none: behind it. */
export const ahead = (by: number) => <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(Clock.Clock, (clock) => {
    const fast: Clock.Clock = Object.assign(Object.create(clock), { // all else is the world's
      currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() + by,
      currentTimeMillis: Effect.map(clock.currentTimeMillis, (now) => now + by)
    })
    return Effect.provideService(self, Clock.Clock, fast)
  })

/** Lets time pass, or turns it back, to this moment. */
export const setTime = Effect.fnUntraced(function* (at: number) {
  yield* calm
  if (at > (yield* Clock.currentTimeMillis)) yield* adjust(at - (yield* Clock.currentTimeMillis))
  else yield* TestClock.setTime(at)
  yield* calm
})
