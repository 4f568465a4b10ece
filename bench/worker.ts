/**
 * How fast one worker drains a backlog of 2 KB messages with text and HTML to a
 * mail server on this machine, beside nodemailer's pool building and submitting
 * the same message, with no database, to the same server. PostgreSQL has counted
 * the queue while it was empty, as it does in a quiet hour, and makes its plans by
 * that; beside it is a backlog that was counted when it was there.
 */
import * as Outbox from "./Outbox.ts"
import { kilobyte, send } from "./Api.ts"
import * as Copies from "./Copies.ts"
import * as Deployment from "./Deployment.ts"
import { start } from "./Process.ts"
import { cpuMs } from "./Processor.ts"
import { inRounds, ratios, report, scale, turn } from "./Report.ts"
import * as Sink from "./Sink.ts"

const count = scale.of(2_000, 50)

const sink = await Sink.cheapest()
const product = await Deployment.open({
  workers: 1,
  variables: Sink.variablesFor(sink.port)
})
const url = product.database.url("postgres")
const [worker] = product.cluster.workers
const reference = await start("reference/nodemailer-pool.ts", String(sink.port))
try {
  const model = await send(product.baseUrl, product.production, kilobyte)
  await Outbox.drained(url) // the worker works
  await turn()

  const countJobs = () => Copies.connected(url, (client) => client.query("vacuum (analyze, truncate false) mailroom.job"))
  const drain = async (counted: "while empty" | "when there") => {
    worker!.signal("SIGSTOP")
    if (counted === "while empty") await countJobs()
    await Outbox.queueCopies(url, model, count)
    if (counted === "when there") await countJobs()
    const before = { worker: cpuMs(worker!.pid!), postgres: product.database.cpu() }
    const begun = performance.now()
    worker!.signal("SIGCONT")
    await Outbox.drained(url)
    return {
      perSecond: (count * 1000) / (performance.now() - begun),
      workerMicros: ((cpuMs(worker!.pid!) - before.worker) * 1000) / count,
      postgresMicros: ((product.database.cpu() - before.postgres) * 1000) / count
    }
  }
  const pool = async () => (await reference.ask(count)) as { readonly perSecond: number; readonly cpuMicros: number } // what it tells
  const rounds = await inRounds(
    async () => ({ nodemailer: await pool(), ours: await drain("while empty"), known: await drain("when there") }),
    [pool, () => drain("while empty")]
  )
  await Copies.checkSent(url)
  const ofBoth = (round: (typeof rounds)[number]) => round.ours.workerMicros + round.ours.postgresMicros
  report({
    name: "worker",
    about: `One worker drains ${count} messages of 2 KB to ${sink.name}, beside nodemailer's pool of 5 connections without a database. PostgreSQL counted the queue while it was empty, beside a backlog that it counted.`,
    ratios: [
      {
        path: "worker: rate / nodemailer pool",
        better: "higher",
        floor: 0.8,
        goal: 1.5,
        values: ratios(rounds, ({ ours }) => ours.perSecond, ({ nodemailer }) => nodemailer.perSecond)
      },
      {
        path: "worker: CPU, worker and Postgres / nodemailer pool",
        better: "lower",
        floor: 1.6,
        goal: 0.9,
        values: ratios(rounds, ofBoth, ({ nodemailer }) => nodemailer.cpuMicros)
      },
      {
        path: "worker: CPU of Postgres / where it counted the backlog",
        better: "lower",
        floor: 1.5,
        goal: 1.1,
        values: ratios(rounds, ({ ours }) => ours.postgresMicros, ({ known }) => known.postgresMicros)
      }
    ],
    figures: [
      { name: "ours: rate", unit: "messages/s", values: rounds.map(({ ours }) => ours.perSecond) },
      { name: "ours: CPU of the worker", unit: "µs a message", values: rounds.map(({ ours }) => ours.workerMicros) },
      { name: "ours: CPU of Postgres", unit: "µs a message", values: rounds.map(({ ours }) => ours.postgresMicros) },
      { name: "ours, backlog counted: rate", unit: "messages/s", values: rounds.map(({ known }) => known.perSecond) },
      { name: "ours, backlog counted: CPU of Postgres", unit: "µs a message", values: rounds.map(({ known }) => known.postgresMicros) },
      { name: "nodemailer pool: rate", unit: "messages/s", values: rounds.map(({ nodemailer }) => nodemailer.perSecond) },
      { name: "nodemailer pool: CPU", unit: "µs a message", values: rounds.map(({ nodemailer }) => nodemailer.cpuMicros) }
    ]
  })
} finally {
  await reference.stop()
  await product.stop()
  sink.stop()
}
