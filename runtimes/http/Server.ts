/**
 * The Node server beneath: how long it waits, how much header it takes, and how
 * many connections. Whatever is still open when the time to finish is over is
 * cut.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Effect, Layer, type Duration } from "effect"
import { HttpServer } from "effect/http"
import { createServer, type ServerOptions } from "node:http"
import type { Crypto } from "../../core/ports/Crypto.ts"
import * as SeldomLog from "../../core/SeldomLog.ts"
import { graceDefault } from "./Drain.ts"
import { boundSlowness } from "./LeastRate.ts"
import { refuseMalformed } from "./Malformed.ts"
import { boundPipelines, pipelinedMax } from "./Pipelining.ts"
import { SmallPieces } from "./SmallPieces.ts"

export interface ListenOptions {
  readonly host: string
  /** 0: any free one. */
  readonly port: number
  /** Further connections are closed at once. Default 10,000; `serve` has `MAILROOM_CONNECTIONS_MAX`. */
  readonly connectionsMax?: number
  /** How long requests in flight may take to finish once the server stops. Default 20 seconds. */
  readonly grace?: Duration.Input
  /** Milliseconds; see `timeouts`. */
  readonly timeouts?: Partial<Timeouts>
}

/** Milliseconds. */
export const timeouts = {
  /** For the headers, from the first byte. */
  headersTimeout: 15_000,
  /** For the whole request; the largest upload at 3 Mbit/s. */
  requestTimeout: 120_000,
  /** Between requests of a connection; longer than what proxies keep idle connections for. */
  keepAliveTimeout: 65_000,
  /**
   * The same once the server stops. A request that a proxy has sent by then on a connection that it keeps is answered 503;
   * without this time Node would reset the connection, and the proxy could not tell whether anybody has read the request.
   */
  closingTimeout: 250,
  /**
   * Without a byte of the request, or of the answer: who takes nothing of it any more holds what it is read from. Twice that
   * at most for each piece of the answer (LeastRate.ts). Longer than a request may take, whose sender is told so.
   */
  silenceTimeout: 180_000,
  connectionsCheckingInterval: 2_000
}

type Timeouts = typeof timeouts

/** Each may hold headers of the size below: at most a third of what a process is given. */
const connectionsMaxDefault = 10_000

const headerBytesMax = 16 * 1024

const options = (timeouts: Omit<Timeouts, "silenceTimeout" | "closingTimeout">): ServerOptions<typeof SmallPieces> => ({
  ...timeouts,
  IncomingMessage: SmallPieces,
  maxHeaderSize: headerBytesMax,
  insecureHTTPParser: false,
  // Of an Authorization or a Content-Type that comes twice Node would take the first. Who stands before us may have looked
  // at the other, and a mounted handler is given both.
  joinDuplicateHeaders: true,
  // A request without Host is refused by Pipeline.ts, with an error body, not by Node.
  requireHostHeader: false,
  // There is nothing to upgrade to: a request that asks for it is served as it is.
  shouldUpgradeCallback: () => false
})

/** Listens. What is needed of the core is the source of request ids. */
export const layer = ({ host, port, connectionsMax = connectionsMaxDefault, grace = graceDefault, timeouts: over = {} }: ListenOptions) =>
  Layer.merge(
    Layer.effect(
      HttpServer.HttpServer,
      Effect.gen(function* () {
        const context = yield* Effect.context<Crypto>()
        const { closingTimeout, silenceTimeout, ...others } = { ...timeouts, ...over }
        const server = createServer(options(others)).setTimeout(silenceTimeout)
        if (closingTimeout > 0) {
          // Node calls it with the end of the listener.
          const closeIdle = Effect.sync(server.closeIdleConnections.bind(server))
          server.closeIdleConnections = () => void Effect.runForkWith(context)(Effect.delay(closeIdle, closingTimeout))
        }
        if (silenceTimeout > 0) yield* boundSlowness(server, silenceTimeout)
        refuseMalformed(server, context)
        server.maxConnections = connectionsMax
        const [seldom, seldomCrowded] = [SeldomLog.make(), SeldomLog.make()]
        const crowded = Effect.logWarning(`a connection was closed: more than ${pipelinedMax} requests came on it without waiting for answers`)
        boundPipelines(server, () => Effect.runForkWith(context)(seldomCrowded(crowded)))
        const full = Effect.logWarning(`a connection was closed: there are ${connectionsMax}, and no more are taken; start more processes, or raise connectionsMax (MAILROOM_CONNECTIONS_MAX of serve)`)
        server.on("drop", () => Effect.runForkWith(context)(seldom(full)))
        const listening = yield* NodeHttpServer.make(() => server, { host, port, gracefulShutdownTimeout: grace })
        // The system may be out of memory or descriptors for a moment: that costs this connection, and not the process.
        server.on("error", (cause) => Effect.runForkWith(context)(Effect.logWarning("a connection could not be taken", cause)))
        yield* Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
        return listening
      })
    ),
    NodeHttpServer.layerHttpServices
  )
