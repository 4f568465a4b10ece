/** Laws of the reads: what each shows, in which order, and to whom. */
import { Effect } from "effect"
import assert from "node:assert/strict"
import type { DomainId, Environment, MailboxId, Realm, TenantId } from "../core/model/Ids.ts"
import type { MailDomain } from "../core/model/MailDomain.ts"
import * as Recipients from "../core/model/Recipient.ts"
import * as Webhook from "../core/model/Webhook.ts"
import type { StoreUnavailable } from "../core/ports/Store.ts"
import * as Fixtures from "./fixtures.ts"
import {
  append,
  auditEntry,
  eventsOf,
  insert,
  insertDelivery,
  insertMessage,
  land,
  law,
  logBehind,
  next,
  realmInShard,
  requestEntry,
  reservation,
  submission,
  submissionRef,
  suppress,
  suppression,
  times,
  update
} from "./StoreLaw.ts"

/** Text that storage likes to mangle: quotes, escapes, NUL, astral and combining characters, what looks like markup. */
const awkward =
  "'\"\\ \\u0000 \u0000 \r\n\t %s $1 ? {\"a\":[null]} é e\u0301 ß İ 🏳️‍🌈 \u202e \uFEFF '; drop table message; --"

const environments: ReadonlyArray<Environment> = ["sandbox", "production"]

const fidelity = [
  law("gives back a message as it was put, with everything in it", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm("production")
      const [refused, delivered] = [Fixtures.address("mary"), Fixtures.address("Grace.Hopper+navy")]
      const ref = submissionRef()
      const message = Fixtures.message(realm, {
        createdAt: 1_796_117_400_123_457n,
        acceptedAt: 1_796_117_400_123,
        updatedAt: 1_796_117_400_124,
        from: { address: Fixtures.address(), name: awkward.replaceAll("\u0000", "") },
        replyTo: [{ address: Fixtures.address(), name: "" }],
        subject: "Ünïcode 🏳️‍🌈 'quoted' \\ \"twice\"",
        snippet: awkward.replaceAll("\u0000", ""),
        sizeBytes: 26_214_400,
        attachmentIds: [Fixtures.freshId(), Fixtures.freshId()],
        inReplyTo: "<one@example.com>",
        references: ["<one@example.com>", "<two@example.com>"],
        recipients: [
          {
            ...Recipients.make(delivered, "to", 1),
            status: "delivered",
            submission: ref,
            evidence: { delivered: { at: 2, smtpResponse: "250 2.0.0 Ok" }, bounced: null, failed: null },
            complainedAt: 3
          },
          {
            ...Recipients.make(refused, "bcc", 1),
            status: "failed",
            deferral: { smtpCode: 450, enhancedCode: null, diagnostic: "450 later" },
            evidence: {
              delivered: null,
              bounced: { at: 2, bounce: { class: "permanent", smtpCode: 550, enhancedCode: "5.1.1", diagnostic: "550 5.1.1 no such user" } },
              failed: { at: 3, failure: { stage: "provider", code: "expired", message: "gave up" } }
            }
          }
        ],
        status: "failed",
        failure: { stage: "submit", code: "expired", message: "gave up" },
        sentAt: 1_796_117_400_125,
        attempts: 3,
        nextAttemptAt: null,
        submissions: [submission(ref, { submittedAt: 5, recipients: [delivered], pollAt: null })],
        mime: { sha256: "a".repeat(64), sizeBytes: 9_007_199_254_740_991 }
      })
      const content = Fixtures.content(message, { text: awkward, html: `<p>${awkward}` }, [Fixtures.attachment(realm)])
      yield* land(store, insertMessage(message, content))

      assert.deepEqual(yield* store.messages.get(realm, message.id), message)
      assert.deepEqual(yield* store.messages.content(realm, message.id), content)
      assert.deepEqual(yield* store.messages.page(realm, { mailboxId: null, before: null, limit: 1 }), [message])
    })
  ),
  law("gives back content without what follows from the message as it was put", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm("sandbox")
      const [message, other] = [Fixtures.message(realm), Fixtures.message(realm)]
      const content = { text: awkward, html: null }
      yield* land(store, insertMessage(message, content))
      yield* land(store, insertMessage(other))
      yield* land(store, { _tag: "PutContent", realm, messageId: other.id, content })

      assert.deepEqual(yield* store.messages.content(realm, message.id), content)
      assert.deepEqual(yield* store.messages.content(realm, other.id), content)
    })
  ),
  law("gives back texts to their ends: blanks, line feeds, and nothing at all, which is a text too", (store) =>
    Effect.gen(function* () {
      for (const text of ["The engine weaves\n", "\r\n", " \t two blanks  ", "\u00a0\n\n", ""]) {
        const realm = Fixtures.realm("production")
        const [message, other] = [Fixtures.message(realm, { subject: text, snippet: text }), Fixtures.message(realm)]
        yield* land(store, insertMessage(message, Fixtures.content(message, { text, html: text })), insertMessage(other))
        yield* land(store, { _tag: "PutContent", realm, messageId: other.id, content: { text: null, html: text } })

        assert.deepEqual(yield* store.messages.get(realm, message.id), message)
        assert.deepEqual(yield* store.messages.content(realm, message.id), Fixtures.content(message, { text, html: text }))
        assert.deepEqual(yield* store.messages.content(realm, other.id), { text: null, html: text })
      }
    })
  ),
  law("gives back other records as they were put", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm("production")
      const tenant = Fixtures.tenant({ id: realm.tenantId, name: "Ünïcode 'quoted' 🏳️‍🌈", createdAt: 1_796_117_400_123 })
      const application = Fixtures.application(realm, { status: "suspended" })
      const apiKey = Fixtures.apiKey(application, {
        scopes: ["messages:send", "mailboxes:read"],
        expiresAt: 9,
        revokedAt: 8,
        lastUsedAt: 7
      })
      const domain = Fixtures.mailDomain(realm.tenantId, {
        health: "degraded",
        eventSequence: 4,
        checks: [{ record: "dkim", state: "mismatch", expected: "v=DKIM1; p=\"x\"", observed: null, since: 5 }]
      })
      const mailbox = Fixtures.mailbox(domain, { status: "suspended", displayName: "Ada 'the first' 🏳️‍🌈", eventSequence: 3 })
      const attachment = Fixtures.attachment(realm, {
        messageId: Fixtures.freshId(),
        filename: "Ünïcode 'quoted' 🏳️‍🌈.txt",
        blob: { sha256: "b".repeat(64), sizeBytes: 26_214_400 },
        disposition: "inline",
        contentId: "part@example.com",
        scanState: "error",
        scanErrors: 2,
        nextScanAt: 1_796_117_400_123,
        scannedAt: null,
        expiresAt: 1_796_117_400_124
      })
      yield* land(
        store,
        insert("tenant", tenant),
        insert("application", application),
        insert("apiKey", apiKey),
        insert("domain", domain),
        insert("mailbox", mailbox),
        insert("attachment", attachment)
      )

      assert.deepEqual(yield* store.credentials.tenant(tenant.id), tenant)
      assert.deepEqual(yield* store.credentials.application(tenant.id, application.id), application)
      assert.deepEqual(yield* store.credentials.apiKey(tenant.id, apiKey.id), apiKey)
      assert.deepEqual(yield* store.domains.get(tenant.id, domain.id), domain)
      assert.deepEqual(yield* store.mailboxes.get(tenant.id, mailbox.id), mailbox)
      assert.deepEqual(yield* store.attachments.get(realm, attachment.id), attachment)
    })
  ),
  law("gives back an event as it was put, the members of its data in their order, from which a webhook is made anew", (store) =>
    Effect.gen(function* () {
      const realm = realmInShard(7)
      const message = Fixtures.message(realm, { subject: awkward })
      const { data } = Fixtures.queuedEvent(message)
      const turned = Object.fromEntries(Object.entries(data).toReversed()) as typeof data // the same members
      const event = Fixtures.queuedEvent(message, { audience: Fixtures.freshId(), data: turned, occurredAt: 1_796_117_400_123 })

      yield* land(store, append(event))

      const [found] = yield* eventsOf(store, realm, null, 10, event.audience!)
      assert.deepEqual(found, { ...event, shard: 7, position: found!.position })
      assert.deepEqual(yield* store.events.readLog(7, found!.position - 1n, 1), [found])
      assert.equal(Webhook.bodyOf(found!, "2026-12-01"), Webhook.bodyOf(event, "2026-12-01"))

      const named = (...members: ReadonlyArray<string>) => Object.fromEntries(members.map((member) => [member, member]))
      const reasons = [named("state", "record", "observed", "expected"), named("expected", "state", "record", "observed")]
      const deep = { ...turned, reasons, actor: { type: "x", id: { to: null, from: [named("b", "a"), [named("d", "c")]] } } } // no type has all of that
      const nested = Fixtures.queuedEvent(message, { data: deep })
      yield* land(store, append(nested))

      const [last] = (yield* logBehind(store, 7, found!.position)).filter(({ id }) => id === nested.id)
      assert.equal(JSON.stringify(last!.data), JSON.stringify(deep), "at every depth")
    })
  )
]

const credentials = [
  law("finds keys by their public ids, each with its application, tenant and plan", (store) =>
    Effect.gen(function* () {
      const plan = { id: Fixtures.freshId<string>(), keyRequestsPerMinute: 1, tenantRequestsPerDay: 2, recipientsPerDay: 3 }
      const dearer = { ...plan, id: Fixtures.freshId<string>(), recipientsPerDay: 4 }
      const owners = [plan, dearer].map((of) => {
        const tenant = Fixtures.tenant({ planId: of.id })
        const application = Fixtures.application({ tenantId: tenant.id, environment: "sandbox" })
        return { plan: of, tenant, application, apiKey: Fixtures.apiKey(application) }
      })
      const others = owners.flatMap(({ tenant }) => {
        const application = Fixtures.application({ tenantId: tenant.id, environment: "production" })
        return [insert("application", application), insert("apiKey", Fixtures.apiKey(application))]
      })
      yield* land(
        store,
        { _tag: "PutPlan", plan },
        { _tag: "PutPlan", plan: dearer },
        ...others,
        ...owners.flatMap(({ tenant, application, apiKey }) => [
          insert("tenant", tenant),
          insert("application", application),
          insert("apiKey", apiKey)
        ])
      )
      const [one, two] = [owners[0]!, owners[1]!]
      const find = (publicIds: ReadonlyArray<string>) =>
        Effect.map(store.credentials.byPublicId(publicIds), (found) => new Map(found.map((one) => [one.apiKey.publicId, one])))

      assert.deepEqual(
        yield* find([two.apiKey.publicId, "00000000000", one.apiKey.publicId]),
        new Map([[one.apiKey.publicId, one], [two.apiKey.publicId, two]])
      )
      assert.deepEqual(yield* find(["00000000000"]), new Map())
      assert.deepEqual(yield* find([]), new Map())

      const lone = Fixtures.application(Fixtures.realm())
      const poor = Fixtures.tenant({ planId: Fixtures.freshId<string>() })
      const ofPoor = Fixtures.application({ tenantId: poor.id, environment: "sandbox" })
      const unknown = Fixtures.application({ tenantId: one.tenant.id, environment: "sandbox" })
      const orphans = [lone, ofPoor, unknown].map((application) => Fixtures.apiKey(application))
      yield* land(store, insert("application", lone), insert("tenant", poor), insert("application", ofPoor), ...orphans.map((key) => insert("apiKey", key)))
      assert.deepEqual(yield* find(orphans.map(({ publicId }) => publicId)), new Map(), "the tenant, the plan, the application is missing")

      const [revoked, suspended] = [next(one.apiKey, { revokedAt: 5 }), next(one.application, { status: "suspended" })]
      const moved = next(one.tenant, { planId: dearer.id })
      const changed = { ...dearer, recipientsPerDay: 99 }
      yield* land(
        store,
        update("apiKey", revoked),
        update("application", suspended),
        update("tenant", moved),
        { _tag: "PutPlan", plan: changed }
      )
      assert.deepEqual(
        yield* find([one.apiKey.publicId]),
        new Map([[one.apiKey.publicId, { apiKey: revoked, application: suspended, tenant: moved, plan: changed }]])
      )
    })
  ),
  law("tells public ids apart that differ in case only", (store) =>
    Effect.gen(function* () {
      const plan = { id: Fixtures.freshId<string>(), keyRequestsPerMinute: 1, tenantRequestsPerDay: 2, recipientsPerDay: 3 }
      const tenant = Fixtures.tenant({ planId: plan.id })
      const application = Fixtures.application({ tenantId: tenant.id, environment: "sandbox" })
      const lower = Fixtures.apiKey(application)
      const keys = ["z", "Z"].map((last) => Fixtures.apiKey(application, { publicId: `${lower.publicId.slice(0, 10)}${last}` }))
      yield* land(store, { _tag: "PutPlan", plan }, insert("tenant", tenant), insert("application", application))

      for (const key of keys) {
        yield* land(store, insert("apiKey", key))
        const found = yield* store.credentials.byPublicId([key.publicId])
        assert.deepEqual(found.map(({ apiKey }) => apiKey), [key])
      }
    })
  )
]

const mailboxes = [
  law("lists a tenant's mailboxes by address, and its domains by name with the number of their mailboxes", (store) =>
    Effect.gen(function* () {
      const tenantId = Fixtures.realm().tenantId
      const [idle, busy, quiet] = ["c", "a", "b"].map((first) =>
        // Still the name of a host.
        Fixtures.mailDomain(tenantId, { domain: `${first}-${Fixtures.domainName()}` as MailDomain["domain"] })
      ) as [MailDomain, MailDomain, MailDomain] // as many as letters
      const stranger = Fixtures.mailDomain(Fixtures.realm().tenantId)
      const box = (of: MailDomain, local: string) => Fixtures.mailbox(of, { address: Fixtures.address(local, of.domain) })
      const boxes = [box(busy, "charles"), box(quiet, "grace"), box(busy, "Mary"), { ...box(busy, "edith"), status: "suspended" } as const]
      // It names a domain that is not its tenant's.
      const astray = Fixtures.mailbox({ ...busy, tenantId: stranger.tenantId })
      yield* land(
        store,
        ...[idle, busy, quiet, stranger].map((domain) => insert("domain", domain)),
        ...[...boxes, Fixtures.mailbox(stranger), astray].map((mailbox) => insert("mailbox", mailbox))
      )

      assert.deepEqual(yield* store.mailboxes.list(tenantId), [boxes[2], boxes[0], boxes[3], boxes[1]], "capitals come first")
      assert.deepEqual(yield* store.domains.list(tenantId), [
        { domain: busy, mailboxCount: 3 },
        { domain: quiet, mailboxCount: 1 },
        { domain: idle, mailboxCount: 0 }
      ])
      assert.deepEqual(yield* store.domains.page(tenantId, { after: null, limit: 9 }), yield* store.domains.list(tenantId))
    })
  )
]

const pages = [
  law("pages messages newest first, behind an exclusive bound, up to a limit", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const messages = times(10, (index) => Fixtures.message(realm, { createdAt: BigInt(index * 10) }))
      yield* land(store, ...messages.map((message) => insertMessage(message)))
      const page = (before: bigint | null, limit: number) => store.messages.page(realm, { mailboxId: null, before, limit })
      const newestFirst = messages.toReversed()

      assert.deepEqual(yield* page(null, 100), newestFirst)
      assert.deepEqual(yield* page(null, 3), newestFirst.slice(0, 3))
      assert.deepEqual(yield* page(70n, 3), newestFirst.slice(3, 6))
      assert.deepEqual(yield* page(71n, 3), newestFirst.slice(2, 5))
      assert.deepEqual(yield* page(10n, 3), newestFirst.slice(9))
      assert.deepEqual(yield* page(0n, 3), [])
      assert.deepEqual(yield* page(1_000n, 100), newestFirst)
    })
  ),
  law("pages the messages of one mailbox alone, as they are now", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const mailboxIds = times(3, () => Fixtures.freshId<MailboxId>())
      const messages = times(9, (index) =>
        Fixtures.message(realm, { mailboxId: mailboxIds[index % 3]!, createdAt: BigInt(index) })
      )
      const changed = next(messages[4]!, { folder: "archive", isStarred: true })
      yield* land(store, ...messages.map((message) => insertMessage(message)), update("message", changed))
      const page = (mailboxId: MailboxId, before: bigint | null, limit: number) =>
        store.messages.page(realm, { mailboxId, before, limit })

      assert.deepEqual(yield* page(mailboxIds[1]!, null, 10), [messages[7], changed, messages[1]])
      assert.deepEqual(yield* page(mailboxIds[1]!, 7n, 1), [changed])
      assert.deepEqual(yield* page(mailboxIds[1]!, 3n, 10), [messages[1]])
      assert.deepEqual(yield* page(Fixtures.freshId(), null, 10), [])
    })
  )
]

const isolation = [
  ...environments.map((environment) =>
    law(`answers whoever is outside a tenant or realm (${environment}) as if nothing were there`, (store) =>
      Effect.gen(function* () {
        const realm = Fixtures.realm(environment)
        const other = Fixtures.otherEnvironment(realm)
        const stranger = Fixtures.realm()
        const application = Fixtures.application(realm)
        const apiKey = Fixtures.apiKey(application)
        const domain = Fixtures.mailDomain(realm.tenantId)
        const mailbox = Fixtures.mailbox(domain)
        const attachment = Fixtures.attachment(realm, { blob: { sha256: "c".repeat(64), sizeBytes: 1 } })
        const message = Fixtures.message(realm, { mailboxId: mailbox.id, attachmentIds: [attachment.id] })
        const endpoint = Fixtures.endpoint(realm)
        const delivery = Fixtures.delivery(endpoint, { status: "dead", nextAttemptAt: null, deadAt: 5 })
        const { applicationId } = endpoint
        yield* land(
          store,
          insert("application", application),
          insert("apiKey", apiKey),
          insert("domain", domain),
          insert("mailbox", mailbox),
          insert("attachment", attachment),
          insertMessage(message),
          insert("endpoint", endpoint),
          insertDelivery(delivery),
          append(Fixtures.queuedEvent(message)),
          suppress(suppression(realm)),
          { _tag: "AppendAudit", entry: auditEntry(realm) },
          { _tag: "AppendRequests", entries: [requestEntry(realm)] }
        )
        const ofRealm: Readonly<Record<string, (realm: Realm) => Effect.Effect<unknown, StoreUnavailable>>> = {
          "messages.get": (by) => store.messages.get(by, message.id),
          "messages.content": (by) => store.messages.content(by, message.id),
          "messages.page": (by) => store.messages.page(by, { mailboxId: null, before: null, limit: 10 }),
          "messages.page, of a mailbox": (by) => store.messages.page(by, { mailboxId: mailbox.id, before: null, limit: 10 }),
          "messages.outbound": (by) => store.messages.outbound(by, message.id),
          "messages.queuedWith": (by) => store.messages.queuedWith(by, attachment.id),
          "attachments.get": (by) => store.attachments.get(by, attachment.id),
          "attachments.many": (by) => store.attachments.many(by, [attachment.id]),
          "endpoints.get": (by) => store.endpoints.get(by, endpoint.id),
          "endpoints.list": (by) => store.endpoints.list(by, applicationId),
          "deliveries.get": (by) => store.deliveries.get(by, delivery.id),
          "deliveries.body": (by) => store.deliveries.body(by, delivery.id),
          "deliveries.outgoing": (by) => store.deliveries.outgoing(by, delivery.id),
          "deliveries.page": (by) => store.deliveries.page(by, { applicationId, endpointId: null, limit: 10 }),
          "deliveries.page, of an endpoint": (by) =>
            store.deliveries.page(by, { applicationId, endpointId: endpoint.id, limit: 10 }),
          "deliveries.deadSince": (by) => store.deliveries.deadSince(by, endpoint.id, 0, 10),
          "events.page": (by) => eventsOf(store, by, null, 10, application.id),
          "suppressions.among": (by) => store.suppressions.among(by, [Fixtures.address()]),
          "suppressions.page": (by) => store.suppressions.page(by, { after: null, limit: 10 })
        }
        const ofTenant: typeof ofRealm = {
          "credentials.apiKey": (by) => store.credentials.apiKey(by.tenantId, apiKey.id),
          "credentials.application": (by) => store.credentials.application(by.tenantId, application.id),
          "mailboxes.get": (by) => store.mailboxes.get(by.tenantId, mailbox.id),
          "mailboxes.list": (by) => store.mailboxes.list(by.tenantId),
          "mailboxes.page": (by) => store.mailboxes.page(by.tenantId, { domainId: null, after: null, limit: 10 }),
          "mailboxes.page, of a domain": (by) => store.mailboxes.page(by.tenantId, { domainId: domain.id, after: null, limit: 10 }),
          "domains.get": (by) => store.domains.get(by.tenantId, domain.id),
          "domains.list": (by) => store.domains.list(by.tenantId),
          "domains.page": (by) => store.domains.page(by.tenantId, { after: null, limit: 10 }),
          "endpoints.enabled": (by) => store.endpoints.enabled([by.tenantId]),
          "audit.page": (by) => store.audit.page(by.tenantId, 10),
          "audit.requests": (by) => store.audit.requests(by.tenantId, 10),
          "blobs.referenced": (by) => store.blobs.referenced(by.tenantId, [attachment.blob.sha256])
        }
        const isNothing = (answer: unknown) => answer === null || (Array.isArray(answer) && answer.length === 0)

        for (const [name, read] of Object.entries({ ...ofRealm, ...ofTenant })) {
          assert.ok(!isNothing(yield* read(realm)), `${name} shows its own nothing`)
          assert.ok(isNothing(yield* read(stranger)), `${name} shows something to another tenant`)
          assert.deepEqual(yield* read(stranger), yield* read(Fixtures.realm()), name)
        }
        for (const [name, read] of Object.entries(ofRealm)) {
          assert.ok(isNothing(yield* read(other)), `${name} shows something to the other environment`)
        }
        for (const [name, read] of Object.entries(ofTenant)) {
          assert.ok(!isNothing(yield* read(other)), `${name} belongs to the tenant, in both environments`)
        }
      })
    )
  ),
  law("answers null or nothing for ids that name nothing", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()

      assert.equal(yield* store.credentials.tenant(realm.tenantId), null)
      const typed = "no id at all" as TenantId & MailboxId & DomainId // as an operator may type it
      assert.equal(yield* store.credentials.tenant(typed), null)
      assert.equal(yield* store.mailboxes.get(realm.tenantId, typed), null)
      assert.equal(yield* store.domains.get(realm.tenantId, typed), null)
      assert.equal(yield* store.messages.bySubmission(submissionRef()), null)
      assert.deepEqual(yield* store.notifications.kept(submissionRef()), [])
      assert.equal(yield* store.reservations.get(Fixtures.freshId(), reservation().idempotencyKey, 0), null)
      assert.deepEqual(yield* store.attachments.many(realm, []), [])
      assert.deepEqual(yield* store.suppressions.among(realm, []), [])
      assert.deepEqual(yield* store.endpoints.enabled([]), [])
      assert.deepEqual(yield* store.deliveries.deadSince(realm, Fixtures.freshId(), 0, 10), [])
      assert.deepEqual(yield* store.blobs.referenced(realm.tenantId, []), [])
      assert.equal(yield* store.messages.anywhere(Fixtures.freshId()), null)
    })
  )
]

export const reads = [...fidelity, ...credentials, ...mailboxes, ...pages, ...isolation]
