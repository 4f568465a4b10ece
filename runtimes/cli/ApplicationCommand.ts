/** `mailroom app`: applications of a tenant, which keys are issued for. */
import { Effect, type Option } from "effect"
import { Command, Flag } from "effect/cli"
import type { ApplicationId } from "../../core/model/Ids.ts"
import type { Application } from "../../core/model/Tenant.ts"
import * as Timestamp from "../../core/model/Timestamp.ts"
import { Management } from "../../core/operations/Management.ts"
import { given, idArgument, idOf, ifVersion, json, page, pageQuery, tenantFlag, tenantOf } from "./Inputs.ts"
import { actorOf, by, operating } from "./Operator.ts"
import { note, printPage, printRecord } from "./Output.ts"

const shown = ({ id, tenantId, environment, name, status, version, createdAt }: Application) => ({
  id,
  tenantId,
  environment,
  name,
  status,
  version,
  createdAt: Timestamp.fromMillis(createdAt)
})

const id = idArgument("The id of the application")

const create = Command.make(
  "create",
  {
    tenant: tenantFlag,
    name: Flag.String("name").pipe(Flag.withDescription("What the application is called")),
    environment: Flag.Literals("environment", ["sandbox", "production"]).pipe(
      Flag.withDescription("For good; a sandbox application never sends real mail")
    ),
    by,
    json
  },
  operating(Effect.fnUntraced(function* ({ name, environment, by, json, tenant }) {
    const { createApplication } = yield* Management
    const tenantId = yield* tenantOf(tenant)
    yield* printRecord(json, shown(yield* createApplication(actorOf(by), { tenantId, environment, name })))
  }))
).pipe(Command.withDescription("Creates an application, which keys are issued for"))

const list = Command.make(
  "list",
  { tenant: tenantFlag, ...page, json },
  operating(Effect.fnUntraced(function* ({ json, tenant, ...flags }) {
    const { listApplications } = yield* Management
    const found = yield* listApplications(yield* tenantOf(tenant), pageQuery(flags))
    yield* printPage(json, found, shown, ["id", "name", "environment", "status", "createdAt"], ({ id }) => id)
  }))
).pipe(Command.withDescription("Lists a tenant's applications, oldest first"))

const show = Command.make(
  "show",
  { id, tenant: tenantFlag, json },
  operating(Effect.fnUntraced(function* ({ id, json, tenant }) {
    const { getApplication } = yield* Management
    yield* printRecord(json, shown(yield* getApplication(yield* tenantOf(tenant), yield* idOf<ApplicationId>("ID", id))))
  }))
).pipe(Command.withDescription("Shows an application"))

const update = Command.make(
  "update",
  { id, tenant: tenantFlag, name: Flag.String("name").pipe(Flag.withDescription("Its new name")), ifVersion, by, json },
  operating(Effect.fnUntraced(function* ({ id, name, ifVersion, by, json, tenant }) {
    const { updateApplication } = yield* Management
    const input = { name, ...given("version", ifVersion) }
    const applicationId = yield* idOf<ApplicationId>("ID", id)
    yield* printRecord(json, shown(yield* updateApplication(actorOf(by), yield* tenantOf(tenant), applicationId, input)))
  }))
).pipe(Command.withDescription("Renames an application"))

interface Turn {
  readonly id: string
  readonly tenant: string
  readonly by: Option.Option<string>
  readonly json: boolean
}

const turning = (status: Application["status"], told: string) =>
  operating(
    Effect.fnUntraced(function* ({ id, tenant, by, json }: Turn) {
      const { setApplicationStatus } = yield* Management
      const applicationId = yield* idOf<ApplicationId>("ID", id)
      yield* printRecord(json, shown(yield* setApplicationStatus(actorOf(by), yield* tenantOf(tenant), applicationId, status)))
      yield* note(told)
    })
  )

const suspend = Command.make(
  "suspend",
  { id, tenant: tenantFlag, by, json },
  turning("suspended", "suspended: its keys are refused from the next request on; accepted mail is still sent")
).pipe(
  Command.withDescription(
    "Refuses all keys of an application from the next request on. Mail that was accepted is still sent, and events are still delivered."
  )
)

const reinstate = Command.make(
  "reinstate",
  { id, tenant: tenantFlag, by, json },
  turning("active", "in use: its keys are admitted again, unless they are over by themselves, or the tenant is suspended")
).pipe(Command.withDescription("Takes a suspended application into use again"))

export const applicationCommand = Command.make("app").pipe(
  Command.withDescription("Applications of a tenant, each in one environment"),
  Command.withSubcommands([create, list, show, update, suspend, reinstate])
)
