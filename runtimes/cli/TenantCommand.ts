/** `mailroom tenant`: customer organizations. */
import { Effect, Option } from "effect"
import { Command, Flag } from "effect/cli"
import type { TenantId } from "../../core/model/Ids.ts"
import type { Tenant } from "../../core/model/Tenant.ts"
import * as Timestamp from "../../core/model/Timestamp.ts"
import { Management } from "../../core/operations/Management.ts"
import { usage } from "./CommandFailed.ts"
import { given, idArgument, idOf, ifVersion, json, optionalText, page, pageQuery } from "./Inputs.ts"
import { actorOf, by, operating } from "./Operator.ts"
import { note, printPage, printRecord } from "./Output.ts"

const shown = ({ id, name, planId, status, version, createdAt }: Tenant) => ({
  id,
  name,
  planId,
  status,
  version,
  createdAt: Timestamp.fromMillis(createdAt)
})

const id = idArgument("The id of the tenant")

const create = Command.make(
  "create",
  {
    name: Flag.String("name").pipe(Flag.withDescription("The organization's name")),
    plan: Flag.String("plan").pipe(Flag.withDescription("The plan it is on")),
    id: optionalText("id", "Restores a tenant that a store forgot, under its id"),
    by,
    json
  },
  operating(Effect.fnUntraced(function* ({ name, plan, id, by, json }) {
    const { createTenant } = yield* Management
    const known = Option.isNone(id) ? {} : { id: yield* idOf<TenantId>("--id", id.value) }
    yield* printRecord(json, shown(yield* createTenant(actorOf(by), { ...known, name, planId: plan })))
  }))
).pipe(
  Command.withDescription("Creates a tenant"),
  Command.withExamples([{ command: "mailroom tenant create --name \"Analytical Engines\" --plan standard" }])
)

const list = Command.make(
  "list",
  { ...page, json },
  operating(Effect.fnUntraced(function* ({ json, ...flags }) {
    const { listTenants } = yield* Management
    const columns = ["id", "name", "planId", "status", "createdAt"]
    yield* printPage(json, yield* listTenants(pageQuery(flags)), shown, columns, ({ id }) => id)
  }))
).pipe(Command.withDescription("Lists tenants, oldest first"))

const show = Command.make(
  "show",
  { id, json },
  operating(Effect.fnUntraced(function* ({ id, json }) {
    const { getTenant } = yield* Management
    yield* printRecord(json, shown(yield* getTenant(yield* idOf<TenantId>("ID", id))))
  }))
).pipe(Command.withDescription("Shows a tenant"))

const update = Command.make(
  "update",
  {
    id,
    name: optionalText("name", "Its new name"),
    plan: optionalText("plan", "Its new plan, in force at its next request"),
    ifVersion,
    by,
    json
  },
  operating(Effect.fnUntraced(function* ({ id, name, plan, ifVersion, by, json }) {
    const { updateTenant } = yield* Management
    if (Option.isNone(name) && Option.isNone(plan)) return yield* usage("tenant update wants --name, --plan or both")
    const input = { ...given("name", name), ...given("planId", plan), ...given("version", ifVersion) }
    yield* printRecord(json, shown(yield* updateTenant(actorOf(by), yield* idOf<TenantId>("ID", id), input)))
  }))
).pipe(Command.withDescription("Renames a tenant, or moves it to another plan"))

const turning = (status: Tenant["status"], told: string) =>
  operating(
    Effect.fnUntraced(function* ({ id, by, json }: { readonly id: string; readonly by: Option.Option<string>; readonly json: boolean }) {
      const { setTenantStatus } = yield* Management
      yield* printRecord(json, shown(yield* setTenantStatus(actorOf(by), yield* idOf<TenantId>("ID", id), status)))
      yield* note(told)
    })
  )

const suspend = Command.make(
  "suspend",
  { id, by, json },
  turning("suspended", "suspended: its keys, and mail to its mailboxes, are refused from now on; accepted mail is still sent")
).pipe(
  Command.withDescription(
    "Refuses all keys of a tenant, and mail to its mailboxes (550), from now on. Mail that was accepted is still sent, and events are still delivered."
  )
)

const reinstate = Command.make(
  "reinstate",
  { id, by, json },
  turning("active", "in use: its keys are admitted again, unless they or their application are over by themselves")
).pipe(Command.withDescription("Takes a suspended tenant into use again"))

export const tenantCommand = Command.make("tenant").pipe(
  Command.withDescription("Customer organizations"),
  Command.withSubcommands([create, list, show, update, suspend, reinstate])
)
