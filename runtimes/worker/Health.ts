/** What a worker, and `mailroom smtp`, answer to those who watch over them, where a port is set: `/healthz`, `/readyz` and `/metrics`. Nothing of the API. */
import { Effect, Layer } from "effect"
import { HttpRouter, HttpServer, HttpServerResponse } from "effect/http"
import { ClockOffset, isClockTrusted } from "../../core/ClockOffset.ts"
import type { Config } from "../Config.ts"
import * as Metrics from "../http/Metrics.ts"
import * as Probes from "../http/Probes.ts"
import * as Server from "../http/Server.ts"

const routes = Layer.unwrap(
  Effect.gen(function* () {
    const store = yield* Probes.storeFault
    const clockOffset = yield* ClockOffset
    const unready = (reason: string) => HttpServerResponse.jsonUnsafe({ status: "unready", reason }, { status: 503 })
    const ready = Effect.gen(function* () {
      const fault = yield* store.fault
      if (fault !== null) return unready(fault)
      if (!isClockTrusted(clockOffset)) return unready("clock")
      return HttpServerResponse.jsonUnsafe({ status: "ready" })
    })
    return Layer.mergeAll(
      HttpRouter.add("GET", Probes.paths[0], HttpServerResponse.jsonUnsafe({ status: "alive" })),
      HttpRouter.add("GET", Probes.paths[1], ready)
    )
  })
)

/** Listens as long as the process works. */
export const layer = ({ host, ...config }: Config, port: number | null, who: string) =>
  port === null
    ? Layer.empty
    : Layer.unwrap(
        Effect.map(HttpServer.HttpServer, ({ address }) =>
          Layer.merge(
            HttpRouter.serve(Layer.merge(routes, Metrics.plainLayer(Metrics.accessOf(config))), { disableLogger: true, disableListenLog: true }),
            Layer.effectDiscard(Effect.logInfo(`${who} health is at ${HttpServer.formatAddress(address)}`))
          )
        )
      ).pipe(Layer.provide(Server.layer({ host, port, grace: "1 second", timeouts: { closingTimeout: 0 } }))) // nobody is told that it is ready once it stops
