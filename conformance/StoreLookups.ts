/** Laws of the smaller reads: what refers to what, and what is noted about addresses, submissions, requests and keys. */
import { Effect } from "effect"
import assert from "node:assert/strict"
import type { Address } from "../core/model/Address.ts"
import type { ApiKey } from "../core/model/ApiKey.ts"
import type { ApiKeyId } from "../core/model/Ids.ts"
import type { Message } from "../core/model/Message.ts"
import type { Notification } from "../core/model/Notification.ts"
import * as Recipients from "../core/model/Recipient.ts"
import type { Change } from "../core/ports/Store.ts"
import * as Fixtures from "./fixtures.ts"
import {
  append,
  auditEntry,
  drop,
  eventsOf,
  insert,
  insertMessage,
  keep,
  keepPayload,
  land,
  law,
  next,
  notification,
  payload,
  remove,
  requestEntry,
  submission,
  submissionRef,
  suppress,
  suppression,
  unsuppress,
  times,
  unnumbered,
  update
} from "./StoreLaw.ts"

/** The ids of what a read found, sorted. */
const idsOf = <E>(read: Effect.Effect<ReadonlyArray<{ readonly id: string }>, E>): Effect.Effect<ReadonlyArray<string>, E> =>
  Effect.map(read, (found) => found.map(({ id }) => id).sort())

const references = [
  law("pages events from the first of a time or later, whatever has occurred before what an earlier commit brought", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      for (const occurredAt of [100, 300, 200, 250, 400]) {
        yield* land(store, append(Fixtures.queuedEvent(Fixtures.message(realm), { occurredAt })))
      }
      const since = (at: number) =>
        Effect.map(eventsOf(store, realm, { _tag: "Since", at }, 100), (found) =>
          found.map(({ occurredAt }) => occurredAt)
        )

      assert.deepEqual(yield* since(200), [300, 200, 250, 400])
      assert.deepEqual(yield* since(250), [300, 200, 250, 400])
      assert.deepEqual(yield* since(301), [400])
    })
  ),
  law("finds a message by the names that providers took it under", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const [first, second] = [submissionRef(), submissionRef()]
      const message = Fixtures.message(realm)
      const once = next(message, { submissions: [submission(first)] })
      const twice = next(once, { submissions: [submission(first), submission(second)] })
      yield* land(store, insertMessage(message), insertMessage(Fixtures.message(realm)), update("message", once))
      assert.deepEqual(yield* store.messages.bySubmission(first), once)
      assert.equal(yield* store.messages.bySubmission(second), null)
      yield* land(store, update("message", twice))

      assert.deepEqual(yield* store.messages.bySubmission(first), twice)
      assert.deepEqual(yield* store.messages.bySubmission(second), twice)
      assert.equal(yield* store.messages.bySubmission({ ...first, provider: "another" }), null)
    })
  ),
  law("finds by a name that was given twice the message that was given it last", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const ref = submissionRef()
      const [one, other] = times(2, () => Fixtures.message(realm))
      yield* land(store, insertMessage(one!), insertMessage(other!))

      for (const message of [one!, other!]) {
        yield* land(store, update("message", next(message, { submissions: [submission(ref)] })))
        assert.equal((yield* store.messages.bySubmission(ref))?.id, message.id)
      }
    })
  ),
  law("finds a message by each of its names, though they differ only in what no text may hold", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const ref = submissionRef()
      const refs = ["\u0000", "\ud800", "\udc00"].map((end) => ({ ...ref, providerMessageId: ref.providerMessageId + end }))
      const message = Fixtures.message(realm)
      yield* land(store, insertMessage(message))

      yield* land(store, update("message", next(message, { submissions: refs.map((one) => submission(one)) })))

      for (const one of refs) assert.equal((yield* store.messages.bySubmission(one))?.id, message.id)
    })
  ),
  law("finds the messages that use an attachment while a recipient of theirs is queued", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const [attachmentId, unrelated] = [Fixtures.attachment(realm).id, Fixtures.attachment(realm).id]
      const queued = Recipients.make(Fixtures.address("mary"), "to", 0)
      const gone = { ...Recipients.make(Fixtures.address("charles"), "to", 0), status: "sent" as const }
      const make = (recipients: Message["recipients"], attachmentIds = [unrelated, attachmentId]) =>
        Fixtures.message(realm, { recipients, attachmentIds })
      const [one, two, sent, other] = [make([queued]), make([gone, queued]), make([gone]), make([queued], [unrelated])]
      yield* land(store, ...[one, two, sent, other].map((message) => insertMessage(message)))
      const found = idsOf(store.messages.queuedWith(realm, attachmentId))

      assert.deepEqual(yield* found, [one.id, two.id].sort())
      yield* land(store, update("message", next(two, { recipients: [gone, { ...queued, status: "failed" }] })))
      assert.deepEqual(yield* found, [one.id])
      yield* land(store, update("message", next(one, { isRead: false })))
      assert.deepEqual(yield* found, [one.id])
      assert.deepEqual(yield* idsOf(store.messages.queuedWith(realm, unrelated)), [one.id, other.id].sort())
    })
  ),
  law("gives attachments in the order of the ids, and leaves out those that do not exist", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const attachments = times(4, () => Fixtures.attachment(realm))
      const foreign = Fixtures.attachment(Fixtures.otherEnvironment(realm))
      yield* land(store, ...[...attachments, foreign].map((attachment) => insert("attachment", attachment)))

      for (const order of [[0, 1, 2, 3], [3, 1, 0, 2], [2, 0]]) {
        const wanted = order.map((index) => attachments[index]!)
        const ids = [Fixtures.freshId<typeof foreign.id>(), ...wanted.map(({ id }) => id), foreign.id]
        assert.deepEqual(yield* store.attachments.many(realm, ids), wanted)
      }
    })
  ),
  law("names the blobs of a tenant that an attachment or a message refers to", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const [first, second, mime, later, none] = ["1", "2", "3", "4", "5"].map((digit) => ({
        sha256: digit.repeat(64),
        sizeBytes: 1
      }))
      const one = Fixtures.attachment(realm, { blob: first! })
      const twin = Fixtures.attachment(Fixtures.otherEnvironment(realm), { blob: first! })
      const message = Fixtures.message(realm)
      yield* land(
        store,
        ...[one, twin, Fixtures.attachment(realm, { blob: second! })].map((attachment) => insert("attachment", attachment)),
        insertMessage(Fixtures.message(realm, { mime: mime! })),
        insertMessage(message),
        insert("attachment", Fixtures.attachment(Fixtures.realm(), { blob: none! }))
      )
      const all = [first, second, mime, later, none].map((blob) => blob!.sha256)
      const referenced = Effect.map(store.blobs.referenced(realm.tenantId, all), (found) => found.toSorted())

      assert.deepEqual(yield* referenced, [first!.sha256, second!.sha256, mime!.sha256])
      yield* land(store, update("message", next(message, { mime: later! })))
      assert.deepEqual(yield* referenced, [first!.sha256, second!.sha256, mime!.sha256, later!.sha256])
      yield* land(store, remove("attachment", one))
      assert.deepEqual(yield* referenced, [first!.sha256, second!.sha256, mime!.sha256, later!.sha256], "the twin uses it still")
      yield* land(store, remove("attachment", twin))
      assert.deepEqual(yield* referenced, [second!.sha256, mime!.sha256, later!.sha256])
      assert.deepEqual(yield* store.blobs.referenced(realm.tenantId, [mime!.sha256]), [mime!.sha256])
    })
  )
]

const notes = [
  law("says which addresses are suppressed, in folded case, each once", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm("production")
      const [bounced, complained] = [
        suppression(realm, { address: Fixtures.address("Ada"), createdAt: 5 }),
        suppression(realm, { address: Fixtures.address("mary"), reason: "complaint" })
      ]
      const outside = [Fixtures.otherEnvironment(realm), Fixtures.realm("production")].flatMap((other) =>
        ["ada", "charles"].map((local) => suppress(suppression(other, { address: Fixtures.address(local) })))
      )
      yield* land(store, suppress(bounced), suppress(complained), ...outside)
      const among = (...locals: ReadonlyArray<string>) =>
        Effect.map(store.suppressions.among(realm, locals.map((local): Address => Fixtures.address(local))), (found) =>
          found.toSorted((left, right) => (left.address < right.address ? -1 : 1))
        )

      assert.deepEqual(yield* among("ada", "charles", "mary"), [bounced, complained])
      assert.deepEqual(yield* among("ADA", "ada", "aDa"), [bounced])
      assert.deepEqual(yield* among("MARY"), [complained])
      assert.deepEqual(yield* among("charles", "ad", "adaa"), [])
    })
  ),
  law("suppresses an address once: the first reason stays", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm("production")
      const first = suppression(realm, { address: Fixtures.address("Ada"), createdAt: 5 })
      const again = suppression(realm, { address: Fixtures.address("ada"), reason: "complaint", createdAt: 6 })
      yield* land(store, suppress(first), suppress(again))
      yield* land(store, suppress(again))

      assert.deepEqual(yield* store.suppressions.among(realm, [Fixtures.address()]), [first])
    })
  ),
  law("lifts a suppression, whoever spells it how, and takes another after it", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm("production")
      const [first, other] = [suppression(realm, { address: Fixtures.address("Ada") }), suppression(realm, { address: Fixtures.address("mary") })]
      const manual = suppression(realm, { reason: "manual", messageId: null, createdAt: 6 })
      const listed = store.suppressions.page(realm, { after: null, limit: 10 })
      yield* land(store, suppress(first), suppress(other))

      yield* land(store, unsuppress(Fixtures.otherEnvironment(realm), first.address), unsuppress(Fixtures.realm("production"), first.address))
      assert.deepEqual(yield* listed, [first, other])
      yield* land(store, unsuppress(realm, Fixtures.address("ADA")), unsuppress(realm, Fixtures.address("nobody")))
      assert.deepEqual(yield* listed, [other])
      assert.deepEqual(yield* store.suppressions.among(realm, [first.address]), [])
      const elsewhere = [Fixtures.otherEnvironment(realm), Fixtures.realm("production")].map((one) => suppression(one, { address: first.address }))
      yield* land(store, suppress(first), ...elsewhere.map(suppress))
      yield* land(store, unsuppress(realm, first.address))
      for (const one of elsewhere) assert.deepEqual(yield* store.suppressions.among(one, [first.address]), [one])
      yield* land(store, suppress(first), unsuppress(realm, Fixtures.address("aDA")), suppress(manual), unsuppress(realm, other.address))
      assert.deepEqual(yield* listed, [manual])
      yield* land(store, unsuppress(realm, manual.address), suppress(first), suppress(manual))
      assert.deepEqual(yield* listed, [first], "of one commit as of several")
    })
  ),
  law("lists a realm's suppressions by folded address, page by page", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm("production")
      const own = ["a-b", "Ada", "B1", "b", "c_d", "Z"].map((local) => suppression(realm, { address: Fixtures.address(local) }))
      const foreign = [Fixtures.otherEnvironment(realm), Fixtures.realm("production")].map((of) => suppression(of))
      yield* land(store, ...[...own.toReversed(), ...foreign].map(suppress))
      const page = (after: Address | null, limit: number) => store.suppressions.page(realm, { after, limit })

      assert.deepEqual(yield* page(null, 10), own)
      assert.deepEqual(yield* page(null, 2), own.slice(0, 2))
      assert.deepEqual(yield* page(own[1]!.address, 3), own.slice(2, 5))
      assert.deepEqual(yield* page(Fixtures.address("B"), 10), own.slice(4), "a place need not be there")
      assert.deepEqual(yield* page(own.at(-1)!.address, 10), [])
    })
  ),
  law("keeps notifications for a submission, oldest first and each once, until they are dropped", (store) =>
    Effect.gen(function* () {
      const [ref, other] = [submissionRef(), submissionRef()]
      const delivered = notification(ref)
      const bounced = notification(ref, {
        recipient: null,
        outcome: {
          _tag: "Bounced",
          at: 3,
          class: "permanent",
          smtpCode: 550,
          enhancedCode: "5.1.1",
          diagnostic: "no \"such\" user"
        }
      })
      const failed = notification(ref, { outcome: { _tag: "Failed", at: 1, code: "expired", message: "gave up" } })
      yield* land(store, keep(bounced, 10), keep(notification(other), 5))
      yield* land(store, keep(delivered, 20), keep(bounced, 25))
      yield* land(store, keep(failed, 30))

      const kept = yield* store.notifications.kept(ref)
      assert.deepEqual(kept, [bounced, delivered, failed])
      yield* land(store, drop(kept[0]!), drop(notification(submissionRef())))
      assert.deepEqual(yield* store.notifications.kept(ref), [delivered, failed])
      yield* land(store, drop(delivered), drop(failed))
      yield* land(store, keep(delivered, 20))
      yield* land(store, keep(failed, 10), keep(bounced, 20))
      assert.deepEqual(yield* store.notifications.kept(ref), [failed, delivered, bounced], "by when they were kept, then by commit")
      yield* land(store, drop(delivered), drop(failed), drop(bounced))

      assert.deepEqual(yield* store.notifications.kept(ref), [])
      assert.deepEqual(yield* store.notifications.kept(other), [notification(other)])
      assert.deepEqual(yield* store.notifications.kept({ ...other, provider: "another" }), [])
    })
  ),
  law("names the kept notifications whose submission is known by now", (store) =>
    Effect.gen(function* () {
      const [known, unknown] = [submissionRef(), submissionRef()]
      const message = Fixtures.message(Fixtures.realm())
      const of = (ref: typeof known) =>
        times(3, (at) => notification(ref, { outcome: { _tag: "Delivered", at, smtpResponse: null } }))
      const all = [...of(known), ...of(unknown), ...of({ ...known, provider: "another" })]
      const page = (after: string | null, limit: number) => store.notifications.matched({ after, limit })
      const walk = (limit: number) =>
        Effect.gen(function* () {
          const found: Array<Notification> = []
          let after: string | null = null
          do {
            const looked: Effect.Success<ReturnType<typeof page>> = yield* page(after, limit)
            found.push(...looked.notifications)
            after = looked.next
          } while (after !== null)
          return found
        })
      const matched = Effect.map(walk(10_000), (found) =>
        found
          .filter(({ providerMessageId }) => [known, unknown].some((ref) => ref.providerMessageId === providerMessageId))
          .toSorted((left, right) => left.outcome.at - right.outcome.at)
      )
      yield* land(store, ...all.map((one) => keep(one, 0)), insertMessage(message))
      assert.deepEqual(yield* matched, [])

      yield* land(store, update("message", next(message, { submissions: [submission(known)] })))

      assert.deepEqual(yield* matched, of(known))
      assert.deepEqual(yield* walk(2), yield* walk(10_000))
      assert.equal((yield* page(null, 10_000)).next, null, "nothing is behind")
      const first = yield* page(null, 1)
      assert.ok(first.notifications.length <= 1 && first.next !== null, "so many are looked at, whether they are matched or not")
      yield* land(store, ...all.map(drop))
      assert.deepEqual(yield* matched, [])
    })
  ),
  law("pages the audit trail and the request log of a tenant newest first", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const of = (at: number) => (at === 2 ? Fixtures.otherEnvironment(realm) : realm)
      // The newest is the one that was appended last, whatever its clock said.
      const entries = times(5, (index) => auditEntry(of(index), { at: 4 - index }))
      const whole = auditEntry(realm, {
        at: 0,
        environment: null,
        requestId: null,
        clientAddress: null,
        actor: { type: "operator", id: "root" }
      })
      const requests = times(5, (index) => requestEntry(of(index), { at: 4 - index, code: index === 3 ? "not_found" : null }))
      for (const entry of [...entries, whole]) yield* land(store, { _tag: "AppendAudit", entry })
      yield* land(store, { _tag: "AppendRequests", entries: [...requests.slice(0, 3), requestEntry(Fixtures.realm())] })
      yield* land(store, { _tag: "AppendRequests", entries: requests.slice(3) }, { _tag: "AppendRequests", entries: [] })

      const audit = (limit: number, before?: number) => store.audit.page(realm.tenantId, limit, before)
      const log = (limit: number, before?: number) => store.audit.requests(realm.tenantId, limit, before)
      assert.deepEqual(unnumbered(yield* audit(10)), [whole, ...entries.toReversed()])
      assert.deepEqual(unnumbered(yield* log(10)), requests.toReversed())
      const [newest, request] = [yield* audit(2), yield* log(2)]
      assert.deepEqual(unnumbered(newest), [whole, entries[4]])
      assert.deepEqual(unnumbered(request), [requests[4], requests[3]])
      yield* land(store, { _tag: "AppendAudit", entry: auditEntry(realm, { at: 9 }) }, { _tag: "AppendRequests", entries: [requestEntry(realm, { at: 9 })] })
      assert.deepEqual(unnumbered(yield* audit(2, newest[1]!.number)), [entries[3], entries[2]], "what comes meanwhile moves no page")
      assert.deepEqual(unnumbered(yield* log(9, request[1]!.number)), [requests[2], requests[1], requests[0]])
      assert.deepEqual([yield* audit(9, 0), yield* log(9, 0)], [[], []])
    })
  ),
  law("keeps what a provider posted once, and shows it newest first, whosever it is", (store) =>
    Effect.gen(function* () {
      const [{ provider }, { provider: another }] = [payload(), payload()]
      const posted = times(4, (at) => payload({ provider, receivedAt: 3 - at, notifications: at }))
      const same = payload({ provider: another, id: posted[0]!.id })
      for (const one of posted) yield* land(store, keepPayload(one))
      yield* land(store, keepPayload(same), keepPayload({ ...posted[1]!, text: "again" }), keepPayload({ ...same, kind: "again" }))
      yield* land(store, keepPayload({ ...posted[2]!, text: "again" }))

      const newest = yield* store.audit.payloads(provider, 2)
      assert.deepEqual(unnumbered(yield* store.audit.payloads(provider, 10)), posted.toReversed())
      assert.deepEqual(unnumbered(newest), [posted[3], posted[2]])
      assert.deepEqual(unnumbered(yield* store.audit.payloads(provider, 10, newest[1]!.number)), [posted[1], posted[0]])
      assert.deepEqual(unnumbered(yield* store.audit.payloads(another, 10)), [same])
      const all = (yield* store.audit.payloads(null, 1_000)).filter((one) => [provider, another].includes(one.provider))
      assert.deepEqual(unnumbered(all), [same, ...posted.toReversed()])
      const older = (yield* store.audit.payloads(null, 1_000, newest[1]!.number)).filter((one) => one.provider === provider)
      assert.deepEqual(unnumbered(older), [posted[1], posted[0]])
      assert.deepEqual(yield* store.audit.payloads(payload().provider, 10), [])
    })
  ),
  law("raises a key's time of last use, never lowers it, and makes no new version of it", (store) =>
    Effect.gen(function* () {
      const application = Fixtures.application(Fixtures.realm())
      const [one, two] = [Fixtures.apiKey(application), Fixtures.apiKey(application, { lastUsedAt: 50 })]
      const unknown = Fixtures.apiKey(application)
      yield* land(store, insert("apiKey", one), insert("apiKey", two))
      const touch = (...used: ReadonlyArray<readonly [{ readonly id: typeof one.id }, number]>) =>
        land(store, { _tag: "TouchApiKeys", used: used.map(([{ id }, at]) => ({ id, at })) })
      const lastUsed = (key: typeof one) =>
        Effect.map(store.credentials.apiKey(key.tenantId, key.id), (found) => {
          assert.equal(found?.version, 1)
          return found.lastUsedAt
        })

      yield* touch([one, 0], [unknown, 100], [two, 40])
      assert.deepEqual([yield* lastUsed(one), yield* lastUsed(two)], [0, 50])
      yield* touch([one, 10], [two, 60])
      yield* touch([one, 5])
      assert.deepEqual([yield* lastUsed(one), yield* lastUsed(two)], [10, 60])

      assert.equal(yield* store.credentials.apiKey(unknown.tenantId, unknown.id), null)
      yield* land(store, update("apiKey", next(one, { revokedAt: 70, lastUsedAt: 10 })))
    })
  ),
  law("takes the latest of a key's last uses in one commit, in whatever order they are there", (store) =>
    Effect.gen(function* () {
      const [one, two] = times(2, () => Fixtures.apiKey(Fixtures.application(Fixtures.realm())))
      yield* land(store, insert("apiKey", one!), insert("apiKey", two!))
      const touch = (id: ApiKeyId, at: number): Change => ({ _tag: "TouchApiKeys", used: [{ id, at }] })
      const renewed = next(two!, { lastUsedAt: 30 })

      yield* land(store, touch(one!.id, 20), touch(one!.id, 10), update("apiKey", renewed), touch(two!.id, 25))

      assert.deepEqual(yield* store.credentials.apiKey(one!.tenantId, one!.id), { ...one, lastUsedAt: 20 })
      assert.deepEqual(yield* store.credentials.apiKey(two!.tenantId, two!.id), renewed)
    })
  ),
  law("takes a key's last use and a new version of it in one commit, in their order", (store) =>
    Effect.gen(function* () {
      const [one, two] = times(2, () => Fixtures.apiKey(Fixtures.application(Fixtures.realm())))
      yield* land(store, insert("apiKey", one!), insert("apiKey", two!))
      const touch = (id: ApiKeyId): Change => ({ _tag: "TouchApiKeys", used: [{ id, at: 20 }] })
      const revoked = (key: ApiKey) => next(key, { revokedAt: 30, lastUsedAt: 10 })

      yield* land(store, touch(one!.id), update("apiKey", revoked(one!)), update("apiKey", revoked(two!)), touch(two!.id))

      assert.deepEqual(yield* store.credentials.apiKey(one!.tenantId, one!.id), revoked(one!))
      assert.deepEqual(yield* store.credentials.apiKey(two!.tenantId, two!.id), { ...revoked(two!), lastUsedAt: 20 })
    })
  )
]

export const lookups = [...references, ...notes]
