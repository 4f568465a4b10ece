/**
 * Two workers beside one where others are what takes the time: a mail server
 * that thinks 50 ms about each message, then webhook receivers that take long
 * enough that a worker has all its places busy with waiting. Eight tenants send.
 */
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { json } from "node:stream/consumers"
import { call, chance, send, sleep } from "./Api.ts"
import { Supervised } from "./Cluster.ts"
import * as Copies from "./Copies.ts"
import * as Deployment from "./Deployment.ts"
import { found } from "./Founding.ts"
import { inRounds, ratios, report, scale, turn } from "./Report.ts"
import * as Sink from "./Sink.ts"

const durationMs = scale.of(1_250, 300)
/** Until the pools are full and the code is warm. */
const settleMs = scale.of(400, 0)
/** A worker hands over five at a time, so a hundred a second. */
const sinkMs = 50
/** A worker delivers up to 128 at a time, so up to 256 a second: what two of them do, two cores still can. */
const receiverMs = scale.of(500, 200)
/** A receiver gets 8 at a time from all workers together: two workers' places find work, and as many again. */
const receiversMax = scale.of(50, 20)
const tenants = scale.of(8, 2)
/** What one worker does in a turn, and some more: messages of each tenant, and events for every receiver. */
const queued = scale.of(26, 40)
const events = scale.of(11, 12)

interface Work {
  /** Makes enough of it for so many workers; how much that is. */
  readonly queue: (workers: number) => Promise<number>
  /** Ends of work since the last time that this was asked. */
  readonly count: () => Promise<number>
}

let received = 0
const receivers = createServer((request, response) => {
  void json(request).then((body) => {
    const { type, data } = body as { readonly type: string; readonly data: { readonly challenge?: string } } // the product's
    if (type === "webhook.endpoint_verification") return response.end(JSON.stringify({ challenge: data.challenge }))
    setTimeout(() => {
      received += 1
      response.writeHead(204).end()
    }, receiverMs * (0.5 + chance())) // they do not all answer at once
  })
})
await new Promise<void>((resolve) => receivers.listen(0, "127.0.0.1", resolve))
const { port } = receivers.address() as AddressInfo // it listens
const counted = async () => {
  const count = received
  received = 0
  return count
}

const sink = await Sink.start(sinkMs)
const product = await Deployment.open({ variables: sink.variables })
try {
  const url = product.database.url("postgres")
  const callers = [product.production]
  for (let number = 1; number < tenants; number++) {
    const [, production] = await found(product.variables, `bench${number}.example`, Deployment.plan)
    callers.push(production!)
  }
  for (const caller of callers) await Copies.keepPattern(url, await send(product.baseUrl, caller))
  for (let index = 0; index < receiversMax; index++) {
    const body = { url: `http://127.0.0.1:${port}/${index}`, eventTypes: ["message.queued"] }
    const made = await call(product.baseUrl, product.sandbox.apiKey, "POST", "/v1/webhook-endpoints", { body })
    if (made?.status !== 201) throw new Error(`void: answered ${made?.status} ${JSON.stringify(made?.json)}`)
  }

  let started = 0
  const worker = async () => {
    const supervised = new Supervised(`worker-${++started}`, ["worker"], product.variables, product.cluster.folder)
    supervised.start()
    while (!supervised.tail(5).includes("worker: ready")) await sleep(20)
    return supervised
  }

  /** So many ends of work a second, with as many workers as run; returns once all of it is done. */
  const rateOf = async (workers: number, { queue, count }: Work): Promise<number> => {
    const all = await queue(workers)
    let before = 0
    while (before === 0) {
      await sleep(20)
      before = await count()
    }
    await sleep(settleMs)
    before += await count()
    const begun = performance.now()
    await sleep(durationMs)
    const done = await count()
    const perSecond = done / ((performance.now() - begun) / 1_000)
    let left = all - before - done
    if (left <= 0 && !scale.isSmoke) throw new Error("void: nothing was left to do")
    while (left > 0) {
      await sleep(20)
      left -= await count()
      if (performance.now() - begun > 60_000) throw new Error(`void: ${left} were not done\n${first.tail(5)}`)
    }
    return perSecond
  }

  const mail: Work = {
    queue: async (workers) => {
      await Copies.queueMessages(url, workers * queued)
      return workers * queued * tenants
    },
    count: sink.counted
  }
  const hooks: Work = {
    queue: async (workers) => {
      await Promise.all(Array.from({ length: workers * events }, () => send(product.baseUrl, product.sandbox)))
      return workers * events * receiversMax
    },
    count: counted
  }
  await turn()
  const first = await worker()
  const one = async () => ({ mailOne: await rateOf(1, mail), hooksOne: await rateOf(1, hooks) })
  const two = async () => {
    const second = await worker()
    const rates = { mailTwo: await rateOf(2, mail), hooksTwo: await rateOf(2, hooks) }
    await second.stop()
    return rates
  }
  // Nothing to warm up: others are what takes the time.
  const rounds = await inRounds(async () => ({ ...(await one()), ...(await two()) }), null)
  await first.stop()
  await Copies.checkSent(url)
  const of = (key: keyof (typeof rounds)[number]) => rounds.map((round) => round[key])
  report({
    name: "scale",
    about: `Two workers beside one: mail of ${tenants} tenants to a server that thinks ${sinkMs} ms about each message, and events to ${receiversMax} receivers that take ${receiverMs} ms each, give or take a half.`,
    ratios: [
      { path: "slow mail server: rate of two workers", better: "higher", floor: 1.6, goal: 1.85, values: ratios(rounds, ({ mailTwo }) => mailTwo, ({ mailOne }) => mailOne) },
      { path: "slow receivers: rate of two workers", better: "higher", floor: 1.6, goal: 1.85, values: ratios(rounds, ({ hooksTwo }) => hooksTwo, ({ hooksOne }) => hooksOne) }
    ],
    figures: [
      { name: "slow mail server, one worker", unit: "messages/s", values: of("mailOne") },
      { name: "slow mail server, two workers", unit: "messages/s", values: of("mailTwo") },
      { name: "slow receivers, one worker", unit: "deliveries/s", values: of("hooksOne") },
      { name: "slow receivers, two workers", unit: "deliveries/s", values: of("hooksTwo") }
    ]
  })
} finally {
  await product.stop()
  sink.stop()
  receivers.close()
  receivers.closeAllConnections()
}
process.exit()
