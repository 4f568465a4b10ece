/** Reads that a busy service asks all the time: of several things at once, and by many callers at once. */
import { Effect } from "effect"
import assert from "node:assert/strict"
import type { MessageId } from "../core/model/Ids.ts"
import type { Message } from "../core/model/Message.ts"
import * as Fixtures from "./fixtures.ts"
import { insert, insertDelivery, insertMessage, land, law, reservation } from "./StoreLaw.ts"

export const gathered = [
  law("tells what accepting a message asks as each of its reads does", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const { tenantId } = realm
      const domain = Fixtures.mailDomain(tenantId)
      const mailbox = Fixtures.mailbox(domain)
      const held = reservation({ expiresAt: 1_000 })
      const foreign = Fixtures.mailDomain(Fixtures.realm().tenantId)
      const astray = Fixtures.mailbox({ ...foreign, tenantId })
      yield* land(store, ...[domain, foreign].map((one) => insert("domain", one)), ...[mailbox, astray].map((one) => insert("mailbox", one)))
      yield* land(store, { _tag: "Reserve", reservation: held })
      const { applicationId, idempotencyKey } = held
      const query = { tenantId, mailboxId: mailbox.id, applicationId, idempotencyKey, at: 999 }
      const ask = (other: Partial<typeof query>) => store.messages.admission({ ...query, ...other })

      assert.deepEqual(yield* ask({}), { reservation: held, mailbox, domain })
      assert.deepEqual(yield* ask({ at: 1_000 }), { reservation: null, mailbox, domain })
      assert.deepEqual(yield* ask({ applicationId: Fixtures.freshId() }), { reservation: null, mailbox, domain })
      assert.deepEqual(yield* ask({ mailboxId: Fixtures.freshId() }), { reservation: held, mailbox: null, domain: null })
      assert.deepEqual(yield* ask({ tenantId: Fixtures.freshId() }), { reservation: held, mailbox: null, domain: null })
      assert.deepEqual(yield* ask({ tenantId: Fixtures.freshId(), applicationId: Fixtures.freshId() }), {
        reservation: null,
        mailbox: null,
        domain: null
      })
      assert.deepEqual(
        yield* ask({ mailboxId: astray.id }),
        { reservation: held, mailbox: astray, domain: null },
        "the mailbox names a domain of another tenant, which this tenant does not see"
      )
    })
  ),
  law("tells what submitting a message asks as each of its reads does", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const { tenantId } = realm
      const domain = Fixtures.mailDomain(tenantId)
      const mailbox = Fixtures.mailbox(domain)
      const [message, stray] = [Fixtures.message(realm, { mailboxId: mailbox.id }), Fixtures.message(realm)]
      const content = Fixtures.content(message)
      const foreign = Fixtures.mailDomain(Fixtures.realm().tenantId)
      const ofForeign = Fixtures.mailbox(foreign)
      const astray = Fixtures.mailbox({ ...foreign, tenantId }, { address: Fixtures.address("astray", foreign.domain) })
      const [toForeign, toAstray] = [ofForeign, astray].map(({ id }) => Fixtures.message(realm, { mailboxId: id })) as [Message, Message] // as many
      yield* land(store, insert("domain", domain), insert("mailbox", mailbox), insertMessage(message, content), insertMessage(stray, content))
      yield* land(store, insert("domain", foreign), insert("mailbox", ofForeign), insert("mailbox", astray), insertMessage(toForeign), insertMessage(toAstray))

      const found = yield* store.messages.outbound(realm, message.id)
      assert.deepEqual(found, { message: yield* store.messages.get(realm, message.id), content, mailbox, domain })
      assert.deepEqual(yield* store.messages.outbound(realm, stray.id), {
        message: yield* store.messages.get(realm, stray.id),
        content,
        mailbox: null,
        domain: null
      })
      const sees = (id: MessageId) =>
        Effect.map(store.messages.outbound(realm, id), (seen) => ({ mailbox: seen?.mailbox, domain: seen?.domain }))
      assert.deepEqual(yield* sees(toForeign.id), { mailbox: null, domain: null }, "the message names a mailbox of another tenant")
      assert.deepEqual(yield* sees(toAstray.id), { mailbox: astray, domain: null }, "the mailbox names a domain of another tenant")
    })
  ),
  law("tells what an attempt at a delivery asks as each of its reads does", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const endpoint = Fixtures.endpoint(realm)
      const delivery = Fixtures.delivery(endpoint)
      const stray = Fixtures.delivery(Fixtures.endpoint(realm))
      const foreign = Fixtures.endpoint(Fixtures.realm())
      const other = Fixtures.endpoint(Fixtures.otherEnvironment(realm))
      const astray = [Fixtures.delivery({ ...foreign, tenantId: realm.tenantId }), Fixtures.delivery({ ...other, environment: realm.environment })]
      yield* land(store, ...[endpoint, foreign, other].map((one) => insert("endpoint", one)))
      yield* land(store, insertDelivery(delivery, "{ }"), ...[stray, ...astray].map((one) => insertDelivery(one)))

      assert.deepEqual(yield* store.deliveries.outgoing(realm, delivery.id), {
        delivery,
        endpoint: yield* store.endpoints.get(realm, endpoint.id),
        body: "{ }"
      })
      for (const one of [stray, ...astray]) {
        assert.deepEqual(yield* store.deliveries.outgoing(realm, one.id), { delivery: one, endpoint: null, body: "{}" })
      }
      assert.equal(yield* store.deliveries.outgoing(realm, Fixtures.freshId()), null)
      assert.equal(yield* store.deliveries.outgoing({ ...realm, environment: "production" }, delivery.id), null)
      assert.equal(yield* store.deliveries.outgoing(Fixtures.realm(), delivery.id), null)
    })
  ),
  law("answers many who ask at once each with its own", (store) =>
    Effect.gen(function* () {
      const owned = Array.from({ length: 40 }, () => {
        const realm = Fixtures.realm()
        return { realm, mailbox: Fixtures.mailbox(Fixtures.mailDomain(realm.tenantId)) }
      })
      yield* land(store, ...owned.map(({ mailbox }) => insert("mailbox", mailbox)))
      const asks = owned.flatMap(({ realm, mailbox }, index) => [
        { tenantId: realm.tenantId, id: mailbox.id, expected: mailbox },
        // What is another's, what is nobody's, and the same once more.
        { tenantId: realm.tenantId, id: owned[(index + 1) % owned.length]!.mailbox.id, expected: null },
        { tenantId: realm.tenantId, id: Fixtures.freshId<never>(), expected: null },
        { tenantId: realm.tenantId, id: mailbox.id, expected: mailbox }
      ])

      const found = yield* Effect.forEach(asks, ({ tenantId, id }) => store.mailboxes.get(tenantId, id), { concurrency: "unbounded" })

      assert.deepEqual(found, asks.map(({ expected }) => expected))
    })
  )
]
