/**
 * An SMTP server for tests, on a port of its own: it does what its script says,
 * and where that says nothing, what a good server does. It knows one end of a
 * message, CRLF dot CRLF, and keeps all it hears. It wants a sender before a
 * recipient, a recipient before a message, and no second sender.
 */
import { Effect, Schedule, type Scope } from "effect"
import { createServer, type AddressInfo, type Socket } from "node:net"
import { createSecureContext, TLSSocket, type SecureContext } from "node:tls"
import type { Conversation, Place, Script } from "../../conformance/MailServerScript.ts"

export interface ScriptedServer {
  readonly port: number
  readonly conversations: Effect.Effect<ReadonlyArray<Conversation>>
  readonly until: (holds: (conversations: ReadonlyArray<Conversation>) => boolean) => Effect.Effect<void>
  readonly say: (text: string) => Effect.Effect<void>
  readonly dropAll: Effect.Effect<void>
  readonly goOn: Effect.Effect<void>
}

export interface Certificate {
  readonly key: string
  readonly cert: string
}

export interface Options {
  readonly certificate?: Certificate | null
  /** TLS from the first byte. */
  readonly isImplicit?: boolean
  /** Takes one command at a time. */
  readonly isSerial?: boolean
  /** How its replies are cut: each as it is said, all to what came together, or a byte at a time. */
  readonly pace?: "apiece" | "together" | "byByte"
}

export const start = (script: Script, options: Options = {}): Effect.Effect<ScriptedServer, never, Scope.Scope> =>
  Effect.gen(function* () {
    const context = options.certificate == null ? null : createSecureContext(options.certificate)
    const parties: Array<Party> = []
    const waiting = new Set<() => void>()
    const changed = () => {
      for (const look of waiting) look()
    }
    const server = createServer({ noDelay: true }, (socket) => {
      parties.push(converse(socket, script, parties.length + 1, context, options, changed))
      changed()
    })
    yield* Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void)))
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        for (const party of parties) party.drop()
        server.close()
      })
    )
    const conversations = () => parties.map(({ conversation }) => conversation())

    return {
      port: (server.address() as AddressInfo).port, // it listens on a port, not on a pipe
      conversations: Effect.sync(conversations),
      until: (holds) =>
        Effect.callback<void>((resume) => {
          const look = () => {
            if (!holds(conversations())) return
            waiting.delete(look)
            resume(Effect.void)
          }
          waiting.add(look)
          look()
          return Effect.sync(() => waiting.delete(look))
        }),
      say: (text) => Effect.sync(() => parties.forEach(({ say }) => say(text))),
      dropAll: Effect.sync(() => parties.forEach(({ drop }) => drop())),
      goOn: Effect.sync(() => parties.forEach(({ goOn }) => goOn()))
    }
  })

interface Party {
  readonly conversation: () => Conversation
  readonly say: (text: string) => void
  readonly drop: () => void
  readonly goOn: () => void
}

const converse = (
  plain: Socket,
  script: Script,
  number: number,
  context: SecureContext | null,
  { isImplicit = false, isSerial = false, pace = "apiece" }: Options,
  changed: () => void
): Party => {
  const commands: Array<string> = []
  const messages: Array<string> = []
  let socket: Socket = plain
  let heard = ""
  let mode: "commands" | "message" = "commands"
  let begun = 0
  let isBusy = false
  let isClosed = false
  let isEncrypted = false
  let saidBytes = 0
  let hasSender = false
  let recipients = 0
  let overruns = 0
  let isReading = false
  let unsaid = ""
  let onGoOn: (() => void) | null = null

  const say = (text: string, isWhole = false) => {
    unsaid += text
    if (!isReading || pace !== "together") flush(isWhole)
  }
  const flush = (isWhole = false) => {
    const text = unsaid
    unsaid = ""
    if (isClosed || !socket.writable || text === "") return
    saidBytes += text.length
    // Much of it says the same in one piece.
    if (pace === "byByte" && !isWhole && text.length < 1_000) for (const byte of Buffer.from(text)) socket.write(Buffer.of(byte))
    else socket.write(text)
    changed()
  }
  /** In real time, whatever the time of the test. */
  const trickle = (text: string) => {
    let index = 0
    const next = Effect.sync(() => say(text[index++ % text.length]!)) // an index within the text
    const fiber = Effect.runFork(Effect.repeat(next, Schedule.spaced("1 millis")))
    socket.on("close", () => fiber.interruptUnsafe())
  }
  const drop = () => {
    flush()
    socket.destroySoon()
  }

  const good = (place: Place, argument: string): string => {
    switch (place) {
      case "greeting":
        return "220 mail.example ESMTP\r\n"
      case "EHLO":
        return [
          "250-mail.example",
          "250-8BITMIME",
          ...(isSerial ? [] : ["250-PIPELINING"]),
          ...(isEncrypted ? ["250-AUTH PLAIN LOGIN"] : context === null ? [] : ["250-STARTTLS"]),
          "250 ENHANCEDSTATUSCODES\r\n"
        ].join("\r\n")
      case "STARTTLS":
        return context === null ? "502 5.5.1 no\r\n" : "220 2.0.0 go ahead\r\n"
      case "AUTH":
        return argument.startsWith("PLAIN ") ? "235 2.7.0 welcome\r\n" : "504 5.5.4 no\r\n"
      case "MAIL":
        return hasSender ? "503 5.5.1 nested MAIL\r\n" : "250 2.1.0 ok\r\n"
      case "RCPT":
        return hasSender ? "250 2.1.5 ok\r\n" : "503 5.5.1 need MAIL\r\n"
      case "DATA":
        if (recipients > 0) return "354 go on\r\n"
        return hasSender ? "554 5.5.1 no valid recipients\r\n" : "503 5.5.1 need RCPT\r\n"
      case "message":
        return "250 2.0.0 queued\r\n"
      case "QUIT":
        return "221 2.0.0 bye\r\n"
      case "bytes":
        return ""
      default:
        return "250 2.0.0 ok\r\n"
    }
  }

  /** What the words make of the transaction. */
  const note = (place: Place, words: string) => {
    const isYes = words.startsWith("2")
    if (place === "MAIL" && isYes) hasSender = true
    if (place === "RCPT" && isYes) recipients += 1
    if (place === "message" || (place === "RSET" && isYes)) {
      hasSender = false
      recipients = 0
    }
  }

  /** Whether the conversation goes on as after the good answer. */
  const act = (place: Place, argument = ""): boolean => {
    const moment = { place, argument, connection: number, message: Math.max(1, begun), isEncrypted }
    const step = script(moment)
    const words = step === null ? good(place, argument) : (step.say ?? "")
    const perform = () => {
      note(place, words)
      if (step?.trickles === true) trickle(words)
      else say(words, step?.isWhole)
      if (step?.stalls === true) socket.pause()
      // Who has not ended a reply answers nothing else.
      isBusy = step !== null && step.goesOn !== true && (step.trickles === true || !words.endsWith("\n"))
      if (step?.drops === true || (place === "QUIT" && step === null)) drop()
    }
    if (step?.waits === true) {
      isBusy = true
      onGoOn = perform
    } else perform()
    return step === null ? !/^[45]/.test(words) : step.goesOn === true
  }

  const command = (line: string) => {
    commands.push(line)
    const [verb = "", argument = ""] = /^(\S*)\s?(.*)$/.exec(line)?.slice(1) ?? []
    const place = verb.toUpperCase()
    if (place === "MAIL") begun += 1
    if (!isPlace(place)) return say("500 5.5.2 what\r\n")
    const goesOn = act(place, argument)
    if (place === "DATA" && goesOn) {
      mode = "message"
      // A message begins at the beginning of a line.
      heard = `\r\n${heard}`
    }
    if (place === "STARTTLS" && goesOn && context !== null) upgrade(context)
  }

  /** The next line, or the next message; null if it has not all come, or will not be answered. */
  const next = (): string | null => {
    const end = mode === "message" ? "\r\n.\r\n" : "\r\n"
    const index = isBusy ? -1 : heard.indexOf(end)
    if (index < 0) return null
    const whole = heard.slice(0, index)
    heard = heard.slice(index + end.length)
    return whole
  }

  const read = (chunk: Buffer) => {
    const isFirst = mode === "message" && heard === "\r\n"
    heard += chunk.toString("latin1")
    if (isFirst) act("bytes")
    takeUp()
  }

  const takeUp = () => {
    isReading = true
    let commandCount = 0
    for (let whole = next(); whole !== null; whole = next()) {
      if (mode === "commands") {
        commandCount += 1
        if (commandCount > 1) overruns += 1
        command(whole)
      } else {
        messages.push(`${whole}\r\n`.slice(2))
        mode = "commands"
        act("message")
      }
    }
    isReading = false
    flush()
    changed()
  }

  const listen = (to: Socket) => {
    to.on("data", read)
    to.on("error", () => undefined)
    to.on("close", () => {
      isClosed = true
      changed()
    })
  }

  const upgrade = (secureContext: SecureContext) => {
    flush()
    plain.removeListener("data", read)
    heard = ""
    const secure = new TLSSocket(plain, { isServer: true, secureContext })
    socket = secure
    secure.on("secure", () => {
      isEncrypted = true
      if (isImplicit) act("greeting")
    })
    listen(secure)
  }

  if (isImplicit && context !== null) upgrade(context)
  else {
    listen(plain)
    act("greeting")
  }
  return {
    conversation: () => ({
      commands: [...commands],
      messages: [...messages],
      partial: mode === "message" ? heard.slice(2) : "",
      pending: mode === "message" ? "" : heard,
      overruns,
      isClosed,
      isEncrypted,
      saidBytes
    }),
    say,
    drop,
    goOn: () => {
      onGoOn?.()
      onGoOn = null
      takeUp()
    }
  }
}

const places: ReadonlySet<string> = new Set<Place>(["EHLO", "HELO", "STARTTLS", "AUTH", "MAIL", "RCPT", "DATA", "RSET", "QUIT"])
const isPlace = (verb: string): verb is Place => places.has(verb)
