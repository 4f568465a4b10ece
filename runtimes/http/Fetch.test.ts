/** The handler for a host's own server, as it is without options, and beside what runs in the same process. */
import { assert, it } from "@effect/vitest"
import { Context, Effect, Layer, Logger } from "effect"
import { HttpServer } from "effect/http"
import { setImmediate } from "node:timers/promises"
import * as Limits from "../../core/model/Limits.ts"
import { Management } from "../../core/operations/Management.ts"
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
    const call = (path: string, init: RequestInit = {}) =>
      Effect.promise(() => handler(new Request(`https://mail.example${path}`, init), "192.0.2.1"))
    return { call, management: Context.get(context, Management) }
  })

/** Posts JSON as a tenant who can send. */
const party = Effect.gen(function* () {
  const { call, management } = yield* hosted()
  yield* Effect.forEach(Limits.plans, (plan) => management.putPlan(plan))
  const { key, mailbox } = yield* Harness.makeParty(management, { planId: "dev" })
  const post = (path: string, body: BodyInit | null, headers: Readonly<Record<string, string>> = {}) =>
    call(path, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json", "idempotency-key": crypto.randomUUID(), ...headers },
      body,
      duplex: "half" // wanted for streams, and not in the type
    } as RequestInit)
  return { post, mailbox }
})

it.live("A mounted handler tells its metrics to nobody unless it is told to whom", () =>
  Effect.gen(function* () {
    const [closed, open] = [yield* hosted(), yield* hosted({ metrics: "open" })]

    assert.strictEqual((yield* closed.call("/metrics")).status, 404)
    assert.strictEqual((yield* open.call("/metrics")).status, 200)
  }).pipe(Effect.scoped)
)

it.live("A mounted handler has one span for a request, of which nothing is told but its template", () =>
  Effect.gen(function* () {
    const spans: Array<SpanTracer.OtlpSpan> = []
    const { call } = yield* hosted({}, { tracer: SpanTracer.make((span) => void spans.push(span)) })

    assert.strictEqual((yield* call("/v1/messages?cursor=confidential")).status, 401)

    assert.deepStrictEqual(spans.filter(({ kind }) => kind === 2).map(({ name }) => name), ["GET /v1/messages"])
    assert.notInclude(JSON.stringify(spans), "confidential")
  }).pipe(Effect.scoped)
)

it.live("A mounted handler takes a comma for a part of an Idempotency-Key, and what may be two keys for two", () =>
  Effect.gen(function* () {
    const { post, mailbox } = yield* party
    const body = JSON.stringify({ fromMailboxId: mailbox.id, to: ["charles@mail.example"], text: "The engine weaves" })
    const sendBy = (idempotencyKey: string) => post("/v1/messages", body, { "idempotency-key": idempotencyKey })

    assert.strictEqual((yield* sendBy("order-12,part-3")).status, 202)
    const two = yield* sendBy("order-12, part-3")
    assert.deepStrictEqual([two.status, (yield* Effect.promise(() => two.json())).code], [400, "invalid_idempotency_key"])
  }).pipe(Effect.scoped)
)

it.live("A mounted handler refuses a body that breaks off, or whose length is no number, as what it is", () =>
  Effect.gen(function* () {
    const { post } = yield* party
    const breakingOff = () =>
      new ReadableStream({
        pull: (controller) => controller.error(new Error("ECONNRESET"))
      })
    const replies = [
      yield* post("/v1/messages", breakingOff()),
      yield* post("/v1/attachments", breakingOff()),
      yield* post("/v1/messages", "{}", { "content-length": "0x2" }),
      yield* post("/v1/messages", "{}", { "content-length": "2, 2" })
    ]

    for (const reply of replies) {
      const { code, details } = yield* Effect.promise(() => reply.json())
      assert.deepStrictEqual([reply.status, code, details.issues[0].code], [400, "invalid_request", "malformed_http"])
    }
  }).pipe(Effect.scoped)
)

it.live("A mounted handler says of an upload that it has no body, or that somebody has read it, as of any other request", () =>
  Effect.gen(function* () {
    const { post } = yield* party
    const paths = ["/v1/messages", "/v1/attachments"]
    const replies = [...paths.map((path) => post(path, null)), ...paths.map((path) => post(path, null, { "content-length": "105" }))]

    const said = yield* Effect.forEach(replies, (reply) => Effect.flatMap(reply, (one) => Effect.promise(() => one.json())))
    const issues: ReadonlyArray<{ readonly code: string; readonly message: string }> = said.map(({ details }) => details.issues[0])

    assert.deepStrictEqual(issues.map(({ code }) => code), issues.map(() => "empty_body"))
    for (const { message } of issues.slice(0, 2)) assert.match(message, /the body is empty/)
    for (const { message } of issues.slice(2)) assert.match(message, /Mount the service before body parsers/)
  }).pipe(Effect.scoped)
)

it.live("A mounted handler reads a body on that it has refused in the middle, as far as a body may be long, and leaves it at that", () =>
  Effect.gen(function* () {
    const { post, mailbox } = yield* party
    const piece = Buffer.alloc(1024 * 1024, "A")
    const begin = Buffer.from(JSON.stringify({ mailboxId: mailbox.id, filename: "a", mediaType: "text/plain", contentBase64: "*" }).slice(0, -2))
    /** A body of so many pieces behind the one that is wrong, and how many of them were read. */
    const behind = (pieces: number) => {
      const state = { read: 0, isCancelled: false, isOver: false }
      const body = new ReadableStream<Uint8Array>(
        {
          start: (controller) => controller.enqueue(begin),
          pull: (controller) => {
            if (state.read < pieces) return controller.enqueue((state.read++, piece))
            state.isOver = true
            return controller.close()
          },
          cancel: () => void (state.isCancelled = true)
        },
        { highWaterMark: 0 }
      )
      return { state, body }
    }
    const most = Limits.uploadBodyBytesMax / piece.length
    const [short, endless] = [behind(8), behind(Infinity)]

    for (const { body } of [short, endless]) assert.strictEqual((yield* post("/v1/attachments", body)).status, 400)

    yield* Effect.yieldNow.pipe(Effect.repeat({ until: () => short.state.isOver && endless.state.read >= most && !endless.body.locked }))
    assert.deepStrictEqual([short.state, endless.state].map(({ isCancelled }) => isCancelled), [false, false])
    yield* Effect.promise(() => setImmediate())
    assert.isAtMost(endless.state.read, most + 2)
  }).pipe(Effect.scoped)
)
