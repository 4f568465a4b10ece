/**
 * Processor time to build one message of two kilobytes, text and HTML, into
 * bytes: through the Mime port, its stream run to the end; and beside it, in
 * the same rounds, nodemailer's MailComposer with the same fields and bodies.
 */
import { Effect, Stream } from "effect"
import MailComposer from "nodemailer/lib/mail-composer"
import * as RfcMime from "../adapters/mime/RfcMime.ts"
import * as Fixtures from "../conformance/fixtures.ts"
import { Mime } from "../core/ports/Mime.ts"
import { inRounds, ratios, report, scale } from "./Report.ts"

const messages = scale.of(10_000, 20)

const sentence = "The engine weaves algebraic patterns just as the Jacquard loom weaves flowers and leaves."
const lines = Array.from({ length: 10 }, (_, index) => `${index + 1}. ${sentence}`)
const bodies = {
  text: lines.join("\n"),
  html: `<!doctype html>\n<html><body>\n${lines.map((line) => `<p class="note">${line}</p>`).join("\n")}\n</body></html>\n`
}
const message = Fixtures.message(Fixtures.realm(), { subject: "Your notes on the Analytical Engine, volume 7" })
const content = Fixtures.content(message, bodies)

const mime = await Effect.runPromise(Effect.provide(Mime, RfcMime.layer))

/** As a job does it: the stream is run, and each chunk handed on. */
const ours = Effect.gen(function* () {
  let size = 0
  yield* Stream.runForEach(mime.build(message, content, []), (chunk) => Effect.sync(() => void (size += chunk.length)))
  return size
})

const theirs = async (): Promise<number> => {
  const composer = new MailComposer({
    from: message.from,
    to: message.recipients.map(({ address }) => address),
    subject: message.subject,
    messageId: message.internetMessageId,
    date: new Date(message.acceptedAt),
    ...bodies
  })
  return (await composer.compile().build()).length
}

const cpuOf = async (work: () => Promise<number>) => {
  const sizes = new Set([await work()])
  const before = process.cpuUsage()
  for (let count = 0; count < messages; count++) sizes.add(await work())
  const { user, system } = process.cpuUsage(before)
  if (sizes.size !== 1) throw new Error("void: one message had several sizes")
  return { micros: (user + system) / messages, bytes: Math.max(...sizes) }
}

const runOurs = () => Effect.runPromise(ours)

const rounds = await inRounds(async () => ({ ours: await cpuOf(runOurs), theirs: await cpuOf(theirs) }), [() => cpuOf(runOurs), () => cpuOf(theirs)])

report({
  name: "mime",
  about: `A message of ${Buffer.byteLength(bodies.text) + Buffer.byteLength(bodies.html)} bytes of text and HTML built through the Mime port, beside nodemailer's MailComposer.`,
  ratios: [
    {
      path: "CPU of building a message / MailComposer",
      better: "lower",
      floor: 0.2,
      goal: 0.06,
      values: ratios(rounds, ({ ours }) => ours.micros, ({ theirs }) => theirs.micros)
    }
  ],
  figures: [
    { name: "ours", unit: "µs a message", values: rounds.map(({ ours }) => ours.micros) },
    { name: "MailComposer", unit: "µs a message", values: rounds.map(({ theirs }) => theirs.micros) }
  ]
})
