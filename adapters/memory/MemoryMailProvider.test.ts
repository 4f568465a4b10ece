import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import { address, freshId, realm } from "../../conformance/fixtures.ts"
import type { MessageId } from "../../core/model/Ids.ts"
import type { Submission } from "../../core/model/Message.ts"
import type { Notification } from "../../core/model/Notification.ts"
import { MailProviders, type SubmitRequest } from "../../core/ports/MailProvider.ts"
import * as MemoryMailProvider from "./MemoryMailProvider.ts"

const [charles, mary] = [address("Charles"), address("mary")]
const request = (): SubmitRequest => ({
  realm: realm(),
  messageId: freshId<MessageId>(),
  envelope: { returnPath: null, recipients: [charles, mary] },
  dkim: null,
  isWanted: () => true,
  sizeBytes: 5,
  mime: Stream.make(Buffer.from("by"), Buffer.from("tes"))
})
const submission = (providerMessageId: string): Submission => ({
  provider: "test",
  providerMessageId,
  submittedAt: 0,
  recipients: [charles, mary],
  pollAt: null
})
const busy = { smtpCode: 450, enhancedCode: "4.2.0", text: "greylisted" }
const gone = { smtpCode: 550, enhancedCode: "5.1.1", text: "no such user" }

describe("MemoryMailProvider", () => {
  it.effect("records what it takes", () =>
    Effect.gen(function* () {
      const { provider, recording } = MemoryMailProvider.make("test")
      yield* TestClock.adjust(1_000)
      const { mime: _, ...rest } = request()

      const { providerMessageId, pollAt } = yield* provider.submit({ ...request(), ...rest })

      assert.isNull(pollAt)
      assert.deepStrictEqual(yield* recording.submissions, [
        { ...rest, providerMessageId, bytes: Uint8Array.from(Buffer.from("bytes")), at: 1_000 }
      ])
    })
  )

  it.effect("replies to a recipient as told, one reply after the other, the last for good", () =>
    Effect.gen(function* () {
      const { provider, recording } = MemoryMailProvider.make("test")
      yield* recording.reply(address("charles"), busy, gone)
      const codes = Effect.map(provider.submit(request()), ({ replies }) => replies.map(({ reply }) => reply.smtpCode))

      assert.deepStrictEqual(yield* codes, [450, 250])
      assert.deepStrictEqual(yield* codes, [550, 250])
      assert.deepStrictEqual(yield* codes, [550, 250])
    })
  )

  it.effect("ends submissions as told, and tells of those it took", () =>
    Effect.gen(function* () {
      const { provider, recording } = MemoryMailProvider.make("test")
      yield* recording.next(
        { _tag: "Refused", reply: gone },
        { _tag: "Unavailable" },
        { _tag: "Lost", cause: "cable" },
        { _tag: "Accepted" },
        { _tag: "Hangs" }
      )

      const refused = yield* Effect.flip(provider.submit(request()))
      assert.isTrue(refused._tag === "SubmissionRefused" && refused.reply === gone)
      assert.strictEqual((yield* Effect.flip(provider.submit(request())))._tag, "MailProviderUnavailable")
      assert.lengthOf(yield* recording.submissions, 0)
      assert.strictEqual((yield* Effect.flip(provider.submit(request())))._tag, "MailProviderUnavailable")
      assert.lengthOf(yield* recording.submissions, 1)
      yield* provider.submit(request())
      const hanging = yield* Effect.forkScoped(provider.submit(request()))
      yield* TestClock.adjust("1 hour")
      assert.isUndefined(hanging.pollUnsafe())
      yield* Fiber.interrupt(hanging)
      yield* provider.submit(request())
      assert.lengthOf(yield* recording.submissions, 4)
    })
  )

  it.effect("tells polls what it was told, of the submission that it is about", () =>
    Effect.gen(function* () {
      const { provider, recording } = MemoryMailProvider.make("test")
      yield* recording.pollEvery(5_000)
      const { providerMessageId, pollAt } = yield* provider.submit(request())
      assert.strictEqual(pollAt, 5_000)
      const notification = (of: Partial<Notification>): Notification => ({
        provider: "test",
        providerMessageId,
        recipient: mary,
        outcome: { _tag: "Delivered", at: 1, smtpResponse: null },
        ...of
      })
      yield* recording.notify(notification({}), notification({ providerMessageId: "another" }), notification({ provider: "another" }))
      yield* recording.failPolls(1)

      assert.strictEqual((yield* Effect.flip(provider.poll(submission(providerMessageId))))._tag, "MailProviderUnavailable")
      yield* TestClock.adjust(5_000)
      assert.deepStrictEqual(yield* provider.poll(submission(providerMessageId)), { notifications: [notification({})], pollAt: 10_000 })
      yield* recording.pollEvery(null)
      assert.isNull((yield* provider.poll(submission(providerMessageId))).pollAt)
    })
  )

  it.effect("keeps the two environments apart", () =>
    Effect.gen(function* () {
      const { sandbox, production } = yield* MailProviders
      const record = yield* MemoryMailProvider.MailRecord
      yield* record.production.next({ _tag: "Unavailable" })

      yield* sandbox.submit(request())

      assert.notStrictEqual(sandbox.name, production?.name)
      assert.lengthOf(yield* record.sandbox.submissions, 1)
      assert.lengthOf(yield* record.production.submissions, 0)
    }).pipe(Effect.provide(MemoryMailProvider.layer))
  )
})
