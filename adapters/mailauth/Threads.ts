/**
 * Threads that authenticate messages, so that no message holds up the event
 * loop: one to begin with and a few where there is much to do, each with many messages at a
 * time, for most of the time is the DNS's. A thread that dies or does not
 * answer any more costs itself, and the answer to the messages it had.
 */
import { Deferred, Duration, Effect, Exit, Fiber, type Scope } from "effect"
import { availableParallelism } from "node:os"
import { Worker } from "node:worker_threads"
import type { Examined } from "../../core/model/Reception.ts"

/** As node:dns's `resolve`: it rejects with an error that has its `code`, such as ENOTFOUND or ESERVFAIL. */
export type Resolve = (name: string, type: string) => Promise<ReadonlyArray<unknown>>

/** What mailauth wants to know beside the message. */
export interface Opening {
  readonly mta: string
  readonly sender: string
  /** Empty: there is none to judge by. */
  readonly ip: string
  readonly helo: string
}

export type ToThread =
  | { readonly _tag: "Begin"; readonly id: number; readonly opening: Opening }
  | { readonly _tag: "Bytes"; readonly id: number; readonly bytes: Uint8Array }
  | { readonly _tag: "End"; readonly id: number }
  | { readonly _tag: "Name"; readonly id: number; readonly ask: number; readonly answer: Answer }
  | { readonly _tag: "Stop"; readonly id: number }

export type Answer = { readonly records: ReadonlyArray<unknown> } | { readonly code: string }

export type FromThread =
  | { readonly _tag: "More"; readonly id: number }
  | { readonly _tag: "Ask"; readonly id: number; readonly ask: number; readonly purpose: Purpose; readonly name: string; readonly type: string }
  /** Null: mailauth broke on it. */
  | { readonly _tag: "Found"; readonly id: number; readonly found: Examined | null }
  | { readonly _tag: "Stopped"; readonly id: number }

/** One message in a thread. */
export interface Examination {
  /** Done when there is room for more. */
  readonly write: (bytes: Uint8Array) => Effect.Effect<void>
  readonly end: Effect.Effect<void>
  /** Null: it cannot be told. */
  readonly found: Effect.Effect<Examined | null>
}

export interface Threads {
  /** `asking`: how long it may wait for the answers to what is asked for one purpose. */
  readonly examine: (opening: Opening, resolve: Resolve, asking: Duration.Duration) => Effect.Effect<Examination, never, Scope.Scope>
}

const threadsMax = Math.min(4, Math.max(2, availableParallelism()))
/** At a stretch, in the thread. */
const sliceSizeMax = 65_536
/**
 * What is asked for one message, by what for: so many names, and beyond that it cannot be told. Each has its own, and its own
 * time, for all but the author's policy is asked of whoever sent the message, who would have it left unasked.
 */
const asksMax = { sender: 40, key: 20, policy: 20 }
export type Purpose = keyof typeof asksMax

/** How long a thread may be busy with one thing before it is given up. */
const busyMax = Duration.seconds(2)

interface Thread {
  readonly worker: Worker
  readonly messages: Map<number, Listener>
}

interface Listener {
  readonly onMore: () => void
  readonly onFound: (found: Examined | null) => void
  readonly onAsk: (ask: number, purpose: Purpose, name: string, type: string) => void
}

/**
 * The program of the threads, with the extension that this file has, in sources and when built. Without it the DNS would
 * seem to tell nothing of any message; so a bundle, which leaves it behind, is told of at the beginning.
 */
export const programBeside = (url: string | undefined): URL => {
  const [, extension] = /\/Threads(\.[jt]s)$/.exec(url ?? "") ?? [] // a bundle in CommonJS has no address
  if (extension !== undefined) return new URL(`./Thread${extension}`, url)
  throw new Error("the program of the threads that authenticate mail is not beside the code: keep mailroom and effect out of the bundle, as external packages")
}

/** `unusual` is for tests. */
export const make = (unusual?: URL): Effect.Effect<Threads, never, Scope.Scope> =>
  Effect.gen(function* () {
    const program = unusual ?? programBeside(import.meta.url)
    const threads = new Set<Thread>()
    let lastId = 0
    pick(threads, program)
    yield* Effect.addFinalizer(() => Effect.promise(() => Promise.all([...threads].map(({ worker }) => worker.terminate()))))

    const begin = (opening: Opening, resolve: Resolve, asking: Duration.Duration): { readonly examination: Examination; readonly stop: () => void } => {
      const thread = pick(threads, program)
      const id = ++lastId
      let onRoom = () => {}
      const found = Deferred.makeUnsafe<Examined | null>()
      const say = (message: ToThread, moved: ReadonlyArray<ArrayBuffer> = []) => thread.worker.postMessage(message, [...moved])
      const ended = new AbortController()
      /** Of each purpose, how many names were asked, and the end of its time. */
      const asks = new Map<Purpose, { count: number; readonly late: Promise<Answer> }>()
      const begun = () => ({ count: 0, late: after(asking, ended.signal) })
      let isOver = false
      thread.messages.set(id, {
        onMore: () => onRoom(),
        onFound: (answer) => {
          isOver = true
          Deferred.doneUnsafe(found, Exit.succeed(answer))
          onRoom()
        },
        onAsk: (ask, purpose, name, type) => {
          const of = asks.get(purpose) ?? begun()
          asks.set(purpose, of)
          of.count += 1
          const answered = of.count > asksMax[purpose] ? Promise.resolve(unanswered) : Promise.race([of.late, answerOf(resolve, name, type)])
          void answered.then((answer) => (isOver ? undefined : say({ _tag: "Name", id, ask, answer })))
        }
      })
      say({ _tag: "Begin", id, opening })
      const put = (slice: Uint8Array) =>
        Effect.callback<void>((resume) => {
          onRoom = () => resume(Effect.void)
          if (isOver) return onRoom()
          // A copy, for the slice is the caller's, and may be part of a larger buffer.
          const bytes = new Uint8Array(slice)
          say({ _tag: "Bytes", id, bytes }, [bytes.buffer])
        })
      return {
        examination: {
          write: (bytes) => Effect.forEach(slicesOf(bytes), put, { discard: true }),
          end: Effect.sync(() => say({ _tag: "End", id })),
          found: Deferred.await(found)
        },
        stop: () => {
          isOver = true
          ended.abort()
          release(threads, thread, id)
        }
      }
    }

    return {
      examine: (opening, resolve, asking) =>
        Effect.map(
          Effect.acquireRelease(Effect.sync(() => begin(opening, resolve, asking)), ({ stop }) => Effect.sync(stop)),
          ({ examination }) => examination
        )
    }
  })

/** The one that has least to do, or a new one. */
const pick = (threads: Set<Thread>, program: URL): Thread => {
  const [idlest] = [...threads].sort((one, other) => one.messages.size - other.messages.size)
  // To start one takes a second: it is worth it where there is more than a little to do.
  if (idlest !== undefined && (idlest.messages.size < 4 || threads.size >= threadsMax)) return idlest
  const worker = new Worker(program, { resourceLimits: { maxOldGenerationSizeMb: 256 }, name: "mail authentication" })
  const thread: Thread = { worker, messages: new Map() }
  threads.add(thread)
  worker.unref()
  worker.setMaxListeners(0) // each message that is over listens for its own word
  worker.on("message", (message: FromThread) => {
    const listener = thread.messages.get(message.id)
    if (message._tag === "More") listener?.onMore()
    else if (message._tag === "Ask") listener?.onAsk(message.ask, message.purpose, message.name, message.type)
    else if (message._tag === "Found") listener?.onFound(message.found)
  })
  // Its end says the same, and an error that nobody listens to would end the process.
  worker.on("error", () => {})
  worker.on("exit", () => {
    threads.delete(thread)
    for (const { onFound } of thread.messages.values()) onFound(null)
    thread.messages.clear()
  })
  return thread
}

/** The message is over; a thread that does not take note of it is ended, in real time whatever the caller's clock. */
const release = (threads: Set<Thread>, thread: Thread, id: number): void => {
  thread.messages.delete(id)
  if (!threads.has(thread)) return
  const waiting = Effect.runFork(
    Effect.andThen(
      Effect.sleep(busyMax),
      Effect.sync(() => {
        threads.delete(thread)
        void thread.worker.terminate()
      })
    )
  )
  const done = () => {
    thread.worker.off("message", heard)
    thread.worker.off("exit", done)
    Effect.runFork(Fiber.interrupt(waiting))
  }
  const heard = (message: FromThread) => {
    if (message._tag === "Stopped" && message.id === id) done()
  }
  thread.worker.on("message", heard)
  thread.worker.on("exit", done)
  thread.worker.postMessage({ _tag: "Stop", id } satisfies ToThread, [])
}

const slicesOf = (bytes: Uint8Array): ReadonlyArray<Uint8Array> =>
  Array.from({ length: Math.ceil(bytes.length / sliceSizeMax) }, (_, index) => bytes.subarray(index * sliceSizeMax, (index + 1) * sliceSizeMax))

const unanswered: Answer = { code: "ESERVFAIL" }

/** In real time whatever the caller's clock; sooner if nobody waits any more. */
const after = (asking: Duration.Duration, signal: AbortSignal): Promise<Answer> =>
  Effect.runPromise(Effect.as(Effect.sleep(asking), unanswered), { signal }).catch(() => unanswered)

const answerOf = (resolve: Resolve, name: string, type: string): Promise<Answer> =>
  resolve(name, type).then(
    (records) => ({ records }),
    (error: unknown) => ({ code: error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "ESERVFAIL" })
  )
