/**
 * The bytes of one connection: what comes is taken when it is wanted, so that
 * no more than a buffer of the system's and one of ours wait in memory, and
 * replies go out together when there is nothing left to read.
 */
import { Data, Duration, Effect } from "effect"
import type { Socket } from "node:net"
import { TLSSocket, type SecureContext } from "node:tls"

/** The connection is of no more use: it is gone, too slow, or sends without an end; or we stop. */
export class WireEnded extends Data.TaggedError("WireEnded")<{ readonly reason: "gone" | "silent" | "endless" | "stopping" }> {}

/** A line without its CRLF; or why there is none. */
export type Line =
  | { readonly _tag: "Line"; readonly bytes: Uint8Array }
  /** `isOver`: its end has come, and the next line may be read. */
  | { readonly _tag: "TooLong"; readonly isOver: boolean }
  | { readonly _tag: "BareLf" }

/** How much of a line without an end is looked at. */
const lineSizeMax = 4_096
const CR = 13
const LF = 10

export class Wire {
  #socket: Socket
  #unread: Buffer = Buffer.alloc(0)
  #unsaid = ""
  #isGone = false
  #isEnded = false
  #isStopping = false
  #isBetweenCommands = false
  #onChange: (() => void) | null = null

  constructor(socket: Socket) {
    this.#socket = socket
    this.#attend(socket)
  }

  get isEncrypted(): boolean {
    return this.#socket instanceof TLSSocket
  }

  /** The next command is not read: whoever waits for it, or for TLS to begin, learns that we stop. */
  stop(): void {
    this.#isStopping = true
    this.#changed()
  }

  /** Puts it to what is said next. */
  say(words: string): void {
    this.#unsaid += words
  }

  /** Says what is to be said; done when the system has room for more. */
  readonly flush: Effect.Effect<void, WireEnded> = Effect.suspend(() => {
    if (this.#isGone) return new WireEnded({ reason: "gone" })
    const words = this.#unsaid
    this.#unsaid = ""
    if (words === "" || this.#socket.write(words, "latin1")) return Effect.void
    return this.#until(() => this.#socket.writableLength === 0)
  })

  /** The next line, of at most so many bytes with its end. */
  line(sizeMax: number, within: Duration.Duration): Effect.Effect<Line, WireEnded> {
    return Effect.suspend(() => {
      if (this.#isStopping) return new WireEnded({ reason: "stopping" })
      const line = this.#takeLine(sizeMax)
      return line === null ? inTime(this.#awaitLine(sizeMax), within) : Effect.succeed(line)
    })
  }

  /** What has come, at least a byte; null at the end of what comes. */
  chunk(within: Duration.Duration): Effect.Effect<Uint8Array | null, WireEnded> {
    return Effect.suspend(() => {
      if (this.#unread.length > 0) {
        const bytes = this.#unread
        this.#unread = Buffer.alloc(0)
        return Effect.succeed(bytes)
      }
      return inTime(Effect.andThen(this.flush, this.#read), within)
    })
  }

  /** What was taken too much. */
  giveBack(bytes: Uint8Array): void {
    this.#unread = Buffer.concat([bytes, this.#unread])
  }

  /** Goes on under TLS. What was said before it in clear text, and not yet read, is forgotten. */
  encrypt(secureContext: SecureContext, within: Duration.Duration): Effect.Effect<void, WireEnded> {
    // Before the client is told to go on: what comes after that is TLS, or breaks it.
    const forget = Effect.sync(() => {
      this.#unread = Buffer.alloc(0)
      while (this.#socket.read() !== null) continue
    })
    return inTime(forget.pipe(Effect.andThen(this.flush), Effect.andThen(this.#handshake(secureContext))), within)
  }

  /** Goes on under TLS with what has come and is not yet read: it waits for no word of ours, and may be there already. */
  encryptAtOnce(secureContext: SecureContext, within: Duration.Duration): Effect.Effect<void, WireEnded> {
    const giveToTls = Effect.sync(() => {
      if (this.#unread.length > 0) this.#socket.unshift(this.#unread)
      this.#unread = Buffer.alloc(0)
    })
    return inTime(Effect.andThen(giveToTls, this.#handshake(secureContext)), within)
  }

  #handshake(secureContext: SecureContext): Effect.Effect<void, WireEnded> {
    return Effect.suspend(() => {
      const plain = this.#socket
      this.#detach(plain)
      const secure = new TLSSocket(plain, { isServer: true, secureContext })
      this.#socket = secure
      let isDone = false
      secure.once("secure", () => {
        isDone = true
        this.#changed()
      })
      this.#attend(secure)
      // Who makes such a socket by himself is told by this name alone of what breaks it later, as of keys that are asked for too often.
      secure.on("_tlsError", this.#isLost)
      const hasLeft = () => {
        secure.read(0) // else the end of what comes is not told
        return this.#isEnded
      }
      return Effect.flatMap(this.#until(() => isDone || hasLeft() || this.#isStopping), () => {
        if (isDone) return Effect.void
        this.drop() // there is nobody who could hear a last word
        return new WireEnded({ reason: this.#isStopping ? "stopping" : "gone" })
      })
    })
  }

  /** Says what is left to say, and closes once it is on its way. */
  readonly close: Effect.Effect<void> = Effect.suspend(() => this.#end(() => true))

  /**
   * The same, and what still comes is thrown away until the client closes: the system breaks a connection that is closed over what
   * nobody has read, and who is still sending would hear of that, and not what we said.
   */
  readonly hearOut: Effect.Effect<void> = Effect.suspend(() => this.#end(() => this.#isEnded))

  /** Ends what we say; done once it is on its way and it is so, or it was given its time. */
  #end(holds: () => boolean): Effect.Effect<void> {
    const words = this.#unsaid
    this.#unsaid = ""
    let isSaid = false
    this.#socket.end(words, "latin1", () => {
      isSaid = true
      this.#changed()
    })
    const isOver = () => {
      while (this.#socket.read() !== null) continue
      return isSaid && holds()
    }
    return this.#until(isOver).pipe(Effect.timeoutOption(lastWords), Effect.ignore)
  }

  drop(): void {
    this.#socket.destroy()
  }

  readonly #awaitLine = (sizeMax: number): Effect.Effect<Line, WireEnded> =>
    Effect.gen({ self: this }, function* () {
      yield* this.flush
      while (true) {
        this.#isBetweenCommands = true
        const bytes = yield* Effect.ensuring(this.#read, Effect.sync(() => (this.#isBetweenCommands = false)))
        // A line that the end of the connection cuts off is none.
        if (bytes === null) return yield* new WireEnded({ reason: "gone" })
        this.#unread = Buffer.concat([this.#unread, bytes])
        const line = this.#takeLine(sizeMax)
        if (line !== null) return line
      }
    })

  #takeLine(sizeMax: number): Line | null {
    const unread = this.#unread
    const end = unread.indexOf(LF)
    if (end < 0) return unread.length < lineSizeMax ? null : { _tag: "TooLong", isOver: false }
    if (end >= lineSizeMax) return { _tag: "TooLong", isOver: false }
    if (unread[end - 1] !== CR) return { _tag: "BareLf" }
    this.#unread = unread.subarray(end + 1)
    return end + 1 > sizeMax ? { _tag: "TooLong", isOver: true } : { _tag: "Line", bytes: unread.subarray(0, end - 1) }
  }

  /** What the socket has, or will have; null at its end. */
  get #read(): Effect.Effect<Uint8Array | null, WireEnded> {
    return Effect.suspend(() => {
      const take = (): Buffer | null => this.#socket.read() as Buffer | null // no encoding is set, so these are bytes
      let bytes = take()
      if (bytes !== null) return Effect.succeed(bytes)
      const hasCome = () => (bytes = take()) !== null || this.#isEnded || (this.#isStopping && this.#isBetweenCommands)
      return Effect.flatMap(this.#until(hasCome), () =>
        bytes === null && !this.#isEnded ? new WireEnded({ reason: "stopping" }) : Effect.succeed(bytes)
      )
    })
  }

  /** Waits until it is so, or fails because the connection is gone. */
  #until(holds: () => boolean): Effect.Effect<void, WireEnded> {
    return Effect.callback<void, WireEnded>((resume) => {
      const look = () => {
        if (!holds()) {
          if (!this.#isGone) return
          this.#onChange = null
          return resume(new WireEnded({ reason: "gone" }))
        }
        this.#onChange = null
        resume(Effect.void)
      }
      this.#onChange = look
      look()
      return Effect.sync(() => (this.#onChange = null))
    })
  }

  readonly #changed = (): void => this.#onChange?.()

  readonly #hasEnded = (): void => {
    this.#isEnded = true
    this.#changed()
  }

  readonly #isLost = (): void => {
    this.#isGone = true
    this.#changed()
  }

  #attend(socket: Socket): void {
    socket.on("readable", this.#changed)
    socket.on("drain", this.#changed)
    socket.on("end", this.#hasEnded)
    socket.on("error", this.#isLost)
    socket.on("close", this.#isLost)
  }

  /** What goes wrong with it is still heard of: TLS runs over it. */
  #detach(socket: Socket): void {
    socket.removeListener("readable", this.#changed)
    socket.removeListener("drain", this.#changed)
    socket.removeListener("end", this.#hasEnded)
  }
}

/** How long our last words may take, and the client then. */
const lastWords = Duration.seconds(2)

const inTime = <A>(self: Effect.Effect<A, WireEnded>, within: Duration.Duration): Effect.Effect<A, WireEnded> =>
  Effect.timeoutOrElse(self, { duration: within, orElse: () => Effect.fail(new WireEnded({ reason: "silent" })) })
