/**
 * The HTTP runtime: serves the contract, its document and its docs page over
 * the operations of the core. `layer` needs a server to listen with; `Server`
 * has Node's.
 */
import { Duration, Effect, Layer } from "effect"
import { HttpMiddleware, HttpRouter, HttpServer } from "effect/http"
import { Drain, graceDefault } from "./Drain.ts"
import { routes } from "./Fetch.ts"
import type { MetricsAccess } from "./Metrics.ts"

export { Api } from "./Api.ts"
export * as Document from "./Document.ts"
export { catalogue, errorsMarkdown, type Code, type ErrorBody } from "./ErrorBody.ts"
export { fetchHandler, type FetchHandler, type FetchOptions } from "./Fetch.ts"
export * as Metrics from "./Metrics.ts"
export * as Server from "./Server.ts"

export interface Options {
  /** The addresses at which clients reach the service, for the published document. Default: the one it listens at. */
  readonly servers?: ReadonlyArray<string>
  /** Addresses and CIDR ranges of proxies whose `X-Forwarded-For` counts. Default: none. */
  readonly trustedProxies?: ReadonlyArray<string>
  /** How long requests in flight may take to finish once it stops; as given to the server. */
  readonly grace?: Duration.Input
  /** Who may read `/metrics`. Default: nobody. */
  readonly metrics?: MetricsAccess
}

/** The router's own spans would hold URLs, addresses and user agents. The pipeline has one for each request. */
const noRouterSpans = Layer.succeed(HttpMiddleware.TracerDisabledWhen, () => true)

/** Serves until its scope closes; then it turns new requests away and lets those in flight finish. */
export const layer = ({ servers, trustedProxies = [], grace = graceDefault, metrics = null }: Options = {}) => {
  const served = Layer.unwrap(
    Effect.map(HttpServer.HttpServer, ({ address }) =>
      HttpRouter.serve(routes(servers ?? [HttpServer.formatAddress(address)], trustedProxies, metrics), {
        disableLogger: true,
        disableListenLog: true
      })
    )
  ).pipe(Layer.provide(noRouterSpans))
  return Drain.onClose(Duration.fromInputUnsafe(grace)).pipe(Layer.provideMerge(served), Layer.provide(Drain.layer))
}
