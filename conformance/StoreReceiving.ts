/** Laws of what receiving mail asks: names over all tenants, messages that came in, and their content once more. */
import { Effect } from "effect"
import assert from "node:assert/strict"
import type { Address, DomainName } from "../core/model/Address.ts"
import type { MessageId, Realm } from "../core/model/Ids.ts"
import type { Content, Message } from "../core/model/Message.ts"
import type { Reception } from "../core/model/Reception.ts"
import type { Change } from "../core/ports/Store.ts"
import * as Fixtures from "./fixtures.ts"
import { insert, insertMessage, land, law, next, outcome, update } from "./StoreLaw.ts"

export const putContent = (realm: Realm, messageId: MessageId, content: Content): Change => ({
  _tag: "PutContent",
  realm,
  messageId,
  content
})

export const reception = (over: Partial<Reception> = {}): Reception => ({
  peer: { remoteAddress: "2001:db8::25", helo: "mx.example.org", protocol: "ESMTPS" },
  returnPath: "charles@example.org",
  recipient: Fixtures.address("ada+notes"),
  receivedAt: 1,
  to: [{ address: "Ada@EXAMPLE.com", name: "Ada \u0000 \ud800 \"Lovelace\"" }],
  cc: [{ address: "no address at all", name: "" }],
  authentication: { spf: "pass", dkim: "fail", dmarc: "temperror", arc: "none", dmarcPolicy: "quarantine" },
  nextParseAt: null,
  defects: ["bare_line_ends"],
  ...over
})

/** A message that came in. */
export const inbound = (realm: Realm, over: Partial<Message> = {}): Message =>
  Fixtures.message(realm, {
    direction: "inbound",
    status: "received",
    folder: "inbox",
    applicationId: null,
    eventSequence: 0,
    from: { address: "", name: "\u0000 nobody" },
    subject: "\u0000\udc00 \\u0000",
    internetMessageId: "",
    recipients: [],
    nextAttemptAt: null,
    mime: { sha256: "b".repeat(64), sizeBytes: 5 },
    reception: reception(),
    ...over
  })

const byId = <A extends { readonly id: string }>(found: ReadonlyArray<A>) => found.map(({ id }) => id).toSorted()

const names = [
  law("tells whom mail to an address may be for, of whichever tenant, in folded case", (store) =>
    Effect.gen(function* () {
      const [tenant, other] = [Fixtures.tenant(), Fixtures.tenant()]
      const domain = Fixtures.mailDomain(tenant.id)
      const at = (local: string) => Fixtures.address(local, domain.domain)
      const [grace, all] = [Fixtures.mailbox(domain, { address: at("Grace.Hopper") }), Fixtures.mailbox(domain)]
      const foreign = Fixtures.mailbox(Fixtures.mailDomain(other.id))
      const changes = [insert("tenant", tenant), insert("domain", domain), ...[grace, all, foreign].map((one) => insert("mailbox", one))]
      yield* land(store, ...changes)
      const query = { address: at("nobody"), untagged: null, domain: domain.domain }
      const nobody = { mailbox: null, untagged: null, domain: null, catchAll: null, tenant: null }
      const ask = (over: Partial<Parameters<typeof store.mailboxes.addressee>[0]>) => store.mailboxes.addressee({ ...query, ...over })
      const here = { ...nobody, domain, tenant }

      assert.deepEqual(yield* ask({}), here)
      assert.deepEqual(yield* ask({ address: grace.address }), { ...here, mailbox: grace })
      const shouted = grace.address.toUpperCase() as Address // the same one
      assert.deepEqual(yield* ask({ address: shouted, untagged: all.address }), { ...here, mailbox: grace, untagged: all })
      assert.deepEqual(yield* ask({ untagged: shouted }), { ...here, untagged: grace })
      assert.deepEqual(yield* ask({ address: foreign.address }), { ...here, mailbox: foreign }, "of whichever tenant")
      const under = `sub.${domain.domain}` as DomainName // plain enough to be one
      assert.deepEqual(yield* ask({ domain: under }), nobody)
      assert.deepEqual(yield* ask({ address: grace.address, domain: under }), { ...nobody, mailbox: grace })
      const homeless = Fixtures.mailDomain(Fixtures.realm().tenantId)
      yield* land(store, insert("domain", homeless))
      assert.deepEqual(yield* ask({ domain: homeless.domain }), { ...nobody, domain: homeless })

      const caught = next(domain, { catchAll: all.id })
      yield* land(store, update("domain", caught), update("mailbox", next(all, { status: "suspended" })))
      const now = { ...here, domain: caught, catchAll: next(all, { status: "suspended" }) }
      assert.deepEqual(yield* ask({}), now)
      yield* land(store, update("tenant", next(tenant, { status: "suspended" })))
      assert.deepEqual(yield* ask({}), { ...now, tenant: next(tenant, { status: "suspended" }) })
      yield* land(store, update("domain", next(caught, { catchAll: foreign.id })))
      assert.equal((yield* ask({})).catchAll, null, "a mailbox of another tenant catches nothing")
      yield* land(store, update("domain", next(next(caught, {}), { catchAll: Fixtures.freshId() })))
      assert.equal((yield* ask({})).catchAll, null, "nor does one that is not there")
    })
  ),
  law("tells whom mail to an address may be for, whatever stands in the DNS of its domain", (store) =>
    Effect.gen(function* () {
      const tenant = Fixtures.tenant()
      const observed = `\u0000 \ud800 \\u0000 "catchAll":"${Fixtures.freshId()}"`
      const checks = [{ record: "ownership", state: "mismatch", expected: "a proof", observed, since: 0 }] as const
      const plain = Fixtures.mailDomain(tenant.id, { checks })
      const all = Fixtures.mailbox(plain)
      const domain = { ...plain, catchAll: all.id }
      yield* land(store, insert("tenant", tenant), insert("domain", domain), insert("mailbox", all))

      const found = yield* store.mailboxes.addressee({ address: Fixtures.address(), untagged: null, domain: domain.domain })
      assert.deepEqual(found, { mailbox: null, untagged: null, domain, catchAll: all, tenant })
    })
  ),
  law("finds domains of all tenants by their names, each once, with their catch-all", (store) =>
    Effect.gen(function* () {
      const one = Fixtures.mailDomain(Fixtures.realm().tenantId, { catchAll: Fixtures.freshId() })
      const two = Fixtures.mailDomain(Fixtures.realm().tenantId)
      yield* land(store, insert("domain", one), insert("domain", two))
      const under = `sub.${one.domain}` as DomainName // plain enough to be one

      assert.deepEqual(byId(yield* store.domains.named([one.domain, two.domain, one.domain, under])), byId([one, two]))
      assert.deepEqual(yield* store.domains.named([one.domain]), [one])
      assert.deepEqual(yield* store.domains.named([under]), [])
      assert.deepEqual(yield* store.domains.named([]), [])
    })
  ),
  law("finds a message by its id alone, whoever's it is", (store) =>
    Effect.gen(function* () {
      const [one, two] = [Fixtures.message(Fixtures.realm("sandbox")), inbound(Fixtures.realm("production"))]
      yield* land(store, insertMessage(one), insertMessage(two))

      assert.deepEqual(yield* store.messages.anywhere(one.id), yield* store.messages.get(one, one.id))
      assert.deepEqual(yield* store.messages.anywhere(two.id), yield* store.messages.get(two, two.id))
      assert.equal(yield* store.messages.anywhere(Fixtures.freshId()), null)
      assert.equal(yield* store.messages.anywhere("no id at all" as MessageId), null) // as a stranger may write it
    })
  )
]

const messages = [
  law("gives back a message that came in as it was put, whatever others have written into it", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm("production")
      const message = inbound(realm, { createdAt: 1_796_117_400_123_457n })
      const content = { ...Fixtures.content(message, { text: "\u0000 \ud800" }), headers: [{ name: "X-\u0000", value: "\u0000" }] }
      yield* land(store, insertMessage(message, content))

      assert.deepEqual(yield* store.messages.get(realm, message.id), message)
      assert.deepEqual(yield* store.messages.content(realm, message.id), content)
      assert.deepEqual(yield* store.messages.page(realm, { mailboxId: message.mailboxId, before: null, limit: 1 }), [message])
      assert.deepEqual(yield* store.blobs.referenced(realm.tenantId, ["b".repeat(64)]), ["b".repeat(64)])
    })
  ),
  law("tells no other tenant that a message that came in refers to its original", (store) =>
    Effect.gen(function* () {
      const [realm, stranger] = [Fixtures.realm("production"), Fixtures.realm("production")]
      const message = inbound(realm)
      yield* land(store, insertMessage(message))

      assert.deepEqual(yield* store.blobs.referenced(realm.tenantId, [message.mime!.sha256]), [message.mime!.sha256])
      assert.deepEqual(yield* store.blobs.referenced(stranger.tenantId, [message.mime!.sha256]), [])
    })
  ),
  law("puts another content in the place of one, with the update that it came with or not at all", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const message = inbound(realm)
      const [before, after] = [Fixtures.content(message, { text: "before" }), Fixtures.content(message, { text: "after" })]
      yield* land(store, insertMessage(message, before))
      const stale = yield* outcome(store, putContent(realm, message.id, after), update("message", { ...message, version: 3 }))
      assert.equal(stale?._tag, "VersionMoved")
      assert.deepEqual(yield* store.messages.content(realm, message.id), before)

      yield* land(store, update("message", next(message)), putContent(realm, message.id, after))

      assert.deepEqual(yield* store.messages.content(realm, message.id), after)
      assert.deepEqual(yield* store.messages.get(realm, message.id), next(message))
    })
  ),
  law("puts the last of several contents, also of a message of the same commit, and passes over what is not there", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const [fresh, old] = [inbound(realm), inbound(realm)]
      const content = (text: string) => Fixtures.content(fresh, { text })
      yield* land(store, insertMessage(old, content("0")))

      yield* land(
        store,
        putContent(realm, fresh.id, content("too early")),
        insertMessage(fresh, content("1")),
        putContent(realm, fresh.id, content("2")),
        putContent(Fixtures.otherEnvironment(realm), fresh.id, content("of another environment")),
        putContent(realm, old.id, content("3")),
        putContent(realm, old.id, content("4")),
        putContent(Fixtures.otherEnvironment(realm), old.id, content("of another environment")),
        putContent({ ...realm, tenantId: Fixtures.realm().tenantId }, old.id, content("of another tenant")),
        putContent(realm, Fixtures.freshId(), content("of nothing"))
      )

      assert.deepEqual(yield* store.messages.content(realm, fresh.id), content("2"))
      assert.deepEqual(yield* store.messages.content(realm, old.id), content("4"))
    })
  ),
  law("leaves the content of another tenant's message, and of the other environment's, as it is", (store) =>
    Effect.gen(function* () {
      const realm = Fixtures.realm()
      const message = inbound(realm)
      const [content, foreign] = [Fixtures.content(message), Fixtures.content(message, { text: "foreign" })]
      yield* land(store, insertMessage(message, content))

      yield* land(store, putContent(Fixtures.realm(), message.id, foreign), putContent(Fixtures.otherEnvironment(realm), message.id, foreign))

      assert.deepEqual(yield* store.messages.content(realm, message.id), content)
    })
  )
]

export const receiving = [...names, ...messages]
