/**
 * `mailroom key`: API keys. A key's text is told once, where it is issued: on
 * standard output, or in a file that only its owner can read. No text of a key
 * is ever an argument.
 */
import { Effect, Option } from "effect"
import { Command, Flag } from "effect/cli"
import { type Scope, scopes } from "../../core/model/ApiKey.ts"
import type { ApiKeyId, ApplicationId } from "../../core/model/Ids.ts"
import * as Timestamp from "../../core/model/Timestamp.ts"
import type { IssuedKey, ManagedKey } from "../../core/operations/KeyManagement.ts"
import { Management } from "../../core/operations/Management.ts"
import { CommandFailed } from "./CommandFailed.ts"
import {
  durationOf,
  expiryOf,
  given,
  idArgument,
  idOf,
  ifVersion,
  json,
  optionalIdOf,
  optionalText,
  page,
  pageQuery,
  tenantFlag,
  tenantOf
} from "./Inputs.ts"
import { actorOf, by, operating } from "./Operator.ts"
import { note, printPage, printRecord, type Shown } from "./Output.ts"
import { outFlag, tellOnce } from "./SecretFile.ts"

const shown = (key: ManagedKey) => ({
  id: key.id,
  tenantId: key.tenantId,
  applicationId: key.applicationId,
  environment: key.environment,
  publicId: key.publicId,
  name: key.name,
  scopes: key.scopes,
  state: key.state,
  createdAt: Timestamp.fromMillis(key.createdAt),
  expiresAt: Timestamp.fromMillisOrNull(key.expiresAt),
  revokedAt: Timestamp.fromMillisOrNull(key.revokedAt),
  lastUsedAt: Timestamp.fromMillisOrNull(key.lastUsedAt),
  version: key.version
})

const id = idArgument("The id of the key")

const out = outFlag("key")
const expiresAbout = "When it expires: a date-time such as 2027-01-31T12:00:00Z, a duration from now such as 90d, or never"

/** Why a key that was just issued would be refused. */
const waitsFor: { readonly [S in ManagedKey["state"]]?: string } = {
  application_suspended: "its application is suspended, and the key is refused until `mailroom app reinstate`",
  tenant_suspended: "the tenant is suspended, and the key is refused until `mailroom tenant reinstate`"
}

/** Issues a key, and tells its text once. */
const telling = <Issued extends IssuedKey, E, R>(
  flags: { readonly out: Option.Option<string>; readonly json: boolean },
  issue: Effect.Effect<Issued, E, R>,
  beside: (issued: Issued) => Shown
) =>
  tellOnce(flags, issue, {
    what: "key",
    secretIn: ({ text }) => text,
    shown: (issued) => {
      const record = shown(issued.apiKey)
      return flags.json ? { apiKey: record, ...beside(issued) } : { ...record, ...beside(issued) }
    },
    notes: ({ apiKey }) => [waitsFor[apiKey.state] ?? []].flat(),
    lost: ({ apiKey }, why) => lost(apiKey.id, why)
  })

const lost = (id: string, why: string) =>
  new CommandFailed({ exitCode: 1, message: `the key ${id} was issued and cannot be written: ${why}. Revoke it, and issue another.` })

const create = Command.make(
  "create",
  {
    tenant: tenantFlag,
    app: Flag.String("app").pipe(Flag.withDescription("The id of the application that it is for")),
    name: Flag.String("name").pipe(Flag.withDescription("A name to know it by; several keys may have the same")),
    scope: Flag.String("scope").pipe(
      Flag.withDescription(`What it may do; repeated, or separated by commas: ${scopes.join(", ")}`),
      Flag.atLeast(1)
    ),
    expires: Flag.String("expires").pipe(Flag.withDescription(`${expiresAbout} (default: never)`), Flag.withDefault("never")),
    out,
    by,
    json
  },
  operating(Effect.fnUntraced(function* ({ tenant, app, name, scope, expires, by, ...flags }) {
    const { issueKey } = yield* Management
    const expiresAt = yield* expiryOf("--expires", expires)
    const issue = issueKey(actorOf(by), {
      tenantId: yield* tenantOf(tenant),
      applicationId: yield* idOf<ApplicationId>("--app", app),
      name,
      scopes: scope.flatMap((text) => text.split(",")).map((text) => text.trim() as Scope), // the core refuses what is none
      ...(expiresAt === null ? {} : { expiresAt })
    })
    yield* telling(flags, issue, () => ({}))
  }))
).pipe(
  Command.withDescription("Issues a key. Its text is told once, here. Scopes are fixed: another need is another key."),
  Command.withExamples([
    { command: "mailroom key create --tenant ID --app ID --name web --scope messages:send,messages:read --expires 90d" },
    { command: "mailroom key create --tenant ID --app ID --name worker --scope webhooks:read --out worker.key" }
  ])
)

const list = Command.make(
  "list",
  { tenant: tenantFlag, app: optionalText("app", "Only the keys of this application"), ...page, json },
  operating(Effect.fnUntraced(function* ({ tenant, app, json, ...flags }) {
    const { listKeys } = yield* Management
    const application = yield* optionalIdOf<"applicationId", ApplicationId>("applicationId", "--app", app)
    const found = yield* listKeys(yield* tenantOf(tenant), { ...pageQuery(flags), ...application })
    const columns = ["id", "name", "environment", "state", "scopes", "lastUsedAt", "expiresAt", "createdAt"]
    yield* printPage(json, found, shown, columns, ({ id }) => id)
  }))
).pipe(Command.withDescription("Lists a tenant's keys, oldest first, with when each was last used, which may lag by some seconds"))

const show = Command.make(
  "show",
  { id, tenant: tenantFlag, json },
  operating(Effect.fnUntraced(function* ({ id, tenant, json }) {
    const { getKey } = yield* Management
    yield* printRecord(json, shown(yield* getKey(yield* tenantOf(tenant), yield* idOf<ApiKeyId>("ID", id))))
  }))
).pipe(Command.withDescription("Shows a key; its text is not kept"))

const update = Command.make(
  "update",
  { id, tenant: tenantFlag, name: Flag.String("name").pipe(Flag.withDescription("Its new name")), ifVersion, by, json },
  operating(Effect.fnUntraced(function* ({ id, tenant, name, ifVersion, by, json }) {
    const { updateKey } = yield* Management
    const input = { name, ...given("version", ifVersion) }
    yield* printRecord(json, shown(yield* updateKey(actorOf(by), yield* tenantOf(tenant), yield* idOf<ApiKeyId>("ID", id), input)))
  }))
).pipe(Command.withDescription("Renames a key"))

const rotate = Command.make(
  "rotate",
  {
    id,
    tenant: tenantFlag,
    overlap: Flag.String("overlap").pipe(
      Flag.withDescription("For how long the old key is still admitted, such as 30m or 7d; 0s: not at all (default: 24h)"),
      Flag.withDefault("24h")
    ),
    expires: optionalText("expires", `${expiresAbout}. Wanted if the old key expires.`),
    out,
    by,
    json
  },
  operating(Effect.fnUntraced(function* ({ id, tenant, overlap, expires, by, ...flags }) {
    const { rotateKey } = yield* Management
    const expiresAt = Option.isNone(expires) ? {} : { expiresAt: yield* expiryOf("--expires", expires.value) }
    const rotated = rotateKey(actorOf(by), yield* tenantOf(tenant), yield* idOf<ApiKeyId>("ID", id), {
      overlap: yield* durationOf("--overlap", overlap),
      ...expiresAt
    })
    yield* telling(flags, rotated, ({ replaced }) =>
      flags.json ? { replaced: shown(replaced) } : { replaces: replaced.id, replacedUntil: Timestamp.fromMillisOrNull(replaced.expiresAt) }
    )
  }))
).pipe(
  Command.withDescription("Issues a key of the same application, name and scopes, and lets the old one expire after an overlap, in one step"),
  Command.withExamples([{ command: "mailroom key rotate ID --tenant ID --overlap 24h --expires 90d --out web.key" }])
)

const revoke = Command.make(
  "revoke",
  { id, tenant: tenantFlag, by, json },
  operating(Effect.fnUntraced(function* ({ id, tenant, by, json }) {
    const { revokeKey } = yield* Management
    yield* printRecord(json, shown(yield* revokeKey(actorOf(by), yield* tenantOf(tenant), yield* idOf<ApiKeyId>("ID", id))))
    yield* note("revoked: it is refused from the next request on, for good")
  }))
).pipe(Command.withDescription("Refuses a key from the next request on, in every process, for good"))

export const keyCommand = Command.make("key").pipe(
  Command.withDescription("API keys of a tenant's applications"),
  Command.withSubcommands([create, list, show, update, rotate, revoke])
)
