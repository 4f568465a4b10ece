/**
 * Sealing the secrets of webhook endpoints anew, so that an old key of the ring
 * can go. First give every process the ring with the new key beside the old
 * ones; then reseal, until nothing is left; then take the old key away. (The
 * ring's oldest key also signs the addresses at which bounces come back: keep
 * it for as long as bounces of mail that is out may come.)
 *
 * Workers may run meanwhile, for each secret stays what it is: an endpoint that
 * one of them changes at that moment is read again. Safe to stop and to repeat.
 */
import { Clock, Context, Effect, Layer, Redacted } from "effect"
import { entryOf, type Actor } from "../model/Audit.ts"
import * as Endpoints from "../model/Endpoint.ts"
import type { Endpoint } from "../model/Endpoint.ts"
import type { EndpointId, Realm } from "../model/Ids.ts"
import { Crypto } from "../ports/Crypto.ts"
import { JobQueue } from "../ports/JobQueue.ts"
import { Store, type Change, type StoreUnavailable } from "../ports/Store.ts"
import { line, type InvalidInput } from "./Administration.ts"
import { changing, commit, dieOnRejection } from "./Commit.ts"

/** Endpoints whose secret could not be opened, by the key that sealed it: it is not in the ring, or the envelope was altered. */
export interface Unopened {
  readonly sealVersion: number
  readonly count: number
  /** One of them. */
  readonly endpointId: EndpointId
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
    /** Walks the endpoints of all tenants whose secret an older key has sealed. Each is one commit, audited under its tenant. */
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

      const resealOne = (actor: Actor, of: Endpoint, version: number) =>
        changing(
          of.id,
          Effect.gen(function* () {
            const realm: Realm = { tenantId: of.tenantId, environment: of.environment }
            const before = yield* store.endpoints.get(realm, of.id)
            if (before === null || before.secret.version >= version) return false
            const context = Endpoints.sealContext(before)
            const secret = yield* crypto.seal(yield* crypto.open(before.secret, context), context)
            const entry = entryOf({
              ...realm,
              id: yield* crypto.uuid,
              at: yield* Clock.currentTimeMillis,
              actor,
              action: "webhook_endpoint.reseal"
            }, of.id)
            const changes: ReadonlyArray<Change> = [
              { _tag: "Update", kind: "endpoint", record: { ...before, version: before.version + 1, secret } },
              { _tag: "AppendAudit", entry }
            ]
            yield* commit(store, queue, changes, [])
            return true
          })
        ).pipe(dieOnRejection)

      return Resealing.of({
        reseal: Effect.fn("Resealing.reseal")(function* (actor) {
          yield* Effect.fromResult(line("actor", actor.id))
          const version = yield* newestVersion
          const unopened = new Map<number, Unopened>()
          let resealed = 0
          let after: EndpointId | null = null
          for (;;) {
            const page: ReadonlyArray<Endpoint> = yield* store.endpoints.sealedBelow(version, { after, limit: pageSize })
            for (const endpoint of page) {
              const isDone = yield* resealOne(actor, endpoint, version).pipe(Effect.catchTag("SealBroken", () => Effect.succeed(null)))
              if (isDone === true) resealed += 1
              if (isDone === null) {
                const { version: sealVersion } = endpoint.secret
                const { count } = unopened.get(sealVersion) ?? { count: 0 }
                unopened.set(sealVersion, { sealVersion, count: count + 1, endpointId: endpoint.id })
              }
            }
            if (page.length < pageSize) break
            after = page.at(-1)!.id
          }
          return { version, resealed, unopened: [...unopened.values()].sort((left, right) => left.sealVersion - right.sealVersion) }
        })
      })
    })
  )
}
