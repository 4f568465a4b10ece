/**
 * Messages with a file of 10 MB: out by one worker, beside nodemailer's pool
 * building and submitting the same with no database; in by `mailroom smtp`, 250
 * after the commit, beside npm smtp-server with one INSERT a message; read by
 * the worker, which keeps the file as an attachment and scans it; and the file
 * downloaded, beside node:http that has it in memory. All in processor time for
 * each megabyte of the file.
 */
import { randomBytes, randomUUID } from "node:crypto"
import { createTransport } from "nodemailer"
import { call, kilobyte, letter, sleep, type Caller } from "./Api.ts"
import * as Copies from "./Copies.ts"
import * as Deployment from "./Deployment.ts"
import * as Listener from "./Listener.ts"
import * as Outbox from "./Outbox.ts"
import { start } from "./Process.ts"
import { cpuMs, forgetPeak, peakMiB, residentMiB } from "./Processor.ts"
import { inRounds, ratios, report, scale, turn } from "./Report.ts"
import * as Sink from "./Sink.ts"

const sizeBytes = scale.of(10_000_000, 200_000)
const count = scale.of(12, 2)
const megabytes = (sizeBytes * count) / 1e6

const sink = await Sink.cheapest()
const product = await Deployment.open({ workers: 1, variables: Sink.variablesFor(sink.port) })
const listener = await Listener.start(product.variables)
const pool = await start("reference/nodemailer-pool.ts", String(sink.port), String(sizeBytes))
const smtpServer = await start("reference/smtp-insert.ts", product.database.url("postgres"))
const http = await start("reference/download.ts", String(sizeBytes))

const url = product.database.url("postgres")
const [serve] = product.cluster.serves
const [worker] = product.cluster.workers
const file = randomBytes(sizeBytes)

const expect = async (status: number, caller: Caller, method: string, path: string, options: Parameters<typeof call>[4] = {}) => {
  const reply = await call(product.baseUrl, caller.apiKey, method, path, { timeoutMs: 60_000, ...options })
  if (reply?.status !== status) throw new Error(`void: answered ${reply?.status} ${JSON.stringify(reply?.json)}`)
  return reply.json
}

/** Until nothing that came in waits to be read, and no file to be scanned. */
const read = (): Promise<void> =>
  Copies.connected(url, async (client) => {
    const waiting = "select count(*)::int as jobs from mailroom.job where kind in ('parse', 'scan')"
    while ((await client.query<{ jobs: number }>(waiting)).rows[0]?.jobs !== 0) await sleep(20)
  })

/** Processor time of a process, and of PostgreSQL, in milliseconds for each megabyte. */
const spent = async (pid: number, work: () => Promise<void>) => {
  const [before, postgres] = [cpuMs(pid), product.database.cpu()]
  await work()
  return { process: (cpuMs(pid) - before) / megabytes, postgres: (product.database.cpu() - postgres) / megabytes }
}
const both = (of: { readonly process: number; readonly postgres: number }) => of.process + of.postgres

/** Over four connections. */
const bring = async (port: number): Promise<void> => {
  const transport = createTransport({ host: "127.0.0.1", port, secure: false, ignoreTLS: true, pool: true, maxConnections: 4 })
  const one = () =>
    transport.sendMail({
      from: "ada@client.example",
      to: "ada@bench.example",
      subject: "Note G",
      text: kilobyte,
      attachments: [{ filename: "file.bin", contentType: "application/octet-stream", content: file }]
    })
  try {
    await Promise.all(Array.from({ length: count }, one))
  } finally {
    transport.close()
  }
}

const sent = async (attachmentId: string) => {
  worker!.signal("SIGSTOP")
  for (let index = 0; index < count; index++) {
    const body = { ...letter(product.production, kilobyte), attachmentIds: [attachmentId] }
    await expect(202, product.production, "POST", "/v1/messages", { body, headers: { "idempotency-key": randomUUID() } })
  }
  return spent(worker!.pid!, async () => {
    worker!.signal("SIGCONT")
    await Outbox.drained(url)
  })
}

const received = async () => {
  worker!.signal("SIGSTOP")
  const taken = await spent(listener.pid, () => bring(listener.port))
  const kept = await spent(worker!.pid!, async () => {
    worker!.signal("SIGCONT")
    await read()
  })
  return { taken, kept }
}

const downloads = async (baseUrl: string, path: string): Promise<void> => {
  for (let index = 0; index < count; index++) {
    const response = await fetch(`${baseUrl}${path}`, { headers: { authorization: `Bearer ${product.production.apiKey}` } })
    const { contentBase64 } = (await response.json()) as { readonly contentBase64?: string } // or it is void
    if (response.status !== 200 || contentBase64?.length !== Math.ceil(sizeBytes / 3) * 4) throw new Error(`void: answered ${response.status}`)
  }
}

try {
  const uploaded = await expect(201, product.production, "POST", "/v1/attachments", {
    body: { mailboxId: product.production.mailboxId, filename: "file.bin", mediaType: "application/octet-stream", contentBase64: file.toString("base64") }
  })
  const id = String(uploaded["attachment"].id)
  await read() // it is clean
  await turn()

  const pids = { worker: worker!.pid!, listener: listener.pid }
  const idleMiB = { worker: residentMiB(pids.worker), listener: residentMiB(pids.listener) }
  const round = async () => {
    forgetPeak(pids.worker)
    forgetPeak(pids.listener)
    return {
      nodemailer: ((await pool.ask(count)) as { readonly cpuMicros: number }).cpuMicros / 1_000 / (sizeBytes / 1e6), // what it tells
      sent: await sent(id),
      smtpServer: await spent(smtpServer.pid, () => bring(Number(smtpServer.ready["port"]))),
      received: await received(),
      http: await spent(http.pid, () => downloads(http.ready["baseUrl"]!, "/")),
      downloaded: await spent(serve!.pid!, () => downloads(product.baseUrl, `/v1/attachments/${id}/download`)),
      grownMiB: { worker: peakMiB(pids.worker) - idleMiB.worker, listener: peakMiB(pids.listener) - idleMiB.listener }
    }
  }
  const rounds = await inRounds(round)
  await Copies.checkSent(url)
  const figure = (name: string, of: (round: (typeof rounds)[number]) => number, unit = "ms a MB") => ({ name, unit, values: rounds.map(of) })
  report({
    name: "files",
    about: `${count} messages with a file of ${sizeBytes / 1e6} MB: out to ${sink.name}, beside nodemailer's pool of 5 connections without a database; in, beside npm smtp-server with one INSERT a message; and the file downloaded, beside node:http that has it in memory.`,
    ratios: [
      { path: "out: CPU, worker and Postgres", better: "lower", floor: 4.5, goal: 2.5, values: ratios(rounds, (round) => both(round.sent), (round) => round.nodemailer) },
      { path: "in: CPU, smtp and Postgres", better: "lower", floor: 1, goal: 0.5, values: ratios(rounds, (round) => both(round.received.taken), (round) => both(round.smtpServer)) },
      { path: "downloaded: CPU, serve and Postgres", better: "lower", floor: 4, goal: 2, values: ratios(rounds, (round) => both(round.downloaded), (round) => round.http.process) }
    ],
    figures: [
      figure("out: worker", (round) => round.sent.process),
      figure("out: Postgres", (round) => round.sent.postgres),
      figure("out: nodemailer", (round) => round.nodemailer),
      figure("in: smtp", (round) => round.received.taken.process),
      figure("in: Postgres", (round) => round.received.taken.postgres),
      figure("in: smtp-server", (round) => round.smtpServer.process),
      figure("in: Postgres of smtp-server", (round) => round.smtpServer.postgres),
      figure("read and scanned: worker", (round) => round.received.kept.process),
      figure("read and scanned: Postgres", (round) => round.received.kept.postgres),
      figure("downloaded: serve", (round) => round.downloaded.process),
      figure("downloaded: Postgres", (round) => round.downloaded.postgres),
      figure("downloaded: node:http", (round) => round.http.process),
      figure("peak memory of the worker over idle", (round) => round.grownMiB.worker, "MiB"),
      figure("peak memory of smtp over idle", (round) => round.grownMiB.listener, "MiB")
    ]
  })
} finally {
  for (const one of [pool, smtpServer, http, listener]) await one.stop()
  await product.stop()
  sink.stop()
}
