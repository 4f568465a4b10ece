/**
 * Connections to whichever of a URL's servers takes writes. They are tried one
 * after the other, and each address of a name: first the one that was the
 * primary last, then the others in their order. Each new connection asks its
 * server what it is. What a server says of itself while it connects would need
 * no question, but a pooler goes on saying what its first server said.
 */
import { PgConnection } from "@effect/sql-pg"
import { Data, type Duration, Effect, Exit, Scope } from "effect"
import type { SqlError } from "effect/sql/SqlError"
import type { Socket } from "node:net"
import type { Duplex } from "node:stream"
import { codeOf, connectionError, isNoRoom, noneFree, noRoom, reasonOf } from "./Connections.ts"
import * as Hosts from "./Hosts.ts"

/** No server of those that are named takes writes, and a standby is among them. */
export class NoPrimary extends Data.TaggedError("NoPrimary")<{ readonly message: string }> {}

/** True when a server answers that is no primary, and no other is one. */
export const isWithoutPrimary = ({ reason }: SqlError): boolean => reason.cause instanceof NoPrimary

type Opened = Effect.Effect<PgConnection.PgConnection, SqlError, Scope.Scope>

/** Opens one in the scope: `onSocket` is called with each socket on the way to it, `onEnd` once it has ended, by whomever. */
export type Open = (told: { readonly onSocket: (socket: Duplex) => void; readonly onEnd: () => void }) => Opened

export interface Options {
  readonly config: Omit<PgConnection.Config, "url" | "stream" | "connectTimeout">
  readonly hosts: ReadonlyArray<Hosts.Host>
  readonly wants: Hosts.SessionAttributes
  /** For how long each server, and each address of one, is given to let us in, and again to say what it is. */
  readonly connectTimeout: Duration.Duration
  readonly resolve?: Hosts.Resolve | undefined
}

/** What they share is who was the primary last. */
export const make = (options: Options): Open => {
  const { hosts } = options
  let last = hosts[0]!
  /** The address that led to the primary, of each name. */
  const addresses = new Map<Hosts.Host, string>()

  const through = (host: Hosts.Host, { onEnd, onSocket }: Parameters<Open>[0]): Opened => {
    const passed = new Set<string>()
    const next: Opened = Effect.suspend(() => {
      const way = wayTo(host, { passed, preferred: addresses.get(host), resolve: options.resolve, onSocket })
      return opened(options, host, way).pipe(
        Effect.tap(() =>
          Effect.sync(() => {
            last = host
            const address = way.address()
            if (address !== null) addresses.set(host, address)
            way.ended(onEnd)
          })
        ),
        Effect.catch((error) => {
          const address = way.address()
          if (address === null || passed.has(address) || !way.hasOthers()) return Effect.fail(error)
          passed.add(address)
          return next
        })
      )
    })
    return next
  }

  return (told) =>
    Effect.suspend(() => {
      const failures: Array<Failure> = []
      const order = [last, ...hosts.filter((host) => host !== last)]
      const from = (index: number): Opened => {
        const host = order[index]
        if (host === undefined) return Effect.fail(summary(failures))
        return Effect.catch(through(host, told), (error) => {
          failures.push({ host, error })
          return from(index + 1)
        })
      }
      return from(0)
    })
}

/** Sockets to one server: a cancellation goes where its connection went, also where the name has led elsewhere since. */
const wayTo = (
  host: Hosts.Host,
  options: {
    readonly passed: ReadonlySet<string>
    readonly preferred: string | undefined
    readonly resolve: Hosts.Resolve | undefined
    readonly onSocket: (socket: Duplex) => void
  }
) => {
  let first: Socket | null = null
  let address: string | null = null
  let others = 0
  const rank = (each: string) => (each === options.preferred ? 0 : 1)
  return {
    /** Null while it is not connected, and of what has none. */
    address: () => address,
    hasOthers: () => others > 0,
    ended: (onEnd: () => void) => {
      if (first === null || first.destroyed) onEnd()
      else first.once("close", onEnd)
    },
    stream: (): Duplex => {
      const socket = Hosts.dial(
        address === null ? host : { host: address, port: host.port },
        (found) => {
          const left = found.filter((each) => !options.passed.has(each.address))
          others = left.length - 1
          return left.length === 0 ? found : left.toSorted((one, other) => rank(one.address) - rank(other.address))
        },
        options.resolve
      )
      options.onSocket(socket)
      if (first === null) {
        first = socket
        socket.once("connect", () => {
          address = socket.remoteAddress ?? null
        })
      }
      return socket
    }
  }
}

/** One that is not used is closed before the next is tried. */
const opened = (options: Options, host: Hosts.Host, { stream }: ReturnType<typeof wayTo>) =>
  Effect.gen(function* () {
    const scope = yield* Scope.fork(yield* Effect.scope)
    return yield* PgConnection.make({ ...options.config, connectTimeout: options.connectTimeout, url: host.url, stream }).pipe(
      Effect.tap((connection) => accepted(connection, host, options)),
      Scope.provide(scope),
      Effect.tapCause((cause) => Scope.close(scope, Exit.failCause(cause)))
    )
  })

const question = "select pg_is_in_recovery() as standby, current_setting('transaction_read_only') = 'on' as \"readOnly\""

const accepted = (connection: PgConnection.PgConnection, host: Hosts.Host, { connectTimeout, wants }: Options) =>
  Effect.gen(function* () {
    const { rows } = yield* Effect.timeoutOrElse(connection.query(question, [], false), {
      duration: connectTimeout,
      orElse: () => Effect.fail(noneFree(`${Hosts.nameOf(host)} let us in, and did not say in time whether it takes writes`))
    })
    if (rows[0]?.["standby"] === true) return yield* refused(`${Hosts.nameOf(host)} is a standby, which takes no writes`)
    if (wants === "read-write" && rows[0]?.["readOnly"] === true) return yield* refused(`${Hosts.nameOf(host)} is set to read only`)
  })

const refused = (message: string) => Effect.fail(failed(new NoPrimary({ message })))

interface Failure {
  readonly host: Hosts.Host
  readonly error: SqlError
}

/** Of one server, its own error; of several, what became of each. */
const summary = (failures: ReadonlyArray<Failure>): SqlError => {
  const [only] = failures
  if (failures.length === 1 && only !== undefined) return only.error
  const message = failures
    .map(({ error, host }) => (isWithoutPrimary(error) ? reasonOf(error) : `${Hosts.nameOf(host)}: ${reasonOf(error)}`))
    .join("; ")
  // Where the primary has no room for more, those that there are come free.
  if (failures.some(({ error }) => isNoRoom(error))) return failed(Object.assign(new Error(message), { code: noRoom }))
  if (failures.some(({ error }) => isWithoutPrimary(error))) return failed(new NoPrimary({ message }))
  // What all of them say, as of a password, goes on to be told from servers that are away.
  const [code = "", ...others] = new Set(failures.map(({ error }) => codeOf(error)))
  return failed(code === "" || others.length > 0 ? new Error(message) : Object.assign(new Error(message), { code }))
}

const failed = (cause: Error): SqlError => connectionError(cause, "connect")
