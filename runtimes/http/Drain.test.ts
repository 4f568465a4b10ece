import { assert, it } from "@effect/vitest"
import { Clock, Context, Duration, Effect, Exit, Layer } from "effect"
import { Drain, graceDefault } from "./Drain.ts"

/** A clock that knows who sleeps, and wakes nobody. */
const drowsy = Effect.map(Clock.Clock, (clock) => {
  const asleep: Array<Duration.Duration> = []
  const sleep = (duration: Duration.Duration) =>
    Effect.andThen(Effect.sync(() => void asleep.push(duration)), Effect.never).pipe(
      Effect.ensuring(Effect.sync(() => void asleep.splice(asleep.indexOf(duration), 1)))
    )
  return { asleep, clock: { ...clock, sleep } satisfies Clock.Clock }
})

const until = (holds: () => boolean) => Effect.repeat(Effect.yieldNow, { until: holds })

it.effect("The last answers are given a second before the server's own end, and nothing waits for them behind it", () =>
  Effect.gen(function* () {
    const { asleep, clock } = yield* drowsy
    let waited: ReadonlyArray<Duration.Duration> = []
    const server = Layer.effectDiscard(
      Effect.addFinalizer(() => Effect.andThen(until(() => asleep.length > 0), Effect.sync(() => void (waited = [...asleep]))))
    )
    const served = Drain.onClose(Duration.fromInputUnsafe(graceDefault)).pipe(Layer.provideMerge(server), Layer.provideMerge(Drain.layer))

    const state = yield* Effect.provideService(Effect.scoped(Effect.map(Layer.build(served), Context.get(Drain))), Clock.Clock, clock)

    assert.deepStrictEqual(waited.map(Duration.toMillis), [19_000])
    yield* until(() => asleep.length === 0)
    assert.isTrue(state.isDraining)
    assert.isTrue(Exit.isFailure(yield* Effect.exit(state.unlessExpired(Effect.never))))
  })
)
