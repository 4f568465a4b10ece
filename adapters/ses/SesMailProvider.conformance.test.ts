import { Context, Effect, Layer, Redacted } from "effect"
import { suite } from "../../conformance/MailProvider.ts"
import { conforms } from "../../conformance/vitest.ts"
import type { Address } from "../../core/model/Address.ts"
import type { MailProvider } from "../../core/ports/MailProvider.ts"
import * as FakeSes from "./FakeSes.ts"
import * as SesMailProvider from "./SesMailProvider.ts"

class Ses extends Context.Service<Ses, { readonly provider: MailProvider; readonly fake: FakeSes.FakeSes }>()("test/Ses") {}

const ses = Layer.effect(
  Ses,
  Effect.gen(function* () {
    const fake = yield* FakeSes.start
    const { accessKeyId, secretAccessKey } = FakeSes.credentials
    const provider = yield* SesMailProvider.make({
      region: FakeSes.region,
      endpoint: fake.endpoint,
      credentials: { accessKeyId, secretAccessKey: Redacted.make(secretAccessKey) }
    })
    return { provider, fake }
  })
)

const behaviours = {
  refused: { _tag: "Fails", status: 400, type: "MessageRejected", message: "no" },
  deferred: { _tag: "Fails", status: 429, type: "TooManyRequestsException", message: "later" },
  lost: { _tag: "Lost" },
  garbled: { _tag: "Answers", status: 200, body: "<html>It works!</html>" },
  hanging: { _tag: "Hangs" }
} as const

const conformance = suite({
  provider: Ses.useSync(({ provider }) => provider),
  server: {
    next: (ending) => Ses.useSync(({ fake }) => fake.next(behaviours[ending])),
    behind: (ending) => Ses.useSync(({ fake }) => fake.next({ _tag: "Takes" }, behaviours[ending])),
    turns: 40,
    calls: Ses.useSync(({ fake }) => fake.calls()),
    waiting: Ses.useSync(({ fake }) => fake.waiting())
  },
  received: ({ messageId }) =>
    Ses.useSync(({ fake }) =>
      fake.sent
        .filter(({ tags }) => tags["mailroom-message"] === messageId)
        .map(({ recipients, feedbackTo, bytes }) => ({
          // What was submitted are addresses.
          returnPath: feedbackTo as Address | null,
          recipients: recipients as ReadonlyArray<Address>,
          bytes
        }))
    )
})

conforms("SesMailProvider", conformance, ses)
