/**
 * One conversation: greeting, commands, messages, end. It knows no more of
 * mail than its grammar; who is known here and what is taken is the core's to
 * say, and 250 behind a message is said when the core has it.
 */
import { Cause, Duration, Effect, Exit, Option, Result } from "effect"
import type { SecureContext } from "node:tls"
import type { Peer } from "../../core/model/Reception.ts"
import { ReceiveRefused, type Receive } from "../../core/operations/Receive.ts"
import * as Command from "./Command.ts"
import * as Incoming from "./Incoming.ts"
import * as Reply from "./Reply.ts"
import { WireEnded, type Wire } from "./Wire.ts"

export interface Settings {
  readonly protocol: "SMTP" | "LMTP"
  /** What we call ourselves. */
  readonly hostname: string
  /** STARTTLS is offered where there is a context; null: never. It is asked for again for each connection. */
  readonly secureContext: () => SecureContext | null
  readonly sizeBytesMax: number
  readonly recipientsMax: number
  /** Refusals in one conversation. */
  readonly errorsMax: number
  /** Commands since the last message that was taken. */
  readonly commandsMax: number
  /** For the next command, for a byte of a message, for a TLS handshake; as of now. */
  readonly silence: () => Duration.Duration
  readonly messageTotal: Duration.Duration
}

/** How a message ended, for the counts. */
export type Outcome = "taken" | "refused" | "unavailable" | "broken"

/** RFC 5321 says 512, and its extensions more for MAIL: SIZE 26, BODY 17, SMTPUTF8 10. */
const lineSizeMax = 512 + 26 + 17 + 10

interface State {
  /** Null before it has said who it is. */
  hello: Pick<Extract<Command.Command, { readonly _tag: "Hello" }>, "verb" | "name"> | null
  sender: { readonly path: string | null; readonly isUtf8: boolean } | null
  recipients: Array<string>
  recipientsSeen: number
  errors: number
  commands: number
}

export interface Context {
  readonly wire: Wire
  readonly remoteAddress: string
  readonly settings: Settings
  readonly receive: Receive["Service"]
  readonly onMessage: (outcome: Outcome) => Effect.Effect<void>
}

/** Until one of them ends it. The connection is left open, with the last words to be said. */
export const converse = Effect.fnUntraced(function* (context: Context): Effect.fn.Return<void> {
  const { wire, settings } = context
  const state: State = { hello: null, sender: null, recipients: [], recipientsSeen: 0, errors: 0, commands: 0 }
  wire.say(`220 ${settings.hostname} ${settings.protocol === "LMTP" ? "LMTP" : "ESMTP"}\r\n`)
  let isOpen = true
  while (isOpen) {
    const step = yield* Effect.result(exchange(context, state))
    if (Result.isSuccess(step)) isOpen = step.success
    else {
      isOpen = false
      const words = lastWords(step.failure)
      if (words !== null) wire.say(Reply.lineOf(words))
    }
  }
})

const lastWords = ({ reason }: WireEnded): Reply.Reply | null => {
  switch (reason) {
    case "silent":
      return Reply.idle
    case "stopping":
      return Reply.stopping
    case "endless":
      return Reply.tooLarge
    case "gone":
      return null
  }
}

/** One command and its reply. Whether there is to be another. */
const exchange = Effect.fnUntraced(function* (context: Context, state: State): Effect.fn.Return<boolean, WireEnded> {
  const { wire, settings } = context
  const line = yield* wire.line(lineSizeMax, settings.silence())
  if (line._tag === "BareLf") return end(wire, Reply.bareLineEnd)
  if (line._tag === "TooLong") return line.isOver ? refuse(context, state, Reply.tooLong) : end(wire, Reply.tooLong)
  state.commands += 1
  if (state.commands > settings.commandsMax) return end(wire, Reply.tooManyCommands)
  return yield* obey(context, state, Command.read(line.bytes))
})

const obey = (context: Context, state: State, command: Command.Command): Effect.Effect<boolean, WireEnded> => {
  const { wire } = context
  switch (command._tag) {
    case "Refused":
      return Effect.succeed(command.isFatal === true ? end(wire, command.reply) : refuse(context, state, command.reply))
    case "Hello":
      return Effect.succeed(hello(context, state, command))
    case "Mail":
      return Effect.succeed(mail(context, state, command))
    case "Recipient":
      return recipient(context, state, command.path)
    case "Data":
      return data(context, state)
    case "StartTls":
      return startTls(context, state)
    case "Reset":
      forget(state)
      return Effect.succeed(say(wire, Reply.ok))
    case "Noop":
      return Effect.succeed(say(wire, Reply.ok))
    case "Help":
      return Effect.succeed(say(wire, Reply.help))
    case "Quit":
      return Effect.succeed(end(wire, Reply.bye))
  }
}

const say = (wire: Wire, reply: Reply.Reply): true => {
  wire.say(Reply.lineOf(reply))
  return true
}

const end = (wire: Wire, reply: Reply.Reply): false => {
  wire.say(Reply.lineOf(reply))
  return false
}

/** Says no; the last no of many ends the conversation. */
const refuse = ({ wire, settings }: Context, state: State, reply: Reply.Reply): boolean => {
  state.errors += 1
  say(wire, reply)
  return state.errors < settings.errorsMax || end(wire, Reply.tooManyErrors)
}

const forget = (state: State): void => {
  state.sender = null
  state.recipients = []
  state.recipientsSeen = 0
}

const hello = (context: Context, state: State, { verb, name }: Extract<Command.Command, { readonly _tag: "Hello" }>): boolean => {
  const { wire, settings } = context
  if ((verb === "LHLO") !== (settings.protocol === "LMTP")) return refuse(context, state, Reply.unknownCommand)
  forget(state)
  state.hello = { verb, name }
  const offers = [
    settings.hostname,
    ...(verb === "HELO" ? [] : ["PIPELINING", `SIZE ${settings.sizeBytesMax}`, "8BITMIME", "SMTPUTF8", "ENHANCEDSTATUSCODES"]),
    ...(verb === "HELO" || wire.isEncrypted || settings.secureContext() === null ? [] : ["STARTTLS"])
  ]
  offers.forEach((offer, index) => wire.say(`250${index === offers.length - 1 ? " " : "-"}${offer}\r\n`))
  return true
}

const mail = (context: Context, state: State, { path, sizeBytes, isUtf8 }: Extract<Command.Command, { readonly _tag: "Mail" }>): boolean => {
  const { wire, settings } = context
  if (state.hello === null) return refuse(context, state, Reply.wantsHello(settings.protocol === "LMTP" ? "LHLO" : "EHLO"))
  if (state.sender !== null) return refuse(context, state, Reply.hasSender)
  if (sizeBytes > settings.sizeBytesMax) return refuse(context, state, Reply.tooLarge)
  state.sender = { path, isUtf8 }
  return say(wire, Reply.senderOk)
}

/** How many times the recipients that it may have one message may name. */
const excessMax = 10

const recipient = Effect.fnUntraced(function* (context: Context, state: State, path: string): Effect.fn.Return<boolean> {
  const { wire, settings, receive } = context
  if (state.sender === null) return refuse(context, state, Reply.wantsSender)
  state.recipientsSeen += 1
  if (!state.sender.isUtf8 && Command.isBeyondAscii(path)) return refuse(context, state, Reply.wantsUtf8)
  if (state.recipientsSeen > excessMax * settings.recipientsMax) return end(wire, Reply.tooManyCommands)
  // No error of theirs: the rest goes with the next message.
  if (state.recipients.length >= settings.recipientsMax) return say(wire, Reply.tooManyRecipients)
  const known = yield* Effect.exit(receive.recipient(path))
  if (Exit.isSuccess(known)) {
    state.recipients.push(path)
    return say(wire, Reply.recipientOk)
  }
  const { reply } = yield* explain(known.cause, Reply.recipientUnavailable)
  return refuse(context, state, reply)
})

const startTls = Effect.fnUntraced(function* (context: Context, state: State): Effect.fn.Return<boolean, WireEnded> {
  const { wire, settings } = context
  const secureContext = settings.secureContext()
  if (wire.isEncrypted) return refuse(context, state, Reply.hasTls)
  if (secureContext === null) return refuse(context, state, Reply.notOffered)
  say(wire, Reply.readyForTls)
  yield* wire.encrypt(secureContext, settings.silence())
  // What was said before is not known any more (RFC 3207, 4.2).
  forget(state)
  state.hello = null
  return true
})

const peerOf = ({ wire, remoteAddress, settings }: Context, state: State): Peer => ({
  remoteAddress,
  helo: state.hello?.name ?? "",
  protocol:
    settings.protocol === "LMTP" ? (wire.isEncrypted ? "LMTPS" : "LMTP") : wire.isEncrypted ? "ESMTPS" : state.hello?.verb === "HELO" ? "SMTP" : "ESMTP"
})

const data = Effect.fnUntraced(function* (context: Context, state: State): Effect.fn.Return<boolean, WireEnded> {
  const { wire, settings, receive, onMessage } = context
  const { sender, recipients } = state
  if (sender === null) return refuse(context, state, Reply.wantsSender)
  if (recipients.length === 0) return refuse(context, state, state.recipientsSeen > 0 ? Reply.noRecipients(settings.protocol) : Reply.wantsRecipient)
  wire.say("354 end with CR LF . CR LF\r\n")
  const { bytes, isOver, rest } = yield* Incoming.make(wire, {
    sizeBytesMax: settings.sizeBytesMax,
    silence: settings.silence,
    total: settings.messageTotal
  })
  let accepted = yield* Effect.exit(receive.accept({ peer: peerOf(context, state), returnPath: sender.path, recipients, bytes }))
  if (Exit.isSuccess(accepted) && !isOver()) accepted = Exit.die(new Error("a message was taken before its end"))
  // The reply stands behind the end of the message, whatever became of it before.
  const fault = yield* rest.pipe(
    Effect.as(null),
    Effect.catchTag("NotAMessage", ({ reply }) => Effect.succeed(reply)),
    Effect.tapError(() => onMessage("broken"))
  )
  const { reply, outcome } = yield* ending(accepted, fault)
  yield* onMessage(outcome)
  forget(state)
  if (outcome === "taken") state.commands = 0
  // LMTP has a reply for each recipient that was taken (RFC 2033).
  if (settings.protocol === "LMTP") for (const _ of recipients.slice(1)) say(wire, reply)
  return outcome === "refused" ? refuse(context, state, reply) : say(wire, reply)
})

interface Ending {
  readonly reply: Reply.Reply
  readonly outcome: Outcome
}

/** `fault`: why it is no message to take. The core cannot have taken it then, for it came to it as a failure. */
const ending = (accepted: Exit.Exit<void, unknown>, fault: Reply.Reply | null): Effect.Effect<Ending> => {
  if (fault !== null) return Effect.succeed({ reply: fault, outcome: "refused" })
  return Exit.isSuccess(accepted) ? Effect.succeed({ reply: Reply.taken, outcome: "taken" }) : explain(accepted.cause, Reply.unavailable)
}

/** What to say of a failure: the core's own words, or that it is to be tried again. A defect is ours, so it is logged and tried again. */
const explain = Effect.fnUntraced(function* (cause: Cause.Cause<unknown>, unavailable: Reply.Reply): Effect.fn.Return<Ending> {
  const error = Option.getOrNull(Cause.findErrorOption(cause))
  if (error instanceof ReceiveRefused) {
    return { reply: { code: error.code, enhancedCode: error.enhancedCode, text: error.text }, outcome: error.code < 500 ? "unavailable" : "refused" }
  }
  if (Cause.hasInterruptsOnly(cause)) return yield* Effect.interrupt
  yield* error === null ? Effect.logError("mail could not be taken", cause) : Effect.logWarning("mail could not be taken", error)
  return { reply: unavailable, outcome: "unavailable" }
})
