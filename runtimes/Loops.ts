/** Runs the core's jobs for as long as the process lives. What breaks in a tick is logged, and the next one tries again. */
import { Cause, Duration, Effect, Fiber, Layer } from "effect"
import { EventRelay } from "../core/jobs/EventRelay.ts"
import { Sweep } from "../core/jobs/Sweep.ts"
import { Worker } from "../core/jobs/Worker.ts"
import { RequestLog } from "../core/operations/RequestLog.ts"

/** A job of another process is seen this late at most, where nothing nudges us. */
const idle = Duration.millis(200)
/** Events become deliveries this late at most. */
const relayInterval = Duration.millis(50)
/** How long jobs under way may take to end when the process stops; after that they are left to their leases. */
const drain = Duration.seconds(10)

/** A defect must not end a loop that everything waits for. */
const unbroken = (name: string) => <A>(tick: Effect.Effect<A>): Effect.Effect<A | void> =>
  Effect.catchCause(tick, (cause) =>
    Cause.hasInterruptsOnly(cause) ? Effect.interrupt : Effect.logError(`${name} broke; it goes on`, cause)
  )

const every = <A>(interval: Duration.Input, name: string, tick: Effect.Effect<A>) =>
  Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(interval), unbroken(name)(tick))))

/** Worker, relay, sweep, retention and the request log. On the way out, what is under way is finished and the log written. */
export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const worker = yield* Worker
    const relay = yield* EventRelay
    const sweep = yield* Sweep
    const requestLog = yield* RequestLog
    yield* Effect.addFinalizer(() => requestLog.flush)

    let stopping = false
    const isStopping = () => stopping
    const working = yield* Effect.forkDetach(Effect.repeat(unbroken("the worker")(worker.run(isStopping, idle)), { until: isStopping }))
    yield* Effect.addFinalizer(() => {
      stopping = true
      return Fiber.await(working).pipe(Effect.timeoutOption(drain), Effect.andThen(Fiber.interrupt(working)))
    })
    yield* unbroken("the sweep")(sweep.tick)
    yield* every(relayInterval, "the relay", Effect.repeat(relay.tick, { until: (count) => count === 0 }))
    yield* every("10 seconds", "the sweep", sweep.tick)
    yield* every("10 minutes", "retention", sweep.retain)
    yield* every("1 second", "the request log", requestLog.flush)
  })
)
