/** `mailroom provider`: what mail providers have told us. */
import { Effect } from "effect"
import { Command } from "effect/cli"
import type { ProviderPayload } from "../../core/model/ProviderPayload.ts"
import * as Timestamp from "../../core/model/Timestamp.ts"
import { Management } from "../../core/operations/Management.ts"
import type { ListedAt } from "../../core/operations/TenantManagement.ts"
import { given, optionalText, pageQuery, trail } from "./Inputs.ts"
import { operating } from "./Operator.ts"
import { note, printLines } from "./Output.ts"

const shown = ({ receivedAt, place: _, ...payload }: ListedAt<ProviderPayload>) => ({ ...payload, receivedAt: Timestamp.fromMillis(receivedAt) })

const payloads = Command.make(
  "payloads",
  { provider: optionalText("provider", "Of this provider alone: ses, postmark"), ...trail },
  operating(Effect.fnUntraced(function* ({ provider, ...flags }) {
    const { listPayloads } = yield* Management
    const { items, hasMore } = yield* listPayloads({ ...given("provider", provider), ...pageQuery(flags) })
    yield* printLines(items.map(shown))
    const last = items.at(-1)
    if (hasMore && last !== undefined) yield* note(`there is more: go on with --after ${last.place}`)
  }))
).pipe(
  Command.withDescription(
    "Prints what providers have posted in the last 30 days, newest first, as it came: one JSON object a line. It holds addresses and what servers said of them."
  ),
  Command.withExamples([{ command: "mailroom provider payloads --provider ses --limit 20 | jq -r .text" }])
)

export const providerCommand = Command.make("provider").pipe(
  Command.withDescription("What mail providers have told us"),
  Command.withSubcommands([payloads])
)
