import { Effect } from "effect"
import { suite } from "../../conformance/MailProvider.ts"
import { conforms } from "../../conformance/vitest.ts"
import { MailProviders } from "../../core/ports/MailProvider.ts"
import * as MemoryMailProvider from "./MemoryMailProvider.ts"

const recorded = suite({
  provider: MailProviders.useSync((providers) => providers.sandbox),
  received: ({ messageId }) =>
    MemoryMailProvider.MailRecord.use((record) =>
      Effect.map(record.sandbox.submissions, (all) =>
        all.filter((one) => one.messageId === messageId).map(({ envelope, bytes }) => ({ ...envelope, bytes }))
      )
    )
})

conforms("MemoryMailProvider", recorded, MemoryMailProvider.layer)
