import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import * as fc from "fast-check"
import * as Fixtures from "../../conformance/fixtures.ts"
import type { Address } from "./Address.ts"
import type { MessageId } from "./Ids.ts"
import * as Message from "./Message.ts"
import { emptyPart, type MimePart } from "./MimePart.ts"
import * as Recipient from "./Recipient.ts"

const address = (text: string) => text as Address // plain enough to be valid
const realm = Fixtures.realm()
const withStates = (...states: ReadonlyArray<Recipient.State>) => states.map((status) => ({ status }))

describe("the status of a message", () => {
  const rows: ReadonlyArray<readonly [recipients: string, status: Recipient.State]> = [
    ["queued", "queued"],
    ["sent", "sent"],
    ["delivered", "delivered"],
    ["bounced", "bounced"],
    ["failed", "failed"],
    ["queued failed", "queued"],
    ["queued delivered bounced", "queued"],
    ["failed bounced delivered sent", "failed"],
    ["bounced delivered sent", "bounced"],
    ["delivered sent", "sent"],
    ["delivered delivered", "delivered"]
  ]
  for (const [recipients, status] of rows) {
    it(`is ${status} of: ${recipients}`, () => {
      const states = recipients.split(" ") as ReadonlyArray<Recipient.State> // the words of the table above

      assert.strictEqual(Message.fold(withStates(...states)), status)
      assert.strictEqual(Message.fold(withStates(...states.toReversed())), status)
    })
  }

  const state = fc.constantFrom<Recipient.State>("queued", "sent", "delivered", "bounced", "failed")

  it("moves only along its published graph when a recipient moves along its own", () => {
    const inputs: ReadonlyArray<Recipient.Input> = [
      { _tag: "Accepted", at: 1, submission: { provider: "p", providerMessageId: "1" } },
      { _tag: "Delivered", at: 1, smtpResponse: null },
      { _tag: "Bounced", at: 1, bounce: { class: "permanent", smtpCode: null, enhancedCode: null, diagnostic: null } },
      { _tag: "Failed", at: 1, failure: { stage: "submit", code: "c", message: "m" } }
    ]
    const step = fc.record({ of: fc.nat(5), input: fc.constantFrom(...inputs) })

    fc.assert(
      fc.property(fc.array(state, { minLength: 1, maxLength: 6 }), fc.array(step, { maxLength: 12, size: "max" }), (states, steps) => {
        let recipients = states.map((status) => ({ ...Recipient.make(address("a@x.test"), "to", 0), status }))
        for (const { of, input } of steps) {
          const before = Message.fold(recipients)
          recipients = recipients.map((one, index) =>
            index === of
              ? Result.match(Recipient.decide(one, input), { onSuccess: (decision) => Recipient.apply(one, decision), onFailure: () => one })
              : one
          )
          const after = Message.fold(recipients)

          assert.isTrue(after === before || Message.successors[before].includes(after), `${before} -> ${after}`)
        }
      })
    )
  })

  it("has a graph that ends, with each way said in full", () => {
    for (const [from, next] of Object.entries(Message.successors)) {
      for (const state of next) {
        for (const beyond of Message.successors[state]) assert.include(next, beyond, `${from} -> ${state} -> ${beyond}`)
        assert.notInclude(Message.successors[state], from)
      }
    }
  })
})

describe("a message whose flags are set", () => {
  it("is one version and one event on, as of that moment, and says what changed", () => {
    const held = Fixtures.message(realm)

    const { updated, changed } = Message.flag(held, { isRead: held.isRead, isStarred: !held.isStarred }, held.updatedAt + 5)

    const { version, eventSequence, updatedAt, isStarred } = held
    assert.deepStrictEqual(updated, { ...held, version: version + 1, eventSequence: eventSequence + 1, updatedAt: updatedAt + 5, isStarred: !isStarred })
    assert.deepStrictEqual(changed, ["isStarred"])
  })
})

describe("a snippet", () => {
  const rows: ReadonlyArray<readonly [title: string, text: string | null, html: string | null, snippet: string]> = [
    ["is the text, where there is one", "plain", "<b>rich</b>", "plain"],
    ["is what the HTML shows, where there is no text", null, "<p>Dear&nbsp;Ada,</p><p>1 &lt; 2 &amp; 3 &gt; 2 &quot;so&quot;</p>", "Dear Ada, 1 < 2 & 3 > 2 \"so\""],
    ["is what the HTML shows, where the text is empty", "", "<p>Hello Ada</p>", "Hello Ada"],
    ["is what the HTML shows, where the text is blank", " \n\u00a0", "<p>Hello Ada</p>", "Hello Ada"],
    ["is empty where a blank text is all", " \n", null, ""],
    ["decodes entities by name and number", null, "Don&#39;t &#x1F600; caf&eacute; &ndash; &nosuch; &zwnj;", "Don't 😀 café – &nosuch; \u200c"],
    ["decodes an entity once", null, "&amp;lt;b&amp;gt;", "&lt;b&gt;"],
    ["leaves out the page's title", null, "<html><head><title>Note > G</title></head><body>It weaves.", "It weaves."],
    ["leaves out scripts, styles and comments", null, "a<STYLE type='x'>b{}</STYLE >c<script>if (1 < 2) d()</script\n>e<!-- f > g -->h", "aceh"],
    ["leaves a word together of which a part is set otherwise", null, "<b>H</b>e<i>l</i>lo <a>Ada</a><br>and <td>you</td><td>all</td>", "Hello Ada and you all"],
    ["takes a lone < for text", null, "1 < 2, <b>really</b>", "1 < 2, really"],
    ["ends at a tag that does not", null, "shown<b hidden", "shown"],
    ["ends at a script that does not", null, "shown<script>hidden", "shown"],
    ["folds white space", " a\r\n\tb \u00a0 c ", null, "a b c"],
    ["finds text behind much white space", `${"\n".repeat(9_000)}here`, null, "here"],
    ["goes on behind much white space", `a${" ".repeat(2_000)}b`, null, "a b"],
    ["is empty where nothing is", null, null, ""]
  ]
  for (const [title, text, html, snippet] of rows) {
    it(title, () => assert.strictEqual(Message.snippet(text, html), snippet))
  }

  it("has at most 200 characters, none of them cut in half", () => {
    assert.strictEqual(Message.snippet("😀".repeat(300), null), "😀".repeat(200))
    assert.strictEqual(Message.snippet(`a${"😀".repeat(300)}`, null), `a${"😀".repeat(199)}`)
    assert.isTrue(Message.snippet(`${" ".repeat(3_999)}😀`, null).isWellFormed())
  })

  it("is well formed and folded for any input", () => {
    const soup = fc.array(fc.constantFrom("<", ">", "<script", "</script", "<!--", "-->", "&amp;", " ", "\n", "a", "😀", "\ud83d", "/"), { maxLength: 60, size: "max" })

    fc.assert(
      fc.property(soup, fc.boolean(), (parts, asHtml) => {
        const snippet = asHtml ? Message.snippet(null, parts.join("")) : Message.snippet(parts.join(""), null)

        assert.isAtMost(Array.from(snippet).length, 200)
        assert.notMatch(snippet, /\s\s|^\s|\s$/)
        assert.isTrue(snippet.isWellFormed())
      })
    )
  })

  for (const part of ["<", "<script ", "<script>", "<style></style ", "<!--", "<a ", " ", "&amp;"]) {
    it(`of two million characters of ${JSON.stringify(part)} comes at once`, { timeout: 5_000 }, () => {
      assert.isAtMost(Message.snippet(null, part.repeat(2_000_000 / part.length)).length, 400)
    })
  }
})

describe("the headers of an outbound message", () => {
  const parts = Fixtures.message(realm, {
    from: { address: address("ada@x.test"), name: "Ada \"the first\" \\ Lovelace" },
    subject: "Note G",
    internetMessageId: "<1@x.test>",
    acceptedAt: 5,
    recipients: [
      Recipient.make(address("to@x.test"), "to", 0),
      Recipient.make(address("too@x.test"), "to", 0),
      Recipient.make(address("cc@x.test"), "cc", 0),
      Recipient.make(address("secret@x.test"), "bcc", 0)
    ]
  })

  it("stand in one order, and name no bcc recipient", () => {
    assert.deepStrictEqual(Message.outboundHeaders(parts), [
      { name: "From", value: "\"Ada \\\"the first\\\" \\\\ Lovelace\" <ada@x.test>" },
      { name: "To", value: "to@x.test, too@x.test" },
      { name: "Cc", value: "cc@x.test" },
      { name: "Subject", value: "Note G" },
      { name: "Message-ID", value: "<1@x.test>" },
      { name: "Date", value: "Thu, 01 Jan 1970 00:00:00 +0000" },
      { name: "MIME-Version", value: "1.0" }
    ])
  })

  it("leave out an empty Cc, and a name that is not there", () => {
    const headers = Message.outboundHeaders({
      ...parts,
      from: { address: address("ada@x.test"), name: "" },
      recipients: parts.recipients.slice(0, 1)
    })

    assert.deepStrictEqual(headers.map(({ name }) => name), ["From", "To", "Subject", "Message-ID", "Date", "MIME-Version"])
    assert.strictEqual(headers[0]!.value, "ada@x.test")
  })

  it("carry an id made of the message's own, at the sender's domain", () => {
    assert.strictEqual(Message.internetMessageId("0190-1" as MessageId, address("ada@x.test")), "<0190-1@x.test>")
  })
})

describe("the content of a message", () => {
  const message = Fixtures.message(realm, { acceptedAt: Date.UTC(2026, 10, 23, 16, 39, 28) })

  it("follows from the message and its bodies, where no more of it is kept", () => {
    const { text, html, headers, mime } = Message.contentOf(message, { text: "a", html: "bc" })

    assert.deepStrictEqual([text, html], ["a", "bc"])
    assert.deepStrictEqual(headers, Message.outboundHeaders(message))
    assert.deepInclude(headers, { name: "Date", value: "Mon, 23 Nov 2026 16:39:28 +0000" })
    assert.deepStrictEqual(mime, Message.outboundStructure("a", "bc", []))
  })

  it("is what is kept, where more is", () => {
    const kept = { text: null, html: null, headers: [{ name: "X", value: "y" }], mime: { ...emptyPart, mediaType: "image/png" } }

    assert.deepStrictEqual(Message.contentOf(message, kept), kept)
  })

  it("has the size of its bodies and files", () => {
    const file = Fixtures.attachment(realm, { blob: { sha256: "0", sizeBytes: 9 } })

    assert.deepStrictEqual([Message.sizeOf("häi", "bc", []), Message.sizeOf(null, "bc", [file, file])], [6, 20])
  })
})

describe("the MIME structure of an outbound message", () => {
  const file = Fixtures.attachment(realm, { mediaType: "Image/PNG", filename: "a.png", blob: { sha256: "0", sizeBytes: 9 }, disposition: "inline", contentId: "c1" })
  const outline = (part: MimePart): string =>
    `${part.partId === "" ? "-" : part.partId} ${part.mediaType} ${part.sizeBytes}${part.parts.length === 0 ? "" : ` [${part.parts.map(outline).join(", ")}]`}`

  const rows: ReadonlyArray<readonly [text: string | null, html: string | null, files: number, structure: string]> = [
    ["häi", null, 0, "1 text/plain 4"],
    [null, "<b>", 0, "1 text/html 3"],
    ["a", "bc", 0, "- multipart/alternative 0 [1 text/plain 1, 2 text/html 2]"],
    ["a", null, 1, "- multipart/mixed 0 [1 text/plain 1, 2 image/png 9]"],
    ["a", "bc", 2, "- multipart/mixed 0 [1 multipart/alternative 0 [1.1 text/plain 1, 1.2 text/html 2], 2 image/png 9, 3 image/png 9]"]
  ]
  for (const [text, html, files, structure] of rows) {
    it(`of text ${JSON.stringify(text)}, html ${JSON.stringify(html)} and ${files} attachments: ${structure}`, () => {
      assert.strictEqual(outline(Message.outboundStructure(text, html, Array.from({ length: files }, () => file))), structure)
    })
  }

  it("tells of an attachment all that the record says", () => {
    const [, part] = Message.outboundStructure("a", null, [file]).parts

    assert.deepStrictEqual(part, {
      partId: "2",
      mediaType: "image/png",
      charset: null,
      disposition: "inline",
      contentId: "c1",
      filename: "a.png",
      sizeBytes: 9,
      attachmentId: file.id,
      parts: []
    })
  })

  it("leaves out what a stranger has named a received file that no header can hold", () => {
    const named = (contentId: string) => Message.outboundStructure("a", null, [{ ...file, contentId }]).parts[1]!.contentId

    for (const contentId of ["c1", "logo@example.com", "a".repeat(900)]) assert.strictEqual(named(contentId), contentId)
    for (const contentId of ["a b", "lögo@example.com", "<c1>", "", "a\u0000", "a\r\nX: y", "a".repeat(901)]) assert.isNull(named(contentId), contentId)
  })
})

describe("the bytes of a text", () => {
  it("are counted as an encoder writes them, lone surrogates included", () => {
    const unit = fc.oneof(fc.string({ unit: "binary" }), fc.constantFrom("\ud800", "\udfff", "😀", "é", "€", "a", "\u0000", "\u07ff", "\u0800", "\uffff"))

    fc.assert(
      fc.property(fc.array(unit), (units) => {
        const text = units.join("")

        assert.strictEqual(Message.utf8Length(text), Buffer.byteLength(text))
      }),
      { numRuns: 300 }
    )
  })
})

describe("what a message still has to do", () => {
  it("is to submit to those that are queued", () => {
    const inState = (status: Recipient.State) => ({ ...Recipient.make(address(`${status}@x.test`), "to", 0), status })
    const message = Fixtures.message(realm, { recipients: [inState("queued"), inState("sent"), inState("bounced")] })

    assert.deepStrictEqual(Message.queuedRecipients(message), [inState("queued")])
  })

  it("is to ask its providers, the soonest first, or none", () => {
    const submission = (pollAt: number | null): Message.Submission => ({
      provider: "p",
      providerMessageId: "1",
      submittedAt: 0,
      recipients: [],
      pollAt
    })
    const nextPollAt = (...times: ReadonlyArray<number | null>) =>
      Message.nextPollAt(Fixtures.message(realm, { submissions: times.map(submission) }))

    assert.strictEqual(nextPollAt(null, 9, 4, null), 4)
    assert.strictEqual(nextPollAt(0), 0)
    assert.isNull(nextPollAt(null))
    assert.isNull(nextPollAt())
  })
})
