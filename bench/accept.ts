/**
 * `POST /v1/messages` with 2 KB, from the credential to the commit, beside bare
 * node:http with one INSERT a request over the same server: 32 connections, 1
 * connection, and 64 with every commit's flush slowed by 3 ms.
 */
import { randomUUID } from "node:crypto"
import { kilobyte, letter, sleep } from "./Api.ts"
import * as Copies from "./Copies.ts"
import * as Deployment from "./Deployment.ts"
import { run, type Figures, type Request } from "./Load.ts"
import { start } from "./Process.ts"
import { cpuMs } from "./Processor.ts"
import { inRounds, ratios, report, scale, turn } from "./Report.ts"

const durationMs = scale.of(1_500, 0)
/** So many requests at least, before any is measured: on a slow machine V8 is not done with what is hot when the time for it is over. */
const warmUpRequests = 20_000

const thisRun = randomUUID()
let sends = 0

interface Pair {
  readonly ours: Figures
  readonly insert1: Figures
}

const product = await Deployment.open()
const url = product.database.url("postgres")
const reference = await start("reference/insert1.ts", url)

/** Sleeps before the flush whoever else commits meanwhile. */
const slowed = async <A>(work: () => Promise<A>): Promise<A> => {
  await Copies.configure(url, { commit_delay: "3000", commit_siblings: "0" })
  await sleep(200) // all its processes hear of it
  const done = await work()
  await Copies.configure(url, { commit_delay: "0", commit_siblings: "5" })
  await sleep(200)
  return done
}

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
const load = (baseUrl: string, cpu: () => number, connections: number) =>
  run({ base: new URL(baseUrl), cpu, connections, durationMs, expected: 202, request })
const insert1 = (connections: number) => load(reference.ready["baseUrl"]!, () => cpuMs(reference.pid) + product.database.cpu(), connections)
const ours = (connections: number) => load(product.baseUrl, product.cpu, connections)
const pair = async (connections: number): Promise<Pair> => ({ insert1: await insert1(connections), ours: await ours(connections) })

const warmUp = async (load: (connections: number) => Promise<Figures>): Promise<void> => {
  for (let sent = 0; sent < warmUpRequests; ) sent += (await load(32)).requests
}

const measured = async () => {
  try {
    await turn()
    return await inRounds(
      async () => ({ wide: await pair(32), single: await pair(1), slow: await slowed(() => pair(64)) }),
      [() => warmUp(insert1), () => warmUp(ours)]
    )
  } finally {
    await reference.stop()
    await product.stop()
  }
}

const rounds = await measured()
const at = (name: "wide" | "single" | "slow") => rounds.map((round) => round[name])
const [wide, single, slow] = [at("wide"), at("single"), at("slow")]
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
