/**
 * Threads that read messages, so that no message holds up the event loop: one
 * for each processor at most, started when needed, ended when idle for a minute
 * or with the scope. A thread that dies, runs out of memory or takes too long
 * costs only itself and the message's understanding.
 */
import { Clock, Effect, Exit, Option, Pool, Scope } from "effect"
import { availableParallelism } from "node:os"
import { Worker } from "node:worker_threads"
import type { ParsedMessage } from "../../core/model/ParsedMessage.ts"

/** A message, whose bytes are the thread's alone. */
export interface Question {
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly isCut: boolean
}

export interface Answer {
  readonly parsed: ParsedMessage | null
  /** Why there is nothing parsed: a mistake in the reader. */
  readonly fault: string | null
}

export interface ParserThreads {
  /** Null if no thread could. */
  readonly parse: (chunks: ReadonlyArray<Uint8Array>, size: number, isCut: boolean) => Effect.Effect<ParsedMessage | null>
}

/** Seconds of processor time that a thread has for a message: many times what one takes that is within the bounds. */
const cpuSecondsMax = 5
/** Seconds after which nobody waits any longer, however little the thread got of the processor. */
const waitSecondsMax = 60
const idleTime = "1 minute"
/** Of the heap: what texts and trees take that outlive a collection; the bytes of the message are not among it. */
const oldMegabytesMax = 256
/** What they take before. */
export const youngMegabytesMax = 32
const pieceBytesMax = 512 * 1024

/** Whatever clock the caller has: the thread works in real time. */
const liveClock = Clock.Clock.defaultValue()

/**
 * The program of the threads, with the extension that this file has, in sources and when built. Without it each larger
 * message would pass for one that cannot be read; so a bundle, which leaves it behind, is told of at the beginning.
 */
export const programBeside = (url: string | undefined): URL => {
  const [, extension] = /\/ParserThreads(\.[jt]s)$/.exec(url ?? "") ?? [] // a bundle in CommonJS has no address
  if (extension !== undefined) return new URL(`./ParserThread${extension}`, url)
  throw new Error("the program of the threads that read mail is not beside the code: keep mailroom and effect out of the bundle, as external packages")
}

interface Unusual {
  readonly program?: URL
  readonly secondsMax?: number
  readonly oldMax?: number
}

/** What is other than usual is for tests. */
export const make = (unusual: Unusual = {}): Effect.Effect<ParserThreads, never, Scope.Scope> =>
  Effect.suspend(() => makeOf({ program: programBeside(import.meta.url), secondsMax: cpuSecondsMax, oldMax: oldMegabytesMax, ...unusual }))

const makeOf = ({ program, secondsMax, oldMax }: Required<Unusual>): Effect.Effect<ParserThreads, never, Scope.Scope> =>
  Effect.map(
    Pool.makeWithTTL({ acquire: start(program, oldMax), min: 0, max: availableParallelism(), timeToLive: idleTime }).pipe(
      Effect.provideService(Clock.Clock, liveClock)
    ),
    (pool): ParserThreads => ({
      parse: Effect.fnUntraced(function* (chunks, size, isCut) {
        const thread = yield* living(pool)
        const answer = yield* ask(thread, yield* copied(chunks, size), isCut).pipe(
          Effect.raceFirst(watch(thread, secondsMax)),
          Effect.provideService(Clock.Clock, liveClock),
          // Whoever no longer waits leaves the thread in the midst of it.
          Effect.onInterrupt(() => Pool.invalidate(pool, thread))
        )
        if (answer === null) yield* Pool.invalidate(pool, thread)
        if (answer === null || answer.fault !== null) {
          yield* Effect.logWarning("a message could not be read").pipe(
            Effect.annotateLogs({ sizeBytes: size, fault: answer?.fault ?? "the thread died or took too long" })
          )
        }
        return answer?.parsed ?? null
      }, Effect.scoped)
    })
  )

/** One that has ended since its last message would answer nothing: it is given back, and another is asked for. */
const living = Effect.fnUntraced(function* (pool: Pool.Pool<Worker>) {
  const scope = yield* Effect.scope
  for (;;) {
    const own = yield* Scope.fork(scope)
    const thread = yield* Scope.provide(Pool.get(pool), own)
    if (!hasEnded(thread)) return thread
    yield* Effect.andThen(Pool.invalidate(pool, thread), Scope.close(own, Exit.void))
  }
})

const hasEnded = ({ threadId }: Worker): boolean => threadId < 0

const start = (program: URL, oldMax: number): Effect.Effect<Worker, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const resourceLimits = { maxOldGenerationSizeMb: oldMax, maxYoungGenerationSizeMb: youngMegabytesMax, stackSizeMb: 4 }
      const thread = new Worker(program, { resourceLimits, execArgv: [], env: {}, name: "mail" })
      // Between messages nobody listens, and an error that nobody listens to would end the process.
      thread.on("error", () => {})
      thread.unref()
      return thread
    }),
    (thread) => Effect.promise(() => thread.terminate())
  )

/** The chunks are the caller's, and may be parts of larger buffers. A large copy is made little by little. */
const copied = Effect.fnUntraced(function* (chunks: ReadonlyArray<Uint8Array>, size: number) {
  const bytes = new Uint8Array(size)
  let filled = 0
  for (const chunk of chunks) {
    for (let at = 0; at < chunk.length; at += pieceBytesMax) {
      bytes.set(chunk.subarray(at, at + pieceBytesMax), filled + at)
      yield* Effect.yieldNow
    }
    filled += chunk.length
  }
  return bytes
})

/** Null if the thread ends before it has answered. */
const ask = (thread: Worker, bytes: Uint8Array<ArrayBuffer>, isCut: boolean): Effect.Effect<Answer | null> =>
  Effect.callback<Answer | null>((resume) => {
    const question: Question = { bytes, isCut }
    const end = (answer: Answer | null) => {
      leave()
      resume(Effect.succeed(answer))
    }
    const onExit = () => end(null)
    const leave = () => {
      thread.off("message", end)
      thread.off("exit", onExit)
      thread.unref()
    }
    thread.ref()
    thread.on("message", end)
    thread.on("exit", onExit)
    thread.postMessage(question, [bytes.buffer])
    return Effect.sync(leave)
  })

/** Null once the thread has had its time. */
const watch = (thread: Worker, secondsMax: number): Effect.Effect<null> =>
  Effect.gen(function* () {
    const used = Effect.promise(() => thread.cpuUsage().then(({ user, system }) => (user + system) / 1e6, () => 0)).pipe(
      // A thread that is still starting does not say.
      Effect.timeoutOption("1 second"),
      Effect.map(Option.getOrNull)
    )
    const before = yield* used
    for (let seconds = 0; seconds < waitSecondsMax; seconds++) {
      yield* Effect.sleep("1 second")
      const now = yield* used
      if (now !== null && now - (before ?? 0) > secondsMax) return null
    }
    return null
  })
