/**
 * Memory stays flat over 10,000 attempts at a receiver whose certificate
 * nobody trusts: a class of leak that HTTP clients have had.
 */
import { Effect, Layer, Result } from "effect"
import { fork } from "node:child_process"
import { createServer } from "node:https"
import type { AddressInfo } from "node:net"
import * as NodeResolver from "../adapters/node/NodeResolver.ts"
import * as UndiciWebhookTransport from "../adapters/undici/UndiciWebhookTransport.ts"
import * as Webhook from "../core/model/Webhook.ts"
import * as WebhookUrl from "../core/model/WebhookUrl.ts"
import { WebhookTransport } from "../core/ports/WebhookTransport.ts"
import * as Certificates from "./Certificates.ts"

const attempts = Number(process.env["BENCH_ATTEMPTS"] ?? 10_000)
const samples = 10
const growthMaxMiB = 8

if (process.argv[2] === "receiver") {
  const { untrusted } = await Certificates.make()
  const server = createServer(untrusted, (_, response) => response.end())
  server.listen(0, "127.0.0.1", () => process.send!((server.address() as AddressInfo).port)) // forked, and listening
} else if (globalThis.gc === undefined) {
  // Heap sizes mean something only right after a collection.
  const child = fork(import.meta.filename, [], { execArgv: ["--expose-gc"] })
  child.on("exit", (code) => process.exit(code ?? 1))
} else {
  const collect = globalThis.gc
  await measure(() => collect())
}

async function measure(collect: () => void): Promise<void> {
  const receiver = fork(import.meta.filename, ["receiver"])
  try {
    const port = await new Promise<number>((resolve) => receiver.once("message", (message) => resolve(Number(message))))
    const target = Result.getOrThrow(
      WebhookUrl.parse(`https://localhost:${port}/`, { allowHttp: false, allowedBlocks: ["127.0.0.0/8", "::1/128"] })
    )
    const request = { target, headers: Webhook.commonHeaders, body: new TextEncoder().encode('{"a":"webhook"}') }
    const heapMiB = () => {
      collect()
      return process.memoryUsage().heapUsed / 2 ** 20
    }
    const program = Effect.gen(function* () {
      const transport = yield* WebhookTransport
      const attempt = Effect.flatMap(Effect.result(transport.post(request)), (result) =>
        Result.isFailure(result) && result.failure.reason === "network_error"
          ? Effect.void
          : Effect.die(new Error("void: the certificate was taken"))
      )
      const batch = Effect.all(Array.from({ length: attempts / samples }, () => attempt), { concurrency: 16, discard: true })
      yield* batch // warm-up, not counted
      const heaps: Array<number> = []
      console.log(`${"attempts".padStart(8)}   heap MiB   resident MiB`)
      for (let sample = 0; sample <= samples; sample++) {
        if (sample > 0) yield* batch
        heaps.push(heapMiB())
        const resident = process.memoryUsage().rss / 2 ** 20
        console.log(`${String((sample * attempts) / samples).padStart(8)}   ${heaps.at(-1)!.toFixed(2).padStart(8)}   ${resident.toFixed(0).padStart(12)}`)
      }
      const growth = heaps.at(-1)! - heaps[0]!
      console.log(`growth ${growth.toFixed(2)} MiB; allowed ${growthMaxMiB}`)
      if (growth > growthMaxMiB) process.exitCode = 1
    })
    const transport = UndiciWebhookTransport.layer.pipe(Layer.provide(NodeResolver.layer))
    await Effect.runPromise(Effect.provide(program, transport))
  } finally {
    receiver.kill()
  }
  process.exit()
}
