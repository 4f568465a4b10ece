/**
 * Mailroom inside a program of yours, with Promises: the same core, the same
 * contract, no server of its own. Programs on Effect use `Mailroom.layer` of
 * the package's root; what is here is made of it.
 */
import { Context, Effect, Exit, Fiber, Formatter, Layer, Logger, Option, Predicate, Redacted, References, Result, Scope, Stream } from "effect"
import { HttpServer } from "effect/http"
import * as MemoryRateLimiter from "../../adapters/memory/MemoryRateLimiter.ts"
import * as NodeResolver from "../../adapters/node/NodeResolver.ts"
import * as SandboxMailProvider from "../../adapters/sandbox/SandboxMailProvider.ts"
import { Mailroom as Client } from "../../client/index.ts"
import { Sweep } from "../../core/jobs/Sweep.ts"
import * as Loops from "../../core/Loops.ts"
import * as Mailroom from "../../core/Mailroom.ts"
import * as Address from "../../core/model/Address.ts"
import * as Limits from "../../core/model/Limits.ts"
import { Management } from "../../core/operations/Management.ts"
import { Receive, type Arriving } from "../../core/operations/Receive.ts"
import { WebhookManagement } from "../../core/operations/WebhookManagement.ts"
import { BlobStore } from "../../core/ports/BlobStore.ts"
import { Crypto } from "../../core/ports/Crypto.ts"
import { JobQueue } from "../../core/ports/JobQueue.ts"
import { MailAuthenticator } from "../../core/ports/MailAuthenticator.ts"
import { MailProviders } from "../../core/ports/MailProvider.ts"
import { Mime } from "../../core/ports/Mime.ts"
import { NotificationIntakes } from "../../core/ports/NotificationIntake.ts"
import { RateLimiter } from "../../core/ports/RateLimiter.ts"
import { Resolver } from "../../core/ports/Resolver.ts"
import { Scanner } from "../../core/ports/Scanner.ts"
import { SpamFilter } from "../../core/ports/SpamFilter.ts"
import { Store } from "../../core/ports/Store.ts"
import { WebhookTransport } from "../../core/ports/WebhookTransport.ts"
import { Settings, type SettingsShape } from "../../core/Settings.ts"
import { fetchHandler } from "../http/Fetch.ts"
import * as Arguments from "./Arguments.ts"
import { isIntakes, isProvider, read, type Options } from "./Options.ts"

/**
 * A service of the core with Promises for Effects. A refusal rejects with the core's tagged error; what is no call at all,
 * such as one without its arguments or with a member that nobody knows, with a TypeError that names each fault, and nothing is done.
 */
export type Promised<Service> = {
  readonly [K in keyof Service]: Service[K] extends (...args: infer Args) => Effect.Effect<infer A, infer _E>
    ? (...args: Args) => Promise<A>
    : Service[K] extends Effect.Effect<infer A, infer _E>
      ? () => Promise<A>
      : never
}

/** A message that a mail server of yours has got; its bytes with CRLF line ends, transparency undone. */
export interface InboundMail extends Omit<Arriving<never>, "bytes"> {
  readonly bytes: Uint8Array | AsyncIterable<Uint8Array>
}

export interface EmbeddedMailroom {
  /**
   * The service as a web-standard handler, to be mounted anywhere. The IP guard counts by the address you give, and cannot do
   * without: a request of which you do not say whom it is from is rejected, unanswered. Its paths are those of the contract:
   * under a prefix of yours, take that off the URL first. With a TypeError it rejects what is no Request, or one whose body
   * somebody has read.
   */
  readonly fetch: (request: Request, from: { readonly clientAddress: string }) => Promise<Response>
  /**
   * The TypeScript client on this Mailroom, without a socket: every call passes the same checks as over HTTP, but for the
   * IP guard, for all of them come from this process. The limits of the key and the tenant hold.
   */
  readonly client: (apiKey: string) => Client
  /** Plans, tenants, applications, keys, domains, mailboxes, suppressions, and what the trails say. */
  readonly management: Promised<typeof Management.Service>
  /**
   * Takes mail in. Both reject with `ReceiveRefused`, whose `code`, `enhancedCode` and `text` are what to answer, and with
   * other errors where the sender should try again; with a TypeError, what was handed over is no mail, or a piece of it no
   * bytes, as of a stream with an encoding. When `accept` resolves, every recipient has its message.
   */
  readonly receive: {
    readonly recipient: (address: string) => Promise<void>
    readonly accept: (mail: InboundMail) => Promise<void>
  }
  /** Endpoints and deliveries as an operator sees them; re-enabling, replaying, and test events. */
  readonly webhookManagement: Promised<typeof WebhookManagement.Service>
  /**
   * Does all that is due now, checks of domains too: how many events were fanned out and jobs done. For programs that
   * schedule by themselves, as often as they like; they call `retain`, too. Both reject while the store is away. From `close`
   * on it ends with what it has begun.
   */
  readonly tick: () => Promise<number>
  /**
   * Forgets what is past its time: events, deliveries, logs, what providers posted, unused uploads, bytes that nothing refers
   * to; messages with their attachments too, if `messageRetention` is set. Every ten minutes is often enough.
   */
  readonly retain: () => Promise<void>
  /** Works in the background from now on, until `close`: all that `tick` and `retain` do. */
  readonly start: () => Promise<void>
  /**
   * Turns new requests away, lets what is under way finish for up to 20 seconds, with answers of `fetch` that are still
   * being read, and releases everything. What does not end (an adapter that hangs) is left behind with an error in the log,
   * so that it takes 45 seconds at most. From then on `fetch` and clients answer 503 (but for `/healthz`), and all else
   * rejects.
   */
  readonly close: () => Promise<void>
}

export type { Options } from "./Options.ts"
export { ReceiveRefused } from "../../core/operations/Receive.ts"

/** The text of a secret that the core hands out once, such as a new API key. */
export const reveal = (secret: Redacted.Redacted<string>): string => Redacted.value(secret)

/** A mail address as the core takes it; throws a TypeError that says why when it is none. */
export const parseAddress = (text: string): Address.Address => orThrow(text, Address.parse)
/** A domain name as the core takes it; throws a TypeError that says why when it is none. */
export const parseDomain = (text: string): Address.DomainName => orThrow(text, Address.parseDomain)

const orThrow = <A>(text: string, parse: (text: string) => Result.Result<A, string>): A => {
  if (typeof text !== "string") throw new TypeError(`${String(text)}: it is no text`)
  return Result.getOrThrowWith(parse(text), (fault) => new TypeError(`${JSON.stringify(text)}: ${fault}`))
}

/** The plans that the specification names. A fresh store knows none: write those you want with `management.putPlan`. */
export const plans: ReadonlyArray<Limits.Plan> = Limits.plans

/**
 * Builds a Mailroom of these adapters. Rejects with a TypeError that names each option at fault, or if an adapter cannot be
 * built, and then leaves nothing open. For one that does not come up it waits, and says so in the log. Adapters may hold
 * connections, threads and timers, also before `start`: the process ends by itself only after `close`.
 */
export const createMailroom = async (options: Options): Promise<EmbeddedMailroom> => {
  const { address, settings } = read(options)
  const scopes = { core: Scope.makeUnsafe(), handler: Scope.makeUnsafe(), loops: Scope.makeUnsafe() }
  const underWay = new Set<Promise<unknown>>()
  const tracked = <A>(promise: Promise<A>): Promise<A> => {
    const settled: Promise<unknown> = Promise.allSettled([promise]).then(() => underWay.delete(settled))
    underWay.add(settled)
    return promise
  }
  const callsEnd = Effect.all([Scope.close(scopes.handler, Exit.void), Effect.promise(() => Promise.all(underWay))], { concurrency: 2 })
  // Nothing uses the adapters any more when they close, and nobody asks when the work stops.
  const closing = within("20 seconds", "a call that was under way did not end", callsEnd).pipe(
    Effect.andThen(within("15 seconds", "the work in the background did not end", Scope.close(scopes.loops, Exit.void))),
    Effect.andThen(within("10 seconds", "an adapter did not close", Scope.close(scopes.core, Exit.void))),
    Effect.provide(logging(options))
  )

  const building = Effect.gen(function* () {
    const context = yield* Layer.buildWithScope(core(options, settings), scopes.core)
    const handler = yield* fetchHandler({ servers: [address], grace: "19 seconds" }).pipe(
      Scope.provide(scopes.handler),
      Effect.provide(HttpServer.layerServices),
      Effect.provideContext(context)
    )
    return { context, handler }
  })
  const warning = Effect.sleep("30 seconds").pipe(
    Effect.andThen(Effect.logWarning("an adapter has not come up; createMailroom waits for it")),
    Effect.forever,
    Effect.provide(logging(options))
  )
  const { context, handler } = await Effect.runPromise(
    Effect.onError(building, () => closing).pipe(Effect.raceFirst(warning))
  ).catch((fault: unknown) => Promise.reject(asError(fault)))
  // In the background what finds the store away goes on later; who asks for it once is told.
  const reachable = Context.get(context, Store).relay.behind
  const runCore = Effect.runPromiseWith(context)
  let started: Promise<unknown> | null = null
  let closed: Promise<unknown> | null = null
  const run: Run = (effect) =>
    closed === null ? tracked(runCore(effect)) : Promise.reject(new Error("this Mailroom is closed; `createMailroom` makes another"))

  return {
    fetch: async (request, from) => tracked(handler(unread(request), clientAddressOf(from))),
    client: (apiKey) =>
      new Client({
        baseUrl: new URL(address).origin, // whose prefix is taken off before `fetch`
        apiKey,
        dangerouslyAllowBrowser: true, // what has a `document` here is a simulated page, as in tests
        fetch: (input, init) => tracked(handler(new Request(input, init), null))
      }),
    management: promised("management", Context.get(context, Management), Arguments.management, run),
    webhookManagement: promised("webhookManagement", Context.get(context, WebhookManagement), Arguments.webhookManagement, run),
    receive: {
      recipient: async (address) => {
        if (typeof address !== "string") throw new TypeError("receive.recipient wants an address as it came in RCPT TO.")
        return run(Context.get(context, Receive).recipient(address))
      },
      accept: async (mail) => run(Context.get(context, Receive).accept(arriving(mail)))
    },
    tick: () => run(Effect.andThen(reachable, Effect.provideContext(Loops.tickUntil(() => closed !== null), context))),
    retain: () => run(Effect.andThen(reachable, Context.get(context, Sweep).retain)),
    start: async () => {
      const starting = Layer.buildWithScope(Loops.layer, scopes.loops).pipe(Effect.provideContext(context))
      await (closed === null ? (started ??= run(starting)) : run(starting))
    },
    close: async () => {
      closed ??= Effect.runPromise(closing)
      await closed
    }
  }
}

/** An adapter's layer may fail with anything, and who awaits a promise expects an Error. */
const asError = (fault: unknown): Error =>
  fault instanceof Error ? fault : new Error(`an adapter could not be built: ${Formatter.format(fault)}`, { cause: fault })

/** From JavaScript it may be anything; and of a body that somebody has read nothing is left. */
const unread = (request: Request): Request => {
  const given: { readonly url?: unknown; readonly bodyUsed?: unknown; readonly body?: { readonly locked?: unknown } | null } | undefined = request
  if (typeof given?.url !== "string") throw new TypeError("fetch wants a Request.")
  if (given.bodyUsed === true || given.body?.locked === true) throw new TypeError("fetch wants a Request whose body nobody has read: mount it before what reads bodies.")
  return request
}

/** From JavaScript it may be anything. */
const clientAddressOf = (from: { readonly clientAddress?: unknown } | null | undefined): string => {
  const address = from?.clientAddress
  if (typeof address === "string" && address !== "") return address
  throw new TypeError("fetch wants { clientAddress } beside the request: the address of the client, by which the IP guard counts.")
}

const protocols: ReadonlyArray<unknown> = ["SMTP", "ESMTP", "ESMTPS", "LMTP", "LMTPS"] satisfies ReadonlyArray<InboundMail["peer"]["protocol"]>

/** What it must be, from JavaScript too: what is wrong with it would else show in the middle of a transaction, or never. */
const arriving = (mail: InboundMail): Arriving<unknown> => {
  const { peer, returnPath, recipients, bytes }: { readonly [K in keyof InboundMail]?: unknown } = mail ?? {}
  const wants = (what: string) => new TypeError(`receive.accept wants ${what}.`)
  if (!isPeer(peer)) throw wants(`peer: { remoteAddress, helo, protocol }, all texts, and the last one of ${protocols.map((one) => `\`${String(one)}\``).join(", ")}`)
  if (returnPath !== null && typeof returnPath !== "string") throw wants("returnPath: an address as it came in MAIL FROM, or null for the null sender")
  const isList = Array.isArray(recipients) && recipients.length > 0 && recipients.every(Predicate.isString)
  if (!isList) throw wants("recipients: one or more addresses as they came in RCPT TO")
  if (bytes instanceof Uint8Array) return { ...mail, bytes: Stream.make(bytes) }
  if (!Predicate.hasProperty(bytes, Symbol.asyncIterator)) throw wants("bytes: a Uint8Array, or an AsyncIterable of them")
  const pieces = Stream.fromAsyncIterable(bytes as AsyncIterable<unknown>, (cause) => cause)
  // A stream of Node's gives texts once somebody has set its encoding, and its type does not say so.
  const looked = Stream.mapEffect(pieces, (piece) => (piece instanceof Uint8Array ? Effect.succeed(piece) : Effect.fail(wants("bytes: a Uint8Array, or an AsyncIterable of nothing else"))))
  return { ...mail, bytes: looked }
}

const isPeer = (peer: unknown): boolean =>
  Predicate.hasProperty(peer, "remoteAddress") &&
  Predicate.hasProperty(peer, "helo") &&
  Predicate.hasProperty(peer, "protocol") &&
  Predicate.isString(peer.remoteAddress) &&
  Predicate.isString(peer.helo) &&
  protocols.includes(peer.protocol)

/** An end that a hanging adapter cannot hold up: interruption may be what it does not listen to, so nobody waits for that. */
const within = (atMost: `${number} seconds`, fault: string, ending: Effect.Effect<unknown>): Effect.Effect<void> =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkDetach(ending, { startImmediately: true })
    const ended = yield* Effect.timeoutOption(Effect.interruptible(Fiber.await(fiber)), atMost)
    if (Option.isNone(ended)) yield* Effect.logError(`${fault} within ${atMost}, and is left behind`)
    else if (Exit.isFailure(ended.value)) yield* Effect.logError(`${fault} as it should`, ended.value.cause)
  })

/** An option's layer, held to its port: from JavaScript it may be another port's, and one that may be missing would be. */
const making = <Port, Service, E, R>(option: string, port: Context.Key<Port, Service>, layer: Layer.Layer<Port, E, R>): Layer.Layer<Port, E, R> =>
  Layer.tap(layer, (made) =>
    Option.isSome(Context.getOption(made, port))
      ? Effect.void
      : Effect.die(new TypeError(`${option} is a layer that makes something else; it wants an adapter's layer of ${port.key.split("/").at(-1)}`))
  )

const core = (options: Options, settings: SettingsShape) => {
  const { limiter = MemoryRateLimiter.layer, resolver = NodeResolver.layer } = options
  const intakes = Layer.effect(
    NotificationIntakes,
    Effect.filterOrElse(options.intakes ?? Effect.succeed([]), isIntakes, () =>
      // Found out at the first notification, it would be one that the provider posts in vain.
      Effect.die(new TypeError("intakes is an Effect that makes something else; it wants a list of NotificationIntakes: { name, receive }"))
    )
  )
  const mime = making("mime", Mime, options.mime)
  const ports = Layer.mergeAll(
    making("store", Store, options.store),
    making("queue", JobQueue, options.queue),
    making("blobs", BlobStore, options.blobs),
    making("crypto", Crypto, options.crypto),
    mime,
    making("scanner", Scanner, options.scanner),
    Layer.provideMerge(Layer.provideMerge(intakes, making("webhooks", WebhookTransport, options.webhooks)), making("resolver", Resolver, resolver)),
    making("limiter", RateLimiter, limiter),
    Layer.provide(providers(options), mime),
    options.authenticator === undefined ? Layer.empty : making("authenticator", MailAuthenticator, options.authenticator),
    options.spamFilter === undefined ? Layer.empty : making("spamFilter", SpamFilter, options.spamFilter)
  )
  return Mailroom.layer.pipe(
    Layer.provideMerge(ports),
    Layer.provide(Layer.succeed(Settings, settings)),
    Layer.provideMerge(logging(options))
  )
}

const providers = ({ provider, sandbox = SandboxMailProvider.make() }: Options) =>
  Layer.effect(
    MailProviders,
    Effect.gen(function* () {
      const production = Effect.isEffect(provider) ? yield* provider : provider
      // Found out at the first message, it would be a message that comes to no end.
      if (production !== null && !isProvider(production)) {
        return yield* Effect.die(new TypeError("provider is an Effect that makes something else; it wants a MailProvider: { name, submit, poll }"))
      }
      return { sandbox, production }
    })
  )

const logging = ({ log }: Options) =>
  log === undefined
    ? Layer.merge(Logger.layer([toStandardError]), Layer.succeed(References.MinimumLogLevel, "Warn"))
    : Logger.layer([loggerTo(log)])

const toStandardError = Logger.withConsoleError(Logger.formatJson)

/**
 * A log that throws costs nobody an answer, and neither does one that promises, which to the types is one that returns nothing:
 * a promise that is not kept, and that nobody asks, ends the process. What is not taken goes to standard error.
 */
const loggerTo = (log: (line: string) => unknown) =>
  Logger.make<unknown, void>((entry) => {
    const line = Logger.formatJson.log(entry) // later the fiber may have ended, and its annotations with it
    const notTaken = () => Logger.withConsoleError(Logger.make(() => line)).log(entry)
    try {
      const taken = log(line)
      if (Predicate.isPromiseLike(taken)) void taken.then(undefined, notTaken)
    } catch {
      notTaken()
    }
  })

type Run = <A, E>(effect: Effect.Effect<A, E>) => Promise<A>

const promised = <Service extends object>(called: string, service: Service, calls: Arguments.Calls<Service>, run: Run): Promised<Service> =>
  Object.fromEntries(
    Object.entries(service).map(([name, member]) => [
      name,
      (...args: ReadonlyArray<unknown>) =>
        run(
          Effect.suspend(() => {
            Arguments.hold(`${called}.${name}`, calls[name as keyof Service], args) // the service's own names
            // A service's members are effects, or functions that return one.
            return (typeof member === "function" ? member(...args) : member) as Effect.Effect<unknown, unknown>
          })
        )
    ])
  ) as Promised<Service> // member by member
