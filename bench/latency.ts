/**
 * From the 202 to the first bytes at the mail server, with nothing else to do:
 * one message after the other, through `serve` and `worker`, to a sink that
 * notes when MAIL FROM arrives. The answer and the sink are timed by one clock.
 */
import type { AddressInfo } from "node:net"
import { SMTPServer } from "smtp-server"
import { chance, send, sleep } from "./Api.ts"
import * as Deployment from "./Deployment.ts"
import { quantile } from "./Load.ts"
import { inRounds, report, scale, turn } from "./Report.ts"
import * as Sink from "./Sink.ts"

const sends = scale.of(15, 3)

let arrived: (at: number) => void = () => {}
const server = new SMTPServer({
  disabledCommands: ["STARTTLS", "AUTH"],
  logger: false,
  onMailFrom: (_address, _session, callback) => {
    arrived(performance.now())
    callback()
  },
  onData: (stream, _session, callback) => {
    stream.resume()
    stream.on("end", () => callback())
  }
})
const port = await new Promise<number>((resolve) => {
  const listening = server.listen(0, "127.0.0.1", () => resolve((listening.address() as AddressInfo).port)) // it listens
})

const product = await Deployment.open({ workers: 1, variables: Sink.variablesFor(port) })
try {
  const one = async () => {
    const arrival = new Promise<number>((resolve) => (arrived = resolve))
    const begun = performance.now()
    await send(product.baseUrl, product.production)
    const accepted = performance.now()
    const at = await Promise.race([arrival, sleep(10_000).then(() => Promise.reject(new Error("void: a message did not arrive")))])
    // Long enough for all that follows a submission, and never in step with anything that ticks.
    await sleep(150 + chance() * 100)
    return { handed: at - accepted, accepted: accepted - begun }
  }
  await one() // it comes once the worker has started
  await turn()
  const rounds = await inRounds(async () => {
    const all: Array<Awaited<ReturnType<typeof one>>> = []
    for (let sent = 0; sent < sends; sent++) all.push(await one())
    return all
  })
  const handed = rounds.map((round) => round.map((one) => one.handed))
  const of = (share: number, values: ReadonlyArray<ReadonlyArray<number>>) => values.map((round) => quantile(round, share))
  report({
    name: "latency",
    about: `One message after the other, ${sends} a round, with pauses: from the arrival of the 202 to MAIL FROM at the sink.`,
    ratios: [{ path: "202 to the first SMTP bytes: p50", better: "lower", floor: 100, goal: 15, unit: "ms", values: of(0.5, handed) }],
    figures: [
      { name: "202 to the first SMTP bytes: p90", unit: "ms", values: of(0.9, handed) },
      { name: "202 to the first SMTP bytes: most", unit: "ms", values: of(1, handed) },
      { name: "request to 202: p50", unit: "ms", values: of(0.5, rounds.map((round) => round.map((one) => one.accepted))) }
    ]
  })
} finally {
  await product.stop()
  server.close()
}
process.exit()
