/**
 * Deliveries a second to one fast receiver, from the log to the last answer:
 * fan-out, claims, signature, request, record. Beside it, in the same rounds,
 * undici alone posting the same body. Over memory adapters: what is compared
 * is our own work, not a database's.
 */
import { Duration, Effect, Fiber, Layer, Logger, Redacted } from "effect"
import { fork } from "node:child_process"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { json } from "node:stream/consumers"
import * as EicarScanner from "../adapters/eicar/EicarScanner.ts"
import * as Memory from "../adapters/memory/index.ts"
import * as NodeCrypto from "../adapters/node/NodeCrypto.ts"
import * as NodeResolver from "../adapters/node/NodeResolver.ts"
import * as RfcMime from "../adapters/mime/RfcMime.ts"
import * as SandboxMailProvider from "../adapters/sandbox/SandboxMailProvider.ts"
import * as UndiciWebhookTransport from "../adapters/undici/UndiciWebhookTransport.ts"
import { EventRelay } from "../core/jobs/EventRelay.ts"
import { Worker } from "../core/jobs/Worker.ts"
import * as Mailroom from "../core/Mailroom.ts"
import { system } from "../core/model/Audit.ts"
import * as Limits from "../core/model/Limits.ts"
import { Management } from "../core/operations/Management.ts"
import { WebhookManagement } from "../core/operations/WebhookManagement.ts"
import { Webhooks } from "../core/operations/Webhooks.ts"
import { MailProviders } from "../core/ports/MailProvider.ts"
import { Store } from "../core/ports/Store.ts"
import { defaults, Settings } from "../core/Settings.ts"
import { spread } from "./Load.ts"
import * as Reference from "./reference/undici.ts"

const rounds = Number(process.env["BENCH_ROUNDS"] ?? 5)
const events = Number(process.env["BENCH_EVENTS"] ?? 5_000)
/** Of the product's cap for one endpoint, so that both have the same in flight. */
const inFlight = 8

if (process.argv[2] === "receiver") {
  let received = 0
  let sample = ""
  const server = createServer((request, response) => {
    void json(request).then((body) => {
      const { type, data } = body as { readonly type: string; readonly data: { readonly challenge?: string } }
      if (type === "webhook.endpoint_verification") return response.end(JSON.stringify({ challenge: data.challenge }))
      received += 1
      sample = JSON.stringify(body)
      return response.writeHead(204).end()
    })
  })
  process.on("message", () => {
    process.send!({ received, sample }) // forked
    received = 0
  })
  server.listen(0, "127.0.0.1", () => process.send!((server.address() as AddressInfo).port)) // it listens
} else {
  await measure()
}

interface Count {
  readonly received: number
  readonly sample: string
}

async function measure(): Promise<void> {
  const receiver = fork(import.meta.filename, ["receiver"])
  const message = () => new Promise<unknown>((resolve) => receiver.once("message", resolve))
  const counted = async (): Promise<Count> => {
    const answer = message()
    receiver.send("count")
    return (await answer) as Count // what it sends
  }
  const url = `http://127.0.0.1:${String(await message())}/`

  const cpuOf = async (work: () => Promise<void>) => {
    const [cpu, begun] = [process.cpuUsage(), performance.now()]
    await work()
    const { user, system } = process.cpuUsage(cpu)
    const { received, sample } = await counted()
    if (received !== events) throw new Error(`void: ${received} of ${events} arrived`)
    return { perSecond: events / ((performance.now() - begun) / 1_000), cpuMicros: (user + system) / events, sample }
  }

  const ports = Layer.mergeAll(
    Memory.MemoryStore.layer,
    Memory.MemoryJobQueue.layer,
    Memory.MemoryRateLimiter.layer,
    Memory.MemoryBlobStore.layer,
    NodeCrypto.layer({ sealingKeys: [{ version: 1, key: Redacted.make(new Uint8Array(32)) }] }),
    RfcMime.layer,
    EicarScanner.layer,
    Layer.succeed(MailProviders, { sandbox: SandboxMailProvider.make(), production: null }),
    UndiciWebhookTransport.layer.pipe(Layer.provide(NodeResolver.layer))
  )
  const settings = { ...defaults, webhookTargets: { allowHttp: true, allowedBlocks: ["127.0.0.0/8"] } }
  const core = Mailroom.layer.pipe(Layer.provideMerge(ports), Layer.provide(Layer.succeed(Settings, settings)))

  /** A fresh product with a backlog of events, drained. */
  const product = Effect.gen(function* () {
    const management = yield* Management
    const webhooks = yield* Webhooks
    const [relay, worker] = [yield* EventRelay, yield* Worker]
    const plan = Limits.plans[0]!
    yield* management.putPlan(plan)
    const { id: tenantId } = yield* management.createTenant(system, { name: "Bench", planId: plan.id })
    const { id: applicationId } = yield* management.createApplication(system, { tenantId, environment: "sandbox", name: "Bench" })
    const key = yield* management.issueKey(system, { tenantId, applicationId, name: "bench", scopes: ["webhooks:write"] })
    const principal = {
      realm: { tenantId, environment: "sandbox" as const },
      applicationId,
      apiKeyId: key.apiKey.id,
      scopes: key.apiKey.scopes,
      plan,
      requestId: crypto.randomUUID(),
      clientAddress: "127.0.0.1"
    }
    yield* webhooks.createEndpoint(principal, { url, description: null, eventTypes: ["*"] })
    const webhookManagement = yield* WebhookManagement
    for (let event = 0; event < events; event++) {
      yield* webhookManagement.sendTestEvent(system, { tenantId, applicationId, type: "message.bounced" })
    }
    /** As the runtime does it: relay and worker side by side, until nothing is pending. */
    const drain = Effect.gen(function* () {
      let isDone = false
      const store = yield* Store
      const working = yield* Effect.forkChild(worker.run(() => isDone, Duration.millis(200)))
      yield* Effect.repeat(relay.tick, { until: (count) => count === 0 })
      const pending = store.due("deliver", { dueBefore: Number.MAX_SAFE_INTEGER, after: null, limit: 1 })
      yield* Effect.repeat(Effect.delay(pending, "5 millis"), { until: ({ jobs }) => jobs.length === 0 })
      isDone = true
      yield* Fiber.join(working)
    })
    const context = yield* Effect.context<Store>()
    return yield* Effect.promise(() => cpuOf(() => Effect.runPromiseWith(context)(Effect.orDie(drain))))
  }).pipe(Effect.provide(Layer.merge(core, Logger.layer([]))))

  try {
    const results: Array<{ readonly ours: Figures; readonly undici: Figures }> = []
    for (let number = 0; number <= rounds; number++) {
      process.stderr.write(number === 0 ? "warm-up\n" : `round ${number} of ${rounds}\n`)
      const ours = await Effect.runPromise(product)
      const undici = await cpuOf(() => Reference.post(url, ours.sample, events, inFlight))
      if (number > 0) results.push({ ours, undici })
    }
    const line = (name: string, figures: ReadonlyArray<Figures>) =>
      console.log(`${name.padEnd(10)} ${spread(figures.map((one) => one.perSecond), 0)} /s   CPU ${spread(figures.map((one) => one.cpuMicros), 0)} µs`)
    console.log(`\n${events} deliveries of ${results[0]!.ours.sample.length} bytes to one receiver, ${inFlight} in flight, ${rounds} rounds: median (range)\n`)
    line("deliveries", results.map(({ ours }) => ours))
    line("undici", results.map(({ undici }) => undici))
    console.log(`ratio      rate ${spread(results.map(({ ours, undici }) => ours.perSecond / undici.perSecond))}   CPU ${spread(results.map(({ ours, undici }) => ours.cpuMicros / undici.cpuMicros))}`)
  } finally {
    receiver.kill()
  }
  process.exit()
}

interface Figures {
  readonly perSecond: number
  readonly cpuMicros: number
  readonly sample: string
}
