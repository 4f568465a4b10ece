/**
 * API keys as an operator handles them: issued and shown once, rotated with an
 * overlap, revoked at once (Spec 5). `Management` is made of this and its
 * neighbours.
 */
import { Clock, Data, Effect, Option, Redacted } from "effect"
import * as ApiKeys from "../model/ApiKey.ts"
import type { ApiKey, Scope } from "../model/ApiKey.ts"
import type { Actor } from "../model/Audit.ts"
import type { ApiKeyId, ApplicationId, Environment, Millis, TenantId } from "../model/Ids.ts"
import type { Application, Tenant } from "../model/Tenant.ts"
import type { CryptoBusy } from "../ports/Crypto.ts"
import { StoreUnavailable } from "../ports/Store.ts"
import {
  InvalidInput,
  line,
  overlapOf,
  pageOf,
  requireVersion,
  timeMax,
  whole,
  type Administration,
  type Changed,
  type Guarded,
  type Page,
  type PageQuery,
  type Refused,
  type UnknownResource,
  type Written
} from "./Administration.ts"
import { changeRecord, dieOnRejection, orFound } from "./Commit.ts"

/** The key is over: there is nothing to rotate. */
export class KeyEnded extends Data.TaggedError("KeyEnded")<{ readonly id: ApiKeyId; readonly how: "revoked" | "expired" }> {
  override get message(): string {
    return `The API key ${this.id} is ${this.how} already. Issue a new one instead.`
  }
}

/** A key as it is shown to those who manage it: without the hash of its secret, and with what would become of a request now. */
export interface ManagedKey extends Omit<ApiKey, "secretHash"> {
  readonly state: "active" | "revoked" | "expired" | "application_suspended" | "tenant_suspended"
}

/** A key with its text, which is told here and never again. */
export interface IssuedKey {
  readonly apiKey: ManagedKey
  readonly text: Redacted.Redacted<string>
}

export interface KeyManagement {
  /** Of the tenant, or of one application; oldest first. */
  readonly listKeys: (
    tenantId: TenantId,
    query: PageQuery & { readonly applicationId?: ApplicationId }
  ) => Effect.Effect<Page<ManagedKey>, UnknownResource | InvalidInput | StoreUnavailable>
  readonly getKey: (tenantId: TenantId, id: ApiKeyId) => Effect.Effect<ManagedKey, UnknownResource | StoreUnavailable>
  /**
   * Issues a key; its text is returned here and never again (Spec 5). `text` restores a key that was issued before, for a
   * store that forgot it. A key of a suspended application or tenant is issued, and refused until that is in use again.
   */
  readonly issueKey: (
    actor: Actor,
    input: {
      readonly tenantId: TenantId
      readonly applicationId: ApplicationId
      readonly name: string
      readonly scopes: ReadonlyArray<Scope>
      readonly expiresAt?: Millis
      readonly text?: Redacted.Redacted<string>
    }
  ) => Effect.Effect<IssuedKey, Refused | CryptoBusy>
  /** Renames a key. Its scopes are fixed: issue another. */
  readonly updateKey: (
    actor: Actor,
    tenantId: TenantId,
    id: ApiKeyId,
    input: Guarded & { readonly name: string }
  ) => Changed<ManagedKey>
  /**
   * Issues a key of the same application, name and scopes, and lets the old one expire after the overlap (milliseconds, 90
   * days at most; 0: at once), or when it would have, if that is sooner. One commit: there is never none, and never a third.
   * Of a key that expires it must be said when the new one does (null: never). `KeyEnded` for one that is over already.
   */
  readonly rotateKey: (
    actor: Actor,
    tenantId: TenantId,
    id: ApiKeyId,
    input: { readonly overlap: Millis; readonly expiresAt?: Millis | null }
  ) => Effect.Effect<IssuedKey & { readonly replaced: ManagedKey }, Refused | KeyEnded | CryptoBusy>
  /** In force at the next request, in every process. */
  readonly revokeKey: (actor: Actor, tenantId: TenantId, id: ApiKeyId) => Written<ManagedKey>
}

export const makeKeyManagement = (administration: Administration): KeyManagement => {
  const { store, crypto, uuid, writeAct, insert, write, requireFound, tenant, application } = administration

  const apiKey = (tenantId: TenantId, id: ApiKeyId) => requireFound("API key", id, store.credentials.apiKey(tenantId, id))

  const managed = Effect.fnUntraced(function* (key: ApiKey) {
    const owner = yield* tenant(key.tenantId)
    return managedAt(key, yield* application(key.tenantId, key.applicationId), owner, yield* Clock.currentTimeMillis)
  })

  const expiry = Effect.fnUntraced(function* (expiresAt: Millis | null) {
    if (expiresAt === null) return null
    const now = yield* Clock.currentTimeMillis
    if (expiresAt <= now) return yield* new InvalidInput({ field: "expiresAt", fault: "lies in the past" })
    if (expiresAt > timeMax) return yield* new InvalidInput({ field: "expiresAt", fault: "lies behind 9999-12-31, the last day there is" })
    return yield* Effect.fromResult(whole("expiresAt", expiresAt, { minimum: 0, maximum: timeMax }))
  })

  const mint = Effect.fnUntraced(function* (environment: Environment) {
    return ApiKeys.format(
      environment,
      yield* crypto.randomBytes(ApiKeys.publicIdBytes),
      yield* crypto.randomBytes(ApiKeys.secretBytes)
    )
  })

  return {
    listKeys: Effect.fn("Management.listKeys")(function* (tenantId, query) {
      const owner = yield* tenant(tenantId)
      const { applicationId } = query
      if (applicationId !== undefined) yield* application(tenantId, applicationId)
      const applications = new Map((yield* store.credentials.applications(tenantId)).map((one) => [one.id, one]))
      const keys = (yield* store.credentials.apiKeys(tenantId)).filter(
        (key) => applicationId === undefined || key.applicationId === applicationId
      )
      const now = yield* Clock.currentTimeMillis
      const { items, hasMore } = yield* pageOf(keys, query, ({ id }) => id)
      // One that came with its key between the two reads is not known to be suspended.
      const shown = items.map((key) => managedAt(key, applications.get(key.applicationId) ?? null, owner, now))
      return { items: shown, hasMore }
    }),

    getKey: Effect.fn("Management.getKey")(function* (tenantId, id) {
      return yield* managed(yield* apiKey(tenantId, id))
    }),

    issueKey: Effect.fn("Management.issueKey")(function* (actor, input) {
      const owner = yield* application(input.tenantId, input.applicationId)
      const restored = input.text === undefined ? Option.none() : ApiKeys.parse(Redacted.value(input.text))
      if (input.text !== undefined && (Option.isNone(restored) || restored.value.environment !== owner.environment)) {
        return yield* new InvalidInput({ field: "text", fault: `is no API key of the environment ${owner.environment}` })
      }
      const name = yield* Effect.fromResult(line("name", input.name))
      const scopes = yield* known(input.scopes)
      const expiresAt = yield* expiry(input.expiresAt ?? null)
      const minted = yield* mint(owner.environment)
      const token = Option.getOrElse(restored, () => minted.token)
      const record: ApiKey = {
        id: yield* uuid<ApiKeyId>(),
        tenantId: owner.tenantId,
        applicationId: owner.id,
        environment: owner.environment,
        version: 1,
        publicId: token.publicId,
        secretHash: yield* crypto.hashSecret(token.secret),
        name,
        scopes,
        createdAt: yield* Clock.currentTimeMillis,
        expiresAt,
        revokedAt: null,
        lastUsedAt: null
      }
      const issued = { apiKey: yield* managed(record), text: input.text ?? minted.text }
      const changes = [{ _tag: "Insert", kind: "apiKey", record }] as const
      yield* orFound(insert(actor, owner.tenantId, "api_key.issue", record.id, changes), store.credentials.apiKey(record.tenantId, record.id))
      return issued
    }),

    updateKey: Effect.fn("Management.updateKey")(function* (actor, tenantId, id, input) {
      return yield* changeRecord(
        id,
        Effect.gen(function* () {
          const before = yield* apiKey(tenantId, id)
          yield* requireVersion("API key", before, input)
          const name = yield* Effect.fromResult(line("name", input.name))
          const record = { ...before, version: before.version + 1, name }
          if (name === before.name) return yield* managed(before)
          yield* writeAct(actor, tenantId, "api_key.update", id, [{ _tag: "Update", kind: "apiKey", record }])
          return yield* managed(record)
        })
      ).pipe(dieOnRejection)
    }),

    rotateKey: Effect.fn("Management.rotateKey")(function* (actor, tenantId, id, input) {
      const first = yield* apiKey(tenantId, id)
      const overlap = yield* Effect.fromResult(overlapOf(input))
      const minted = yield* mint(first.environment)
      const secretHash = yield* crypto.hashSecret(minted.token.secret)
      const newId = yield* uuid<ApiKeyId>()
      return yield* changeRecord(
        id,
        Effect.gen(function* () {
          const before = yield* apiKey(tenantId, id)
          const now = yield* Clock.currentTimeMillis
          if (before.revokedAt !== null) return yield* new KeyEnded({ id, how: "revoked" })
          if (before.expiresAt !== null && before.expiresAt <= now) return yield* new KeyEnded({ id, how: "expired" })
          if (before.expiresAt !== null && input.expiresAt === undefined) {
            return yield* new InvalidInput({ field: "expiresAt", fault: "is missing: the old key has one, so say when the new one expires, or never" })
          }
          const record: ApiKey = {
            ...before,
            id: newId,
            version: 1,
            publicId: minted.token.publicId,
            secretHash,
            createdAt: now,
            expiresAt: yield* expiry(input.expiresAt ?? null),
            lastUsedAt: null
          }
          const replaced = { ...before, version: before.version + 1, expiresAt: Math.min(before.expiresAt ?? Infinity, now + overlap) }
          const both = { apiKey: yield* managed(record), text: minted.text, replaced: yield* managed(replaced) }
          const acts = [
            { action: "api_key.rotate", id },
            { action: "api_key.issue", id: newId }
          ]
          const changes = [
            { _tag: "Insert", kind: "apiKey", record },
            { _tag: "Update", kind: "apiKey", record: replaced }
          ] as const
          yield* orFound(write(actor, tenantId, acts, changes), store.credentials.apiKey(tenantId, record.id))
          return both
        })
      ).pipe(dieOnRejection)
    }),

    revokeKey: Effect.fn("Management.revokeKey")(function* (actor, tenantId, id) {
      return yield* changeRecord(
        id,
        Effect.gen(function* () {
          const key = yield* apiKey(tenantId, id)
          if (key.revokedAt !== null) return yield* managed(key)
          const record = { ...key, version: key.version + 1, revokedAt: yield* Clock.currentTimeMillis }
          yield* writeAct(actor, tenantId, "api_key.revoke", id, [{ _tag: "Update", kind: "apiKey", record }])
          return yield* managed(record)
        })
      ).pipe(dieOnRejection)
    })
  }
}

/** Each once; all of them must be known. */
const known = (given: ReadonlyArray<Scope>): Effect.Effect<ReadonlyArray<Scope>, InvalidInput> => {
  const strange = given.find((scope) => !ApiKeys.scopes.includes(scope))
  return strange === undefined
    ? Effect.succeed([...new Set(given)])
    : Effect.fail(
        new InvalidInput({
          field: "scopes",
          fault: `holds ${JSON.stringify(strange.slice(0, 60))}, which is no scope; there are ${ApiKeys.scopes.join(", ")}`
        })
      )
}

const states = {
  environment: "revoked", // of no key that was issued here
  revoked: "revoked",
  expired: "expired",
  application: "application_suspended",
  tenant: "tenant_suspended"
} as const

const managedAt = (key: ApiKey, application: Application | null, tenant: Tenant, now: Millis): ManagedKey => {
  const { secretHash: _, ...shown } = key
  const owner = application ?? ({ environment: key.environment, status: "active" } as const)
  const reason = ApiKeys.refusal(key, owner, tenant, key, now) // shown with its own text: of its environment
  return { ...shown, state: reason === null ? "active" : states[reason] }
}
