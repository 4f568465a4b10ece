/**
 * `POST /v1/messages` with 2 KB, from the credential to the commit, beside bare
 * node:http with one INSERT a request over the same server: 32 connections, 1
 * connection, and 64 with every commit's flush slowed by 3 ms.
 */
import { randomUUID } from "node:crypto"
import { kilobyte, letter } from "./Api.ts"
import * as Deployment from "./Deployment.ts"
import { run, type Figures, type Request } from "./Load.ts"
import { start } from "./Process.ts"
import { cpuMs } from "./Processor.ts"
import { inRounds, ratios, report, scale } from "./Report.ts"

const durationMs = scale.of(4_000, 300)

const thisRun = randomUUID()
let sends = 0

interface Pair {
  readonly ours: Figures
  readonly insert1: Figures
}

/** Both in turn over one server, round after round. */
const compare = async (connections: ReadonlyArray<number>, settings: ReadonlyArray<string>): Promise<ReadonlyArray<ReadonlyArray<Pair>>> => {
  const product = await Deployment.open({ database: settings })
  const reference = await start("reference/insert1.ts", product.database.url("postgres"))
  try {
    const body = JSON.stringify(letter(product.sandbox, kilobyte))
    const request = (): Request => ({
      method: "POST",
      path: "/v1/messages",
      headers: {
        "authorization": `Bearer ${product.sandbox.apiKey}`,
        "content-type": "application/json",
        "idempotency-key": `${thisRun}-${sends++}`
      },
      body
    })
    const load = (baseUrl: string, cpu: () => number, count: number) =>
      run({ base: new URL(baseUrl), cpu, connections: count, durationMs, expected: 202, request })
    const cpuOfReference = () => cpuMs(reference.pid) + product.database.cpu()
    return await inRounds(async () => {
      const pairs: Array<Pair> = []
      for (const count of connections) {
        const insert1 = await load(reference.ready["baseUrl"]!, cpuOfReference, count)
        const ours = await load(product.baseUrl, product.cpu, count)
        pairs.push({ ours, insert1 })
      }
      return pairs
    })
  } finally {
    await reference.stop()
    await product.stop()
  }
}

const plain = await compare([32, 1], [])
// Sleeps before the flush whoever else commits meanwhile.
const slowed = await compare([64], ["commit_delay=3000", "commit_siblings=0"])

const at = (index: number, rounds: ReadonlyArray<ReadonlyArray<Pair>>) => rounds.map((pairs) => pairs[index]!)
const [wide, single, slow] = [at(0, plain), at(1, plain), at(0, slowed)]
const of = (rounds: ReadonlyArray<Pair>, key: keyof Figures) =>
  ratios(rounds, ({ ours }) => ours[key], ({ insert1 }) => insert1[key])
const figures = (name: string, rounds: ReadonlyArray<Pair>) =>
  (["ours", "insert1"] as const).flatMap((who) => [
    { name: `${name}, ${who}: rate`, unit: "requests/s", values: rounds.map((round) => round[who].perSecond) },
    { name: `${name}, ${who}: CPU`, unit: "µs a request", values: rounds.map((round) => round[who].cpuMicros) },
    { name: `${name}, ${who}: p50`, unit: "ms", values: rounds.map((round) => round[who].p50Ms) },
    { name: `${name}, ${who}: p99`, unit: "ms", values: rounds.map((round) => round[who].p99Ms) }
  ])

report({
  name: "accept",
  about: "POST /v1/messages with 2 KB, answered 202 after the commit, beside bare node:http with one INSERT a request.",
  ratios: [
    { path: "32 connections: CPU, app and Postgres", better: "lower", floor: 1.5, goal: 1.1, values: of(wide, "cpuMicros") },
    { path: "32 connections: rate", better: "higher", floor: 0.7, goal: 1, values: of(wide, "perSecond") },
    { path: "32 connections: p99", better: "lower", floor: 4, goal: 2, values: of(wide, "p99Ms") },
    { path: "64 connections, flush slowed by 3 ms: rate", better: "higher", floor: 1.2, goal: 1.7, values: of(slow, "perSecond") },
    { path: "1 connection: p50", better: "lower", floor: 2.5, goal: 1.8, values: of(single, "p50Ms") }
  ],
  figures: [...figures("32 connections", wide), ...figures("1 connection", single), ...figures("64, slowed", slow)]
})
