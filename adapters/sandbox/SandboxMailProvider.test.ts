import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { address, freshId, realm } from "../../conformance/fixtures.ts"
import type { Address } from "../../core/model/Address.ts"
import type { MessageId } from "../../core/model/Ids.ts"
import type { Submission } from "../../core/model/Message.ts"
import { keyOf } from "../../core/model/Notification.ts"
import * as SandboxMailProvider from "./SandboxMailProvider.ts"

const submittedAt = 1_000_000

const submissionTo = (...recipients: ReadonlyArray<Address>): Submission => ({
  provider: "sandbox",
  providerMessageId: "sbx_1",
  submittedAt,
  recipients,
  pollAt: submittedAt + 500
})

/** What polls tell at these milliseconds after the submission: `tag@ms`, and when to ask next. */
const told = Effect.fnUntraced(function* (local: string, ...times: ReadonlyArray<number>) {
  const provider = SandboxMailProvider.make()
  const polls: Array<string> = []
  for (const time of times) {
    yield* TestClock.setTime(submittedAt + time)
    const { notifications, pollAt } = yield* provider.poll(submissionTo(address(local)))
    const outcomes = notifications.map(({ outcome }) => `${outcome._tag}@${outcome.at - submittedAt}`)
    polls.push(`${outcomes.join(" ")} -> ${pollAt === null ? "never" : pollAt - submittedAt}`.trim())
  }
  return polls
})

describe("SandboxMailProvider", () => {
  it.effect("accepts every recipient under a name that derives from the message", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(submittedAt)
      const recipients = [address("bounced"), address("failed"), address("anybody")]
      const request = {
        realm: realm(),
        messageId: freshId<MessageId>(),
        envelope: { returnPath: null, recipients },
        dkim: null,
        isWanted: () => true,
        sizeBytes: 1,
        mime: Stream.make(new Uint8Array(1))
      }

      const result = yield* SandboxMailProvider.make().submit(request)

      assert.strictEqual(result.providerMessageId, `sbx_${request.messageId}`)
      assert.deepStrictEqual(result.replies.map(({ recipient }) => recipient), recipients)
      for (const { reply } of result.replies) assert.deepInclude(reply, { smtpCode: 250, enhancedCode: "2.0.0" })
      assert.strictEqual(result.pollAt, submittedAt + 500)
      assert.deepStrictEqual(yield* SandboxMailProvider.make().submit(request), result)
    })
  )

  const rows: ReadonlyArray<readonly [local: string, times: ReadonlyArray<number>, polls: ReadonlyArray<string>]> = [
    ["delivered", [0, 499, 500, 60_000], ["-> 500", "-> 500", "Delivered@500 -> never", "Delivered@500 -> never"]],
    ["bounced", [499, 500], ["-> 500", "Bounced@500 -> never"]],
    ["bounced-soft", [499, 500], ["-> 500", "Bounced@500 -> never"]],
    ["failed", [499, 500], ["-> 500", "Failed@500 -> never"]],
    ["delayed", [500, 14_999, 15_000], ["-> 15000", "-> 15000", "Delivered@15000 -> never"]],
    [
      "late-bounce",
      [499, 500, 9_999, 10_000, 99_999],
      ["-> 500", "Delivered@500 -> 10000", "Delivered@500 -> 10000", "Delivered@500 Bounced@10000 -> never", "Delivered@500 Bounced@10000 -> never"]
    ],
    [
      "duplicate",
      [499, 500, 1_000, 1_499, 1_500],
      [
        "-> 500",
        "Delivered@500 -> 1000",
        "Delivered@500 Delivered@500 -> 1500",
        "Delivered@500 Delivered@500 -> 1500",
        "Delivered@500 Delivered@500 Delivered@500 -> never"
      ]
    ],
    ["ada", [500], ["Delivered@500 -> never"]],
    ["bounced2", [500], ["Delivered@500 -> never"]],
    ["x-bounced", [500], ["Delivered@500 -> never"]],
    ["bounced+delivered", [500], ["Bounced@500 -> never"]],
    ["delivered+bounced", [500], ["Delivered@500 -> never"]],
    ["+bounced", [500], ["Delivered@500 -> never"]],
    ["BounCed-Soft+Tag+Tag", [500], ["Bounced@500 -> never"]]
  ]
  for (const [local, times, polls] of rows) {
    it.effect(`tells of ${local}: ${polls.at(-1)}`, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* told(local, ...times), polls)
      })
    )
  }

  it.effect("tells a hard bounce from a soft one, and says what happened in the words of SMTP", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(submittedAt + 500)
      const recipients = [address("bounced"), address("bounced-soft"), address("failed"), address("delivered")]

      const { notifications } = yield* SandboxMailProvider.make().poll(submissionTo(...recipients))

      const [hard, soft, failed, delivered] = notifications.map(({ outcome }) => outcome)
      assert.deepInclude(hard, { class: "permanent", smtpCode: 550, enhancedCode: "5.1.1" })
      assert.deepInclude(soft, { class: "transient", smtpCode: 452, enhancedCode: "4.2.2" })
      assert.isTrue(hard?._tag === "Bounced" && hard.diagnostic?.startsWith("550 5.1.1 "))
      assert.isTrue(soft?._tag === "Bounced" && soft.diagnostic?.startsWith("452 4.2.2 "))
      assert.isTrue(failed?._tag === "Failed" && failed.code === "sandbox_failure")
      assert.isTrue(delivered?._tag === "Delivered" && delivered.smtpResponse?.startsWith("250 2.0.0 "))
      assert.deepStrictEqual(notifications.map(({ recipient }) => recipient), recipients)
    })
  )

  it.effect("tells of several recipients in the order of time, and asks for the next poll of any of them", () =>
    Effect.gen(function* () {
      const provider = SandboxMailProvider.make({ delayedAfter: 700, lateBounceAfter: 600 })
      const submission = submissionTo(address("delayed"), address("late-bounce"), address("ada", "elsewhere.example"))
      const polled: Array<string> = []
      for (let pollAt: number | null = submittedAt + 500; pollAt !== null; ) {
        yield* TestClock.setTime(pollAt)
        const answer = yield* provider.poll(submission)
        polled.push(answer.notifications.map(({ recipient, outcome }) => `${recipient} ${outcome._tag}`).join(", "))
        pollAt = answer.pollAt
      }

      assert.deepStrictEqual(polled, [
        "late-bounce@example.com Delivered, ada@elsewhere.example Delivered",
        "late-bounce@example.com Delivered, ada@elsewhere.example Delivered, late-bounce@example.com Bounced",
        "late-bounce@example.com Delivered, ada@elsewhere.example Delivered, late-bounce@example.com Bounced, delayed@example.com Delivered"
      ])
    })
  )

  it.effect("ends with the same notifications however often and late it is asked, and whoever is asked", () =>
    Effect.gen(function* () {
      const locals = ["delivered", "bounced", "bounced-soft", "failed", "delayed", "late-bounce", "duplicate", "ada"]
      const context = yield* Effect.context<never>()
      yield* Effect.promise(() =>
        fc.assert(
          fc.asyncProperty(fc.subarray(locals, { minLength: 1 }), fc.array(fc.nat(6_000), { maxLength: 10 }), (chosen, waits) =>
            Effect.runPromiseWith(context)(
              Effect.gen(function* () {
                yield* TestClock.setTime(submittedAt)
                const submission = submissionTo(...chosen.map((local) => address(local)))
                const seen = new Set<string>()
                for (const wait of [...waits, 20_000]) {
                  yield* TestClock.adjust(wait)
                  const now = yield* Clock.currentTimeMillis
                  const { notifications } = yield* SandboxMailProvider.make().poll(submission)
                  for (const notification of notifications) {
                    assert.isAtMost(notification.outcome.at, now)
                    seen.add(keyOf(notification))
                  }
                }
                const { notifications, pollAt } = yield* SandboxMailProvider.make().poll(submission)
                assert.deepStrictEqual([...seen].toSorted(), [...new Set(notifications.map(keyOf))].toSorted())
                assert.isNull(pollAt)
              })
            )
          ),
          { numRuns: 100 }
        )
      )
    })
  )
})
