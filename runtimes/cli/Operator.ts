/**
 * What the management commands have in common: the services of the core they
 * call, who is on record as the caller, and what their failures say and exit
 * with. No command decides anything: what may be done is the core's to say.
 */
import { Context, Effect, Layer, Option } from "effect"
import { Flag } from "effect/cli"
import { userInfo } from "node:os"
import { CheckDomains } from "../../core/jobs/CheckDomains.ts"
import type { Actor } from "../../core/model/Audit.ts"
import { InUse, InvalidInput, NameTaken, StaleVersion, UnknownResource } from "../../core/operations/Administration.ts"
import { KeyEnded } from "../../core/operations/KeyManagement.ts"
import { Management } from "../../core/operations/Management.ts"
import { Resealing } from "../../core/operations/Resealing.ts"
import { NotSandbox, WebhookManagement } from "../../core/operations/WebhookManagement.ts"
import { EndpointDisabled } from "../../core/operations/Webhooks.ts"
import { CryptoBusy } from "../../core/ports/Crypto.ts"
import { StoreUnavailable } from "../../core/ports/Store.ts"
import { CommandFailed, type ExitCode } from "./CommandFailed.ts"
import { type OutputClosed, untilClosed } from "./Streams.ts"

export type Services = Management | WebhookManagement | Resealing | CheckDomains

/** The services, over whatever fills the ports. */
export const services = Layer.mergeAll(Management.layer, WebhookManagement.layer, Resealing.layer, CheckDomains.layer)

/** What the exit codes of management say; `docs/cli.md` repeats it. */
export const exitCodes: Readonly<Record<0 | ExitCode | 130, string>> = {
  0: "done, or shown",
  1: "failed: the database does not answer or takes no writes, or not all could be done",
  2: "usage: a flag, an argument or a setting is not what it must be",
  3: "not found: there is no such tenant, plan, application, key, domain, mailbox, endpoint or suppressed address",
  4: "conflict: the name is taken, the record has changed meanwhile, or its state does not allow it",
  130: "stopped by SIGINT or SIGTERM before its end: what was asked for may be done or not"
}

type Refusal =
  | UnknownResource
  | NameTaken
  | InvalidInput
  | StaleVersion
  | InUse
  | KeyEnded
  | NotSandbox
  | EndpointDisabled
  | CryptoBusy
  | StoreUnavailable

/** What the commands work on: a deployment, unless a test brings its own. It is built once a command has its input. */
export const Operator = Context.Reference<Layer.Layer<Services, unknown>>("mailroom/runtimes/cli/Operator", {
  defaultValue: () => deployment
})

/** The deployment that the settings name. */
const deployment: Layer.Layer<Services, unknown> = Layer.unwrap(
  // The adapters are too much to load for the commands beside these.
  Effect.gen(function* () {
    const [Adapters, Config] = yield* Effect.promise(() => Promise.all([import("../Adapters.ts"), import("../Config.ts")]))
    const config = yield* Config.deployment("sealing keys")
    return services.pipe(
      Layer.provide([Adapters.operator(config), Config.settingsLayer(config)]),
      Layer.provideMerge(Config.logLayer(config))
    )
  })
)

/** What a command does with its input, on those services, with its failures as exit codes. */
export const operating =
  <Input>(handle: (input: Input) => Effect.Effect<void, Refusal | CommandFailed | OutputClosed, Services>) =>
  (input: Input): Effect.Effect<void, unknown> =>
    Effect.flatMap(Operator, (layer) =>
      handle(input).pipe(
        untilClosed,
        Effect.mapError((error) => (error instanceof CommandFailed ? error : failureOf(error))),
        Effect.provide(layer)
      )
    )

const failureOf = (error: Refusal): CommandFailed => {
  const failed = (exitCode: ExitCode, message: string) => new CommandFailed({ exitCode, message })
  switch (error._tag) {
    case "UnknownResource": {
      const verb = listedBy[error.what]
      return failed(3, `${error.message}${verb === undefined ? "" : ` \`mailroom ${verb}\` shows those there are.`}`)
    }
    case "InvalidInput":
      return failed(2, `${flags[error.field] ?? error.field} ${error.fault}`)
    case "NameTaken":
    case "StaleVersion":
    case "InUse":
    case "KeyEnded":
    case "NotSandbox":
      return failed(4, error.message)
    case "EndpointDisabled":
      return failed(4, "The webhook endpoint is disabled. `mailroom endpoint enable` takes it into use again, and with `--replay` delivers what died meanwhile.")
    case "CryptoBusy":
      return failed(1, error.message)
    case "StoreUnavailable":
      return failed(1, "The database does not answer, or takes no writes. What was asked for may be done or not: look before you repeat it.")
  }
}

const listedBy: Readonly<Record<string, string>> = {
  tenant: "tenant list",
  plan: "plan list",
  application: "app list --tenant ID",
  "API key": "key list --tenant ID",
  domain: "domain list --tenant ID",
  mailbox: "mailbox list --tenant ID",
  suppression: "suppression list --tenant ID",
  "webhook endpoint": "endpoint list --tenant ID"
}

/** How a member of the core's input is given here. */
const flags: Readonly<Record<string, string>> = {
  actor: "--by",
  after: "--after",
  displayName: "--name",
  environment: "--environment",
  expiresAt: "--expires",
  id: "ID",
  keyRequestsPerMinute: "--key-requests-per-minute",
  limit: "--limit",
  name: "--name",
  overlap: "--overlap",
  reason: "--reason",
  recipientsPerDay: "--recipients-per-day",
  scopes: "--scope",
  tenantRequestsPerDay: "--tenant-requests-per-day",
  type: "--type"
}

/** Who is on record for a write. */
export const by = Flag.String("by").pipe(
  Flag.withDescription("Who is on record for this in the audit trail (default: the user of this system)"),
  Flag.optional
)

export const actorOf = (given: Option.Option<string>): Actor => ({ type: "operator", id: Option.getOrElse(given, userName) })

/** A container may run as a user without a name. */
const userName = (): string => {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.() ?? "unknown"}`
  }
}
