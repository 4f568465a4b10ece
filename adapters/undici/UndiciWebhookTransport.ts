/**
 * Webhooks over undici's HTTP/1.1, and sockets that are opened here: the name
 * is looked up for each request, and a connection, new or kept, is used only
 * if it leads to one of the addresses of that very answer.
 */
import { Array as Arr, Effect, Exit, Layer } from "effect"
import type { Socket } from "node:net"
import { authority } from "../../core/model/Authority.ts"
import * as PublicAddress from "../../core/model/PublicAddress.ts"
import * as WebhookUrl from "../../core/model/WebhookUrl.ts"
import type { WebhookTarget } from "../../core/model/WebhookUrl.ts"
import { Resolver } from "../../core/ports/Resolver.ts"
import { WebhookTransport, WebhookUnanswered } from "../../core/ports/WebhookTransport.ts"
import { Connection, type Request } from "./Connection.ts"
import * as Dial from "./Dial.ts"
import { Origins, type Bounds } from "./Origins.ts"

export interface Options extends Partial<Bounds> {
  /** Certificates to trust besides those that Node trusts, in PEM. */
  readonly ca?: ReadonlyArray<string>
  /** Milliseconds after which a connection that nobody has used is closed; 4000, less than servers commonly wait. */
  readonly idleTimeout?: number
}

/**
 * 288 connections to one receiver, unless said otherwise: more than a worker has requests in flight (256, of deliveries that
 * are claimed and of those that are new), because waiting for a connection would be taken for the receiver's silence. And 512
 * that wait, twice what it has in flight: of many receivers each gets much at one moment and little at the next, and what is
 * closed between the two costs another handshake.
 */
export const layerWith = (options: Options): Layer.Layer<WebhookTransport, never, Resolver> =>
  Layer.effect(
    WebhookTransport,
    Effect.gen(function* () {
      const resolver = yield* Resolver
      checkOptions(options)
      const { connectionsPerHost = 288, idleConnectionsMax = 512 } = options
      const origins = yield* Effect.acquireRelease(
        Effect.sync(() => new Origins({ connectionsPerHost, idleConnectionsMax })),
        (origins) => Effect.sync(() => origins.close())
      )
      return make(resolver, origins, options)
    })
  )

export const layer: Layer.Layer<WebhookTransport, never, Resolver> = layerWith({})

/** A bound that is none would hold up all requests. */
const checkOptions = (options: Options): void => {
  for (const [name, least] of [["connectionsPerHost", 1], ["idleConnectionsMax", 0], ["idleTimeout", 1]] as const) {
    const value = options[name]
    if (value !== undefined && !(Number.isSafeInteger(value) && value >= least)) throw new TypeError(`${name} wants a whole number from ${least}`)
  }
}

/** Public only so that a test can see that nothing is left in `origins`. */
export const make = (
  resolver: Pick<Resolver["Service"], "addresses">,
  origins: Origins,
  { ca = [], idleTimeout = 4_000 }: Options
): WebhookTransport["Service"] => {
  const dial = Dial.make(ca)

  /** Where the host leads now. */
  const vetted = ({ host, isAddress, policy }: WebhookTarget) =>
    Effect.flatMap(
      isAddress ? Effect.succeed([host]) : Effect.mapError(resolver.addresses(host), unreachable),
      (addresses: ReadonlyArray<string>): Effect.Effect<Addresses, WebhookUnanswered> => {
        const unsafe = addresses.find((address) => !PublicAddress.isAllowed(address, policy.allowedBlocks))
        if (unsafe !== undefined) {
          return Effect.fail(new WebhookUnanswered({ reason: "unsafe_url", cause: new Error(`${host} leads to ${unsafe}`) }))
        }
        return Arr.isReadonlyArrayNonEmpty(addresses)
          ? Effect.succeed(addresses)
          : Effect.fail(unreachable(new Error(`${host} has no addresses`)))
      }
    )

  /** The connection waits for the next request once it has brought an answer, and is closed otherwise. */
  const over = (connection: Connection, origin: string, request: Request) =>
    Effect.onExit(connection.post(request), (exit) =>
      Effect.sync(() => (Exit.isSuccess(exit) ? origins.keep(origin, connection) : connection.destroy()))
    )

  /** Over a connection that is opened for it. All that was opened on the way is closed if there is no answer. */
  const overNew = (addresses: Addresses, target: WebhookTarget, origin: string, request: Request) =>
    Effect.suspend(() => {
      const held: Array<Socket> = []
      const place = { addresses, port: target.port, certified: target.isSecure ? target.host : null }
      return dial(place, (socket) => held.push(socket)).pipe(
        Effect.flatMap((dialled) => over(new Connection(dialled, { origin, idleTimeout }), origin, request)),
        Effect.mapError(({ cause }) => unreachable(cause)),
        Effect.onError(() =>
          Effect.sync(() => {
            for (const one of held) one.destroy()
          })
        )
      )
    })

  const exchange = (target: WebhookTarget, origin: string, request: Request) =>
    Effect.flatMap(vetted(target), (addresses) => {
      const kept = origins.take(origin, addresses)
      if (kept === undefined) return overNew(addresses, target, origin, request)
      return Effect.catch(over(kept, origin, request), ({ isSent, isHeard, cause }) => {
        if (!isSent) return overNew(addresses, target, origin, request)
        if (!isHeard) origins.leave(origin)
        return Effect.fail(new WebhookUnanswered({ reason: "network_error", cause, isStale: !isHeard }))
      })
    })

  const send = (target: WebhookTarget, request: Request) =>
    Effect.suspend(() => {
      const origin = originOf(target)
      return origins.within(origin, exchange(target, origin, request))
    })

  return WebhookTransport.of({
    post: ({ target, headers, body }) => send(target, { path: WebhookUrl.pathOf(target), headers, body }),
    get: ({ target, headers }) => send(target, { method: "GET", path: WebhookUrl.pathOf(target), headers, body: null })
  })
}

type Addresses = Arr.NonEmptyReadonlyArray<string>

const unreachable = (cause: unknown): WebhookUnanswered => new WebhookUnanswered({ reason: "network_error", cause })

const originOf = ({ isSecure, host, port }: WebhookTarget): string =>
  `${isSecure ? "https" : "http"}://${authority(host, port)}`
