/**
 * SPF, DKIM, DMARC and ARC by npm mailauth, in threads: what it finds, in the
 * words of RFC 8601. It judges nothing.
 *
 * A message cannot make it work without end: it sees the first ten signatures
 * of a header of at most 256 KiB, asks a bounded number of names, and is given
 * up when the time is over. Nor can its sender, with many names or slow ones of
 * his own, keep the policy of the domain that it shows from being asked.
 */
import { Duration, Effect, Layer, Option, Stream } from "effect"
import { promises as dns } from "node:dns"
import type { Examined } from "../../core/model/Reception.ts"
import { MailAuthenticator } from "../../core/ports/MailAuthenticator.ts"
import * as Threads from "./Threads.ts"

export interface Options {
  /** What we call ourselves. */
  readonly hostname: string
  /** The host's own name servers, unless set. */
  readonly resolve?: Threads.Resolve
  /** For one message; 9 seconds unless set. */
  readonly timeout?: Duration.Input
}

export const layerWith = ({ hostname, resolve = byHost(), timeout = "9 seconds" }: Options): Layer.Layer<MailAuthenticator> =>
  Layer.effect(
    MailAuthenticator,
    Effect.map(Effect.andThen(mustBeInstalled, Threads.make()), (threads) => {
      // Where the sender's names and keys are as slow as can be, there is as much left for the policy.
      const asking = Duration.divideUnsafe(Duration.fromInputUnsafe(timeout), 3)
      return MailAuthenticator.of({
        authenticate: ({ peer, returnPath, bytes }) => {
          const opening: Threads.Opening = {
            mta: hostname,
            sender: returnPath ?? "",
            // A relay of ours stands between: its address says nothing of the sender.
            ip: peer.protocol === "LMTP" || peer.protocol === "LMTPS" ? "" : peer.remoteAddress,
            helo: peer.helo
          }
          const examined = Effect.gen(function* () {
            const examination = yield* threads.examine(opening, resolve, asking)
            yield* Stream.runForEach(bytes, examination.write)
            yield* examination.end
            return yield* examination.found
          })
          return Effect.scoped(examined).pipe(
            Effect.timeoutOption(timeout),
            Effect.map((found) => Option.getOrNull(found) ?? untold)
          )
        }
      })
    })
  )

/** Else each thread would die of it, and each message pass for one that the DNS tells nothing of. */
const mustBeInstalled = Effect.sync(() => import.meta.resolve("mailauth"))

const untold: Examined = { spf: "temperror", dkim: "temperror", dmarc: "temperror", arc: "temperror", dmarcPolicy: null, author: null }

/** A resolver of our own, so that no name waits longer than two seconds for an answer, twice. */
const byHost = (): Threads.Resolve => {
  const resolver = new dns.Resolver({ timeout: 2_000, maxTimeout: 2_000, tries: 2 })
  return async (name, type) => {
    const answer: unknown = await resolver.resolve(name, type)
    return Array.isArray(answer) ? answer : [answer]
  }
}
