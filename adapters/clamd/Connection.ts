/**
 * One command to clamd and its answer, on a connection of their own: clamd
 * hangs up once it has answered. An answer is whole when it ends in the one
 * NUL it holds and nothing follows. Every fault of the socket ends here, as a
 * ScanFailed that says what broke.
 */
import { Deferred, Effect, Exit } from "effect"
import { createConnection } from "node:net"
import { setImmediate } from "node:timers"
import { ScanFailed } from "../../core/ports/Scanner.ts"

export type Address = { readonly host: string; readonly port: number } | { readonly path: string }

export interface Answer {
  /** Printable ASCII, without its NUL. */
  readonly text: string
  /** It began before clamd had all there was to say. */
  readonly isEarly: boolean
}

export interface Line {
  /** Done when the system has taken the bytes, so that no more than these wait in memory. */
  readonly write: (...parts: ReadonlyArray<Uint8Array>) => Effect.Effect<void>
  /** The last bytes: an answer that is there before the system has them is early. */
  readonly finish: (...parts: ReadonlyArray<Uint8Array>) => Effect.Effect<void>
}

/** Says something and takes the answer. An early answer ends the saying; whatever the end, the connection is closed. */
export const ask = <E>(address: Address, say: (line: Line) => Effect.Effect<void, E>): Effect.Effect<Answer, E | ScanFailed> =>
  Effect.acquireUseRelease(
    Effect.sync(() => connect(address)),
    ({ line, answer }) => Effect.raceFirst(Effect.andThen(say(line), answer), answer),
    ({ close }) => Effect.sync(close)
  )

/** What is longer is no answer of clamd's. */
const answerLengthMax = 1_024

const connect = (address: Address) => {
  const answer = Deferred.makeUnsafe<Answer, ScanFailed>()
  let heard = ""
  let isSent = false
  let isEarly = false
  let fault: Error | undefined
  const socket = createConnection(address)

  const fail = (reason: string, cause?: Error): void => {
    Deferred.doneUnsafe(answer, Exit.fail(new ScanFailed(cause === undefined ? { reason } : { reason, cause })))
  }

  const settle = (): void => {
    const text = heard.slice(0, -1)
    if (heard === "") return fail("clamd hung up without an answer")
    if (!heard.endsWith("\0")) return fail(`clamd's answer is cut off: ${quoted(heard)}`)
    if (/[^\x20-\x7e]/.test(text)) return fail(`clamd's answer is not one line of text: ${quoted(heard)}`)
    Deferred.doneUnsafe(answer, Exit.succeed({ text, isEarly }))
  }

  // Where sending fails, `done` is not called: the reason comes as the answer.
  const send = (parts: ReadonlyArray<Uint8Array>, done: () => void): void => {
    socket.cork()
    for (const [index, part] of parts.entries()) {
      socket.write(part, (error) => (error == null && index === parts.length - 1 ? done() : undefined))
    }
    socket.uncork()
  }

  socket.setNoDelay(true)
  socket.on("data", (bytes) => {
    heard += bytes.toString("latin1")
    isEarly ||= !isSent
    if (heard.length > answerLengthMax) fail("clamd says more than an answer")
    else if (isEarly && heard.includes("\0")) settle()
  })
  socket.on("error", (error) => (fault = error))
  socket.on("end", settle)
  socket.on("close", () => {
    const why = fault === undefined ? "" : `: ${"code" in fault ? String(fault.code) : fault.message}`
    fail(`the connection to clamd broke${why}${heard === "" ? "" : ` after ${quoted(heard)}`}`, fault)
  })

  const line: Line = {
    write: (...parts) => Effect.callback((resume) => send(parts, () => resume(Effect.void))),
    finish: (...parts) =>
      Effect.callback((resume) =>
        afterALook(() =>
          send(parts, () => {
            isSent = true
            resume(Effect.void)
          })
        )
      )
  }
  return { line, answer: Deferred.await(answer), close: () => void socket.destroy() }
}

/** Once the event loop has looked at all sockets: what had come by now has been heard. */
const afterALook = (then: () => void): void => void setImmediate(() => setImmediate(then))

const quoted = (text: string): string => `"${text.replace(/\0$/, "").replace(/[^\x20-\x7e]/g, "?").slice(0, 200)}"`
