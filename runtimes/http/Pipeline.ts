/**
 * Around every request: its id, the client's address, the IP guard, the
 * answer to whatever went wrong, the headers that all answers have, one log
 * line, and one entry in the request log for a caller who is known.
 */
import { Cause, Clock, Effect, Option, Result } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { Access, RateLimited } from "../../core/operations/Access.ts"
import { RequestLog } from "../../core/operations/RequestLog.ts"
import { Crypto } from "../../core/ports/Crypto.ts"
import { Call, CallState } from "./Call.ts"
import { Drain } from "./Drain.ts"
import type { Issue } from "./Issues.ts"
import { isProbe } from "./Probes.ts"
import { Defect, InvalidRequest, MethodNotAllowed, RouteUnknown, ShuttingDown } from "./Refusals.ts"
import { allowedAt } from "./Routes.ts"
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
          call.guarded(yield* access.guardAddress(call.clientAddress))
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
          const call = new CallState({
            requestId: yield* crypto.uuid,
            clientAddress: addressOf(peer, request.headers["x-forwarded-for"], trusted),
            method: request.method,
            route: path,
            startedAt: yield* Clock.currentTimeMillis,
            startedNanos: yield* Clock.monotonicTimeNanos
          })
          const response = yield* admitted(call, request.headers["host"], httpEffect).pipe(
            Effect.provideService(HttpServerRequest.HttpServerRequest, routable(request, path)),
            Effect.provideService(Call, call),
            Effect.onInterrupt(() => record(call, requestLog, clientGone)),
            Effect.catchCause((cause) => answerCause(call, cause))
          )
          const finished = finish(call, response, drain.isDraining)
          yield* record(call, requestLog, finished.status)
          return finished
        })
    }),
    { global: true }
  )

/** The status in our logs for a request whose client did not wait for the answer. */
const clientGone = 499

const noHost: Issue = { path: "", code: "malformed_http", message: "Expected a Host header" }

const pathOf = (url: string): string => {
  const end = url.indexOf("?")
  return end < 0 ? url : url.slice(0, end)
}

/** The router knows no path that is not percent-encoded UTF-8; it gets one that says the same and is. */
const routable = (request: HttpServerRequest.HttpServerRequest, path: string): HttpServerRequest.HttpServerRequest =>
  !path.includes("%") || Result.isSuccess(Result.try(() => decodeURI(path)))
    ? request
    : request.modify({ url: path.replaceAll("%", "%25") + request.url.slice(path.length) })

/** The answer to all that did not become one inside. */
const answerCause = <E>(call: CallState, cause: Cause.Cause<E>) =>
  Effect.gen(function* () {
    if (Cause.hasInterruptsOnly(cause)) return yield* Effect.failCause(cause)
    const refusal = refusalOf(cause)
    if (refusal._tag === "Defect") {
      yield* Effect.logError("a request met with a defect", cause).pipe(Effect.annotateLogs({ requestId: call.requestId }))
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

/** One line per request, without its headers, its query or its body. */
const record = Effect.fnUntraced(function* (call: CallState, requestLog: typeof RequestLog.Service, status: number) {
  const { principal, operation, code, requestId, clientAddress } = call
  const durationMs = Number((yield* Clock.monotonicTimeNanos) - call.startedNanos) / 1e6
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
      requestId,
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
