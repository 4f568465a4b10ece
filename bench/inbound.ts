/**
 * Mail of 2 KB taken in by `mailroom smtp`, 250 after the commit, beside npm
 * smtp-server with one INSERT a message over the same server: 16 connections
 * that each bring one message after the other, and 1. Whom mail is from is not
 * asked, for that is the DNS's time.
 */
import { connect } from "node:net"
import * as Deployment from "./Deployment.ts"
import * as Listener from "./Listener.ts"
import { quantile } from "./Load.ts"
import { start } from "./Process.ts"
import { cpuMs } from "./Processor.ts"
import { inRounds, ratios, report, scale, turn } from "./Report.ts"

const durationMs = scale.of(1_500, 0)
const line = `${"The engine weaves algebraic patterns as the loom weaves flowers. ".slice(0, 62)}\r\n`
let sent = 0

interface Figures {
  readonly perSecond: number
  readonly p50Ms: number
  readonly cpuMicros: number
}

/** Brings message after message over one connection, one in any case: a command line goes out with the next. */
const bring = (port: number, to: string, until: number, latencies: Array<number>): Promise<void> =>
  new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true })
    let heard = ""
    let wanted = 1
    let isDone = false
    let next: () => void = () => hello()
    const say = (words: string, replies: number, then: () => void) => {
      wanted = replies
      next = then
      socket.write(words)
    }
    const hello = () => say("EHLO client.example\r\n", 1, () => message())
    const message = () => {
      const begun = performance.now()
      say(`MAIL FROM:<ada@client.example>\r\nRCPT TO:<${to}>\r\nDATA\r\n`, 3, () => {
        sent += 1
        const head = `From: ada@client.example\r\nTo: ${to}\r\nSubject: Note ${sent}\r\nMessage-ID: <${sent}@client.example>\r\n\r\n`
        say(`${head}${line.repeat(30)}.\r\n`, 1, () => {
          latencies.push(performance.now() - begun)
          if (performance.now() < until) return message()
          isDone = true
          socket.end()
        })
      })
    }
    socket.setEncoding("latin1")
    socket.on("data", (text: string) => {
      heard += text
      const replies = heard.match(/^\d{3} .*\r\n/gm) ?? []
      if (replies.length < wanted) return
      if (replies.some((reply) => !/^[23]/.test(reply))) return socket.destroy(new Error(`void: ${replies.join("")}`))
      heard = ""
      next()
    })
    socket.once("error", reject)
    socket.once("close", () => (isDone ? resolve() : reject(new Error("void: the server closed the connection"))))
  })

const load = async (port: number, to: string, connections: number, cpu: () => number): Promise<Figures> => {
  const latencies: Array<number> = []
  const [cpuBefore, begun] = [cpu(), performance.now()]
  await Promise.all(Array.from({ length: connections }, () => bring(port, to, begun + durationMs, latencies)))
  const elapsed = performance.now() - begun
  return {
    perSecond: latencies.length / (elapsed / 1_000),
    p50Ms: quantile(latencies, 0.5),
    cpuMicros: ((cpu() - cpuBefore) * 1_000) / latencies.length
  }
}

const product = await Deployment.open({ serves: 0 })
const ours = await Listener.start(product.variables)
const reference = await start("reference/smtp-insert.ts", product.database.url("postgres"))
try {
  const to = "ada@bench.example"
  const cpuOf = (pid: number) => () => cpuMs(pid) + product.database.cpu()
  const intoReference = (connections: number) => load(Number(reference.ready["port"]), to, connections, cpuOf(reference.pid))
  const intoOurs = (connections: number) => load(ours.port, to, connections, cpuOf(ours.pid))
  const pair = async (connections: number) => ({ reference: await intoReference(connections), ours: await intoOurs(connections) })
  await turn()
  const rounds = await inRounds(
    async () => ({ wide: await pair(16), single: await pair(1) }),
    [() => intoReference(16), () => intoOurs(16)]
  )
  const beside = (width: "wide" | "single", key: keyof Figures) =>
    ratios(rounds, (round) => round[width].ours[key], (round) => round[width].reference[key])
  report({
    name: "inbound",
    about: "Mail of 2 KB taken in, 250 after the commit, beside npm smtp-server with one INSERT a message.",
    ratios: [
      { path: "16 connections: rate", better: "higher", floor: 0.12, goal: 0.7, values: beside("wide", "perSecond") },
      { path: "16 connections: CPU, app and Postgres", better: "lower", floor: 7, goal: 1.5, values: beside("wide", "cpuMicros") },
      { path: "1 connection: p50", better: "lower", floor: 8, goal: 2, values: beside("single", "p50Ms") }
    ],
    figures: (["wide", "single"] as const).flatMap((width) =>
      (["ours", "reference"] as const).flatMap((who) => [
        { name: `${width === "wide" ? 16 : 1} connections, ${who}: rate`, unit: "messages/s", values: rounds.map((round) => round[width][who].perSecond) },
        { name: `${width === "wide" ? 16 : 1} connections, ${who}: CPU`, unit: "µs a message", values: rounds.map((round) => round[width][who].cpuMicros) },
        { name: `${width === "wide" ? 16 : 1} connections, ${who}: p50`, unit: "ms", values: rounds.map((round) => round[width][who].p50Ms) }
      ])
    )
  })
} finally {
  await reference.stop()
  await ours.stop()
  await product.stop()
}
