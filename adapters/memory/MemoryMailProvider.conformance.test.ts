import { Context, Effect, Layer } from "effect"
import { suite } from "../../conformance/MailProvider.ts"
import { conforms } from "../../conformance/vitest.ts"
import { MailProviders } from "../../core/ports/MailProvider.ts"
import { counted } from "./CountedMailProvider.ts"
import * as MemoryMailProvider from "./MemoryMailProvider.ts"

class Subject extends Context.Service<Subject, ReturnType<typeof counted>>()("test/Subject") {}

const subject = Layer.effect(
  Subject,
  Effect.gen(function* () {
    const [{ sandbox: provider }, { sandbox: recording }] = [yield* MailProviders, yield* MemoryMailProvider.MailRecord]
    return counted({ provider, recording })
  })
)

const recorded = suite({
  provider: Subject.useSync(({ provider }) => provider),
  server: {
    next: (ending) => Subject.use(({ server }) => server.next(ending)),
    behind: (ending) => Subject.use(({ server }) => server.behind(ending)),
    refuse: (recipient) => Subject.use(({ server }) => server.refuse(recipient)),
    calls: Subject.use(({ server }) => server.calls),
    waiting: Subject.use(({ server }) => server.waiting)
  },
  received: ({ messageId }) =>
    Subject.use(({ recording }) =>
      Effect.map(recording.submissions, (all) =>
        all.filter((one) => one.messageId === messageId).map(({ envelope, bytes }) => ({ ...envelope, bytes }))
      )
    )
})

conforms("MemoryMailProvider", recorded, Layer.provide(subject, MemoryMailProvider.layer))
