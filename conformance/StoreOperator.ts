/** Laws of the reads that an operator has: what there is of each kind, over all tenants where a tool needs it, and what waits. */
import { Effect } from "effect"
import assert from "node:assert/strict"
import type { Millis } from "../core/model/Ids.ts"
import type { Plan } from "../core/model/Limits.ts"
import type { Mailbox } from "../core/model/Mailbox.ts"
import type { MailDomain } from "../core/model/MailDomain.ts"
import * as Fixtures from "./fixtures.ts"
import {
  append,
  insert,
  insertDelivery,
  insertMessage,
  land,
  law,
  logBehind,
  moveRelay,
  next,
  ownAge,
  realmInShard,
  relayBehind,
  submission,
  submissionRef,
  times,
  update
} from "./StoreLaw.ts"
import { inbound, reception } from "./StoreReceiving.ts"
import { catchUp } from "./StoreRelay.ts"

/** What a paged read shows behind a place, page by page, in strictly rising order of the ids. */
const walk = Effect.fnUntraced(function* <A extends { readonly id: string }, E>(
  read: (after: A["id"] | null, limit: number) => Effect.Effect<ReadonlyArray<A>, E>,
  begin: A["id"] | null = null
) {
  const limit = 100
  const all: Array<A> = []
  for (;;) {
    const page: ReadonlyArray<A> = yield* read(all.at(-1)?.id ?? begin, limit)
    if (page.length === 0) return all
    assert.ok(page.length <= limit, "a page is no longer than its limit")
    for (const one of page) {
      const last = all.at(-1)?.id ?? begin
      assert.ok(last === null || one.id > last, "a page begins behind its place, and is in order")
      all.push(one)
    }
  }
})

const byId = <A extends { readonly id: string }>(list: ReadonlyArray<A>): ReadonlyArray<A> =>
  list.toSorted((left, right) => (left.id < right.id ? -1 : 1))

/** In an order that is that of their ids neither way. */
const shuffled = <A extends { readonly id: string }>(list: ReadonlyArray<A>): ReadonlyArray<A> => {
  const sorted = byId(list)
  return [...sorted.filter((_, index) => index % 2 === 1).toReversed(), ...sorted.filter((_, index) => index % 2 === 0)]
}

/** Those of a list that are also in another. */
const among = <A extends { readonly id: string }>(found: ReadonlyArray<A>, own: ReadonlyArray<A>): ReadonlyArray<A> => {
  const ids = new Set(own.map(({ id }) => id))
  return found.filter(({ id }) => ids.has(id))
}

const listings = [
  law("pages a tenant's mailboxes by address, or those of a domain, and its domains by name, behind a place and up to a limit", (store) =>
    Effect.gen(function* () {
      const tenantId = Fixtures.realm().tenantId
      const [one, two, idle] = ["a-z", "ab", "c"].map((first) => // in an order that passes over hyphens, the second comes first
        // Still the name of a host.
        Fixtures.mailDomain(tenantId, { domain: `${first}-${Fixtures.domainName()}` as MailDomain["domain"] })
      ) as [MailDomain, MailDomain, MailDomain] // as many as letters
      const stranger = Fixtures.mailDomain(Fixtures.realm().tenantId)
      const boxes = times(7, (index) => {
        const of = index % 3 === 2 ? two : one
        return Fixtures.mailbox(of, { address: Fixtures.address(`${"BDFaceg"[index]}`, of.domain) }) // capitals come first
      })
      yield* land(
        store,
        ...[two, stranger, idle, one].map((domain) => insert("domain", domain)),
        ...[...boxes.toReversed(), Fixtures.mailbox(stranger, { address: Fixtures.address("C", stranger.domain) })].map((mailbox) => insert("mailbox", mailbox))
      )
      const page = (after: Mailbox | null, limit: number, domainId: MailDomain["id"] | null = null) =>
        store.mailboxes.page(tenantId, { domainId, after: after?.address ?? null, limit })

      assert.deepEqual(yield* page(null, 100), boxes)
      assert.deepEqual(yield* page(null, 3), boxes.slice(0, 3))
      assert.deepEqual(yield* page(boxes[2]!, 3), boxes.slice(3, 6))
      assert.deepEqual(yield* page(boxes[6]!, 3), [])
      assert.deepEqual(yield* page(null, 1, two.id), [boxes[2]])
      assert.deepEqual(yield* page(boxes[2]!, 5, two.id), [boxes[5]])
      assert.deepEqual(yield* page(boxes[2]!, 2, one.id), boxes.slice(3, 5))
      for (const none of [idle, stranger]) assert.deepEqual(yield* page(null, 5, none.id), [])

      const domains = (after: MailDomain | null, limit: number) => store.domains.page(tenantId, { after: after?.domain ?? null, limit })
      const counted = yield* store.domains.list(tenantId)
      assert.deepEqual(counted.map(({ mailboxCount }) => mailboxCount), [5, 2, 0])
      assert.deepEqual(yield* domains(null, 100), counted)
      assert.deepEqual(yield* domains(null, 2), counted.slice(0, 2))
      assert.deepEqual(yield* domains(one, 1), counted.slice(1, 2))
      assert.deepEqual(yield* domains(idle, 1), [])
    })
  ),
  law("lists all tenants by id, page by page, each as it is now", (store) =>
    Effect.gen(function* () {
      const tenants = byId(times(5, (index) => Fixtures.tenant({ createdAt: 5 - index })))
      for (const tenant of tenants.toReversed()) yield* land(store, insert("tenant", tenant))
      const suspended = next(tenants[2]!, { status: "suspended", name: "Difference Engines" })
      yield* land(store, update("tenant", suspended))
      const now = tenants.with(2, suspended)
      const read = (after: (typeof suspended)["id"] | null, limit: number) => store.credentials.tenants({ after, limit })

      const all = yield* walk(read)
      assert.deepEqual(among(all, now), now)
      for (const { id } of now) {
        const behind = all.filter((tenant) => tenant.id > id)
        assert.deepEqual(yield* walk(read, id), behind)
        assert.deepEqual(yield* read(id, 2), behind.slice(0, 2))
      }
      assert.deepEqual(yield* read(null, 1), all.slice(0, 1))
      assert.deepEqual(yield* read(all.at(-1)!.id, 1), [])
    })
  ),
  law("lists a tenant's applications of both environments, oldest first, of one time by id", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const [first, second] = byId(times(2, () => Fixtures.application(realm, { createdAt: 10 })))
      const newest = Fixtures.application(Fixtures.otherEnvironment(realm), { createdAt: 11 })
      const oldest = Fixtures.application(realm, { createdAt: -5 })
      const foreign = Fixtures.application(Fixtures.realm())
      yield* land(store, ...[newest, second!, first!, oldest, foreign].map((one) => insert("application", one)))
      const listed = store.credentials.applications(realm.tenantId)

      assert.deepEqual(yield* listed, [oldest, first, second, newest])
      const renamed = next(first!, { name: "Ledger", status: "suspended" })
      yield* land(store, update("application", renamed))
      assert.deepEqual(yield* listed, [oldest, renamed, second, newest])
      assert.deepEqual(yield* store.credentials.applications(foreign.tenantId), [foreign])
      assert.deepEqual(yield* store.credentials.applications(Fixtures.realm().tenantId), [])
    })
  ),
  law("lists a tenant's keys of all its applications, oldest first, of one time by id, each as it was last used", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const [one, two] = [Fixtures.application(realm), Fixtures.application(Fixtures.otherEnvironment(realm))]
      const [first, second] = byId([Fixtures.apiKey(one, { createdAt: 10 }), Fixtures.apiKey(two, { createdAt: 10 })])
      const newest = Fixtures.apiKey(one, { createdAt: 11, revokedAt: 12 })
      const oldest = Fixtures.apiKey(two, { createdAt: -5 })
      const foreign = Fixtures.apiKey(Fixtures.application(Fixtures.realm()))
      yield* land(store, ...[newest, second!, first!, oldest, foreign].map((key) => insert("apiKey", key)))
      const listed = store.credentials.apiKeys(realm.tenantId)

      assert.deepEqual(yield* listed, [oldest, first, second, newest])
      const revoked = next(first!, { revokedAt: 20 })
      yield* land(store, update("apiKey", revoked), { _tag: "TouchApiKeys", used: [{ id: second!.id, at: 30 }] })
      assert.deepEqual(yield* listed, [oldest, revoked, { ...second, lastUsedAt: 30 }, newest])
      assert.deepEqual(yield* store.credentials.apiKeys(foreign.tenantId), [foreign])
    })
  ),
  law("lists the plans by id, each as it was put last", (store) =>
    Effect.gen(function* () {
      const make = (): Plan => ({ id: Fixtures.freshId(), keyRequestsPerMinute: 1, tenantRequestsPerDay: 2, recipientsPerDay: 3 })
      const [first, second, third] = byId(times(3, make))
      const put = (...plans: ReadonlyArray<Plan>) => land(store, ...plans.map((plan) => ({ _tag: "PutPlan", plan }) as const))
      const more = { ...second!, recipientsPerDay: 1_000_000 }
      yield* put(third!, second!, first!)
      yield* put(more)

      const plans = yield* store.credentials.plans
      assert.deepEqual(among(plans, [first!, more, third!]), [first, more, third])
      assert.deepEqual(plans, byId(plans))
    })
  ),
  law("lists the endpoints of all tenants whose secret is sealed by an older key, by id, page by page", (store) =>
    Effect.gen(function* () {
      const [realm, other] = [Fixtures.realm(), Fixtures.realm("production")]
      const sealed = (version: number) => ({ secret: { version, iv: "AAAA", ciphertext: "AAAA", tag: "AAAA" } })
      const endpoints = byId(
        times(12, (index) =>
          Fixtures.endpoint(index % 2 === 0 ? realm : other, { ...sealed(1 + (index % 4)), enabled: index % 3 > 0 })
        )
      )
      yield* land(store, ...shuffled(endpoints).map((endpoint) => insert("endpoint", endpoint)))
      const idsBelow = (version: number) =>
        Effect.map(
          walk((after: (typeof endpoints)[number]["id"] | null, limit) => store.endpoints.sealedBelow(version, { after, limit })),
          (found) => among(found, endpoints).map(({ id }) => id)
        )
      const own = (version: number, of = endpoints) => of.filter(({ secret }) => secret.version < version).map(({ id }) => id)

      for (const version of [1, 2, 3, 4, 5]) assert.deepEqual(yield* idsBelow(version), own(version))
      const all = yield* walk((after: (typeof endpoints)[number]["id"] | null, limit) =>
        store.endpoints.sealedBelow(4, { after, limit })
      )
      const [place] = own(4)
      assert.deepEqual(
        yield* store.endpoints.sealedBelow(4, { after: place!, limit: 3 }),
        all.filter(({ id }) => id > place!).slice(0, 3)
      )

      const resealed = endpoints.map((endpoint, index) => (index % 2 === 0 ? next(endpoint, sealed(4)) : endpoint))
      yield* land(store, ...resealed.filter((_, index) => index % 2 === 0).map((endpoint) => update("endpoint", endpoint)))
      assert.deepEqual(yield* idsBelow(4), own(4, resealed))
      assert.deepEqual(yield* idsBelow(5), endpoints.map(({ id }) => id))

      // The older of its secrets counts, whichever that is.
      const [one] = resealed
      const both = next(one!, { nextSecret: { ...sealed(2), from: 7 } })
      yield* land(store, update("endpoint", both))
      assert.deepEqual((yield* store.endpoints.get(both, both.id))?.nextSecret, both.nextSecret)
      assert.deepEqual(yield* idsBelow(3), own(3, [both, ...resealed.slice(1)]).concat(both.id).toSorted())
      yield* land(store, update("endpoint", next(both, { nextSecret: { ...sealed(5), from: 7 } })))
      assert.deepEqual(yield* idsBelow(4), own(4, resealed))
    })
  )
]

const domains = [
  law("lists the domains of all tenants whose check is due, earliest first, of one time by id", (store) =>
    Effect.gen(function* () {
      const age = ownAge()
      const [tenantId, other] = [Fixtures.realm().tenantId, Fixtures.realm().tenantId]
      const at = (nextCheckAt: Millis | null, of = tenantId) => Fixtures.mailDomain(of, { nextCheckAt })
      const [second, third] = byId([at(age + 2), at(age + 2, other)])
      const [first, fourth, unchecked] = [at(age + 1, other), at(age + 3), at(null)]
      const own = [unchecked, fourth, third!, first, second!]
      yield* land(store, ...own.map((domain) => insert("domain", domain)))
      const due = (until: Millis, limit = 1_000) => Effect.map(store.domains.due(until, limit), (found) => among(found, own))

      assert.deepEqual(yield* due(age), [])
      assert.deepEqual(yield* due(age + 2), [first, second, third])
      assert.deepEqual(yield* due(age + 3), [first, second, third, fourth])
      const all = yield* store.domains.due(age + 3, 1_000)
      assert.deepEqual(yield* store.domains.due(age + 3, all.length - 1), all.slice(0, -1))

      const [moved, never] = [next(first, { nextCheckAt: age + 9 }), next(second!, { nextCheckAt: null })]
      yield* land(store, update("domain", moved), update("domain", never))
      assert.deepEqual(yield* due(age + 3), [third, fourth])
      yield* land(store, ...[moved, third!, fourth].map((domain) => update("domain", next(domain, { nextCheckAt: null }))))
      assert.deepEqual(yield* due(age + 9), [])
    })
  ),
  law("lists the domains of all tenants that hold a key sealed by an older one, by id, page by page", (store) =>
    Effect.gen(function* () {
      const key = (version: number) => ({
        selector: "s",
        publicKey: "AAAA",
        privateKey: { version, iv: "AAAA", ciphertext: "AAAA", tag: "AAAA" }
      })
      const sealed = (dkim: number | null, nextDkim: number | null) => ({
        dkim: dkim === null ? null : key(dkim),
        nextDkim: nextDkim === null ? null : key(nextDkim)
      })
      const versions = [[null, null], [1, null], [null, 2], [3, 1], [2, 3], [3, 3], [4, null]] as const
      const domains = byId(versions.map(([dkim, nextDkim]) => Fixtures.mailDomain(Fixtures.realm().tenantId, sealed(dkim, nextDkim))))
      yield* land(store, ...shuffled(domains).map((domain) => insert("domain", domain)))
      type Place = (typeof domains)[number]["id"] | null
      const below = (version: number) =>
        Effect.map(walk((after: Place, limit) => store.domains.sealedBelow(version, { after, limit })), (found) => among(found, domains))
      const oldest = ({ dkim, nextDkim }: (typeof domains)[number]) =>
        Math.min(dkim?.privateKey.version ?? Infinity, nextDkim?.privateKey.version ?? Infinity)

      for (const version of [1, 2, 3, 4, 5]) {
        assert.deepEqual(yield* below(version), domains.filter((domain) => oldest(domain) < version))
      }
      const resealed = domains.map((domain) => (oldest(domain) === 1 ? next(domain, sealed(5, null)) : domain))
      yield* land(store, ...resealed.filter(({ version }) => version === 2).map((domain) => update("domain", domain)))
      assert.deepEqual(yield* below(3), resealed.filter((domain) => oldest(domain) < 3))
    })
  )
]

const backlogs = [
  law("says when the earliest work of each kind is due, past or to come", (store) =>
    Effect.gen(function* () {
      const age = ownAge()
      const realm = Fixtures.realm()
      const pollAt = (at: Millis | null) => submission(submissionRef(), { pollAt: at })
      const message = (at: Millis, ...polls: ReadonlyArray<Millis>) =>
        Fixtures.message(realm, { nextAttemptAt: at, submissions: polls.map(pollAt) })
      const [early, late] = [message(age + 1, age + 6, age + 2), message(age + 10, age + 20)]
      const attachments = times(2, (index) => Fixtures.attachment(realm, { nextScanAt: age + 3 + index * 10 }))
      const deliveries = times(2, (index) =>
        Fixtures.delivery(Fixtures.endpoint(realm), { nextAttemptAt: age + 4 + index * 10 })
      )
      const letters = times(2, (index) => inbound(realm, { reception: reception({ nextParseAt: age + 5 + index * 10 }) }))
      const earliestDue = Effect.map(store.backlog, ({ earliestDue }) => earliestDue)

      yield* land(
        store,
        ...[late, early, ...letters].map((message) => insertMessage(message)),
        ...attachments.map((attachment) => insert("attachment", attachment)),
        ...deliveries.map((delivery) => insertDelivery(delivery))
      )
      assert.deepEqual(yield* earliestDue, { submit: age + 1, poll: age + 2, scan: age + 3, deliver: age + 4, parse: age + 5 })
      yield* land(
        store,
        update("message", next(early, { nextAttemptAt: null, submissions: early.submissions.map((one) => ({ ...one, pollAt: null })) })),
        update("attachment", next(attachments[0]!, { nextScanAt: null })),
        update("delivery", next(deliveries[0]!, { nextAttemptAt: age + 30 })),
        update("message", next(letters[0]!, { reception: reception({ nextParseAt: null }) }))
      )
      assert.deepEqual(yield* earliestDue, { submit: age + 10, poll: age + 20, scan: age + 13, deliver: age + 14, parse: age + 15 })

      const { submit, poll, scan, deliver, parse } = yield* Effect.andThen(
        land(
          store,
          update("message", next(late, { nextAttemptAt: null, submissions: [] })),
          update("attachment", next(attachments[1]!, { nextScanAt: null })),
          update("message", next(letters[1]!, { reception: null })),
          ...[next(next(deliveries[0]!)), next(deliveries[1]!)].map((delivery) =>
            update("delivery", { ...delivery, status: "delivered", nextAttemptAt: null, deliveredAt: 0 })
          )
        ),
        earliestDue
      )
      for (const at of [submit, poll, scan, deliver, parse]) assert.ok(at === null || at > age + 30)
    })
  ),
  law("counts the events that the relay has yet to come to, and tells the age of each shard's first", (store) =>
    Effect.gen(function* () {
      const age = ownAge()
      yield* catchUp(store)
      const news = Effect.map(store.backlog, ({ unrelayed, oldestUnrelayedAt }) => [
        unrelayed,
        oldestUnrelayedAt === null ? null : oldestUnrelayedAt - age
      ])
      assert.deepEqual((yield* store.backlog).unrelayed, 0)
      assert.equal((yield* store.backlog).oldestUnrelayedAt, null)
      const occur = (shard: number, ...at: ReadonlyArray<Millis>) =>
        land(
          store,
          ...at.map((time) => append(Fixtures.queuedEvent(Fixtures.message(realmInShard(shard)), { occurredAt: age + time })))
        )
      const advance = Effect.fnUntraced(function* (shard: number) {
        const { position } = (yield* relayBehind(store, shard))!
        yield* land(store, moveRelay(position, { shard, position: (yield* logBehind(store, shard, position))[0]!.position }))
      })

      yield* occur(3, 50, 10)
      assert.deepEqual(yield* news, [2, 50], "what comes behind the first of its shard is not asked")
      yield* occur(9, 40, 60, 70)
      assert.deepEqual(yield* news, [5, 40])
      yield* advance(3)
      assert.deepEqual(yield* news, [4, 10])
      yield* advance(3)
      yield* advance(9)
      assert.deepEqual(yield* news, [2, 60])
      yield* catchUp(store)
      assert.deepEqual(yield* news, [0, null])
    })
  )
]

export const operator = [...listings, ...domains, ...backlogs]
