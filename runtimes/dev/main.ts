/**
 * Development mode: everything in one process, with a sandbox, a key and a
 * mailbox. Its database is in a folder, and there is nothing to install; a
 * database of yours, or none but memory, for those who say so.
 */
import { Console, Effect, Fiber, Layer } from "effect"
import { HttpServer } from "effect/http"
import * as Loops from "../../core/Loops.ts"
import * as Mailroom from "../../core/Mailroom.ts"
import { Crypto } from "../../core/ports/Crypto.ts"
import { Store } from "../../core/ports/Store.ts"
import * as Config from "../Config.ts"
import * as Http from "../http/index.ts"
import * as Inbound from "../Inbound.ts"
import { baseUrl as baseUrlOf, listenFault } from "../Listening.ts"
import * as Outbound from "../Outbound.ts"
import * as SealedSecrets from "../SealedSecrets.ts"
import * as Telemetry from "../Telemetry.ts"
import * as Banner from "./Banner.ts"
import * as DataFolder from "./DataFolder.ts"
import * as Ports from "./Ports.ts"
import { enableEndpoints, provision } from "./Provision.ts"
import * as Timeline from "./Timeline.ts"

/** Flags go before settings; null: not given. */
export interface Flags {
  readonly data: string | null
  readonly port: number | null
  /** Whether mail is kept in memory alone, whatever the settings say. */
  readonly memory: boolean
}

/** What development has where nobody says otherwise. */
const defaults = () => ({
  mode: "development",
  scanner: "eicar",
  metrics: "open",
  // A developer's mail comes from no domain that says so; and what is taken is taken for a port.
  inboundDmarc: "off",
  inboundPort: "0",
  ipRequestsPerMinute: "6000",
  // Receivers are on the developer's own machine.
  webhookAllowHttp: "true",
  webhookAllowedAddresses: "127.0.0.0/8,::1",
  // On a terminal the timeline is what a person reads; requests would drown it.
  logLevel: process.stderr.isTTY ? "Warn" : "Info"
})

/** Runs until it is interrupted. */
export const dev = Effect.fn("dev")(function* (flags: Flags) {
  const variables = Config.withFlags(Config.environment(), flags)
  // Before anything else, for what it sets for development is at fault in production.
  if (variables[Config.settings.mode.name] === "production") {
    return yield* new Config.ConfigFaults({ faults: ["MAILROOM_MODE is \"production\"; `dev` wants `development`"] })
  }
  // `--memory` is for whoever wants none of it this once, whatever is set.
  const set = yield* Config.load(variables, defaults(), flags.memory ? [] : ["database of redis"])
  yield* DataFolder.open(set.data)
  const earlier = yield* DataFolder.readDevFile(set.data)
  const config = set.sealingKeys.length > 0 ? set : { ...set, sealingKeys: yield* DataFolder.sealingKeys(set.data) }
  const place = Ports.placeOf(config, flags.memory)
  const preparing = yield* Effect.sleep("1 second").pipe(Effect.andThen(Console.log(Banner.preparing(config, place))), Effect.forkScoped)
  // A folder may come to a database that another has been used with.
  const opened = Layer.effectDiscard(
    Effect.gen(function* () {
      const { unopened } = yield* SealedSecrets.tried(yield* Store, yield* Crypto, config)
      if (unopened.length > 0) return yield* DataFolder.othersKeys(set.data, set.sealingKeys.length > 0)
    })
  )
  const core = Layer.merge(Mailroom.layer, opened).pipe(
    Layer.provide(Inbound.judges(config)),
    Layer.provideMerge(Layer.merge(Ports.layer(config, place), Outbound.layer(config))),
    Layer.provide(Config.settingsLayer(config, { ...Inbound.coreSettings(config), inboundEnvironment: "sandbox" }))
  )
  const server = Http.Server.layer({ host: config.host, port: config.port })
  const http = Http.layer({ trustedProxies: config.trustedProxies, metrics: Http.Metrics.accessOf(config) })
  const running = Effect.gen(function* () {
    const baseUrl = baseUrlOf(config, (yield* HttpServer.HttpServer).address)
    const provisioned = yield* provision(earlier, {
      domain: config.devDomain,
      withProduction: Outbound.productionPlace(config) !== null
    })
    const smtp = yield* Inbound.listenForDev(config, earlier?.smtp?.port ?? null)
    const devFile: DataFolder.DevFile = { baseUrl, docsUrl: `${baseUrl}/docs`, smtp, ...provisioned }
    yield* DataFolder.writeDevFile(config.data, devFile)
    yield* enableEndpoints(provisioned)
    yield* Fiber.interrupt(preparing)
    yield* Console.log(Banner.text(config, place, devFile, Outbound.productionPlace(config)))
    const { production } = devFile
    return yield* Timeline.follow(devFile.tenantId, [
      { id: devFile.applicationId, environment: "sandbox" },
      ...(production === undefined ? [] : [{ id: production.applicationId, environment: "production" as const }])
    ])
  })
  return yield* Effect.scoped(running).pipe(
    // In this order: the server stops taking requests before the loops write the request log for the last time.
    Effect.provide(http.pipe(Layer.provideMerge(server), Layer.provideMerge(Loops.layer), Layer.provideMerge(core))),
    Effect.catchTag("ServeError", (error) => Effect.fail(listenFault(config, config.port, error, "--port N"))),
    Effect.provide(Layer.provideMerge(Telemetry.layer(config, "dev"), Config.logLayer(config)))
  )
}, Effect.scoped)
