import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import * as Fixtures from "../../conformance/fixtures.ts"
import * as Attachment from "./Attachment.ts"
import type { MessageId } from "./Ids.ts"
import type { Table } from "./Machine.ts"

type Tag = Attachment.Input["_tag"]

const inputs: { readonly [T in Tag]: Extract<Attachment.Input, { readonly _tag: T }> } = {
  Clean: { _tag: "Clean", at: 10 },
  Infected: { _tag: "Infected", at: 10 },
  Errored: { _tag: "Errored", at: 10, nextScanAt: 99 },
  Rescan: { _tag: "Rescan", at: 10 }
}
const tags = Object.keys(inputs) as ReadonlyArray<Tag> // the keys of the literal above
const table: Table<Attachment.State, Tag> = Attachment.transitions
const states = Attachment.State.literals

const attachment = (over: Partial<Attachment.Attachment> = {}) => Fixtures.attachment(Fixtures.realm(), { scannedAt: 1, nextScanAt: 5, ...over })

const take = (held: Attachment.Attachment, input: Attachment.Input) =>
  Attachment.apply(held, Result.getOrThrow(Attachment.decide(held, input)))

describe("attachment", () => {
  for (const state of states) {
    for (const tag of tags) {
      const cell = table[state][tag]
      if (cell === undefined) {
        it(`${state} + ${tag} -> illegal, and changes nothing`, () => {
          const before = attachment({ scanState: state })
          const copy = structuredClone(before)

          assert.isTrue(Result.isFailure(Attachment.decide(before, inputs[tag])))
          assert.deepStrictEqual(before, copy)
        })
      } else {
        it(`${state} + ${tag} -> ${cell.to}`, () => {
          const before = attachment({ scanState: state })

          const after = take(before, inputs[tag])

          assert.strictEqual(after.scanState, cell.to)
          assert.strictEqual(after.version, before.version + 1)
        })
      }
    }
  }

  it("moves as decided, and in no other way", () => {
    const moves = states.flatMap((state) => tags.flatMap((tag) => (table[state][tag] ? [`${state} + ${tag} -> ${table[state][tag].to}`] : [])))

    assert.deepStrictEqual(moves, [
      "pending + Clean -> clean",
      "pending + Infected -> infected",
      "pending + Errored -> error",
      "error + Rescan -> pending"
    ])
  })

  it("has no further scan due once a verdict is final", () => {
    for (const verdict of [inputs.Clean, inputs.Infected]) {
      const after = take(attachment({ scanState: "pending" }), verdict)

      assert.isNull(after.nextScanAt)
      assert.strictEqual(after.scannedAt, 10)
    }
  })

  it("counts errors, and is due for another scan", () => {
    const errored = take(attachment({ scanState: "pending", scanErrors: 2 }), inputs.Errored)

    const again = take(errored, { _tag: "Rescan", at: 99 })

    assert.deepInclude(errored, { scanErrors: 3, nextScanAt: 99, scannedAt: 10 })
    assert.deepInclude(again, { scanState: "pending", scanErrors: 3, nextScanAt: 99, scannedAt: 10 })
  })

  it("belongs to the first message that uses it, and expires no more", () => {
    const first = Fixtures.freshId<MessageId>()
    const upload = attachment({ expiresAt: 70 })

    const used = Attachment.use(upload, first, 60)

    assert.deepStrictEqual(used, { ...upload, version: upload.version + 1, messageId: first, expiresAt: null, usedAt: 60 })
    assert.strictEqual(Attachment.use(used, Fixtures.freshId<MessageId>(), 61), used)
  })

  it("tells to the hour when it was used last", () => {
    const hour = 3_600_000
    const used = attachment({ messageId: Fixtures.freshId<MessageId>(), usedAt: 60 })
    const again = (at: number) => Attachment.use(used, Fixtures.freshId<MessageId>(), at)

    for (const at of [0, 60, 60 + hour - 1]) assert.strictEqual(again(at), used)
    assert.deepStrictEqual(again(60 + hour), { ...used, version: used.version + 1, usedAt: 60 + hour })
    const before = attachment({ messageId: used.messageId, usedAt: null })
    assert.deepStrictEqual(Attachment.use(before, Fixtures.freshId<MessageId>(), 0), { ...before, version: before.version + 1, usedAt: 0 }, "of a version that did not say so")
  })
})

describe("a file name", () => {
  const accepts = Schema.is(Attachment.Filename)

  for (const name of ["a", "notes.txt", "Röntgen 2.pdf", "…", ".profile", "a;b=\"c\".txt", "日本語.txt", "👩‍👩‍👧.png", "a".repeat(255), "😀".repeat(255), "=?.txt", "a=?b?c"]) {
    it(`may be ${JSON.stringify(name.slice(0, 20))} (${name.length})`, () => assert.isTrue(accepts(name)))
  }

  const refused = ["", " ", "\u00a0 \u3000", "a".repeat(256), "😀".repeat(256), "../a", "a/b", "a\\b", ".", "..", "a\u0000", "a\r\nb", "a\tb", "a\u0085b", "a\u2028b", "a\u202egnp.exe", "\u200fa", "a\u2066b", "\u061ca", "=?utf-8?q?a?=", "x =?iso-8859-1?B?Li4vZXZpbA==?=.pdf", "=??b?Lg==?="]
  for (const name of refused) {
    it(`may not be ${JSON.stringify(name.slice(0, 20))} (${name.length})`, () => assert.isFalse(accepts(name)))
  }

  it("is refused with what is wrong about it", () => {
    const said = (name: string) => Result.match(Schema.decodeUnknownResult(Attachment.Filename)(name), { onSuccess: () => "", onFailure: String })

    assert.include(said("a/b"), "a file name is not a path")
    assert.include(said("a\u202eb"), "turn the writing direction")
    assert.include(said("a\nb"), "control characters")
    assert.include(said("  "), "more than white space")
    assert.include(said(""), "1 to 255 characters")
  })
})

describe("a media type", () => {
  const accepts = Schema.is(Attachment.MediaType)

  for (const type of ["text/plain", "application/vnd.ms-excel", "image/svg+xml", "X/y", `a/${"b".repeat(118)}`, "text/plain; charset=x", "text/calendar;method=REQUEST ; charset=\"utf-8\"", 'a/b; q=" !#[]~;=,"', "a/b; q=\"\""]) {
    it(`may be ${type.slice(0, 30)} (${type.length})`, () => assert.isTrue(accepts(type)))
  }

  for (const type of ["", "text", "text/", "/plain", "text/plain;", "text/plain; ; a=b", "text/plain; charset", "text/plain; charset=", "text/plain; a=b c", 'a/b; q="', 'a/b; q="a\\"b"', 'a/b; q="é"', "a/b; q=é", "a/b; q*=x", "a/b; q=\"x\r\ny\"", "a/b; q=x; Q=y", "a/b; NAME=x.txt", "a/b; filename=x.txt", "a/b; boundary=x", 'a/b; q="=?utf-8?q?x?="', "message/rfc822; a=b", "multipart/mixed; boundary=x", `a/b; q=${"x".repeat(114)}`, "text /plain", "text/pl\r\nain", "text/plain\n", "a/b/c", "té/x", `a/${"b".repeat(119)}`]) {
    it(`may not be ${JSON.stringify(type.slice(0, 30))} (${type.length})`, () => assert.isFalse(accepts(type)))
  }
})

describe("what a stranger's mail says of a file", () => {
  it("has a name that is repaired where it can be, and cut only where it is too long", () => {
    for (const [given, expected] of [
      ["a\ud800.txt", "a\ufffd.txt"],
      [`${"😀".repeat(200)}.pdf`, `${"😀".repeat(200)}.pdf`],
      [`a.${"x".repeat(300)}`, `a.${"x".repeat(253)}`],
      [`${"a".repeat(300)}.${"x".repeat(17)}`, "a".repeat(255)]
    ] as const) {
      assert.strictEqual(Attachment.receivedName(given, 1), expected)
    }
    assert.isFalse(Schema.is(Attachment.Filename)("a\ud800.txt"))
  })

  it("has a media type in small letters; what is none, and parts that were not taken apart, are bytes", () => {
    assert.deepStrictEqual(["Image/PNG", "MESSAGE/RFC822", "Multipart/Mixed", "none", `a/${"b".repeat(119)}`].map((type) => Attachment.receivedMediaType(type, [])), [
      "image/png",
      "message/rfc822",
      ...Array.from({ length: 3 }, () => "application/octet-stream")
    ])
  })

  it("has its media type with the parameters that an upload's could have, as many as fit", () => {
    const parameters = ["method=REQUEST", "charset=utf-8", "name=a.ics", "METHOD=reply", `x=${"y".repeat(100)}`, 'z="two words"']
    assert.deepStrictEqual(["Text/Calendar", "message/rfc822", "multipart/mixed"].map((type) => Attachment.receivedMediaType(type, parameters)), [
      'text/calendar; method=REQUEST; charset=utf-8; z="two words"',
      "message/rfc822",
      "application/octet-stream"
    ])
  })

  it("goes out again under its media type, but a mail as bytes", () => {
    const sent = ["text/plain; a=b", "Image/PNG", "message/rfc822", "Message/Delivery-Status"].map((mediaType) => Attachment.sentMediaType({ mediaType }))

    assert.deepStrictEqual(sent, ["text/plain", "image/png", "application/octet-stream", "application/octet-stream"])
  })

  it("has a Content-ID that is sent on if a header can hold it", () => {
    for (const id of ["logo@x", "a", "i".repeat(900)]) assert.strictEqual(Attachment.sentContentId(id), id)
    for (const id of [null, "", "i".repeat(901), "a b", "a>b", "<a", "é", "a\r\nb"]) assert.isNull(Attachment.sentContentId(id), String(id))
  })
})
