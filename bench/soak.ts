/**
 * Ten minutes (`BENCH_SOAK_MINUTES`) of messages at half the rate that the
 * deployment was just seen to take from the request to the sink and to a webhook
 * receiver that hears of each twice, with memory, open files and connections of
 * its processes looked at every ten seconds.
 *
 * Flat means: over the second half, memory in use rises by less than what
 * keeping anything for each message would cost. 64 bytes are a key and a place
 * in a map; a message keeps more than that if it is kept at all. What is in use
 * is looked at halfway and at the end; between that, memory goes up and down as
 * V8 decides, which is drawn, and no leak. A heap takes its first minutes to
 * find its size: so a shorter run shows that it works, is not judged, and not
 * kept.
 */
import { randomUUID } from "node:crypto"
import { call, sleep } from "./Api.ts"
import * as Copies from "./Copies.ts"
import * as Deployment from "./Deployment.ts"
import * as InUse from "./InUse.ts"
import { run, type Request } from "./Load.ts"
import { openFiles, postgresMiB, privateMiB } from "./Processor.ts"
import { startReceivers } from "./receiver.ts"
import { report, scale, turn } from "./Report.ts"
import * as Sink from "./Sink.ts"

const fullMs = 10 * 60_000
const totalMs = scale.of(Number(process.env["BENCH_SOAK_MINUTES"] ?? 10) * 60_000, 3_000)
const everyMs = scale.of(Math.min(10_000, totalMs / 24), 300)
const keptBytes = 64
/** What its receiver hears of each message. */
const eventTypes = ["message.queued", "message.sent"]
const noiseMiB = 4

interface Sample {
  readonly seconds: number
  readonly serveMiB: number
  readonly workerMiB: number
  readonly postgresMiB: number
  readonly serveFiles: number
  readonly workerFiles: number
  readonly connections: number
  readonly waiting: number
}

const sink = await Sink.start()
const receivers = await startReceivers(1)
const inUse = InUse.open()
const product = await Deployment.open({ workers: 1, variables: { ...sink.variables, ...inUse.variables } })
try {
  const subscribed = await call(product.baseUrl, product.production.apiKey, "POST", "/v1/webhook-endpoints", { body: { url: receivers.urls[0], eventTypes } })
  if (subscribed?.status !== 201) throw new Error(`void: ${subscribed?.status} ${JSON.stringify(subscribed?.json)}`)
  const url = product.database.url("postgres")
  const words = "The engine weaves algebraic patterns. ".repeat(25)
  const body = JSON.stringify({ fromMailboxId: product.production.mailboxId, to: ["charles@example.com"], subject: "Note G", text: words, html: `<p>${words}</p>` })
  const request = (): Request => ({
    method: "POST",
    path: "/v1/messages",
    headers: { "authorization": `Bearer ${product.production.apiKey}`, "content-type": "application/json", "idempotency-key": randomUUID() },
    body
  })
  /** One after the other over each connection, and no more than so many a second. */
  const sendFor = (durationMs: number, connections: number, perSecond = Infinity) =>
    run({ base: new URL(product.baseUrl), cpu: () => 0, connections, durationMs, expected: 202, request, perSecond })

  let handed = 0
  const drained = async (accepted: number) => {
    let heard = 0
    for (let waited = 0; handed < accepted || heard < accepted * eventTypes.length; waited += 50) {
      const missing = `${handed} of ${accepted} messages arrived, and ${heard} of ${accepted * eventTypes.length} webhooks`
      if (waited > scale.of(120_000, 20_000)) throw new Error(`void: ${missing}\n${product.cluster.workers[0]!.tail(3)}`)
      await sleep(50)
      handed += await sink.counted()
      heard = (await receivers.received()).answered
    }
  }
  const countAnew = async () => {
    handed = 0
    await receivers.behave({ delayMs: 0, hanging: 0 })
  }
  /** Messages a second from the first request to the last hand-over and the last webhook. */
  const measure = async (durationMs: number) => {
    await countAnew()
    const begun = performance.now()
    const { requests } = await sendFor(durationMs, 16)
    await drained(requests)
    return requests / ((performance.now() - begun) / 1_000)
  }
  await turn()
  await measure(scale.of(3_000, 500)) // warm-up
  const most = await measure(scale.of(10_000, 1_000))
  const perSecond = most / 2
  process.stderr.write(`${most.toFixed(0)} messages a second were taken; ${(totalMs / 60_000).toFixed(1)} minutes at ${perSecond.toFixed(0)}\n`)

  await countAnew()
  const samples: Array<Sample> = []
  /** Halfway, and at the end. */
  const uses: Array<{ readonly seconds: number; readonly serve: InUse.InUse; readonly worker: InUse.InUse }> = []
  const [oneServe, oneWorker] = [product.cluster.serves[0]!, product.cluster.workers[0]!]
  const [serve, worker] = [oneServe.pid!, oneWorker.pid!]
  const begun = performance.now()
  const lookAtUse = async () => {
    const [serve, worker] = [await inUse.of(oneServe), await inUse.of(oneWorker)]
    uses.push({ seconds: (performance.now() - begun) / 1_000, serve, worker })
    const said = ({ allMiB, heapMiB }: InUse.InUse) => `${allMiB.toFixed(0)} MiB (${heapMiB.toFixed(0)} of the heap)`
    process.stderr.write(`in use: serve ${said(serve)}, worker ${said(worker)}\n`)
  }
  const over = new AbortController()
  const look = Copies.connected(url, async (client) => {
    for (;;) {
      const isLast = over.signal.aborted
      handed += await sink.counted()
      const { rows } = await client.query<{ connections: string; waiting: string }>(
        "select (select count(*) from pg_stat_activity where backend_type = 'client backend') as connections, (select count(*) from mailroom.job) as waiting"
      )
      samples.push({
        seconds: (performance.now() - begun) / 1_000,
        serveMiB: privateMiB(serve),
        workerMiB: privateMiB(worker),
        postgresMiB: postgresMiB(product.database.folder),
        serveFiles: openFiles(serve),
        workerFiles: openFiles(worker),
        connections: Number(rows[0]!.connections),
        waiting: Number(rows[0]!.waiting)
      })
      const { seconds, serveMiB, workerMiB, waiting } = samples.at(-1)!
      process.stderr.write(`${seconds.toFixed(0)} s: serve ${serveMiB.toFixed(0)} MiB, worker ${workerMiB.toFixed(0)} MiB, ${waiting} jobs\n`)
      if (isLast || (uses.length === 0 && seconds >= totalMs / 2_000)) await lookAtUse()
      if (isLast) return
      await sleep(everyMs)
    }
  })
  const sending = sendFor(totalMs, 16, perSecond).finally(() => over.abort())
  const [{ requests }] = await Promise.all([sending, look])
  await drained(requests)
  await Copies.checkSent(url)
  if (oneServe.pid !== serve || oneWorker.pid !== worker) throw new Error("void: a process ended meanwhile")

  const half = samples.filter(({ seconds }) => seconds >= totalMs / 2_000)
  const halfSeconds = half.at(-1)!.seconds - half[0]!.seconds
  /** What a straight line through the second half rises by. */
  const rise = (key: keyof Sample): number => {
    const meanX = mean(half.map(({ seconds }) => seconds))
    const meanY = mean(half.map((sample) => sample[key]))
    const above = half.reduce((sum, sample) => sum + (sample.seconds - meanX) * (sample[key] - meanY), 0)
    const below = half.reduce((sum, { seconds }) => sum + (seconds - meanX) ** 2, 0)
    return below === 0 ? 0 : (above / below) * halfSeconds
  }
  const [halfway, end] = [uses[0]!, uses.at(-1)!]
  const memoryMax = Math.round(noiseMiB + (keptBytes * perSecond * (end.seconds - halfway.seconds)) / 1_048_576)
  const bounded = (path: string, rose: number, bound: number, unit: string) =>
    ({ path, better: "lower", floor: bound, goal: bound, unit, values: [rose] }) as const
  report({
    name: "soak",
    about: `${(totalMs / 60_000).toFixed(1)} minutes of messages, each with two webhooks, at half the rate that was taken just before; what rose over the second half. Memory in use is what a process has of its own once its garbage is collected, without V8's free room, and the C library gives back what is freed, where it would keep some 80 MiB else; it may rise by ${noiseMiB} MiB, and ${keptBytes} bytes for each message sent meanwhile. Files and connections are by a line through the samples.`,
    ratios: [
      bounded("serve: memory in use rose by", end.serve.allMiB - halfway.serve.allMiB, memoryMax, "MiB"),
      bounded("worker: memory in use rose by", end.worker.allMiB - halfway.worker.allMiB, memoryMax, "MiB"),
      bounded("serve: open files rose by", rise("serveFiles"), 2, "files"),
      bounded("worker: open files rose by", rise("workerFiles"), 2, "files"),
      bounded("connections to PostgreSQL rose by", rise("connections"), 2, "connections")
    ],
    figures: [
      { name: "taken at most", unit: "messages/s", values: [most] },
      { name: "sent", unit: "messages/s", values: [requests / (totalMs / 1_000)] },
      ...(["serve", "worker"] as const).flatMap((name) => [
        { name: `${name}: memory in use, halfway and at the end`, unit: "MiB", values: uses.map((use) => use[name].allMiB) },
        { name: `${name}: V8's heap in use, halfway and at the end`, unit: "MiB", values: uses.map((use) => use[name].heapMiB) }
      ]),
      ...(
        [
          ["serve: memory", "serveMiB", "MiB"],
          ["worker: memory", "workerMiB", "MiB"],
          ["PostgreSQL: memory but the shared", "postgresMiB", "MiB"],
          ["serve: open files", "serveFiles", "files"],
          ["worker: open files", "workerFiles", "files"],
          ["connections to PostgreSQL", "connections", "connections"],
          ["jobs waiting", "waiting", "jobs"]
        ] as const
      ).map(([name, key, unit]) => ({ name, unit, values: half.map((sample) => Math.round(sample[key] * 10) / 10) }))
    ],
    series: (["serveMiB", "workerMiB"] as const).map((key) => ({
      name: key === "serveMiB" ? "serve" : "worker",
      unit: "MiB",
      points: samples.map((sample) => [Math.round(sample.seconds), Math.round(sample[key] * 10) / 10] as const)
    }))
  }, totalMs >= fullMs)
} finally {
  await product.stop()
  receivers.stop()
  sink.stop()
  inUse.close()
}

function mean(values: ReadonlyArray<number>): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}
