/**
 * Mailboxes as an operator handles them. `Management` is made of this and its
 * neighbours.
 *
 * What is suspended here neither sends nor receives: new mail from it and to it
 * is refused, and mail from it that was accepted before waits, for as long as a
 * submission may take, until it is in use again. What the provider has taken is
 * not called back.
 */
import { Clock, Effect } from "effect"
import type { Address } from "../model/Address.ts"
import { domainOf } from "../model/Address.ts"
import type { Actor } from "../model/Audit.ts"
import type { Data as EventData } from "../model/Event.ts"
import { Environment, type DomainId, type MailboxId, type TenantId } from "../model/Ids.ts"
import type { Mailbox } from "../model/Mailbox.ts"
import type { StoreUnavailable } from "../ports/Store.ts"
import {
  InUse,
  InvalidInput,
  line,
  pageBehind,
  requireVersion,
  type Administration,
  type Changed,
  type Guarded,
  type Page,
  type PageQuery,
  type Removed,
  type UnknownResource,
  type Written
} from "./Administration.ts"
import { changeRecord, dieOnRejection, retryOnVersionMoved, unchanged } from "./Commit.ts"

export interface MailboxManagement {
  /** By address; of one domain, if it is given. */
  readonly listMailboxes: (
    tenantId: TenantId,
    query: PageQuery & { readonly domainId?: DomainId }
  ) => Effect.Effect<Page<Mailbox>, UnknownResource | InvalidInput | StoreUnavailable>
  readonly getMailbox: (tenantId: TenantId, id: MailboxId) => Effect.Effect<Mailbox, UnknownResource | StoreUnavailable>
  /**
   * A mailbox at a domain of the tenant, which is not suspended. An `id` of your own is a new one, also after a removal:
   * what processes remember of a mailbox, and what its events have told, is by its id.
   */
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
  /**
   * Removes a suspended mailbox that has no mail and is nobody's catch-all: `InUse` says what it still is or has. Its address
   * is free again, for any tenant. The audit trail goes on naming it, and no event tells of it.
   */
  readonly removeMailbox: (actor: Actor, tenantId: TenantId, id: MailboxId, input: Guarded) => Removed<Mailbox>
}

export const makeMailboxManagement = (administration: Administration): MailboxManagement => {
  const { store, uuid, writeAct, tenant, mailDomain, domainNamed, mailbox: getMailbox, tenantEvent } = administration

  const displayed = (text: string) => Effect.fromResult(line("displayName", text, { minimum: 0 }))

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

  return {
    listMailboxes: Effect.fn("Management.listMailboxes")(function* (tenantId, query) {
      yield* tenant(tenantId)
      const { domainId } = query
      if (domainId !== undefined) yield* mailDomain(tenantId, domainId)
      return yield* pageBehind(
        query,
        (id) =>
          Effect.map(store.mailboxes.get(tenantId, id as MailboxId), (found) => // any text: it names nothing then
            found !== null && (domainId === undefined || found.domainId === domainId) ? found.address : null
          ),
        (after, limit) => store.mailboxes.page(tenantId, { domainId: domainId ?? null, after, limit })
      )
    }),

    getMailbox,

    createMailbox: Effect.fn("Management.createMailbox")(function* (actor, input) {
      yield* tenant(input.tenantId)
      return yield* retryOnVersionMoved(
        Effect.gen(function* () {
          const domain = yield* domainNamed(input.tenantId, domainOf(input.address))
          if (domain.health === "suspended") {
            return yield* new InvalidInput({ field: "address", fault: `is at ${domain.domain}, which is suspended; take that into use again first` })
          }
          const record: Mailbox = {
            id: input.id ?? (yield* uuid<MailboxId>()),
            tenantId: input.tenantId,
            version: 1,
            eventSequence: 1,
            domainId: domain.id,
            address: input.address,
            displayName: yield* displayed(input.displayName),
            status: "active",
            createdAt: yield* Clock.currentTimeMillis
          }
          yield* writeAct(actor, input.tenantId, "mailbox.create", record.id, [
            // Whoever removes the domain has suspended it before, and counted its mailboxes behind that.
            unchanged("domain", domain),
            { _tag: "Insert", kind: "mailbox", record },
            yield* mailboxEvent(record, "mailbox.created", null)
          ])
          return record
        })
      ).pipe(dieOnRejection)
    }),

    updateMailbox: Effect.fn("Management.updateMailbox")(function* (actor, tenantId, id, input) {
      return yield* changeRecord(
        id,
        Effect.gen(function* () {
          const before = yield* getMailbox(tenantId, id)
          yield* requireVersion("mailbox", before, input)
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
          yield* writeAct(actor, tenantId, suspends ? "mailbox.suspend" : "mailbox.update", id, [
            { _tag: "Update", kind: "mailbox", record },
            event
          ])
          return record
        })
      ).pipe(dieOnRejection)
    }),

    removeMailbox: Effect.fn("Management.removeMailbox")(function* (actor, tenantId, id, input) {
      const inUse = (fault: string) => new InUse({ what: "mailbox", id, fault })
      return yield* changeRecord(
        id,
        Effect.gen(function* () {
          const mailbox = yield* getMailbox(tenantId, id)
          yield* requireVersion("mailbox", mailbox, input)
          // So nothing is accepted from it or for it while its mail is looked for, but what was looked up before (0040).
          if (mailbox.status !== "suspended") return yield* inUse("is in use; suspend it first")
          const domain = yield* store.domains.get(tenantId, mailbox.domainId)
          if (domain?.catchAll === id) {
            return yield* inUse(`takes the mail to all other addresses of ${domain.domain}; have that go elsewhere first`)
          }
          const found = yield* Effect.forEach(Environment.literals, (environment) =>
            store.messages.page({ tenantId, environment }, { mailboxId: id, before: null, limit: 1 })
          )
          if (found.flat().length > 0) return yield* inUse("has mail, and is kept as long as that is")
          // Held, so that its other mail goes nowhere else meanwhile.
          const premises = domain === null ? [] : [unchanged("domain", domain)]
          yield* writeAct(actor, tenantId, "mailbox.remove", id, [...premises, { _tag: "Remove", kind: "mailbox", record: mailbox }])
          return mailbox
        })
      ).pipe(dieOnRejection)
    })
  }
}
