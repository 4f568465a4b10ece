/**
 * Threads that read messages, so that no message holds up the event loop: one
 * for each processor at most, started when needed, ended when idle for a minute
 * or with the scope. A thread that dies, runs out of memory or takes too long
 * costs only itself and the message's understanding.
 */
import { Clock, Effect, Option, Pool, type Scope } from "effect"
import { availableParallelism } from "node:os"
import { Worker } from "node:worker_threads"
import type { ParsedMessage } from "../../core/model/ParsedMessage.ts"

/** Of a message; the thread has it all once as many bytes as its size have come. */
export interface Piece {
  readonly size: number
  readonly bytes: Uint8Array
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

/** Many times what any message takes that is within the bounds. */
const deadline = "5 seconds"
const idleTime = "1 minute"
/** What texts and trees take; the bytes of the message are not among it. */
const heapMegabytesMax = 256
const pieceBytesMax = 512 * 1024

/** Whatever clock the caller has: the thread works in real time. */
const liveClock = Clock.Clock.defaultValue()

/** `program` is for tests; the thread's program has the extension that this file has, in sources and when built. */
export const make = (program = new URL(`./ParserThread${import.meta.url.slice(-3)}`, import.meta.url)): Effect.Effect<ParserThreads, never, Scope.Scope> =>
  Effect.map(
    Pool.makeWithTTL({ acquire: start(program), min: 0, max: availableParallelism(), timeToLive: idleTime }).pipe(
      Effect.provideService(Clock.Clock, liveClock)
    ),
    (pool): ParserThreads => ({
      parse: (chunks, size, isCut) =>
        Effect.scoped(
          Effect.gen(function* () {
            const thread = yield* Pool.get(pool)
            const answer = yield* ask(thread, chunks, size, isCut).pipe(
              Effect.timeoutOption(deadline),
              Effect.provideService(Clock.Clock, liveClock),
              Effect.map(Option.getOrElse(() => null)),
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
          })
        )
    })
  )

const start = (program: URL): Effect.Effect<Worker, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const resourceLimits = { maxOldGenerationSizeMb: heapMegabytesMax, maxYoungGenerationSizeMb: 32, stackSizeMb: 4 }
      const thread = new Worker(program, { resourceLimits, execArgv: [], env: {}, name: "mail" })
      // Between messages nobody listens, and an error that nobody listens to would end the process.
      thread.on("error", () => {})
      thread.unref()
      return thread
    }),
    (thread) => Effect.promise(() => thread.terminate())
  )

/** Null if the thread ends before it has answered. */
const ask = Effect.fnUntraced(function* (thread: Worker, chunks: ReadonlyArray<Uint8Array>, size: number, isCut: boolean) {
  const answered = listen(thread)
  for (const chunk of chunks) {
    for (let at = 0; at < chunk.length; at += pieceBytesMax) {
      // A copy, for the chunk is the caller's, and may be part of a larger buffer.
      const bytes = new Uint8Array(chunk.subarray(at, at + pieceBytesMax))
      const piece: Piece = { size, bytes, isCut }
      thread.postMessage(piece, [bytes.buffer])
      yield* Effect.yieldNow
    }
  }
  return yield* answered
})

const listen = (thread: Worker): Effect.Effect<Answer | null> => {
  let take: (answer: Answer | null) => void = () => {}
  const answer = new Promise<Answer | null>((resolve) => (take = resolve))
  const onExit = () => take(null)
  thread.ref()
  thread.once("message", take)
  thread.once("exit", onExit)
  return Effect.ensuring(
    Effect.promise(() => answer),
    Effect.sync(() => {
      thread.off("message", take)
      thread.off("exit", onExit)
      thread.unref()
    })
  )
}
