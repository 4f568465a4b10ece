/** `mailroom audit`: what was done, and by whom. */
import { Effect, Option } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import type { AuditEntry, Numbered, RequestEntry } from "../../core/model/Audit.ts"
import type { TenantId } from "../../core/model/Ids.ts"
import * as Timestamp from "../../core/model/Timestamp.ts"
import { Management } from "../../core/operations/Management.ts"
import { installation } from "../../core/operations/TenantManagement.ts"
import { usage } from "./CommandFailed.ts"
import { idArgument, idOf, json, pageQuery, trail } from "./Inputs.ts"
import { operating } from "./Operator.ts"
import { printPage } from "./Output.ts"

const shownEntry = ({ number, id, at, actor, action, subject, environment, requestId, clientAddress }: Numbered<AuditEntry>) => ({
  number,
  id,
  at: Timestamp.fromMillis(at),
  action,
  actorType: actor.type,
  actorId: actor.id,
  subjectType: subject.type,
  subjectId: subject.id,
  environment,
  requestId,
  clientAddress
})

const shownRequest = ({ number, requestId, at, operation, status, code, durationMs, environment, applicationId, apiKeyId, clientAddress }: Numbered<RequestEntry>) => ({
  number,
  requestId,
  at: Timestamp.fromMillis(at),
  operation,
  status,
  code,
  durationMs,
  environment,
  applicationId,
  apiKeyId,
  clientAddress
})

const id = idArgument("The id of the tenant")
const numberOf = ({ number }: Numbered<unknown>): string => String(number)

const list = Command.make(
  "list",
  {
    id: id.pipe(Argument.optional),
    ofInstallation: Flag.Boolean("installation").pipe(
      Flag.withDescription("What is no tenant's: changes of plans"),
      Flag.withDefault(false)
    ),
    ...trail,
    json
  },
  operating(Effect.fnUntraced(function* ({ id, ofInstallation, json, ...flags }) {
    const { listAudit } = yield* Management
    if (Option.isSome(id) === ofInstallation) return yield* usage("audit list wants the id of a tenant, or --installation")
    const tenantId = Option.isNone(id) ? installation : yield* idOf<TenantId>("ID", id.value)
    const columns = ["at", "action", "actorType", "actorId", "subjectId", "environment"]
    yield* printPage(json, yield* listAudit(tenantId, pageQuery(flags)), shownEntry, columns, numberOf)
  }))
).pipe(
  Command.withDescription(
    "Lists the writes of a tenant's state, newest first: who made them, be it an API key, an operator or the service itself"
  )
)

const requests = Command.make(
  "requests",
  { id, ...trail, json },
  operating(Effect.fnUntraced(function* ({ id, json, ...flags }) {
    const { listRequests } = yield* Management
    const found = yield* listRequests(yield* idOf<TenantId>("ID", id), pageQuery(flags))
    const columns = ["at", "operation", "status", "code", "durationMs", "environment", "apiKeyId", "clientAddress", "requestId"]
    yield* printPage(json, found, shownRequest, columns, numberOf)
  }))
).pipe(Command.withDescription("Lists a tenant's API requests, those that were written last first: each process writes those of a second at a time, and the last may not be written yet"))

export const auditCommand = Command.make("audit").pipe(
  Command.withDescription("What was done, and by whom"),
  Command.withSubcommands([list, requests])
)
