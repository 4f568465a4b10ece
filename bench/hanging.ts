/**
 * What healthy endpoints notice of those that hang: 50 receivers get every
 * event, and in half of the rounds 10 of them never answer. Measured is the
 * time from the event's commit to its arrival at each of the other 40.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { text } from "node:stream/consumers"
import { Mailroom } from "../client/index.ts"
import { median, spread } from "./Load.ts"
import { start } from "./Process.ts"

const rounds = Number(process.env["BENCH_ROUNDS"] ?? 5)
const sends = Number(process.env["BENCH_SENDS"] ?? 40)
const receivers = 50
const hanging = 10
/** Between two sends. */
const pauseMs = 50

interface Round {
  /** Milliseconds from event to arrival, for healthy receivers. */
  readonly latencies: Array<number>
}

let round: Round = { latencies: [] }
let doesHang = false

const receive = (index: number) => async (request: IncomingMessage, response: ServerResponse) => {
  const { data, occurredAt, type } = JSON.parse(await text(request))
  if (type === "webhook.endpoint_verification") return response.end(JSON.stringify({ challenge: data.challenge }))
  if (index < hanging && doesHang) return
  if (index >= hanging) round.latencies.push(Date.now() - Date.parse(occurredAt))
  return response.writeHead(204).end()
}

const servers = await Promise.all(
  Array.from({ length: receivers }, async (_, index) => {
    const server = createServer((request, response) => void receive(index)(request, response))
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    return server
  })
)
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

const p95 = (values: ReadonlyArray<number>) => values.toSorted((left, right) => left - right)[Math.floor(values.length * 0.95)]!

/** One round on a fresh product, for ten failures in a row would end the hanging. */
const play = async (withHanging: boolean): Promise<{ readonly p50: number; readonly p95: number }> => {
  const product = await start("server.ts", "--jobs")
  try {
    doesHang = false
    const client = new Mailroom({ baseUrl: product.ready["baseUrl"]!, apiKey: product.ready["apiKey"]! })
    for (const server of servers) {
      // One after the other: a host is verified once at a time.
      await client.createWebhookEndpoint({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, eventTypes: ["message.queued"] })
    }
    const send = () => client.sendMessage({ fromMailboxId: product.ready["mailboxId"]!, to: ["delivered@example.com"], text: "x" })
    await send() // warm-up, not counted
    await sleep(1_000)
    doesHang = withHanging
    round = { latencies: [] }
    for (let sent = 0; sent < sends; sent++) {
      await send()
      await sleep(pauseMs)
    }
    const expected = sends * (receivers - hanging)
    for (let waited = 0; round.latencies.length < expected; waited += 50) {
      if (waited > 60_000) throw new Error(`void: ${round.latencies.length} of ${expected} deliveries arrived`)
      await sleep(50)
    }
    return { p50: median(round.latencies), p95: p95(round.latencies) }
  } finally {
    await product.stop()
    for (const server of servers) server.closeAllConnections()
  }
}

try {
  const results: { readonly without: Array<Awaited<ReturnType<typeof play>>>; readonly withHanging: typeof results.without } = {
    without: [],
    withHanging: []
  }
  for (let number = 1; number <= rounds; number++) {
    process.stderr.write(`round ${number} of ${rounds}\n`)
    results.without.push(await play(false))
    results.withHanging.push(await play(true))
  }
  const of = (list: typeof results.without, key: "p50" | "p95") => spread(list.map((one) => one[key]), 0)
  console.log(`\n${sends} events to ${receivers} receivers, ${rounds} rounds each: from event to arrival at the ${receivers - hanging} healthy ones, median (range)\n`)
  console.log(`none hangs       p50 ${of(results.without, "p50")} ms   p95 ${of(results.without, "p95")} ms`)
  console.log(`${hanging} of ${receivers} hang    p50 ${of(results.withHanging, "p50")} ms   p95 ${of(results.withHanging, "p95")} ms`)
  console.log(`ratio of p95     ${spread(results.withHanging.map((one, index) => one.p95 / results.without[index]!.p95))}`)
} finally {
  for (const server of servers) server.close()
}
process.exit()
