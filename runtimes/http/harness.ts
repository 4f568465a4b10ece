/**
 * A composition root for tests: the HTTP runtime, listening on a free port of
 * 127.0.0.1, over memory adapters, with a tenant that can send. A test may put
 * something in front of an adapter, to see what happens when it fails.
 */
import { Clock, Context, Effect, Layer, Logger, Metric, Redacted, Result, Schedule, Tracer, type Scope } from "effect"
import { HttpServer } from "effect/http"
import { connect } from "node:net"
import * as Memory from "../../adapters/memory/index.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import * as NodeResolver from "../../adapters/node/NodeResolver.ts"
import * as RfcMime from "../../adapters/mime/RfcMime.ts"
import { EventRelay } from "../../core/jobs/EventRelay.ts"
import { Worker } from "../../core/jobs/Worker.ts"
import { ClockOffset } from "../../core/ClockOffset.ts"
import { promptBody } from "../../core/operations/Access.ts"
import * as Mailroom from "../../core/Mailroom.ts"
import * as Core from "../../core/Metrics.ts"
import * as Address from "../../core/model/Address.ts"
import { scopes as allScopes, type Scope as ApiScope } from "../../core/model/ApiKey.ts"
import type { Actor } from "../../core/model/Audit.ts"
import type { Application } from "../../core/model/Tenant.ts"
import type { ApiKeyId, AttachmentId, Environment, TenantId } from "../../core/model/Ids.ts"
import * as Limits from "../../core/model/Limits.ts"
import type { Mailbox } from "../../core/model/Mailbox.ts"
import * as Attachments from "../../core/model/Attachment.ts"
import { Management } from "../../core/operations/Management.ts"
import { RequestLog } from "../../core/operations/RequestLog.ts"
import { WebhookManagement } from "../../core/operations/WebhookManagement.ts"
import { BlobStore } from "../../core/ports/BlobStore.ts"
import { MailProviders, type MailProvider } from "../../core/ports/MailProvider.ts"
import { NotificationIntakes, type NotificationIntake } from "../../core/ports/NotificationIntake.ts"
import { Store } from "../../core/ports/Store.ts"
import { Settings, defaults } from "../../core/Settings.ts"
import * as Http from "./index.ts"
import { Receivers } from "./receivers.ts"

export interface Options {
  readonly ipRequestsPerMinute?: number
  readonly planId?: string
  readonly trustedProxies?: ReadonlyArray<string>
  readonly timeouts?: Http.Server.ListenOptions["timeouts"]
  readonly connectionsMax?: number
  readonly grace?: Http.Server.ListenOptions["grace"]
  /** Takes spans. */
  readonly tracer?: Tracer.Tracer
  /** Who may read `/metrics`. Default: everybody. */
  readonly metrics?: Http.Metrics.MetricsAccess
  /** What this process knows of its connections to a database. Default: nothing, as it has none. */
  readonly pool?: Core.Pool
  /** The store's clock less this process's, in milliseconds. */
  readonly clockOffset?: number
  /** Milliseconds that a body may take to come before its caller is looked at again. */
  readonly promptBody?: number
  /** Takes sandbox mail. Default: the memory adapter's, which says nothing of what became of it. */
  readonly sandbox?: MailProvider
  /** Takes production mail. Default: nobody. */
  readonly production?: MailProvider
  /** Takes in what providers post. Default: none. */
  readonly intakes?: ReadonlyArray<NotificationIntake>
  /** Put in front of the store or the blobs. Provisioning goes through it too. */
  readonly store?: (store: typeof Store.Service) => typeof Store.Service
  readonly blobs?: (blobs: typeof BlobStore.Service) => typeof BlobStore.Service
}

export interface Reply {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The body, parsed; undefined if it is not JSON. */
  // oxlint-disable-next-line typescript/no-explicit-any -- a test reads the members it is about, and declares no shapes
  readonly json: any
}

export interface Call {
  /** An API key's text; null: no credential. Default: the first tenant's key of all scopes. */
  readonly key?: string | null
  readonly headers?: Readonly<Record<string, string>>
  /** An object is sent as JSON; text and bytes as they are, as application/json unless the headers say otherwise. */
  readonly body?: unknown
}

/** A tenant with one application, a key of all scopes, a verified domain and a mailbox. */
export interface Party {
  readonly tenantId: TenantId
  readonly application: Application
  readonly key: string
  readonly mailbox: Mailbox
}

export interface Harness extends Party {
  readonly port: number
  readonly baseUrl: string
  readonly call: (method: string, path: string, call?: Call) => Effect.Effect<Reply>
  /** A valid send, with a fresh Idempotency-Key unless one is given. */
  readonly send: (input?: Readonly<Record<string, unknown>>, call?: Call) => Effect.Effect<Reply>
  /**
   * Writes to a socket, and reads until the server closes it or is quiet for
   * so many milliseconds; its first word it may take longer over.
   */
  readonly raw: (text: string | ReadonlyArray<string>, quietMs?: number, firstWordMs?: number) => Effect.Effect<string>
  readonly party: (options?: { readonly environment?: Environment; readonly planId?: string }) => Effect.Effect<Party>
  readonly issueKey: (
    party: Party,
    scopes: ReadonlyArray<ApiScope>
  ) => Effect.Effect<{ readonly id: ApiKeyId; readonly text: string }>
  /** Sets an attachment's scan state, as the scan job would. */
  readonly scanned: (party: Party, id: string, verdict: "Clean" | "Infected" | "Errored") => Effect.Effect<void>
  /** Where webhooks go. */
  readonly receivers: Receivers
  /** Makes deliveries of the events so far, and attempts none. */
  readonly relay: Effect.Effect<void>
  /** Does whatever is due, until nothing is. What fails is due again at once. */
  readonly settle: Effect.Effect<void>
  readonly management: typeof Management.Service
  readonly webhookManagement: typeof WebhookManagement.Service
  readonly store: typeof Store.Service
  readonly requestLog: typeof RequestLog.Service
  /** The log lines so far, as JSON. */
  readonly logs: ReadonlyArray<string>
}

/** A running server, for tests that share one. */
export class Running extends Context.Service<Running, Harness>()("mailroom/http/harness") {}

export const layer = (options: Options = {}): Layer.Layer<Running> => Layer.effect(Running, start(options))

/** A request as it is on the wire. */
export const wire = (line: string, headers: ReadonlyArray<string> = [], body = ""): string =>
  `${[`${line} HTTP/1.1`, "Host: mail.example", ...headers].join("\r\n")}\r\n\r\n${body}`

export const bearer = ({ key }: Pick<Party, "key">): string => `Authorization: Bearer ${key}`

/** Waits for what the network will bring about; dies if it does not. */
export const eventually = (isSo: () => boolean): Effect.Effect<void> =>
  Effect.suspend(() => (isSo() ? Effect.void : Effect.fail("it is not so yet"))).pipe(
    Effect.retry(Schedule.spaced("5 millis")),
    Effect.timeout("10 seconds"),
    Effect.orDie
  )

export const actor: Actor = { type: "operator", id: "harness" }

/** Starts a server that stops with the scope. */
export const start = (options: Options = {}): Effect.Effect<Harness, never, Scope.Scope> =>
  Effect.gen(function* () {
    const logs: Array<string> = []
    const logger = Logger.layer([Logger.map(Logger.formatJson, (line) => void logs.push(line))])
    const receivers = new Receivers()
    const context = yield* Effect.orDie(Layer.build(runtime(options, receivers).pipe(Layer.provideMerge(logger))))
    return yield* make(context, options, logs, receivers)
  })

export const adapters = Layer.mergeAll(
  Memory.layer,
  RfcMime.layer,
  NodeResolver.layer,
  NodeCrypto.layer({ sealingKeys: [{ version: 1, key: Redacted.make(new Uint8Array(32).fill(7)) }] })
)

const inFront = ({ store = (real) => real, blobs = (real) => real, sandbox, production, intakes = [] }: Options, receivers: Receivers) =>
  Layer.mergeAll(
    Layer.effect(
      MailProviders,
      MailProviders.useSync((real) => ({
        sandbox: sandbox ?? real.sandbox,
        production: production ?? (sandbox === undefined ? real.production : null)
      }))
    ),
    Layer.succeed(NotificationIntakes, intakes),
    Layer.effect(Store, Effect.map(Store, store)),
    Layer.effect(BlobStore, Effect.map(BlobStore, blobs)),
    receivers.layer
  ).pipe(Layer.provideMerge(adapters))

const runtime = (options: Options, receivers: Receivers) =>
  Http.layer({
    grace: options.grace ?? "2 seconds",
    trustedProxies: options.trustedProxies ?? [],
    metrics: options.metrics === undefined ? "open" : options.metrics
  }).pipe(
    Layer.provideMerge(
      Http.Server.layer({
        host: "127.0.0.1",
        port: 0,
        grace: options.grace ?? "2 seconds",
        timeouts: { closingTimeout: 0, ...options.timeouts },
        ...(options.connectionsMax === undefined ? {} : { connectionsMax: options.connectionsMax })
      })
    ),
    Layer.provideMerge(core(options, receivers))
  )

/** All that is served, and what a test may ask beside it. */
export const core = (options: Options, receivers: Receivers) =>
  Mailroom.layer.pipe(
    Layer.provideMerge(inFront(options, receivers)),
    Layer.provide(
      Layer.succeed(Settings, {
        ...defaults,
        ipRequestsPerMinute: options.ipRequestsPerMinute ?? 1_000_000,
        deliveryBackoff: [0]
      })
    ),
    // Each counts for itself, whatever else runs in this process.
    Layer.provideMerge(Layer.succeed(Metric.MetricRegistry, new Map())),
    Layer.provideMerge(options.tracer === undefined ? Layer.empty : Layer.succeed(Tracer.Tracer, options.tracer)),
    Layer.provideMerge(options.pool === undefined ? Layer.empty : Layer.succeed(Core.PoolGauge, Effect.succeed(options.pool))),
    Layer.provideMerge(Layer.succeed(ClockOffset, () => options.clockOffset ?? 0)),
    Layer.provideMerge(options.promptBody === undefined ? Layer.empty : Layer.succeed(promptBody, options.promptBody))
  )

type Services = HttpServer.HttpServer | Management | WebhookManagement | RequestLog | Store | EventRelay | Worker

const make = Effect.fnUntraced(function* (
  context: Context.Context<Services>,
  { planId = "dev" }: Options,
  logs: ReadonlyArray<string>,
  receivers: Receivers
) {
  const { address } = Context.get(context, HttpServer.HttpServer)
  const port = "port" in address ? address.port : 0
  const baseUrl = `http://127.0.0.1:${port}`
  const management = Context.get(context, Management)
  const store = Context.get(context, Store)
  const requestLog = Context.get(context, RequestLog)
  const relay = Context.get(context, EventRelay)
  const worker = Context.get(context, Worker)
  const untilIdle = (tick: Effect.Effect<number>) =>
    Effect.provide(Effect.asVoid(Effect.repeat(tick, { until: (count) => count === 0 })), context)
  yield* Effect.orDie(Effect.forEach([...Limits.plans, tiny], (plan) => management.putPlan(plan)))
  const party: Harness["party"] = (of = {}) => Effect.orDie(makeParty(management, { planId, ...of }))
  const first = yield* party()

  const call: Harness["call"] = (method, path, { key = first.key, headers = {}, body } = {}) =>
    Effect.promise(async (signal) => {
      const response = await fetch(`${baseUrl}${path}`, {
        method,
        signal,
        redirect: "manual",
        headers: {
          ...(key === null ? {} : { authorization: `Bearer ${key}` }),
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...headers
        },
        ...(body === undefined ? {} : { body: bodyOf(body), duplex: "half" })
      } as RequestInit) // `duplex` is wanted for streams, and not in the type
      const text = await response.text()
      return { status: response.status, headers: response.headers, text, json: parsed(text) }
    })

  return {
    ...first,
    port,
    baseUrl,
    call,
    send: (input = {}, options = {}) =>
      call("POST", "/v1/messages", {
        ...options,
        headers: { "idempotency-key": globalThis.crypto.randomUUID(), ...options.headers },
        body: options.body ?? {
          fromMailboxId: first.mailbox.id,
          to: ["charles@mail.example"],
          text: "The engine weaves",
          ...input
        }
      }),
    raw: (text, quietMs = 250, firstWordMs = 10_000) => rawExchange(port, text, quietMs, firstWordMs),
    party,
    issueKey: (of, scopes) =>
      Effect.orDie(
        Effect.map(
          management.issueKey(actor, { tenantId: of.tenantId, applicationId: of.application.id, name: "key", scopes }),
          ({ apiKey, text }) => ({ id: apiKey.id, text: Redacted.value(text) })
        )
      ),
    scanned: (of, id, verdict) => Effect.orDie(scan(store, of, id, verdict)),
    receivers,
    relay: untilIdle(relay.tick),
    settle: untilIdle(Effect.zipWith(relay.tick, worker.tick, (fannedOut, done) => fannedOut + done)),
    management,
    webhookManagement: Context.get(context, WebhookManagement),
    store,
    requestLog,
    logs
  } satisfies Harness
})

/** A plan that is soon used up. */
const tiny: Limits.Plan = { id: "tiny", keyRequestsPerMinute: 3, tenantRequestsPerDay: 5, recipientsPerDay: 2 }

export const makeParty = Effect.fnUntraced(function* (
  management: typeof Management.Service,
  { environment = "sandbox", planId }: { readonly environment?: Environment; readonly planId: string }
) {
  const { id: tenantId } = yield* management.createTenant(actor, { name: "Analytical Engines", planId })
  const application = yield* management.createApplication(actor, { tenantId, environment, name: "Billing" })
  const { text } = yield* management.issueKey(actor, { tenantId, applicationId: application.id, name: "first", scopes: allScopes })
  const domain = Result.getOrThrow(Address.parseDomain(`d${globalThis.crypto.randomUUID().slice(0, 18)}.example`))
  const { id: domainId } = yield* management.createDomain(actor, { tenantId, domain })
  const since = yield* Clock.currentTimeMillis
  yield* management.recordChecks(
    tenantId,
    domainId,
    (["ownership", "dkim"] as const).map((record) => ({ record, state: "ok", expected: "", observed: "", since }))
  )
  const address = Result.getOrThrow(Address.parse(`ada@${domain}`))
  const mailbox = yield* management.createMailbox(actor, { tenantId, address, displayName: "Ada Lovelace" })
  return { tenantId, application, key: Redacted.value(text), mailbox } satisfies Party
})

const scan = Effect.fnUntraced(function* (
  store: typeof Store.Service,
  of: Party,
  id: string,
  verdict: "Clean" | "Infected" | "Errored"
) {
  const realm = { tenantId: of.tenantId, environment: of.application.environment }
  const attachment = yield* store.attachments.get(realm, id as AttachmentId) // from an answer of the API
  if (attachment === null) return yield* Effect.die(new Error("no such attachment"))
  const at = yield* Clock.currentTimeMillis
  const decision = Result.getOrThrow(Attachments.decide(attachment, { _tag: verdict, at, nextScanAt: at }))
  yield* store.commit([{ _tag: "Update", kind: "attachment", record: Attachments.apply(attachment, decision) }], [])
})

const bodyOf = (body: unknown): BodyInit =>
  typeof body === "string" || body instanceof Uint8Array || body instanceof ReadableStream
    ? (body as BodyInit) // each of the three is one
    : JSON.stringify(body)

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const rawExchange = (port: number, text: string | ReadonlyArray<string>, quietMs: number, firstWordMs: number) =>
  Effect.callback<string>((resume) => {
    const socket = connect(port, "127.0.0.1")
    let received = ""
    const finish = () => {
      socket.destroy()
      resume(Effect.succeed(received))
    }
    socket.setTimeout(firstWordMs, finish)
    socket.on("data", (chunk) => {
      received += chunk.toString("latin1")
      socket.setTimeout(quietMs)
    })
    socket.on("close", finish)
    socket.on("error", finish)
    for (const part of typeof text === "string" ? [text] : text) socket.write(part, "latin1")
    return Effect.sync(() => socket.destroy())
  })
