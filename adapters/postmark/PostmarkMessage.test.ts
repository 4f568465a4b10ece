import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { address, freshId } from "../../conformance/fixtures.ts"
import type { Mentioned, ParsedMessage } from "../../core/model/ParsedMessage.ts"
import { Mime } from "../../core/ports/Mime.ts"
import * as RfcMime from "../mime/RfcMime.ts"
import * as PostmarkMessage from "./PostmarkMessage.ts"

const [ada, bob, eve] = [address("ada"), address("bob"), address("eve")]

const mime = Effect.provide(Mime, RfcMime.layer)
const bytes = new TextEncoder().encode(`From: ${ada}\r\nTo: ${bob}\r\n\r\nHi\r\n`)

/** The message for Postmark of one that says these things, to one recipient. */
const made = (over: Partial<ParsedMessage>, name = "") =>
  Effect.gen(function* () {
    const parsed = yield* (yield* mime).parse(Stream.make(bytes))
    return PostmarkMessage.make({ ...parsed, ...over }, { to: [{ address: bob, name }], cc: [], bcc: [] }, { messageId: freshId(), messageStream: null })
  })

describe("a message for Postmark", () => {
  const names: ReadonlyArray<readonly [name: string, shown?: string]> = [
    ["Ada Lovelace"],
    ["Lovelace, Ada"],
    ["Ada \"L\" Lovelace"],
    ["C:\\ada"],
    ["ada\\"],
    ["\\\""],
    [`\\", ${eve}, "`],
    [`", <${eve}>, "`],
    [`\\\\" <${eve}>, \\"`],
    [`Ada\r\nBcc: ${eve}`, `Ada Bcc: ${eve}`],
    [`\\\r\n" <${eve}>, "`, `\\ " <${eve}>, "`]
  ]
  for (const [name, shown = name] of names) {
    it.effect(`names nobody else for a name, ${JSON.stringify(name)}`, () =>
      Effect.gen(function* () {
        const mentioned = { address: ada, name }

        const { From, To, ReplyTo } = yield* made({ from: mentioned, replyTo: [mentioned, { address: bob, name: "" }] }, name)

        const { from, to, replyTo, headers } = yield* (yield* mime).readHead(new TextEncoder().encode(`From: ${From}\r\nTo: ${To}\r\nReply-To: ${ReplyTo}\r\n\r\n`))
        assert.deepStrictEqual({ from, to, replyTo }, {
          from: { address: ada, name: shown },
          to: [{ address: bob, name: shown }],
          replyTo: [{ address: ada, name: shown }, { address: bob, name: "" }]
        })
        assert.lengthOf(headers, 3)
      })
    )
  }

  for (const [text, html, body] of [
    ["Hi", null, { TextBody: "Hi" }],
    ["Hi", "<p>Hi</p>", { TextBody: "Hi", HtmlBody: "<p>Hi</p>" }],
    ["", "<p>Hi</p>", { HtmlBody: "<p>Hi</p>" }],
    [null, "<p>Hi</p>", { HtmlBody: "<p>Hi</p>" }],
    ["", null, { TextBody: " " }],
    [null, null, { TextBody: " " }]
  ] as const) {
    it.effect(`has a body, of the text ${JSON.stringify(text)} and the HTML ${JSON.stringify(html)}`, () =>
      Effect.gen(function* () {
        const message = yield* made({ text, html })

        const { TextBody, HtmlBody } = message
        assert.deepStrictEqual({ ...("TextBody" in message ? { TextBody } : {}), ...("HtmlBody" in message ? { HtmlBody } : {}) }, body)
      })
    )
  }

  it("shows whom the header names as it names them, however the case is written, and mails nobody twice", () => {
    const to = [{ address: "Bob@example.COM", name: "Bob" }, { address: bob, name: "again" }]
    const cc = [{ address: eve, name: "Eve" }, { address: address("BOB"), name: "" }]

    const groups = PostmarkMessage.groupsOf({ to, cc }, [bob, address("Eve"), ada])

    const named = ({ address, name }: Mentioned) => `${name} <${address}>`
    assert.deepStrictEqual(
      groups.map((group) => ({ to: group.to.map(named), cc: group.cc.map(named), bcc: group.bcc })),
      [{ to: ["Bob <bob@example.com>"], cc: ["Eve <Eve@example.com>"], bcc: [ada] }]
    )
  })
})
