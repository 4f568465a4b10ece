/**
 * Attachments of 25 MB, several at a time: what memory each costs the server
 * while it is in flight, and how long small requests take meanwhile, beside a
 * server that buffers its bodies.
 */
import * as Deployment from "./Deployment.ts"
import { run } from "./Load.ts"
import { start } from "./Process.ts"
import { cpuMs, forgetPeak, peakMiB, residentMiB } from "./Processor.ts"
import { inRounds, ratios, report, scale, turn } from "./Report.ts"
import { keepUploading } from "./Uploads.ts"

const inFlight = scale.of(4, 2)
const sizeBytes = scale.of(26_214_400, 1_000_000)
const durationMs = scale.of(2_000, 0)

const product = await Deployment.open()
const buffering = await start("reference/buffering.ts")
try {
  await turn()
  const { apiKey, mailboxId } = product.sandbox
  const small = (baseUrl: string, pid: number, durationMs: number) =>
    run({
      base: new URL(baseUrl),
      cpu: () => cpuMs(pid),
      connections: 16,
      durationMs,
      perSecond: 200,
      expected: 200,
      request: () => ({ method: "GET", path: "/v1/mailboxes", headers: { authorization: `Bearer ${apiKey}` } })
    })
  const sides = {
    ours: { baseUrl: product.baseUrl, pid: product.cluster.pids()[0]! },
    buffering: { baseUrl: buffering.ready["baseUrl"]!, pid: buffering.pid }
  }
  for (const { baseUrl, pid } of Object.values(sides)) await small(baseUrl, pid, scale.of(1_000, 0))
  const idleMiB = { ours: residentMiB(sides.ours.pid), buffering: residentMiB(sides.buffering.pid) }

  const measure = async (who: keyof typeof sides) => {
    const { baseUrl, pid } = sides[who]
    forgetPeak(pid)
    const begun = performance.now()
    const uploading = keepUploading({ baseUrl, apiKey, mailboxId, inFlight, sizeBytes, durationMs })
    const [figures, uploads] = await Promise.all([small(baseUrl, pid, durationMs), uploading])
    const seconds = (performance.now() - begun) / 1_000
    return {
      grownMiB: (peakMiB(pid) - idleMiB[who]) / inFlight,
      smallP99Ms: figures.p99Ms,
      megabytes: (uploads * sizeBytes) / 1e6 / seconds
    }
  }
  const rounds = await inRounds(async () => ({ buffering: await measure("buffering"), ours: await measure("ours") }))
  const figures = (who: keyof typeof sides) => [
    { name: `${who}: a small request's p99 meanwhile`, unit: "ms", values: rounds.map((round) => round[who].smallP99Ms) },
    { name: `${who}: peak memory over idle, for each upload`, unit: "MiB", values: rounds.map((round) => round[who].grownMiB) },
    { name: `${who}: uploaded`, unit: "MB/s", values: rounds.map((round) => round[who].megabytes) }
  ]
  report({
    name: "upload",
    about: `POST /v1/attachments of ${sizeBytes} bytes in base64, ${inFlight} in flight, kept in PostgreSQL, and 200 small requests a second meanwhile; beside node:http that buffers, parses, decodes and hashes, and keeps nothing.`,
    ratios: [
      { path: "peak memory growth for each upload in flight", better: "lower", floor: 120, goal: 64, unit: "MiB", values: rounds.map(({ ours }) => ours.grownMiB) },
      {
        path: "a small request's p99 meanwhile",
        better: "lower",
        floor: 1,
        goal: 0.4,
        values: ratios(rounds, ({ ours }) => ours.smallP99Ms, ({ buffering }) => buffering.smallP99Ms)
      }
    ],
    figures: [...figures("ours"), ...figures("buffering")]
  })
} finally {
  await buffering.stop()
  await product.stop()
}
