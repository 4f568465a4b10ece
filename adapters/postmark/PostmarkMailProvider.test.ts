import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Redacted, Result, Stream, type Duration } from "effect"
import { TestClock } from "effect/testing"
import { inspect } from "node:util"
import { address, freshId, realm } from "../../conformance/fixtures.ts"
import { assertTenantsTakeTurns, assertTurns } from "../../conformance/MailProviderTurns.ts"
import * as UntrustedServer from "../../conformance/UntrustedServer.ts"
import type { Address } from "../../core/model/Address.ts"
import * as Reply from "../../core/model/Reply.ts"
import type { SubmitRequest, SubmitResult } from "../../core/ports/MailProvider.ts"
import { Mime } from "../../core/ports/Mime.ts"
import * as RfcMime from "../mime/RfcMime.ts"
import * as FakePostmark from "./FakePostmark.ts"
import * as PostmarkMailProvider from "./PostmarkMailProvider.ts"

const against = Effect.fnUntraced(function* (over: Partial<PostmarkMailProvider.Options> = {}) {
  const fake = yield* FakePostmark.start
  const context = yield* Layer.build(RfcMime.layer)
  const provider = yield* PostmarkMailProvider.make({
    serverToken: Redacted.make(FakePostmark.serverToken),
    endpoint: fake.endpoint,
    ...over
  }).pipe(Effect.provideContext(context))
  return { fake, provider }
})

const [ada, bob, cyd, dan] = [address("ada"), address("bob"), address("cyd"), address("dan")]

const text = ["MIME-Version: 1.0", "Content-Type: text/plain; charset=utf-8", "", "Hi", ""]

const mail = (recipients: ReadonlyArray<Address>, lines: ReadonlyArray<string> = [`To: ${recipients.join(", ")}`, ...text]): SubmitRequest => {
  const bytes = new TextEncoder().encode(["From: \"Ada \\\"L\\\" Lovelace\" <ada@example.com>", ...lines].join("\r\n"))
  return {
    realm: realm(),
    messageId: freshId(),
    envelope: { returnPath: address("bounces"), recipients },
    sizeBytes: bytes.length,
    dkim: null,
    isWanted: () => true,
    mime: Stream.make(bytes)
  }
}

const meant = ({ replies }: SubmitResult) => Object.fromEntries(replies.map(({ recipient, reply }) => [recipient, Reply.classify(reply)]))

/** How a submission ends: what its replies mean, or what it failed with. */
const endingOf = <E extends { readonly _tag: string }>(submitted: Effect.Effect<SubmitResult, E>) =>
  Effect.map(Effect.result(submitted), (ending) => {
    if (Result.isSuccess(ending)) return ending.success.replies.map(({ reply }) => Reply.classify(reply)).join(" ")
    const { failure } = ending
    return "reply" in failure ? `refused, ${Reply.classify(failure.reply as Reply.Reply)}` : failure._tag // of SubmissionRefused
  })

const answers: ReadonlyArray<readonly [status: number, body: object | string, ends: string]> = [
  [422, { ErrorCode: 300, Message: "Invalid email request" }, "refused, permanent"],
  [422, { ErrorCode: 411, Message: "Forbidden attachment type" }, "refused, permanent"],
  [422, { ErrorCode: 406, Message: "Inactive recipient" }, "permanent"],
  [422, { ErrorCode: 400, Message: "Sender signature not found" }, "refused, transient"],
  [422, { ErrorCode: 401, Message: "Sender signature not confirmed" }, "refused, transient"],
  [422, { ErrorCode: 405, Message: "Not allowed to send" }, "refused, transient"],
  [422, { ErrorCode: 412, Message: "Account is pending" }, "refused, transient"],
  [422, { ErrorCode: 100, Message: "Maintenance" }, "refused, transient"],
  [429, { ErrorCode: 429, Message: "Rate limit exceeded" }, "refused, transient"],
  [429, "slow down", "refused, transient"],
  [413, "too large", "refused, permanent"],
  [401, { ErrorCode: 10, Message: "Bad or missing API token" }, "MailProviderUnavailable"],
  [422, { ErrorCode: 98_765, Message: "something new" }, "MailProviderUnavailable"],
  [500, { ErrorCode: 300, Message: "Internal" }, "MailProviderUnavailable"],
  [503, "<html>", "MailProviderUnavailable"],
  [200, "<html>", "MailProviderUnavailable"],
  [200, JSON.stringify({ ErrorCode: 0, Message: "OK" }).padEnd(64 * 1_024), "accepted"],
  [200, JSON.stringify({ ErrorCode: 0, Message: "OK" }).padEnd(64 * 1_024 + 1), "MailProviderUnavailable"],
  [302, "", "MailProviderUnavailable"]
]

describe("what Postmark answers", () => {
  for (const [status, body, ends] of answers) {
    it.effect(`${status} ${JSON.stringify(body).slice(0, 80).trimEnd()}: ${ends}, after one call`, () =>
      Effect.gen(function* () {
        const { fake, provider } = yield* against()
        fake.next({ _tag: "Answers", status, body })

        assert.strictEqual(yield* endingOf(provider.submit(mail([bob]))), ends)
        assert.strictEqual(fake.calls(), 1)
      })
    )
  }

  it.effect("of an accepted message names those who are left out, and they are refused for good", () =>
    Effect.gen(function* () {
      const { fake, provider } = yield* against()
      const Message = "Message OK, but will not deliver to these inactive addresses: BOB@example.com, dan@example.com."
      fake.next({ _tag: "Answers", status: 200, body: { ErrorCode: 0, Message } })
      const upper = address("Dan")

      const result = yield* provider.submit(mail([bob, cyd, upper]))

      assert.deepStrictEqual(meant(result), { [bob]: "permanent", [cyd]: "accepted", [upper]: "permanent" })
    })
  )

  it.effect("of an accepted message names those who are left out, however many, and however long it gets by that", () =>
    Effect.gen(function* () {
      const { fake, provider } = yield* against()
      const all = Array.from({ length: 50 }, (_, index) => address(`customer-number-${index}`))
      const leftOut = all.slice(0, 40)
      const Message = `Message OK, but will not deliver to these inactive addresses: ${leftOut.join(", ")}. Inactive recipients are ones that bounced.`
      fake.next({ _tag: "Answers", status: 200, body: { ErrorCode: 0, Message } })

      const result = yield* provider.submit(mail(all))

      assert.deepStrictEqual(meant(result), Object.fromEntries(all.map((one, index) => [one, index < leftOut.length ? "permanent" : "accepted"])))
      assert.isTrue(result.replies.every(({ reply }) => (reply.text ?? "").length <= 500))
    })
  )

  it.effect("that gets lost leaves the outcome unknown", () =>
    Effect.gen(function* () {
      const { fake, provider } = yield* against()
      fake.next({ _tag: "Lost" })

      assert.strictEqual(yield* endingOf(provider.submit(mail([bob]))), "MailProviderUnavailable")
      assert.strictEqual(fake.calls(), 1)
    })
  )
})

describe("a message for Postmark", () => {
  it.effect("that the reader has given up is not sent, and may be tried again", () =>
    Effect.gen(function* () {
      const fake = yield* FakePostmark.start
      const mime = Context.get(yield* Layer.build(RfcMime.layer), Mime)
      const tired = Mime.of({
        ...mime,
        parse: (bytes) => Effect.map(mime.parse(bytes), (parsed) => ({ ...parsed, text: null, defects: ["too_costly"] }))
      })
      const provider = yield* PostmarkMailProvider.make({ serverToken: Redacted.make(FakePostmark.serverToken), endpoint: fake.endpoint }).pipe(
        Effect.provideService(Mime, tired)
      )

      assert.strictEqual(yield* endingOf(provider.submit(mail([bob]))), "MailProviderUnavailable")
      assert.strictEqual(fake.calls(), 0)
    })
  )

  it.effect("says what ours says, under its id, and is not tracked", () =>
    Effect.gen(function* () {
      const { fake, provider } = yield* against({ messageStream: "receipts" })
      const request = mail(
        [bob, cyd, dan],
        [
          `To: "Bob, the \\"first\\"" <${bob}>`,
          `Cc: Cyd <${cyd}>, elsewhere@example.org`,
          "Reply-To: answers@example.com",
          "Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=",
          "Message-ID: <one@example.com>",
          "In-Reply-To: <zero@example.com>",
          "X-Own: own",
          "X-PM-Tag: theirs",
          "MIME-Version: 1.0",
          "Content-Type: multipart/mixed; boundary=b",
          "",
          "--b",
          "Content-Type: multipart/alternative; boundary=a",
          "",
          "--a",
          "Content-Type: text/plain; charset=utf-8",
          "",
          "Grüße",
          "--a",
          "Content-Type: text/html; charset=utf-8",
          "",
          "<p>Grüße</p>",
          "--a--",
          "--b",
          "Content-Type: image/png; name=a.png; depth=\"8 bit\"; v=1",
          "Content-Disposition: inline; filename=a.png",
          "Content-ID: <image@example.com>",
          "Content-Transfer-Encoding: base64",
          "",
          "AAECAw==",
          "--b--",
          ""
        ]
      )

      const result = yield* provider.submit(request)

      assert.strictEqual(result.providerMessageId, request.messageId)
      const [sent, ...more] = fake.sent
      assert.lengthOf(more, 0)
      const { Headers, TextBody, HtmlBody, ...rest } = sent!
      assert.deepStrictEqual(
        { ...rest, TextBody: TextBody?.trim(), HtmlBody: HtmlBody?.trim() },
        {
          From: "\"Ada \\\"L\\\" Lovelace\" <ada@example.com>",
          To: "\"Bob, the \\\"first\\\"\" <bob@example.com>",
          Cc: "\"Cyd\" <cyd@example.com>",
          Bcc: "dan@example.com",
          Subject: "Grüße",
          ReplyTo: "answers@example.com",
          TextBody: "Grüße",
          HtmlBody: "<p>Grüße</p>",
          Attachments: [{ Name: "a.png", Content: "AAECAw==", ContentType: "image/png; depth=\"8 bit\"; v=1", ContentID: "cid:image@example.com" }],
          TrackOpens: false,
          TrackLinks: "None",
          Metadata: { "mailroom-message": request.messageId },
          MessageStream: "receipts"
        }
      )
      assert.deepStrictEqual(
        Headers.map(({ Name, Value }) => `${Name.toLowerCase()}: ${Value}`),
        ["x-pm-keepid: true", "message-id: <one@example.com>", "in-reply-to: <zero@example.com>", "x-own: own"]
      )
    })
  )

  it.effect("mails each of the envelope once, whatever the header says, and shows nobody whom it does not name", () =>
    Effect.gen(function* () {
      const seen = Array.from({ length: 60 }, (_, index) => address(`seen${index}`))
      const unseen = Array.from({ length: 45 }, (_, index) => address(`unseen${index}`))
      const headers: ReadonlyArray<readonly [string, ReadonlyArray<Address>]> = [
        [`To: ${seen.join(", ")}, ${seen[0]}`, [...unseen, ...seen]],
        [`Cc: ${seen.slice(0, 2).join(", ")}`, [...seen.slice(0, 2), ...unseen]],
        ["To: nobody@example.org", unseen],
        [`To: ${seen[0]?.toUpperCase()}`, [seen[0]!]]
      ]
      for (const [header, recipients] of headers) {
        const { fake, provider } = yield* against()

        const result = yield* provider.submit(mail(recipients, [header, ...text]))

        const calls = fake.sent.map(({ To, Cc, Bcc }) => ({ shown: [To, Cc].flatMap(FakePostmark.addressesIn), hidden: FakePostmark.addressesIn(Bcc) }))
        assert.deepStrictEqual(calls.flatMap(({ shown, hidden }) => [...shown, ...hidden]).toSorted(), [...recipients].toSorted())
        assert.deepStrictEqual(result.replies.map(({ recipient }) => recipient).toSorted(), [...recipients].toSorted())
        for (const { shown, hidden } of calls) {
          const isAlone = shown.length === 1 && hidden.length === 0
          assert.isTrue(isAlone || shown.every((one) => header.includes(one)))
        }
      }
    })
  )

  it.effect("of several calls tells of each what came of it", () =>
    Effect.gen(function* () {
      const { fake, provider } = yield* against()
      const hidden = mail([bob, cyd, dan], ["To: nobody@example.org", ...text])
      fake.next({ _tag: "Answers", status: 422, body: { ErrorCode: 300, Message: "Illegal" } }, { _tag: "Takes" }, { _tag: "Lost" })
      assert.deepStrictEqual(meant(yield* provider.submit(hidden)), { [bob]: "permanent", [cyd]: "accepted", [dan]: "transient" })

      fake.next({ _tag: "Takes" }, { _tag: "Answers", status: 500, body: "" })
      assert.deepStrictEqual(meant(yield* provider.submit(hidden)), { [bob]: "accepted", [cyd]: "transient", [dan]: "transient" })
      assert.strictEqual(fake.calls(), 5)

      fake.next({ _tag: "Answers", status: 500, body: "" })
      assert.strictEqual(yield* endingOf(provider.submit(hidden)), "MailProviderUnavailable")
      assert.strictEqual(fake.calls(), 6)
    })
  )

  it.effect("makes no further call of several where its process is about to end", () =>
    Effect.gen(function* () {
      const { fake, provider } = yield* against()
      const hidden = { ...mail([bob, cyd, dan], ["To: nobody@example.org", ...text]), isWanted: () => fake.calls() < 2 }

      assert.deepStrictEqual(meant(yield* provider.submit(hidden)), { [bob]: "accepted", [cyd]: "accepted", [dan]: "transient" })
      assert.strictEqual(fake.calls(), 2)
    })
  )

  it.effect("makes no further call of several where what came of them would come too late", () =>
    Effect.gen(function* () {
      const { fake, provider } = yield* against()
      const hidden = mail([bob, cyd], ["To: nobody@example.org", ...text])
      const slow = (duration: Duration.Input) => ({ ...hidden, mime: Stream.unwrap(Effect.as(TestClock.adjust(duration), hidden.mime)) })

      assert.deepStrictEqual(meant(yield* provider.submit(slow("7 minutes"))), { [bob]: "accepted", [cyd]: "accepted" })
      assert.deepStrictEqual(meant(yield* provider.submit(slow("9 minutes"))), { [bob]: "accepted", [cyd]: "transient" })
      assert.strictEqual(fake.calls(), 3)
    })
  )

  it.effect("has a body, whether ours has one or not", () =>
    Effect.gen(function* () {
      const { fake, provider } = yield* against()

      assert.strictEqual(yield* endingOf(provider.submit(mail([ada], ["To: ada@example.com", "", ""]))), "accepted")
      assert.strictEqual(fake.sent[0]?.TextBody, " ")
    })
  )
})

describe("PostmarkMailProvider", () => {
  it.effect("says nothing of its token where it is refused", () =>
    Effect.gen(function* () {
      const token = "a-token-of-another"
      const { provider } = yield* against({ serverToken: Redacted.make(token) })

      const error = yield* Effect.flip(provider.submit(mail([bob])))

      assert.strictEqual(error._tag, "MailProviderUnavailable")
      assert.notInclude(inspect(error, { depth: 20, showHidden: true }), token)
    })
  )

  it.effect("shows its token to nobody whose certificate is not good, whatever the environment says", () =>
    Effect.gen(function* () {
      const server = yield* UntrustedServer.start(JSON.stringify({ ErrorCode: 0, Message: "OK" }))
      const { provider } = yield* against({ endpoint: server.url })

      assert.strictEqual(yield* endingOf(provider.submit(mail([bob]))), "MailProviderUnavailable")
      assert.strictEqual(server.requests(), 0)
    })
  )

  it.effect("calls nobody for a message that is too large, and reads none of it", () =>
    Effect.gen(function* () {
      const { fake, provider } = yield* against()
      const mime = Stream.suspend(() => Stream.die(new Error("it is read")))

      const request = { ...mail([bob]), sizeBytes: PostmarkMailProvider.sizeBytesMax + 1, mime }
      assert.strictEqual(yield* endingOf(provider.submit(request)), "refused, permanent")
      assert.strictEqual(fake.calls(), 0)
    })
  )

  it.live("waits for an answer no longer than its deadline", () =>
    Effect.gen(function* () {
      const { fake, provider } = yield* against({ deadline: "200 millis" })
      fake.next({ _tag: "Hangs" })

      assert.strictEqual(yield* endingOf(provider.submit(mail([bob]))), "MailProviderUnavailable")
      yield* Effect.repeat(Effect.yieldNow, { until: () => fake.waiting() === 0 })
    })
  )

  it.effect("reads a message when its turn has come, of large ones a few at a time, and none that is wanted no more", () =>
    Effect.gen(function* () {
      const { fake, provider } = yield* against()
      fake.next(...Array.from({ length: 100 }, () => ({ _tag: "Hangs" }) as const))

      yield* assertTurns({ provider, request: () => mail([bob]), waiting: fake.waiting, most: { small: 16, large: 4 } })
    })
  )

  it.effect("has tenants take turns", () =>
    Effect.gen(function* () {
      const { fake, provider } = yield* against()
      fake.next(...Array.from({ length: 100 }, () => ({ _tag: "Hangs" }) as const))

      yield* assertTenantsTakeTurns({ provider, request: () => mail([bob]), waiting: fake.waiting, most: { small: 16, large: 4 } })
    })
  )

  it.effect("leaves a call alone when it is interrupted", () =>
    Effect.gen(function* () {
      const { fake, provider } = yield* against()
      fake.next({ _tag: "Hangs" })
      const submitting = yield* Effect.forkScoped(provider.submit(mail([bob])))
      yield* Effect.repeat(Effect.yieldNow, { until: () => fake.waiting() === 1 })

      yield* Fiber.interrupt(submitting)

      yield* Effect.repeat(Effect.yieldNow, { until: () => fake.waiting() === 0 })
    })
  )
})
