/**
 * The reads of the Store, each one statement. None locks, and each finds its
 * rows by an index: a page starts at its place and ends at its limit.
 *
 * Texts are ordered by their bytes (`collate "C"`). That is the order of the
 * model, by UTF-16 code units, but for characters beyond U+FFFF, and what is
 * ordered by text here (addresses, domain names, plan ids) has none.
 */
import { Effect } from "effect"
import { foldCase } from "../../core/model/Address.ts"
import type { Addressee, Admission, AttachmentReads, MessageReads, Outbound, Store } from "../../core/ports/Store.ts"
import type { Database } from "./Database.ts"
import * as EventReads from "./EventReads.ts"
import * as Query from "./Query.ts"
import * as Rows from "./Rows.ts"
import type { Row } from "./Rows.ts"
import * as WebhookReads from "./WebhookReads.ts"
import * as WorkReads from "./WorkReads.ts"

export type Reads = Omit<typeof Store.Service, "commit">

export const make = (database: Database["Service"], options: { readonly jobsOffered: boolean }): Reads => {
  const query = Query.make(database)
  return {
    ...accounts(query),
    messages: messages(query),
    attachments: attachments(query),
    ...EventReads.make(query),
    endpoints: WebhookReads.endpoints(query),
    deliveries: WebhookReads.deliveries(query),
    ...notes(query),
    ...WorkReads.make(query, options)
  }
}

const { tenant, application, apiKey, domain, mailbox, attachment, message } = Rows.tables

const byCreation = ({ name, selected }: Query.Selectable): string =>
  `select ${selected()} from ${name} where tenant_id = $1 order by created_ms, id`

const newestFirst = ({ name, selected }: Query.Selectable): string =>
  `select ${selected()} from ${name} where tenant_id = $1 and number < $3 order by number desc limit $2`

const mailboxPage = (where: string): string =>
  `select ${mailbox.selected()} from mailroom.mailbox where tenant_id = $1 and address > $2 ${where} order by address limit $3`

/** Mailboxes in one row, at most: it is whole in memory, and of 64 MiB a connection takes none. Of more each has its own. */
const gatheredMax = 10_000

/** One text for each of what they are asked of. */
const texts = {
  tenant: `select ${tenant.selected()} from mailroom.tenant where id = $1`,
  tenants: `select ${tenant.selected()} from mailroom.tenant where id > $1 order by id limit $2`,
  application: Query.ofTenant(application),
  applications: byCreation(application),
  apiKey: Query.ofTenant(apiKey),
  apiKeys: byCreation(apiKey),
  plans: `select ${Rows.plan.selected()} from mailroom.plan order by id`,
  domain: Query.ofTenant(domain),
  mailbox: Query.ofTenant(mailbox),
  mailboxes: `select json_agg(record::text order by address)::text as records
    from (select record, address from mailroom.mailbox where tenant_id = $1 order by address limit ${gatheredMax + 1}) listed`,
  eachMailbox: `select ${mailbox.selected()} from mailroom.mailbox where tenant_id = $1 order by address`,
  mailboxPage: mailboxPage(""),
  mailboxPageOfDomain: mailboxPage("and domain_id = $4"),
  domainNamed: `select ${domain.selected()} from mailroom.domain where domain = $1`,
  attachment: Query.ofRealm(attachment),
  message: Query.ofRealm(message),
  audit: newestFirst(Rows.audit),
  requests: newestFirst(Rows.request)
}

/** A list in one row: `json_agg(record::text)` as `records`. */
const listOf = <A>({ decode }: { readonly decode: (row: Row) => A }) => ({
  decode: (row: Row): ReadonlyArray<A> =>
    row["records"] === null ? [] : (JSON.parse(row["records"] as string) as ReadonlyArray<string>).map((record) => decode({ record })) // texts
})

const inTenant = ["uuid", "uuid"] as const

const accounts = ({ list, one, lookup }: Query.Query): Pick<Reads, "credentials" | "mailboxes" | "domains"> => {
  const credentialBy = lookup({ decode: credentialOf }, credentialByPublicId, ["text"])
  const mailboxesBy = lookup(listOf(mailbox), texts.mailboxes, ["uuid"])
  const [mailboxBy, domainBy] = [lookup(mailbox, texts.mailbox, inTenant), lookup(domain, texts.domain, inTenant)]
  const domainNamed = lookup(domain, texts.domainNamed, ["text"])
  const addresseeBy = lookup({ decode: addresseeOf }, addressee, ["text", "text", "text"])
  return {
    credentials: {
      byPublicId: (publicIds) => each(publicIds, (publicId) => credentialBy([Query.textKey(publicId)])),
      apiKey: (tenantId, id) => one(apiKey, texts.apiKey, [Query.id(id), Query.id(tenantId)]),
      application: (tenantId, id) => one(application, texts.application, [Query.id(id), Query.id(tenantId)]),
      tenant: (id) => one(tenant, texts.tenant, [Query.id(id)]),
      tenants: ({ after, limit }) => list(tenant, texts.tenants, [Query.idAfter(after), Query.count(limit)]),
      applications: (tenantId) => list(application, texts.applications, [Query.id(tenantId)]),
      apiKeys: (tenantId) => list(apiKey, texts.apiKeys, [Query.id(tenantId)]),
      plans: list(Rows.plan, texts.plans)
    },
    mailboxes: {
      get: (tenantId, id) => mailboxBy([Query.idKey(id), Query.idKey(tenantId)]),
      list: (tenantId) =>
        Effect.flatMap(mailboxesBy([Query.idKey(tenantId)]), (found) =>
          found !== null && found.length > gatheredMax ? list(mailbox, texts.eachMailbox, [Query.id(tenantId)]) : Effect.succeed(found ?? [])
        ),
      page: (tenantId, { domainId, after, limit }) => {
        const asked = [Query.id(tenantId), Query.text(after ?? ""), Query.count(limit)]
        return domainId === null ? list(mailbox, texts.mailboxPage, asked) : list(mailbox, texts.mailboxPageOfDomain, [...asked, Query.id(domainId)])
      },
      addressee: ({ address, untagged, domain }) =>
        Effect.map(
          addresseeBy([Query.textKey(domain), Query.textKey(foldCase(address)), untagged === null ? null : Query.textKey(foldCase(untagged))]),
          (found) => found! // one row whatever there is
        )
    },
    domains: {
      get: (tenantId, id) => domainBy([Query.idKey(id), Query.idKey(tenantId)]),
      list: (tenantId) => list(countedDomain, domainsOfTenant, [Query.id(tenantId)]),
      page: (tenantId, { after, limit }) => list(countedDomain, domainsBehind, [Query.id(tenantId), Query.text(after ?? ""), Query.count(limit)]),
      due: (at, limit) => list(domain, domainsDue, [Query.millis(at), Query.count(limit)]),
      sealedBelow: (version, { after, limit }) =>
        list(domain, Query.sealedBelow(domain), [Query.count(version), Query.idAfter(after), Query.count(limit)]),
      named: (names) => each(names, (name) => domainNamed([Query.textKey(name)]))
    }
  }
}

/** What these name, each once. */
const each = <A, E>(names: ReadonlyArray<string>, find: (name: string) => Effect.Effect<A | null, E>): Effect.Effect<ReadonlyArray<A>, E> =>
  names.length === 1
    ? Effect.map(find(names[0]!), (one) => (one === null ? [] : [one]))
    : Effect.map(Effect.forEach([...new Set(names)], find, { concurrency: "unbounded" }), (found) => found.flatMap((one) => one ?? []))

// Look-ups for each key, for a join of four tables may be planned as a pass over all tenants.
const credentialByPublicId = `
  select api_key.record::text as api_key, api_key.last_used_ms,
    (select record::text from mailroom.application where id = api_key.application_id) as application,
    (select record::text from mailroom.tenant where id = api_key.tenant_id) as tenant,
    (
      select record::text from mailroom.plan
      where id = (select record ->> 'planId' from mailroom.tenant where id = api_key.tenant_id)
    ) as plan
  from mailroom.api_key
  where public_id = $1`

/** The credential that a row holds; none while part of it is missing. */
const credentialOf = (row: Row) =>
  row["application"] === null || row["tenant"] === null || row["plan"] === null
    ? null
    : {
        apiKey: apiKey.decode({ record: row["api_key"], last_used_ms: row["last_used_ms"] }),
        application: application.decode({ record: row["application"] }),
        tenant: tenant.decode({ record: row["tenant"] }),
        plan: Rows.plan.decode({ record: row["plan"] })
      }

/**
 * What the record of `domain` has of it, by its text: the server reads no JSON in which a text has a NUL, or half of a character,
 * and what a domain's owner publishes is in the record. In a text the quotation marks are escaped, so none is taken for the member.
 */
const catchAll = `substring(domain.record::text from '"catchAll":"([0-9a-f-]{36})"')::uuid`

/** Look-ups, each by its index. */
const addressee = `
  select
    (select record::text from mailroom.mailbox where folded_address = $2) as mailbox,
    (select record::text from mailroom.mailbox where folded_address = $3) as untagged,
    domain.record::text as domain,
    (
      select record::text from ${Query.byId("mailroom.mailbox", "held", catchAll)}
      where tenant_id = domain.tenant_id
    ) as catch_all,
    (select record::text from mailroom.tenant where id = domain.tenant_id) as tenant
  from (select) as always
  left join lateral (select * from mailroom.domain where domain = $1 offset 0) domain on true`

/** Of a column: the record that it holds, if any. */
const recordIn = <A>({ decode }: { readonly decode: (row: Row) => A }, column: unknown): A | null => (column === null ? null : decode({ record: column }))

const addresseeOf = (row: Row): Addressee => ({
  mailbox: recordIn(mailbox, row["mailbox"]),
  untagged: recordIn(mailbox, row["untagged"]),
  domain: recordIn(domain, row["domain"]),
  catchAll: recordIn(mailbox, row["catch_all"]),
  tenant: recordIn(tenant, row["tenant"])
})

const countedDomain = { decode: (row: Row) => ({ domain: domain.decode(row), mailboxCount: Number(row["mailbox_count"]) }) }

// The counts by their domain in one value: as rows, they would be passed over for each of the domains.
const domainsOfTenant = `
  with counted as materialized (
    select jsonb_object_agg(domain_id, mailboxes) as by_domain
    from (select domain_id, count(*) as mailboxes from mailroom.mailbox where tenant_id = $1 group by domain_id) one
  )
  select ${domain.selected("domain")}, coalesce((select by_domain ->> domain.id::text from counted), '0') as mailbox_count
  from mailroom.domain domain
  where domain.tenant_id = $1
  order by domain.domain`

// Counted one by one: a page of them may be a few of a tenant's.
const domainsBehind = `
  select ${domain.selected("domain")},
    (select count(*) from mailroom.mailbox where tenant_id = $1 and domain_id = domain.id) as mailbox_count
  from (select * from mailroom.domain where tenant_id = $1 and domain > $2 order by domain limit $3) domain
  order by domain.domain`

const domainsDue = `
  select ${domain.selected()} from mailroom.domain where next_check_ms <= $1 order by next_check_ms, id limit $2`

const messages = ({ list, one, lookup }: Query.Query): MessageReads => {
  const messageBy = lookup(message, texts.message, Query.inRealmTypes)
  const contentBy = lookup(Rows.messageContent, contentOfMessage, Query.inRealmTypes)
  const admissionBy = lookup({ decode: admissionOf }, admission, ["uuid", "uuid", "uuid", "text", "bigint"])
  const outboundBy = lookup({ decode: outboundOf }, outbound, Query.inRealmTypes)
  return {
    admission: ({ tenantId, mailboxId, applicationId, idempotencyKey, at }) =>
      Effect.map(
        admissionBy([
          Query.idKey(mailboxId),
          Query.idKey(tenantId),
          Query.idKey(applicationId),
          Query.textKey(idempotencyKey),
          Query.millisKey(at)
        ]),
        (found) => found! // one row whatever there is
      ),
    outbound: (realm, id) => outboundBy([Query.idKey(id), ...Query.realmKeys(realm)]),
    get: (realm, id) => messageBy([Query.idKey(id), ...Query.realmKeys(realm)]),
    content: (realm, id) => contentBy([Query.idKey(id), ...Query.realmKeys(realm)]),
    page: (realm, { mailboxId, before, limit }) => {
      const asked = [...Query.inRealm(realm), before === null ? Query.bigintMax : Query.bigint(before), Query.count(limit)]
      return mailboxId === null
        ? list(message, messagesOfRealm, asked)
        : list(message, messagesOfMailbox, [...asked, Query.id(mailboxId)])
    },
    bySubmission: ({ provider, providerMessageId }) =>
      one(message, messageBySubmission, [Query.text(provider), Query.text(providerMessageId)]),
    anywhere: (id) => one(message, messageAnywhere, [Query.id(id)]),
    queuedWith: (realm, attachmentId) => list(message, messagesQueuedWith, [Query.id(attachmentId), ...Query.inRealm(realm)])
  }
}

const contentOfMessage = `
  select ${Rows.messageContent.selected("content")}
  from ${Query.byId("mailroom.message", "message")}
  join lateral (select * from mailroom.message_content where message_id = message.id offset 0) content on true
  where message.tenant_id = $2 and message.environment = $3`

/**
 * Look-ups, each by its index. Who finds a reservation tells its caller that the message is accepted, so it is locked, as a
 * write is: where commits wait for a standby, one that was called off meanwhile can be read, and a standby need not have it.
 */
const admission = `
  select
    (select record::text from mailroom.reservation
      where application_id = $3 and idempotency_key = $4 and expires_ms > $5 for key share) as reservation,
    mailbox.record::text as mailbox, domain.record::text as domain
  from (select) as always
  left join ${Query.byId("mailroom.mailbox", "mailbox")} on mailbox.tenant_id = $2
  left join lateral ${Query.byId("mailroom.domain", "domain", "mailbox.domain_id")} on domain.tenant_id = $2`

const senderOf = (row: Row) => ({
  mailbox: recordIn(mailbox, row["mailbox"]),
  domain: recordIn(domain, row["domain"])
})

const admissionOf = (row: Row): Admission => ({
  reservation: recordIn(Rows.reservation, row["reservation"]),
  ...senderOf(row)
})

// Each by its index from the message on; a join of them may be planned from the other end.
const outbound = `
  select ${message.selected("message")},
    content.message_id as content, content.text, content.html, content.record::text as content_record,
    mailbox.record::text as mailbox, domain.record::text as domain
  from ${Query.byId("mailroom.message", "message")}
  left join lateral (select * from mailroom.message_content where message_id = message.id offset 0) content on true
  left join lateral ${Query.byId("mailroom.mailbox", "mailbox", "message.mailbox_id")} on mailbox.tenant_id = $2
  left join lateral ${Query.byId("mailroom.domain", "domain", "mailbox.domain_id")} on domain.tenant_id = $2
  where message.tenant_id = $2 and message.environment = $3`

const outboundOf = (row: Row): Outbound => ({
  message: message.decode(row),
  content: row["content"] === null ? null : Rows.messageContent.decode({ text: row["text"], html: row["html"], record: row["content_record"] }),
  ...senderOf(row)
})

const messagesWhere = (where: string): string => `
  select ${message.selected()} from mailroom.message
  where tenant_id = $1 and environment = $2 and created_us < $3 ${where}
  order by created_us desc limit $4`

const messagesOfRealm = messagesWhere("")

const messagesOfMailbox = messagesWhere("and mailbox_id = $5")

const messageBySubmission = `
  select ${message.selected("message")}
  from mailroom.submission submission
  join lateral ${Query.byId("mailroom.message", "message", "submission.message_id")} on true
  where submission.provider = $1 and submission.provider_message_id = $2`

const messageAnywhere = `select ${message.selected()} from mailroom.message where id = $1`

const messagesQueuedWith = `
  select ${message.selected("message")}
  from mailroom.queued_attachment queued
  join lateral ${Query.byId("mailroom.message", "message", "queued.message_id")} on true
  where queued.attachment_id = $1 and message.tenant_id = $2 and message.environment = $3`

const attachments = ({ list, one }: Query.Query): AttachmentReads => ({
  get: (realm, id) => one(attachment, texts.attachment, [Query.id(id), ...Query.inRealm(realm)]),
  many: (realm, ids) =>
    Effect.map(list(attachment, attachmentsOfRealm, [Query.ids(ids), ...Query.inRealm(realm)]), (found) => {
      const byId = new Map(found.map((one) => [one.id, one]))
      return ids.flatMap((id) => byId.get(id) ?? [])
    }),
  expired: (at, limit) => list(attachment, attachmentsExpired, [Query.millis(at), Query.count(limit)])
})

const attachmentsOfRealm = `
  select ${attachment.selected()} from ${Query.byId("mailroom.attachment", "held", "any($1)")} where tenant_id = $2 and environment = $3`

const attachmentsExpired = `
  select ${attachment.selected()} from mailroom.attachment where unused_until_ms <= $1 order by unused_until_ms, id limit $2`

const notes = ({
  rows,
  list,
  one,
  lookup
}: Query.Query): Pick<Reads, "reservations" | "suppressions" | "notifications" | "audit" | "blobs"> => {
  const suppressionBy = lookup(Rows.suppression, suppressionOf, ["uuid", "text", "text"])
  const keptBy = lookup(listOf(Rows.notification), notificationsKept, ["text", "text"])
  return {
    reservations: {
      get: (applicationId, idempotencyKey, at) =>
        one(Rows.reservation, reservationHeld, [Query.id(applicationId), Query.text(idempotencyKey), Query.millis(at)])
    },
    suppressions: {
      among: (realm, addresses) => {
        const folded = [...new Set(addresses.map(foldCase))]
        const [first] = folded
        return folded.length === 1 && first !== undefined
          ? Effect.map(suppressionBy([...Query.realmKeys(realm), Query.textKey(first)]), (found) => (found === null ? [] : [found]))
          : list(Rows.suppression, suppressionsAmong, [...Query.inRealm(realm), Query.texts(folded)])
      },
      page: (realm, { after, limit }) =>
        list(Rows.suppression, suppressionsOfRealm, [...Query.inRealm(realm), Query.text(after === null ? "" : foldCase(after)), Query.count(limit)])
    },
    notifications: {
      kept: ({ provider, providerMessageId }) =>
        Effect.map(keptBy([Query.textKey(provider), Query.textKey(providerMessageId)]), (found) => found ?? []),
      matched: ({ after, limit }) => {
        const [at, number] = after === null ? [Query.bigintMin, Query.bigintMin] : after.split(" ").map((part) => Query.bigint(BigInt(part)))
        return Effect.map(rows(notificationsMatched, [at!, number!, Query.count(limit)]), (found) => ({ // two parts, as the statement has them
          notifications: found.flatMap((row) => (row["record"] === null ? [] : Rows.notification.decode(row))),
          next: (found[0]?.["next"] ?? null) as string | null // a text
        }))
      }
    },
    audit: {
      page: (tenantId, limit, before) => list(Rows.audit, texts.audit, [Query.id(tenantId), Query.count(limit), below(before)]),
      requests: (tenantId, limit, before) => list(Rows.request, texts.requests, [Query.id(tenantId), Query.count(limit), below(before)]),
      payloads: (provider, limit, before) =>
        provider === null
          ? list(Rows.payload, payloads, [Query.count(limit), below(before)])
          : list(Rows.payload, payloadsOf, [Query.text(provider), Query.count(limit), below(before)])
    },
    blobs: {
      referenced: (tenantId, digests) =>
        Effect.map(
          rows(blobsReferenced, [Query.id(tenantId), Query.texts(digests)]),
          (found) => found.map((row) => row["digest"] as string) // a text
        )
    }
  }
}

const below = (number: number | undefined) => (number === undefined ? Query.bigintMax : Query.bigint(BigInt(number)))

const payloads = `select ${Rows.payload.selected()} from mailroom.payload where number < $2 order by number desc limit $1`

// No equality, which would let a plan pass by number over all that the other providers posted.
const payloadsOf = `
  select ${Rows.payload.selected()} from mailroom.payload
  where provider between $1 and $1 and number < $3
  order by provider desc, number desc limit $2`

const reservationHeld = `
  select ${Rows.reservation.selected()} from mailroom.reservation
  where application_id = $1 and idempotency_key = $2 and expires_ms > $3
  for key share`

const suppressionOf = `
  select ${Rows.suppression.selected()} from mailroom.suppression
  where tenant_id = $1 and environment = $2 and folded_address = $3`

const suppressionsAmong = `
  select ${Rows.suppression.selected("found")} from unnest($3) address
  cross join lateral (
    select * from mailroom.suppression where tenant_id = $1 and environment = $2 and folded_address = address offset 0
  ) found`

const suppressionsOfRealm = `
  select ${Rows.suppression.selected()} from mailroom.suppression
  where tenant_id = $1 and environment = $2 and folded_address > $3
  order by folded_address limit $4`

// Found, and then sorted: where there were few, a plan would look for them along the order.
const notificationsKept = `
  select json_agg(record::text order by kept_ms, number)::text as records
  from (select * from mailroom.notification where provider = $1 and provider_message_id = $2 offset 0) kept`

// At least one row, for what was looked at has an end even if nothing of it is matched.
const notificationsMatched = `
  with looked as materialized (
    select hash, provider, provider_message_id, kept_ms, number from mailroom.notification
    where (kept_ms, number) > ($1, $2) order by kept_ms, number limit $3
  )
  select ends.next, found.record from (
    select case when count(*) = $3 then (select kept_ms || ' ' || number from looked order by kept_ms desc, number desc limit 1) end as next
    from looked
  ) ends
  left join lateral (
    select (select record::text from mailroom.notification kept where kept.hash = looked.hash) as record, looked.kept_ms, looked.number
    from looked
    where (
      select true from mailroom.submission submission
      where submission.provider = looked.provider and submission.provider_message_id = looked.provider_message_id
    )
    offset 0
  ) found on true
  order by found.kept_ms, found.number`

// Scalar look-ups, which are never planned as a pass over all that the tenant has.
const blobsReferenced = `
  select digest from unnest($2) digest
  where coalesce(
    (select true from mailroom.attachment where tenant_id = $1 and sha256 = digest limit 1),
    (select true from mailroom.message where tenant_id = $1 and mime_sha256 = digest limit 1),
    false
  )`
