/** A recording provider, with a deadline, as the suite of MailProvider wants its other end: told how calls end, and counting them. For tests. */
import { Effect } from "effect"
import type { Address } from "../../core/model/Address.ts"
import { MailProviderUnavailable, type MailProvider } from "../../core/ports/MailProvider.ts"
import type { Recording } from "./MemoryMailProvider.ts"

const endings = {
  refused: { _tag: "Refused", reply: { smtpCode: 554, enhancedCode: null, text: null } },
  deferred: { _tag: "Refused", reply: { smtpCode: 451, enhancedCode: null, text: null } },
  lost: { _tag: "Lost" },
  garbled: { _tag: "Lost" },
  hanging: { _tag: "Hangs" }
} as const

export const counted = ({ provider, recording }: { readonly provider: MailProvider; readonly recording: Recording }) => {
  let [calls, waiting] = [0, 0]
  const submit: MailProvider["submit"] = (request) =>
    Effect.suspend(() => {
      calls += 1
      waiting += 1
      return provider.submit(request).pipe(
        Effect.timeoutOrElse({ duration: "60 seconds", orElse: () => Effect.fail(new MailProviderUnavailable({ cause: "no answer in time" })) }),
        Effect.ensuring(Effect.sync(() => (waiting -= 1)))
      )
    })
  return {
    recording,
    provider: { ...provider, submit } satisfies MailProvider,
    server: {
      next: (ending: keyof typeof endings) => recording.next(endings[ending]),
      behind: (ending: keyof typeof endings) => recording.next({ _tag: "Accepted" }, endings[ending]),
      refuse: (recipient: Address) =>
        recording.reply(recipient, { smtpCode: 550, enhancedCode: "5.1.1", text: null }, { smtpCode: 250, enhancedCode: "2.0.0", text: null }),
      calls: Effect.sync(() => calls),
      waiting: Effect.sync(() => waiting)
    }
  }
}
