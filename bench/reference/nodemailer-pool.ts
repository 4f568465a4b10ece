/**
 * The floor of a worker: nodemailer builds each message and submits it over a
 * pool of five connections; nothing is looked up and nothing is kept.
 *
 * node nodemailer-pool.ts PORT COUNT
 */
import { createTransport } from "nodemailer"
import { kilobyte } from "../Api.ts"

const [port, count] = process.argv.slice(2).map(Number)
const transport = createTransport({ host: "127.0.0.1", port: port!, secure: false, ignoreTLS: true, pool: true, maxConnections: 5, maxMessages: Infinity })
let sent = 0
const send = () =>
  transport.sendMail({
    from: { name: "Ada", address: "ada@bench.example" },
    to: [`reader${sent++}@example.com`],
    subject: "Note G",
    text: kilobyte,
    html: `<p>${kilobyte}</p>`
  })

/** So many at a time that no connection waits for the next message. */
const sendAll = async (total: number) => {
  let left = total
  const lane = async () => {
    while (left-- > 0) await send()
  }
  await Promise.all(Array.from({ length: 32 }, lane))
}

await sendAll(Math.min(200, count!))
const [begun, cpu] = [performance.now(), process.cpuUsage()]
await sendAll(count!)
const { user, system } = process.cpuUsage(cpu)
console.log(JSON.stringify({ perSecond: String((count! * 1000) / (performance.now() - begun)), cpuMicros: String((user + system) / count!) }))
transport.close()
