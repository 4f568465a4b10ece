/**
 * Domains and mailboxes as an operator handles them. `Management` is made of
 * this and its neighbours.
 *
 * What is suspended here cannot send: new mail from it is refused, and mail
 * that was accepted before waits, for as long as a submission may take, until
 * it is in use again. What the provider has taken is not called back.
 */
import { Clock, Effect, Option, Result } from "effect"
import type { Address, DomainName } from "../model/Address.ts"
import { domainOf } from "../model/Address.ts"
import type { Actor } from "../model/Audit.ts"
import { fit, type Data as EventData, type Event } from "../model/Event.ts"
import type { DomainId, EventId, MailboxId, TenantId } from "../model/Ids.ts"
import type { Mailbox } from "../model/Mailbox.ts"
import * as MailDomains from "../model/MailDomain.ts"
import type { MailDomain } from "../model/MailDomain.ts"
import type { StoreUnavailable } from "../ports/Store.ts"
import {
  line,
  pageOf,
  unmoved,
  UnknownResource,
  type Administration,
  type Changed,
  type Guarded,
  type InvalidInput,
  type Page,
  type PageQuery,
  type Written
} from "./Administration.ts"
import { changing, dieOnRejection } from "./Commit.ts"

/** A domain, and how many mailboxes it has. */
export interface ManagedDomain {
  readonly domain: MailDomain
  readonly mailboxCount: number
}

export interface MailManagement {
  /** By name. */
  readonly listDomains: (
    tenantId: TenantId,
    query: PageQuery
  ) => Effect.Effect<Page<ManagedDomain>, UnknownResource | InvalidInput | StoreUnavailable>
  readonly getDomain: (tenantId: TenantId, id: DomainId) => Effect.Effect<MailDomain, UnknownResource | StoreUnavailable>
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
  /**
   * Takes the domain for the tenant's own, and its DKIM record for published, by an operator's word. Mail can be sent from
   * it until a round of DNS checks finds otherwise. A suspended domain stays suspended.
   */
  readonly confirmDomain: (actor: Actor, tenantId: TenantId, id: DomainId) => Written<MailDomain>
  /** Suspends a domain by an operator's decision, which no check lifts; or lets the next check decide again. */
  readonly setDomainSuspended: (actor: Actor, tenantId: TenantId, id: DomainId, suspended: boolean) => Written<MailDomain>
  /** Has mail to all other addresses of the domain go to one of its mailboxes; null: refuses it. */
  readonly setCatchAll: (actor: Actor, tenantId: TenantId, id: DomainId, mailboxId: MailboxId | null) => Written<MailDomain>

  /** By address; of one domain, if it is given. */
  readonly listMailboxes: (
    tenantId: TenantId,
    query: PageQuery & { readonly domainId?: DomainId }
  ) => Effect.Effect<Page<Mailbox>, UnknownResource | InvalidInput | StoreUnavailable>
  readonly getMailbox: (tenantId: TenantId, id: MailboxId) => Effect.Effect<Mailbox, UnknownResource | StoreUnavailable>
  /** A mailbox at a domain of the tenant. */
  readonly createMailbox: (
    actor: Actor,
    input: { readonly id?: MailboxId; readonly tenantId: TenantId; readonly address: Address; readonly displayName: string }
  ) => Written<Mailbox>
  /** Renames a mailbox, suspends it or takes it into use again, and says so in an event; `reason` is part of that. */
  readonly updateMailbox: (
    actor: Actor,
    tenantId: TenantId,
    id: MailboxId,
    input: Guarded & { readonly displayName?: string; readonly status?: Mailbox["status"]; readonly reason?: string }
  ) => Changed<Mailbox>
}

const confirmed = "confirmed by an operator"

export const mailManagement = (administration: Administration): MailManagement => {
  const { store, uuid, audited, inserted, required, tenant } = administration

  const mailDomain = (tenantId: TenantId, id: DomainId) => required("domain", id, store.domains.get(tenantId, id))

  const getMailbox = (tenantId: TenantId, id: MailboxId) => required("mailbox", id, store.mailboxes.get(tenantId, id))

  const displayed = (text: string) => Effect.fromResult(line("displayName", text, { minimum: 0 }))

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

  const checked = (
    actor: Actor,
    action: string,
    tenantId: TenantId,
    id: DomainId,
    checksOf: (before: MailDomain, now: number) => ReadonlyArray<MailDomains.RecordCheck>
  ) =>
    changing(
      id,
      Effect.gen(function* () {
        const before = yield* mailDomain(tenantId, id)
        const now = yield* Clock.currentTimeMillis
        const checks = checksOf(before, now)
        return yield* moveDomain(actor, action, before, { ...before, checks }, MailDomains.assess(before, checks, now))
      })
    ).pipe(dieOnRejection)

  return {
    listDomains: Effect.fn("Management.listDomains")(function* (tenantId, query) {
      yield* tenant(tenantId)
      return yield* pageOf(yield* store.domains.list(tenantId), query, ({ domain }) => domain.id)
    }),

    getDomain: mailDomain,

    createDomain: Effect.fn("Management.createDomain")(function* (actor, { id, tenantId, domain }) {
      yield* tenant(tenantId)
      const record: MailDomain = {
        id: id ?? (yield* uuid<DomainId>()),
        tenantId,
        version: 1,
        eventSequence: 0,
        domain,
        health: "pending",
        checks: [],
        catchAll: null,
        createdAt: yield* Clock.currentTimeMillis
      }
      yield* inserted(actor, tenantId, "domain.create", record.id, [{ _tag: "Insert", kind: "domain", record }])
      return record
    }),

    recordChecks: Effect.fn("Management.recordChecks")((tenantId, id, checks) =>
      checked({ type: "system", id: "domain-checker" }, "domain.check", tenantId, id, () => checks)
    ),

    confirmDomain: Effect.fn("Management.confirmDomain")((actor, tenantId, id) =>
      checked(actor, "domain.confirm", tenantId, id, (before, since) => [
        ...before.checks.filter(({ record, state }) => record !== "ownership" && record !== "dkim" && state !== "unknown"),
        ...(["ownership", "dkim"] as const).map(
          (record) => ({ record, state: "ok", expected: confirmed, observed: confirmed, since }) as const
        )
      ])
    ),

    setDomainSuspended: Effect.fn("Management.setDomainSuspended")(function* (actor, tenantId, id, suspended) {
      return yield* changing(
        id,
        Effect.gen(function* () {
          const before = yield* mailDomain(tenantId, id)
          if ((before.health === "suspended") === suspended) return before
          const [input, action] = suspended
            ? (["Suspended", "domain.suspend"] as const)
            : (["Reinstated", "domain.reinstate"] as const)
          return yield* moveDomain(actor, action, before, before, input)
        })
      ).pipe(dieOnRejection)
    }),

    setCatchAll: Effect.fn("Management.setCatchAll")(function* (actor, tenantId, id, mailboxId) {
      return yield* changing(
        id,
        Effect.gen(function* () {
          const before = yield* mailDomain(tenantId, id)
          const mailbox = mailboxId === null ? null : yield* getMailbox(tenantId, mailboxId)
          if (mailbox !== null && mailbox.domainId !== id) return yield* new UnknownResource({ what: "mailbox", id: mailbox.id })
          if (before.catchAll === mailboxId) return before
          const record: MailDomain = { ...before, version: before.version + 1, catchAll: mailboxId }
          yield* audited(actor, tenantId, "domain.catch_all", id, [{ _tag: "Update", kind: "domain", record }])
          return record
        })
      ).pipe(dieOnRejection)
    }),

    listMailboxes: Effect.fn("Management.listMailboxes")(function* (tenantId, query) {
      yield* tenant(tenantId)
      const { domainId } = query
      if (domainId !== undefined) yield* mailDomain(tenantId, domainId)
      const mailboxes = yield* store.mailboxes.list(tenantId)
      const wanted = mailboxes.filter((mailbox) => domainId === undefined || mailbox.domainId === domainId)
      return yield* pageOf(wanted, query, ({ id }) => id)
    }),

    getMailbox,

    createMailbox: Effect.fn("Management.createMailbox")(function* (actor, input) {
      yield* tenant(input.tenantId)
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
        displayName: yield* displayed(input.displayName),
        status: "active",
        createdAt: yield* Clock.currentTimeMillis
      }
      yield* inserted(actor, input.tenantId, "mailbox.create", record.id, [
        { _tag: "Insert", kind: "mailbox", record },
        yield* mailboxEvent(record, "mailbox.created", null)
      ])
      return record
    }),

    updateMailbox: Effect.fn("Management.updateMailbox")(function* (actor, tenantId, id, input) {
      return yield* changing(
        id,
        Effect.gen(function* () {
          const before = yield* getMailbox(tenantId, id)
          yield* unmoved("mailbox", before, input)
          const reason = input.reason === undefined ? null : yield* Effect.fromResult(line("reason", input.reason))
          const record: Mailbox = {
            ...before,
            version: before.version + 1,
            eventSequence: before.eventSequence + 1,
            displayName: yield* displayed(input.displayName ?? before.displayName),
            status: input.status ?? before.status
          }
          if (record.status === before.status && record.displayName === before.displayName) return before
          const suspends = record.status === "suspended" && before.status === "active"
          const event = yield* mailboxEvent(record, suspends ? "mailbox.suspended" : "mailbox.updated", reason)
          yield* audited(actor, tenantId, suspends ? "mailbox.suspend" : "mailbox.update", id, [
            { _tag: "Update", kind: "mailbox", record },
            event
          ])
          return record
        })
      ).pipe(dieOnRejection)
    })
  }
}
