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
  /** How long a look-up may take; 2 seconds, unless said otherwise. */
  readonly timeout?: Duration.Input
}

export const layerWith = ({ servers, retryAfter = 1_000, timeout = "2 seconds" }: Options): Layer.Layer<Resolver> => {
  /** A resolver of its own for each look-up: cancelling concerns no other, and the host's configuration is read anew. */
  const asking = <A, E>(ask: (question: Question) => Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.suspend(() => {
      const resolver = new dns.Resolver({ timeout: retryAfter, maxTimeout: retryAfter, tries: 2 })
      if (servers !== undefined) resolver.setServers(servers)
      const question: Question = (put) =>
        Effect.tryPromise({ try: () => put(resolver), catch: failure }).pipe(
          Effect.timeoutOrElse({ duration: timeout, orElse: () => unavailable })
        )
      return Effect.ensuring(ask(question), Effect.sync(() => resolver.cancel()))
    })

  /** An answer without records is one that there are none. */
  const some = <A>(put: (resolver: dns.Resolver) => Promise<ReadonlyArray<A>>) =>
    asking((question) => Effect.filterOrElse(question(put), ({ length }) => length > 0, () => absentName))

  return Layer.succeed(Resolver, {
    addresses: Effect.fnUntraced(function* (host) {
      if (WebhookUrl.isLoopbackName(host)) return WebhookUrl.loopback
      const answers = yield* asking((question) =>
        Effect.all(
          [Effect.result(question((resolver) => resolver.resolve4(host))), Effect.result(question((resolver) => resolver.resolve6(host)))],
          { concurrency: "unbounded" }
        )
      )
      const addresses = answers.flatMap((answer) => (Result.isSuccess(answer) ? answer.success : []))
      if (addresses.length > 0) return addresses
      const failures = answers.flatMap((answer) => (Result.isFailure(answer) ? [answer.failure] : []))
      const [worst] = failures.toSorted((one, other) => Number(one.reason === "not_found") - Number(other.reason === "not_found"))
      return yield* worst ?? new ResolutionFailed({ reason: "not_found" })
    }),
    txt: (name) => Effect.map(some((resolver) => resolver.resolveTxt(name)), (records) => records.map((strings) => strings.join(""))),
    mx: (name) =>
      Effect.map(some((resolver) => resolver.resolveMx(name)), (records) =>
        records.map(({ priority, exchange }) => ({ preference: priority, exchange }))
      ),
    cname: (name) => Effect.map(some((resolver) => resolver.resolveCname(name)), ([target]) => target!) // there is one
  })
}

/** Puts one question, in time. */
type Question = <A>(put: (resolver: dns.Resolver) => Promise<A>) => Effect.Effect<A, ResolutionFailed>

export const layer: Layer.Layer<Resolver> = layerWith({})

const unavailable = Effect.fail(new ResolutionFailed({ reason: "unavailable" }))
const absentName = Effect.fail(new ResolutionFailed({ reason: "not_found" }))

/** The name, its records, or its very form do not exist; all else may pass. */
const absent: ReadonlySet<unknown> = new Set([dns.NOTFOUND, dns.NODATA, dns.BADNAME])

const failure = (cause: unknown): ResolutionFailed => {
  const code = cause instanceof Error && "code" in cause ? cause.code : undefined
  return new ResolutionFailed({ reason: absent.has(code) ? "not_found" : "unavailable", cause })
}
