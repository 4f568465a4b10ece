/**
 * Mailboxes as an operator handles them. `Management` is made of this and its
 * neighbours.
 *
 * What is suspended here cannot send: new mail from it is refused, and mail
 * that was accepted before waits, for as long as a submission may take, until
 * it is in use again. What the provider has taken is not called back.
 */
import { Clock, Effect } from "effect"
import type { Address } from "../model/Address.ts"
import { domainOf } from "../model/Address.ts"
import type { Actor } from "../model/Audit.ts"
import type { Data as EventData } from "../model/Event.ts"
import type { DomainId, MailboxId, TenantId } from "../model/Ids.ts"
import type { Mailbox } from "../model/Mailbox.ts"
import type { StoreUnavailable } from "../ports/Store.ts"
import {
  line,
  pageBehind,
  unmoved,
  type Administration,
  type Changed,
  type Guarded,
  type InvalidInput,
  type Page,
  type PageQuery,
  type UnknownResource,
  type Written
} from "./Administration.ts"
import { changing, dieOnRejection } from "./Commit.ts"

export interface MailboxManagement {
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

export const mailboxManagement = (administration: Administration): MailboxManagement => {
  const { store, uuid, audited, inserted, required, tenant, domainNamed, tenantEvent } = administration

  const mailDomain = (tenantId: TenantId, id: DomainId) => required("domain", id, store.domains.get(tenantId, id))

  const getMailbox = (tenantId: TenantId, id: MailboxId) => required("mailbox", id, store.mailboxes.get(tenantId, id))

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
      const domain = yield* domainNamed(input.tenantId, domainOf(input.address))
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
