/** A recording provider as the suite of MailProvider wants its other end: told how calls end, and counting them. For tests. */
import { Effect } from "effect"
import type { MailProvider } from "../../core/ports/MailProvider.ts"
import type { Recording } from "./MemoryMailProvider.ts"

const endings = {
  refused: { _tag: "Refused", reply: { smtpCode: 554, enhancedCode: null, text: null } },
  deferred: { _tag: "Refused", reply: { smtpCode: 451, enhancedCode: null, text: null } },
  lost: { _tag: "Lost" },
  hanging: { _tag: "Hangs" }
} as const

export const counted = ({ provider, recording }: { readonly provider: MailProvider; readonly recording: Recording }) => {
  let [calls, waiting] = [0, 0]
  const submit: MailProvider["submit"] = (request) =>
    Effect.suspend(() => {
      calls += 1
      waiting += 1
      return Effect.ensuring(provider.submit(request), Effect.sync(() => (waiting -= 1)))
    })
  return {
    recording,
    provider: { ...provider, submit } satisfies MailProvider,
    server: {
      next: (ending: keyof typeof endings) => recording.next(endings[ending]),
      calls: Effect.sync(() => calls),
      waiting: Effect.sync(() => waiting)
    }
  }
}
