/**
 * The floor of a worker: nodemailer builds each message and submits it over a
 * pool of five connections; nothing is looked up and nothing is kept.
 *
 * `nodemailer-pool.ts PORT [BYTES]` sends as many as it is told to, each with a file of so many bytes if any, and tells what they took.
 */
import { randomBytes } from "node:crypto"
import { createTransport } from "nodemailer"
import { kilobyte } from "../Api.ts"

const port = Number(process.argv[2])
const sizeBytes = Number(process.argv[3] ?? 0)
const attachments = sizeBytes === 0 ? [] : [{ filename: "file.bin", contentType: "application/octet-stream", content: randomBytes(sizeBytes) }]
const transport = createTransport({ host: "127.0.0.1", port, secure: false, ignoreTLS: true, pool: true, maxConnections: 5, maxMessages: Infinity })
let sent = 0
const send = () =>
  transport.sendMail({
    from: { name: "Ada", address: "ada@bench.example" },
    to: [`reader${sent++}@example.com`],
    subject: "Note G",
    text: kilobyte,
    html: `<p>${kilobyte}</p>`,
    attachments
  })

/** So many at a time that no connection waits for the next message. */
const sendAll = async (total: number) => {
  let left = total
  const lane = async () => {
    while (left-- > 0) await send()
  }
  await Promise.all(Array.from({ length: 32 }, lane))
}

const measured = async (count: number) => {
  await sendAll(sizeBytes === 0 ? 200 : 5) // its connections are open
  const [begun, cpu] = [performance.now(), process.cpuUsage()]
  await sendAll(count)
  const { user, system } = process.cpuUsage(cpu)
  return { perSecond: (count * 1000) / (performance.now() - begun), cpuMicros: (user + system) / count }
}

process.on("message", (count) => void measured(Number(count)).then((figures) => process.send!(figures))) // it was started with a channel
process.once("disconnect", () => process.exit()) // whoever started it has ended
console.log("{}")
