/**
 * The Node server beneath: how long it waits, how much header it takes, and
 * what it answers to bytes that never become a request (Spec 7: the envelope,
 * always). Whatever is still open when the time to finish is over is cut.
 */
import { NodeHttpServer } from "@effect/platform-node"
import { Context, Effect, Layer, type Duration } from "effect"
import { HttpServer } from "effect/http"
import { createServer, type IncomingMessage, type Server, type ServerOptions, type ServerResponse } from "node:http"
import type { Duplex } from "node:stream"
import { Crypto } from "../../core/ports/Crypto.ts"
import * as SeldomLog from "../../core/SeldomLog.ts"
import { graceDefault } from "./Drain.ts"
import { answer } from "./ErrorBody.ts"
import * as Metrics from "./Metrics.ts"
import { HeadersTooLarge, InvalidRequest, RequestTimeout, RouteUnknown, type Refusal } from "./Refusals.ts"

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
   * Without a byte of the request, or of the answer: who takes nothing of it any more holds what it is read from. Longer
   * than a request may take, whose sender is told so.
   */
  silenceTimeout: 180_000,
  connectionsCheckingInterval: 2_000
}

type Timeouts = typeof timeouts

/** Each may hold headers of the size below: at most a third of what a process is given. */
const connectionsMaxDefault = 10_000

const headerBytesMax = 16 * 1024

/**
 * Requests of one connection that are under way. What comes in one piece of 64 KiB comes at once, some thousands of requests,
 * and everybody else's would wait behind them. Hardly a client sends one before the answer to the last, and no proxy does.
 */
export const pipelinedMax = 32

/** How long a client gets to read our last words before the connection is cut. */
const lastWords = "500 millis"

const options = (timeouts: Omit<Timeouts, "silenceTimeout">): ServerOptions => ({
  ...timeouts,
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
        const { silenceTimeout, ...others } = { ...timeouts, ...over }
        const server = createServer(options(others)).setTimeout(silenceTimeout)
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

/** Closes a connection by which more requests come than may be under way, and keeps those from whoever answers. */
const boundPipelines = (server: Server, onCrowded: () => void): void => {
  const underWay = new WeakMap<Duplex, number>()
  const isTaken = ({ socket }: IncomingMessage, response: ServerResponse): boolean => {
    if (socket.destroyed) return false
    const count = (underWay.get(socket) ?? 0) + 1
    if (count > pipelinedMax) {
      socket.destroy()
      onCrowded()
      return false
    }
    underWay.set(socket, count)
    response.once("close", () => underWay.set(socket, underWay.get(socket)! - 1)) // it was counted
    return true
  }
  const emit = server.emit.bind(server) as (name: string | symbol, ...of: ReadonlyArray<unknown>) => boolean // whatever the event
  // No listener could keep a request from the others.
  server.emit = (name: string | symbol, ...of: ReadonlyArray<unknown>): boolean => {
    if (name !== "request" && name !== "checkContinue") return emit(name, ...of)
    const [request, response] = of as [IncomingMessage, ServerResponse] // by its name
    return !isTaken(request, response) || emit(name, request, response) // each request comes here: nothing is spread for it
  }
}

interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** To the request before it on its connection, if that was under way when this one came. */
  readonly earlier: ServerResponse | null
}

/** The last answer of a connection that is under way, and must not be mixed up with one to what cannot be read; null if none is. */
const lastUnderWay = ({ request, response, earlier }: Exchange): ServerResponse | null => {
  if (response.writableFinished) return null
  if (request.complete || response.headersSent) return response
  return earlier === null || earlier.writableFinished ? null : earlier
}

const refuseMalformed = (server: Server, context: Context.Context<Crypto>): void => {
  const exchanges = new WeakMap<Duplex, Exchange>()
  /** Connections that end with an answer: each piece of garbage that comes meanwhile is a fault of its own. */
  const ending = new WeakSet<Duplex>()
  server.on("request", (request, response) => {
    const before = exchanges.get(request.socket)?.response
    exchanges.set(request.socket, { request, response, earlier: before === undefined || before.writableFinished ? null : before })
  })
  // An expectation that we do not know changes nothing.
  server.on("checkExpectation", (request, response) => server.emit("request", request, response))
  /** Refuses what came last on a connection, and ends it; behind an answer that is under way it only ends it, after that. */
  const endWith = (socket: Duplex, refusal: Refusal) => {
    const exchange = exchanges.get(socket)
    const underWay = exchange === undefined ? null : lastUnderWay(exchange)
    if (!socket.writable) {
      socket.destroy()
    } else if (underWay !== null) {
      if (!ending.has(socket)) underWay.once("close", () => socket.destroy())
      ending.add(socket)
    } else {
      Effect.runForkWith(context)(refuse(socket, refusal))
    }
  }
  const drainListeners = new WeakMap<Duplex, ReturnType<Duplex["listeners"]>>()
  server.on("connection", (socket) => drainListeners.set(socket, socket.listeners("drain")))
  // Whoever wants a tunnel names no path of ours. Node lets go of such a connection, and would close it without a word. The
  // answers before it go on when there is room for more of them, and who takes nothing of them is given up as ever.
  server.on("connect", (_, socket) => {
    for (const listener of drainListeners.get(socket) ?? []) socket.on("drain", listener as () => void) // Node's own
    for (const fault of ["error", "timeout"]) socket.on(fault, () => socket.destroy())
    endWith(socket, new RouteUnknown())
  })
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    const exchange = exchanges.get(socket)
    const isInExchange = exchange !== undefined && !exchange.response.writableFinished
    if (error.code === "ECONNRESET" || (isInExchange && error.code === "HPE_INVALID_EOF_STATE")) socket.destroy()
    else endWith(socket, refusalOf(error))
  })
}

const refusalOf = (error: NodeJS.ErrnoException): Refusal => {
  switch (error.code) {
    case "HPE_HEADER_OVERFLOW":
      return new HeadersTooLarge()
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new RequestTimeout()
    default:
      return new InvalidRequest({ issues: [{ path: "", code: "malformed_http", message: "Expected an HTTP/1.1 request" }] })
  }
}

const refuse = Effect.fnUntraced(function* (socket: Duplex, refusal: Refusal) {
  const crypto = yield* Crypto
  const requestId = yield* crypto.uuid
  const { status, body } = answer(refusal, requestId)
  const json = JSON.stringify(body)
  const head = [
    `HTTP/1.1 ${status} ${body.error}`,
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(json)}`,
    `X-Request-Id: ${requestId}`,
    "Cache-Control: no-store",
    "X-Content-Type-Options: nosniff",
    "Connection: close"
  ]
  socket.end(`${head.join("\r\n")}\r\n\r\n${json}`)
  Metrics.answered(yield* Effect.context<never>(), null, status, body.code, null)
  yield* Effect.logInfo("request").pipe(Effect.annotateLogs({ requestId, operation: null, status, code: body.code }))
  yield* Effect.sleep(lastWords)
  socket.destroy()
})
