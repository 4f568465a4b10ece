/**
 * Webhooks over undici's HTTP/1.1, and sockets that are opened here: the name
 * is looked up for each request, and a connection, new or kept, is used only
 * if it leads to one of the addresses of that very answer.
 */
import { Array as Arr, Effect, Layer, Result } from "effect"
import * as PublicAddress from "../../core/model/PublicAddress.ts"
import * as WebhookUrl from "../../core/model/WebhookUrl.ts"
import type { WebhookTarget } from "../../core/model/WebhookUrl.ts"
import { Resolver } from "../../core/ports/Resolver.ts"
import { WebhookTransport, WebhookUnanswered } from "../../core/ports/WebhookTransport.ts"
import { Connection, type Request } from "./Connection.ts"
import * as Dial from "./Dial.ts"
import { Lanes, type Bounds } from "./Lanes.ts"

export interface Options extends Partial<Bounds> {
  /** Certificates to trust besides those that Node trusts, in PEM. */
  readonly ca?: ReadonlyArray<string>
  /** Milliseconds after which a connection that nobody has used is closed; 4000, less than servers commonly wait. */
  readonly idleTimeout?: number
}

/**
 * 160 connections to one receiver and 256 that wait, unless said otherwise: more than a worker has places for
 * deliveries, because waiting for a connection would be taken for the receiver's silence.
 */
export const layerWith = (options: Options): Layer.Layer<WebhookTransport, never, Resolver> =>
  Layer.effect(
    WebhookTransport,
    Effect.gen(function* () {
      const resolver = yield* Resolver
      const lanes = yield* Effect.acquireRelease(
        Effect.sync(() => new Lanes({ connectionsPerHost: 160, idleConnectionsMax: 256, ...options })),
        (lanes) => Effect.sync(() => lanes.close())
      )
      return make(resolver, lanes, options)
    })
  )

export const layer: Layer.Layer<WebhookTransport, never, Resolver> = layerWith({})

/** Public only so that a test can see that its lanes are empty. */
export const make = (
  resolver: Pick<Resolver["Service"], "addresses">,
  lanes: Lanes,
  { ca = [], idleTimeout = 4_000 }: Options
): WebhookTransport["Service"] => {
  const dial = Dial.make(ca)

  /** Where the host leads now. */
  const vetted = Effect.fnUntraced(function* ({ host, isAddress, policy }: WebhookTarget) {
    const addresses = isAddress ? [host] : yield* Effect.mapError(resolver.addresses(host), unreachable)
    const unsafe = addresses.find((address) => !PublicAddress.isAllowed(address, policy.allowedBlocks))
    if (unsafe !== undefined) {
      return yield* new WebhookUnanswered({ reason: "unsafe_url", cause: new Error(`${host} leads to ${unsafe}`) })
    }
    return Arr.isReadonlyArrayNonEmpty(addresses) ? addresses : yield* unreachable(new Error(`${host} has no addresses`))
  })

  /**
   * All that is open for one request is in `held`, until a connection waits for
   * the next one. The rest is closed, however the request ends.
   */
  const exchange = (target: WebhookTarget, origin: string, request: Request) =>
    Effect.suspend(() => {
      const held = new Set<{ readonly destroy: () => unknown }>()

      const over = Effect.fnUntraced(function* (connection: Connection) {
        held.add(connection)
        const answer = yield* Effect.tapError(connection.post(request), () => Effect.sync(() => connection.destroy()))
        held.clear()
        lanes.keep(origin, connection)
        return answer
      })

      return Effect.gen(function* () {
        const addresses = yield* vetted(target)
        const kept = lanes.take(origin, addresses)
        if (kept !== undefined) {
          const ending = yield* Effect.result(over(kept))
          if (Result.isSuccess(ending)) return ending.success
          if (ending.failure.isSent) return yield* unreachable(ending.failure.cause)
        }
        const place = { addresses, port: target.port, certified: target.isSecure ? target.host : null }
        return yield* dial(place, (socket) => held.add(socket)).pipe(
          Effect.flatMap((dialled) => over(new Connection(dialled, { origin, idleTimeout }))),
          Effect.mapError(({ cause }) => unreachable(cause))
        )
      }).pipe(
        Effect.ensuring(
          Effect.sync(() => {
            for (const one of held) one.destroy()
          })
        )
      )
    })

  const send = Effect.fnUntraced(function* (target: WebhookTarget, request: Request) {
    const origin = originOf(target)
    return yield* lanes.within(origin, exchange(target, origin, request))
  })

  return WebhookTransport.of({
    post: ({ target, headers, body }) => send(target, { path: WebhookUrl.pathOf(target), headers, body }),
    get: ({ target, headers }) => send(target, { method: "GET", path: WebhookUrl.pathOf(target), headers, body: null })
  })
}

const unreachable = (cause: unknown): WebhookUnanswered => new WebhookUnanswered({ reason: "network_error", cause })

const originOf = ({ isSecure, host, port }: WebhookTarget): string =>
  `${isSecure ? "https" : "http"}://${host.includes(":") ? `[${host}]` : host}:${port}`
