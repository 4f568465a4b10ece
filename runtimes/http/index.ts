/**
 * The HTTP runtime: serves the contract, its document and its docs page over
 * the operations of the core. `layer` needs a server to listen with; `Server`
 * has Node's.
 */
import { Duration, Effect, Layer } from "effect"
import { HttpRouter, HttpServer, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "./Api.ts"
import * as DocsPage from "./DocsPage.ts"
import * as Document from "./Document.ts"
import { Drain } from "./Drain.ts"
import { guardLayer, inputFaultsLayer } from "./Guard.ts"
import { handlersLayer } from "./Handlers.ts"
import { pipelineLayer } from "./Pipeline.ts"
import { probesLayer } from "./Probes.ts"
import { pages } from "./Routes.ts"
import * as Server from "./Server.ts"
import * as TrustedProxies from "./TrustedProxies.ts"

export { Api } from "./Api.ts"
export * as Document from "./Document.ts"
export { catalogue, errorsMarkdown, type Code, type ErrorBody } from "./ErrorBody.ts"
export * as Server from "./Server.ts"

export interface Options {
  /** The addresses at which clients reach the service, for the published document. Default: the one it listens at. */
  readonly servers?: ReadonlyArray<string>
  /** Addresses and CIDR ranges of proxies whose `X-Forwarded-For` counts. Default: none. */
  readonly trustedProxies?: ReadonlyArray<string>
  /** How long requests in flight may take to finish once it stops; as given to the server. */
  readonly grace?: Duration.Input
}

/** The longest path parameter that the router passes on; what is no UUID is for the schema to refuse. */
const maxParamLength = 16 * 1024

/** Serves until its scope closes; then it turns new requests away and lets those in flight finish. */
export const layer = ({ servers, trustedProxies = [], grace = Server.graceDefault }: Options = {}) => {
  const api = HttpApiBuilder.layer(Api).pipe(Layer.provide(handlersLayer), Layer.provide([guardLayer, inputFaultsLayer]))
  const routes = Layer.mergeAll(api, probesLayer, pagesLayer(servers)).pipe(
    Layer.provide(pipelineLayer(TrustedProxies.make(trustedProxies)))
  )
  const served = HttpRouter.serve(routes, {
    disableLogger: true,
    disableListenLog: true,
    routerConfig: { caseSensitive: true, ignoreTrailingSlash: false, ignoreDuplicateSlashes: false, maxParamLength }
  })
  return Drain.onClose(Duration.fromInputUnsafe(grace)).pipe(Layer.provideMerge(served), Layer.provide(Drain.layer))
}

/** Made when first asked for: a process that nobody asks for its documents starts without them. */
const pagesLayer = (servers: Options["servers"]) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const { address } = yield* HttpServer.HttpServer
      const document = yield* Effect.cached(
        Effect.sync(() => Document.make(servers ?? [HttpServer.formatAddress(address)]))
      )
      const yaml = yield* Effect.cached(
        Effect.map(document, (document) =>
          HttpServerResponse.text(Document.toYaml(document), { contentType: "application/yaml" })
        )
      )
      const docs = yield* Effect.cached(
        Effect.map(document, (document) =>
          HttpServerResponse.setHeader(
            HttpServerResponse.html(DocsPage.render(document)),
            "content-security-policy",
            DocsPage.contentSecurityPolicy
          )
        )
      )
      return Layer.mergeAll(
        HttpRouter.add("GET", pages.root, HttpServerResponse.redirect(pages.docs, { headers: { "content-length": "0" } })),
        HttpRouter.add("GET", pages.document, yaml),
        HttpRouter.add("GET", pages.docs, docs)
      )
    })
  )
