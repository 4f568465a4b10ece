/**
 * Opens connections to addresses that somebody else has vetted, and looks
 * nothing up. Whatever is opened on the way is in the caller's hands at once,
 * through `hold`, so that nothing stays open when the caller is interrupted.
 */
import { Array as Arr, Data, Effect, Latch, type Duration } from "effect"
import { connect, isIP, isIPv6, type Socket } from "node:net"
import * as tls from "node:tls"

/** An open connection, encrypted or not. */
export interface Dialled {
  readonly address: string
  readonly socket: Socket
}

export interface Place {
  readonly addresses: Arr.NonEmptyReadonlyArray<string>
  readonly port: number
  /** The name, or the address, that the certificate is to be of; null without TLS. */
  readonly certified: string | null
}

export type Hold = (socket: Socket) => void

/** No connection, or none that is what it was to be. */
export class DialFailed extends Data.TaggedError("DialFailed")<{ readonly cause: unknown }> {}

/** How long one address may take before the next is tried beside it (RFC 8305). */
const patience: Duration.Input = "250 millis"
/** More addresses are not tried: a name with thousands of them is an attack on all of these. */
const addressesMax = 4

/** Certificates are verified against the roots that Node trusts and `ca`, in PEM. */
export const make = (ca: ReadonlyArray<string>) => {
  // One for all connections: it holds the roots, which are megabytes.
  const secureContext = tls.createSecureContext(ca.length === 0 ? {} : { ca: [...tls.getCACertificates("default"), ...ca] })

  return Effect.fnUntraced(function* ({ addresses, port, certified }: Place, hold: Hold) {
    const tried: Array<Socket> = []
    const reaching = Arr.map(alternating(addresses), (address) =>
      reach(address, port, (socket) => {
        tried.push(socket)
        hold(socket)
      })
    )
    const dialled = yield* inTurn(reaching, patience)
    for (const socket of tried) if (socket !== dialled.socket) socket.destroy()
    if (certified === null) return dialled
    return { ...dialled, socket: yield* secure(dialled.socket, certified, secureContext, hold) }
  })
}

/**
 * Tries one after the other, the next when one has failed or taken too long.
 * The first to succeed wins, and the others are interrupted.
 */
export const inTurn = <A, E, R>(
  [first, ...others]: Arr.NonEmptyReadonlyArray<Effect.Effect<A, E, R>>,
  patience: Duration.Input
): Effect.Effect<A, E, R> =>
  Effect.suspend(() => {
    const [second, ...rest] = others
    if (second === undefined) return first
    const failed = Latch.makeUnsafe()
    return Effect.race(
      Effect.tapCause(first, () => failed.open),
      Effect.andThen(Effect.raceFirst(Effect.sleep(patience), failed.await), inTurn([second, ...rest], patience))
    )
  })

/**
 * IPv4 first, since it is IPv6 that is often there and does not work; then one
 * of each family by turns. Public only for its test.
 */
export const alternating = (addresses: Arr.NonEmptyReadonlyArray<string>): Arr.NonEmptyReadonlyArray<string> => {
  const [ipv4, ipv6] = [addresses.filter((address) => !isIPv6(address)), addresses.filter(isIPv6)]
  const byTurns = addresses.flatMap((_, index) => [...ipv4.slice(index, index + 1), ...ipv6.slice(index, index + 1)])
  const [first, ...others] = byTurns
  return first === undefined ? addresses : [first, ...others.slice(0, addressesMax - 1)]
}

const reach = (address: string, port: number, hold: Hold): Effect.Effect<Dialled, DialFailed> =>
  Effect.callback((resume) => {
    const socket = connect({ host: address, port, noDelay: true })
    hold(socket)
    // The listener stays for as long as the socket: without one, an error would end the process.
    socket.on("error", (cause) => resume(new DialFailed({ cause })))
    socket.once("connect", () => resume(Effect.succeed({ address, socket })))
  })

const secure = (
  plain: Socket,
  certified: string,
  secureContext: tls.SecureContext,
  hold: Hold
): Effect.Effect<Socket, DialFailed> =>
  Effect.callback((resume) => {
    const left = () => resume(new DialFailed({ cause: new Error("the connection was closed before it was encrypted") }))
    // What has ended by now tells of no error, and what is closed of nothing: they would be waited for until the deadline.
    if (plain.destroyed) return left()
    const socket = tls.connect({
      socket: plain,
      secureContext,
      // Said outright: an environment variable of Node's would turn it off.
      rejectUnauthorized: true,
      ALPNProtocols: ["http/1.1"],
      host: certified,
      // Server names are names (RFC 6066); an address is only compared with the certificate.
      ...(isIP(certified) === 0 ? { servername: certified } : {})
    })
    hold(socket)
    socket.on("error", (cause) => resume(new DialFailed({ cause })))
    socket.once("close", left)
    socket.once("secureConnect", () => resume(Effect.succeed(socket)))
  })
