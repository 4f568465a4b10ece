/**
 * How long a refusal takes, by its cause: nothing may tell a wrong secret from
 * a revoked key. Only whether a (public) key id exists shows, by the hash.
 */
import { median, run, spread } from "./Load.ts"
import { cpuMs } from "./Processor.ts"
import { start } from "./Process.ts"
import * as ApiKeys from "../core/model/ApiKey.ts"
import { Option, Redacted } from "effect"
import { randomBytes } from "node:crypto"

const samples = Number(process.env["BENCH_SAMPLES"] ?? 60)
const product = await start("server.ts")
const base = new URL(product.ready["baseUrl"]!)
const known = Option.getOrThrow(ApiKeys.parse(product.ready["apiKey"]!))

/** The known public id with another secret, and an id that nobody has. */
const mint = () => Redacted.value(ApiKeys.format("sandbox", randomBytes(8), randomBytes(24)).text)
const wrongSecret = () => Redacted.value(ApiKeys.withPublicId("sandbox", known.publicId, randomBytes(24)).text)

const causes: Readonly<Record<string, () => string>> = {
  "malformed": () => "svc_test_nothing",
  "unknown id": mint,
  "wrong secret": wrongSecret
}

try {
  for (const [cause, key] of Object.entries(causes)) {
    const latencies: Array<number> = []
    for (let sample = 0; sample < samples; sample++) {
      const { p50Ms } = await run({
        base,
        cpu: () => cpuMs(product.pid),
        connections: 1,
        durationMs: 1,
        expected: 401,
        request: () => ({ method: "GET", path: "/v1/mailboxes", headers: { authorization: `Bearer ${key()}` } })
      })
      latencies.push(p50Ms)
    }
    console.log(`${cause.padEnd(14)} ${spread(latencies)} ms, median ${median(latencies).toFixed(2)} ms of ${samples}`)
  }
} finally {
  await product.stop()
}
