/**
 * Whether a crowd holds up its neighbours, on the product's own processes over
 * Postgres: first a fifth of the webhook receivers hang until their deadline,
 * and what the healthy ones get is timed, beside the same with none that hangs;
 * then one tenant has 100,000 messages queued, and another tenant sends.
 */
import { Effect, Exit, Redacted, Scope } from "effect"
import { randomBytes } from "node:crypto"
import { rmSync } from "node:fs"
import * as PrivatePostgres from "../adapters/postgres/PrivatePostgres.ts"
import { call, send as sendLetter, sleep, type Caller } from "./Api.ts"
import * as Cluster from "./Cluster.ts"
import { found } from "./Founding.ts"
import { Receiver } from "./faults/Witnesses.ts"
import { median, quantile } from "./Load.ts"
import { queueCopies } from "./Outbox.ts"

const backlog = Number(process.env["BENCH_BACKLOG"] ?? 100_000)
const sends = Number(process.env["BENCH_SENDS"] ?? 40)
const receiversMax = 50
/** Between two events, each of which goes to all receivers. */
const eventPauseMs = 750
const hanging = 10

const figures = (values: ReadonlyArray<number>) =>
  `p50 ${Math.round(median(values))} ms   p95 ${Math.round(quantile(values, 0.95))} ms   max ${Math.round(Math.max(...values))} ms`

const scope = Scope.makeUnsafe()
const postgres = await Effect.runPromise(Effect.provideService(PrivatePostgres.open({ isDurable: true }), Scope.Scope, scope))
await Effect.runPromise(postgres.started)
const url = postgres.url("postgres")
const variables = {
  MAILROOM_MODE: "development",
  MAILROOM_DATABASE_URL: Redacted.value(url),
  MAILROOM_SEALING_KEYS: `1:${randomBytes(32).toString("base64")}`,
  MAILROOM_IP_REQUESTS_PER_MINUTE: "1000000",
  MAILROOM_WEBHOOK_ALLOW_HTTP: "true",
  MAILROOM_WEBHOOK_ALLOWED_ADDRESSES: "127.0.0.0/8"
}

/** From event to arrival at the healthy receivers, with a fifth of them hanging or none. */
const deliver = async (receivers: ReadonlyArray<Receiver>, send: () => Promise<unknown>, doHang: boolean): Promise<ReadonlyArray<number>> => {
  for (const [index, receiver] of receivers.entries()) {
    receiver.hangs = doHang && index < hanging
    receiver.posts.length = 0
  }
  for (let number = 0; number < sends; number++) {
    await send()
    await sleep(eventPauseMs)
  }
  const healthy = receivers.slice(hanging)
  for (let waited = 0; healthy.some(({ posts }) => posts.length < sends); waited += 50) {
    if (waited > 60_000) throw new Error("void: not all deliveries arrived")
    await sleep(50)
  }
  return healthy.flatMap(({ posts }) => posts.map(({ at, body }) => at - Date.parse(JSON.parse(body).occurredAt)))
}

try {
  await Cluster.run(["migrate"], variables)
  const cluster = await Cluster.start({ serves: 1, workers: 0 }, variables)
  const [crowd] = await found(variables, "crowd.example")
  const [neighbour] = await found(variables, "neighbour.example")
  const baseUrl = cluster.baseUrls[0]!
  const send = (caller: Caller) => sendLetter(baseUrl, caller, "x")
  const statusOf = async (caller: Caller, id: string) =>
    (await call(baseUrl, caller.apiKey, "GET", `/v1/messages/${id}`))?.json["message"]?.status as string | undefined

  const withWorkers = async (play: () => Promise<void>) => {
    const workers = [1, 2].map((number) => new Cluster.Supervised(`worker-${number}`, ["worker"], variables, cluster.folder))
    for (const worker of workers) worker.start()
    try {
      await play()
    } finally {
      await Promise.all(workers.map((worker) => worker.stop()))
    }
  }

  await withWorkers(async () => {
    const receivers = Array.from({ length: receiversMax }, () => new Receiver(0))
    for (const receiver of receivers) {
      await receiver.listen()
      const body = { url: receiver.url, eventTypes: ["message.queued"] }
      const made = await call(baseUrl, crowd!.apiKey, "POST", "/v1/webhook-endpoints", { body })
      if (made?.status !== 201) throw new Error(`void: ${made?.status} ${JSON.stringify(made?.json)}`)
      receiver.secret = String(made.json["secret"])
    }
    await send(crowd!) // the workers have started when it has come; it is not counted
    while (receivers.some(({ posts }) => posts.length === 0)) await sleep(50)
    const none = await deliver(receivers, () => send(crowd!), false)
    const some = await deliver(receivers, () => send(crowd!), true)
    console.log(`\n${sends} events to ${receiversMax} receivers: from event to arrival at ${receiversMax - hanging} of them\n`)
    console.log(`none hangs          ${figures(none)}`)
    console.log(`the other ${hanging} hang   ${figures(some)}`)
    for (const receiver of receivers) receiver.close()
    if (quantile(some, 0.95) > 2_000) process.exitCode = 1
  })

  await queueCopies(Redacted.value(url), await send(crowd!), backlog)
  await withWorkers(async () => {
    const first = await send(neighbour!) // the workers have started when it is submitted; it is not counted
    while ((await statusOf(neighbour!, first)) === "queued") await sleep(50)
    const waits: Array<number> = []
    for (let number = 0; number < sends; number++) {
      const begin = performance.now()
      const id = await send(neighbour!)
      while ((await statusOf(neighbour!, id)) === "queued") await sleep(5)
      waits.push(performance.now() - begin)
      await sleep(50)
    }
    console.log(`\n${backlog} messages of one tenant queued; another tenant sends ${sends}: from the request to its submission\n`)
    console.log(figures(waits))
    if (quantile(waits, 0.95) > 2_000) process.exitCode = 1
  })
  await cluster.stop()
  rmSync(cluster.folder, { recursive: true })
} finally {
  await Effect.runPromise(Scope.close(scope, Exit.void))
}
