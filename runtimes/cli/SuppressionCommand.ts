/** `mailroom suppression`: the addresses that a tenant's mail does not go to. */
import { Effect } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import type { Suppression } from "../../core/model/Suppression.ts"
import * as Timestamp from "../../core/model/Timestamp.ts"
import { Management } from "../../core/operations/Management.ts"
import { address, given, json, optionalAddress, page, tenantFlag, tenantOf } from "./Inputs.ts"
import { actorOf, by, operating } from "./Operator.ts"
import { note, printPage, printRecord } from "./Output.ts"

const shown = ({ tenantId, environment, address, reason, messageId, createdAt }: Suppression) => ({
  tenantId,
  environment,
  address,
  reason,
  messageId,
  createdAt: Timestamp.fromMillis(createdAt)
})

const environment = Flag.Literals("environment", ["production", "sandbox"]).pipe(
  Flag.withDescription("Whose list (default production; in the sandbox nobody is suppressed)"),
  Flag.withDefault("production")
)

const named = Argument.String("address").pipe(Argument.withDescription("local@domain; case does not matter"))

const list = Command.make(
  "list",
  {
    tenant: tenantFlag,
    environment,
    ...page,
    after: Flag.String("after").pipe(Flag.withDescription("Those behind this address"), Flag.optional),
    json
  },
  operating(Effect.fnUntraced(function* ({ tenant, environment, limit, after, json }) {
    const { listSuppressions } = yield* Management
    const realm = { tenantId: yield* tenantOf(tenant), environment }
    const found = yield* listSuppressions(realm, { ...given("limit", limit), ...(yield* optionalAddress("after", after)) })
    yield* printPage(json, found, shown, ["address", "reason", "messageId", "createdAt"], ({ address }) => address)
  }))
).pipe(Command.withDescription("Lists the addresses that are not mailed, by address: why, since when, and which message it was"))

const add = Command.make(
  "add",
  { address: named, tenant: tenantFlag, environment, by, json },
  operating(Effect.fnUntraced(function* ({ address: text, tenant, environment, by, json }) {
    const { addSuppression } = yield* Management
    const realm = { tenantId: yield* tenantOf(tenant), environment }
    yield* printRecord(json, shown(yield* addSuppression(actorOf(by), realm, yield* address(text))))
    yield* note("suppressed: mail to it bounces at once. What is on its way to the provider goes on")
  }))
).pipe(Command.withDescription("Puts an address on the list by hand. One that is there stays as it is."))

const remove = Command.make(
  "remove",
  { address: named, tenant: tenantFlag, environment, by, json },
  operating(Effect.fnUntraced(function* ({ address: text, tenant, environment, by, json }) {
    const { removeSuppression } = yield* Management
    const realm = { tenantId: yield* tenantOf(tenant), environment }
    yield* printRecord(json, shown(yield* removeSuppression(actorOf(by), realm, yield* address(text))))
    yield* note("removed: the next mail to it is sent. If it bounces, or complains, it is suppressed again")
  }))
).pipe(
  Command.withDescription("Takes an address off the list, and shows what it was there for"),
  Command.withExamples([{ command: "mailroom suppression remove ada@example.com --tenant ID" }])
)

export const suppressionCommand = Command.make("suppression").pipe(
  Command.withDescription("Addresses that a tenant's mail does not go to: they bounced, complained, or were put there by hand"),
  Command.withSubcommands([list, add, remove])
)
