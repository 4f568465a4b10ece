/** The DKIM keys that a process has opened, by domain: opening one for each message would cost more than the message. */
import { Effect } from "effect"
import type { DomainId } from "../model/Ids.ts"
import { sealContext, type MailDomain } from "../model/MailDomain.ts"
import type { SealedSecret } from "../model/SealedSecret.ts"
import type { Crypto, SealBroken } from "../ports/Crypto.ts"
import type { DkimKey } from "../ports/MailProvider.ts"
import { remember } from "../Remember.ts"

/** Domains whose keys are kept open: a few kB each. */
const keptMax = 1_000

/** The key that signs a domain's mail, the same object each time until it is rotated or sealed anew; null if it has none. */
export const signingKeys = (crypto: typeof Crypto.Service): ((domain: MailDomain) => Effect.Effect<DkimKey | null, SealBroken>) => {
  const keys = new Map<DomainId, { readonly sealed: SealedSecret; readonly key: DkimKey }>()
  return Effect.fnUntraced(function* ({ id, tenantId, domain, dkim }: MailDomain) {
    if (dkim === null) return null
    const { selector, privateKey: sealed } = dkim
    const known = keys.get(id)
    if (known?.sealed.tag === sealed.tag && known.sealed.ciphertext === sealed.ciphertext) return known.key
    const key: DkimKey = { domain, selector, privateKey: yield* crypto.open(sealed, sealContext({ id, tenantId })) }
    remember(keys, id, { sealed, key }, keptMax)
    return key
  })
}
