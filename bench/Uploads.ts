/**
 * A client that keeps so many uploads in flight for a while, in a thread of its
 * own: whoever measures small requests meanwhile must not wait for it. Tells at
 * the end how many there were.
 */
import { randomBytes } from "node:crypto"
import * as http from "node:http"
import { parentPort, Worker, workerData } from "node:worker_threads"

export interface Options {
  readonly baseUrl: string
  readonly apiKey: string
  readonly mailboxId: string
  readonly inFlight: number
  readonly sizeBytes: number
  readonly durationMs: number
}

/** How many uploads there were; each was answered 201, or it throws. */
export const keepUploading = (options: Options): Promise<number> =>
  new Promise((resolve, reject) => {
    const worker = new Worker(new URL(import.meta.url), { workerData: options })
    worker.once("message", resolve)
    worker.once("error", reject)
  })

const chunkBytes = 48 * 1024

/** Writes the body as a client would that reads a file, with back-pressure. */
const upload = ({ baseUrl, apiKey, mailboxId, sizeBytes }: Options, index: number): Promise<number> =>
  new Promise((resolve, reject) => {
    const chunk = randomBytes(chunkBytes).toString("base64")
    const before = `{"mailboxId":"${mailboxId}","filename":"file-${index}.bin","mediaType":"application/octet-stream","contentBase64":"`
    const rest = randomBytes(sizeBytes % chunkBytes).toString("base64")
    const whole = Math.floor(sizeBytes / chunkBytes)
    const outgoing = http.request(
      new URL("/v1/attachments", baseUrl),
      {
        method: "POST",
        headers: {
          "authorization": `Bearer ${apiKey}`,
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

if (parentPort !== null) {
  const options = workerData as Options // by keepUploading
  const begun = performance.now()
  let uploads = 0
  const client = async (_: unknown, index: number) => {
    do {
      const status = await upload(options, index)
      if (status !== 201) throw new Error(`void: an upload was answered ${status}`)
      uploads += 1
    } while (performance.now() - begun < options.durationMs)
  }
  await Promise.all(Array.from({ length: options.inFlight }, client))
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread's port, not a window
  parentPort.postMessage(uploads)
}
