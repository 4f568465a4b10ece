/**
 * The reference model of the Store: Maps by id, and lists in commit order.
 * Other adapters are compared with it, so it is dull before it is fast.
 *
 * No fiber runs while a commit is applied. Records are immutable values, so
 * nothing is copied. A record's identity, realm, mailbox and unique field
 * never change after its insert.
 */
import { Effect, Layer } from "effect"
import { foldCase, type Address } from "../../core/model/Address.ts"
import type { Numbered } from "../../core/model/Audit.ts"
import type { EventStart } from "../../core/model/Cursor.ts"
import * as Endpoints from "../../core/model/Endpoint.ts"
import type { LoggedEvent, LogPage } from "../../core/model/Event.ts"
import type { IdempotencyKey } from "../../core/model/IdempotencyKey.ts"
import { isInRealm, shardCount, shardOf, type ApplicationId, type MailboxId, type Millis, type Realm, type TenantId } from "../../core/model/Ids.ts"
import { sealVersion } from "../../core/model/MailDomain.ts"
import * as Notifications from "../../core/model/Notification.ts"
import { jobOf, type JobKind } from "../../core/ports/JobQueue.ts"
import { CommitRejected, Store, type Kind } from "../../core/ports/Store.ts"
import { keyOfApplication, keyOfEndpoint, keyOfList, keyOfRef, keyOfReservation, keyOfSuppression } from "./Keys.ts"
import { Tables, type ShardLog } from "./Tables.ts"
import { compare, firstIndex, placeOf, textOf } from "./Timeline.ts"

/** An empty store, which knows no plan yet. */
export const layer: Layer.Layer<Store> = Layer.sync(Store, () => make(new Tables()))

const make = (tables: Tables): typeof Store.Service => {
  const { records } = tables
  const read = Effect.sync
  const held = (applicationId: ApplicationId, idempotencyKey: IdempotencyKey, at: Millis) => {
    const reservation = tables.reservations.get(keyOfReservation({ applicationId, idempotencyKey }))
    return reservation !== undefined && reservation.expiresAt > at ? reservation : null
  }
  const senderOf = (tenantId: TenantId, mailboxId: MailboxId) => {
    const mailbox = ofTenant(tenantId, records.mailbox.get(mailboxId))
    return { mailbox, domain: mailbox === null ? null : ofTenant(tenantId, records.domain.get(mailbox.domainId)) }
  }

  const mailboxesOf = (tenantId: TenantId) => allOfTenant(tenantId, records.mailbox).sort((left, right) => compare(left.address, right.address))
  const domainsOf = (tenantId: TenantId) => {
    const mailboxes = allOfTenant(tenantId, records.mailbox)
    return allOfTenant(tenantId, records.domain)
      .sort((left, right) => compare(left.domain, right.domain))
      .map((domain) => ({ domain, mailboxCount: mailboxes.filter((mailbox) => mailbox.domainId === domain.id).length }))
  }

  return Store.of({
    commit: (changes) =>
      // Yielding lets concurrent callers really interleave; behind it nothing can come between.
      Effect.andThen(
        Effect.yieldNow,
        Effect.suspend(() => {
          const reason = tables.commit(changes)
          return reason === null ? Effect.succeed({ jobsOffered: false, leaseEnded: false, forgotten: tables.forgotten, next: [] }) : Effect.fail(new CommitRejected({ reason }))
        })
      ),

    credentials: {
      byPublicId: (publicIds) => read(() => [...new Set(publicIds)].flatMap((publicId) => tables.credential(publicId) ?? [])),
      apiKey: (tenantId, id) => read(() => ofTenant(tenantId, records.apiKey.get(id))),
      application: (tenantId, id) => read(() => ofTenant(tenantId, records.application.get(id))),
      tenant: (id) => read(() => records.tenant.get(id) ?? null),
      tenants: ({ after, limit }) =>
        read(() => [...records.tenant.values()].filter(({ id }) => after === null || id > after).sort(byId).slice(0, limit)),
      applications: (tenantId) => read(() => allOfTenant(tenantId, records.application).sort(byCreation)),
      apiKeys: (tenantId) => read(() => allOfTenant(tenantId, records.apiKey).sort(byCreation)),
      plans: read(() => [...tables.plans.values()].sort(byId))
    },

    mailboxes: {
      get: (tenantId, id) => read(() => ofTenant(tenantId, records.mailbox.get(id))),
      list: (tenantId) => read(() => mailboxesOf(tenantId)),
      page: (tenantId, { domainId, after, limit }) =>
        read(() =>
          mailboxesOf(tenantId)
            .filter((mailbox) => (domainId === null || mailbox.domainId === domainId) && (after === null || mailbox.address > after))
            .slice(0, limit)
        ),
      addressee: (query) =>
        read(() => {
          const at = (address: Address | null) => (address === null ? null : (tables.named("mailbox", [foldCase(address)])[0] ?? null))
          const domain = tables.named("domain", [query.domain])[0] ?? null
          return {
            mailbox: at(query.address),
            untagged: at(query.untagged),
            domain,
            catchAll: domain === null || domain.catchAll === null ? null : ofTenant(domain.tenantId, records.mailbox.get(domain.catchAll)),
            tenant: domain === null ? null : (records.tenant.get(domain.tenantId) ?? null)
          }
        })
    },

    domains: {
      get: (tenantId, id) => read(() => ofTenant(tenantId, records.domain.get(id))),
      list: (tenantId) => read(() => domainsOf(tenantId)),
      page: (tenantId, { after, limit }) =>
        read(() =>
          domainsOf(tenantId)
            .filter(({ domain: { domain } }) => after === null || domain > after)
            .slice(0, limit)
        ),
      due: (at, limit) =>
        read(() =>
          [...records.domain.values()]
            .flatMap((domain) => (domain.nextCheckAt !== null && domain.nextCheckAt <= at ? { domain, at: domain.nextCheckAt } : []))
            .sort((left, right) => left.at - right.at || byId(left.domain, right.domain))
            .slice(0, limit)
            .map(({ domain }) => domain)
        ),
      sealedBelow: (version, { after, limit }) =>
        read(() =>
          [...records.domain.values()]
            .filter((domain) => (sealVersion(domain) ?? version) < version && (after === null || domain.id > after))
            .sort(byId)
            .slice(0, limit)
        ),
      named: (names) => read(() => tables.named("domain", names))
    },

    messages: {
      get: (realm, id) => read(() => ofRealm(realm, records.message.get(id))),
      content: (realm, id) =>
        read(() => (ofRealm(realm, records.message.get(id)) === null ? null : (tables.contents.get(id) ?? null))),
      admission: ({ tenantId, mailboxId, applicationId, idempotencyKey, at }) =>
        read(() => ({ reservation: held(applicationId, idempotencyKey, at), ...senderOf(tenantId, mailboxId) })),
      outbound: (realm, id) =>
        read(() => {
          const message = ofRealm(realm, records.message.get(id))
          if (message === null) return null
          return { message, content: tables.contents.get(id) ?? null, ...senderOf(realm.tenantId, message.mailboxId) }
        }),
      page: (realm, { mailboxId, before, limit }) =>
        read(() => {
          const list = tables.messageLists.get(keyOfList(realm, mailboxId)) ?? []
          const end = before === null ? list.length : firstIndex(list, (message) => message.createdAt >= before)
          return lastOf(list.slice(Math.max(0, end - limit), end), limit).map(tables.current)
        }),
      bySubmission: (ref) =>
        read(() => {
          const id = tables.submissions.get(keyOfRef(ref))
          return id === undefined ? null : (records.message.get(id) ?? null)
        }),
      anywhere: (id) => read(() => records.message.get(id) ?? null),
      queuedWith: (realm, attachmentId) =>
        read(() =>
          [...(tables.queuedWith.get(attachmentId)?.keys() ?? [])].flatMap(
            (id) => ofRealm(realm, records.message.get(id)) ?? []
          )
        )
    },

    attachments: {
      get: (realm, id) => read(() => ofRealm(realm, records.attachment.get(id))),
      many: (realm, ids) => read(() => ids.flatMap((id) => ofRealm(realm, records.attachment.get(id)) ?? [])),
      expired: (at, limit) => read(() => tables.expiries.page(null, at, limit).map(({ id }) => records.attachment.get(id)!))
    },

    events: {
      page: (realm, applicationId, { start, limit }) =>
        read(() => {
          const list = tables.events.get(realm.tenantId) ?? []
          const begin =
            start === null
              ? 0
              : start._tag === "After"
                ? firstIndex(list, (event) => event.position > start.position)
                : list.findIndex((event) => event.occurredAt >= start.at && isVisible(event, realm, applicationId))
          const page: Array<LoggedEvent> = []
          for (let index = begin < 0 ? list.length : begin; index < list.length && page.length < limit; index++) {
            if (isVisible(list[index]!, realm, applicationId)) page.push(list[index]!)
          }
          return { events: page, beginning: beginningOf(tables.shards.get(shardOf(realm.tenantId)), realm.tenantId, start) }
        }),
      readLog: (shard, after, limit) =>
        read(() => {
          const { dropped, events } = tables.shards.get(shard) ?? { dropped: 0, events: [] }
          const begin = Math.max(0, Number(after) - dropped)
          return events.slice(begin, begin + limit)
        })
    },

    endpoints: {
      get: (realm, id) => read(() => ofRealm(realm, records.endpoint.get(id))),
      list: (realm, applicationId) =>
        read(() => {
          const list = tables.endpointLists.get(keyOfApplication(realm, applicationId))
          return (list?.page(null, Infinity, Infinity) ?? []).map(({ id }) => records.endpoint.get(id)!)
        }),
      enabled: (tenantIds) =>
        read(() =>
          [...new Set(tenantIds)].flatMap((tenantId) =>
            [...(tables.enabled.get(tenantId)?.keys() ?? [])].map((id) => records.endpoint.get(id)!)
          )
        ),
      sealedBelow: (version, { after, limit }) =>
        read(() =>
          [...records.endpoint.values()]
            .filter((endpoint) => Endpoints.sealVersion(endpoint) < version && (after === null || endpoint.id > after))
            .sort(byId)
            .slice(0, limit)
        )
    },

    deliveries: {
      get: (realm, id) => read(() => ofRealm(realm, records.delivery.get(id))),
      body: (realm, id) =>
        read(() => (ofRealm(realm, records.delivery.get(id)) === null ? null : (tables.bodies.get(id) ?? null))),
      outgoing: (realm, id) =>
        read(() => {
          const delivery = ofRealm(realm, records.delivery.get(id))
          if (delivery === null) return null
          return { delivery, endpoint: ofRealm(realm, records.endpoint.get(delivery.endpointId)), body: tables.bodies.get(id) ?? null }
        }),
      page: (realm, { applicationId, endpointId, limit }) =>
        read(() => {
          const list = tables.deliveryLists.get(keyOfApplication(realm, applicationId, endpointId))
          return (list?.last(limit) ?? []).map(({ id }) => records.delivery.get(id)!)
        }),
      deadSince: (realm, endpointId, since, limit) =>
        read(() => {
          const list = tables.deadLists.get(keyOfEndpoint(realm, endpointId))
          // No id comes before the empty text.
          return (list?.page({ at: since, id: "" }, Infinity, limit) ?? []).map(({ id }) => records.delivery.get(id)!)
        })
    },

    relay: {
      behind: read(() =>
        Array.from({ length: shardCount }, (_, shard) => tables.relay(shard)).filter(({ shard, position }) => {
          const last = tables.shards.get(shard)?.events.at(-1)
          return last !== undefined && last.position > position
        })
      )
    },

    reservations: {
      get: (applicationId, idempotencyKey, at) => read(() => held(applicationId, idempotencyKey, at))
    },

    suppressions: {
      among: (realm, addresses) =>
        read(() =>
          [...new Set(addresses.map((address) => keyOfSuppression(realm, address)))].flatMap(
            (key) => tables.suppressions.get(key) ?? []
          )
        ),
      page: (realm, { after, limit }) =>
        read(() => {
          const place = after === null ? "" : foldCase(after)
          return [...tables.suppressions.values()]
            .filter((one) => ofRealm(realm, one) !== null && foldCase(one.address) > place)
            .sort((left, right) => compare(foldCase(left.address), foldCase(right.address)))
            .slice(0, limit)
        })
    },

    notifications: {
      kept: (ref) =>
        read(() =>
          tables
            .keptInOrder()
            .map(({ notification }) => notification)
            .filter((one) => keyOfRef(Notifications.refOf(one)) === keyOfRef(ref))
        ),
      matched: ({ after, limit }) =>
        read(() => {
          const [afterAt, afterNumber] = after === null ? [-Infinity, 0] : (after.split(" ").map(Number) as [number, number]) // as below
          const behind = tables.keptInOrder().filter(({ at, number }) => at > afterAt || (at === afterAt && number > afterNumber))
          const looked = behind.slice(0, limit)
          const last = looked.at(-1)
          return {
            notifications: looked
              .map(({ notification }) => notification)
              .filter((one) => tables.submissions.has(keyOfRef(Notifications.refOf(one)))),
            next: behind.length > limit && last !== undefined ? `${last.at} ${last.number}` : null
          }
        })
    },

    audit: {
      page: (tenantId, limit, before) => read(() => lastBefore(tables.audit.get(tenantId) ?? [], limit, before)),
      requests: (tenantId, limit, before) => read(() => lastBefore(tables.requests.get(tenantId) ?? [], limit, before)),
      payloads: (provider, limit, before) =>
        read(() => lastBefore(tables.payloadsInOrder().filter((one) => provider === null || one.provider === provider), limit, before))
    },

    blobs: {
      referenced: (tenantId, digests) =>
        read(() => [...new Set(digests)].filter((digest) => (tables.blobUses.get(`${tenantId} ${digest}`) ?? 0) > 0))
    },

    due: (kind, { dueBefore, after, limit }) =>
      read(() => {
        const found = tables.due[kind].page(after === null ? null : placeOf(after), dueBefore, limit + 1)
        const shown = found.slice(0, limit)
        return {
          jobs: shown.map(({ at, id }) => jobOf(kind, records[subjectKind[kind]].get(id)!, at)), // what is due is there
          next: found.length > limit && shown.length > 0 ? textOf(shown[shown.length - 1]!) : null
        }
      }),

    backlog: read(() => {
      const earliest = (kind: JobKind) => tables.due[kind].page(null, Infinity, 1)[0]?.at ?? null
      const news = Array.from({ length: shardCount }, (_, shard) => tables.unrelayed(shard))
      const first = news.flatMap((events) => events[0]?.occurredAt ?? [])
      return {
        earliestDue: { submit: earliest("submit"), poll: earliest("poll"), scan: earliest("scan"), deliver: earliest("deliver"), parse: earliest("parse") },
        unrelayed: news.reduce((sum, events) => sum + events.length, 0),
        oldestUnrelayedAt: first.length === 0 ? null : Math.min(...first)
      }
    })
  })
}

/** What the subject of a job is. */
const subjectKind = {
  submit: "message",
  poll: "message",
  scan: "attachment",
  deliver: "delivery",
  parse: "message"
} as const satisfies Record<JobKind, Kind>

/** What a shard's log knows of the place at which a page of a tenant's starts. */
const beginningOf = (log: ShardLog | undefined, tenantId: TenantId, start: EventStart | null): LogPage["beginning"] => {
  if (start === null) return "whole"
  if (start._tag === "Since") return log !== undefined && start.at <= log.droppedUntil ? "cut" : "whole"
  const { dropped, events } = log ?? { dropped: 0, events: [] }
  const index = Number(start.position) - dropped - 1
  if (index < -1) return "cut"
  if (index === -1) return "whole"
  const event = events[index]
  return event?.tenantId === tenantId && event.occurredAt === start.occurredAt ? "whole" : "unknown"
}

const isVisible = (event: LoggedEvent, realm: Realm, applicationId: ApplicationId): boolean =>
  (event.environment === null || event.environment === realm.environment) &&
  (event.audience === null || event.audience === applicationId)

const ofTenant = <A extends { readonly tenantId: TenantId }>(tenantId: TenantId, record: A | undefined): A | null =>
  record?.tenantId === tenantId ? record : null

const ofRealm = <A extends Realm>(realm: Realm, record: A | undefined): A | null => (record !== undefined && isInRealm(realm, record) ? record : null)

const allOfTenant = <A extends { readonly tenantId: TenantId }>(tenantId: TenantId, table: ReadonlyMap<string, A>): Array<A> =>
  [...table.values()].filter((record) => record.tenantId === tenantId)

const byId = <A extends { readonly id: string }>(left: A, right: A): number => compare(left.id, right.id)

const byCreation = <A extends { readonly id: string; readonly createdAt: number }>(left: A, right: A): number =>
  left.createdAt - right.createdAt || byId(left, right)

/** The last items of a list, the last one first. */
const lastOf = <A>(list: ReadonlyArray<A>, limit: number): ReadonlyArray<A> =>
  list.slice(Math.max(0, list.length - limit)).toReversed()

const lastBefore = <A>(list: ReadonlyArray<Numbered<A>>, limit: number, before?: number): ReadonlyArray<Numbered<A>> =>
  lastOf(before === undefined ? list : list.filter(({ number }) => number < before), limit)
