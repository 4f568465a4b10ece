/**
 * Webhooks from the log to the receivers: fan-out, claims, signature, request
 * and record, by the product's own worker over a durable Postgres. Beside it
 * undici alone, posting the same signed body of 1 KB: to one fast receiver with
 * 64 in flight, and to fifty that take 20 ms each with as many in flight as the
 * worker has.
 */
import { requestsMax } from "../core/jobs/WebhookAttempts.ts"
import * as Backlog from "./Backlog.ts"
import * as Deployment from "./Deployment.ts"
import { startReceivers, type Behaviour, type Receivers } from "./receiver.ts"
import * as Reference from "./reference/undici.ts"
import { inRounds, ratios, report, scale, turn } from "./Report.ts"

/** Deliveries of a round. */
const fastCount = scale.of(5_000, 100)
const slowCount = scale.of(6_000, 100)
const receiversMax = 50

interface Figures {
  readonly perSecond: number
  readonly cpuMicros: number
  readonly workerMicros: number
}

const product = await Deployment.open({ workers: 1 })
const [one, many] = [await startReceivers(1), await startReceivers(receiversMax)]
const backlog = await Backlog.open(product)

const deliver = async (subscriber: Backlog.Subscriber, receivers: Receivers, behaviour: Behaviour, count: number) => {
  const events = count / receivers.urls.length
  const { perSecond, workerMs, postgresMs, received } = await backlog.drain({ subscriber, events, receivers, behaviour, answered: count })
  const micros = (ms: number) => (ms * 1_000) / count
  return { sample: received.sample, figures: { perSecond, cpuMicros: micros(workerMs + postgresMs), workerMicros: micros(workerMs) } satisfies Figures }
}

const refer = async (receivers: Receivers, behaviour: Behaviour, body: string, count: number, inFlight: number): Promise<Figures> => {
  await receivers.behave(behaviour)
  const cpu = process.cpuUsage()
  await Reference.post(receivers.urls, body, count, inFlight)
  const { user, system } = process.cpuUsage(cpu)
  const { answered, lastMs } = await receivers.received()
  if (answered !== count) throw new Error(`void: ${answered} of ${count} arrived`)
  const cpuMicros = (user + system) / count
  return { perSecond: count / (lastMs / 1_000), cpuMicros, workerMicros: cpuMicros }
}

try {
  const fast: Behaviour = { delayMs: 0, hanging: 0 }
  const slow: Behaviour = { delayMs: 20, hanging: 0 }
  const single = await backlog.subscribe(product.sandbox, one.urls)
  const crowd = await backlog.subscribe(product.production, many.urls)
  const deliverFast = () => deliver(single, one, fast, fastCount)
  const deliverSlow = () => deliver(crowd, many, slow, slowCount)
  await turn()
  const { sample } = await deliverFast()
  const postFast = () => refer(one, fast, sample, fastCount, 64)
  const postSlow = () => refer(many, slow, sample, slowCount, requestsMax)
  const rounds = await inRounds(
    async () => {
      const [delivered, posted] = [await deliverFast(), await postFast()]
      const [spread, spreadPosted] = [await deliverSlow(), await postSlow()]
      return { fast: { ours: delivered.figures, undici: posted }, slow: { ours: spread.figures, undici: spreadPosted }, bytes: sample.length }
    },
    [async () => [await deliverFast(), await deliverSlow()], async () => [await postFast(), await postSlow()]]
  )
  const of = (row: "fast" | "slow", key: keyof Figures) => ratios(rounds, (round) => round[row].ours[key], (round) => round[row].undici[key])
  const figures = (name: string, row: "fast" | "slow") => [
    { name: `${name}, ours: rate`, unit: "deliveries/s", values: rounds.map((round) => round[row].ours.perSecond) },
    { name: `${name}, undici: rate`, unit: "posts/s", values: rounds.map((round) => round[row].undici.perSecond) },
    { name: `${name}, ours: CPU, worker and Postgres`, unit: "µs a delivery", values: rounds.map((round) => round[row].ours.cpuMicros) },
    { name: `${name}, ours: CPU, worker alone`, unit: "µs a delivery", values: rounds.map((round) => round[row].ours.workerMicros) },
    { name: `${name}, undici: CPU`, unit: "µs a post", values: rounds.map((round) => round[row].undici.cpuMicros) }
  ]
  report({
    name: "webhooks",
    about: `Events in the log to webhooks of ${rounds[0]!.bytes} bytes, signed, answered and recorded, beside undici posting the same and keeping nothing.`,
    ratios: [
      { path: "one fast receiver: rate", better: "higher", floor: 0.3, goal: 0.5, values: of("fast", "perSecond") },
      { path: "one fast receiver: CPU, worker and Postgres", better: "lower", floor: 3.5, goal: 2.2, values: of("fast", "cpuMicros") },
      { path: `${receiversMax} receivers at 20 ms, ${requestsMax} in flight: rate`, better: "higher", floor: 0.7, goal: 0.9, values: of("slow", "perSecond") }
    ],
    figures: [...figures("one fast receiver", "fast"), ...figures(`${receiversMax} receivers at 20 ms`, "slow")]
  })
} finally {
  one.stop()
  many.stop()
  await backlog.stop()
  await product.stop()
}
