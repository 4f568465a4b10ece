/** Runs what is not a caller's, for as long as the process lives. What breaks in a tick is logged, and the next one tries again. */
import { Cause, Duration, Effect, Fiber, Layer } from "effect"
import { CheckDomains } from "../core/jobs/CheckDomains.ts"
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

/** One tick after the other, each so long after the one before. */
export const every = <A, R>(interval: Duration.Input, name: string, tick: Effect.Effect<A, never, R>) =>
  Effect.context<R>().pipe(
    Effect.flatMap((context) =>
      Effect.forkScoped(
        Effect.forever(Effect.andThen(Effect.sleep(interval), unbroken(name)(Effect.provideContext(tick, context))))
      )
    )
  )

/** Beside callers: the log of their requests, which is written to its end on the way out. */
export const serving = Layer.effectDiscard(
  Effect.gen(function* () {
    const requestLog = yield* RequestLog
    yield* Effect.addFinalizer(() => requestLog.flush)
    yield* every("1 second", "the request log", requestLog.flush)
  })
)

/** Worker, relay, sweep, domain checker and retention. On the way out, jobs under way are finished. */
export const working = Layer.effectDiscard(
  Effect.gen(function* () {
    const worker = yield* Worker
    const relay = yield* EventRelay
    const sweep = yield* Sweep
    const checkDomains = yield* CheckDomains

    let stopping = false
    const isStopping = () => stopping
    const running = yield* Effect.forkDetach(Effect.repeat(unbroken("the worker")(worker.run(isStopping, idle)), { until: isStopping }))
    yield* Effect.addFinalizer(() => {
      stopping = true
      // The relay's last tick is over by then.
      return Effect.all([Fiber.await(running), relay.ended], { concurrency: "unbounded" }).pipe(
        Effect.timeoutOption(drain),
        Effect.andThen(Fiber.interrupt(running))
      )
    })
    yield* unbroken("the sweep")(sweep.tick)
    yield* every(relayInterval, "the relay", Effect.repeat(relay.tick, { until: (count) => count === 0 }))
    yield* every("10 seconds", "the sweep", sweep.tick)
    yield* every("10 seconds", "the domain checker", checkDomains.tick)
    yield* every("10 minutes", "retention", sweep.retain)
  })
)

/** Everything, in one process. */
export const layer = Layer.merge(working, serving)
