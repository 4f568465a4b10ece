/**
 * What the surrounding product does for a tenant (Spec 1, point 2): create it,
 * its applications, keys, domains and mailboxes, and take each out of use.
 * Never reachable with an API key. Every write of a tenant's state is audited.
 */
import { Clock, Context, Data, Effect, Layer, Option, Redacted, Result } from "effect"
import type { Address, DomainName } from "../model/Address.ts"
import { domainOf } from "../model/Address.ts"
import * as ApiKeys from "../model/ApiKey.ts"
import type { ApiKey, Scope } from "../model/ApiKey.ts"
import { entryOf, type Actor } from "../model/Audit.ts"
import { fit, type Data as EventData, type Event } from "../model/Event.ts"
import type {
  ApiKeyId,
  ApplicationId,
  DomainId,
  Environment,
  EventId,
  MailboxId,
  Millis,
  TenantId
} from "../model/Ids.ts"
import type { Plan } from "../model/Limits.ts"
import type { Mailbox } from "../model/Mailbox.ts"
import * as MailDomains from "../model/MailDomain.ts"
import type { MailDomain } from "../model/MailDomain.ts"
import type { Application, Tenant } from "../model/Tenant.ts"
import { Crypto, type CryptoBusy } from "../ports/Crypto.ts"
import { JobQueue } from "../ports/JobQueue.ts"
import { CommitRejected, Store, type Change, type Rejection, type StoreUnavailable } from "../ports/Store.ts"
import { commit, dieOnRejection, retryOnVersionMoved } from "./Commit.ts"

/** What the write is about does not exist in this tenant. */
export class UnknownResource extends Data.TaggedError("UnknownResource")<{ readonly what: string; readonly id: string }> {
  override get message(): string {
    return `There is no ${this.what} ${this.id} in this tenant.`
  }
}

/** The name is taken: an address, a domain or an id that must be unique. */
export class NameTaken extends Data.TaggedError("NameTaken")<{ readonly what: string; readonly field: string }> {
  override get message(): string {
    return `A ${this.what} with this ${this.field} exists already.`
  }
}

type Written<A> = Effect.Effect<A, UnknownResource | NameTaken | StoreUnavailable>

export class Management extends Context.Service<
  Management,
  {
    /** Writes a plan over the one of its id; it is in force at each tenant's next request. */
    readonly putPlan: (plan: Plan) => Effect.Effect<void, StoreUnavailable>
    /** `id` restores a tenant that a store forgot. An id that is in use is `NameTaken`. */
    readonly createTenant: (
      actor: Actor,
      input: { readonly id?: TenantId; readonly name: string; readonly planId: string }
    ) => Written<Tenant>
    /** An application of one environment; `UnknownResource` if there is no such tenant. */
    readonly createApplication: (
      actor: Actor,
      input: { readonly id?: ApplicationId; readonly tenantId: TenantId; readonly environment: Environment; readonly name: string }
    ) => Written<Application>
    /**
     * Issues a key; its text is returned here and never again (Spec 5). `text`
     * restores a key that was issued before, for a store that forgot it.
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
    ) => Effect.Effect<{ readonly apiKey: ApiKey; readonly text: Redacted.Redacted<string> }, UnknownResource | NameTaken | CryptoBusy | StoreUnavailable>
    /** In force at the next request. */
    readonly revokeKey: (actor: Actor, tenantId: TenantId, id: ApiKeyId) => Written<ApiKey>
    /** Suspends an application, and with it all its keys at once; or takes it into use again. */
    readonly setApplicationStatus: (
      actor: Actor,
      tenantId: TenantId,
      id: ApplicationId,
      status: Application["status"]
    ) => Written<Application>
    /** A domain nobody has claimed. It stays `pending` until its records are checked. */
    readonly createDomain: (
      actor: Actor,
      input: { readonly id?: DomainId; readonly tenantId: TenantId; readonly domain: DomainName }
    ) => Written<MailDomain>
    /** Takes in a round of DNS checks; the health follows from them (`MailDomain.assess`). */
    readonly recordChecks: (
      tenantId: TenantId,
      id: DomainId,
      checks: ReadonlyArray<MailDomains.RecordCheck>
    ) => Written<MailDomain>
    /** Suspends a domain by an operator's decision, which no check lifts; or lets the next check decide again. */
    readonly setDomainSuspended: (actor: Actor, tenantId: TenantId, id: DomainId, suspended: boolean) => Written<MailDomain>
    /** A mailbox at a domain of the tenant. */
    readonly createMailbox: (
      actor: Actor,
      input: { readonly id?: MailboxId; readonly tenantId: TenantId; readonly address: Address; readonly displayName: string }
    ) => Written<Mailbox>
    /** Renames a mailbox, suspends it or takes it into use again, and says so in an event. */
    readonly updateMailbox: (
      actor: Actor,
      tenantId: TenantId,
      id: MailboxId,
      input: { readonly displayName?: string; readonly status?: Mailbox["status"]; readonly reason?: string }
    ) => Written<Mailbox>
  }
>()("mailroom/core/operations/Management") {
  static readonly layer = Layer.effect(
    Management,
    Effect.gen(function* () {
      const store = yield* Store
      const queue = yield* JobQueue
      const crypto = yield* Crypto

      const uuid = <Id extends string>() => Effect.map(crypto.uuid, (id) => id as Id) // a UUID is any of them

      const audited = Effect.fnUntraced(function* (
        actor: Actor,
        tenantId: TenantId,
        action: string,
        id: string,
        changes: ReadonlyArray<Change>
      ) {
        const entry = entryOf({
          id: yield* crypto.uuid,
          tenantId,
          environment: null,
          at: yield* Clock.currentTimeMillis,
          actor,
          action
        }, id)
        yield* commit(store, queue, [...changes, { _tag: "AppendAudit", entry }], []).pipe(
          Effect.catchIf(
            (error) => rejection(error)?._tag === "Duplicate",
            (error) => {
              const reason = rejection(error)
              return new NameTaken(reason?._tag === "Duplicate" ? { what: reason.kind, field: reason.field } : { what: "", field: "" })
            }
          )
        )
      })

      const changing = <A, E>(self: Effect.Effect<A, E | CommitRejected>) => retryOnVersionMoved(self).pipe(dieOnRejection)

      const required = <A>(what: string, id: string, found: Effect.Effect<A | null, StoreUnavailable>) =>
        Effect.flatMap(found, (record) =>
          record === null ? Effect.fail(new UnknownResource({ what, id })) : Effect.succeed(record)
        )

      const mailboxEvent = Effect.fnUntraced(function* (
        mailbox: Mailbox,
        type: "mailbox.created" | "mailbox.updated" | "mailbox.suspended",
        reason: string | null
      ) {
        const { address, displayName, status } = mailbox
        const data: EventData<typeof type> = {
          object: "mailbox",
          id: mailbox.id,
          sequence: mailbox.eventSequence,
          address,
          displayName,
          status,
          reason
        }
        return yield* tenantEvent(mailbox.tenantId, type, "mailbox", mailbox.id, data)
      })

      const tenantEvent = Effect.fnUntraced(function* (
        tenantId: TenantId,
        type: Event["type"],
        resourceType: Event["resourceType"],
        resourceId: string,
        data: Event["data"]
      ) {
        const event: Event = {
          id: yield* uuid<EventId>(),
          tenantId,
          environment: null,
          audience: null,
          type,
          resourceType,
          resourceId,
          data: fit({ ...data }) as unknown as Event["data"], // the same members, shorter texts
          occurredAt: yield* Clock.currentTimeMillis
        }
        return { _tag: "AppendEvent" as const, event }
      })

      /** Moves a domain's health, if the input moves it, and says so in an event. */
      const moveDomain = Effect.fnUntraced(function* (
        actor: Actor,
        action: string,
        before: MailDomain,
        domain: MailDomain,
        input: MailDomains.Input | null
      ) {
        const decision = input === null ? null : Option.getOrNull(Result.getSuccess(MailDomains.decide(domain, input)))
        if (decision === null || decision.to === decision.from) {
          const kept = { ...domain, version: before.version + 1 }
          yield* audited(actor, domain.tenantId, action, domain.id, [{ _tag: "Update", kind: "domain", record: kept }])
          return kept
        }
        const moved = { ...MailDomains.apply(domain, decision), eventSequence: domain.eventSequence + 1 }
        const event = yield* tenantEvent(domain.tenantId, "domain.health_changed", "domain", domain.id, {
          object: "domain",
          id: domain.id,
          sequence: moved.eventSequence,
          domain: domain.domain,
          verified: MailDomains.isVerified(moved.health),
          health: moved.health,
          previousHealth: before.health,
          reasons: domain.checks
            .filter(({ state }) => state !== "ok")
            .map(({ record, state, expected, observed }) => ({ record, state, expected, observed }))
        })
        yield* audited(actor, domain.tenantId, action, domain.id, [{ _tag: "Update", kind: "domain", record: moved }, event])
        return moved
      })

      return Management.of({
        putPlan: (plan) => Effect.asVoid(commit(store, queue, [{ _tag: "PutPlan", plan }], [])).pipe(dieOnRejection),

        createTenant: Effect.fn("Management.createTenant")(function* (actor, { id, name, planId }) {
          const record: Tenant = {
            id: id ?? (yield* uuid<TenantId>()),
            version: 1,
            name,
            planId,
            status: "active",
            createdAt: yield* Clock.currentTimeMillis
          }
          yield* audited(actor, record.id, "tenant.create", record.id, [{ _tag: "Insert", kind: "tenant", record }]).pipe(
            dieOnRejection
          )
          return record
        }),

        createApplication: Effect.fn("Management.createApplication")(function* (actor, input) {
          yield* required("tenant", input.tenantId, store.credentials.tenant(input.tenantId))
          const record: Application = {
            id: input.id ?? (yield* uuid<ApplicationId>()),
            tenantId: input.tenantId,
            version: 1,
            environment: input.environment,
            name: input.name,
            status: "active",
            createdAt: yield* Clock.currentTimeMillis
          }
          yield* audited(actor, record.tenantId, "application.create", record.id, [
            { _tag: "Insert", kind: "application", record }
          ]).pipe(dieOnRejection)
          return record
        }),

        issueKey: Effect.fn("Management.issueKey")(function* (actor, input) {
          const application = yield* required(
            "application",
            input.applicationId,
            store.credentials.application(input.tenantId, input.applicationId)
          )
          const restored = input.text === undefined ? Option.none() : ApiKeys.parse(Redacted.value(input.text))
          if (input.text !== undefined && (Option.isNone(restored) || restored.value.environment !== application.environment)) {
            return yield* new UnknownResource({ what: "key text for application", id: application.id })
          }
          const minted = ApiKeys.format(
            application.environment,
            yield* crypto.randomBytes(ApiKeys.publicIdBytes),
            yield* crypto.randomBytes(ApiKeys.secretBytes)
          )
          const token = Option.getOrElse(restored, () => minted.token)
          const apiKey: ApiKey = {
            id: yield* uuid<ApiKeyId>(),
            tenantId: application.tenantId,
            applicationId: application.id,
            environment: application.environment,
            version: 1,
            publicId: token.publicId,
            secretHash: yield* crypto.hashSecret(token.secret),
            name: input.name,
            scopes: input.scopes,
            createdAt: yield* Clock.currentTimeMillis,
            expiresAt: input.expiresAt ?? null,
            revokedAt: null,
            lastUsedAt: null
          }
          yield* audited(actor, application.tenantId, "api_key.issue", apiKey.id, [
            { _tag: "Insert", kind: "apiKey", record: apiKey }
          ]).pipe(dieOnRejection)
          return { apiKey, text: input.text ?? minted.text }
        }),

        revokeKey: Effect.fn("Management.revokeKey")(function* (actor, tenantId, id) {
          return yield* changing(
            Effect.gen(function* () {
              const key = yield* required("API key", id, store.credentials.apiKey(tenantId, id))
              if (key.revokedAt !== null) return key
              const record = { ...key, version: key.version + 1, revokedAt: yield* Clock.currentTimeMillis }
              yield* audited(actor, tenantId, "api_key.revoke", id, [{ _tag: "Update", kind: "apiKey", record }])
              return record
            })
          )
        }),

        setApplicationStatus: Effect.fn("Management.setApplicationStatus")(function* (actor, tenantId, id, status) {
          return yield* changing(
            Effect.gen(function* () {
              const application = yield* required("application", id, store.credentials.application(tenantId, id))
              if (application.status === status) return application
              const record = { ...application, version: application.version + 1, status }
              const action = status === "active" ? "application.reinstate" : "application.suspend"
              yield* audited(actor, tenantId, action, id, [{ _tag: "Update", kind: "application", record }])
              return record
            })
          )
        }),

        createDomain: Effect.fn("Management.createDomain")(function* (actor, { id, tenantId, domain }) {
          yield* required("tenant", tenantId, store.credentials.tenant(tenantId))
          const record: MailDomain = {
            id: id ?? (yield* uuid<DomainId>()),
            tenantId,
            version: 1,
            eventSequence: 0,
            domain,
            health: "pending",
            checks: [],
            createdAt: yield* Clock.currentTimeMillis
          }
          yield* audited(actor, tenantId, "domain.create", record.id, [{ _tag: "Insert", kind: "domain", record }]).pipe(
            dieOnRejection
          )
          return record
        }),

        recordChecks: Effect.fn("Management.recordChecks")(function* (tenantId, id, checks) {
          return yield* changing(
            Effect.gen(function* () {
              const before = yield* required("domain", id, store.domains.get(tenantId, id))
              const input = MailDomains.assess(before, checks, yield* Clock.currentTimeMillis)
              const actor: Actor = { type: "system", id: "domain-checker" }
              return yield* moveDomain(actor, "domain.check", before, { ...before, checks }, input)
            })
          )
        }),

        setDomainSuspended: Effect.fn("Management.setDomainSuspended")(function* (actor, tenantId, id, suspended) {
          return yield* changing(
            Effect.gen(function* () {
              const domain = yield* required("domain", id, store.domains.get(tenantId, id))
              if ((domain.health === "suspended") === suspended) return domain
              const [input, action] = suspended
                ? (["Suspended", "domain.suspend"] as const)
                : (["Reinstated", "domain.reinstate"] as const)
              return yield* moveDomain(actor, action, domain, domain, input)
            })
          )
        }),

        createMailbox: Effect.fn("Management.createMailbox")(function* (actor, input) {
          const domains = yield* store.domains.list(input.tenantId)
          const owner = domains.find(({ domain }) => domain.domain === domainOf(input.address))
          if (owner === undefined) return yield* new UnknownResource({ what: "domain", id: domainOf(input.address) })
          const record: Mailbox = {
            id: input.id ?? (yield* uuid<MailboxId>()),
            tenantId: input.tenantId,
            version: 1,
            eventSequence: 1,
            domainId: owner.domain.id,
            address: input.address,
            displayName: input.displayName,
            status: "active",
            createdAt: yield* Clock.currentTimeMillis
          }
          yield* audited(actor, input.tenantId, "mailbox.create", record.id, [
            { _tag: "Insert", kind: "mailbox", record },
            yield* mailboxEvent(record, "mailbox.created", null)
          ]).pipe(dieOnRejection)
          return record
        }),

        updateMailbox: Effect.fn("Management.updateMailbox")(function* (actor, tenantId, id, input) {
          return yield* changing(
            Effect.gen(function* () {
              const mailbox = yield* required("mailbox", id, store.mailboxes.get(tenantId, id))
              const record: Mailbox = {
                ...mailbox,
                version: mailbox.version + 1,
                eventSequence: mailbox.eventSequence + 1,
                displayName: input.displayName ?? mailbox.displayName,
                status: input.status ?? mailbox.status
              }
              const suspends = record.status === "suspended" && mailbox.status === "active"
              const event = yield* mailboxEvent(
                record,
                suspends ? "mailbox.suspended" : "mailbox.updated",
                input.reason ?? null
              )
              yield* audited(actor, tenantId, suspends ? "mailbox.suspend" : "mailbox.update", id, [
                { _tag: "Update", kind: "mailbox", record },
                event
              ])
              return record
            })
          )
        })
      })
    })
  )
}

const rejection = (error: unknown): Rejection | null => (error instanceof CommitRejected ? error.reason : null)
