/**
 * What is served, as routes, and as a web-standard handler for a host that
 * has a server. It loads no server of ours: an embedding program installs
 * no package for one.
 */
import { Context, Deferred, Duration, Effect, Layer, Option } from "effect"
import { Headers, HttpEffect, HttpMiddleware, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Limits from "../../core/model/Limits.ts"
import * as TrustedProxies from "../TrustedProxies.ts"
import { Answers } from "./AnswerRoom.ts"
import { ClientAddress } from "./Call.ts"
import * as DocsPage from "./DocsPage.ts"
import * as Document from "./Document.ts"
import { Drain, DrainState, graceDefault } from "./Drain.ts"
import { Handlers } from "./Handlers.ts"
import { pipelineLayer } from "./Pipeline.ts"
import { metricsLayer, type MetricsAccess } from "./Metrics.ts"
import { probesLayer } from "./Probes.ts"
import { providersLayer } from "./Providers.ts"
import { ShuttingDown } from "./Refusals.ts"
import { pages } from "./Routes.ts"

/** All that is served, for a server or a host. */
export const routes = (servers: ReadonlyArray<string>, trustedProxies: ReadonlyArray<string>, metrics: MetricsAccess) =>
  Layer.mergeAll(probesLayer, providersLayer, metricsLayer(metrics), pagesLayer(servers)).pipe(
    Layer.provide(pipelineLayer(TrustedProxies.make(trustedProxies))),
    Layer.provide(Layer.provideMerge(Handlers.layer, Answers.layer))
  )

/**
 * Answers one request of a host, on behalf of the client at this address (the IP guard counts by it). Null: the host's own
 * process calls, which the IP guard does not count; the limits of the key and the tenant hold all the same.
 */
export type FetchHandler = (request: Request, clientAddress: string | null) => Promise<Response>

export interface FetchOptions {
  /** The addresses at which clients reach the service, for the published document. */
  readonly servers: ReadonlyArray<string>
  /** How long requests in flight may take to finish once its scope closes. */
  readonly grace?: Duration.Input
  /** Who may read `/metrics`. Default: nobody. */
  readonly metrics?: MetricsAccess
}

/** Where a call of the process itself is from, in its log. */
const here = "127.0.0.1"

/**
 * The same service as a web-standard handler, to be mounted in a server that is there already; it answers until its
 * scope closes, which waits for the requests that are under way, and for answers that are still being read. The host says
 * who the client is; forwarding headers mean nothing here. What concerns bytes on a connection (slow, malformed or
 * oversized headers) is the host's to refuse.
 */
export const fetchHandler = ({
  servers,
  grace = graceDefault,
  metrics = null
}: FetchOptions) =>
  Effect.gen(function* () {
    const drain = new DrainState()
    const app = Layer.provide(routes(servers, [], metrics), Layer.succeed(Drain, drain))
    const router = yield* HttpRouter.toHttpEffect(app)
    const underWay = new Set<Promise<unknown>>()
    /** A request's scope closes when its answer has been read, too, or is given up. */
    const untilRead = Effect.suspend(() => {
      const ended = Promise.withResolvers<void>()
      underWay.add(ended.promise)
      return Effect.addFinalizer(() =>
        Effect.sync(() => {
          underWay.delete(ended.promise)
          ended.resolve()
        })
      )
    })
    const asHosted = Effect.gen(function* () {
      yield* untilRead
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
    const handler: FetchHandler = async (request, clientAddress) => {
      const response = await handle(request, Context.make(ClientAddress, clientAddress))
      if (request.bodyUsed && request.body?.locked === false) void readAway(request.body)
      return response
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

/**
 * Reads what is left of a body that was refused in the middle, as far as a body may be long: who sends all of it before it looks
 * for the answer would never get one. What nobody has begun to read is the host's, as is what is left then.
 */
const readAway = async (body: ReadableStream<Uint8Array>): Promise<void> => {
  try {
    const reader = body.getReader()
    try {
      for (let left = Limits.uploadBodyBytesMax; left > 0; ) {
        const { done, value } = await reader.read()
        if (done) break
        left -= value.byteLength
      }
    } finally {
      reader.releaseLock()
    }
  } catch {
    // It broke off, and nobody waits for it.
  }
}

/** Made when first asked for: a process that nobody asks for its documents starts without them. */
const pagesLayer = (servers: ReadonlyArray<string>) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const document = yield* Effect.cached(Effect.sync(() => Document.make(servers)))
      const yaml = yield* Effect.cached(
        Effect.map(Effect.flatMap(document, Document.toYaml), (text) => HttpServerResponse.text(text, { contentType: "application/yaml" }))
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
      const toDocs = pages.docs.slice(pages.root.length) // relative, as its links: they may stand under a prefix
      return Layer.mergeAll(
        HttpRouter.add("GET", pages.root, HttpServerResponse.redirect(toDocs, { headers: { "content-length": "0" } })),
        HttpRouter.add("GET", pages.document, yaml),
        HttpRouter.add("GET", pages.docs, docs)
      )
    })
  )
