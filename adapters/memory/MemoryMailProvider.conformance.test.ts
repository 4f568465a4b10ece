import { Effect } from "effect"
import { suite } from "../../conformance/MailProvider.ts"
import { conforms } from "../../conformance/vitest.ts"
import { MailProviders, type MailProvider } from "../../core/ports/MailProvider.ts"
import * as MemoryMailProvider from "./MemoryMailProvider.ts"

let calls = 0
let waiting = 0
const counted = (provider: MailProvider): MailProvider => ({
  ...provider,
  submit: (request) =>
    Effect.suspend(() => {
      calls += 1
      waiting += 1
      return Effect.ensuring(provider.submit(request), Effect.sync(() => (waiting -= 1)))
    })
})

const endings = {
  refused: { _tag: "Refused", reply: { smtpCode: 554, enhancedCode: null, text: null } },
  deferred: { _tag: "Refused", reply: { smtpCode: 451, enhancedCode: null, text: null } },
  lost: { _tag: "Lost" },
  hanging: { _tag: "Hangs" }
} as const

const recorded = suite({
  provider: MailProviders.useSync((providers) => counted(providers.sandbox)),
  server: {
    next: (ending) => MemoryMailProvider.MailRecord.use((record) => record.sandbox.next(endings[ending])),
    calls: Effect.sync(() => calls),
    waiting: Effect.sync(() => waiting)
  },
  received: ({ messageId }) =>
    MemoryMailProvider.MailRecord.use((record) =>
      Effect.map(record.sandbox.submissions, (all) =>
        all.filter((one) => one.messageId === messageId).map(({ envelope, bytes }) => ({ ...envelope, bytes }))
      )
    )
})

conforms("MemoryMailProvider", recorded, MemoryMailProvider.layer)
