/**
 * Sealing the secrets of webhook endpoints and the DKIM keys of domains anew,
 * so that an old key of the ring can go. First give every process the ring with
 * the new key beside the old ones; then reseal, until nothing is left; then
 * take the old key away. (The ring's oldest key also signs the addresses at
 * which bounces come back, and the cursors of events: keep it for as long as
 * bounces of mail that is out may come. A consumer whose cursor it signed
 * begins anew.)
 *
 * Workers may run meanwhile, for each secret stays what it is: a record that
 * one of them changes at that moment is read again. Safe to stop and to repeat.
 */
import { Clock, Context, Effect, Layer, Redacted } from "effect"
import { entryOf, type Actor } from "../model/Audit.ts"
import * as Endpoints from "../model/Endpoint.ts"
import type { Endpoint } from "../model/Endpoint.ts"
import type { DomainId, EndpointId, Environment, TenantId } from "../model/Ids.ts"
import * as MailDomains from "../model/MailDomain.ts"
import type { SealedDkimKey, MailDomain } from "../model/MailDomain.ts"
import { sealVersionLimit, type SealedSecret } from "../model/SealedSecret.ts"
import { Crypto, type SealBroken } from "../ports/Crypto.ts"
import { JobQueue } from "../ports/JobQueue.ts"
import { Store, type Change, type StoreUnavailable } from "../ports/Store.ts"
import { line, type InvalidInput } from "./Administration.ts"
import { changeRecord, commit } from "./Commit.ts"

/** Secrets that could not be opened, by the key that sealed them: it is not in the ring, or the secret was altered. */
export interface Unopened {
  readonly sealVersion: number
  readonly count: number
  /** Whose one of them is. */
  readonly what: "endpoint" | "domain"
  readonly id: EndpointId | DomainId
}

export interface Resealed {
  /** The newest key of the ring, with which all but the unopened are sealed now. */
  readonly version: number
  readonly resealed: number
  readonly unopened: ReadonlyArray<Unopened>
}

const pageSize = 200

export class Resealing extends Context.Service<
  Resealing,
  {
    /**
     * Walks what all tenants have sealed. What an older key sealed is sealed anew, each record in one commit, audited under
     * its tenant; of the others it looks whether the ring opens them.
     */
    readonly reseal: (actor: Actor) => Effect.Effect<Resealed, InvalidInput | StoreUnavailable>
  }
>()("mailroom/core/operations/Resealing") {
  static readonly layer = Layer.effect(
    Resealing,
    Effect.gen(function* () {
      const store = yield* Store
      const queue = yield* JobQueue
      const crypto = yield* Crypto

      /** What is sealed now says which key of the ring is the newest. */
      const newestVersion = Effect.map(crypto.seal(Redacted.make(""), "newest"), ({ version }) => version)

      const sealedAnew = (sealed: SealedSecret, context: string) =>
        Effect.flatMap(crypto.open(sealed, context), (secret) => crypto.seal(secret, context))

      /** Commits a record with its secrets sealed anew, if there is still one to seal. */
      const resealOne = <E>(
        actor: Actor,
        { tenantId, environment, id, action }: { readonly tenantId: TenantId; readonly environment: Environment | null; readonly id: string; readonly action: string },
        read: Effect.Effect<Change | null, E>
      ) =>
        changeRecord(
          id,
          Effect.gen(function* () {
            const written = yield* read
            if (written === null) return false
            const at = yield* Clock.currentTimeMillis
            const entry = entryOf({ id: yield* crypto.uuid, tenantId, environment, at, actor, action }, id)
            yield* commit(store, queue, [written, { _tag: "AppendAudit", entry }], [])
            return true
          })
        )

      /** Nothing was sealed anew. */
      const opened = (secrets: ReadonlyArray<SealedSecret>, context: string) =>
        Effect.as(Effect.forEach(secrets, (sealed) => crypto.open(sealed, context), { discard: true }), false)

      const resealEndpoint = (actor: Actor, of: Endpoint, version: number) => {
        if (Endpoints.sealVersion(of) >= version) return opened(Endpoints.secretsOf(of), Endpoints.sealContext(of))
        return resealOne(
          actor,
          { ...of, action: "webhook_endpoint.reseal" },
          Effect.gen(function* () {
            const before = yield* store.endpoints.get(of, of.id)
            if (before === null || Endpoints.sealVersion(before) >= version) return null
            const context = Endpoints.sealContext(before)
            const secret = yield* sealedAnew(before.secret, context)
            const next = before.nextSecret
            const nextSecret = next === null ? null : { ...next, secret: yield* sealedAnew(next.secret, context) }
            return { _tag: "Update", kind: "endpoint", record: { ...before, version: before.version + 1, secret, nextSecret } } as const
          })
        )
      }

      const resealDomain = (actor: Actor, of: MailDomain, version: number) => {
        if ((MailDomains.sealVersion(of) ?? version) >= version) {
          return opened(MailDomains.secretsOf(of), MailDomains.sealContext(of))
        }
        return resealOne(
          actor,
          { ...of, environment: null, action: "domain.reseal" },
          Effect.gen(function* () {
            const before = yield* store.domains.get(of.tenantId, of.id)
            if (before === null || (MailDomains.sealVersion(before) ?? version) >= version) return null
            const anew = (key: SealedDkimKey | null) =>
              key === null
                ? Effect.succeed(null)
                : Effect.map(sealedAnew(key.privateKey, MailDomains.sealContext(before)), (privateKey) => ({ ...key, privateKey }))
            const [dkim, nextDkim] = [yield* anew(before.dkim), yield* anew(before.nextDkim)]
            return { _tag: "Update", kind: "domain", record: { ...before, version: before.version + 1, dkim, nextDkim } } as const
          })
        )
      }

      /** Page by page, until there is none behind. */
      const walk = Effect.fnUntraced(function* <A extends { readonly id: string }, E>(
        pageBehind: (after: A["id"] | null) => Effect.Effect<ReadonlyArray<A>, StoreUnavailable>,
        each: (one: A) => Effect.Effect<void, E>
      ) {
        let after: A["id"] | null = null
        for (;;) {
          const page: ReadonlyArray<A> = yield* pageBehind(after)
          yield* Effect.forEach(page, each, { discard: true })
          if (page.length < pageSize) return
          after = page.at(-1)!.id
        }
      })

      return Resealing.of({
        reseal: Effect.fn("Resealing.reseal")(function* (actor) {
          yield* Effect.fromResult(line("actor", actor.id))
          const version = yield* newestVersion
          const unopened = new Map<number, Unopened>()
          let resealed = 0
          const counted = <E>(
            what: Unopened["what"],
            id: Unopened["id"],
            sealVersion: number,
            reseal: Effect.Effect<boolean, E | SealBroken>
          ) =>
            Effect.map(Effect.catchTag(reseal, "SealBroken", () => Effect.succeed(null)), (isDone) => {
              if (isDone === true) resealed += 1
              if (isDone !== null) return
              const { count, ...first } = unopened.get(sealVersion) ?? { sealVersion, count: 0, what, id }
              unopened.set(sealVersion, { ...first, count: count + 1 })
            })
          yield* walk(
            (after: EndpointId | null) => store.endpoints.sealedBelow(sealVersionLimit, { after, limit: pageSize }),
            (one: Endpoint) => counted("endpoint", one.id, Endpoints.sealVersion(one), resealEndpoint(actor, one, version))
          )
          yield* walk(
            (after: DomainId | null) => store.domains.sealedBelow(sealVersionLimit, { after, limit: pageSize }),
            (one: MailDomain) => counted("domain", one.id, MailDomains.sealVersion(one) ?? 0, resealDomain(actor, one, version))
          )
          return { version, resealed, unopened: [...unopened.values()].sort((left, right) => left.sealVersion - right.sealVersion) }
        })
      })
    })
  )
}
