/**
 * Sends traces to an OpenTelemetry collector, if one is set; else nothing is
 * traced. A collector that is away, slow or full holds nobody up and fills no
 * memory: what it does not take in time is dropped and counted, and the log
 * says so once.
 */
import { Duration, Effect, Layer, Metric, Redacted, Result, Schedule, Tracer } from "effect"
import * as HttpMiddleware from "effect/http/HttpMiddleware"
import * as OtlpResource from "effect/observability/OtlpResource"
import type { Config } from "./ConfigTable.ts"
import { headersIn } from "./ConfigValues.ts"
import * as SpanTracer from "./SpanTracer.ts"
import { version } from "./Version.ts"

export interface Options {
  /** Where the collector listens; traces go to `/v1/traces` there. */
  readonly endpoint: string
  readonly headers: Readonly<Record<string, string>>
  /** What this process is: `serve`, `worker`, `smtp`, `dev`. */
  readonly role: string
  /** How often spans are sent. */
  readonly interval?: Duration.Input
  /** For how long the collector is left alone when it did not answer. */
  readonly pause?: Duration.Input
}

/** Spans that wait for the collector, at most; some 10 MB. */
export const waitingMax = 10_000
/** Spans of one request. */
const batchSize = 500
/** How long the collector may take to answer. */
const patience = "10 seconds"
/** How long the last spans may take when the process ends. */
const farewell = "3 seconds"

const exported = Metric.counter("mailroom_spans_exported_total", { description: "Spans that the collector took.", incremental: true })
const dropped = Metric.counter("mailroom_spans_dropped_total", {
  description: "Spans that were lost, because the collector did not take them in time.",
  incremental: true
})

/** Answers after which the same spans may be sent again (OTLP over HTTP). */
const isTransient = (status: number): boolean => [429, 502, 503, 504].includes(status)

/** A tracer whose spans go to a collector until its scope closes, and then what is left. */
export const make = Effect.fnUntraced(function* ({ endpoint, headers, role, interval = "1 second", pause = "5 seconds" }: Options) {
  const url = new URL(`${endpoint.replace(/\/+$/, "")}/v1/traces`)
  const resource = OtlpResource.make({
    serviceName: "mailroom",
    serviceVersion: version,
    attributes: { "service.instance.id": globalThis.crypto.randomUUID(), "mailroom.role": role }
  })
  const context = yield* Effect.context<never>()
  for (const metric of [exported, dropped]) metric.valueUnsafe(context) // there from the start, at 0
  let waiting: Array<SpanTracer.OtlpSpan> = []
  let isAway = false

  const lose = (count: number) => Effect.sync(() => dropped.updateUnsafe(count, context))

  /** Posts spans; the answer's status, or null if there was none. */
  const post = (spans: ReadonlyArray<SpanTracer.OtlpSpan>) =>
    Effect.tryPromise(async (signal) => {
      const response = await fetch(url, {
        method: "POST",
        signal,
        redirect: "error",
        headers: { ...headers, "content-type": "application/json" },
        body: JSON.stringify({ resourceSpans: [{ resource, scopeSpans: [{ scope: { name: "mailroom", version }, spans }] }] })
      })
      await response.arrayBuffer()
      return response.status
    }).pipe(Effect.timeout(patience), Effect.result)

  /** Sends a batch; false if the collector is to be left alone for a while. */
  const sendSome = Effect.gen(function* () {
    const batch = waiting.slice(0, batchSize)
    waiting = waiting.slice(batchSize)
    // A process that ends in the middle sends them once more: twice is better than never.
    const answer = yield* Effect.onInterrupt(post(batch), () => Effect.sync(() => void (waiting = [...batch, ...waiting])))
    if (Result.isSuccess(answer) && answer.success >= 200 && answer.success < 300) {
      exported.updateUnsafe(batch.length, context)
      if (isAway) yield* Effect.logInfo("the collector takes traces again")
      isAway = false
      return true
    }
    // The reason alone: an address or a header is not for the log.
    const silence = Result.isFailure(answer) && answer.failure._tag === "TimeoutError" ? "timeout" : "network_error"
    const reason = Result.isSuccess(answer) ? `status ${answer.success}` : silence
    if (!isAway) {
      yield* Effect.logWarning("the collector does not take traces; some wait for it, and the rest are dropped").pipe(Effect.annotateLogs({ reason }))
    }
    isAway = true
    const kept = Result.isFailure(answer) || isTransient(answer.success) ? batch.slice(0, waitingMax - waiting.length) : []
    yield* lose(batch.length - kept.length)
    waiting = [...kept, ...waiting]
    return false
  })

  /** Sends all that waits; false as `sendSome`. */
  const sendAll: Effect.Effect<boolean> = Effect.suspend(() =>
    waiting.length === 0 ? Effect.succeed(true) : Effect.flatMap(sendSome, (goesOn) => (goesOn ? sendAll : Effect.succeed(false)))
  )

  yield* Effect.addFinalizer(() =>
    Effect.andThen(Effect.timeoutOption(sendAll, farewell), Effect.suspend(() => lose(waiting.length)))
  )
  yield* sendAll.pipe(
    Effect.flatMap((goesOn) => Effect.sleep(goesOn ? interval : pause)),
    Effect.repeat(Schedule.forever),
    Effect.forkScoped
  )
  return SpanTracer.make((span) => {
    if (waiting.length < waitingMax) waiting.push(span)
    else dropped.updateUnsafe(1, context)
  })
})

/** The tracer that the settings ask for. It must close after all that it traces. */
export const layer = ({ otlpEndpoint, otlpHeaders }: Pick<Config, "otlpEndpoint" | "otlpHeaders">, role: string) =>
  otlpEndpoint === null
    ? Layer.empty
    : Layer.merge(
        Layer.effect(
          Tracer.Tracer,
          make({ endpoint: otlpEndpoint, headers: otlpHeaders === null ? {} : (headersIn(Redacted.value(otlpHeaders)) ?? {}), role })
        ),
        // A span that the pipeline has not made would be one of a probe, or of this very export.
        Layer.succeed(HttpMiddleware.TracerDisabledWhen, () => true)
      )
