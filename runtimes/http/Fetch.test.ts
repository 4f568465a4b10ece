/** The handler for a host's own server, as it is without options, and beside what runs in the same process. */
import { assert, it } from "@effect/vitest"
import { Effect, Layer, Logger } from "effect"
import { HttpServer } from "effect/http"
import * as SpanTracer from "../SpanTracer.ts"
import { fetchHandler, type FetchOptions } from "./Fetch.ts"
import * as Harness from "./harness.ts"
import { Receivers } from "./receivers.ts"

const hosted = (options: Omit<FetchOptions, "servers"> = {}, of: Harness.Options = {}) =>
  Effect.gen(function* () {
    const context = yield* Effect.orDie(Layer.build(Harness.core(of, new Receivers())))
    const handler = yield* fetchHandler({ servers: ["https://mail.example"], ...options }).pipe(
      Effect.provide([HttpServer.layerServices, Logger.layer([])]),
      Effect.provideContext(context)
    )
    return (path: string, init: RequestInit = {}) =>
      Effect.promise(() => handler(new Request(`https://mail.example${path}`, init), "192.0.2.1"))
  })

it.live("A mounted handler tells its metrics to nobody unless it is told to whom", () =>
  Effect.gen(function* () {
    const closed = yield* hosted()
    const open = yield* hosted({ metrics: "open" })

    assert.strictEqual((yield* closed("/metrics")).status, 404)
    assert.strictEqual((yield* open("/metrics")).status, 200)
  }).pipe(Effect.scoped)
)

it.live("A mounted handler has one span for a request, of which nothing is told but its template", () =>
  Effect.gen(function* () {
    const spans: Array<SpanTracer.OtlpSpan> = []
    const call = yield* hosted({}, { tracer: SpanTracer.make((span) => void spans.push(span)) })

    assert.strictEqual((yield* call("/v1/messages?cursor=confidential")).status, 401)

    assert.deepStrictEqual(spans.filter(({ kind }) => kind === 2).map(({ name }) => name), ["GET /v1/messages"])
    assert.notInclude(JSON.stringify(spans), "confidential")
  }).pipe(Effect.scoped)
)
