/**
 * What every MailProvider does that hands mail to somebody who takes it. Where
 * the other end can be looked at (a test server, a recording), `received` says
 * what arrived there, and the checks see that it is what was submitted.
 */
import assert from "node:assert/strict"
import { Cause, Clock, Effect, Exit, Fiber, Latch, Option, Result, Stream } from "effect"
import { TestClock } from "effect/testing"
import type { Address } from "../core/model/Address.ts"
import type { Envelope } from "../core/model/Envelope.ts"
import type { Submission } from "../core/model/Message.ts"
import { recipientsPerFieldMax } from "../core/model/Limits.ts"
import * as Notifications from "../core/model/Notification.ts"
import * as Replies from "../core/model/Reply.ts"
import { dateMax } from "../core/model/Timestamp.ts"
import { BlobCorrupt, BlobMissing, BlobUnavailable } from "../core/ports/BlobStore.ts"
import type { MailProvider, SubmitRequest, SubmitResult } from "../core/ports/MailProvider.ts"
import { address, freshId, realm } from "./fixtures.ts"
import { callsAndTurns } from "./MailProviderCalls.ts"
import { endings, type Server } from "./MailProviderEndings.ts"
import type { Check, Suite } from "./Suite.ts"

/** A hand-over, as the other end saw it. */
export interface Received extends Envelope {
  readonly bytes: Uint8Array
}

export interface Options<R, R2> {
  readonly provider: Effect.Effect<MailProvider, unknown, R>
  /**
   * Whether it takes contents and no bytes, and writes a message of its own from them, under a return path of its own. Then
   * what arrives is compared by what its text says.
   */
  readonly isRebuilding?: boolean
  /** What arrived whole of this message, oldest first. */
  readonly received?: (request: SubmitRequest) => Effect.Effect<ReadonlyArray<Received>, unknown, R2>
  /** The other end, where it can be told not to take a message. Without it nothing is checked of refusals and lost answers. */
  readonly server?: Server<R2>
}

interface Mail extends SubmitRequest {
  readonly bytes: Uint8Array
}

/** A finished message. Its headers name other people than the envelope, its body what a careless transport breaks. */
const mail = (over: Partial<Pick<SubmitRequest, "envelope" | "mime">> = {}, body = "The engine weaves.\r\n"): Mail => {
  const messageId = freshId<SubmitRequest["messageId"]>()
  const bytes = new TextEncoder().encode(
    [
      "From: ada@example.com",
      "To: header-only@example.org, header-too@example.org",
      "Bcc: header-bcc@example.org",
      "Subject: Note G",
      `Message-ID: <${messageId}@example.com>`,
      "Date: Thu, 01 Jan 1970 00:00:00 +0000",
      "MIME-Version: 1.0",
      "Content-Type: text/plain; charset=utf-8",
      "Content-Transfer-Encoding: 8bit",
      "",
      ".",
      "..",
      ".hidden",
      "From the machine",
      "Grüße ✓",
      body
    ].join("\r\n")
  )
  return {
    realm: realm(),
    messageId,
    envelope: { returnPath: address("bounces"), recipients: [address("charles")] },
    dkim: null,
    isWanted: () => true,
    sizeBytes: bytes.length,
    mime: Stream.fromIterable([bytes.subarray(0, 10), bytes.subarray(10, 300), bytes.subarray(300)]),
    bytes,
    ...over
  }
}

/** What the lines say, wherever and however they end: a transport may mend CR and LF that stand alone. */
const linesOf = (bytes: Uint8Array): string => new TextDecoder("latin1").decode(bytes).replace(/\r\n|\r|\n/g, "\n")

/** The body's words. */
const wordsOf = (bytes: Uint8Array): string => {
  const text = new TextDecoder().decode(bytes)
  return text.slice(Math.max(0, text.search(/\r?\n\r?\n/))).replace(/[\s\0]+/g, " ").trim()
}

const to = (...recipients: ReadonlyArray<Address>): { readonly envelope: Envelope } => ({
  envelope: { returnPath: address("bounces"), recipients }
})

/** As the port has it: what is kept and shown of it must be text and numbers that every store can hold. */
const assertWritten = ({ providerMessageId, replies, pollAt }: SubmitResult): void => {
  assert.match(providerMessageId, /^[^\p{Cc}\p{Cs}]{1,500}$/u, "an id of 1 to 500 characters, none of them a control character")
  for (const { reply: { smtpCode, enhancedCode, text } } of replies) {
    assert.ok(Number.isInteger(smtpCode) && smtpCode >= 200 && smtpCode <= 599, `code ${smtpCode}: a whole number from 200 to 599`)
    assert.ok(enhancedCode === null || /^[245]\.\d{1,3}\.\d{1,3}$/.test(enhancedCode), `enhanced code ${enhancedCode}: class.subject.detail, or null`)
    assert.ok(text === null || (typeof text === "string" && text.length <= Replies.replyTextMax), `a text of ${text?.length} characters: at most ${Replies.replyTextMax}, or null`)
  }
  assertPollAt(pollAt)
}

/** An instant that has a date. */
const assertPollAt = (pollAt: number | null): void => {
  assert.ok(pollAt === null || (Number.isInteger(pollAt) && pollAt <= dateMax), `polls at ${pollAt}: whole milliseconds, or null`)
}

const assertToCome = (pollAt: number | null, now: number): void => {
  assert.ok(pollAt === null || pollAt > now, `polls at ${pollAt}, and it is ${now}: an instant to come, or null`)
}

const assertAccepted = (result: SubmitResult, { envelope }: SubmitRequest): void => {
  const { replies } = result
  assert.deepEqual(replies.map(({ recipient }) => recipient).toSorted(), [...envelope.recipients].toSorted())
  for (const { reply } of replies) assert.equal(Replies.classify(reply), "accepted")
  assertWritten(result)
}

const submission = (provider: MailProvider, request: SubmitRequest, result: SubmitResult) =>
  Effect.map(
    Clock.currentTimeMillis,
    (submittedAt): Submission => ({
      provider: provider.name,
      providerMessageId: result.providerMessageId,
      submittedAt,
      recipients: request.envelope.recipients,
      pollAt: result.pollAt
    })
  )

export const suite = <R, R2 = never>({ provider, received, server, isRebuilding = false }: Options<R, R2>): Suite<R | R2> => {
  const submit = (request: SubmitRequest) => Effect.flatMap(provider, (one) => one.submit(request))

  /** That this message arrived so many times, each time as it was submitted. */
  const assertArrived = Effect.fnUntraced(function* (request: Mail, times = 1) {
    if (received === undefined) return
    const arrived = yield* received(request)
    assert.equal(arrived.length, times)
    for (const { returnPath, recipients, bytes } of arrived) {
      assert.deepEqual([...recipients].toSorted(), [...request.envelope.recipients].toSorted())
      if (isRebuilding) {
        assert.equal(wordsOf(bytes), wordsOf(request.bytes))
        continue
      }
      assert.equal(returnPath, request.envelope.returnPath)
      assert.equal(bytes.length, request.bytes.length)
      assert.ok(request.bytes.every((byte, index) => bytes[index] === byte), "the bytes arrive as they came")
    }
  })

  const submitting: ReadonlyArray<Check<R | R2>> = [
    {
      title: "has a short name that stays",
      check: Effect.gen(function* () {
        const [first, second] = [yield* provider, yield* provider]

        assert.match(first.name, /^[a-z][a-z0-9-]{0,31}$/)
        assert.equal(second.name, first.name)
      })
    },
    {
      title: "replies for each recipient of the envelope, and for nobody whom the headers name",
      check: Effect.gen(function* () {
        for (const count of [1, 3, 50]) {
          const request = mail(to(...Array.from({ length: count }, (_, index) => address(`r${index}`, `d${index % 4}.example.org`))))

          assertAccepted(yield* submit(request), request)
          yield* assertArrived(request)
        }
      })
    },
    {
      title: "mails each of as many recipients as a message may have, or tells those to come again whom it has not mailed",
      check: Effect.gen(function* () {
        const all = Array.from({ length: 3 * recipientsPerFieldMax }, (_, index) => address(`r${index}`, `d${index % 4}.example.org`))
        const request = mail(to(...all))

        const result = yield* submit(request)

        assertWritten(result)
        assert.deepEqual(result.replies.map(({ recipient }) => recipient).toSorted(), all.toSorted())
        const kinds = Map.groupBy(result.replies, ({ reply }) => Replies.classify(reply))
        assert.deepEqual([...kinds.keys()].filter((kind) => kind !== "accepted" && kind !== "transient"), [])
        const accepted = (kinds.get("accepted") ?? []).map(({ recipient }) => recipient)
        assert.ok(accepted.length > 0, "somebody is mailed")
        if (received === undefined) return
        const mailed = (yield* received(request)).flatMap(({ recipients }) => recipients)
        assert.deepEqual(mailed.toSorted(), accepted.toSorted())
      })
    },
    {
      title: "mails an address as it is written, with its capitals, its tag and its signs, and replies for it so",
      check: Effect.gen(function* () {
        const locals = ["Ada.Lovelace", "charles+Note.G", "o'brien", "b=c/d", "x_{y}~z"]
        const request = mail(to(...locals.map((local) => address(local))))

        assertAccepted(yield* submit(request), request)
        yield* assertArrived(request)
      })
    },
    {
      title: "submits with a null return path",
      check: Effect.gen(function* () {
        const request = mail({ envelope: { returnPath: null, recipients: [address("charles")] } })

        assertAccepted(yield* submit(request), request)
        yield* assertArrived(request)
      })
    },
    {
      title: "reads the bytes to their end, and no more than twice",
      check: Effect.gen(function* () {
        const whole = mail()
        let begun = 0
        let ended = 0
        const mime = Stream.suspend(() => {
          begun += 1
          return Stream.concat(
            whole.mime,
            Stream.suspend(() => {
              ended += 1
              return Stream.empty
            })
          )
        })

        yield* submit({ ...whole, mime })

        assert.ok(begun <= 2 && ended >= 1, `begun ${begun}, ended ${ended}`)
        yield* assertArrived(whole)
      })
    },
    {
      title: "hands over one message, whatever dots and line ends are in it",
      check: Effect.gen(function* () {
        for (const before of ["\n", "\r", "\r\n", "\r\r\n", "\n\r", "\0\r\n"]) {
          for (const after of ["\n", "\r", "\r\n", "\r\r\n", "\n\r", "\0\r\n"]) {
            const request = mail({}, `a${before}.${after}MAIL FROM:<mallory@example.com>${before}..${after}${before}.\r\n`)

            assertAccepted(yield* submit(request), request)
            if (received === undefined) continue
            const [arrived, ...more] = yield* received(request)
            assert.equal(more.length, 0)
            const said = isRebuilding ? wordsOf : linesOf
            assert.equal(said(arrived!.bytes), said(request.bytes))
          }
        }
      })
    },
    {
      title: "submits a message of 10 MB",
      check: Effect.gen(function* () {
        const request = mail({}, `${"abcdefghij".repeat(7)}\r\n`.repeat(140_000))
        const pieces = Array.from({ length: Math.ceil(request.sizeBytes / 65_536) }, (_, index) =>
          request.bytes.subarray(index * 65_536, (index + 1) * 65_536)
        )

        assertAccepted(yield* submit({ ...request, mime: Stream.fromIterable(pieces) }), request)
        yield* assertArrived(request)
      })
    },
    {
      title: "fails with the stream's own failure, and hands nothing over, when the bytes cannot be read",
      check: Effect.gen(function* () {
        const failures = [new BlobMissing({ sha256: "" }), new BlobCorrupt({ sha256: "" }), new BlobUnavailable({ cause: "test" })]
        for (const failure of failures) {
          const request = mail()
          for (const mime of [Stream.fail(failure), Stream.concat(request.mime, Stream.fail(failure))]) {
            const outcome = yield* Effect.result(submit({ ...request, mime }))

            assert.ok(Result.isFailure(outcome))
            assert.equal(outcome.failure, failure)
          }
          yield* assertArrived(request, 0)
        }
        const after = mail()
        assertAccepted(yield* submit(after), after)
      })
    },
    {
      title: "gives up at once when it is interrupted among the bytes, hands nothing over, and submits the next",
      check: Effect.gen(function* () {
        const request = mail()
        const begun = yield* Latch.make()
        const mime = Stream.concat(Stream.take(request.mime, 1), Stream.fromEffect(Effect.andThen(begun.open, Effect.never)))
        const submitting = yield* Effect.forkDetach(submit({ ...request, mime })) // it may be one that does not end
        const before = yield* Effect.raceFirst(Effect.as(begun.await, null), Fiber.await(submitting))
        if (before !== null) return assert.fail(`it ended before it read the bytes: ${Exit.isFailure(before) ? Cause.pretty(before.cause) : "as if it were done"}`)

        const ended = yield* TestClock.withLive(Effect.timeoutOption(Fiber.interrupt(submitting), "5 seconds"))

        assert.ok(Option.isSome(ended), "it goes on")
        yield* assertArrived(request, 0)
        const after = mail()
        assertAccepted(yield* submit(after), after)
      })
    },
    {
      title: "submits one message twice, when it is asked twice",
      check: Effect.gen(function* () {
        const request = mail(to(address("charles"), address("mary")))

        assertAccepted(yield* submit(request), request)
        assertAccepted(yield* submit(request), request)

        yield* assertArrived(request, 2)
      })
    },
    {
      title: "keeps concurrent submissions apart",
      check: Effect.gen(function* () {
        const requests = Array.from({ length: 16 }, (_, index) =>
          mail(to(address(`a${index}`), address(`b${index}`)), `Number ${index}\r\n`.repeat(1 + index * 100))
        )

        const results = yield* Effect.forEach(requests, submit, { concurrency: "unbounded" })

        for (const [index, result] of results.entries()) assertAccepted(result, requests[index]!)
        assert.equal(new Set(results.map(({ providerMessageId }) => providerMessageId)).size, 16, "16 submissions have 16 names")
        yield* Effect.forEach(requests, (request) => assertArrived(request))
      })
    }
  ]

  const polling: ReadonlyArray<Check<R | R2>> = [
    {
      title: "wants to be polled at a time to come, or never",
      check: Effect.gen(function* () {
        yield* TestClock.adjust("3 days") // longer than anybody waits for news: a wait, given for an instant, is then long past
        const { pollAt } = yield* submit(mail())

        assertPollAt(pollAt)
        assertToCome(pollAt, yield* Clock.currentTimeMillis)
      })
    },
    {
      title: "says all it knows as often as it is asked, of this submission alone, until nothing more can come",
      check: Effect.gen(function* () {
        const one = yield* provider
        const request = mail(to(address("charles"), address("mary")))
        const result = yield* one.submit(request)
        const other = mail(to(address("ada")))
        yield* one.submit(other)
        const ref = yield* submission(one, request, result)

        let known: ReadonlyArray<Notifications.Notification> = []
        let pollAt = result.pollAt
        for (let polls = 0; pollAt !== null && polls < 20; polls++) {
          yield* TestClock.adjust(Math.max(0, pollAt - (yield* Clock.currentTimeMillis)))
          const told = yield* one.poll(ref)

          assert.deepEqual(yield* one.poll(ref), told)
          for (const notification of told.notifications) {
            assert.deepEqual(Notifications.refOf(notification), { provider: one.name, providerMessageId: result.providerMessageId })
            assert.ok(notification.recipient === null || request.envelope.recipients.includes(notification.recipient))
          }
          const keys = told.notifications.map(Notifications.keyOf)
          for (const earlier of known) assert.ok(keys.includes(Notifications.keyOf(earlier)), "what was said is said again")
          assertPollAt(told.pollAt)
          assertToCome(told.pollAt, yield* Clock.currentTimeMillis)
          known = told.notifications
          pollAt = told.pollAt
        }
        yield* TestClock.adjust("1 day")
        const late = (yield* one.poll(ref)).notifications.map(Notifications.keyOf)
        const earlier = known.map(Notifications.keyOf)
        for (const key of earlier) assert.ok(late.includes(key), "what was said is said a day later")
        if (pollAt !== null) return
        for (const key of late) assert.ok(earlier.includes(key), "it knows more a day after it wanted to be polled never again (pollAt: null)")
      })
    }
  ]

  if (server === undefined) return { name: "MailProvider", checks: [...submitting, ...polling] }
  const subject = { provider, server, mail: (...recipients: ReadonlyArray<Address>) => mail(recipients.length === 0 ? {} : to(...recipients)) }
  const mailed = (request: SubmitRequest) =>
    received === undefined ? Effect.succeed(null) : Effect.map(received(request), (arrived) => arrived.flatMap(({ recipients }) => recipients))
  return { name: "MailProvider", checks: [...submitting, ...polling, ...endings(subject), ...callsAndTurns({ ...subject, mailed })] }
}
