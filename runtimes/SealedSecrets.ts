/**
 * Whether the ring opens what is stored. A few secrets are enough to see that a
 * key is not there, or that it is another's: some of those that are older than
 * its newest key, some that are older than all of its keys, and some at all.
 */
import { Effect } from "effect"
import * as Endpoints from "../core/model/Endpoint.ts"
import * as MailDomains from "../core/model/MailDomain.ts"
import { sealVersionLimit } from "../core/model/SealedSecret.ts"
import { Crypto } from "../core/ports/Crypto.ts"
import { Store, type StoreUnavailable } from "../core/ports/Store.ts"
import * as Config from "./Config.ts"

const triedMax = 20

type Ring = Pick<Config.Config, "sealingKeys">

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
  { sealingKeys }: Ring
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

/** What is wrong with a ring that does not open what keys of these versions sealed. */
export const fault = ({ sealingKeys }: Ring, unopened: ReadonlyArray<number>): string => {
  const ring = sealingKeys.map(({ version }) => version).toSorted((left, right) => left - right)
  return `the keys of version ${ring.join(", ")} do not open what version ${unopened.join(", ")} sealed`
}

export const advice = `Give ${Config.settings.sealingKeys.name} the keys back that were in use: without them no webhook can be signed, and no mail of the domains whose DKIM keys they sealed.`

/** Tells the log of a ring that does not open what is stored: else each job that waits for it would be the first to say so. */
export const report = Effect.fn("SealedSecrets.report")(
  function* (ring: Ring) {
    const { unopened } = yield* tried(yield* Store, yield* Crypto, ring)
    if (unopened.length > 0) yield* Effect.logError(`${fault(ring, unopened)}. ${advice}`)
  },
  Effect.catchTag("StoreUnavailable", () => Effect.void) // what needs the store says that it is away
)
