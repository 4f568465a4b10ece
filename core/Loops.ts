/**
 * Runs what is not a caller's, for as long as the process lives: the worker at
 * once when there is work, the relay each 50 ms, the request log and what is
 * yet to be recorded of mail that was handed over each second, the sweep and
 * the domain checker each 10 seconds, retention each 10 minutes.
 * What breaks in a tick is logged, and the next one tries again.
 */
import { Duration, Effect, Fiber, Layer } from "effect"
import { CheckDomains } from "./jobs/CheckDomains.ts"
import { EventRelay } from "./jobs/EventRelay.ts"
import { Sweep } from "./jobs/Sweep.ts"
import { Worker } from "./jobs/Worker.ts"
import { RequestLog } from "./operations/RequestLog.ts"

/** A job of another process is seen this late at most, where nothing nudges us. */
const idle = Duration.millis(200)
/** Events become deliveries this late at most. */
const relayInterval = Duration.millis(50)
/** How long a worker that broke is left alone: what breaks at once would else break as fast as it can. */
const brokenPause = Duration.seconds(1)
/** How long jobs under way may take to end when the process stops; after that they are put off, or given back. */
const drain = Duration.seconds(10)

/**
 * How long each may take: to leave shards to others, and, when the time for jobs is over, to put off what is being submitted,
 * to record what providers have taken and nobody else knows of, and to give back what has not ended.
 */
const lastRecords = Duration.seconds(1)

/** What is said to have broken where the recording of it did. */
const taken = "what providers have taken"

/**
 * A defect must not end a loop that everything waits for, and neither must an adapter that interrupts whoever calls it. Of its
 * own interruption a fiber is not asked.
 */
const unbroken = (name: string) => <A>(tick: Effect.Effect<A>): Effect.Effect<A | void> =>
  Effect.catchCause(tick, (cause) => Effect.logError(`${name} broke; it goes on`, cause))

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
    const work = Effect.andThen(
      unbroken("the worker")(worker.run(isStopping, idle)),
      Effect.suspend(() => (stopping ? Effect.void : Effect.sleep(brokenPause)))
    )
    const recordTaken = unbroken(taken)(worker.recordTaken)
    const cutOff = unbroken("putting mail off")(worker.cutOff)
    const release = unbroken("giving jobs back")(worker.release)
    const leave = unbroken("leaving the relay's shards")(relay.release)
    const running = yield* Effect.forkDetach(Effect.repeat(work, { until: isStopping }))
    yield* Effect.addFinalizer(() => {
      stopping = true
      // The relay's last tick is over by then.
      return Effect.all([Fiber.await(running), relay.ended, Effect.timeoutOption(leave, lastRecords)], { concurrency: "unbounded" }).pipe(
        Effect.timeoutOption(drain),
        Effect.andThen(cutOff),
        Effect.andThen(Effect.timeoutOption(Fiber.await(running), lastRecords)),
        Effect.andThen(Effect.timeoutOption(recordTaken, lastRecords)),
        Effect.andThen(Fiber.interrupt(running)),
        Effect.andThen(Effect.timeoutOption(release, lastRecords))
      )
    })
    yield* unbroken("the sweep")(sweep.tick)
    yield* every(relayInterval, "the relay", Effect.repeat(relay.tick, { until: (count) => count === 0 }))
    yield* every("1 second", taken, worker.recordTaken)
    yield* every("10 seconds", "the sweep", sweep.tick)
    yield* every("10 seconds", "the domain checker", checkDomains.tick)
    yield* every("10 minutes", "retention", sweep.retain)
  })
)

/** Everything, in one process: over `Mailroom.layer`, it is all the work that follows from calls. */
export const layer = Layer.merge(working, serving)

/**
 * All that is due now but retention (`Sweep.retain`), and what follows from it: how many events were fanned out and jobs
 * done. For a virtual clock, and for programs that schedule by themselves in place of `layer`. From when it is to stop on, it
 * ends with what it has begun.
 */
export const tickUntil = Effect.fnUntraced(function* (isStopping: () => boolean) {
  const relay = yield* EventRelay
  const worker = yield* Worker
  const requestLog = yield* RequestLog
  yield* worker.recordTaken
  yield* (yield* Sweep).tick
  yield* (yield* CheckDomains).tick
  let done = 0
  for (let round = 1; round > 0; done += round) {
    round = isStopping() ? 0 : yield* relay.tick
    if (!isStopping()) round += yield* worker.tick
  }
  yield* relay.ended
  yield* requestLog.flush
  return done
})

/** The same to its end, for who does not stop it. */
export const tick = tickUntil(() => false)
