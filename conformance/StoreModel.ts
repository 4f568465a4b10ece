/**
 * Compares a Store with the reference model: both are given the same random
 * commits, full of conflicts, and must answer alike. The seed is in the title;
 * it makes the same commits on every machine, but for the ids.
 */
import { Context, Effect, Layer, Random } from "effect"
import assert from "node:assert/strict"
import type { Delivery } from "../core/model/Delivery.ts"
import type { Endpoint } from "../core/model/Endpoint.ts"
import type { LogPage } from "../core/model/Event.ts"
import { shardOf, type TenantId } from "../core/model/Ids.ts"
import type { Message } from "../core/model/Message.ts"
import * as Recipients from "../core/model/Recipient.ts"
import { jobKinds } from "../core/ports/JobQueue.ts"
import { Store, type Change, type Kind, type Records, type StoreUnavailable } from "../core/ports/Store.ts"
import * as Fixtures from "./fixtures.ts"
import {
  append,
  auditEntry,
  behind,
  demand,
  drop,
  endOfLog,
  forget,
  insert,
  insertDelivery,
  insertMessage,
  keep,
  keepPayload,
  land,
  law,
  moveRelay,
  notification,
  outcome,
  ownAge,
  payload,
  putBody,
  relayBehind,
  remove,
  requestEntry,
  reservation,
  reserve,
  stored,
  submission,
  submissionRef,
  suppose,
  suppress,
  suppression,
  takeQuota,
  times,
  unnumbered,
  unsuppress,
  update,
  type Service
} from "./StoreLaw.ts"
import { inbound, putContent, reception } from "./StoreReceiving.ts"
import type { Suite } from "./Suite.ts"

const seeds = times(8, (seed) => `seed ${seed}`)
const commitsPerSeed = 200

/** A suite that holds a Store to the answers of the model. */
export const agreement = <E>(model: Layer.Layer<Store, E>): Suite<Store> => ({
  name: "the model of Store",
  checks: seeds.map((seed) =>
    law(`answers random commits as the model does (${seed})`, (store) =>
      Effect.gen(function* () {
        const reference = Context.get(yield* Layer.build(Layer.fresh(model)), Store)
        const world = makeWorld()
        const [places, referencePlaces] = [yield* placesOf(store, world), yield* placesOf(reference, world)]
        for (const step of times(commitsPerSeed, (step) => step)) {
          const changes = yield* Effect.all(times(yield* below(5), () => randomChange(reference, world, step)))
          const [own, references] = [changes.map(placed(places)), changes.map(placed(referencePlaces))]
          const told = `commit ${step}: ${changes.map(({ _tag }) => _tag).join(", ")}`

          assert.deepEqual(yield* outcome(store, ...own), yield* outcome(reference, ...references), told)
          if (step % 8 !== 7) continue
          assert.deepEqual(yield* look(store, world, places), yield* look(reference, world, referencePlaces), told)
        }
      }).pipe(Random.withSeed(seed))
    )
  )
})

/** By shard, where a store's log and relay stood when the world began: two logs that agree may have begun apart. */
type Places = ReadonlyMap<number, bigint>

const placesOf = Effect.fnUntraced(function* (store: Service, world: World) {
  const places = new Map<number, bigint>()
  for (const { tenantId } of world.realms) {
    const shard = shardOf(tenantId)
    let begin = yield* endOfLog(store, shard)
    let relay = yield* relayBehind(store, shard)
    // An earlier world may have moved it beyond the end of the log.
    for (; relay === undefined; relay = yield* relayBehind(store, shard)) begin = yield* endOfLog(store, shard)
    yield* Effect.orDie(land(store, moveRelay(relay.position, { shard, position: begin })))
    places.set(shard, begin)
  }
  return places
})

/** A change of the world, at its place in a store. */
const placed = (places: Places) => (change: Change): Change => {
  if (change._tag !== "MoveRelay") return change
  const begin = places.get(change.relay.shard)!
  return { ...change, from: begin + change.from, relay: { ...change.relay, position: begin + change.relay.position } }
}

const sincePlace = (places: Places) => (endpoint: Endpoint): Endpoint => {
  const begin = places.get(shardOf(endpoint.tenantId))!
  const { createdAfter, disabledAfter, enabledAfter } = endpoint.positions
  return { ...endpoint, positions: { createdAfter: createdAfter - begin, disabledAfter: disabledAfter - begin, enabledAfter: enabledAfter - begin } }
}

/** Few enough things that random changes meet: two tenants in two environments. */
const makeWorld = () => {
  const realms = [Fixtures.realm(), Fixtures.realm()].flatMap((realm) => [realm, Fixtures.otherEnvironment(realm)])
  const age = ownAge()
  const { provider } = payload()
  const plan = { id: Fixtures.freshId<string>(), keyRequestsPerMinute: 1, tenantRequestsPerDay: 2, recipientsPerDay: 3 }
  const applications = realms.map((realm) => Fixtures.application(realm))
  const domains = realms.map((realm) => Fixtures.mailDomain(realm.tenantId))
  const attachments = realms.flatMap((realm) =>
    times(2, (index) => Fixtures.attachment(realm, { blob: { sha256: String(index).repeat(64), sizeBytes: index } }))
  )
  const endpoints = applications.flatMap(({ id, ...application }) =>
    times(2, (index) => Fixtures.endpoint(application, { applicationId: id, createdAt: index }))
  )
  return {
    age,
    provider,
    realms,
    endpoints,
    deliveries: endpoints.slice(0, 4).flatMap((endpoint) => times(2, () => Fixtures.delivery(endpoint))),
    plan,
    tenants: realms.map(({ tenantId }) => Fixtures.tenant({ id: tenantId, planId: plan.id })),
    applications,
    apiKeys: applications.map((application) => Fixtures.apiKey(application)),
    domains,
    mailboxes: domains.map((domain) => Fixtures.mailbox(domain)),
    attachments,
    messages: realms.flatMap((realm, index) =>
      times(3, () => ({
        ref: submissionRef(),
        record: Fixtures.message(realm, { attachmentIds: attachments.slice(index * 2, index * 2 + 2).map(({ id }) => id) })
      }))
    ),
    letters: realms.map((realm) => inbound(realm, { mailboxId: Fixtures.freshId() })),
    reservations: applications.map(({ id }) => reservation({ applicationId: id }))
  }
}
type World = ReturnType<typeof makeWorld>

const below = (bound: number) => Random.nextIntBetween(0, bound, { halfOpen: true })
const oneOf = <A>(list: ReadonlyArray<A>) => Effect.map(below(list.length), (index) => list[index]!)

/** Any change, on any of the world's things. Times rise with the step where a read is in their order. */
const randomChange = Effect.fnUntraced(function* (
  reference: Service,
  world: World,
  step: number
): Effect.fn.Return<Change, StoreUnavailable> {
  const some = 1 + (yield* below(4))
  // An update mostly fits, so that records get on; now and then it is stale or ahead.
  const nextVersion = Effect.fnUntraced(function* <K extends Kind>(kind: K, record: Records[K]) {
    const now = (yield* stored(reference, kind, record))?.version ?? 1
    return (yield* below(5)) === 0 ? some : now + 1
  })
  const [tenant, apiKey, mailbox] = [world.tenants[step % 4]!, world.apiKeys[step % 4]!, world.mailboxes[step % 4]!]
  const domain = world.domains[step % 4]!
  const at = world.age + (yield* below(10))
  const realm = yield* oneOf(world.realms)
  const { ref, record } = yield* oneOf(world.messages)
  const told = notification(ref, { outcome: { _tag: "Delivered", at: yield* below(4), smtpResponse: null } })
  const attachment = yield* oneOf(world.attachments)
  const held = yield* oneOf(world.reservations)
  const endpoint = yield* oneOf(world.endpoints)
  const delivery = { ...(yield* oneOf(world.deliveries)), createdAt: at, nextAttemptAt: at }
  const shard = shardOf(realm.tenantId)
  const from = BigInt(yield* below(3))
  const twin = some === 1 ? { id: Fixtures.freshId<never>() } : {}
  const letter = world.letters[world.realms.indexOf(realm)]!
  const ofLetter = yield* nextVersion("message", letter)
  const [ofMessage, ofAttachment] = [yield* nextVersion("message", record), yield* nextVersion("attachment", attachment)]
  const required = yield* oneOf([
    demand("tenant", { ...tenant, version: some }),
    demand("message", { ...record, version: ofMessage - 1 }),
    demand("endpoint", { ...endpoint, version: some }),
    suppose("tenant", { ...tenant, version: some }),
    suppose("message", { ...record, version: ofMessage - 1 }),
    suppose("endpoint", { ...endpoint, version: some })
  ])
  const changes: ReadonlyArray<Change> = [
    { _tag: "PutPlan", plan: { ...world.plan, recipientsPerDay: step } },
    insert("tenant", tenant),
    insert("application", world.applications[step % 4]!),
    insert("apiKey", { ...apiKey, ...twin }),
    insert("domain", domain),
    insert("mailbox", { ...mailbox, ...twin }),
    insert("attachment", { ...attachment, expiresAt: at, nextScanAt: at }),
    insertMessage({ ...record, createdAt: BigInt(at) * 1000n, nextAttemptAt: at }),
    insertMessage({ ...record, createdAt: BigInt(at) * 1000n, nextAttemptAt: at }),
    update("tenant", { ...tenant, version: yield* nextVersion("tenant", tenant), name: `step ${step}` }),
    update("apiKey", { ...apiKey, version: yield* nextVersion("apiKey", apiKey), revokedAt: step }),
    update("mailbox", { ...mailbox, version: yield* nextVersion("mailbox", mailbox), displayName: `step ${step}` }),
    update("attachment", {
      ...attachment,
      version: ofAttachment,
      nextScanAt: some < 3 ? at : null,
      expiresAt: some < 4 ? at : null,
      messageId: some === 1 ? record.id : null,
      usedAt: some === 1 ? at : null
    }),
    update("message", laterVersion(record, ref, ofMessage, at)),
    update("message", laterVersion(record, ref, ofMessage, at)),
    remove("attachment", { ...attachment, version: ofAttachment - 1 }),
    remove("mailbox", { ...mailbox, version: (yield* nextVersion("mailbox", mailbox)) - 1 }),
    remove("domain", { ...domain, version: (yield* nextVersion("domain", domain)) - 1 }),
    reserve({ ...held, fingerprint: String(step), reservedAt: at, expiresAt: at + 3 }),
    takeQuota(realm.tenantId, some, 7, `2026-12-0${some}`),
    append(Fixtures.queuedEvent({ ...record, acceptedAt: at })),
    append(Fixtures.queuedEvent(record, { environment: null, occurredAt: at })),
    append(Fixtures.queuedEvent(record, { audience: world.applications[0]!.id, occurredAt: at })),
    { _tag: "AppendAudit", entry: auditEntry(realm, { at: step }) },
    { _tag: "AppendRequests", entries: [requestEntry(realm, { at: step })] },
    { _tag: "TouchApiKeys", used: world.apiKeys.slice(some - 1).map(({ id }) => ({ id, at })) },
    suppress(suppression(realm, { address: Fixtures.address(some > 2 ? "ada" : "Ada"), createdAt: step })),
    unsuppress(realm, Fixtures.address(some > 2 ? "ADA" : "ada")),
    keep(told, step),
    keepPayload(payload({ provider: world.provider, id: String(some), receivedAt: step })),
    drop(told),
    putContent(realm, record.id, Fixtures.content(record, { text: String(step) })),
    insertMessage(inbound(realm, { ...letter, createdAt: BigInt(at) * 1000n, reception: reception({ nextParseAt: at }) })),
    update("message", inbound(realm, { ...letter, version: ofLetter, reception: reception({ nextParseAt: some < 3 ? at : null }) }))
  ]
  const [ofEndpoint, ofDelivery] = [yield* nextVersion("endpoint", endpoint), yield* nextVersion("delivery", delivery)]
  const aboutWebhooks: ReadonlyArray<Change> = [
    insert("endpoint", { ...endpoint, enabled: some > 1 }),
    update("endpoint", { ...endpoint, version: ofEndpoint, enabled: some > 2, url: String(step) }),
    insertDelivery(delivery, some === 1 ? null : String(step)),
    putBody(some > 2 ? realm : delivery, delivery, `put ${step}`),
    update("delivery", laterDelivery(delivery, ofDelivery, at)),
    update("delivery", laterDelivery(delivery, ofDelivery, world.age + some)),
    forget("deliveries", world.age + some),
    forget("messages", world.age + 2 * some, some),
    forget("attachments", world.age + 2 * some, some),
    required,
    moveRelay(from, { shard, position: from + BigInt(some >> 1), heldUntil: at })
  ]
  return yield* oneOf((yield* below(3)) === 0 ? aboutWebhooks : changes)
})

/** What a message is in a version: handed over in its third, and at its end in its fourth. */
const laterVersion = (record: Message, ref: ReturnType<typeof submissionRef>, version: number, at: number): Message => {
  const recipients = record.recipients.map((recipient): Recipients.Recipient =>
    version < 3 ? recipient : { ...recipient, status: version === 3 ? "sent" : "delivered", updatedAt: at }
  )
  return {
    ...record,
    version,
    recipients,
    nextAttemptAt: version < 3 ? at : null,
    submissions: version < 3 ? [] : [submission(ref, { pollAt: version === 3 ? at : null })],
    mime: version < 2 ? null : { sha256: "2".repeat(64), sizeBytes: 2 }
  }
}

/** What a delivery is in a version: pending in the odd ones, and dead or delivered between them. */
const laterDelivery = (delivery: Delivery, version: number, at: number): Delivery => {
  const status = version % 2 === 1 ? "pending" : at % 2 === 0 ? "dead" : "delivered"
  return {
    ...delivery,
    version,
    round: 1 + (version >> 1),
    status,
    nextAttemptAt: status === "pending" ? at : null,
    deadAt: status === "dead" ? at : null,
    deliveredAt: status === "delivered" ? at : null
  }
}

const digests = ["0", "1", "2", "3"].map((digit) => digit.repeat(64))

const sortedBy = <A>(list: ReadonlyArray<A>, key: (item: A) => string): ReadonlyArray<A> =>
  list.toSorted((left, right) => (key(left) < key(right) ? -1 : 1))

/** Whether a tenant stands where the list of all has its place. */
const listed = (store: Service, id: TenantId) =>
  Effect.map(store.credentials.tenants({ after: placeBefore(id), limit: 1 }), (found) => found.filter((tenant) => tenant.id === id))

/** The greatest id before one. */
const placeBefore = (id: TenantId): TenantId => {
  const digits = (BigInt(`0x${id.replaceAll("-", "")}`) - 1n).toString(16).padStart(32, "0")
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-") as TenantId // as many digits as the other
}

/** Positions are the log's own: two logs that agree may have begun apart. */
const unplaced = ({ beginning, events }: LogPage) => ({ beginning, events: events.map((event) => ({ ...event, position: 0n })) })

/** All that the reads show of a world; where the contract names no order, sorted. */
const look = Effect.fnUntraced(function* (store: Service, world: World, places: Places) {
  const relative = sincePlace(places)
  const { age } = world
  const ofRealms = yield* Effect.forEach(world.realms, (realm) =>
    Effect.all({
      messages: store.messages.page(realm, { mailboxId: null, before: null, limit: 100 }),
      older: store.messages.page(realm, { mailboxId: null, before: BigInt(age + 6) * 1000n, limit: 2 }),
      ofMailbox: store.messages.page(realm, { mailboxId: world.messages[0]!.record.mailboxId, before: null, limit: 5 }),
      contents: Effect.forEach(world.messages, ({ record }) => store.messages.content(realm, record.id)),
      gets: Effect.forEach(world.messages, ({ record }) => store.messages.get(realm, record.id)),
      attachments: store.attachments.many(realm, world.attachments.map(({ id }) => id)),
      queued: Effect.forEach(world.attachments, ({ id }) =>
        Effect.map(store.messages.queuedWith(realm, id), (found) => sortedBy(found, (one) => one.id))
      ),
      events: Effect.forEach(world.applications, ({ id }) =>
        Effect.gen(function* () {
          const since = yield* store.events.page(realm, id, { start: { _tag: "Since", at: age + 5 }, limit: 20 })
          const [, second] = since.events
          if (second === undefined) return [unplaced(since)]
          return [unplaced(since), unplaced(yield* store.events.page(realm, id, { start: behind(second), limit: 2 }))]
        })
      ),
      endpoints: Effect.forEach(world.endpoints, ({ id }) =>
        Effect.map(store.endpoints.get(realm, id), (found) => found && relative(found))
      ),
      ofApplications: Effect.forEach(world.applications, ({ id }) =>
        Effect.all({
          endpoints: Effect.map(store.endpoints.list(realm, id), (found) => found.map(relative)),
          deliveries: store.deliveries.page(realm, { applicationId: id, endpointId: null, limit: 2 })
        })
      ),
      deliveries: Effect.forEach(world.deliveries, ({ id, applicationId, endpointId }) =>
        Effect.all({
          get: store.deliveries.get(realm, id),
          body: store.deliveries.body(realm, id),
          outgoing: Effect.map(
            store.deliveries.outgoing(realm, id),
            (found) => found && { ...found, endpoint: found.endpoint && relative(found.endpoint) }
          ),
          page: store.deliveries.page(realm, { applicationId, endpointId, limit: 5 }),
          dead: store.deliveries.deadSince(realm, endpointId, age + 2, 1)
        })
      ),
      suppressed: store.suppressions.among(realm, [Fixtures.address()]),
      suppressions: store.suppressions.page(realm, { after: null, limit: 10 })
    })
  )
  const ofTenants = yield* Effect.forEach(world.realms, ({ tenantId }) =>
    Effect.all({
      tenant: store.credentials.tenant(tenantId),
      applications: store.credentials.applications(tenantId),
      apiKeys: store.credentials.apiKeys(tenantId),
      mailboxes: store.mailboxes.list(tenantId),
      domains: store.domains.list(tenantId),
      mailboxPage: store.mailboxes.page(tenantId, { domainId: null, after: null, limit: 2 }),
      domainPage: store.domains.page(tenantId, { after: null, limit: 2 }),
      audit: Effect.map(store.audit.page(tenantId, 3), unnumbered),
      requests: Effect.map(store.audit.requests(tenantId, 3), unnumbered),
      enabled: Effect.map(store.endpoints.enabled([tenantId]), (found) => sortedBy(found.map(relative), (one) => one.id)),
      blobs: Effect.map(store.blobs.referenced(tenantId, digests), (found) => found.toSorted())
    })
  )
  const subjects = [...world.messages.map(({ record }) => record), ...world.letters, ...world.attachments, ...world.deliveries]
  const own = new Set<string>(subjects.map(({ id }) => id))
  const credentials = yield* store.credentials.byPublicId(world.apiKeys.map(({ publicId }) => publicId))
  return {
    ofRealms,
    ofTenants,
    relays: yield* Effect.forEach([...places.keys()], (shard) =>
      Effect.map(relayBehind(store, shard), (relay) => relay && { ...relay, position: relay.position - places.get(shard)! })
    ),
    credentials: sortedBy(credentials, ({ apiKey }) => apiKey.id),
    plans: (yield* store.credentials.plans).filter(({ id }) => id === world.plan.id),
    tenants: yield* Effect.forEach(world.tenants, ({ id }) => listed(store, id)),
    addressees: yield* Effect.forEach(world.mailboxes, ({ address }, index) =>
      store.mailboxes.addressee({
        address,
        untagged: world.mailboxes[index - 1]?.address ?? null,
        domain: world.domains[index % world.domains.length]!.domain
      })
    ),
    named: sortedBy(yield* store.domains.named(world.domains.map(({ domain }) => domain)), ({ id }) => id),
    letters: yield* Effect.forEach(world.letters, ({ id }) => store.messages.anywhere(id)),
    submitted: yield* Effect.forEach(world.messages, ({ ref }) => store.messages.bySubmission(ref)),
    payloads: unnumbered(yield* store.audit.payloads(world.provider, 3)),
    kept: yield* Effect.forEach(world.messages, ({ ref }) => store.notifications.kept(ref)),
    reserved: yield* Effect.forEach(world.reservations, ({ applicationId, idempotencyKey }) =>
      store.reservations.get(applicationId, idempotencyKey, age + 5)
    ),
    expired: sortedBy((yield* store.attachments.expired(age + 5, 1_000)).filter(({ id }) => own.has(id)), ({ id }) => id),
    due: yield* Effect.forEach(jobKinds, (kind) =>
      Effect.map(store.due(kind, { dueBefore: age + 5, after: null, limit: 1_000 }), ({ jobs }) =>
        sortedBy(jobs.filter(({ subject }) => own.has(subject)), ({ subject }) => subject)
      )
    )
  }
})
