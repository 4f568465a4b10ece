/**
 * What is answered to bytes that never become a request, of which Node's server
 * knows only that they are wrong (Spec 7: the envelope, always), and to who
 * wants a tunnel.
 */
import { DateTime, Effect, type Context } from "effect"
import type { IncomingMessage, Server, ServerResponse } from "node:http"
import type { Duplex } from "node:stream"
import { Crypto } from "../../core/ports/Crypto.ts"
import { answer } from "./ErrorBody.ts"
import * as Metrics from "./Metrics.ts"
import { HeadersTooLarge, InvalidRequest, RequestTimeout, RouteUnknown, type Refusal } from "./Refusals.ts"

/** How long a client gets to read our last words before the connection is cut. */
const lastWords = "500 millis"

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

/** A request whose body never came to its end has had its answer: what comes is of that body, and no request. */
const isAnswered = ({ request, response }: Exchange): boolean => response.writableFinished && !request.complete

/** Answers for the server where Node would close the connection without a word. */
export const refuseMalformed = (server: Server, context: Context.Context<Crypto>): void => {
  const exchanges = new WeakMap<Duplex, Exchange>()
  /** Connections that end. Each piece of garbage that comes meanwhile is a fault of its own, and may be the rest of what was refused. */
  const ending = new WeakSet<Duplex>()
  const begin = (request: IncomingMessage, response: ServerResponse): void => {
    const before = exchanges.get(request.socket)?.response
    exchanges.set(request.socket, { request, response, earlier: before === undefined || before.writableFinished ? null : before })
  }
  // By either name: Node has one of its own for those that ask for leave to send their body (RFC 9110, 10.1.1).
  for (const name of ["request", "checkContinue"]) server.on(name, begin)
  // An expectation that we do not know changes nothing.
  server.on("checkExpectation", (request, response) => server.emit("request", request, response))
  /** Refuses what came last on a connection, and ends it; behind an answer that is under way it only ends it, after that. */
  const endWith = (socket: Duplex, refusal: Refusal) => {
    if (ending.has(socket)) return
    if (!socket.writable) return void socket.destroy()
    ending.add(socket)
    if (refusal._tag === "RequestTimeout") deafen(socket)
    const exchange = exchanges.get(socket)
    const underWay = exchange === undefined ? null : lastUnderWay(exchange)
    if (underWay !== null) underWay.once("close", () => Effect.runForkWith(context)(leave(socket)))
    else Effect.runForkWith(context)(exchange !== undefined && isAnswered(exchange) ? leave(socket) : refuse(socket, refusal))
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

/**
 * What comes from now on is read by nobody: the rest of what came too late would make it whole, and it would be carried out
 * though its client was told to send it again. Of garbage Node reads no more by itself.
 */
const deafen = (socket: Duplex): void => {
  const listeners = socket.listeners("data") // Node's, who has the bytes without them until somebody else listens
  socket.on("data", () => {})
  for (const listener of listeners) socket.off("data", listener as () => void)
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
    `Date: ${DateTime.toDateUtc(yield* DateTime.now).toUTCString()}`,
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(json)}`,
    `X-Request-Id: ${requestId}`,
    "Cache-Control: no-store",
    "X-Content-Type-Options: nosniff",
    "Connection: close"
  ]
  socket.write(`${head.join("\r\n")}\r\n\r\n${json}`)
  Metrics.answered(yield* Effect.context<never>(), null, status, body.code, null)
  yield* Effect.logInfo("request").pipe(Effect.annotateLogs({ requestId, operation: null, status, code: body.code }))
  yield* leave(socket)
})

/** Ends a connection, and cuts it once its client has had the time to read what was said. */
const leave = (socket: Duplex) =>
  Effect.sync(() => socket.end()).pipe(Effect.andThen(Effect.sleep(lastWords)), Effect.andThen(Effect.sync(() => socket.destroy())))
