import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Redacted, Result, Stream } from "effect"
import { inspect } from "node:util"
import { address, freshId, realm } from "../../conformance/fixtures.ts"
import { assertTenantsTakeTurns, assertTurns } from "../../conformance/MailProviderTurns.ts"
import * as UntrustedServer from "../../conformance/UntrustedServer.ts"
import * as Reply from "../../core/model/Reply.ts"
import type { SubmitRequest } from "../../core/ports/MailProvider.ts"
import * as FakeSes from "./FakeSes.ts"
import * as SesMailProvider from "./SesMailProvider.ts"

const { accessKeyId, secretAccessKey } = FakeSes.credentials

const against = Effect.fnUntraced(function* (over: Partial<SesMailProvider.Options> = {}) {
  const fake = yield* FakeSes.start
  const provider = yield* SesMailProvider.make({
    region: FakeSes.region,
    endpoint: fake.endpoint,
    credentials: { accessKeyId, secretAccessKey: Redacted.make(secretAccessKey) },
    ...over
  })
  return { fake, provider }
})

const mail = (count = 1, over: Partial<SubmitRequest> = {}): SubmitRequest => {
  const bytes = new TextEncoder().encode("From: ada@example.com\r\n\r\nHi\r\n")
  return {
    realm: realm(),
    messageId: freshId(),
    envelope: { returnPath: address("bounces"), recipients: Array.from({ length: count }, (_, index) => address(`r${index}`)) },
    sizeBytes: bytes.length,
    mime: Stream.make(bytes),
    dkim: null,
    isWanted: () => true,
    ...over
  }
}

/** How a submission ends: what its replies mean, or what it failed with. */
const endingOf = <A extends { readonly replies: ReadonlyArray<{ readonly reply: Reply.Reply }> }, E extends { readonly _tag: string }>(
  submitted: Effect.Effect<A, E>
) =>
  Effect.map(Effect.result(submitted), (ending) => {
    if (Result.isSuccess(ending)) return ending.success.replies.map(({ reply }) => Reply.classify(reply)).join(" ")
    const { failure } = ending
    return "reply" in failure ? `refused, ${Reply.classify(failure.reply as Reply.Reply)}` : failure._tag // of SubmissionRefused
  })

const unverified = "Email address is not verified. The following identities failed the check in region EU-CENTRAL-1: ada@example.com"

const answers: ReadonlyArray<readonly [status: number, type: string, ends: string, message?: string]> = [
  [400, "MessageRejected", "refused, permanent"],
  [400, "MessageRejected", "refused, transient", unverified],
  [400, "BadRequestException", "refused, permanent"],
  [400, "MailFromDomainNotVerifiedException", "refused, transient"],
  [400, "AccountSuspendedException", "refused, transient"],
  [400, "SendingPausedException", "refused, transient"],
  [404, "NotFoundException", "refused, transient"],
  [400, "LimitExceededException", "refused, transient"],
  [429, "TooManyRequestsException", "refused, transient"],
  [400, "ThrottlingException", "refused, transient"],
  [413, "RequestEntityTooLarge", "refused, permanent"],
  [400, "ANewException", "MailProviderUnavailable"],
  [403, "AccessDeniedException", "MailProviderUnavailable"],
  [403, "ExpiredTokenException", "MailProviderUnavailable"],
  [403, "UnrecognizedClientException", "MailProviderUnavailable"],
  [500, "InternalServiceErrorException", "MailProviderUnavailable"],
  [503, "ServiceUnavailable", "MailProviderUnavailable"]
]

describe("what SES answers", () => {
  for (const [status, type, ends, message = "no"] of answers) {
    it.effect(`${status} ${type}, "${message}": ${ends}, after one call`, () =>
      Effect.gen(function* () {
        const { fake, provider } = yield* against()
        fake.next({ _tag: "Fails", status, type, message })

        assert.strictEqual(yield* endingOf(provider.submit(mail())), ends)

        assert.strictEqual(fake.calls(), 1)
        assert.lengthOf(fake.sent, 0)
      })
    )
  }

  it.effect("that is no answer of SES leaves the outcome unknown, after one call", () =>
    Effect.gen(function* () {
      const { fake, provider } = yield* against()
      const behaviours: ReadonlyArray<FakeSes.Behaviour> = [
        { _tag: "Lost" },
        { _tag: "Answers", status: 200, body: "{}" },
        { _tag: "Answers", status: 200, body: "<html>" },
        { _tag: "Answers", status: 502, body: "<html>" }
      ]
      for (const [index, behaviour] of behaviours.entries()) {
        fake.next(behaviour)
        assert.strictEqual(yield* endingOf(provider.submit(mail())), "MailProviderUnavailable")
        assert.strictEqual(fake.calls(), index + 1)
      }
    })
  )
})

describe("SesMailProvider", () => {
  it.effect("submits to 50 recipients, and has the others come again", () =>
    Effect.gen(function* () {
      const { fake, provider } = yield* against({ configurationSet: "events" })
      const request = mail(51)

      const { providerMessageId, replies } = yield* provider.submit(request)

      assert.deepStrictEqual(replies.map(({ recipient }) => recipient), request.envelope.recipients)
      assert.deepStrictEqual(replies.map(({ reply }) => Reply.classify(reply)), [...Array<string>(50).fill("accepted"), "transient"])
      assert.lengthOf(fake.sent, 1)
      assert.deepStrictEqual([...fake.sent[0]!.recipients], request.envelope.recipients.slice(0, 50))
      assert.strictEqual(fake.sent[0]!.messageId, providerMessageId)
      assert.strictEqual(fake.sent[0]!.configurationSet, "events")
    })
  )

  it.effect("calls nobody for a message that is too large, and reads none of it", () =>
    Effect.gen(function* () {
      const { fake, provider } = yield* against()
      const mime = Stream.suspend(() => Stream.die(new Error("it is read")))

      const request = mail(1, { sizeBytes: SesMailProvider.sizeBytesMax + 1, mime })
      assert.strictEqual(yield* endingOf(provider.submit(request)), "refused, permanent")
      assert.strictEqual(fake.calls(), 0)
    })
  )

  it.effect("shows a message to nobody whose certificate is not good, whatever the environment says", () =>
    Effect.gen(function* () {
      const server = yield* UntrustedServer.start(JSON.stringify({ MessageId: "taken" }))
      const { provider } = yield* against({ endpoint: server.url })

      assert.strictEqual(yield* endingOf(provider.submit(mail())), "MailProviderUnavailable")
      assert.strictEqual(server.requests(), 0)
    })
  )

  it.effect("says nothing of its credentials where they are refused", () =>
    Effect.gen(function* () {
      const secret = "another/secret"
      const { provider } = yield* against({ credentials: { accessKeyId: "AKIDANOTHER", secretAccessKey: Redacted.make(secret) } })

      const error = yield* Effect.flip(provider.submit(mail()))

      assert.strictEqual(error._tag, "MailProviderUnavailable")
      const said = inspect(error, { depth: 20, showHidden: true })
      assert.notInclude(said, secret)
      assert.notInclude(said, "AKIDANOTHER")
    })
  )

  it.live("waits for an answer no longer than its deadline", () =>
    Effect.gen(function* () {
      const { fake, provider } = yield* against({ deadline: "200 millis" })
      fake.next({ _tag: "Hangs" })

      assert.strictEqual(yield* endingOf(provider.submit(mail())), "MailProviderUnavailable")
      yield* Effect.repeat(Effect.yieldNow, { until: () => fake.waiting() === 0 })
    })
  )

  it.effect("reads a message when its turn has come, of large ones a few at a time, and none that is wanted no more", () =>
    Effect.gen(function* () {
      const { fake, provider } = yield* against()
      fake.next(...Array.from({ length: 100 }, () => ({ _tag: "Hangs" }) as const))

      yield* assertTurns({ provider, request: () => mail(), waiting: fake.waiting, most: { small: 40, large: 4 } })
    })
  )

  it.effect("has tenants take turns", () =>
    Effect.gen(function* () {
      const { fake, provider } = yield* against()
      fake.next(...Array.from({ length: 150 }, () => ({ _tag: "Hangs" }) as const))

      yield* assertTenantsTakeTurns({ provider, request: () => mail(), waiting: fake.waiting, most: { small: 40, large: 4 } })
    })
  )

  it.effect("leaves a call alone when it is interrupted", () =>
    Effect.gen(function* () {
      const { fake, provider } = yield* against()
      fake.next({ _tag: "Hangs" })
      const submitting = yield* Effect.forkScoped(provider.submit(mail()))
      yield* Effect.repeat(Effect.yieldNow, { until: () => fake.waiting() === 1 })

      yield* Fiber.interrupt(submitting)

      yield* Effect.repeat(Effect.yieldNow, { until: () => fake.waiting() === 0 })
    })
  )
})
