/**
 * One request after another over one open connection: an undici Client that
 * has been given its socket, and gets no second one. So nothing is connected
 * to, and nothing repeated, behind the caller's back.
 */
import { Data, Effect } from "effect"
import { Client, type Dispatcher } from "undici"
import { webhookAnswerBytesMax } from "../../core/model/Limits.ts"
import type { Answer } from "../../core/model/Webhook.ts"
import type { Dialled } from "./Dial.ts"

export interface Options {
  /** `https://hooks.example:8443`; what goes into `Host`. */
  readonly origin: string
  /** Milliseconds after which it is closed if nobody has used it. */
  readonly idleTimeout: number
}

export interface Request {
  /** POST unless said otherwise. */
  readonly method?: "GET"
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** Null where there is none. */
  readonly body: Uint8Array | null
}

/** No answer. If it is not `isSent`, not a byte of the request has left, and it may be sent elsewhere. `isHeard`: some of an answer came. */
export class NoAnswer extends Data.TaggedError("NoAnswer")<{ readonly isSent: boolean; readonly isHeard: boolean; readonly cause: unknown }> {}

type Headers = Readonly<Record<string, string | ReadonlyArray<string> | undefined>>

/** Bytes of header names and values in an answer. */
const headerBytesMax = 16 * 1024
/** Answers before the answer: each is a header of its own, and nothing else bounds them but the deadline. */
const earlyMax = 16
/** What a receiver's `Keep-Alive: timeout` is shortened by: the request's way to it. */
const keepAliveMargin = 1_000

export class Connection {
  readonly address: string
  readonly #client: Client
  readonly #socket: Dialled["socket"]
  readonly #continues = new Continues()
  /** Since the request began. */
  #isHeard = false
  #whenClosed = () => {}

  constructor({ address, socket }: Dialled, { origin, idleTimeout }: Options) {
    let ungiven: Dialled["socket"] | null = socket
    this.address = address
    this.#socket = socket
    socket.once("close", () => this.#whenClosed())
    // It is undici that reads it, by this.
    const read = socket.read.bind(socket)
    socket.read = (size?: number) => {
      const piece: Buffer | null = read(size)
      if (piece !== null) {
        this.#isHeard = true
        this.#continues.pass(piece)
      }
      return piece
    }
    this.#client = new Client(origin, {
      connect: (_options, callback) => {
        const given = ungiven
        ungiven = null
        // Later: undici waits for a connection only once it has asked for one.
        queueMicrotask(() => {
          if (given === null) callback(new Error("the connection is closed"), null)
          else callback(null, given)
        })
      },
      allowH2: false,
      pipelining: 1,
      maxHeaderSize: headerBytesMax,
      keepAliveTimeout: idleTimeout,
      keepAliveMaxTimeout: idleTimeout,
      keepAliveTimeoutThreshold: keepAliveMargin,
      // The caller keeps the deadline.
      headersTimeout: 0,
      bodyTimeout: 0
    })
  }

  /** Whether it can be used again, once a request is over. */
  get isOpen(): boolean {
    return !this.#socket.destroyed
  }

  /** What follows when it is closed; the last that was said. */
  whenClosed(then: () => void): void {
    this.#whenClosed = then
  }

  destroy(): void {
    this.#socket.destroy()
    this.#client.destroy(() => {})
  }

  /** Interrupted, it leaves the connection in the middle of things: to be destroyed. */
  post({ method, path, headers, body }: Request): Effect.Effect<Answer, NoAnswer> {
    return Effect.callback((resume) => {
      // Later: undici is reading, not to be called from within, and yet to decide whether the connection stays open.
      const end = (ending: Effect.Effect<Answer, NoAnswer>) => queueMicrotask(() => resume(ending))
      this.#continues.begin()
      this.#isHeard = false
      this.#client.dispatch({ path, method: method ?? "POST", headers, body }, new Reader(end, () => this.#isHeard))
    })
  }
}

/** How answers before the answer begin, up to the last digit of their status, and how their headers end. */
const [earlyStart, headEnd] = [Buffer.from("HTTP/1.1 10"), Buffer.from("\r\n\r\n")]
const [cr, lf, zero, two] = [0x0d, 0x0a, 0x30, 0x32]

/**
 * Any server may say 100 unasked (RFC 9110 15.2), and undici closes the connection on which one does. So it is shown 102, which
 * says as little, and is counted and bounded as other answers before the answer. The one digit is changed where it stands:
 * nothing is kept or copied, and of the answer itself only the first bytes are looked at.
 */
class Continues {
  #isOver = true
  /** Bytes of the status line that have come, as far as it counts; and behind it, of the header's end. */
  #line = 0
  #end = 0

  /** An answer is awaited. */
  begin(): void {
    this.#isOver = false
    this.#line = 0
    this.#end = 0
  }

  pass(piece: Uint8Array): void {
    for (let at = 0; !this.#isOver && at < piece.length; at++) this.#take(piece, at)
  }

  #take(piece: Uint8Array, at: number): void {
    const byte = piece[at]
    if (this.#line === 0 && (byte === cr || byte === lf)) return // undici takes empty lines before an answer
    if (this.#line < earlyStart.length) {
      this.#isOver = byte !== earlyStart[this.#line]
      this.#line += 1
    } else if (this.#line === earlyStart.length) {
      if (byte === zero) piece[at] = two
      this.#line += 1
    } else {
      this.#end = byte === headEnd[this.#end] ? this.#end + 1 : 0
      if (this.#end === headEnd.length) this.begin()
    }
  }
}

/** Takes an answer as undici reads it. */
class Reader implements Dispatcher.DispatchHandler {
  #isSent = false
  #early = 0
  #status = 0
  #retryAfter: string | null = null
  readonly #body = new Bytes(webhookAnswerBytesMax)
  readonly #end: (ending: Effect.Effect<Answer, NoAnswer>) => void
  readonly #isHeard: () => boolean

  constructor(end: (ending: Effect.Effect<Answer, NoAnswer>) => void, isHeard: () => boolean) {
    this.#end = end
    this.#isHeard = isHeard
  }

  onRequestStart(): void {
    this.#isSent = true
  }

  /** Also called for answers that only go before the answer (1xx). */
  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    if (status < 200) {
      this.#early += 1
      if (this.#early > earlyMax) controller.abort(new Error("too many answers go before the answer"))
      return
    }
    const retryAfter = headers["retry-after"]
    this.#status = status
    this.#retryAfter = (typeof retryAfter === "string" ? retryAfter : retryAfter?.[0]) ?? null
  }

  onResponseData(controller: Dispatcher.DispatchController, piece: Uint8Array): void {
    if (this.#body.take(piece)) return
    this.#end(Effect.succeed(this.#answer(true)))
    controller.abort(new Error("the answer is longer than what is read of it"))
  }

  onResponseEnd(): void {
    this.#end(Effect.succeed(this.#answer(false)))
  }

  onResponseError(_controller: unknown, cause: unknown): void {
    this.#end(Effect.fail(new NoAnswer({ isSent: this.#isSent, isHeard: this.#isHeard(), cause })))
  }

  #answer(truncated: boolean): Answer {
    return { status: this.#status, retryAfter: this.#retryAfter, body: this.#body.whole(), truncated }
  }
}

/** Bytes in pieces, in twice their room at most: a receiver may send them one by one. */
class Bytes {
  #buffer = new Uint8Array()
  #length = 0
  readonly #max: number

  constructor(max: number) {
    this.#max = max
  }

  /** False if there are more than it takes. */
  take(piece: Uint8Array): boolean {
    const taken = piece.subarray(0, this.#max - this.#length)
    const length = this.#length + taken.length
    if (length > this.#buffer.length) {
      const larger = new Uint8Array(Math.max(length, Math.min(2 * length, this.#max)))
      larger.set(this.#buffer.subarray(0, this.#length))
      this.#buffer = larger
    }
    this.#buffer.set(taken, this.#length)
    this.#length = length
    return taken.length === piece.length
  }

  whole(): Uint8Array {
    return this.#buffer.slice(0, this.#length)
  }
}
