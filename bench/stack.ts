/** A cheap GET and a send through the whole stack, beside a bare node:http server in the same rounds. */
import { run, spread, type Figures, type Request } from "./Load.ts"
import { start } from "./Process.ts"
import { cpuMs } from "./Processor.ts"

const rounds = Number(process.env["BENCH_ROUNDS"] ?? 5)
const durationMs = Number(process.env["BENCH_ROUND_MS"] ?? 3000)
const connections = 32

const product = await start("server.ts")
const bare = await start("reference/bare.ts")
const { apiKey, mailboxId } = product.ready
const headers = { authorization: `Bearer ${apiKey}`, "content-type": "application/json" }
const text = "The Analytical Engine weaves algebraic patterns. ".repeat(40)
const body = JSON.stringify({ fromMailboxId: mailboxId, to: ["delivered@example.com"], subject: "Note G", text })
let sends = 0

const get = (): Request => ({ method: "GET", path: "/v1/mailboxes", headers })
const send = (): Request => ({
  method: "POST",
  path: "/v1/messages",
  headers: { ...headers, "idempotency-key": `bench-${process.pid}-${sends++}` },
  body
})

const cases = [
  { name: "GET, bare node:http", of: bare, request: get, expected: 200 },
  { name: "GET /v1/mailboxes", of: product, request: get, expected: 200 },
  { name: "POST 2 KB, bare node:http", of: bare, request: send, expected: 202 },
  { name: "POST /v1/messages, 2 KB", of: product, request: send, expected: 202 }
]

const measure = ({ of, request, expected }: (typeof cases)[number], ms: number): Promise<Figures> =>
  run({ base: new URL(of.ready["baseUrl"]!), cpu: () => cpuMs(of.pid), connections, durationMs: ms, expected, request })

try {
  for (const one of cases) await measure(one, Math.min(1000, durationMs)) // warm-up, not counted
  const results = new Map<string, Array<Figures>>(cases.map(({ name }) => [name, []]))
  for (let round = 1; round <= rounds; round++) {
    process.stderr.write(`round ${round} of ${rounds}\n`)
    for (const one of cases) results.get(one.name)!.push(await measure(one, durationMs))
  }
  console.log(`\n${connections} connections, ${rounds} rounds of ${durationMs} ms each: median (range)\n`)
  for (const [name, figures] of results) {
    const of = (key: keyof Figures, digits: number) => spread(figures.map((figure) => figure[key]), digits)
    console.log(
      `${name.padEnd(28)} ${of("perSecond", 0).padStart(24)} /s   p50 ${of("p50Ms", 2)} ms   p99 ${of("p99Ms", 1)} ms   CPU ${of("cpuMicros", 0)} µs`
    )
  }
  const ratio = (product: string, reference: string, key: keyof Figures) =>
    spread(results.get(product)!.map((figure, round) => figure[key] / results.get(reference)![round]![key]))
  console.log("\nratios to bare node:http, round by round")
  console.log(`  GET   rate ${ratio(cases[1]!.name, cases[0]!.name, "perSecond")}   CPU ${ratio(cases[1]!.name, cases[0]!.name, "cpuMicros")}`)
  console.log(`  send  rate ${ratio(cases[3]!.name, cases[2]!.name, "perSecond")}   CPU ${ratio(cases[3]!.name, cases[2]!.name, "cpuMicros")}`)
} finally {
  await Promise.all([product.stop(), bare.stop()])
}
