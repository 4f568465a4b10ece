/** `mailroom provider`: what mail providers have told us. */
import { Effect } from "effect"
import { Command, Flag } from "effect/cli"
import type { Numbered } from "../../core/model/Audit.ts"
import type { ProviderPayload } from "../../core/model/ProviderPayload.ts"
import * as Timestamp from "../../core/model/Timestamp.ts"
import { Management } from "../../core/operations/Management.ts"
import { given, pageQuery, trail } from "./Inputs.ts"
import { operating } from "./Operator.ts"
import { noteMore, printLines } from "./Output.ts"

const shown = ({ receivedAt, ...payload }: Numbered<ProviderPayload>) => ({ ...payload, receivedAt: Timestamp.fromMillis(receivedAt) })

const provider = Flag.Literals("provider", ["ses", "postmark"]).pipe(Flag.withDescription("Of this provider alone"), Flag.optional)

const payloads = Command.make(
  "payloads",
  { provider, ...trail },
  operating(Effect.fnUntraced(function* ({ provider, ...flags }) {
    const { listPayloads } = yield* Management
    const found = yield* listPayloads({ ...given("provider", provider), ...pageQuery(flags) })
    yield* printLines(found.items.map(shown))
    yield* noteMore(found, ({ number }) => String(number))
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
