import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Exit, Logger, Metric, Option, Schedule, Tracer, Context } from "effect"
import { spawn } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { Mailroom } from "../client/index.ts"
import { rootOf, traceIdOf } from "../core/Tracing.ts"
import type { DevFile } from "./dev/DataFolder.ts"
import type { OtlpSpan } from "./SpanTracer.ts"
import * as Telemetry from "./Telemetry.ts"

interface Got {
  readonly path: string | undefined
  readonly headers: IncomingHttpHeaders
  readonly service: Readonly<Record<string, unknown>>
  readonly spans: ReadonlyArray<OtlpSpan>
}

/** An OpenTelemetry collector as far as traces go; it refuses what is not OTLP in JSON. */
const collector = (answer: (response: ServerResponse) => void = (response) => response.end("{}")) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const got: Array<Got> = []
      const state = { answer }
      const server = createServer((request, response) => {
        void text(request).then((body) => {
          got.push({ path: request.url, headers: request.headers, ...readTraces(body) })
          state.answer(response)
        })
      })
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
      const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}` // it listens
      return { server, endpoint, got, state, spans: () => got.flatMap(({ spans }) => spans) }
    }),
    ({ server }) =>
      Effect.promise(async () => {
        server.closeAllConnections()
        await new Promise((resolve) => server.close(resolve))
      })
  )

/** Holds each member to what OTLP says of it, for a collector would drop the batch. */
const readTraces = (body: string): Pick<Got, "service" | "spans"> => {
  const { resourceSpans, ...more } = JSON.parse(body)
  assert.deepStrictEqual(more, {})
  assert.strictEqual(resourceSpans.length, 1)
  const [{ resource, scopeSpans }] = resourceSpans
  assert.deepStrictEqual(scopeSpans.map(({ scope }: { scope: { name: string } }) => scope.name), ["mailroom"])
  const spans: ReadonlyArray<OtlpSpan> = scopeSpans[0].spans
  for (const span of spans) {
    assert.match(span.traceId, /^[0-9a-f]{32}$/)
    assert.match(span.spanId, /^[0-9a-f]{16}$/)
    if (span.parentSpanId !== undefined) assert.match(span.parentSpanId, /^[0-9a-f]{16}$/)
    assert.isTrue(span.name.length > 0)
    assert.isTrue(span.kind >= 1 && span.kind <= 5)
    assert.match(`${span.startTimeUnixNano} ${span.endTimeUnixNano}`, /^\d{19} \d{19}$/)
    assert.isTrue(BigInt(span.startTimeUnixNano) <= BigInt(span.endTimeUnixNano))
    for (const { traceId, spanId } of span.links) assert.match(`${traceId} ${spanId}`, /^[0-9a-f]{32} [0-9a-f]{16}$/)
    for (const { key, value } of span.attributes) {
      assert.match(key, /^[a-z_.]+$/)
      assert.strictEqual(Object.keys(value).length, 1)
    }
  }
  return { service: valuesOf(resource.attributes), spans }
}

const valuesOf = (attributes: OtlpSpan["attributes"]): Readonly<Record<string, unknown>> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue ?? value.boolValue]))

const eventually = <A>(look: () => A | null | undefined | false): Effect.Effect<A> =>
  Effect.suspend(() => {
    const seen = look()
    return seen === null || seen === undefined || seen === false ? Effect.fail("not yet") : Effect.succeed(seen)
  }).pipe(
    Effect.retry(Schedule.spaced("10 millis")),
    Effect.timeout("50 seconds"),
    Effect.orDie
  )

const spanNamed = (tracer: Tracer.Tracer, name: string) =>
  tracer.span({
    name,
    parent: Option.none(),
    annotations: Context.empty(),
    links: [],
    startTime: 1_700_000_000_000_000_000n,
    kind: "internal",
    root: true,
    sampled: true
  })

const finish = (tracer: Tracer.Tracer, name: string) =>
  Effect.map(Clock.currentTimeNanos, (now) => spanNamed(tracer, name).end(now, Exit.void))

/** An exporter whose log lines and counts a test can see. */
const exporting = (options: Partial<Telemetry.Options> & { readonly endpoint: string }) =>
  Effect.gen(function* () {
    const lines: Array<string> = []
    const registry: Metric.MetricRegistry = new Map()
    const logger = Logger.layer([Logger.map(Logger.formatJson, (line) => void lines.push(line))])
    const tracer = yield* Telemetry.make({ headers: {}, role: "test", interval: "10 millis", pause: "20 millis", ...options }).pipe(
      Effect.provideService(Metric.MetricRegistry, registry),
      Effect.provide(logger)
    )
    const counted = (name: string) => [...registry.values()].find(({ id }) => id === name)?.hooks.get(Context.empty()).count
    return { tracer, lines, counted }
  })

describe("Traces", () => {
  it.live("of a running service reach a collector: a message's from its request to its webhook", () =>
    Effect.gen(function* () {
      const { endpoint, got, spans } = yield* collector()
      const folder = mkdtempSync(join(tmpdir(), "mailroom-traces-"))
      yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(folder, { recursive: true, force: true })))
      const child = yield* Effect.acquireRelease(
        Effect.sync(() =>
          spawn(process.execPath, [join(import.meta.dirname, "cli/main.ts"), "dev", "--memory", "--data", folder, "--port", "0"], {
            env: {
              PATH: process.env["PATH"],
              MAILROOM_OTLP_ENDPOINT: endpoint,
              MAILROOM_OTLP_HEADERS: "authorization=Bearer%20of-the-collector"
            },
            stdio: ["ignore", "ignore", "pipe"]
          })
        ),
        (child) => Effect.sync(() => child.kill("SIGKILL"))
      )
      const ended = new Promise<number | null>((resolve) => child.once("exit", resolve))
      const said = text(child.stderr)
      const devFile = yield* eventually(() => {
        try {
          return JSON.parse(readFileSync(join(folder, "dev.json"), "utf8")) as DevFile
        } catch {
          return null
        }
      })
      const receiver = createServer((request, response) => {
        void text(request).then((body) => response.end(JSON.stringify({ challenge: JSON.parse(body).data?.challenge })))
      })
      yield* Effect.acquireRelease(
        Effect.promise(() => new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve))),
        () => Effect.sync(() => receiver.close())
      )
      const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`
      const client = new Mailroom({ apiKey: devFile.apiKey, baseUrl: devFile.baseUrl })
      yield* Effect.promise(() => client.webhookEndpoints.create({ url, eventTypes: ["message.delivered"] }))
      const { id } = yield* Effect.promise(() =>
        client.messages.send({
          fromMailboxId: devFile.mailboxes[0]!.id,
          to: ["delivered@example.com"],
          subject: "confidential",
          text: "confidential"
        })
      )
      const own = () => spans().filter(({ traceId }) => traceId === traceIdOf(id))
      yield* eventually(() => own().find(({ name }) => name === "WebhookTransport.post"))
      child.kill("SIGTERM")
      assert.strictEqual(yield* Effect.promise(() => ended), 0, yield* Effect.promise(() => said))

      const first = own().find(({ name }) => name === "message")
      const request = spans().find(({ name }) => name === "POST /v1/messages")
      assert.strictEqual(first?.spanId, rootOf(id).spanId)
      assert.deepStrictEqual(first?.links.map(({ traceId, spanId }) => [traceId, spanId]), [[request?.traceId, request?.spanId]])
      assert.strictEqual(valuesOf(request!.attributes)["mailroom.message_id"], id)
      const held = new Set(own().map(({ spanId }) => spanId))
      assert.isTrue(own().every(({ parentSpanId }) => parentSpanId === undefined || held.has(parentSpanId)))
      for (const { path, headers, service } of got) {
        assert.strictEqual(path, "/v1/traces")
        assert.strictEqual(headers["content-type"], "application/json")
        assert.strictEqual(headers.authorization, "Bearer of-the-collector")
        assert.deepInclude(service, { "service.name": "mailroom", "mailroom.role": "dev" })
      }
      const sent = JSON.stringify(got.map(({ spans }) => spans))
      for (const told of ["confidential", "example.com", devFile.apiKey.slice(9), "127.0.0.1"]) assert.notInclude(sent, told)
    }), 120_000)

  it.live("that are left when a process ends are sent before it does", () =>
    Effect.gen(function* () {
      const { endpoint, spans } = yield* collector()
      yield* Effect.scoped(
        Effect.gen(function* () {
          const { tracer } = yield* exporting({ endpoint, interval: "1 hour" })
          yield* finish(tracer, "last")
        })
      )

      assert.deepStrictEqual(spans().map(({ name }) => name), ["last"])
    })
  )

  it.live("wait for a collector that is away, up to a bound, and the log says so once", () =>
    Effect.gen(function* () {
      const { endpoint, spans, state } = yield* collector((response) => response.writeHead(503).end())
      const { tracer, lines, counted } = yield* exporting({ endpoint })
      yield* finish(tracer, "kept")
      yield* eventually(() => lines.length > 0)
      for (let more = 0; more < Telemetry.waitingMax + 5; more++) yield* finish(tracer, "more")

      yield* eventually(() => counted("mailroom_spans_dropped_total") === 6)
      state.answer = (response) => response.end("{}")
      yield* eventually(() => counted("mailroom_spans_exported_total") === Telemetry.waitingMax)
      assert.isTrue(spans().some(({ name }) => name === "kept"))
      assert.deepStrictEqual(
        lines.map((line) => JSON.parse(line)).map(({ level, message, annotations }) => [level, message, annotations.reason]),
        [
          ["WARN", "the collector does not take traces; some wait for it, and the rest are dropped", "status 503"],
          ["INFO", "the collector takes traces again", undefined]
        ]
      )
    }), 60_000)

  it.live("that a collector refuses for good are lost, and those behind them are not", () =>
    Effect.gen(function* () {
      const { endpoint, got, state } = yield* collector((response) => response.writeHead(400).end())
      const { tracer, lines, counted } = yield* exporting({ endpoint })
      yield* finish(tracer, "refused")
      yield* eventually(() => lines.length > 0)
      state.answer = (response) => response.end("{}")
      yield* finish(tracer, "behind")
      yield* eventually(() => counted("mailroom_spans_exported_total") === 1)

      assert.strictEqual(counted("mailroom_spans_dropped_total"), 1)
      assert.deepStrictEqual(got.map(({ spans }) => spans.map(({ name }) => name)), [["refused"], ["behind"]])
    }), 60_000)

  it.live("hold nobody up at the end when the collector never answers", () =>
    Effect.gen(function* () {
      const { endpoint } = yield* collector(() => {})
      const begun = yield* Clock.currentTimeMillis
      yield* Effect.scoped(
        Effect.gen(function* () {
          const { tracer } = yield* exporting({ endpoint })
          yield* finish(tracer, "unheard")
          yield* Effect.sleep("50 millis")
        })
      )

      assert.isBelow((yield* Clock.currentTimeMillis) - begun, 9_000) // less than it would wait for an answer
    }), 60_000)

  it.live("are not made where no collector is set", () =>
    Effect.gen(function* () {
      const tracer = yield* Effect.provide(Tracer.Tracer, Telemetry.layer({ otlpEndpoint: null, otlpHeaders: null }, "test"))

      assert.strictEqual(tracer, Tracer.nativeTracer)
    })
  )
})
