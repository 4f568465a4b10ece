/**
 * The HTTP runtime: serves the contract, its document and its docs page over
 * the operations of the core. `layer` needs a server to listen with; `Server`
 * has Node's.
 */
import { Context, Deferred, Duration, Effect, Layer, Option, Tracer } from "effect"
import { Headers, HttpEffect, HttpMiddleware, HttpRouter, HttpServer, HttpServerRequest, HttpServerResponse } from "effect/http"
import { ClientAddress } from "./Call.ts"
import * as DocsPage from "./DocsPage.ts"
import * as Document from "./Document.ts"
import { Drain, DrainState } from "./Drain.ts"
import { Handlers } from "./Handlers.ts"
import { pipelineLayer } from "./Pipeline.ts"
import { metricsLayer, type MetricsAccess } from "./Metrics.ts"
import { probesLayer } from "./Probes.ts"
import { providersLayer } from "./Providers.ts"
import { ShuttingDown } from "./Refusals.ts"
import { pages } from "./Routes.ts"
import * as Server from "./Server.ts"
import * as TrustedProxies from "./TrustedProxies.ts"

export { Api } from "./Api.ts"
export * as Document from "./Document.ts"
export { catalogue, errorsMarkdown, type Code, type ErrorBody } from "./ErrorBody.ts"
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

/** The longest path parameter that the router passes on; what is no UUID is for the schema to refuse. */
const maxParamLength = 16 * 1024

const routerConfig = { caseSensitive: true, ignoreTrailingSlash: false, ignoreDuplicateSlashes: false, maxParamLength }

const routes = (servers: ReadonlyArray<string>, trustedProxies: ReadonlyArray<string>, metrics: MetricsAccess) => {
  return Layer.mergeAll(probesLayer, providersLayer, metricsLayer(metrics), pagesLayer(servers)).pipe(
    Layer.provide(pipelineLayer(TrustedProxies.make(trustedProxies))),
    Layer.provide(Handlers.layer),
    outsideOfSpans
  )
}

/** Handlers run in the context that they were built in, which may be within a span of whoever starts the process. */
const outsideOfSpans = <A, E, R>(layer: Layer.Layer<A, E, R>): Layer.Layer<A, E, R> =>
  Layer.fromBuild((memoMap, scope) =>
    Effect.updateContext(
      Layer.buildWithMemoMap(layer, memoMap, scope),
      // It may be in there, though nobody asks for it.
      (context: Context.Context<R>) => Context.omit(Tracer.ParentSpan)(context as Context.Context<R | Tracer.ParentSpan>) as Context.Context<R>
    )
  )

/** The router's own spans would hold URLs, addresses and user agents. The pipeline has one for each request. */
const ownSpansOnly = Layer.succeed(HttpMiddleware.TracerDisabledWhen, () => true)

/** Serves until its scope closes; then it turns new requests away and lets those in flight finish. */
export const layer = ({ servers, trustedProxies = [], grace = Server.graceDefault, metrics = null }: Options = {}) => {
  const served = Layer.unwrap(
    Effect.map(HttpServer.HttpServer, ({ address }) =>
      HttpRouter.serve(routes(servers ?? [HttpServer.formatAddress(address)], trustedProxies, metrics), {
        disableLogger: true,
        disableListenLog: true,
        routerConfig
      })
    )
  ).pipe(Layer.provide(ownSpansOnly))
  return Drain.onClose(Duration.fromInputUnsafe(grace)).pipe(Layer.provideMerge(served), Layer.provide(Drain.layer))
}

/**
 * Answers one request of a host, on behalf of the client at this address (the IP guard counts by it). Null: the host's own
 * process calls, which the IP guard does not count; the limits of the key and the tenant hold all the same.
 */
export type FetchHandler = (request: Request, clientAddress: string | null) => Promise<Response>

/** Where a call of the process itself is from, in its log. */
const here = "127.0.0.1"

/**
 * The same service as a web-standard handler, to be mounted in a server that is there already; it answers until its
 * scope closes, which waits for the requests that are under way. The host says who the client is; forwarding headers mean nothing here. What concerns bytes on a
 * connection (slow, malformed or oversized headers) is the host's to refuse.
 */
export const fetchHandler = ({
  servers,
  grace = Server.graceDefault,
  metrics = null
}: Pick<Options, "grace" | "metrics"> & { readonly servers: ReadonlyArray<string> }) =>
  Effect.gen(function* () {
    const drain = new DrainState()
    const app = Layer.provide(routes(servers, [], metrics), Layer.succeed(Drain, drain))
    const router = yield* HttpRouter.toHttpEffect(app).pipe(Effect.provideService(HttpRouter.RouterConfig, routerConfig))
    const asHosted = Effect.gen(function* () {
      const request = yield* HttpServerRequest.HttpServerRequest
      const clientAddress = yield* ClientAddress
      // A request that never was on a wire has no Host; its URL says the same.
      const host = request.headers["host"] ?? new URL(request.originalUrl).host
      const hosted = request.modify({
        headers: Headers.set(request.headers, "host", host),
        remoteAddress: Option.some(clientAddress ?? here)
      })
      return yield* Effect.provideService(router, HttpServerRequest.HttpServerRequest, hosted)
    })
    // Loggers, levels, the tracer and the clock are those of whoever builds the handler.
    const context = Context.add(yield* Effect.context<never>(), HttpMiddleware.TracerDisabledWhen, () => true)
    const handle = HttpEffect.toWebHandlerWith<never, Effect.Services<typeof asHosted>>(context)(asHosted)
    const underWay = new Set<Promise<unknown>>()
    const handler: FetchHandler = (request, clientAddress) => {
      const answer = handle(request, Context.make(ClientAddress, clientAddress))
      const settled: Promise<unknown> = Promise.allSettled([answer]).then(() => underWay.delete(settled))
      underWay.add(settled)
      return answer
    }
    // Closed before what it is made of, for it is added last: turns new requests away, and waits for the others.
    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => {
        drain.isDraining = true
        return Effect.promise(() => Promise.all(underWay)).pipe(
          Effect.timeoutOption(Duration.fromInputUnsafe(grace)),
          Effect.andThen(Deferred.fail(drain.expired, new ShuttingDown()))
        )
      })
    )
    return handler
  })

/** Made when first asked for: a process that nobody asks for its documents starts without them. */
const pagesLayer = (servers: ReadonlyArray<string>) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const document = yield* Effect.cached(Effect.sync(() => Document.make(servers)))
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
