/** A cheap GET through the whole stack, over PostgreSQL, beside a bare node:http server in the same rounds. */
import * as Deployment from "./Deployment.ts"
import { run, type Figures, type Request } from "./Load.ts"
import { start } from "./Process.ts"
import { cpuMs } from "./Processor.ts"
import { inRounds, ratios, report, scale, turn } from "./Report.ts"

const durationMs = scale.of(1_500, 0)
const connections = 32

const product = await Deployment.open({ measuresCommits: false })
const bare = await start("reference/bare.ts")
try {
  await turn()
  const request = (): Request => ({
    method: "GET",
    path: "/v1/mailboxes",
    headers: { authorization: `Bearer ${product.sandbox.apiKey}` }
  })
  const load = (baseUrl: string, cpu: () => number) =>
    run({ base: new URL(baseUrl), cpu, connections, durationMs, expected: 200, request })
  const [pid] = product.cluster.pids()
  const rounds = await inRounds(async () => {
    const before = product.database.cpu()
    const ours = await load(product.baseUrl, () => cpuMs(pid!)) // it serves
    const postgresMicros = ((product.database.cpu() - before) * 1_000) / ours.requests
    return { ours: { ...ours, postgresMicros }, bare: await load(bare.ready["baseUrl"]!, () => cpuMs(bare.pid)) }
  }, [() => load(product.baseUrl, product.cpu), () => load(bare.ready["baseUrl"]!, () => cpuMs(bare.pid))])
  const of = (who: "ours" | "bare", key: keyof Figures) => rounds.map((round) => round[who][key])
  report({
    name: "stack",
    about: `GET /v1/mailboxes, ${connections} connections, from the credential to the answer, beside bare node:http. Only the application's CPU is compared; PostgreSQL's is told beside it.`,
    ratios: [
      { path: "GET: CPU of the application", better: "lower", floor: 8, goal: 5, values: ratios(rounds, ({ ours }) => ours.cpuMicros, ({ bare }) => bare.cpuMicros) }
    ],
    figures: [
      { name: "ours: CPU of the application", unit: "µs a request", values: of("ours", "cpuMicros") },
      { name: "ours: CPU of PostgreSQL", unit: "µs a request", values: rounds.map(({ ours }) => ours.postgresMicros) },
      { name: "bare: CPU", unit: "µs a request", values: of("bare", "cpuMicros") },
      { name: "ours: rate", unit: "requests/s", values: of("ours", "perSecond") },
      { name: "bare: rate", unit: "requests/s", values: of("bare", "perSecond") },
      { name: "ours: p99", unit: "ms", values: of("ours", "p99Ms") },
      { name: "bare: p99", unit: "ms", values: of("bare", "p99Ms") }
    ]
  })
} finally {
  await bare.stop()
  await product.stop()
}
