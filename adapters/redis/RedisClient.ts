/**
 * A Redis server: one connection for scripts, and one for whoever wants to hear
 * of something. While the server is away every command fails at once, or after
 * the timeout if it does not answer, and the connection comes back by itself.
 * What goes wrong is told in words that hold no password.
 *
 * All keys begin with one hash tag, so on a cluster they lie on one node.
 */
import { Clock, Context, Data, Duration, Effect, Layer, Redacted, type Scope } from "effect"
import type { Redis, RedisOptions } from "ioredis"
import { createHash } from "node:crypto"

export interface Options {
  /** `redis://user:password@host:port/database`, `rediss://` over TLS, or `unix:` with the path of a socket. */
  readonly url: Redacted.Redacted<string>
  /** Keys begin with `{prefix}:`; "mailroom" unless set. Deployments that share a server have one each. */
  readonly prefix?: string
  /** For an answer, and for a connection; one second unless set. */
  readonly timeout?: Duration.Input
  /** The clocks of the machine, by which the server's is measured; for tests. */
  readonly machineClock?: Clock.Clock
}

/** The reason is for the operator, in the words of the server or of the driver. */
export class RedisUnavailable extends Data.TaggedError("RedisUnavailable")<{ readonly reason: string }> {
  override get message(): string {
    return `Redis is unavailable: ${this.reason}`
  }
}

/** What was asked, as `read` understands the answer; null: it is none that a Redis gives, and so nothing to go by. */
export const understood = <A>(asked: Effect.Effect<unknown, RedisUnavailable>, read: (answer: unknown) => A | null): Effect.Effect<A, RedisUnavailable> =>
  Effect.flatMap(asked, (answer) => {
    const known = read(answer)
    return known === null ? new RedisUnavailable({ reason: "what answers there is no Redis, or does not run our scripts; see its address" }) : Effect.succeed(known)
  })

/** An answer that is a list of strings; null if it is none. */
export const textsOf = (answer: unknown): ReadonlyArray<string> | null =>
  Array.isArray(answer) && answer.every((text) => typeof text === "string") ? answer : null

export interface Script {
  readonly lua: string
  readonly sha: string
}

/** A script gets what all keys begin with as its only key. */
export const script = (lua: string): Script => ({ lua, sha: createHash("sha1").update(lua).digest("hex") })

export class RedisClient extends Context.Service<
  RedisClient,
  {
    /** One round trip, unless the server has lost the script. */
    readonly run: (script: Script, args: ReadonlyArray<string | number>) => Effect.Effect<unknown, RedisUnavailable>
    /** A section of what the server says of itself: its fields by name. */
    readonly info: (section: string) => Effect.Effect<ReadonlyMap<string, string>, RedisUnavailable>
    /** By how many milliseconds the server's clock is ahead of this machine's; 0 where that is too little to be measured. */
    readonly clockOffset: Effect.Effect<number, RedisUnavailable>
    /**
     * The machine's wall clock less its monotonic one, in nanoseconds. It moves by much when the wall clock is set, and by a
     * suspension, in which the monotonic one stands still.
     */
    readonly clockLead: () => bigint
    /** How many connections there have been: a new number may mean another server. */
    readonly connections: () => number
    /**
     * Calls with each message on a channel, whose name begins as keys do; with null whenever messages may have been missed.
     */
    readonly subscribe: (channel: string, hear: (message: string | null) => void) => Effect.Effect<void, never, Scope.Scope>
  }
>()("mailroom/adapters/redis/RedisClient") {}

export const layer = (options: Options): Layer.Layer<RedisClient, RedisUnavailable> => Layer.effect(RedisClient, make(options))

const unreadable = new RedisUnavailable({
  reason: "its URL cannot be read: it is not of the form redis://user:password@host:port/database, or asks for more behind a `?`"
})

/** Waits for the connection, but no longer than the timeout: a server that is away is no reason not to start. */
export const make = Effect.fnUntraced(function* (
  options: Options
): Effect.fn.Return<RedisClient["Service"], RedisUnavailable, Scope.Scope> {
  const place = placeOf(Redacted.value(options.url))
  if (place === null) return yield* unreadable
  const timeout = Duration.toMillis(Duration.fromInputUnsafe(options.timeout ?? "1 second"))
  const base = `{${options.prefix ?? "mailroom"}}:`
  const settings: Settings = {
    ...place,
    protocol: 2, // HELLO puts the password where an older server repeats it in its error
    lazyConnect: true,
    connectTimeout: timeout,
    socketTimeout: timeout, // what does not answer is dropped, and not sent more that it would do later
    commandTimeout: timeout * 1.5,
    disconnectTimeout: timeout / 2,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
    maxLoadingRetryTime: 500,
    keepAlive: 10_000,
    retryStrategy: (times) => Math.min(times * 50, 500),
    reconnectOnError: (error) => /(^|-)(READONLY|MASTERDOWN) /.test(error.message) // its place may be taken by the new primary; before version 7 other words go before those of a script
  }
  let connections = 0
  let lost: string | null = null
  const { Redis } = yield* driver
  const open = acquire(Redis, settings, (client) => {
    client.on("error", (error) => (lost = wordsOf(error)))
  })
  const wordsOf = (error: unknown): string => {
    const { message, code } = error as Partial<NodeJS.ErrnoException> // the driver's, of whatever class
    const said = message || code || "no reason given"
    const words = said.includes("WRONGTYPE ") ? `${said}; a key that begins with ${base} is of another program: remove it, or give one of them a database of its own` : said
    return place.password === undefined ? words : words.replaceAll(place.password, "<redacted>")
  }

  const client = yield* open
  const isReady = new Promise<void>((resolve) => {
    client.on("ready", () => {
      connections += 1
      lost = null
      resolve()
    })
    client.once("close", resolve)
    client.once("end", resolve)
  })
  client.connect().catch(() => {}) // the next try follows by itself
  const liveClock = options.machineClock ?? Clock.Clock.defaultValue() // whatever clock the caller has
  yield* Effect.provideService(Effect.timeoutOption(Effect.promise(() => isReady), timeout), Clock.Clock, liveClock) // one that loads its data answers, and is not ready for as long

  const whyAway = () => {
    const why = lost ?? (client.status === "connect" ? "it has yet to load its data, or to answer" : null)
    return `there is no connection${why === null ? "" : `: ${why}`}`
  }
  const ask = <A>(send: () => Promise<A>): Effect.Effect<A, RedisUnavailable> =>
    Effect.tryPromise({
      try: send,
      catch: (error) =>
        new RedisUnavailable({
          reason: client.status === "ready" ? wordsOf(error) : whyAway()
        })
    })

  const measure = Effect.gen(function* () {
    const before = liveClock.currentTimeMillisUnsafe()
    const time = yield* understood(ask(() => client.time()), timeOf)
    const after = liveClock.currentTimeMillisUnsafe()
    return { offset: time - (before + after) / 2, trip: after - before }
  })

  return {
    run: ({ lua, sha }, args) =>
      ask(() =>
        client.evalsha(sha, 1, base, ...args).catch((error: Error) => {
          if (!error.message.startsWith("NOSCRIPT")) throw error
          return client.eval(lua, 1, base, ...args)
        })
      ),
    info: (section) => understood(ask(() => client.info(section)), (text) => (typeof text === "string" ? parseInfo(text) : null)),
    clockOffset: Effect.map(Effect.all([measure, measure, measure]), (measured) => {
      const { offset, trip } = measured.reduce((best, one) => (one.trip < best.trip ? one : best))
      return Math.abs(offset) <= trip / 2 + 1 ? 0 : offset
    }),
    clockLead: () => BigInt(liveClock.currentTimeMillisUnsafe()) * 1_000_000n - liveClock.monotonicTimeNanosUnsafe(),
    connections: () => connections,
    subscribe: Effect.fnUntraced(function* (channel, hear) {
      const subscriber = yield* open
      const comeBack = () => hear(null)
      yield* Effect.acquireRelease(
        Effect.sync(() => client.on("ready", comeBack)),
        () => Effect.sync(() => client.off("ready", comeBack))
      )
      subscriber.on("ready", () => {
        subscriber.subscribe(base + channel).then(comeBack, () => {}) // a connection that is lost comes back
      })
      subscriber.on("message", (_channel, message) => hear(message))
      subscriber.connect().catch(() => {}) // as above
    })
  }
})

/** The types of the driver's answers depend on this option: left open, as `RedisOptions` has it, they would be any of them. */
type Settings = RedisOptions & { readonly replyMapping?: "legacy" }

/** Loaded for whoever has a Redis: others need not have it installed, and start sooner. */
const driver = Effect.tryPromise({
  try: () => import("ioredis"),
  catch: () => new RedisUnavailable({ reason: "the package ioredis is not installed: npm install ioredis" })
})

const acquire = (Client: typeof Redis, settings: Settings, prepare: (client: Redis) => void) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const client = new Client(settings)
      prepare(client)
      return client
    }),
    (client) =>
      Effect.promise(() =>
        client
          .quit()
          .catch(() => {})
          .then(() => client.disconnect())
      )
  )

/** Seconds, and microseconds beside them, in milliseconds. */
const timeOf = (answer: unknown): number | null => {
  const [seconds, micros] = Array.isArray(answer) ? answer.map(Number) : []
  const time = (seconds ?? NaN) * 1000 + (micros ?? NaN) / 1000
  return Number.isFinite(time) ? time : null
}

const parseInfo = (text: string): ReadonlyMap<string, string> =>
  new Map(
    text.split("\r\n").flatMap((line) => {
      const colon = line.indexOf(":")
      return colon < 0 ? [] : [[line.slice(0, colon), line.slice(colon + 1)] as const]
    })
  )

type Place = Pick<RedisOptions, "db" | "tls"> & {
  readonly host?: string
  readonly port?: number
  readonly path?: string
  readonly username?: string
  readonly password?: string
}

/** Reads the parts that are named in `Options`, and no settings of the driver: whoever asks for one, as for TLS, is not to go on without it. */
const placeOf = (text: string): Place | null => {
  const url = URL.parse(text)
  if (url === null || !/^(rediss?|unix):$/.test(url.protocol)) return null
  const isSocket = url.protocol === "unix:"
  const database = isSocket ? (url.searchParams.get("db") ?? "") : url.pathname.slice(1)
  const [path, username, password] = [decode(url.pathname), decode(url.username), decode(url.password)]
  if (!/^\d{0,4}$/.test(database) || path === null || username === null || password === null) return null
  if (isSocket ? path.length < 2 : url.hostname === "") return null
  if ([...url.searchParams.keys()].some((name) => !isSocket || name !== "db")) return null
  return {
    db: Number(database),
    ...(isSocket ? { path } : { host: url.hostname.replace(/^\[|\]$/g, ""), port: Number(url.port || "6379") }),
    ...(username !== "" && { username }),
    ...(password !== "" && { password }),
    ...(url.protocol === "rediss:" && { tls: {} })
  }
}

const decode = (text: string): string | null => {
  try {
    return decodeURIComponent(text)
  } catch {
    return null
  }
}
