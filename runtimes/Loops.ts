/** Runs the core's ticks for as long as the process lives. A tick never fails; it logs, and the next one tries again. */
import { Duration, Effect, Fiber, Layer } from "effect"
import { Sweep } from "../core/jobs/Sweep.ts"
import { Worker } from "../core/jobs/Worker.ts"
import { RequestLog } from "../core/operations/RequestLog.ts"

const workerCount = 2
/** A job of another process is seen this late at most, where nothing nudges us. */
const idle = Duration.millis(200)
/** How long jobs under way may take to end when the process stops; after that they are left to their leases. */
const drain = Duration.seconds(10)

const every = <A>(interval: Duration.Input, tick: Effect.Effect<A>) =>
  Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(interval), tick)))

/** Worker, sweep, retention and the request log. On the way out, what is under way is finished and the log written. */
export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const worker = yield* Worker
    const sweep = yield* Sweep
    const requestLog = yield* RequestLog
    yield* Effect.addFinalizer(() => requestLog.flush)

    let stopping = false
    const work = Effect.flatMap(worker.tick, (count) => (count > 0 ? Effect.void : worker.awaitWork(idle)))
    const workers = yield* Effect.forEach(Array.from({ length: workerCount }), () =>
      Effect.forkDetach(Effect.repeat(work, { until: () => stopping }))
    )
    yield* Effect.addFinalizer(() => {
      stopping = true
      return Fiber.awaitAll(workers).pipe(Effect.timeoutOption(drain), Effect.andThen(Fiber.interruptAll(workers)))
    })
    yield* sweep.tick
    yield* every("10 seconds", sweep.tick)
    yield* every("10 minutes", sweep.retain)
    yield* every("1 second", requestLog.flush)
  })
)
