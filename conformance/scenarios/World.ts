/**
 * What a scenario plays in: a whole adapter set, the core over it, and the
 * things a scenario turns (provider, scanner, crashes).
 *
 * A *process* is a fresh core over the same ports. A crash is a process whose
 * every further call of a port dies; booting another one is the restart. Every
 * commit of every process passes a witness that checks it against the
 * invariants, and a scenario ends by asking it.
 */
import { Clock, Context, Duration, Effect, Layer, Logger, Redacted, Stream } from "effect"
import * as assert from "node:assert/strict"
import type { Address } from "../../core/model/Address.ts"
import { scopes } from "../../core/model/ApiKey.ts"
import { system } from "../../core/model/Audit.ts"
import { keyOf, type Question } from "../../core/model/DomainRecords.ts"
import type { LoggedEvent } from "../../core/model/Event.ts"
import type { IdempotencyKey } from "../../core/model/IdempotencyKey.ts"
import { shardOf, type Environment, type Realm } from "../../core/model/Ids.ts"
import * as Limits from "../../core/model/Limits.ts"
import type { Mailbox } from "../../core/model/Mailbox.ts"
import type { Examined } from "../../core/model/Reception.ts"
import type { Application } from "../../core/model/Tenant.ts"
import type { Answer } from "../../core/model/Webhook.ts"
import { CheckDomains } from "../../core/jobs/CheckDomains.ts"
import { EventRelay } from "../../core/jobs/EventRelay.ts"
import { Sweep } from "../../core/jobs/Sweep.ts"
import { Worker } from "../../core/jobs/Worker.ts"
import * as Mailroom from "../../core/Mailroom.ts"
import { Access, type Principal } from "../../core/operations/Access.ts"
import { Attachments } from "../../core/operations/Attachments.ts"
import { Events } from "../../core/operations/Events.ts"
import { Mailboxes } from "../../core/operations/Mailboxes.ts"
import { Management } from "../../core/operations/Management.ts"
import { Messages } from "../../core/operations/Messages.ts"
import type { SendMessageInput } from "../../core/operations/Sending.ts"
import { Receive } from "../../core/operations/Receive.ts"
import { RecordNotification } from "../../core/operations/RecordNotification.ts"
import { RequestLog } from "../../core/operations/RequestLog.ts"
import { WebhookManagement } from "../../core/operations/WebhookManagement.ts"
import { Webhooks } from "../../core/operations/Webhooks.ts"
import { BlobStore } from "../../core/ports/BlobStore.ts"
import { Crypto } from "../../core/ports/Crypto.ts"
import { JobQueue, QueueUnavailable } from "../../core/ports/JobQueue.ts"
import { MailAuthenticator } from "../../core/ports/MailAuthenticator.ts"
import { MailProviders, type MailProvider, type SubmitRequest, type SubmitResult } from "../../core/ports/MailProvider.ts"
import { Mime } from "../../core/ports/Mime.ts"
import { RateLimiter, RateLimiterUnavailable } from "../../core/ports/RateLimiter.ts"
import { SpamFilter, SpamFilterUnavailable } from "../../core/ports/SpamFilter.ts"
import { ResolutionFailed, Resolver } from "../../core/ports/Resolver.ts"
import { Scanner, type ScanFailed, type Verdict } from "../../core/ports/Scanner.ts"
import { Store, StoreUnavailable } from "../../core/ports/Store.ts"
import { WebhookTransport, type WebhookRequest, type WebhookUnanswered } from "../../core/ports/WebhookTransport.ts"
import { defaults, Settings, type SettingsShape } from "../../core/Settings.ts"
import type { Suite } from "../Suite.ts"
import { address, domainName, freshId } from "../fixtures.ts"
import { aroundEach, faulty, type Faults } from "./Faults.ts"
import * as Time from "./Time.ts"
import { Witness } from "./Witness.ts"

/** The sandbox's provider of the adapter set. It keeps its default timings: scenarios look at what is sent before its outcome comes. */
export class Sandbox extends Context.Service<Sandbox, MailProvider>()("mailroom/conformance/Sandbox") {}

/**
 * What an adapter set brings; the world brings the scanner, the production provider and the webhook receivers. `Sandbox` is
 * `SandboxMailProvider.make()` without options.
 */
export type AdapterSet = Store | JobQueue | BlobStore | Mime | Crypto | RateLimiter | Sandbox

export interface Submitted {
  readonly request: Omit<SubmitRequest, "mime">
  readonly bytes: Uint8Array
  readonly at: number
}

/** A request as a webhook receiver got it. */
export interface Posted {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
  /** The body, parsed. */
  // oxlint-disable-next-line typescript/no-explicit-any -- a scenario reads the members it is about, and declares no shapes
  readonly json: any
  readonly at: number
}

/** The doubles that a scenario directs. Assign `behave`, `scan` or `receive` to change what they do. */
export interface Stage {
  /** What receivers got, handshakes included. */
  readonly posts: Array<Posted>
  /** Every receiver. By default it echoes challenges and answers 200. */
  receive: (posted: Posted) => Effect.Effect<Answer, WebhookUnanswered>
  readonly submissions: Array<Submitted>
  /** `nth` counts the submissions of this message, from 1. */
  behave: (request: SubmitRequest, nth: number) => ReturnType<MailProvider["submit"]>
  /** What the production provider says when it is asked about a submission. */
  poll: MailProvider["poll"]
  scan: (bytes: Uint8Array) => Effect.Effect<Verdict, ScanFailed>
  /** Goes before each reading of a whole message. */
  parse: (bytes: Uint8Array) => Effect.Effect<void>
  /** What is found out about the sender of inbound mail. */
  authentication: Examined
  /** What the spam filter says; null: it is away. */
  spam: "ham" | "spam" | "refuse" | null
  /** The bytes that were shown to those two. */
  readonly judged: Array<Uint8Array>
  /** The shared limiter cannot be reached. */
  limiterIsDown: boolean
  /** The store answers nothing. */
  storeIsDown: boolean
  /** The queue answers nothing. */
  queueIsDown: boolean
  /** The queue takes jobs and loses them. */
  queueForgets: boolean
  /** Raised: the queue says that it may have lost what it held. */
  queueEpoch: number
  /** What the DNS says, by `DomainRecords.keyOf`; of all else, that there is nothing. */
  readonly dns: Map<string, ReadonlyArray<string>>
  /** The DNS answers nothing. */
  dnsIsDown: boolean
  /** The DNS does not even fail. */
  dnsHangs: boolean
  /** How often the DNS was asked. */
  dnsQuestions: number
}

export const providerName = "staged"

/** Takes every recipient, under a name that derives from the message. */
export const accepted = (request: SubmitRequest): SubmitResult => ({
  providerMessageId: providerMessageId(request),
  replies: request.envelope.recipients.map((recipient) => ({
    recipient,
    reply: { smtpCode: 250, enhancedCode: "2.0.0", text: "Ok" }
  })),
  pollAt: null
})

export const providerMessageId = ({ messageId }: { readonly messageId: string }): string => `staged-${messageId}`

/** A receiver's answer, with a JSON body if it is given. */
export const answered = (status: number, body?: unknown, retryAfter: string | null = null): Answer => ({
  status,
  retryAfter,
  body: new TextEncoder().encode(body === undefined ? "" : JSON.stringify(body)),
  truncated: false
})

/** Echoes a challenge; answers 200 to all else. */
export const welcoming = ({ json }: Posted): Effect.Effect<Answer> =>
  Effect.succeed(answered(200, json.type === "webhook.endpoint_verification" ? { challenge: json.data.challenge } : undefined))

const makeStage = (): Stage => ({
  submissions: [],
  posts: [],
  receive: welcoming,
  behave: (request) => Effect.succeed(accepted(request)),
  poll: () => Effect.succeed({ notifications: [], pollAt: null }),
  scan: () => Effect.succeed({ _tag: "Clean" }),
  parse: () => Effect.void,
  authentication: { spf: "pass", dkim: "pass", dmarc: "pass", arc: "none", dmarcPolicy: "reject", author: null },
  spam: "ham",
  judged: [],
  limiterIsDown: false,
  storeIsDown: false,
  queueIsDown: false,
  queueForgets: false,
  queueEpoch: 0,
  dns: new Map(),
  dnsIsDown: false,
  dnsHangs: false,
  dnsQuestions: 0
})

const stagedProvider = (stage: Stage): MailProvider => ({
  name: providerName,
  submit: Effect.fnUntraced(function* (request) {
    const { mime, ...rest } = request
    const bytes = yield* Stream.mkUint8Array(mime)
    stage.submissions.push({ request: rest, bytes, at: yield* Clock.currentTimeMillis })
    const nth = stage.submissions.filter((one) => one.request.messageId === request.messageId).length
    return yield* stage.behave(request, nth)
  }),
  poll: (submission) => stage.poll(submission)
})

const stagedResolver = (stage: Stage): typeof Resolver.Service => {
  const ask = (question: Question) =>
    Effect.suspend(() => {
      stage.dnsQuestions += 1
      const answer = stage.dns.get(keyOf(question)) ?? []
      if (stage.dnsHangs) return Effect.never
      if (stage.dnsIsDown) return Effect.fail(new ResolutionFailed({ reason: "unavailable" }))
      return answer.length === 0 ? Effect.fail(new ResolutionFailed({ reason: "not_found" })) : Effect.succeed(answer)
    })
  return {
    addresses: () => Effect.die(new Error("no scenario looks up addresses")),
    txt: (name) => ask({ type: "TXT", name }),
    cname: (name) => Effect.map(ask({ type: "CNAME", name }), ([target]) => target!), // there is one
    mx: (name) =>
      Effect.map(ask({ type: "MX", name }), (found) =>
        found.map((text) => ({ preference: Number(text.split(" ")[0]), exchange: text.split(" ")[1] ?? "" }))
      )
  }
}

const stagedTransport = (stage: Stage): typeof WebhookTransport.Service => ({
  post: Effect.fnUntraced(function* ({ target, headers, body }: WebhookRequest) {
    const text = new TextDecoder().decode(body)
    const posted: Posted = { url: target.href, headers, text, json: JSON.parse(text), at: yield* Clock.currentTimeMillis }
    stage.posts.push(posted)
    return yield* stage.receive(posted)
  }),
  get: () => Effect.die(new Error("nothing is fetched"))
})

const stagedMime = (stage: Stage, mime: typeof Mime.Service): typeof Mime.Service => ({
  ...mime,
  parse: (bytes) =>
    Effect.flatMap(Stream.mkUint8Array(bytes), (whole) => Effect.andThen(stage.parse(whole), mime.parse(Stream.make(whole))))
})

const seen = <E>(stage: Stage, bytes: Stream.Stream<Uint8Array, E>) =>
  Effect.map(Stream.mkUint8Array(bytes), (whole) => stage.judged.push(whole))

/** The store, when it is down; or when it is the queue as well, and forgets. */
const stagedStore = (stage: Stage, store: typeof Store.Service): typeof Store.Service =>
  aroundEach(
    { ...store, commit: (changes, jobs, lease) => store.commit(changes, stage.queueForgets ? [] : jobs, lease) } satisfies typeof Store.Service,
    "Store",
    (_, effect) => Effect.suspend(() => (stage.storeIsDown ? Effect.fail(new StoreUnavailable({ cause: "down" })) : effect))
  )

/** The queue, when it is down or forgets. */
const stagedQueue = (stage: Stage, queue: typeof JobQueue.Service): typeof JobQueue.Service =>
  aroundEach(
    {
      ...queue,
      offer: (jobs) => (stage.queueForgets ? Effect.void : queue.offer(jobs)),
      epoch: Effect.map(queue.epoch, (epoch) => `${epoch} ${stage.queueEpoch}`)
    } satisfies typeof JobQueue.Service,
    "JobQueue",
    (call, effect) =>
      Effect.suspend(() =>
        stage.queueIsDown && call !== "JobQueue.awaitWork" ? Effect.fail(new QueueUnavailable({ cause: "down" })) : effect
      )
  )

/** One running core. */
export interface Process {
  readonly access: typeof Access.Service
  readonly messages: typeof Messages.Service
  readonly attachments: typeof Attachments.Service
  readonly events: typeof Events.Service
  readonly mailboxes: typeof Mailboxes.Service
  readonly webhooks: typeof Webhooks.Service
  readonly management: typeof Management.Service
  readonly webhookManagement: typeof WebhookManagement.Service
  readonly requestLog: typeof RequestLog.Service
  readonly receive: typeof Receive.Service
  readonly notifications: typeof RecordNotification.Service
  readonly relay: typeof EventRelay.Service
  readonly worker: typeof Worker.Service
  readonly sweep: typeof Sweep.Service
  readonly checkDomains: typeof CheckDomains.Service
}

/** A tenant with an application, a mailbox at a healthy domain, and a caller. */
export interface Tenancy {
  readonly application: Application
  readonly mailbox: Mailbox
  readonly realm: Realm
  readonly principal: Principal
  readonly apiKeyText: string
}

export interface World {
  readonly stage: Stage
  readonly witness: Witness
  readonly store: typeof Store.Service
  readonly blobs: typeof BlobStore.Service
  readonly queue: typeof JobQueue.Service
  readonly crypto: typeof Crypto.Service
  /** Starts a process; with faults, one that may crash. */
  readonly boot: (faults?: Faults, settings?: Partial<SettingsShape>) => Effect.Effect<Process>
  /** Founds a tenant with one application of this environment. */
  readonly found: (environment?: Environment, planId?: string) => Effect.Effect<Tenancy>
  /** Another application of a tenant, in either environment, with a caller of its own. */
  readonly foundApplication: (of: Tenancy, environment: Environment) => Effect.Effect<Tenancy>
}

/** The ports of an adapter set, with the doubles of a stage, as one process sees them. */
export const make = Effect.gen(function* () {
  const calls = yield* Time.WorldCalls
  const ports = watched(calls, yield* Effect.context<AdapterSet>())
  const stage = makeStage()
  const raw = Context.get(ports, Store)
  const witness = new Witness()
  const scope = yield* Effect.scope

  const boot = (faults?: Faults, settings: Partial<SettingsShape> = {}): Effect.Effect<Process> => {
    const wrap = <S extends object>(name: string, service: S): S => (faults === undefined ? service : faulty(faults, name, service))
    const portLayer = Layer.mergeAll(
      Layer.succeed(Settings, { ...defaults, ...settings }),
      Layer.succeed(Store, wrap("Store", stagedStore(stage, witness.watch(raw)))),
      Layer.succeed(JobQueue, wrap("JobQueue", stagedQueue(stage, Context.get(ports, JobQueue)))),
      Layer.succeed(BlobStore, wrap("BlobStore", Context.get(ports, BlobStore))),
      Layer.succeed(Mime, stagedMime(stage, Context.get(ports, Mime))),
      Layer.succeed(Crypto, Context.get(ports, Crypto)),
      Layer.succeed(RateLimiter, {
        take: (guards) =>
          stage.limiterIsDown
            ? Effect.fail(new RateLimiterUnavailable({ cause: "down" }))
            : Context.get(ports, RateLimiter).take(guards)
      }),
      Layer.succeed(Scanner, {
        scan: (bytes) => Effect.flatMap(Stream.mkUint8Array(bytes), (whole) => stage.scan(whole))
      }),
      Layer.succeed(MailProviders, {
        sandbox: wrap("MailProvider", Context.get(ports, Sandbox)),
        production: wrap("MailProvider", stagedProvider(stage))
      }),
      Layer.succeed(MailAuthenticator, {
        authenticate: ({ bytes }) => Effect.as(seen(stage, bytes), stage.authentication)
      }),
      Layer.succeed(SpamFilter, {
        judge: ({ bytes }) =>
          Effect.flatMap(seen(stage, bytes), () =>
            stage.spam === null ? Effect.fail(new SpamFilterUnavailable({ cause: "down" })) : Effect.succeed(stage.spam)
          )
      }),
      Layer.succeed(WebhookTransport, wrap("WebhookTransport", stagedTransport(stage))),
      Layer.succeed(Resolver, wrap("Resolver", stagedResolver(stage)))
    )
    return Effect.map(
      Layer.buildWithMemoMap(Layer.provide(Mailroom.layer, portLayer), Layer.makeMemoMapUnsafe(), scope),
      (context) => ({
        access: Context.get(context, Access),
        messages: Context.get(context, Messages),
        attachments: Context.get(context, Attachments),
        events: Context.get(context, Events),
        mailboxes: Context.get(context, Mailboxes),
        webhooks: Context.get(context, Webhooks),
        management: Context.get(context, Management),
        webhookManagement: Context.get(context, WebhookManagement),
        requestLog: Context.get(context, RequestLog),
        receive: Context.get(context, Receive),
        notifications: Context.get(context, RecordNotification),
        relay: Context.get(context, EventRelay),
        worker: Context.get(context, Worker),
        sweep: Context.get(context, Sweep),
        checkDomains: Context.get(context, CheckDomains)
      })
    )
  }

  const { management } = yield* boot()
  const issue = Effect.fnUntraced(function* (realm: Realm, application: Application, mailbox: Mailbox, planId: string) {
    const key = { tenantId: realm.tenantId, applicationId: application.id, name: "scenario", scopes }
    const { apiKey, text } = yield* management.issueKey(system, key)
    const principal: Principal = {
      realm,
      applicationId: application.id,
      apiKeyId: apiKey.id,
      scopes,
      plan: Limits.plans.find((plan) => plan.id === planId)!,
      requestId: freshId(),
      clientAddress: "192.0.2.1"
    }
    return { application, mailbox, realm, principal, apiKeyText: Redacted.value(text) } satisfies Tenancy
  })

  const found = Effect.fnUntraced(function* (environment: Environment = "production", planId = "dev") {
    for (const plan of Limits.plans) yield* management.putPlan(plan)
    const tenant = yield* management.createTenant(system, { name: "Scenario", planId })
    const realm: Realm = { tenantId: tenant.id, environment }
    const application = yield* management.createApplication(system, { ...realm, name: "Scenario" })
    const domain = yield* management.createDomain(system, { tenantId: tenant.id, domain: domainName() })
    yield* management.recordChecks(tenant.id, domain.id, healthyChecks)
    const mailbox = yield* management.createMailbox(system, {
      tenantId: tenant.id,
      address: address("ada", domain.domain),
      displayName: "Ada"
    })
    return yield* issue(realm, application, mailbox, planId)
  }, Effect.orDie)

  const foundApplication = Effect.fnUntraced(function* (of: Tenancy, environment: Environment) {
    const realm: Realm = { tenantId: of.realm.tenantId, environment }
    const application = yield* management.createApplication(system, { ...realm, name: "Another" })
    return yield* issue(realm, application, of.mailbox, of.principal.plan.id)
  }, Effect.orDie)

  const [queue, crypto, blobs] = [Context.get(ports, JobQueue), Context.get(ports, Crypto), Context.get(ports, BlobStore)]
  return { stage, witness, store: raw, blobs, queue, crypto, boot, found, foundApplication } satisfies World
})

/** The ports of a set, their calls counted. */
const watched = (calls: Time.Calls, ports: Context.Context<AdapterSet>): Context.Context<AdapterSet> =>
  ports.pipe(
    Context.add(Store, calls.watch("Store", Context.get(ports, Store))),
    Context.add(JobQueue, calls.watch("JobQueue", Context.get(ports, JobQueue))),
    Context.add(BlobStore, calls.watch("BlobStore", Context.get(ports, BlobStore))),
    Context.add(RateLimiter, calls.watch("RateLimiter", Context.get(ports, RateLimiter))),
    Context.add(Mime, calls.watch("Mime", Context.get(ports, Mime))),
    Context.add(Crypto, calls.watch("Crypto", Context.get(ports, Crypto)))
  )

/** A round of checks that makes a domain healthy. */
export const healthyChecks = (["ownership", "dkim"] as const).map(
  (record) => ({ record, state: "ok", expected: "x", observed: "x", since: 0 }) as const
)

/** Puts into `lines` what is logged, as the text of JSON. */
export const loggedTo = (lines: Array<string>) => Logger.layer([Logger.map(Logger.formatJson, (line) => void lines.push(line))])

/** A scenario as a check: a fresh world, and no violation at its end. */
export const scenario = <E>(title: string, play: (world: World) => Effect.Effect<void, E>) => ({
  title,
  check: Effect.gen(function* () {
    const world = yield* make
    yield* play(world)
    assert.deepEqual(world.witness.violations, [])
  }).pipe(
    Effect.provideServiceEffect(Time.WorldCalls, Effect.sync(() => new Time.Calls())),
    Effect.provide(Logger.layer([])) // crashes that a scenario stages are no news
  )
})
export type ScenarioSuite = Suite<AdapterSet>

/** A plain message to one or more recipients. */
export const letter = (from: Tenancy, to: ReadonlyArray<Address> | Address, over: Partial<SendMessageInput> = {}): SendMessageInput => ({
  fromMailboxId: from.mailbox.id,
  to: typeof to === "string" ? [to] : to,
  cc: [],
  bcc: [],
  subject: "Note G",
  text: "The engine weaves",
  html: null,
  attachmentIds: [],
  ...over
})

/** Sends a letter under a fresh key, each time it is run; the message's id. */
export const send = (process: Process, ...letterOf: Parameters<typeof letter>) =>
  Effect.suspend(() =>
    Effect.map(process.messages.send(letterOf[0].principal, someKey(), letter(...letterOf)), ({ message }) => message.id)
  )

/** Uploads a text file. */
export const upload = ({ attachments }: Process, { principal, mailbox }: Tenancy, filename = "notes.txt", text = "the engine weaves") =>
  attachments.upload(principal, { mailboxId: mailbox.id, filename, mediaType: "text/plain" }, Stream.make(new TextEncoder().encode(text)))

export const someKey = (): IdempotencyKey => freshId<IdempotencyKey>()

/** Ticks until nothing is due. A process that makes work for itself without end is a fault. */
export const settle = ({ relay, worker }: Process) =>
  Effect.gen(function* () {
    for (let round = 0; round < 200; round++) if ((yield* relay.tick) + (yield* worker.tick) === 0) return
    assert.fail("the worker does not come to rest")
  })

/** Lets time pass in steps, sweeping and ticking at each. */
export const pass = (process: Process, duration: Duration.Input, step: Duration.Input = "10 seconds") =>
  Effect.gen(function* () {
    const end = (yield* Clock.currentTimeMillis) + Duration.toMillis(Duration.fromInputUnsafe(duration))
    yield* settle(process)
    while ((yield* Clock.currentTimeMillis) < end) {
      const left = Duration.millis(end - (yield* Clock.currentTimeMillis))
      yield* Time.leap(Duration.min(Duration.fromInputUnsafe(step), left))
      yield* Effect.andThen(process.worker.recordTaken, process.sweep.tick)
      yield* settle(process)
    }
  })

/** What the log holds of one resource, or of a realm, in order. */
export const logOf = (world: World, { realm }: Tenancy, resourceId?: string) =>
  Effect.gen(function* () {
    const all: Array<LoggedEvent> = []
    let position = 0n
    for (;;) {
      const page = yield* world.store.events.readLog(shardOf(realm.tenantId), position, 1000)
      if (page.length === 0) break
      position = page[page.length - 1]!.position
      all.push(...page)
    }
    return all.filter(
      (event) =>
        event.tenantId === realm.tenantId &&
        (resourceId === undefined ? event.environment === realm.environment : event.resourceId === resourceId)
    )
  })

export const typesOf = (events: ReadonlyArray<LoggedEvent>) => events.map(({ type }) => type)

/** The message as it stands. */
export const messageOf = (world: World, of: Tenancy, id: Parameters<typeof world.store.messages.get>[1]) =>
  Effect.map(world.store.messages.get(of.realm, id), (message) => {
    assert.ok(message !== null, `message ${id} is there`)
    return message
  })
