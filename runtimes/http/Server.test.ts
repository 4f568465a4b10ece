import { assert, it } from "@effect/vitest"
import { Context, Effect, Layer, Logger } from "effect"
import { HttpServer } from "effect/http"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import * as Harness from "./harness.ts"
import * as Http from "./index.ts"
import { pipelinedMax } from "./Pipelining.ts"
import { Receivers } from "./receivers.ts"
import { timeouts } from "./Server.ts"

it("A server waits for as long as the guide says, and for each part of a request no longer than for the whole", () => {
  const guide = readFileSync(join(import.meta.dirname, "../../docs/deploy.md"), "utf8")
  const { headersTimeout, requestTimeout, keepAliveTimeout, closingTimeout, silenceTimeout, connectionsCheckingInterval } = timeouts

  assert.include(guide, `keep its idle time for connections to \`serve\` under ${keepAliveTimeout / 1_000} seconds`)
  assert.include(guide, "A client that takes nothing of its answer for three minutes is cut off.")
  assert.strictEqual(silenceTimeout, 3 * 60_000)
  assert.include(guide, "are closed a quarter of a second behind the signal")
  assert.strictEqual(closingTimeout, 250)
  // The largest upload at 3 Mbit/s; headers of some KiB, by whoever; and who is late is told so before he is cut off.
  assert.isAtLeast(requestTimeout, (36 * 2 ** 20 * 8) / 3e3)
  assert.isAtMost(headersTimeout, 15_000)
  assert.isBelow(requestTimeout, silenceTimeout)
  assert.isAtMost(connectionsCheckingInterval, headersTimeout / 5)
})

it.live("A server that is told nothing shows its metrics to nobody, and takes no proxy's word", () =>
  Effect.gen(function* () {
    const listening = Http.layer().pipe(
      Layer.provideMerge(Http.Server.layer({ host: "127.0.0.1", port: 0, timeouts: { closingTimeout: 0 } })),
      Layer.provideMerge(Harness.core({ ipRequestsPerMinute: 2 }, new Receivers())),
      Layer.provideMerge(Logger.layer([]))
    )
    const context = yield* Effect.orDie(Layer.build(listening))
    const { address } = Context.get(context, HttpServer.HttpServer)
    const port = "port" in address ? address.port : 0
    const statusOf = (path: string, from: string) =>
      Effect.promise(async () => (await fetch(`http://127.0.0.1:${port}${path}`, { headers: { "x-forwarded-for": from } })).status)

    assert.strictEqual(yield* statusOf("/metrics", "192.0.2.1"), 404)
    const statuses = yield* Effect.forEach(["192.0.2.1", "192.0.2.2", "192.0.2.3"], (from) => statusOf("/v1/mailboxes", from))
    assert.deepStrictEqual(statuses, [401, 401, 429])
  }).pipe(Effect.scoped)
)

it.live("A server takes headers of 16 KiB, and no more", () =>
  Effect.gen(function* () {
    const server = yield* Harness.start()
    const statusWith = (bytes: number) =>
      Effect.map(server.raw(Harness.wire("GET /healthz", [`X-A: ${"a".repeat(bytes)}`, "Connection: close"])), (answer) => answer.split(" ")[1])

    assert.strictEqual(yield* statusWith(16 * 1024 - 256), "200")
    assert.strictEqual(yield* statusWith(16 * 1024 + 1), "431")
  }).pipe(Effect.scoped)
)

it.live("A server says once that requests came too close together, however many connections they come on", () =>
  Effect.gen(function* () {
    const server = yield* Harness.start()
    const crowd = Harness.wire("GET /v1/nothing").repeat(pipelinedMax + 1)

    for (const _ of [1, 2]) yield* server.raw(crowd)

    const told = server.logs.filter((line) => line.includes(`more than ${pipelinedMax} requests came on it`))
    assert.lengthOf(told, 1)
  }).pipe(Effect.scoped)
)
