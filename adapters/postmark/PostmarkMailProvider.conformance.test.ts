import { Context, Effect, Layer, Redacted } from "effect"
import { suite, type Received } from "../../conformance/MailProvider.ts"
import { conforms } from "../../conformance/vitest.ts"
import type { Address } from "../../core/model/Address.ts"
import type { MailProvider } from "../../core/ports/MailProvider.ts"
import * as RfcMime from "../mime/RfcMime.ts"
import * as FakePostmark from "./FakePostmark.ts"
import type { Message } from "./PostmarkMessage.ts"
import * as PostmarkMailProvider from "./PostmarkMailProvider.ts"

class Postmark extends Context.Service<
  Postmark,
  { readonly provider: MailProvider; readonly fake: FakePostmark.FakePostmark }
>()("test/Postmark") {}

const postmark = Layer.effect(
  Postmark,
  Effect.gen(function* () {
    const fake = yield* FakePostmark.start
    const provider = yield* PostmarkMailProvider.make({
      serverToken: Redacted.make(FakePostmark.serverToken),
      endpoint: fake.endpoint
    })
    return { provider, fake }
  })
).pipe(Layer.provide(RfcMime.layer))

/** Calls that mail nobody twice are of one submission. */
const copiesOf = (messages: ReadonlyArray<Message>): ReadonlyArray<Received> => {
  const copies: Array<{ recipients: Array<Address>; text: string }> = []
  for (const { To, Cc, Bcc, TextBody = "" } of messages) {
    const recipients = [To, Cc, Bcc].flatMap(FakePostmark.addressesIn) as Array<Address> // what was submitted are addresses
    const copy = copies.find((one) => one.text === TextBody && recipients.every((address) => !one.recipients.includes(address)))
    if (copy === undefined) copies.push({ recipients, text: TextBody })
    else copy.recipients.push(...recipients)
  }
  return copies.map(({ recipients, text }) => ({ returnPath: null, recipients, bytes: new TextEncoder().encode(`\r\n\r\n${text}`) }))
}

const behaviours = {
  refused: { _tag: "Answers", status: 422, body: { ErrorCode: 300, Message: "Invalid email request" } },
  deferred: { _tag: "Answers", status: 429, body: { ErrorCode: 429, Message: "Rate limit exceeded" } },
  lost: { _tag: "Lost" },
  garbled: { _tag: "Answers", status: 200, body: "<html>It works!</html>" },
  hanging: { _tag: "Hangs" }
} as const

const conformance = suite({
  provider: Postmark.useSync(({ provider }) => provider),
  isRebuilding: true,
  server: {
    next: (ending) => Postmark.useSync(({ fake }) => fake.next(behaviours[ending])),
    behind: (ending) => Postmark.useSync(({ fake }) => fake.next({ _tag: "Takes" }, behaviours[ending])),
    turns: 16,
    calls: Postmark.useSync(({ fake }) => fake.calls()),
    waiting: Postmark.useSync(({ fake }) => fake.waiting())
  },
  received: ({ messageId }) =>
    Postmark.useSync(({ fake }) => copiesOf(fake.sent.filter(({ Metadata }) => Metadata["mailroom-message"] === messageId)))
})

conforms("PostmarkMailProvider", conformance, postmark)
