/** Peak memory of the server while 20 attachments of 25 MB upload at once. */
import * as http from "node:http"
import { peakMiB } from "./Processor.ts"
import { start } from "./Process.ts"

const uploads = Number(process.env["BENCH_UPLOADS"] ?? 20)
const sizeBytes = 26_214_400
const chunk = Buffer.alloc(48 * 1024, 0x61).toString("base64")

const product = await start("server.ts")
const { baseUrl, apiKey, mailboxId } = product.ready

/** Writes the body as a client would that reads a file, with back-pressure. */
const upload = (index: number): Promise<number> =>
  new Promise((resolve, reject) => {
    const before = `{"mailboxId":"${mailboxId}","filename":"file-${index}.bin","mediaType":"application/octet-stream","contentBase64":"`
    const rest = Buffer.alloc(sizeBytes % (48 * 1024), 0x61).toString("base64")
    const whole = Math.floor(sizeBytes / (48 * 1024))
    const outgoing = http.request(
      new URL("/v1/attachments", baseUrl),
      {
        method: "POST",
        headers: {
          authorization: `Bearer ${apiKey}`,
          "content-type": "application/json",
          "content-length": before.length + whole * chunk.length + rest.length + 2
        }
      },
      (response) => {
        response.resume()
        response.on("end", () => resolve(response.statusCode ?? 0))
      }
    )
    outgoing.on("error", reject)
    outgoing.write(before)
    let written = 0
    const pump = () => {
      while (written < whole) {
        written += 1
        if (!outgoing.write(chunk)) return outgoing.once("drain", pump)
      }
      return outgoing.end(`${rest}"}`)
    }
    pump()
  })

try {
  const idle = peakMiB(product.pid)
  const started = performance.now()
  const statuses = await Promise.all(Array.from({ length: uploads }, (_, index) => upload(index)))
  const seconds = (performance.now() - started) / 1000
  if (statuses.some((status) => status !== 201)) throw new Error(`void: answered ${[...new Set(statuses)].join(", ")}`)
  const peak = peakMiB(product.pid)
  console.log(`${uploads} uploads of ${sizeBytes} bytes at once, in ${seconds.toFixed(1)} s (${((uploads * sizeBytes) / 1e6 / seconds).toFixed(0)} MB/s)`)
  console.log(`resident memory: ${idle.toFixed(0)} MiB before, ${peak.toFixed(0)} MiB at the peak, ${((peak - idle) / uploads).toFixed(1)} MiB for each upload`)
  console.log(peak < 1024 ? "under 1 GiB" : "OVER 1 GiB")
  process.exitCode = peak < 1024 ? 0 : 1
} finally {
  await product.stop()
}
