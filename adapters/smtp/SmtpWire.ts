/**
 * The socket to the mail server, and who its next words are for. Replies answer
 * in order what was said before they came: a reply, or part of one, for which
 * nothing had been said is nobody's, and ends the connection unless its owner
 * knows better. What is said while replies are read goes out in one write.
 */
import { Duration } from "effect"
import { connect, isIP, type Socket } from "node:net"
import { setImmediate } from "node:timers"
import { connect as connectTls, createSecureContext, getCACertificates, type SecureContext, type TLSSocket } from "node:tls"
import { failed, type SmtpFailed } from "./SmtpAnswer.ts"
import { SmtpReplies, type Said } from "./SmtpReplies.ts"
import { shown, type Settings } from "./SmtpSettings.ts"

export interface Owner {
  /** It is over, for this reason; said once, and nothing after it. */
  readonly onEnd: (why: SmtpFailed) => void
  /** Something has come. */
  readonly onHeard: () => void
  /** Words that nobody waits for; null for what is no whole reply yet. Whether that is well. */
  readonly onUnasked: (said: Said | null) => boolean
}

/** Certificates are read once for all connections. */
export const trust = (settings: Settings): (() => SecureContext) => {
  let context: SecureContext | null = null
  return () => {
    const ca = settings.ca === null ? {} : { ca: [...getCACertificates("default"), settings.ca] }
    return (context ??= createSecureContext({ ...ca, minVersion: "TLSv1.2" }))
  }
}

/** How long a server may take to hang up after QUIT. */
const closeTimeoutMs = 1_000

/**
 * How long one of a host's addresses may take before the next is tried. Node's quarter of a second is less than a far server
 * takes, or a packet that is sent again; and behind an IPv6 address that cannot be reached from here nothing more is tried.
 */
const autoSelectFamilyAttemptTimeout = 4_000

/** How often the event loop looks at the socket before it counts as quiet. */
const quietTurns = 2

export class SmtpWire {
  readonly #settings: Settings
  readonly #context: () => SecureContext
  readonly #owner: Owner
  readonly #expected: Array<(said: Said) => void> = []
  #replies = new SmtpReplies()
  #socket: Socket
  #isOpen = true
  #isReading = false
  #isEncrypted = false
  #out: Array<string | Uint8Array> = []
  /** What was said last, for whoever asks why it ended. */
  #command = "CONN"

  /** The first words of the server are for `onGreeting`. */
  constructor(settings: Settings, context: () => SecureContext, owner: Owner, onGreeting: (said: Said) => void) {
    this.#settings = settings
    this.#context = context
    this.#owner = owner
    this.#expected.push((said) => {
      this.#socket.setTimeout(Duration.toMillis(settings.socketTimeout))
      onGreeting(said)
    })
    const { host, port, tls } = settings
    const wait = () => this.#socket.setTimeout(Duration.toMillis(settings.greetingTimeout))
    // Certificates that cannot be used are found out before anything is said.
    if (tls !== "none") context()
    const way = { port, autoSelectFamilyAttemptTimeout }
    this.#socket =
      tls === "implicit" ? this.#secure(way, wait) : connect({ host, ...way, noDelay: true }, wait).on("data", this.#read)
    this.#attend(this.#socket)
  }

  isOpen(): boolean {
    return this.#isOpen
  }

  /** Whether bytes wait until the server takes some. */
  isFull(): boolean {
    return this.#socket.writableNeedDrain
  }

  isEncrypted(): boolean {
    return this.#isEncrypted
  }

  /** Says it, and hands over the reply to it. */
  ask(command: string, words: string, onReply: (said: Said) => void): void {
    this.#command = command
    this.#expected.push(onReply)
    this.say(words)
  }

  /** The reply to something that was said without `ask`. */
  expect(command: string, onReply: (said: Said) => void): void {
    this.#command = command
    this.#expected.push(onReply)
  }

  say(words: string | Uint8Array): void {
    if (!this.#isOpen) return
    this.#out.push(words)
    if (!this.#isReading) this.#flush()
  }

  /** Says it at once, whatever else is going on. Whether more may follow; else `onDrain` tells when. */
  pour(bytes: Uint8Array): boolean {
    if (!this.#isOpen) return false
    this.#flush()
    return this.#socket.write(bytes)
  }

  onDrain(onDrain: () => void): void {
    this.#socket.once("drain", onDrain)
  }

  /** How long the server may be silent from here on. */
  allowSilence(silence: Duration.Duration): void {
    if (this.#isOpen) this.#socket.setTimeout(Duration.toMillis(silence))
  }

  /** From here on nothing is understood that is not encrypted. Nothing may have come behind the word to do so. */
  encrypt(onSecure: () => void): void {
    if (this.#replies.isBegun()) return this.end(failed(this.#command, "the server said more than it was asked"))
    const plain = this.#socket
    plain.removeListener("data", this.#read)
    plain.setTimeout(0)
    this.#replies = new SmtpReplies()
    this.#socket = this.#secure({ socket: plain }, onSecure)
    this.#socket.setTimeout(Duration.toMillis(this.#settings.socketTimeout))
    this.#attend(this.#socket)
  }

  /** Calls back when whatever else has come was looked at, and was nothing. */
  whenQuiet(onQuiet: () => void): void {
    const look = (turns: number): void =>
      void setImmediate(() => {
        if (!this.#isOpen) return
        if (turns > 1) look(turns - 1)
        else onQuiet()
      })
    look(quietTurns)
  }

  /** Takes leave, without waiting for an answer. */
  quit(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    this.#socket.removeListener("data", this.#read)
    this.#socket.resume()
    this.#socket.setTimeout(closeTimeoutMs)
    this.#socket.end("QUIT\r\n")
  }

  /** Nothing that is not written goes out. */
  end(why: SmtpFailed): void {
    if (this.#isOpen) this.#owner.onEnd(why)
    this.#isOpen = false
    this.#out = []
    this.#socket.destroy()
  }

  #secure(way: { readonly port: number } | { readonly socket: Socket }, onSecure: () => void): TLSSocket {
    const { host, servername } = this.#settings
    const name = servername ?? (isIP(host) === 0 ? host : null)
    const socket = connectTls({
      ...way,
      host,
      ...(name === null ? {} : { servername: name }),
      secureContext: this.#context(),
      // Said outright: an environment variable of Node's would turn it off.
      rejectUnauthorized: true
    })
    socket.setNoDelay(true)
    return socket.on("data", this.#read).once("secureConnect", () => {
      this.#isEncrypted = true
      onSecure()
    })
  }

  #attend(socket: Socket): void {
    socket.on("timeout", () => this.#isLost("ETIMEDOUT", "the server is silent"))
    socket.on("error", (error: NodeJS.ErrnoException) => this.#isLost(error.code ?? "error", wordsOf(error)))
    socket.on("end", () => this.#isLost("ECONNRESET", "the server closed the connection"))
    socket.on("close", () => this.#isLost("ECONNRESET", "the connection was closed"))
  }

  #isLost(code: string, detail: string): void {
    this.end(failed(this.#command, `${code} ${shown(detail, this.#settings)}`))
  }

  readonly #read = (chunk: Buffer): void => {
    const replies = this.#replies
    this.#owner.onHeard()
    // What is said from here on is no cause of these words.
    let answerable = this.#expected.length
    this.#isReading = true
    replies.hear(chunk)
    while (this.#isOpen && replies === this.#replies) {
      if (answerable === 0) {
        if (!replies.isBegun()) break
        const said = replies.next()
        if (!this.#owner.onUnasked(said)) this.end(failed(this.#command, "the server said more than it was asked"))
        if (said === null) break
        continue
      }
      const said = replies.next()
      if (said === null) break
      answerable -= 1
      this.#expected.shift()!(said) // there were as many as answerable
    }
    if (replies.isTooLong()) this.end(failed(this.#command, "the server's reply has no end"))
    this.#isReading = false
    this.#flush()
  }

  #flush(): void {
    const out = this.#out
    if (out.length === 0 || !this.#isOpen) return
    this.#out = []
    if (out.length === 1) this.#socket.write(out[0]!)
    else this.#socket.write(Buffer.concat(out.map((words) => (typeof words === "string" ? Buffer.from(words, "latin1") : words))))
  }
}

/** A name with several addresses fails with an error of each, and without words of its own. */
const wordsOf = (error: Error): string =>
  error instanceof AggregateError ? error.errors.map((one: Error) => one.message).join("; ") : error.message
