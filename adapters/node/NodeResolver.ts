/**
 * DNS by c-ares, over sockets: a look-up that hangs takes no thread from the
 * pool that hashing and files share, as getaddrinfo would, and can be
 * cancelled. Names are asked for as they are, without the host's search list.
 *
 * The hosts file is not read: a receiver on this machine is `localhost` or an
 * address, and container networks answer DNS for the names that they give.
 * `localhost` and the names under it are this machine, unasked (RFC 6761).
 */
import { Effect, Layer, Result, type Duration } from "effect"
import { promises as dns } from "node:dns"
import * as WebhookUrl from "../../core/model/WebhookUrl.ts"
import { ResolutionFailed, Resolver } from "../../core/ports/Resolver.ts"

export interface Options {
  /** `192.0.2.53`, or with a port `192.0.2.53:5353`; the host's own, unless said otherwise. */
  readonly servers?: ReadonlyArray<string>
  /** Milliseconds until a server is asked again, or the next one; 1 second, unless said otherwise. */
  readonly retryAfter?: number
  /** How long both families together may take; 2 seconds, unless said otherwise. */
  readonly timeout?: Duration.Input
}

export const layerWith = ({ servers, retryAfter = 1_000, timeout = "2 seconds" }: Options): Layer.Layer<Resolver> =>
  Layer.succeed(Resolver, {
    addresses: Effect.fnUntraced(function* (host) {
      if (WebhookUrl.isLoopbackName(host)) return WebhookUrl.loopback
      // One of its own for each look-up: cancelling concerns no other, and the host's configuration is read anew.
      const resolver = new dns.Resolver({ timeout: retryAfter, maxTimeout: retryAfter, tries: 2 })
      if (servers !== undefined) resolver.setServers(servers)
      const ask = (question: () => Promise<Array<string>>) =>
        Effect.tryPromise({ try: question, catch: failure }).pipe(
          Effect.timeoutOrElse({ duration: timeout, orElse: () => unavailable }),
          Effect.result
        )
      const answers = yield* Effect.all([ask(() => resolver.resolve4(host)), ask(() => resolver.resolve6(host))], {
        concurrency: "unbounded"
      }).pipe(Effect.ensuring(Effect.sync(() => resolver.cancel())))
      const addresses = answers.flatMap((answer) => (Result.isSuccess(answer) ? answer.success : []))
      if (addresses.length > 0) return addresses
      const failures = answers.flatMap((answer) => (Result.isFailure(answer) ? [answer.failure] : []))
      const [worst] = failures.toSorted((one, other) => Number(one.reason === "not_found") - Number(other.reason === "not_found"))
      return yield* worst ?? new ResolutionFailed({ reason: "not_found" })
    })
  })

export const layer: Layer.Layer<Resolver> = layerWith({})

const unavailable = Effect.fail(new ResolutionFailed({ reason: "unavailable" }))

/** The name, its addresses, or its very form do not exist; all else may pass. */
const absent: ReadonlySet<unknown> = new Set([dns.NOTFOUND, dns.NODATA, dns.BADNAME])

const failure = (cause: unknown): ResolutionFailed => {
  const code = cause instanceof Error && "code" in cause ? cause.code : undefined
  return new ResolutionFailed({ reason: absent.has(code) ? "not_found" : "unavailable", cause })
}
