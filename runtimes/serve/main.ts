/** The HTTP API, over the deployment's database. What happens after a 202 is the workers'. */
import { Effect, Layer } from "effect"
import { HttpServer } from "effect/http"
import * as Loops from "../../core/Loops.ts"
import * as Mailroom from "../../core/Mailroom.ts"
import * as Adapters from "../Adapters.ts"
import * as Config from "../Config.ts"
import * as Http from "../http/index.ts"
import { baseUrl, listenFault } from "../Listening.ts"
import * as Outbound from "../Outbound.ts"
import * as Telemetry from "../Telemetry.ts"
import { untilStopped } from "../UntilStopped.ts"
import { version } from "../Version.ts"

/** Runs until it is interrupted. */
export const serve = Effect.gen(function* () {
  const config = yield* Config.deployment("sealing keys")
  const { connectionsMax, host, port, publicUrl, trustedProxies } = config
  const operations = Mailroom.operations.pipe(
    Layer.provideMerge(Layer.merge(Adapters.layer(config, "serve"), Outbound.serving(config))),
    Layer.provide(Config.settingsLayer(config))
  )
  const server = Http.Server.layer({ host, port, connectionsMax })
  const http = Http.layer({ trustedProxies, metrics: Http.Metrics.accessOf(config), ...(publicUrl === null ? {} : { servers: [publicUrl] }) })
  const ready = HttpServer.HttpServer.use(({ address }) =>
    Effect.annotateLogs(Effect.logInfo("serve: ready"), { version, address: baseUrl(config, address), database: Adapters.placeOf(config) })
  )
  // In this order: the server stops taking requests before the request log is written for the last time.
  const serving = http.pipe(Layer.provideMerge(server), Layer.provideMerge(Loops.serving), Layer.provideMerge(operations))
  return yield* untilStopped("serve", ready, serving).pipe(
    Effect.catchTag("ServeError", (error) => Effect.fail(listenFault(config, port, error, Config.settings.port.name))),
    Effect.provide(Layer.provideMerge(Telemetry.layer(config, "serve"), Config.logLayer(config)))
  )
})
