import { assert, describe, it } from "@effect/vitest"
import { setFlagsFromString } from "node:v8"
import { runInThisContext } from "node:vm"
import * as Fixtures from "../../conformance/fixtures.ts"
import * as Law from "../../conformance/StoreLaw.ts"
import { inbound, reception } from "../../conformance/StoreReceiving.ts"
import type { KeptContent } from "../../core/model/Message.ts"
import { given, hashOf, isId, names, parameters, tables, toBigint, toText, type Column, type Row } from "./Rows.ts"
import * as Rows from "./Rows.ts"

/** A row as the server would give it back. */
const rowOf = <A>(columns: ReadonlyArray<Column<A>>, item: A): Row =>
  Object.fromEntries(columns.map(({ name, value }) => [name, value(item)]))

const roundTrip = <A, B>({ columns, decode }: Rows.Table<A, B>, item: A): B => decode(rowOf(columns, item))

const realm = Fixtures.realm()
const domain = Fixtures.mailDomain(realm.tenantId)
const endpoint = Fixtures.endpoint(realm, { positions: { createdAfter: 5n, disabledAfter: 7n, enabledAfter: 12_345_678_901_234_567n } })

/** Whether V8 keeps an object by its shape, and not as a dictionary. */
const hasShape = (() => {
  setFlagsFromString("--allow-natives-syntax")
  return runInThisContext("(value) => %HasFastProperties(value)") as (value: object) => boolean
})()

describe("a record", () => {
  it("of each kind has a shape when it is read, so that it is copied in no time", () => {
    const message = Fixtures.message(realm)
    const application = Fixtures.application(realm)
    const grown: Record<string, number> = {}
    for (let member = 0; member < 100; member++) grown[`member${member}`] = member

    for (const [table, item] of [
      [tables.message, message],
      [tables.delivery, Fixtures.delivery(endpoint)],
      [tables.endpoint, endpoint],
      [tables.apiKey, Fixtures.apiKey(application)],
      [tables.application, application],
      [tables.tenant, Fixtures.tenant()],
      [tables.mailbox, Fixtures.mailbox(domain)],
      [tables.domain, domain],
      [tables.attachment, Fixtures.attachment(realm)],
      [Rows.event, { ...Fixtures.queuedEvent(message), shard: 3, position: 4n, latestAt: 5 }]
    ] as ReadonlyArray<readonly [Rows.Table<unknown, object>, unknown]>) {
      assert.isTrue(hasShape(roundTrip(table, item)), table.name)
    }
    assert.isFalse(hasShape(grown))
  })

  it("of each kind is read as it was written", () => {
    const ref = Law.submissionRef()
    const message = Fixtures.message(realm, { createdAt: 1_796_117_400_123_457n, submissions: [Law.submission(ref, { pollAt: 7 })] })
    const apiKey = Fixtures.apiKey(Fixtures.application(realm), { lastUsedAt: 5, scopes: ["messages:send"] })

    assert.deepStrictEqual(roundTrip(tables.message, message), message)
    assert.deepStrictEqual(roundTrip(tables.endpoint, endpoint), endpoint)
    assert.deepStrictEqual(roundTrip(tables.apiKey, apiKey), apiKey)
    const unused = { ...apiKey, lastUsedAt: null }
    assert.deepStrictEqual(roundTrip(tables.apiKey, unused), unused)
    const delivery = Fixtures.delivery(endpoint, { status: "dead", nextAttemptAt: null, deadAt: 9 })
    assert.deepStrictEqual(roundTrip(tables.delivery, delivery), delivery)
    const mailbox = Fixtures.mailbox(domain)
    assert.deepStrictEqual(roundTrip(tables.mailbox, mailbox), mailbox)
    assert.deepStrictEqual(roundTrip(tables.domain, domain), domain)
    const event = { ...Fixtures.queuedEvent(message), shard: 3, position: 12_345_678_901_234_567n }
    assert.deepStrictEqual(roundTrip(Rows.event, { ...event, latestAt: 9 }), event)
    const kept = Law.notification(ref)
    assert.deepStrictEqual(roundTrip(Rows.notification, { notification: kept, at: 4 }), kept)
  })

  it("says nothing twice in the tables that grow with each message, nor what is as usual", () => {
    const message = Fixtures.message(realm)
    const said = <A>(columns: ReadonlyArray<Column<A>>, item: A) => Object.keys(JSON.parse(String(rowOf(columns, item)["record"])))

    const ofMessage = said(tables.message.columns, message)
    for (const member of ["id", "tenantId", "environment", "mailboxId", "version", "createdAt", "inReplyTo", "references", "mime"]) {
      assert.notInclude(ofMessage, member)
    }
    assert.includeMembers(ofMessage, ["subject", "recipients", "status", "folder", "isRead"])
    const inbox = { ...message, isStarred: true, inReplyTo: "<1@a.example>", references: ["<1@a.example>"], attempts: 1 }
    assert.includeMembers(said(tables.message.columns, inbox), ["isStarred", "inReplyTo", "references", "attempts"])
    assert.deepStrictEqual(roundTrip(tables.message, inbox), inbox)
    const event = { ...Fixtures.queuedEvent(message), shard: 3, position: 4n, latestAt: 5 }
    assert.sameMembers(said(Rows.event.columns, event), ["id", "type", "resourceType", "resourceId", "data", "occurredAt"])
    const ofTenant = { ...event, environment: null }
    assert.isNull(roundTrip(Rows.event, ofTenant).environment)
    assert.notInclude(said(tables.delivery.columns, Fixtures.delivery(endpoint)), "endpointId")
  })

  it("of before, which says all of it, is read as it is", () => {
    const message = Fixtures.message(realm, { createdAt: 7n })
    const { createdAt: _, ...whole } = message
    const delivery = Fixtures.delivery(endpoint)

    const before = { ...rowOf(tables.message.columns, message), record: JSON.stringify({ ...whole, subject: "Before" }) }
    assert.deepStrictEqual(tables.message.decode(before), { ...message, subject: "Before" })
    const earlier = { ...rowOf(tables.delivery.columns, delivery), record: JSON.stringify({ ...delivery, round: 9 }) }
    assert.deepStrictEqual(tables.delivery.decode(earlier), { ...delivery, round: 9 })
  })

  it("of a domain that has neither keys nor checks, because it is of before them, has none", () => {
    const { proof: _p, dkim: _d, nextDkim: _n, nextCheckAt: _c, ...earlier } = domain

    assert.deepStrictEqual(tables.domain.decode({ record: JSON.stringify(earlier) }), domain)
  })

  it("of an endpoint that says of no secret to come has none", () => {
    const row = rowOf(tables.endpoint.columns, endpoint)

    assert.notProperty(JSON.parse(String(row["record"])), "nextSecret")
    assert.deepStrictEqual(tables.endpoint.decode(row), endpoint)
  })

  it("keeps the members that other code gave it", () => {
    const { columns, decode } = tables.tenant
    const tenant = { ...Fixtures.tenant(), region: "eu" }

    const read = decode(rowOf(columns, tenant))
    const written = decode(rowOf(columns, { ...read, version: 2 }))

    assert.deepStrictEqual(written, { ...tenant, version: 2 })
  })

  it("of a version that knew of no receiving is of nothing that came in", () => {
    const message = Fixtures.message(realm)
    const without = <A>(row: Row, ...members: ReadonlyArray<keyof A>): Row => ({
      ...row,
      record: JSON.stringify(JSON.parse(String(row["record"])), (name, value) => (members.includes(name as keyof A) ? undefined : value))
    })

    const oldMessage = without<typeof message>(rowOf(tables.message.columns, message), "reception")
    const oldDomain = without<typeof domain>(rowOf(tables.domain.columns, domain), "catchAll")

    assert.notInclude(String(oldMessage["record"]) + String(oldDomain["record"]), "reception")
    assert.deepStrictEqual(tables.message.decode(oldMessage), message)
    assert.deepStrictEqual(tables.domain.decode(oldDomain), domain)
  })

  it("says in its columns what it is found and ordered by", () => {
    const attachment = Fixtures.attachment(realm, { expiresAt: 5, nextScanAt: 6 })
    const message = Fixtures.message(realm, {
      submissions: [Law.submission(Law.submissionRef(), { pollAt: 9 }), Law.submission(Law.submissionRef(), { pollAt: 8 })]
    })
    const of = <A>(table: Rows.Table<A>, item: A, column: string) => rowOf(table.columns, item)[column]

    assert.strictEqual(of(tables.attachment, attachment, "unused_until_ms"), 5n)
    assert.isNull(of(tables.attachment, { ...attachment, messageId: message.id }, "unused_until_ms"))
    assert.strictEqual(of(tables.message, message, "poll_ms"), 8n)
    assert.isNull(of(tables.message, Fixtures.message(realm), "poll_ms"))
    assert.isNull(of(tables.message, message, "parse_ms"))
    assert.strictEqual(of(tables.message, inbound(realm, { reception: reception({ nextParseAt: 4 }) }), "parse_ms"), 4n)
    assert.strictEqual(of(tables.mailbox, Fixtures.mailbox(domain, { address: Fixtures.address("Ada") }), "folded_address"), "ada@example.com")
    const delivery = Fixtures.delivery(endpoint, { nextAttemptAt: 3 })
    const shown = (over: Partial<typeof delivery>) => {
      const row = rowOf(tables.delivery.columns, { ...delivery, ...over })
      return [row["next_attempt_ms"], row["dead_ms"], row["ended_ms"]]
    }
    assert.deepStrictEqual(shown({}), [3n, null, null])
    assert.deepStrictEqual(shown({ status: "dead", nextAttemptAt: null, deadAt: 4 }), [null, 4n, 4n])
    assert.deepStrictEqual(shown({ status: "delivered", nextAttemptAt: null, deliveredAt: 5 }), [null, null, 5n])
  })
})

describe("a content", () => {
  const messageId = Fixtures.freshId<never>()
  const row = (content: KeptContent) => rowOf(Rows.messageContent.columns, Rows.storedContent(messageId, content))
  const whole = { headers: [{ name: "Subject", value: "Note G" }] }

  it("has its bodies in columns, as they are, and nothing else where there is nothing else", () => {
    assert.deepStrictEqual(row({ text: "Tag 🏳️‍🌈", html: null }), { message_id: messageId, text: "Tag 🏳️‍🌈", html: null, record: null })
    assert.deepStrictEqual(row({ text: null, html: "<p>", ...whole }), { message_id: messageId, text: null, html: "<p>", record: JSON.stringify(whole) })
  })

  it("is read as it was written, with whatever a column cannot hold, and as one of before", () => {
    const contents: ReadonlyArray<KeptContent> = [
      { text: "a", html: "<b>" },
      { text: "a\u0000b", html: "<b>" },
      { text: null, html: "half \ud800", ...whole },
      { text: "", html: null, ...whole }
    ]
    for (const content of contents) {
      assert.deepStrictEqual(roundTrip(Rows.messageContent, Rows.storedContent(messageId, content)), content)
      assert.deepStrictEqual(Rows.messageContent.decode({ text: null, html: null, record: JSON.stringify(content) }), content)
    }
  })
})

describe("a message", () => {
  const attachmentIds = [Fixtures.freshId<never>(), Fixtures.freshId<never>()]
  const queued = Fixtures.message(realm, { attachmentIds: [...attachmentIds, attachmentIds[0]!] })

  it("holds each of its attachments once, while a recipient is queued", () => {
    assert.deepStrictEqual(
      Rows.queuedAttachmentsOf(queued),
      attachmentIds.map((attachmentId) => ({ attachmentId, messageId: queued.id }))
    )
    const sent = queued.recipients.map((recipient) => ({ ...recipient, status: "sent" as const }))
    assert.deepStrictEqual(Rows.queuedAttachmentsOf({ ...queued, recipients: sent }), [])
  })

  it("is named by each of its submissions", () => {
    const refs = [Law.submissionRef(), Law.submissionRef()]

    assert.deepStrictEqual(
      Rows.submissionsOf({ ...queued, submissions: refs.map((ref) => Law.submission(ref)) }),
      refs.map((ref) => ({ ...ref, messageId: queued.id }))
    )
  })
})

describe("a value", () => {
  it("beyond what a column holds is the column's end", () => {
    assert.deepStrictEqual([-Infinity, Infinity].map(toBigint), [-9_223_372_036_854_775_807n, 9_223_372_036_854_775_807n])
    assert.deepStrictEqual([2 ** 63, -(2 ** 63)].map(toBigint), [9_223_372_036_854_775_807n, -9_223_372_036_854_775_807n])
    assert.deepStrictEqual(
      [Number.MAX_SAFE_INTEGER, -5, -0, 1.9, -1.1].map(toBigint),
      [9_007_199_254_740_991n, -5n, 0n, 1n, -2n]
    )
  })

  it("is an identifier only as we write them", () => {
    const id = Fixtures.freshId<string>()

    assert.isTrue(isId(id))
    for (const other of ["", "x", id.toUpperCase(), `{${id}}`, id.replaceAll("-", ""), `${id} `, `${id}\n`]) assert.isFalse(isId(other), other)
  })

  it("of others' choice has no NUL and no half of a character", () => {
    assert.strictEqual(toText("a\u0000b\ud800c 🏳️‍🌈"), "a\ufffdb\ufffdc 🏳️‍🌈")
  })

  it("is hashed to one text for one meaning", () => {
    const note = Law.notification(Law.submissionRef())
    const turned = Object.fromEntries(Object.entries(note).toReversed()) as typeof note // the same members

    assert.match(hashOf(note), /^[0-9a-f]{64}$/)
    assert.strictEqual(hashOf(turned), hashOf(note))
    assert.notStrictEqual(hashOf({ ...note, recipient: null }), hashOf(note))
  })
})

describe("a statement over many rows", () => {
  it("has one text and the same types for any number of them", () => {
    const { columns } = tables.tenant
    const types = (count: number) => parameters(columns, Law.times(count, () => Fixtures.tenant())).map(({ oid }) => oid)

    assert.strictEqual(names(columns), "id, version, record")
    assert.strictEqual(
      given(columns, 3),
      "(select unnest($3::uuid[]) as id, unnest($4::integer[]) as version, unnest($5::json[]) as record) as given"
    )
    for (const count of [0, 1, 5]) assert.deepStrictEqual(types(count), [2951, 1007, 1009])
  })

  it("has the values themselves where it is over one", () => {
    const { columns } = tables.tenant
    const tenant = Fixtures.tenant()
    const only = parameters(columns, [tenant], "row")

    assert.strictEqual(given(columns, 3, "row"), "(select $3::uuid as id, $4::integer as version, $5::json as record) as given")
    assert.deepStrictEqual(only.map(({ oid }) => oid), [2950, 23, 25])
    assert.deepStrictEqual(only.slice(0, 2).map(({ value }) => value), [tenant.id, tenant.version])
  })
})
