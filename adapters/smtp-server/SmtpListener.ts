/**
 * Listens for mail, by SMTP or LMTP, and hands it to the core: a server that
 * only takes mail, for those whom the core knows. It signs nobody in, looks
 * nobody up, and sends nothing on.
 *
 * Each connection holds a bounded buffer; a message goes through as a stream
 * that is read as fast as the core takes it.
 */
import { Data, Duration, Effect, FiberSet, Result, type Scope } from "effect"
import { existsSync, lstatSync, unlinkSync } from "node:fs"
import { createConnection, createServer, type AddressInfo, type Server } from "node:net"
import type { SecureContext } from "node:tls"
import { authority } from "../../core/model/Authority.ts"
import { bucketOf, plainOf } from "../../core/model/ClientAddress.ts"
import { Receive } from "../../core/operations/Receive.ts"
import * as SeldomLog from "../../core/SeldomLog.ts"
import * as ProxyLine from "./ProxyLine.ts"
import * as Reply from "./Reply.ts"
import * as Session from "./Session.ts"
import { Wire, WireEnded } from "./Wire.ts"

/** It could not listen; the cause is the system's. */
export class ListenFailed extends Data.TaggedError("ListenFailed")<{ readonly address: Address; readonly cause: unknown }> {
  override get message(): string {
    const place = "path" in this.address ? this.address.path : authority(this.address.host, this.address.port)
    const isFolderMissing = "path" in this.address && !existsSync(this.address.path.replace(/[^/]*$/, "") || ".") // of which the system says EACCES
    const why = this.cause instanceof Error ? this.cause.message : String(this.cause)
    return `cannot listen on ${place}: ${isFolderMissing ? "its folder is not there" : why}`
  }
}

/** Port 0: any free one. A path is a Unix socket's. */
export type Address = { readonly host: string; readonly port: number } | { readonly path: string }

export interface Options {
  readonly protocol: "SMTP" | "LMTP"
  readonly address: Address
  /** What we call ourselves: a host name. */
  readonly hostname: string
  /** STARTTLS is offered where there is a context. It is asked for with each connection, so that a new certificate needs no restart. */
  readonly secureContext?: () => SecureContext | null
  /** TLS from the first byte, with that context; without one nobody is talked to. */
  readonly isImplicitTls?: boolean
  /** Of one message; 50 MiB unless set. */
  readonly sizeBytesMax?: number
  /** Whether this peer is a proxy: then its connections begin with a PROXY line (version 1), and are those of whom it names. */
  readonly isProxy?: (address: string) => boolean
  readonly limits?: Partial<Limits>
  readonly timeouts?: Partial<Timeouts>
  /** Told of each connection and message, to count them. */
  readonly onConnection?: (result: "accepted" | "refused") => Effect.Effect<void>
  readonly onMessage?: (outcome: Session.Outcome) => Effect.Effect<void>
}

export interface Limits {
  readonly connections: number
  /** From one address, as the core counts them: IPv6 by its /64. Those through a Unix socket have none. */
  readonly connectionsPerAddress: number
  readonly recipients: number
  /** Refusals in one conversation. */
  readonly errors: number
  /** Commands in one conversation without a message that is taken. */
  readonly commands: number
}

export interface Timeouts {
  /** For the next command, or a byte of a message. RFC 5321 wants 5 minutes. */
  readonly silence: Duration.Input
  /** The same while half of the connections are taken: who is silent keeps no place from who is not. */
  readonly crowdedSilence: Duration.Input
  /** From DATA to the end of the message. */
  readonly message: Duration.Input
  /** For what is under way when we stop. */
  readonly drain: Duration.Input
}

export const defaults = {
  sizeBytesMax: 50 * 1024 * 1024,
  limits: { connections: 1_000, connectionsPerAddress: 50, recipients: 100, errors: 50, commands: 1_000 },
  timeouts: { silence: "5 minutes", crowdedSilence: "20 seconds", message: "20 minutes", drain: "20 seconds" }
} as const satisfies Partial<Options>

export interface Listening {
  /** With the port that it has. */
  readonly address: Address
}

/** Listens until its scope closes; then it takes nothing new, and waits for messages that are under way. */
export const listen = Effect.fnUntraced(function* (options: Options): Effect.fn.Return<Listening, ListenFailed, Receive | Scope.Scope> {
  const receive = yield* Receive
  const limits = { ...defaults.limits, ...options.limits }
  const timeouts = { ...defaults.timeouts, ...options.timeouts }
  const { secureContext = () => null, isProxy = () => false, onConnection = () => Effect.void, onMessage = () => Effect.void } = options
  const connections = makeConnections(limits)
  const silence = Duration.fromInputUnsafe(timeouts.silence)
  const crowdedSilence = Duration.min(silence, Duration.fromInputUnsafe(timeouts.crowdedSilence))
  const settings: Session.Settings = {
    protocol: options.protocol,
    hostname: options.hostname,
    secureContext,
    sizeBytesMax: options.sizeBytesMax ?? defaults.sizeBytesMax,
    recipientsMax: limits.recipients,
    errorsMax: limits.errors,
    commandsMax: limits.commands,
    silence: () => (connections.isCrowded() ? crowdedSilence : silence),
    messageTotal: Duration.fromInputUnsafe(timeouts.message)
  }
  const fibers = yield* FiberSet.make<void>()
  const run = yield* FiberSet.runtime(fibers)()
  const seldom = SeldomLog.make()
  const notProxied = Effect.logWarning(
    "a connection was closed: it is from a proxy, and did not begin with a PROXY line, version 1; have that proxy send one (of HAProxy: send-proxy)"
  )
  /** A connection that ended, after the log has said which of them a proxy has begun otherwise. */
  const explained = <A>(self: Effect.Effect<A, WireEnded | NotProxied>): Effect.Effect<A, WireEnded> =>
    Effect.catchTag(self, "NotProxied", () => Effect.andThen(seldom(notProxied), new WireEnded({ reason: "gone" })))

  const attend = Effect.fnUntraced(function* (wire: Wire, peerAddress: string): Effect.fn.Return<void, WireEnded> {
    const context = secureContext()
    const isProxied = peerAddress !== "" && isProxy(peerAddress)
    const named = isProxied ? yield* explained(proxied(wire, settings.silence())) : null
    const address = named ?? peerAddress
    const bucket = bucketOf(address)
    const refusal = connections.enter(bucket, isProxied && named === null)
    yield* onConnection(refusal === null ? "accepted" : "refused")
    // Through a Unix socket, which has no address, it is this machine.
    const remoteAddress = address === "" ? "127.0.0.1" : address
    // Who is refused is not heard out: he is not counted, and would keep places from others.
    const conversation =
      refusal === null
        ? Effect.andThen(Session.converse({ wire, remoteAddress, settings, receive, onMessage }), wire.hearOut)
        : Effect.andThen(Effect.sync(() => wire.say(Reply.lineOf(refusal))), wire.close)
    // Without a certificate there is nothing that such a client could read.
    const encrypted =
      options.isImplicitTls !== true ? Effect.void : context === null ? new WireEnded({ reason: "stopping" }) : wire.encryptAtOnce(context, settings.silence())
    yield* Effect.ensuring(
      Effect.andThen(encrypted, conversation),
      Effect.sync(() => (refusal === null ? connections.leave(bucket) : undefined))
    )
  })

  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    const wire = new Wire(socket)
    // Through a port, who has no address is gone already. Taken for this machine, he would be asked for no PROXY line, and not be counted.
    const peerAddress = "path" in options.address ? "" : socket.remoteAddress
    if (peerAddress === undefined || !connections.open(wire)) return wire.drop()
    run(
      attend(wire, plainOf(peerAddress)).pipe(
        Effect.ignore,
        Effect.ensuring(
          Effect.sync(() => {
            wire.drop()
            connections.close(wire)
          })
        )
      )
    )
  })
  yield* Effect.acquireRelease(bind(server, options.address), () => Effect.sync(() => server.close()))
  // The system may be out of memory or descriptors for a moment: that costs this connection, and not the process.
  server.on("error", (cause) => run(Effect.logWarning("a connection could not be taken", cause)))
  // Before the fibers are interrupted, and before the server is closed for good.
  yield* Effect.addFinalizer(() => {
    server.close()
    connections.stop()
    return Effect.timeoutOption(FiberSet.awaitEmpty(fibers), timeouts.drain)
  })
  return { address: "path" in options.address ? options.address : { ...options.address, port: (server.address() as AddressInfo).port } } // it listens on a port
})

/** Who is there. */
const makeConnections = (limits: Limits) => {
  const wires = new Set<Wire>()
  const byBucket = new Map<string, number>()
  let isStopping = false
  return {
    /** Whether there is room at all, a tenth of it for refusals in words. */
    open: (wire: Wire): boolean => {
      if (wires.size >= limits.connections * 1.1) return false
      wires.add(wire)
      if (isStopping) wire.stop()
      return true
    },
    close: (wire: Wire): void => void wires.delete(wire),
    isCrowded: (): boolean => wires.size > limits.connections / 2,
    /** Null: it may talk, and leaves when it is done. */
    enter: (bucket: string, isUncounted: boolean): Reply.Reply | null => {
      if (wires.size > limits.connections) return Reply.tooManyConnections
      const count = byBucket.get(bucket) ?? 0
      if (bucket !== "" && !isUncounted && count >= limits.connectionsPerAddress) return Reply.tooManyFromAddress
      byBucket.set(bucket, count + 1)
      return null
    },
    leave: (bucket: string): void => {
      const count = byBucket.get(bucket) ?? 0
      if (count <= 1) byBucket.delete(bucket)
      else byBucket.set(bucket, count - 1)
    },
    stop: (): void => {
      isStopping = true
      for (const wire of wires) wire.stop()
    }
  }
}

/** It waits for our greeting, or says something else. Who looks whether we are there goes without a word. */
class NotProxied extends Data.TaggedError("NotProxied")<{}> {}

/** Whom a proxy names: null for itself. A connection that does not begin as it has to is of nobody. */
const proxied = Effect.fnUntraced(function* (wire: Wire, within: Duration.Duration): Effect.fn.Return<string | null, WireEnded | NotProxied> {
  const line = yield* Effect.mapError(wire.line(ProxyLine.sizeMax, within), (ended) => (ended.reason === "silent" ? new NotProxied() : ended))
  const named = line._tag === "Line" ? ProxyLine.read(new TextDecoder("latin1").decode(line.bytes)) : undefined
  return named === undefined ? yield* new NotProxied() : named
})

const bind = Effect.fnUntraced(function* (server: Server, address: Address): Effect.fn.Return<void, ListenFailed> {
  const first = yield* Effect.result(bindOnce(server, address))
  if (Result.isSuccess(first)) return
  if (!("path" in address) || codeOf(first.failure.cause) !== "EADDRINUSE" || !(yield* isLeftOver(address.path))) return yield* first.failure
  yield* Effect.try({ try: () => unlinkSync(address.path), catch: (cause) => new ListenFailed({ address, cause }) })
  yield* bindOnce(server, address)
})

const bindOnce = (server: Server, address: Address): Effect.Effect<void, ListenFailed> =>
  Effect.callback((resume) => {
    const failed = (cause: Error) => resume(new ListenFailed({ address, cause }))
    server.once("error", failed)
    server.listen(address, () => {
      server.removeListener("error", failed)
      resume(Effect.void)
    })
  })

const codeOf = (cause: unknown): unknown => (cause instanceof Error && "code" in cause ? cause.code : undefined)

/** Whether it is a socket that nobody listens on any more, as a process that was killed leaves it; nothing else may go. */
const isLeftOver = (path: string): Effect.Effect<boolean> =>
  Effect.callback((resume) => {
    if (lstatSync(path, { throwIfNoEntry: false })?.isSocket() !== true) return resume(Effect.succeed(false))
    const socket = createConnection({ path })
    socket.once("connect", () => {
      socket.destroy()
      resume(Effect.succeed(false))
    })
    socket.once("error", (cause) => resume(Effect.succeed(codeOf(cause) === "ECONNREFUSED")))
  })
