/**
 * Around every request: its id, the client's address, the IP guard, the
 * answer to whatever went wrong, the headers that all answers have, one log
 * line, and one entry in the request log for a caller who is known.
 */
import { Cause, Clock, Effect, Exit, type Fiber, Option, Tracer, type Types } from "effect"
import { Headers, HttpMethod, HttpRouter, HttpServerRequest, HttpServerResponse, HttpTraceContext } from "effect/http"
import { IncomingMessage } from "node:http"
import { Access } from "../../core/operations/Access.ts"
import { RequestLog } from "../../core/operations/RequestLog.ts"
import { Crypto } from "../../core/ports/Crypto.ts"
import * as Tracing from "../../core/Tracing.ts"
import { addressOf, type TrustedProxies } from "../TrustedProxies.ts"
import { Answers } from "./AnswerRoom.ts"
import { Call, CallState, ClientAddress } from "./Call.ts"
import { Drain, type DrainState } from "./Drain.ts"
import * as Guard from "./Guard.ts"
import type { Issue } from "./Issues.ts"
import * as Metrics from "./Metrics.ts"
import { isProbe } from "./Probes.ts"
import { isNotification } from "./Providers.ts"
import { Defect, InvalidRequest, logFault, MethodNotAllowed, RouteUnknown, ShuttingDown, type Refusal } from "./Refusals.ts"
import { routeAt, type Match } from "./Routes.ts"

/** The pipeline, around all routes. `trusted`: proxies whose word for the client's address is taken. */
export const pipelineLayer = (trusted: TrustedProxies) =>
  HttpRouter.middleware(
    Effect.gen(function* () {
      const access = yield* Access
      const crypto = yield* Crypto
      const requestLog = yield* RequestLog
      const drain = yield* Drain
      const serve = yield* Guard.make
      const room = yield* Answers

      /** Everything before the route, and then the operation; what is no operation is the router's. */
      const answered = Effect.fnUntraced(function* <E, R>(
        call: CallState,
        request: HttpServerRequest.HttpServerRequest,
        match: Match | null,
        router: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
      ) {
        const isChunkedEarly = isChunkedBeforeItsTime(request)
        if (isChunkedEarly) call.headers["connection"] = "close" // whatever else is the matter
        if (!isProbe(call.route)) {
          if (drain.isDraining) return yield* new ShuttingDown()
          const isFromInside = (yield* ClientAddress) === null
          // Two come joined; a name has no comma.
          const fault = request.headers["host"]?.includes(",") !== false ? notOneHost : isChunkedEarly ? chunkedTooEarly : null
          // What is posted there is counted where it is refused.
          const isGuarded = fault !== null || !isNotification(call.method, match?.route.template)
          if (!isFromInside && isGuarded) call.guarded(yield* access.guardAddress(call.clientAddress))
          if (fault !== null) return yield* new InvalidRequest({ issues: [fault] })
        }
        if (match === null) return yield* new RouteUnknown()
        const { methods, operations } = match.route
        if (!methods.includes(call.method)) return yield* new MethodNotAllowed({ allow: methods })
        const operation = operations.get(call.method)
        if (operation === undefined) {
          // The template is all that the router needs: it has limits of its own for a path, and knows none that is no UTF-8.
          const routed = Effect.provideService(router, HttpServerRequest.HttpServerRequest, request.modify({ url: match.route.template }))
          const response = yield* Effect.orDie(Effect.provideService(routed, Call, call))
          return HttpServerResponse.setHeaders(response, headersOf(call, drain))
        }
        const value = yield* Effect.interruptible(serve(operation, call, request, match.params))
        const response = operation.respond(value, headersOf(call, drain))
        return call.principal === null ? response : yield* room.hold(call.principal.realm.tenantId, response)
      })

      return (router) =>
        Effect.gen(function* () {
          const given = yield* HttpServerRequest.HttpServerRequest
          const request = asSent(given)
          const clock = yield* Clock.Clock
          const path = pathOf(request.url)
          const match = routeAt(path)
          const peer = Option.getOrElse(request.remoteAddress, () => "unknown")
          const call: CallState = new CallState({
            requestId: yield* crypto.uuid,
            clientAddress: addressOf(peer, request.headers["x-forwarded-for"], trusted),
            method: request.method,
            route: path,
            startedAt: clock.currentTimeMillisUnsafe(),
            startedNanos: clock.monotonicTimeNanosUnsafe()
          })
          const ended = answered(call, request, match, router).pipe(
            Effect.catchCause((cause) => answerCause(call, drain, cause)),
            Effect.onExit((exit) => record(call, requestLog, Exit.isSuccess(exit) ? exit.value.status : clientGone))
          )
          const told = traced(Effect.annotateLogs(ended, { requestId: call.requestId }), call, match?.route.template ?? null, request.headers)
          return yield* request === given ? told : Effect.provideService(told, HttpServerRequest.HttpServerRequest, request)
        })
    }),
    { global: true }
  )

/** The request's span, in the trace of a caller who names one. Probes and scrapes have none. */
const traced = <A, E, R>(
  self: Effect.Effect<A, E, R>,
  { method, route, requestId }: CallState,
  template: string | null,
  headers: Headers.Headers
): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => {
    if (!Tracing.isTraced(fiber) || isProbe(route)) return self
    const verb = HttpMethod.isHttpMethod(method) ? method : "_OTHER"
    return Effect.useSpan(
      template === null ? verb : `${verb} ${template}`,
      {
        kind: "server",
        ...Option.match(HttpTraceContext.w3c(headers), { onNone: () => ({ root: true }), onSome: (parent) => ({ parent }) }),
        attributes: {
          "http.request.method": verb,
          ...(template === null ? {} : { "http.route": template }),
          "mailroom.request_id": requestId
        }
      },
      (span) => Effect.provideService(self, Tracer.ParentSpan, span)
    ) as Effect.Effect<A, E, R> // nobody asks for a parent span
  })

/** The status in our logs for a request whose client did not wait for the answer. */
const clientGone = 499

/** Whoever passed it on may have seen its body end elsewhere, for no version before 1.1 knows Transfer-Encoding (RFC 9112, 6.1). */
const isChunkedBeforeItsTime = ({ headers, source }: HttpServerRequest.HttpServerRequest): boolean =>
  headers["transfer-encoding"] !== undefined && source instanceof IncomingMessage && source.httpVersion !== "1.1"

const chunkedTooEarly: Issue = { path: "", code: "malformed_http", message: "Expected no Transfer-Encoding before HTTP/1.1" }

const notOneHost: Issue = { path: "", code: "malformed_http", message: "Expected a Host header, and one only" }

/**
 * Of a target that names a host (RFC 9112, 3.2.2) the platform makes a URL, whose path has other dots and slashes than were
 * sent, and takes its host for the Host that there must be. Who stands before us may have looked at what came.
 */
const asSent = (request: HttpServerRequest.HttpServerRequest): HttpServerRequest.HttpServerRequest => {
  const { source } = request
  if (!(source instanceof IncomingMessage) || source.url === undefined || source.url === request.url) return request
  const path = source.url.replace(/^https?:\/\/[^/?#]*/i, "")
  const { host } = source.headers
  return request.modify({
    url: path.startsWith("/") ? path : `/${path}`,
    headers: host === undefined ? Headers.remove(request.headers, "host") : Headers.set(request.headers, "host", host)
  })
}

const pathOf = (url: string): string => {
  const end = url.indexOf("?")
  return end < 0 ? url : url.slice(0, end)
}

/** The answer to all that did not become one inside. What failed on our side is logged with its cause. */
const answerCause = (call: CallState, drain: DrainState, cause: Cause.Cause<Refusal>) =>
  Effect.gen(function* () {
    // An interruption is for the server.
    const interruption = cause.reasons.filter(Cause.isInterruptReason)
    if (interruption.length === cause.reasons.length) return yield* Effect.failCause(Cause.fromReasons<Types.unhandled>(interruption))
    const refusal = Option.getOrElse(Cause.findErrorOption(cause), () => new Defect())
    const { status, body } = call.refuse(refusal)
    if (refusal._tag === "Defect") yield* Effect.logError("a request met with a defect", cause)
    else yield* logFault(refusal, status)
    return HttpServerResponse.jsonUnsafe(body, { status, headers: headersOf(call, drain) })
  })

const headersOf = (call: CallState, { isDraining }: DrainState): Readonly<Record<string, string>> => ({
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  "x-request-id": call.requestId,
  ...call.rateLimitHeaders(),
  ...call.headers,
  ...(isDraining ? { connection: "close" } : {})
})

/** Counts the request, and says in its span how it ended; the id of its trace, if it has one. */
const measured = (fiber: Fiber.Fiber<unknown, unknown>, call: CallState, status: number, seconds: number): string | null => {
  const { route, operation, code, principal, subjects } = call
  if (isProbe(route)) return null
  Metrics.answered(fiber.context, operation, status, code, seconds)
  const span = fiber.cache.span
  if (span?._tag !== "Span" || !Tracing.isTraced(fiber)) return null
  span.attribute("http.response.status_code", status)
  if (operation !== null) span.attribute("mailroom.operation", operation)
  if (code !== null) span.attribute("mailroom.code", code)
  if (principal !== null) span.attribute("mailroom.tenant_id", principal.realm.tenantId)
  if (principal !== null) span.attribute("mailroom.environment", principal.realm.environment)
  for (const [name, id] of Object.entries(subjects)) span.attribute(attributeNames[name as keyof typeof subjects], id) // its own keys
  return span.traceId
}

const attributeNames = {
  messageId: "mailroom.message_id",
  attachmentId: "mailroom.attachment_id",
  endpointId: "mailroom.endpoint_id",
  deliveryId: "mailroom.delivery_id"
} as const satisfies { readonly [K in keyof CallState["subjects"]]-?: string }

/** One line per request, without its headers, its query or its body. */
const record = (call: CallState, requestLog: typeof RequestLog.Service, status: number) =>
  Effect.withFiber((fiber) => {
    const { principal, operation, code, requestId, clientAddress, subjects } = call
    const durationMs = Number(fiber.getRef(Clock.Clock).monotonicTimeNanosUnsafe() - call.startedNanos) / 1e6
    const traceId = measured(fiber, call, status, durationMs / 1000)
    if (principal !== null && operation !== null) {
      requestLog.append({
        requestId,
        tenantId: principal.realm.tenantId,
        environment: principal.realm.environment,
        applicationId: principal.applicationId,
        apiKeyId: principal.apiKeyId,
        at: call.startedAt,
        operation,
        status,
        code,
        durationMs: Math.round(durationMs),
        clientAddress
      })
    }
    const log = status >= 500 ? Effect.logWarning : isProbe(call.route) ? Effect.logDebug : Effect.logInfo
    return Effect.annotateLogs(log("request"), {
      ...subjects,
      ...(traceId === null ? {} : { traceId }),
      tenantId: principal?.realm.tenantId ?? null,
      applicationId: principal?.applicationId ?? null,
      operation,
      method: call.method,
      route: operation === null ? plainly(call.route) : call.route,
      status,
      code,
      durationMs: Math.round(durationMs * 1000) / 1000,
      ...(call.reason === null ? {} : { reason: call.reason })
    })
  })

/** A path that names no operation may be anything, even a key or an address in the wrong place: plain words of it are told. */
const plainly = (path: string): string => path.slice(0, 200).split("/").map((part) => (/^[A-Za-z0-9.-]{0,24}$/.test(part) ? part : "...")).join("/")
