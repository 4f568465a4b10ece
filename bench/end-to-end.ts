/**
 * From `POST /v1/messages` to the mail server that takes the message, sustained:
 * accepted durably, built, submitted, recorded, with its events. Beside Postfix
 * as a durable relay: SMTP in, its queue on the disk, SMTP out to the same
 * server. Both take the same number of 2 KB messages over as many connections.
 */
import { randomUUID } from "node:crypto"
import { existsSync } from "node:fs"
import * as Outbox from "./Outbox.ts"
import { kilobyte, letter, sleep } from "./Api.ts"
import * as Copies from "./Copies.ts"
import * as Deployment from "./Deployment.ts"
import { run } from "./Load.ts"
import * as Postfix from "./reference/Postfix.ts"
import { inRounds, ratios, report, scale, turn } from "./Report.ts"
import * as Sink from "./Sink.ts"

const durationMs = scale.of(2_000, 0)
const connections = 32

const sink = await Sink.cheapest()
const product = await Deployment.open({
  workers: 1,
  variables: Sink.variablesFor(sink.port)
})
const hasPostfix = process.getuid?.() === 0 && existsSync("/usr/sbin/smtp-source")
const postfix = hasPostfix && !scale.isSmoke ? await Postfix.open(sink.port) : null
if (postfix === null && !scale.isSmoke) throw new Error("the reference is Postfix: install the package postfix, and run this as root")
const url = product.database.url("postgres")
const body = JSON.stringify(letter(product.production, kilobyte))

interface Figures {
  readonly perSecond: number
  readonly cpuMicros: number
}

const ours = async (): Promise<Figures & { readonly count: number }> => {
  const [begun, cpu] = [performance.now(), product.cpu()]
  const { requests } = await run({
    base: new URL(product.baseUrl),
    cpu: product.cpu,
    connections,
    durationMs,
    expected: 202,
    request: () => ({
      method: "POST",
      path: "/v1/messages",
      headers: { "authorization": `Bearer ${product.production.apiKey}`, "content-type": "application/json", "idempotency-key": randomUUID() },
      body
    })
  })
  await Outbox.drained(url)
  return {
    count: requests,
    perSecond: (requests * 1_000) / (performance.now() - begun),
    cpuMicros: ((product.cpu() - cpu) * 1_000) / requests
  }
}

const relayed = async ({ port, isBusy, lastWords, cpu }: Postfix.Postfix, count: number): Promise<Figures> => {
  const [begun, before] = [performance.now(), cpu()]
  await Postfix.submit(port, count, connections, 2_048)
  while (isBusy()) {
    if (performance.now() - begun > 120_000) throw new Error(`void: Postfix does not hand on what it took\n${lastWords()}`)
    await sleep(20)
  }
  return { perSecond: (count * 1_000) / (performance.now() - begun), cpuMicros: ((cpu() - before) * 1_000) / count }
}

try {
  await turn()
  const rounds = await inRounds(async () => {
    const mailroom = await ours()
    return { mailroom, postfix: postfix === null ? mailroom : await relayed(postfix, mailroom.count) }
  }, postfix === null ? [ours] : [ours, () => relayed(postfix, 1_000)])
  await Copies.checkSent(url)
  const each = (who: "mailroom" | "postfix", key: keyof Figures) => rounds.map((round) => round[who][key])
  report({
    name: "end-to-end",
    about: `POST to ${sink.name}, ${connections} connections, until the last message is there, beside ${postfix === null ? "itself" : "Postfix relaying as many"}.`,
    ratios: [
      {
        path: "POST to sink, sustained / Postfix",
        better: "higher",
        floor: 1,
        goal: 2,
        values: ratios(rounds, ({ mailroom }) => mailroom.perSecond, ({ postfix }) => postfix.perSecond)
      }
    ],
    figures: [
      { name: "ours: rate", unit: "messages/s", values: each("mailroom", "perSecond") },
      { name: "ours: CPU, serve, worker and Postgres", unit: "µs a message", values: each("mailroom", "cpuMicros") },
      { name: "Postfix: rate", unit: "messages/s", values: each("postfix", "perSecond") },
      { name: "Postfix: CPU", unit: "µs a message", values: each("postfix", "cpuMicros") }
    ]
  })
} finally {
  postfix?.stop()
  await product.stop()
  sink.stop()
}
