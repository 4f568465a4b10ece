/**
 * Carries messages over one connection, and says what came of each. Where the
 * server takes pipelining (RFC 2920), a message's envelope and DATA go out at
 * once, and behind the dot of the message before it; else one command waits
 * for the reply to the other.
 *
 * A message is in one of three stages. Of one in its envelope the server has
 * not a byte, and behind another message it may go to another connection; of
 * one whose bytes have begun, only the server's word tells what became of it.
 * What each of its words means is the table in `SmtpDialogue`.
 */
import { Result } from "effect"
import type { Address } from "../../core/model/Address.ts"
import type { Envelope } from "../../core/model/Envelope.ts"
import type { Reply } from "../../core/model/Reply.ts"
import { failed, judge, needsEightBit, parse, parseOrDefer, replied, tooLarge, wantedNoMore, type Answer, type SmtpFailed } from "./SmtpAnswer.ts"
import { meaningOf, type Asked, type Meaning } from "./SmtpDialogue.ts"
import type { Extensions } from "./SmtpIntroduction.ts"
import type { Said } from "./SmtpReplies.ts"
import { shown, type Settings } from "./SmtpSettings.ts"
import { stuffDots } from "./WireLines.ts"
import type { Owner, SmtpWire } from "./SmtpWire.ts"

export interface Outgoing {
  readonly envelope: Envelope
  readonly sizeBytes: number
  /** All of it, in pieces, with dots stuffed and the final dot; null if it is poured when it is asked for. */
  readonly whole: ReadonlyArray<Uint8Array> | null
  readonly hasEightBit: () => boolean
  /** Asked before its bytes: what waited behind a dot, or in a process that stood still, may have waited long. */
  readonly isWanted: () => boolean
  /** The server wants the bytes; at most once. */
  readonly onWanted: (sink: Sink) => void
  /** What came of it; once. */
  readonly onEnd: (result: Result.Result<Answer, SmtpFailed>) => void
}

/** Takes lines of the wire, without their dots. */
export interface Sink {
  readonly takesEightBit: boolean
  /** Whether more may follow at once; else `onDrain` tells when. */
  readonly write: (lines: Uint8Array) => boolean
  readonly onDrain: (onDrain: () => void) => void
  readonly end: () => void
  /** The message cannot go on: it ends with this answer, and without a dot. */
  readonly breakOff: (answer: Answer) => void
}

/** Where messages come from and connections go back to. */
export interface Host<Message extends Outgoing> {
  /** The next message that waits, which then has its place here. */
  readonly next: () => Message | null
  /** The server has nothing of it. */
  readonly giveBack: (message: Message) => void
  /** It may carry another message now. */
  readonly onIdle: () => void
  /** It carries nothing more. Said once. */
  readonly onEnd: (why: SmtpFailed) => void
  /** Calls back after the time to connect, unless it is told that there is no need. */
  readonly within: (onDue: () => void) => () => void
  readonly monotonicNanos: () => bigint
}

interface Transaction<Message extends Outgoing> {
  readonly message: Message
  /** On this connection. */
  readonly isFirst: boolean
  readonly refusals: Map<string, Reply>
  stage: "envelope" | "bytes" | "dot"
  hasSender: boolean
  isAnswered: boolean
}

export class PipeliningConnection<Message extends Outgoing> implements Owner {
  readonly #settings: Settings
  readonly #messagesMax: number
  readonly #host: Host<Message>
  #wire: SmtpWire | null = null
  #extensions: Extensions | null = null
  #messageCount = 0
  /** What the server's next reply is about, and what was said behind its dot. */
  #current: Transaction<Message> | null = null
  #behind: Transaction<Message> | null = null
  /** An answer that is told when the connection is fit again, or is lost. */
  #held: (() => void) | null = null
  /** It ends with the current message. */
  #isCondemned = false
  /** Since the server's last word, or what was asked of it when it owed nothing, or the last bytes that went out to it. */
  #silentSince: bigint
  #hasEnded = false

  constructor(settings: Settings, messagesMax: number, host: Host<Message>) {
    this.#settings = settings
    this.#messagesMax = messagesMax
    this.#host = host
    this.#silentSince = host.monotonicNanos()
  }

  /** Its wire is on its way. */
  attach(wire: SmtpWire): void {
    this.#wire = wire
  }

  /** It is connected and signed in. */
  ready(extensions: Extensions): void {
    this.#extensions = extensions
  }

  /** To be called on a new one that has nothing to carry. */
  rest(): void {
    this.#free(() => undefined)
  }

  /** To be called on an idle connection, and on a new one. Whether it has taken it: what cannot be sent is answered. */
  begin(message: Message): boolean {
    if (!this.#takes(message)) return false
    this.#silentSince = this.#host.monotonicNanos()
    this.#speak((this.#current = this.#transaction(message)))
    return true
  }

  /** Whether the envelope of another message may go out behind the dot of the current one. */
  takesAnother(): boolean {
    return (
      this.#extensions?.isPipelining === true &&
      this.#current?.stage === "dot" &&
      !this.#current.isAnswered &&
      this.#behind === null &&
      !this.#isCondemned &&
      !this.#isWorn() &&
      this.#wire!.isOpen() // it has extensions
    )
  }

  beginBehind(message: Message): boolean {
    if (!this.#takes(message)) return false
    this.#speak((this.#behind = this.#transaction(message)))
    return true
  }

  /** For how long, in nanoseconds, the server has said nothing that it owes, and taken nothing that waits for it. */
  silence(at: bigint): bigint {
    const current = this.#current
    const isOwing = this.#extensions === null || (current !== null && (current.stage !== "bytes" || this.#wire!.isFull())) // it has extensions
    return isOwing ? at - this.#silentSince : 0n
  }

  /** Whether one of these messages is under way on it, or was said behind the dot of another. */
  carries(isOne: (message: Message) => boolean): boolean {
    return [this.#current, this.#behind].some((transaction) => transaction !== null && isOne(transaction.message))
  }

  /** Nobody waits for it any more. What is under way beside it goes on. */
  abandon(message: Message): void {
    if (this.#behind?.message === message) {
      // The server knows its envelope, and the bytes are never to follow.
      this.#behind.isAnswered = true
      this.#isCondemned = true
    } else if (this.#current?.message === message && !this.#current.isAnswered) {
      this.#current.isAnswered = true
      this.end("the message was given up")
    }
  }

  quit(): void {
    this.#wire?.quit()
    this.#over(failed("QUIT", "the connection was left"))
  }

  end(why: string): void {
    const error = failed("CONN", why)
    if (this.#wire === null) this.#over(error)
    else this.#wire.end(error)
  }

  onEnd(why: SmtpFailed): void {
    this.#over(why)
  }

  onHeard(): void {
    this.#silentSince = this.#host.monotonicNanos()
  }

  onUnasked(said: Said | null): boolean {
    const current = this.#current
    if (current?.stage !== "bytes") return false
    if (said === null) return true
    this.#hear(current, "bytes", "DATA", said)
    return false
  }

  #isWorn(): boolean {
    return this.#messageCount >= this.#messagesMax
  }

  #takes(message: Message): boolean {
    const { sizeBytesMax, takesEightBit } = this.#extensions! // as above
    const isTooLarge = sizeBytesMax !== null && message.sizeBytes > sizeBytesMax
    if (isTooLarge) message.onEnd(Result.succeed(tooLarge({ message: `the server takes ${sizeBytesMax} bytes` })))
    else if (!takesEightBit && message.hasEightBit()) message.onEnd(Result.succeed(needsEightBit))
    else return true
    return false
  }

  // The envelope

  #transaction(message: Message): Transaction<Message> {
    this.#messageCount += 1
    return {
      message,
      isFirst: this.#messageCount === 1,
      refusals: new Map(),
      stage: "envelope",
      hasSender: false,
      isAnswered: false
    }
  }

  #speak(transaction: Transaction<Message>): void {
    const { message } = transaction
    const { returnPath, recipients } = message.envelope
    const { announcesSize, takesEightBit, isPipelining } = this.#extensions! // as above
    const size = announcesSize ? ` SIZE=${message.sizeBytes}` : ""
    const sender = `MAIL FROM:<${returnPath ?? ""}>${size}${takesEightBit ? " BODY=8BITMIME" : ""}\r\n`
    const wire = this.#wire! // it has extensions

    if (isPipelining) {
      wire.expect("MAIL FROM", (said) => this.#onSender(transaction, said))
      for (const recipient of recipients) wire.expect("RCPT TO", (said) => this.#onRecipient(transaction, recipient, said))
      wire.expect("DATA", (said) => this.#onData(transaction, said))
      const words = recipients.map((recipient) => `RCPT TO:<${recipient}>\r\n`)
      wire.say(`${sender}${words.join("")}DATA\r\n`)
      return
    }
    const askNext = (index: number): void => {
      if (!wire.isOpen()) return
      const recipient = recipients[index]
      if (recipient === undefined) {
        if (transaction.isAnswered) this.#reset()
        else wire.ask("DATA", "DATA\r\n", (said) => this.#onData(transaction, said))
        return
      }
      wire.ask("RCPT TO", `RCPT TO:<${recipient}>\r\n`, (said) => {
        this.#onRecipient(transaction, recipient, said)
        askNext(index + 1)
      })
    }
    wire.ask("MAIL FROM", sender, (said) => {
      this.#onSender(transaction, said)
      if (transaction.isAnswered && wire.isOpen()) this.#reset()
      else askNext(0)
    })
  }

  #onSender(transaction: Transaction<Message>, said: Said): void {
    transaction.hasSender = this.#hear(transaction, "sender", "MAIL FROM", said) === "go on"
  }

  #onRecipient(transaction: Transaction<Message>, recipient: Address, said: Said): void {
    const { refusals, message, isAnswered } = transaction
    if (this.#hear(transaction, isAnswered ? "recipient of refused" : "recipient", "RCPT TO", said) !== "keep") return
    refusals.set(recipient, parseOrDefer(said.text, this.#settings))
    if (refusals.size === message.envelope.recipients.length) this.#refuse(transaction, "RCPT TO", said)
  }

  #onData(transaction: Transaction<Message>, said: Said): void {
    const { isAnswered, hasSender } = transaction
    const meaning = this.#hear(transaction, !isAnswered ? "data" : hasSender ? "data of refused" : "data of nobody", "DATA", said)
    if (meaning === "send") {
      if (transaction.message.isWanted()) this.#pass(transaction)
      else this.#fail(transaction, wantedNoMore())
    }
    if (meaning === "refuse" && this.#wire!.isOpen()) this.#reset() // somebody said something on it
  }

  // The bytes

  #pass(transaction: Transaction<Message>): void {
    const { message } = transaction
    const wire = this.#wire! // somebody said something on it
    if (message.whole !== null) {
      for (const piece of message.whole) wire.say(piece)
      return this.#onPassed(transaction)
    }
    transaction.stage = "bytes"
    let isAtStart = true
    const isCurrent = () => this.#current === transaction && !transaction.isAnswered && wire.isOpen()
    message.onWanted({
      takesEightBit: this.#extensions!.takesEightBit, // the same
      write: (lines) => {
        if (lines.length === 0) return true
        if (!isCurrent()) return false
        const stuffed = stuffDots(lines, isAtStart)
        isAtStart = lines.at(-1) === 0x0a
        this.#silentSince = this.#host.monotonicNanos()
        return wire.pour(stuffed)
      },
      onDrain: (onDrain) => wire.onDrain(onDrain),
      end: () => {
        if (!isCurrent()) return
        this.#silentSince = this.#host.monotonicNanos()
        wire.say(isAtStart ? ".\r\n" : "\r\n.\r\n")
        this.#onPassed(transaction)
      },
      breakOff: (answer) => {
        if (!isCurrent()) return
        this.#answer(transaction, answer)
        this.end("a message was broken off")
      }
    })
  }

  #onPassed(transaction: Transaction<Message>): void {
    transaction.stage = "dot"
    this.#wire!.allowSilence(this.#settings.endTimeout) // the bytes went out on it
    this.#wire!.expect("DATA", (said) => this.#onDot(transaction, said))
    while (this.takesAnother()) {
      const message = this.#host.next()
      if (message === null || this.beginBehind(message)) return
    }
  }

  #onDot(transaction: Transaction<Message>, said: Said): void {
    const { refusals, message } = transaction
    this.#wire!.allowSilence(this.#settings.socketTimeout) // it was heard on it
    const isAccepted = this.#hear(transaction, "dot", "DATA", said) === "accept"
    if (!this.#wire!.isOpen()) return
    const tell = () => {
      if (isAccepted) this.#answer(transaction, replied(message.envelope.recipients, refusals, parse(said.text, this.#settings)!)) // it has a code
    }
    this.#current = this.#behind
    this.#behind = null
    if (this.#isCondemned) {
      tell()
      return this.end("a message was given up")
    }
    if (this.#current !== null) return tell()
    this.#free(tell)
  }

  // What is said

  /** What it means, and what follows from that wherever it is said. */
  #hear(transaction: Transaction<Message>, asked: Asked, command: string, said: Said): Meaning {
    const meaning = meaningOf(asked, said.code)
    switch (meaning) {
      case "refuse":
        this.#refuse(transaction, command, said)
        break
      case "leave":
        if (transaction.stage !== "envelope" || transaction.isFirst) this.#refuse(transaction, command, said)
        this.end("the server took its leave")
        break
      case "unknown":
        this.#fail(transaction, this.#unclear(command, asked === "bytes" ? "the server answered before the end of the message" : said.text))
        break
      case "reset":
        this.#reset()
        break
      case "lone dot":
        this.#wire!.ask("DATA", ".\r\n", (reply) => this.#hear(transaction, "lone dot", "DATA", reply)) // it was heard on it
        break
      case "end":
        this.end("the server said what ends a session")
        break
      case "go on":
      case "keep":
      case "send":
      case "accept":
      case "rest":
      // What follows from these, whoever has asked knows.
    }
    return meaning
  }

  /** A reply that is no yes. */
  #refuse(transaction: Transaction<Message>, command: string, said: Said): void {
    const { message, refusals } = transaction
    const reply = said.code >= 400 ? parse(said.text, this.#settings) : null
    const answer = judge(message.envelope.recipients, command, refusals, reply)
    if (answer === null) this.#fail(transaction, this.#unclear(command, said.text))
    else this.#answer(transaction, answer)
  }

  #unclear(command: string, text: string): SmtpFailed {
    return failed(command, shown(text, this.#settings))
  }

  #answer(transaction: Transaction<Message>, answer: Answer): void {
    if (transaction.isAnswered) return
    transaction.isAnswered = true
    transaction.message.onEnd(Result.succeed(answer))
  }

  /** The connection ends with it: what the server makes of the rest is unknown. */
  #fail(transaction: Transaction<Message>, why: SmtpFailed): void {
    if (!transaction.isAnswered) {
      transaction.isAnswered = true
      transaction.message.onEnd(Result.fail(why))
    }
    this.end("a message came to no end")
  }

  // Afterwards

  /** Whatever is left of a transaction that came to nothing is forgotten by the server too. */
  #reset(): void {
    const isInTime = this.#host.within(() => this.end("the session was not reset within the time"))
    this.#wire!.ask("RSET", "RSET\r\n", ({ code }) => {
      isInTime()
      if (meaningOf("reset", code) !== "rest") return this.end("the session was not reset")
      this.#current = null
      this.#free(() => undefined)
    })
  }

  /** Goes on with a message that waits; else sees that the server says nothing more, and rests. */
  #free(tell: () => void): void {
    if (this.#isWorn()) {
      tell()
      return this.quit()
    }
    for (let message = this.#host.next(); message !== null; message = this.#host.next()) {
      if (!this.begin(message)) continue
      return tell()
    }
    this.#held = tell
    this.#wire!.whenQuiet(() => {
      this.#held = null
      this.#host.onIdle()
      tell()
    })
  }

  #over(why: SmtpFailed): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    const tell = this.#held
    this.#held = null
    tell?.()
    for (const transaction of [this.#current, this.#behind]) {
      if (transaction === null || transaction.isAnswered) continue
      transaction.isAnswered = true
      if (transaction.stage === "envelope" && !transaction.isFirst) this.#host.giveBack(transaction.message)
      else transaction.message.onEnd(Result.fail(why))
    }
    this.#current = null
    this.#behind = null
    this.#host.onEnd(why)
  }
}
