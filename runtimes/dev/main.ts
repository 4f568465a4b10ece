/**
 * Development mode: everything in one process, with a sandbox, a key and a
 * mailbox. Until there is a durable store it keeps mail in memory, and says so.
 */
import { Console, Effect, Layer } from "effect"
import { HttpServer } from "effect/http"
import * as MemoryJobQueue from "../../adapters/memory/MemoryJobQueue.ts"
import * as MemoryRateLimiter from "../../adapters/memory/MemoryRateLimiter.ts"
import * as MemoryStore from "../../adapters/memory/MemoryStore.ts"
import * as FileBlobStore from "../../adapters/node/FileBlobStore.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import * as NodemailerMime from "../../adapters/nodemailer/NodemailerMime.ts"
import * as Mailroom from "../../core/Mailroom.ts"
import * as Config from "../Config.ts"
import * as Http from "../http/index.ts"
import * as Loops from "../Loops.ts"
import * as Outbound from "../Outbound.ts"
import * as Banner from "./Banner.ts"
import * as DataFolder from "./DataFolder.ts"
import { provision } from "./Provision.ts"
import * as Timeline from "./Timeline.ts"

/** Flags go before settings; null: not given. */
export interface Flags {
  readonly data: string | null
  readonly port: number | null
}

/** Runs until it is interrupted. */
export const dev = Effect.fn("dev")(function* (flags: Flags) {
  const variables = Config.withFlags(Config.environment(), flags)
  // Before anything else, for what it sets for development is at fault in production.
  if (variables[Config.settings.mode.name] === "production") {
    return yield* new Config.ConfigFaults({ faults: ["MAILROOM_MODE is \"production\"; `dev` wants `development`"] })
  }
  const config = yield* Config.load(variables, {
    mode: "development",
    ipRequestsPerMinute: "6000",
    // Receivers are on the developer's own machine.
    webhookAllowHttp: "true",
    webhookAllowedAddresses: "127.0.0.0/8,::1",
    // On a terminal the timeline is what a person reads; requests would drown it.
    logLevel: process.stderr.isTTY ? "Warn" : "Info"
  })
  yield* DataFolder.open(config.data)
  const earlier = yield* DataFolder.readDevFile(config.data)
  const ports = Layer.mergeAll(
    MemoryStore.layer,
    MemoryJobQueue.layer,
    MemoryRateLimiter.layer,
    FileBlobStore.layer({ directory: yield* DataFolder.blobFolder(config.data) }),
    NodeCrypto.layer({ sealingKeys: yield* DataFolder.sealingKeys(config.data) }),
    NodemailerMime.layer,
    Outbound.layer(config)
  )
  const core = Mailroom.layer.pipe(Layer.provideMerge(ports), Layer.provide(Config.settingsLayer(config)))
  const server = Http.Server.layer({ host: config.host, port: config.port })
  const http = Http.layer({ trustedProxies: config.trustedProxies })
  const running = Effect.gen(function* () {
    const baseUrl = Banner.baseUrl(config, (yield* HttpServer.HttpServer).address)
    const provisioned = yield* provision(earlier, {
      domain: config.devDomain,
      withProduction: config.smtpHost !== null
    })
    const devFile: DataFolder.DevFile = { baseUrl, docsUrl: `${baseUrl}/docs`, smtp: null, ...provisioned }
    yield* DataFolder.writeDevFile(config.data, devFile)
    yield* Console.log(Banner.text(config, devFile))
    const { production } = devFile
    return yield* Timeline.follow(devFile.tenantId, [
      { id: devFile.applicationId, environment: "sandbox" },
      ...(production === undefined ? [] : [{ id: production.applicationId, environment: "production" as const }])
    ])
  })
  return yield* running.pipe(
    // In this order: the server stops taking requests before the loops write the request log for the last time.
    Effect.provide(http.pipe(Layer.provideMerge(server), Layer.provideMerge(Loops.layer), Layer.provideMerge(core))),
    Effect.catchTag("ServeError", (error) => Effect.fail(Banner.listenFault(config, error))),
    Effect.provide(Config.logLayer(config))
  )
}, Effect.scoped)
