/**
 * How fast a worker hands messages over with a million of them queued, and with
 * twenty thousand, and what memory it takes meanwhile: each over a server, a
 * worker and a sink of its own. While the one is measured the other stands still.
 */
import { send, sleep } from "./Api.ts"
import { Supervised } from "./Cluster.ts"
import * as Copies from "./Copies.ts"
import * as Deployment from "./Deployment.ts"
import { cpuMs, peakMiB, residentMiB } from "./Processor.ts"
import { inRounds, ratios, report, scale, turn } from "./Report.ts"
import * as Sink from "./Sink.ts"

const many = Number(process.env["BENCH_JOBS"] ?? scale.of(1_000_000, 3_000))
const few = scale.of(20_000, 1_000)
const durationMs = scale.of(1_500, 100)
/** Not counted; in a smoke round all is, or a machine that stands still would have nothing left to count. */
const settleMs = scale.of(200, 0)

/** Filled, with a worker that has not been started. */
const open = async (count: number) => {
  const sink = await Sink.start()
  const product = await Deployment.open({ database: Copies.settings, variables: sink.variables })
  const url = product.database.url("postgres")
  const worker = () => new Supervised("worker", ["worker"], product.variables, product.cluster.folder)
  const pattern = await send(product.baseUrl, product.production)
  await Copies.keepPattern(url, pattern)
  // The first worker has nothing to do but this one message.
  const first = worker()
  first.start()
  while ((await sink.counted()) === 0) await sleep(20)
  await sleep(scale.of(1_500, 100))
  const idleMiB = residentMiB(first.pid!)
  await first.stop()
  await Copies.queueMessages(url, count)
  return { product, sink, url, idleMiB, worker: worker() }
}

type Side = Awaited<ReturnType<typeof open>>

const begin = async ({ sink, url, worker }: Side): Promise<void> => {
  worker.start()
  let handed = 0
  while (handed === 0) {
    await sleep(20)
    handed = await sink.counted()
  }
  worker.signal("SIGSTOP")
  await Copies.queueMessages(url, handed)
}

/** Messages a second for a while; afterwards as many are queued as before. */
const drain = async ({ product, sink, url, worker, idleMiB }: Side) => {
  const cpu = () => product.cpu() + cpuMs(worker.pid!)
  worker.signal("SIGCONT")
  await sleep(settleMs)
  const before = settleMs === 0 ? 0 : await sink.counted()
  const [cpuBefore, begun] = [cpu(), performance.now()]
  let handed = 0
  // However slow the machine, a smoke round ends once it has seen a message.
  do {
    await sleep(durationMs)
    handed = await sink.counted()
  } while (handed === 0 && scale.isSmoke && performance.now() - begun < 20_000)
  const [elapsed, used] = [performance.now() - begun, cpu() - cpuBefore]
  worker.signal("SIGSTOP")
  if (handed === 0) throw new Error(`void: nothing was handed over\n${worker.tail(5)}`)
  await Copies.queueMessages(url, before + handed + (await sink.counted()))
  return { perSecond: handed / (elapsed / 1_000), cpuMicros: (used * 1_000) / handed, grownMiB: peakMiB(worker.pid!) - idleMiB }
}

const [small, big] = await Promise.all([open(few), open(many)])
try {
  await turn()
  await begin(small)
  await begin(big)
  const rounds = await inRounds(async () => ({ small: await drain(small), big: await drain(big) }))
  for (const { worker, url } of [small, big]) {
    await worker.stop()
    await Copies.checkSent(url)
  }
  const figures = (name: string, side: "small" | "big") => [
    { name: `${name}: rate`, unit: "messages/s", values: rounds.map((round) => round[side].perSecond) },
    { name: `${name}: CPU, app and Postgres`, unit: "µs a message", values: rounds.map((round) => round[side].cpuMicros) },
    { name: `${name}: the worker's peak memory over idle`, unit: "MiB", values: rounds.map((round) => round[side].grownMiB) }
  ]
  report({
    name: "claims",
    about: `A worker hands a backlog to a sink: ${many} messages queued, beside ${few} queued; filled up again after each round.`,
    ratios: [
      { path: `${many} queued beside ${few}: rate`, better: "higher", floor: 0.6, goal: 0.8, values: ratios(rounds, ({ big }) => big.perSecond, ({ small }) => small.perSecond) },
      { path: `${many} queued: growth of the worker's memory`, better: "lower", floor: 128, goal: 32, unit: "MiB", values: rounds.map(({ big }) => big.grownMiB) }
    ],
    figures: [...figures(`${few} queued`, "small"), ...figures(`${many} queued`, "big")]
  })
} finally {
  for (const { product, sink, worker } of [small, big]) {
    await worker.stop()
    await product.stop()
    sink.stop()
  }
}
