import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import * as Fixtures from "../../conformance/fixtures.ts"
import * as Event from "./Event.ts"
import * as EventSample from "./EventSample.ts"
import type { ApplicationId, AttachmentId, EventId, MailboxId, MessageId } from "./Ids.ts"
import * as Limits from "./Limits.ts"
import { utf8Length } from "./Message.ts"

const realm = Fixtures.realm()
const message = Fixtures.message(realm)
const id = Fixtures.freshId<EventId>()
const sentAt = "2026-12-01T09:30:00.000Z"
const failure = { stage: "submit", code: "expired", message: "gave up" } as const
const bounce = { class: "permanent", smtpCode: 550, enhancedCode: "5.1.1", diagnostic: "no such user" } as const
const mailbox = { address: "ada@example.com", displayName: "Ada", status: "active", reason: null } as const

/** What each type holds beyond the members that all types of its resource share. */
const fields: { readonly [T in Event.Type]: Event.Fields<T> } = {
  "message.queued": { from: "a@x.test", to: ["b@x.test"], cc: [], subject: "s", attachmentIds: [Fixtures.freshId<AttachmentId>()], requestId: "r" },
  "message.sent": { internetMessageId: "<1@x.test>", provider: "smtp", providerMessageId: "p1", recipients: ["b@x.test"], sentAt },
  "message.delivered": { recipient: "b@x.test", smtpResponse: null, deliveredAt: sentAt, messageStatus: "delivered" },
  "message.bounced": { recipient: "b@x.test", bounce, messageStatus: "bounced" },
  "message.failed": { recipient: null, failure, messageStatus: "failed" },
  "message.received": {
    internetMessageId: null,
    from: "a@x.test",
    to: ["b@x.test"],
    subject: "s",
    receivedAt: sentAt,
    folder: "inbox",
    attachments: [],
    authentication: { spf: "pass", dkim: null, dmarc: "pass" },
    sizeBytes: 7
  },
  "message.updated": { isRead: true, isStarred: false, folder: "archive", changed: ["folder"], actor: { type: "api_key", id: "k" } },
  "mailbox.created": mailbox,
  "mailbox.updated": mailbox,
  "mailbox.suspended": { ...mailbox, status: "suspended", reason: "unpaid" },
  "domain.health_changed": {
    domain: "x.test",
    verified: false,
    health: "failing",
    previousHealth: "degraded",
    reasons: [{ record: "dkim", state: "missing", expected: "k=rsa", observed: null }]
  }
}
const messageTypes = ["message.queued", "message.sent", "message.delivered", "message.bounced", "message.failed", "message.received", "message.updated"] as const

const isData = (type: Event.Type, data: unknown): boolean =>
  Result.isSuccess(Schema.decodeUnknownResult(Event.data[type] as Schema.Codec<unknown>, { onExcessProperty: "error" })(data)) // any of the schemas

describe("the event types", () => {
  it("are those of the specification, less the handshake", () => {
    assert.deepStrictEqual([...Event.types].sort(), [
      "domain.health_changed",
      "mailbox.created",
      "mailbox.suspended",
      "mailbox.updated",
      "message.bounced",
      "message.delivered",
      "message.failed",
      "message.queued",
      "message.received",
      "message.sent",
      "message.updated"
    ])
    assert.notInclude(Event.types, Event.verificationType)
  })

  for (const type of Event.types) {
    const object = type.split(".")[0]
    const common = { object, id: message.id, sequence: 3, ...(object === "message" ? { mailboxId: message.mailboxId } : {}) }

    it(`${type} has a schema, for that object, with an id and a sequence`, () => {
      const data = { ...common, ...fields[type] }

      assert.isTrue(isData(type, data))
      assert.isTrue(isData(type, { ...data, demo: true }))
      for (const faulty of [{ ...data, object: "thing" }, { ...data, id: "7" }, { ...data, sequence: 1.5 }, { ...data, sequence: undefined }, { ...data, extra: 1 }]) {
        assert.isFalse(isData(type, faulty), JSON.stringify(faulty))
      }
    })

    it(`${type} demands each of its members`, () => {
      const data: Record<string, unknown> = { ...common, ...fields[type] }

      for (const name of Object.keys(data)) {
        const { [name]: _, ...without } = data
        assert.isFalse(isData(type, without), name)
      }
    })
  }
})

describe("an event about a message", () => {
  for (const type of messageTypes) {
    it(`${type} is whole`, () => {
      const event = Event.ofMessage(message, 4, type, id, 77, fields[type])

      assert.isTrue(isData(type, event.data))
      assert.deepStrictEqual(
        { ...event },
        {
          id,
          tenantId: realm.tenantId,
          environment: realm.environment,
          audience: null,
          type,
          resourceType: "message",
          resourceId: message.id,
          data: event.data,
          occurredAt: 77
        }
      )
      assert.deepInclude(event.data, { object: "message", id: message.id, sequence: 4, mailboxId: message.mailboxId, ...fields[type] })
    })
  }

  it("is shown with exactly the members of the Event resource", () => {
    const shown = Event.view(Event.ofMessage(message, 4, "message.sent", id, 0, fields["message.sent"]))

    assert.deepStrictEqual(Object.keys(shown), ["id", "type", "resourceType", "resourceId", "data", "occurredAt"])
    assert.strictEqual(shown.occurredAt, "1970-01-01T00:00:00.000Z")
    assert.isTrue(Schema.is(Event.View)(JSON.parse(JSON.stringify(shown))))
  })
})

describe("a synthetic event", () => {
  const ids = { event: id, resource: Fixtures.freshId<MessageId>(), mailbox: Fixtures.freshId<MailboxId>() }
  const of = { tenantId: realm.tenantId, applicationId: Fixtures.freshId<ApplicationId>() }

  for (const type of Event.types) {
    it(`${type} fits the type's schema, is marked as a demo, and is for one application of the sandbox`, () => {
      const sample = EventSample.make(type, of, ids, Date.parse(sentAt))

      assert.isTrue(isData(type, sample.data), JSON.stringify(sample.data))
      assert.deepStrictEqual(
        { ...sample, data: null },
        {
          id,
          tenantId: realm.tenantId,
          environment: "sandbox",
          audience: of.applicationId,
          type,
          resourceType: type.split(".")[0] as Event.Event["resourceType"],
          resourceId: ids.resource,
          data: null,
          occurredAt: Date.parse(sentAt)
        }
      )
      assert.deepInclude(sample.data, { demo: true, object: sample.resourceType, id: ids.resource })
      assert.isTrue(Schema.is(Event.View)(JSON.parse(JSON.stringify(Event.view(sample)))))
      assert.notInclude(JSON.stringify(sample.data), realm.tenantId)
    })
  }
})

describe("the size of an event's data", () => {
  const size = (data: unknown) => utf8Length(JSON.stringify(data))
  const addresses = (count: number) => Array.from({ length: count }, (_, index) => `${String(index).padStart(64, "l")}@${"d".repeat(63)}.${"d".repeat(63)}.${"d".repeat(61)}`)
  const foreign = "É".repeat(30_000)

  const largest: { readonly [T in (typeof messageTypes)[number]]?: Event.Fields<T> } = {
    "message.queued": {
      ...fields["message.queued"],
      to: addresses(Limits.recipientsPerFieldMax),
      cc: addresses(Limits.recipientsPerFieldMax),
      subject: "😀".repeat(Limits.subjectLengthMax),
      attachmentIds: Array.from({ length: Limits.attachmentsPerMessageMax }, () => Fixtures.freshId<AttachmentId>())
    },
    "message.sent": { ...fields["message.sent"], recipients: addresses(3 * Limits.recipientsPerFieldMax) },
    "message.delivered": { ...fields["message.delivered"], recipient: addresses(1)[0]!, smtpResponse: foreign },
    "message.bounced": { ...fields["message.bounced"], recipient: addresses(1)[0]!, bounce: { ...bounce, diagnostic: foreign } },
    "message.failed": { ...fields["message.failed"], recipient: addresses(1)[0]!, failure: { ...failure, message: foreign } }
  }

  for (const type of messageTypes) {
    it(`stays under 20 KB, whatever a request or another server may say: ${type}`, () => {
      const { data } = Event.ofMessage(message, 4, type, id, 0, largest[type] ?? fields[type])

      assert.isAtMost(size(data), 20_000)
      assert.isTrue(isData(type, data))
    })
  }

  it("is kept by leaving addresses out, cc first, and saying so", () => {
    const { data } = Event.ofMessage(message, 4, "message.queued", id, 0, largest["message.queued"]!)

    assert.strictEqual(data.truncated, true)
    assert.lengthOf(data.to, 50)
    assert.isBelow(data.cc.length, 50)
    assert.deepStrictEqual(data.cc, addresses(50).slice(0, data.cc.length))
    assert.isAbove(size(data), 19_000)
  })

  it("is kept by cutting what another server said, not in the middle of a character", () => {
    const { data } = Event.ofMessage(message, 4, "message.bounced", id, 0, { ...largest["message.bounced"]!, bounce: { ...bounce, diagnostic: "😀".repeat(9_000) } })

    assert.strictEqual(data.bounce.diagnostic, "😀".repeat(1_000))
    assert.strictEqual(data.truncated, true)
  })

  it("is kept by a domain, whatever its records say: texts are cut before reasons are left out, from the end", () => {
    const common = { object: "domain", id, sequence: 1, domain: "example.com", verified: false, health: "failing", previousHealth: "healthy" }
    const shown = (count: number, text: string) => {
      const reasons = Array.from({ length: count }, (_, index) => ({ record: `dkim-${index}`, state: "mismatch", expected: text, observed: text }))
      const data = Event.fit({ ...common, reasons }) as Event.Data<"domain.health_changed">
      assert.isAtMost(size(data), 20_000)
      assert.isTrue(isData("domain.health_changed", data))
      assert.strictEqual(data.truncated, true)
      return data.reasons
    }

    for (const text of ["😀".repeat(5_000), "\u0001".repeat(5_000), "a".repeat(5_000)]) {
      assert.deepStrictEqual(shown(12, text).map(({ record }) => record), Array.from({ length: 12 }, (_, index) => `dkim-${index}`))
      const some = shown(400, text)
      assert.isAbove(some.length, 12)
      assert.strictEqual(some.at(-1)!.record, `dkim-${some.length - 1}`)
    }
    assert.lengthOf(shown(3, "a".repeat(5_000))[2]!.observed!, 1_000)
  })

  it("is used up to the last byte before anything is left out", () => {
    const ofSize = (bytes: number) => ({ text: "a".repeat(bytes - size({ text: "" })) })

    assert.notProperty(Event.fit(ofSize(20_000)), "truncated")
    assert.propertyVal(Event.fit(ofSize(20_001)), "truncated", true)
  })

  it("is not passed by a byte where a list is left out whole", () => {
    const listed = { truncated: true, to: ["a"], cc: ["b"] }
    for (let bytes = 20_001; bytes <= 20_006; bytes++) {
      const data = { ...listed, text: "a".repeat(bytes - size({ ...listed, text: "" })) }

      assert.isAtMost(size(Event.fit(data)), 20_000, `${bytes} bytes`)
    }
  })

  it("needs nothing left out of an ordinary event", () => {
    for (const type of messageTypes) assert.notProperty(Event.ofMessage(message, 4, type, id, 0, fields[type]).data, "truncated")
  })
})
