/**
 * Whether the ring opens what is stored. A few secrets are enough to see that a
 * key is not there, or that it is another's: some of those that are older than
 * its newest key, some that are older than all of its keys, and some at all.
 */
import { Effect } from "effect"
import * as Endpoints from "../core/model/Endpoint.ts"
import * as MailDomains from "../core/model/MailDomain.ts"
import { sealVersionLimit } from "../core/model/SealedSecret.ts"
import type { Crypto } from "../core/ports/Crypto.ts"
import type { Store, StoreUnavailable } from "../core/ports/Store.ts"
import type { Config } from "./Config.ts"

const triedMax = 20

export interface Tried {
  /** Versions of those that were tried, one for each. */
  readonly versions: ReadonlyArray<number>
  /** Versions of which one was not opened, rising. */
  readonly unopened: ReadonlyArray<number>
}

/** Tries the ring, which has a key. */
export const tried = Effect.fnUntraced(function* (
  { domains, endpoints }: Pick<typeof Store.Service, "domains" | "endpoints">,
  crypto: typeof Crypto.Service,
  { sealingKeys }: Pick<Config, "sealingKeys">
): Effect.fn.Return<Tried, StoreUnavailable> {
  const ring = sealingKeys.map(({ version }) => version)
  const page = { after: null, limit: triedMax }
  const secretsBelow = Effect.fnUntraced(function* (version: number) {
    const signing = (yield* endpoints.sealedBelow(version, page)).flatMap((one) =>
      Endpoints.secretsOf(one).map((secret) => ({ ...secret, context: Endpoints.sealContext(one) }))
    )
    const ofDomains = (yield* domains.sealedBelow(version, page)).flatMap((one) =>
      MailDomains.secretsOf(one).map((secret) => ({ ...secret, context: MailDomains.sealContext(one) }))
    )
    return [...signing, ...ofDomains]
  })
  const secrets = (yield* Effect.forEach([Math.max(...ring), Math.min(...ring), sealVersionLimit], secretsBelow)).flat()
  const closed = yield* Effect.filter(secrets, (secret) => Effect.isFailure(crypto.open(secret, secret.context)))
  return {
    versions: secrets.map(({ version }) => version),
    unopened: [...new Set(closed.map(({ version }) => version))].toSorted((left, right) => left - right)
  }
})
