/**
 * Messages a second handed to a mail server that keeps nothing, and what each
 * costs the sender: the provider that pipelines, the one over nodemailer's
 * connections, and nodemailer's own pooled transport with a finished message,
 * in turns, each over five connections. `BENCH_DELAY_MS` is how long the server
 * thinks about a message.
 */
import { Effect, Redacted, Stream } from "effect"
import { createTransport } from "nodemailer"
import { fork } from "node:child_process"
import { generateKeyPairSync } from "node:crypto"
import * as PipeliningSmtpMailProvider from "../adapters/smtp/PipeliningSmtpMailProvider.ts"
import * as SmtpMailProvider from "../adapters/smtp/SmtpMailProvider.ts"
import type { Address } from "../core/model/Address.ts"
import type { MessageId, TenantId } from "../core/model/Ids.ts"
import type { MailProvider, SubmitRequest } from "../core/ports/MailProvider.ts"
import { inRounds, ratios, report, scale } from "./Report.ts"

const count = scale.of(Number(process.env["BENCH_MESSAGES"] ?? 2_000), 100)
const inFlight = Number(process.env["BENCH_IN_FLIGHT"] ?? 64)
const sizeBytes = Number(process.env["BENCH_SIZE"] ?? 2_048)
const delayMs = process.env["BENCH_DELAY_MS"] ?? "0"
const connectionsMax = 5

interface Count {
  readonly messages: number
  readonly bytes: number
}

interface Figures {
  readonly perSecond: number
  readonly cpuMicros: number
}

const head = "From: Ada <ada@example.com>\r\nTo: charles@example.org\r\nSubject: Note G\r\nMIME-Version: 1.0\r\n\r\n"
const line = `${"The engine weaves algebraic patterns as the loom weaves flowers. ".slice(0, 62)}\r\n`
const message = Buffer.from(head + line.repeat(Math.max(1, Math.round((sizeBytes - head.length) / line.length))))
const [from, to] = ["bounces@example.com" as Address, "charles@example.org" as Address] // plain addresses
const request: SubmitRequest = {
  realm: { tenantId: crypto.randomUUID() as TenantId, environment: "production" }, // an id is a UUID
  messageId: crypto.randomUUID() as MessageId, // the same
  envelope: { returnPath: from, recipients: [to] },
  dkim: null,
  isWanted: () => true,
  sizeBytes: message.length,
  mime: Stream.make(message)
}

const sink = fork(`${import.meta.dirname}/reference/sink.ts`, ["--delay-ms", delayMs])
const said = () => new Promise<unknown>((resolve) => sink.once("message", resolve))
const counted = async (): Promise<Count> => {
  const answer = said()
  sink.send("count")
  return (await answer) as Count // what it sends
}
const port = Number(await said())

const measured = async (work: () => Promise<unknown>): Promise<Figures> => {
  const [cpu, begun] = [process.cpuUsage(), performance.now()]
  await work()
  const elapsed = performance.now() - begun
  const { user, system } = process.cpuUsage(cpu)
  const { messages } = await counted()
  if (messages !== count) throw new Error(`void: ${messages} of ${count} arrived`)
  return { perSecond: count / (elapsed / 1_000), cpuMicros: (user + system) / count }
}

/** As a worker does: so many submissions under way, each followed by the next. */
const submitAll = (provider: MailProvider) => {
  let left = count
  const one = Effect.suspend(() => {
    left -= 1
    return provider.submit(request)
  })
  const caller = Effect.whileLoop({ while: () => left > 0, body: () => one, step: () => undefined })
  return Effect.all(Array.from({ length: inFlight }, () => caller), { concurrency: "unbounded", discard: true })
}

const provided = (make: typeof SmtpMailProvider.make, options: Partial<SmtpMailProvider.Options> = {}) =>
  measured(() =>
    Effect.runPromise(
      Effect.scoped(Effect.flatMap(make({ host: "127.0.0.1", port, tls: "none", connectionsMax, ...options }), submitAll))
    )
  )

const transported = async (): Promise<Figures> => {
  const transport = createTransport({
    pool: true,
    host: "127.0.0.1",
    port,
    secure: false,
    ignoreTLS: true,
    maxConnections: connectionsMax,
    maxMessages: SmtpMailProvider.defaults.messagesPerConnectionMax
  })
  let left = count
  const caller = async () => {
    while (left > 0) {
      left -= 1
      await transport.sendMail({ envelope: { from, to }, raw: message })
    }
  }
  try {
    return await measured(() => Promise.all(Array.from({ length: inFlight }, caller)))
  } finally {
    transport.close()
  }
}

const dkim = (type: "rsa" | "ed25519") => {
  const privateKey = type === "rsa" ? generateKeyPairSync("rsa", { modulusLength: 2_048 }).privateKey : generateKeyPairSync("ed25519").privateKey
  const pem = privateKey.export({ type: "pkcs8", format: "pem" }).toString()
  return { dkim: [{ domain: "example.com", selector: "s", privateKey: Redacted.make(pem) }] }
}
const [rsa, ed25519] = [dkim("rsa"), dkim("ed25519")]

const ways = {
  "pipelining": () => provided(PipeliningSmtpMailProvider.make),
  "over nodemailer's connection": () => provided(SmtpMailProvider.make),
  "nodemailer's pool": transported,
  "pipelining, Ed25519": () => provided(PipeliningSmtpMailProvider.make, ed25519),
  "pipelining, RSA 2048": () => provided(PipeliningSmtpMailProvider.make, rsa)
}
type Way = keyof typeof ways
const names = Object.keys(ways) as ReadonlyArray<Way>

try {
  const rounds = await inRounds(async () => {
    const found: Partial<Record<Way, Figures>> = {}
    for (const name of names) found[name] = await ways[name]()
    return found as Record<Way, Figures> // each was run
  }, names.map((name) => ways[name]))
  const of = (name: Way, key: keyof Figures) => rounds.map((round) => round[name][key])
  const beside = (key: keyof Figures) => ratios(rounds, (round) => round["pipelining"][key], (round) => round["nodemailer's pool"][key])
  report({
    name: "smtp",
    about: `${count} messages of ${message.length} bytes handed over, ${connectionsMax} connections, ${inFlight} in flight, the server thinks ${delayMs} ms, beside nodemailer's pool.`,
    ratios: [
      { path: "handing over: rate / nodemailer's pool", better: "higher", floor: 2, goal: 4, values: beside("perSecond") },
      { path: "handing over: CPU / nodemailer's pool", better: "lower", floor: 0.5, goal: 0.2, values: beside("cpuMicros") }
    ],
    figures: names.flatMap((name) => [
      { name: `${name}: rate`, unit: "messages/s", values: of(name, "perSecond") },
      { name: `${name}: CPU`, unit: "µs a message", values: of(name, "cpuMicros") }
    ])
  })
} finally {
  sink.kill()
}
