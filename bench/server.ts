/**
 * The product as the benchmarks run it: the HTTP runtime and the jobs over
 * memory adapters and a file-system blob store, with ceilings that no load
 * here reaches. Prints one line of JSON when it listens.
 */
import { Console, Effect, Layer, Logger, Redacted, Result } from "effect"
import { HttpServer } from "effect/http"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as EicarScanner from "../adapters/eicar/EicarScanner.ts"
import * as MemoryJobQueue from "../adapters/memory/MemoryJobQueue.ts"
import * as MemoryRateLimiter from "../adapters/memory/MemoryRateLimiter.ts"
import * as MemoryStore from "../adapters/memory/MemoryStore.ts"
import * as FileBlobStore from "../adapters/node/FileBlobStore.ts"
import * as NodeCrypto from "../adapters/node/NodeCrypto.ts"
import * as RfcMime from "../adapters/mime/RfcMime.ts"
import * as NodeResolver from "../adapters/node/NodeResolver.ts"
import * as SandboxMailProvider from "../adapters/sandbox/SandboxMailProvider.ts"
import * as UndiciWebhookTransport from "../adapters/undici/UndiciWebhookTransport.ts"
import * as Mailroom from "../core/Mailroom.ts"
import { parseDomain } from "../core/model/Address.ts"
import { Management } from "../core/operations/Management.ts"
import { MailProviders } from "../core/ports/MailProvider.ts"
import { defaults, Settings } from "../core/Settings.ts"
import { provision } from "../runtimes/dev/Provision.ts"
import * as Http from "../runtimes/http/index.ts"
import * as Loops from "../core/Loops.ts"

const ceiling = 1_000_000_000
const withJobs = process.argv.includes("--jobs")

const program = Effect.gen(function* () {
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "mailroom-bench-"))),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  )
  const ports = Layer.mergeAll(
    MemoryStore.layer,
    MemoryJobQueue.layer,
    MemoryRateLimiter.layer,
    FileBlobStore.layer({ directory: folder }),
    NodeCrypto.layer({ sealingKeys: [{ version: 1, key: Redacted.make(new Uint8Array(32)) }] }),
    RfcMime.layer,
    EicarScanner.layer,
    UndiciWebhookTransport.layer.pipe(Layer.provideMerge(NodeResolver.layer)),
    Layer.succeed(MailProviders, { sandbox: SandboxMailProvider.make(), production: null })
  )
  const core = Mailroom.layer.pipe(
    Layer.provideMerge(ports),
    Layer.provide(
      Layer.succeed(Settings, {
        ...defaults,
        ipRequestsPerMinute: ceiling,
        // Receivers are processes of the benchmark.
        webhookTargets: { allowHttp: true, allowedBlocks: ["127.0.0.0/8", "::1/128"] }
      })
    )
  )
  const served = Layer.merge(Http.layer({ servers: ["http://127.0.0.1"] }), withJobs ? Loops.layer : Layer.empty).pipe(
    Layer.provideMerge(Http.Server.layer({ host: "127.0.0.1", port: 0 })),
    Layer.provideMerge(core)
  )
  return yield* Effect.gen(function* () {
    const { address } = yield* HttpServer.HttpServer
    const { apiKey, mailboxes } = yield* provision(null, {
      domain: Result.getOrThrow(parseDomain("bench.example")),
      withProduction: false
    })
    const management = yield* Management
    const high = { keyRequestsPerMinute: ceiling, tenantRequestsPerDay: ceiling, recipientsPerDay: ceiling }
    yield* management.putPlan({ id: "dev", ...high })
    const baseUrl = `http://127.0.0.1:${"port" in address ? address.port : 0}`
    yield* Console.log(JSON.stringify({ baseUrl, apiKey, mailboxId: mailboxes[0]?.id }))
    return yield* Effect.never
  }).pipe(Effect.provide(served))
}).pipe(Effect.scoped, Effect.provide(Logger.layer([])))

process.once("disconnect", () => process.kill(process.pid, "SIGTERM")) // whoever started it has ended
NodeRuntime.runMain(program)
