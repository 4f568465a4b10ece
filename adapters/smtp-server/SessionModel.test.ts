/**
 * Conversations of commands in any order, said all at once and cut anywhere,
 * the same in every run. A model that knows commands, and no bytes, says what
 * RFC 5321, 6531, 2033 and 2920 have each of them come to.
 *
 * MAILROOM_SESSION_RUNS says how many, where the few of every run are not enough.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import type { Outcome } from "./Session.ts"
import * as SmtpListener from "./SmtpListener.ts"
import { client, recorder } from "./TestPeer.ts"

const runs = Number(process.env["MAILROOM_SESSION_RUNS"] ?? 200)
const [sizeBytesMax, recipientsMax, errorsMax] = [2_000, 3, 8]

// What may be said

type Command =
  /** Answered so, whatever went before. */
  | { readonly _tag: "Plain"; readonly words: string; readonly code: number; readonly isLast?: boolean }
  | { readonly _tag: "Hello"; readonly verb: "EHLO" | "HELO" | "LHLO" }
  | { readonly _tag: "Reset" }
  | { readonly _tag: "Mail"; readonly path: string; readonly sizeBytes: number | null; readonly isUtf8: boolean }
  | { readonly _tag: "Recipient"; readonly path: string }
  | { readonly _tag: "Data"; readonly lines: ReadonlyArray<string>; readonly end: string }

const plain: ReadonlyArray<readonly [words: string, code: number, isLast?: boolean]> = [
  ["NOOP", 250], ["noop there", 250], ["HELP", 214], ["QUIT", 221, true], ["QUIT now", 501], ["RSET all", 501], ["DATA now", 501],
  ["", 500], [" NOOP", 500], ["NO\rOP", 500], ["NOOP\tx", 500], ["NOOP \0", 500], ["NOOP \xff", 500], ["WHAT", 500], ["MAILFROM:<a@a.test>", 500],
  ["EHLO", 501], ["EHLO a b", 501], ["VRFY u", 502], ["AUTH PLAIN AHUAcA==", 502], ["STARTTLS", 502], ["STARTTLS x", 501],
  ["MAIL", 501], ["MAIL FROM:a@a.test", 501], ["MAIL FROM:<a b@a.test>", 501], ["MAIL FROM:<a@a.test> SIZE=x", 501],
  ["MAIL FROM:<a@a.test> SIZE=1 SIZE=1", 501], ["MAIL FROM:<a@a.test> AUTH=<>", 555], ["RCPT TO:<>", 501], ["RCPT TO:<u>", 501],
  ["RCPT TO:<u@ours.test> NOTIFY=NEVER", 555], [`NOOP ${"x".repeat(558)}`, 250], [`NOOP ${"x".repeat(559)}`, 500],
  ["x".repeat(4_094), 500], ["x".repeat(4_095), 500, true], ["NOOP\nNOOP", 500, true], ["BDAT 6 LAST", 502, true], ["GET / HTTP/1.1", 500, true]
]
const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...plain).map(([words, code, isLast = false]) => ({ _tag: "Plain" as const, words, code, isLast })) },
  { weight: 1, arbitrary: fc.record({ _tag: fc.constant("Hello" as const), verb: fc.constantFrom("EHLO" as const, "HELO" as const, "LHLO" as const) }) },
  { weight: 1, arbitrary: fc.constant({ _tag: "Reset" as const }) },
  {
    weight: 6,
    arbitrary: fc.record({
      _tag: fc.constant("Mail" as const),
      path: fc.constantFrom("a@a.test", "a@a.test", "", "spam@a.test", "later@a.test", "early@a.test", "\u00e9@a.test"),
      sizeBytes: fc.constantFrom(null, null, 0, sizeBytesMax, sizeBytesMax + 1),
      isUtf8: fc.boolean()
    })
  },
  {
    weight: 8,
    arbitrary: fc.record({
      _tag: fc.constant("Recipient" as const),
      path: fc.constantFrom("u@ours.test", "v@ours.test", "\"w w\"@ours.test", "\"x\\\"x\"@ours.test", "nobody@ours.test", "u@else.test", "\u00e9@ours.test")
    })
  },
  {
    weight: 5,
    arbitrary: fc.record({
      _tag: fc.constant("Data" as const),
      lines: fc.array(fc.constantFrom("x", "", ".", "..", ".x", " .", "RCPT TO:<v@ours.test>", "\xc3\xa9\xff\0", "z".repeat(700), "a\nb", "a\r.", "\n.\n"), { maxLength: 5 }),
      end: fc.constantFrom(".\r\n", ".\r\n", ".\r\n", ".\n\r\n.\r\n")
    })
  }
)

const latin1 = (text: string): string => Buffer.from(text).toString("latin1")

const wordsOf = (said: Command): string => {
  switch (said._tag) {
    case "Plain":
      return `${said.words}\r\n`
    case "Hello":
      return `${said.verb} client.test\r\n`
    case "Reset":
      return "RSET\r\n"
    case "Mail":
      return `MAIL FROM:<${latin1(said.path)}>${said.sizeBytes === null ? "" : ` SIZE=${said.sizeBytes}`}${said.isUtf8 ? " SMTPUTF8" : ""}\r\n`
    case "Recipient":
      return `RCPT TO:<${latin1(said.path)}>\r\n`
    case "Data":
      return `DATA\r\n${said.lines.map((line) => `${line.startsWith(".") ? "." : ""}${line}\r\n`).join("")}${said.end}`
  }
}

// What it comes to

interface Model {
  hasHello: boolean
  sender: { readonly path: string; readonly isUtf8: boolean } | null
  recipients: Array<string>
  isTried: boolean
  errors: number
  readonly codes: Array<number>
  readonly taken: Array<string>
  readonly outcomes: Array<Outcome>
}

const outcomeOf = (sender: string, text: string): number => {
  if (/\r(?!\n)|(?<!\r)\n/.test(text)) return 550
  if (text.length > sizeBytesMax) return 552
  return { "spam@a.test": 550, "early@a.test": 550, "later@a.test": 450 }[sender] ?? 250
}

const forget = (model: Model): void => {
  model.sender = null
  model.recipients = []
  model.isTried = false
}

/** The codes that a command is answered with. */
const answer = (model: Model, said: Command, protocol: "SMTP" | "LMTP"): ReadonlyArray<number> => {
  const { sender, recipients } = model
  switch (said._tag) {
    case "Plain":
      return [said.code]
    case "Hello":
      if ((said.verb === "LHLO") !== (protocol === "LMTP")) return [500]
      forget(model)
      model.hasHello = true
      return [250]
    case "Reset":
      forget(model)
      return [250]
    case "Mail":
      if (!said.isUtf8 && said.path.includes("\u00e9")) return [553]
      if (!model.hasHello || sender !== null) return [503]
      if ((said.sizeBytes ?? 0) > sizeBytesMax) return [552]
      model.sender = said
      return [250]
    case "Recipient":
      if (sender === null) return [503]
      model.isTried = true
      if (!sender.isUtf8 && said.path.includes("\u00e9")) return [553]
      if (recipients.length === recipientsMax) return [452]
      if (said.path === "nobody@ours.test" || said.path === "u@else.test") return [550]
      recipients.push(said.path)
      return [250]
    case "Data": {
      if (sender === null) return [503]
      if (recipients.length === 0) return [model.isTried && protocol === "SMTP" ? 554 : 503]
      const text = `${said.lines.map((line) => `${line}\r\n`).join("")}${said.end === ".\r\n" ? "" : "\n\r\n"}`
      const code = outcomeOf(sender.path, text)
      if (code === 250) model.taken.push(`<${sender.path}> ${recipients.join(" ")}: ${text}`)
      model.outcomes.push(code === 250 ? "taken" : code < 500 ? "unavailable" : "refused")
      forget(model)
      return [354, ...(protocol === "LMTP" ? recipients : [""]).map(() => code)]
    }
  }
}

/** The lines of a message that was not asked for are commands, of which the model knows nothing. */
const isKnown = (said: Command, codes: ReadonlyArray<number>): boolean => said._tag !== "Data" || codes[0] === 354

const expected = (conversation: ReadonlyArray<Command>, protocol: "SMTP" | "LMTP") => {
  const model: Model = { hasHello: false, sender: null, recipients: [], isTried: false, errors: 0, codes: [220], taken: [], outcomes: [] }
  let words = ""
  for (const said of conversation) {
    const codes = answer(model, said, protocol)
    words += isKnown(said, codes) ? wordsOf(said) : "DATA\r\n"
    model.codes.push(...codes)
    if (said._tag === "Plain" && said.isLast === true) break
    if (codes.at(-1)! >= 500) model.errors += 1 // each is answered
    if (model.errors === errorsMax) {
      model.codes.push(421)
      break
    }
  }
  return { words, codes: model.codes, taken: model.taken, outcomes: model.outcomes }
}

// Both

const conversation = fc.record({
  protocol: fc.constantFrom("SMTP" as const, "SMTP" as const, "LMTP" as const),
  commands: fc.array(command, { maxLength: 25, size: "max" }),
  cuts: fc.oneof(fc.constant<Array<number>>([]), fc.array(fc.nat(), { maxLength: 40, size: "max" }))
})

type Conversation = typeof conversation extends fc.Arbitrary<infer A> ? A : never

const play = Effect.fnUntraced(function* ({ protocol, commands, cuts }: Conversation) {
  const hello: Command = { _tag: "Hello", verb: protocol === "LMTP" ? "LHLO" : "EHLO" }
  const { words, codes, taken, outcomes } = expected([hello, ...commands], protocol)
  const core = recorder()
  const counted: Array<Outcome> = []
  const { address } = yield* Effect.provide(
    SmtpListener.listen({
      protocol,
      address: { host: "127.0.0.1", port: 0 },
      hostname: "mail.ours.test",
      sizeBytesMax,
      limits: { recipients: recipientsMax, errors: errorsMax },
      onMessage: (outcome) => Effect.sync(() => void counted.push(outcome))
    }),
    core.layer
  )
  const peer = yield* client(address)
  const heard: Array<number> = []

  let from = 0
  for (const cut of [...cuts.map((at) => at % (words.length + 1)).sort((left, right) => left - right), words.length]) {
    yield* peer.say(words.slice(from, cut))
    yield* Effect.yieldNow
    from = cut
  }
  peer.socket().end()
  for (let line = yield* peer.hear; line !== null; line = yield* peer.hear) if (line[3] !== "-") heard.push(Number(line.slice(0, 3)))

  assert.deepStrictEqual(heard, codes, JSON.stringify(words))
  assert.deepStrictEqual(core.taken.map(({ returnPath, recipients, text }) => `<${returnPath ?? ""}> ${recipients.join(" ")}: ${text}`), taken)
  assert.deepStrictEqual(counted, outcomes)
})

describe("SmtpListener", () => {
  it(`answers each command of ${runs} conversations, however they are cut, as a model of it does`, { timeout: 60_000 + runs * 100 }, () =>
    fc.assert(fc.asyncProperty(conversation, (made) => Effect.runPromise(Effect.scoped(play(made)))), { numRuns: runs, seed: 5321 })
  )
})
