/**
 * Around every request: its id, the client's address, the IP guard, the
 * answer to whatever went wrong, the headers that all answers have, one log
 * line, and one entry in the request log for a caller who is known.
 */
import { Cause, Clock, Effect, Option, Result, Tracer } from "effect"
import { HttpMethod, HttpRouter, HttpServerRequest, HttpServerResponse, HttpTraceContext, type Headers } from "effect/http"
import { Access, RateLimited } from "../../core/operations/Access.ts"
import { RequestLog } from "../../core/operations/RequestLog.ts"
import { Crypto } from "../../core/ports/Crypto.ts"
import * as Tracing from "../../core/Tracing.ts"
import { Call, CallState } from "./Call.ts"
import { Drain } from "./Drain.ts"
import type { Issue } from "./Issues.ts"
import * as Metrics from "./Metrics.ts"
import { isProbe } from "./Probes.ts"
import { isIntake } from "./Providers.ts"
import { Defect, InvalidRequest, MethodNotAllowed, RouteUnknown, ShuttingDown } from "./Refusals.ts"
import { allowedAt, templateAt } from "./Routes.ts"
import { addressOf, type TrustedProxies } from "./TrustedProxies.ts"

export const pipelineLayer = (trusted: TrustedProxies) =>
  HttpRouter.middleware(
    Effect.gen(function* () {
      const access = yield* Access
      const crypto = yield* Crypto
      const requestLog = yield* RequestLog
      const drain = yield* Drain

      /** Everything that may refuse before the router, and then the router. */
      const admitted = Effect.fnUntraced(function* <A, E, R>(
        call: CallState,
        host: string | undefined,
        httpEffect: Effect.Effect<A, E, R>
      ) {
        if (!isProbe(call.route)) {
          if (drain.isDraining) return yield* new ShuttingDown()
          if (!isIntake(call.route)) call.guarded(yield* access.guardAddress(call.clientAddress))
          if (host === undefined) return yield* new InvalidRequest({ issues: [noHost] })
        }
        const allow = allowedAt(call.route)
        if (allow.length === 0) return yield* new RouteUnknown()
        if (!allow.includes(call.method)) return yield* new MethodNotAllowed({ allow })
        return yield* httpEffect
      })

      return (httpEffect) =>
        Effect.gen(function* () {
          const request = yield* HttpServerRequest.HttpServerRequest
          const path = pathOf(request.url)
          const peer = Option.getOrElse(request.remoteAddress, () => "unknown")
          const call: CallState = new CallState({
            requestId: yield* crypto.uuid,
            clientAddress: addressOf(peer, request.headers["x-forwarded-for"], trusted),
            method: request.method,
            route: path,
            startedAt: yield* Clock.currentTimeMillis,
            startedNanos: yield* Clock.monotonicTimeNanos
          })
          const answered = admitted(call, request.headers["host"], httpEffect).pipe(
            routable(request, path),
            Effect.provideService(Call, call),
            Effect.onInterrupt(() => record(call, requestLog, clientGone)),
            Effect.catchCause((cause) => answerCause(call, cause)),
            Effect.flatMap((response) => {
              const finished = finish(call, response, drain.isDraining)
              return Effect.as(record(call, requestLog, finished.status), finished)
            }),
            Effect.annotateLogs({ requestId: call.requestId })
          )
          return yield* traced(answered, call, request.headers)
        })
    }),
    { global: true }
  )

/** The request's span, in the trace of a caller who names one. Probes and scrapes have none. */
const traced = <A, E, R>(
  self: Effect.Effect<A, E, R>,
  { method, route, requestId }: CallState,
  headers: Headers.Headers
): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => {
    if (!Tracing.isTraced(fiber) || isProbe(route)) return self
    const template = templateAt(route)
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

const noHost: Issue = { path: "", code: "malformed_http", message: "Expected a Host header" }

const pathOf = (url: string): string => {
  const end = url.indexOf("?")
  return end < 0 ? url : url.slice(0, end)
}

/** The router knows no path that is not percent-encoded UTF-8; it gets one that says the same and is. */
const routable =
  (request: HttpServerRequest.HttpServerRequest, path: string) =>
  <A, E, R>(self: Effect.Effect<A, E, R>) =>
    !path.includes("%") || Result.isSuccess(Result.try(() => decodeURI(path)))
      ? self
      : Effect.provideService(
          self,
          HttpServerRequest.HttpServerRequest,
          request.modify({ url: path.replaceAll("%", "%25") + request.url.slice(path.length) })
        )

/** The answer to all that did not become one inside. */
const answerCause = <E>(call: CallState, cause: Cause.Cause<E>) =>
  Effect.gen(function* () {
    if (Cause.hasInterruptsOnly(cause)) return yield* Effect.failCause(cause)
    const refusal = refusalOf(cause)
    if (refusal._tag === "Defect") {
      yield* Effect.logError("a request met with a defect", cause)
    }
    const { status, body } = call.refuse(refusal)
    return HttpServerResponse.jsonUnsafe(body, { status })
  })

type Early = RateLimited | ShuttingDown | InvalidRequest | RouteUnknown | MethodNotAllowed

const early = [RateLimited, ShuttingDown, InvalidRequest, RouteUnknown, MethodNotAllowed]

const refusalOf = (cause: Cause.Cause<unknown>): Early | Defect => {
  const error: unknown = Option.getOrNull(Cause.findErrorOption(cause))
  return early.some((refusal) => error instanceof refusal) ? (error as Early) : new Defect() // of one of these classes
}

const common = { "cache-control": "no-store", "x-content-type-options": "nosniff" }

const finish = (call: CallState, response: HttpServerResponse.HttpServerResponse, isDraining: boolean) =>
  HttpServerResponse.setHeaders(response, {
    ...common,
    "x-request-id": call.requestId,
    ...call.rateLimitHeaders(),
    ...call.headers,
    ...(isDraining ? { connection: "close" } : {})
  })

/** Counts the request, and says in its span how it ended; the id of its trace, if it has one. */
const measured = ({ route, operation, code, principal, subjects }: CallState, status: number, seconds: number) =>
  Effect.withFiber<string | null>((fiber) => {
    if (isProbe(route)) return Effect.succeed(null)
    Metrics.answered(fiber.context, operation, status, code, seconds)
    const span = fiber.cache.span
    if (span?._tag !== "Span" || !Tracing.isTraced(fiber)) return Effect.succeed(null)
    span.attribute("http.response.status_code", status)
    if (operation !== null) span.attribute("mailroom.operation", operation)
    if (code !== null) span.attribute("mailroom.code", code)
    if (principal !== null) span.attribute("mailroom.tenant_id", principal.realm.tenantId)
    if (principal !== null) span.attribute("mailroom.environment", principal.realm.environment)
    for (const [name, id] of Object.entries(subjects)) span.attribute(attributeNames[name as keyof typeof subjects], id) // its own keys
    return Effect.succeed(span.traceId)
  })

const attributeNames = {
  messageId: "mailroom.message_id",
  attachmentId: "mailroom.attachment_id",
  endpointId: "mailroom.endpoint_id",
  deliveryId: "mailroom.delivery_id"
} as const satisfies { readonly [K in keyof CallState["subjects"]]-?: string }

/** One line per request, without its headers, its query or its body. */
const record = Effect.fnUntraced(function* (call: CallState, requestLog: typeof RequestLog.Service, status: number) {
  const { principal, operation, code, requestId, clientAddress, subjects } = call
  const durationMs = Number((yield* Clock.monotonicTimeNanos) - call.startedNanos) / 1e6
  const traceId = yield* measured(call, status, durationMs / 1000)
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
  yield* log("request").pipe(
    Effect.annotateLogs({
      ...subjects,
      ...(traceId === null ? {} : { traceId }),
      tenantId: principal?.realm.tenantId ?? null,
      applicationId: principal?.applicationId ?? null,
      operation,
      method: call.method,
      route: operation === null ? withoutKeys(call.route) : call.route,
      status,
      code,
      durationMs: Math.round(durationMs * 1000) / 1000,
      ...(call.reason === null ? {} : { reason: call.reason })
    })
  )
})

/** A path that names no operation may be anything, even a key in the wrong place. */
const withoutKeys = (path: string): string => path.slice(0, 200).replace(/svc_(live|test)_[^/]*/g, "svc_$1_...")
