/** `mailroom endpoint`: webhook endpoints, which applications make over the API, and operators look after. */
import { Effect, Option } from "effect"
import { Command, Flag } from "effect/cli"
import type { ApplicationId, EndpointId } from "../../core/model/Ids.ts"
import * as Timestamp from "../../core/model/Timestamp.ts"
import { type ManagedEndpoint, WebhookManagement } from "../../core/operations/WebhookManagement.ts"
import { CommandFailed } from "./CommandFailed.ts"
import { durationOf, idArgument, idOf, json, optionalIdOf, optionalText, page, pageQuery, tenantFlag, tenantOf, timeOf } from "./Inputs.ts"
import { actorOf, by, operating } from "./Operator.ts"
import { note, printPage, printRecord } from "./Output.ts"
import { outFlag, tellOnce } from "./SecretFile.ts"

const shown = (endpoint: ManagedEndpoint) => ({
  id: endpoint.id,
  tenantId: endpoint.tenantId,
  environment: endpoint.environment,
  applicationId: endpoint.applicationId,
  url: endpoint.url,
  description: endpoint.description,
  eventTypes: endpoint.eventTypes,
  enabled: endpoint.enabled,
  consecutiveFailures: endpoint.consecutiveFailures,
  disabledAt: Timestamp.fromMillisOrNull(endpoint.disabledAt),
  isSlow: endpoint.isSlow,
  apiVersion: endpoint.apiVersion,
  nextSecretFrom: Timestamp.fromMillisOrNull(endpoint.nextSecretFrom),
  sealVersion: endpoint.sealVersion,
  version: endpoint.version,
  createdAt: Timestamp.fromMillis(endpoint.createdAt)
})

const id = idArgument("The id of the endpoint")

const list = Command.make(
  "list",
  { tenant: tenantFlag, app: optionalText("app", "Only the endpoints of this application"), ...page, json },
  operating(Effect.fnUntraced(function* ({ tenant, app, json, ...flags }) {
    const { listEndpoints } = yield* WebhookManagement
    const application = yield* optionalIdOf<"applicationId", ApplicationId>("applicationId", "--app", app)
    const found = yield* listEndpoints(yield* tenantOf(tenant), { ...pageQuery(flags), ...application })
    const columns = ["id", "environment", "url", "enabled", "consecutiveFailures", "disabledAt", "eventTypes"]
    yield* printPage(json, found, shown, columns, ({ id }) => id)
  }))
).pipe(Command.withDescription("Lists a tenant's webhook endpoints, application by application"))

const show = Command.make(
  "show",
  { id, tenant: tenantFlag, json },
  operating(Effect.fnUntraced(function* ({ id, tenant, json }) {
    const { getEndpoint } = yield* WebhookManagement
    yield* printRecord(json, shown(yield* getEndpoint(yield* tenantOf(tenant), yield* idOf<EndpointId>("ID", id))))
  }))
).pipe(Command.withDescription("Shows a webhook endpoint; its secret is never shown again"))

const rotateSecret = Command.make(
  "rotate-secret",
  {
    id,
    tenant: tenantFlag,
    overlap: Flag.String("overlap").pipe(
      Flag.withDescription("For how long the old secret goes on to sign, such as 30m or 7d; 0s: not at all (default: 24h)"),
      Flag.withDefault("24h")
    ),
    out: outFlag("secret"),
    by,
    json
  },
  operating(Effect.fnUntraced(function* ({ id, tenant, overlap, by, ...flags }) {
    const webhooks = yield* WebhookManagement
    const rotation = webhooks.rotateSecret(actorOf(by), yield* tenantOf(tenant), yield* idOf<EndpointId>("ID", id), {
      overlap: yield* durationOf("--overlap", overlap)
    })
    const { endpoint } = yield* tellOnce(flags, rotation, {
      what: "secret",
      secretIn: ({ secret }) => secret,
      shown: ({ endpoint }) => (flags.json ? { endpoint: shown(endpoint) } : shown(endpoint)),
      lost: (_, why) =>
        new CommandFailed({ exitCode: 1, message: `the secret of endpoint ${id} was replaced, and the new one cannot be written: ${why}. Replace it again.` })
    })
    const { nextSecretFrom } = shown(endpoint)
    yield* note(nextSecretFrom === null ? "it signs from now on" : `it signs from ${nextSecretFrom} on: have the receiver take both until then`)
  }))
).pipe(
  Command.withDescription("Makes another signing secret, which is told once, here. The old one signs until the overlap is over, the new one from then on."),
  Command.withExamples([{ command: "mailroom endpoint rotate-secret ID --tenant ID --overlap 24h --out webhook.secret" }])
)

const disable = Command.make(
  "disable",
  { id, tenant: tenantFlag, by, json },
  operating(Effect.fnUntraced(function* ({ id, tenant, by, json }) {
    const { disableEndpoint, getEndpoint } = yield* WebhookManagement
    const tenantId = yield* tenantOf(tenant)
    const before = yield* getEndpoint(tenantId, yield* idOf<EndpointId>("ID", id))
    yield* printRecord(json, shown(yield* disableEndpoint(actorOf(by), tenantId, before.id)))
    yield* note(
      before.enabled
        ? "disabled: what is under way ends, what is pending dies when it is due, and `mailroom endpoint enable --replay` brings that back"
        : "it was disabled already; nothing has changed"
    )
  }))
).pipe(
  Command.withDescription(
    "Sends nothing more to an endpoint until it is enabled again, and no longer counts it among those that its application may have"
  ),
  Command.withExamples([{ command: "mailroom endpoint disable ID --tenant ID" }])
)

const enable = Command.make(
  "enable",
  {
    id,
    tenant: tenantFlag,
    replay: Flag.Boolean("replay").pipe(
      Flag.withDescription("Deliver again what died since it was disabled"),
      Flag.withDefault(false)
    ),
    by,
    json
  },
  operating(Effect.fnUntraced(function* ({ id, tenant, replay, by, json }) {
    const { enableEndpoint, getEndpoint } = yield* WebhookManagement
    const tenantId = yield* tenantOf(tenant)
    const before = yield* getEndpoint(tenantId, yield* idOf<EndpointId>("ID", id))
    const { replayed } = yield* enableEndpoint(actorOf(by), tenantId, before.id, { replayDead: replay })
    yield* printRecord(json, { ...shown(yield* getEndpoint(tenantId, before.id)), replayed })
    yield* note(before.enabled ? enabledAlready(replay) : enabled(replay, replayed))
  }))
).pipe(
  Command.withDescription(
    "Takes a disabled endpoint into use again, its failure counter at 0. What happened meanwhile is not made up for: GET /v1/events has it."
  ),
  Command.withExamples([{ command: "mailroom endpoint enable ID --tenant ID --replay" }])
)

/** As when it was enabled by a call that then failed among many replays. */
const enabledAlready = (replay: boolean): string =>
  `it was enabled already; nothing has changed${replay ? ", and nothing is replayed: `mailroom endpoint replay --since` delivers again what died" : ""}`

const enabled = (replay: boolean, replayed: number): string =>
  `enabled: events are delivered to it from now on${replay ? `, and ${replayed} dead deliveries again` : ""}`

const replay = Command.make(
  "replay",
  {
    id,
    tenant: tenantFlag,
    since: Flag.String("since").pipe(Flag.withDescription("A date-time such as 2027-01-31T12:00:00Z: what died then or later")),
    by,
    json
  },
  operating(Effect.fnUntraced(function* ({ id, tenant, since, by, json }) {
    const { replayDead } = yield* WebhookManagement
    const endpointId = yield* idOf<EndpointId>("ID", id)
    const replayed = yield* replayDead(actorOf(by), yield* tenantOf(tenant), endpointId, yield* timeOf("--since", since))
    yield* printRecord(json, { id: endpointId, replayed })
  }))
).pipe(Command.withDescription("Delivers again what died at an endpoint since a time. Safe to repeat."))

const test = Command.make(
  "test",
  { id, tenant: tenantFlag, type: optionalText("type", "An event type that it gets (default: the first of them)"), by, json },
  operating(Effect.fnUntraced(function* ({ id, tenant, type, by, json }) {
    const { testEndpoint } = yield* WebhookManagement
    const endpointId = yield* idOf<EndpointId>("ID", id)
    const event = yield* testEndpoint(actorOf(by), yield* tenantOf(tenant), endpointId, Option.getOrUndefined(type))
    yield* printRecord(json, {
      id: event.id,
      type: event.type,
      applicationId: event.audience,
      demo: true,
      occurredAt: Timestamp.fromMillis(event.occurredAt)
    })
    yield* note("on its way; endpoints of the same application that get this type get it too")
  }))
).pipe(
  Command.withDescription(
    "Sends a made-up event with `demo: true` to a sandbox endpoint. It is delivered, retried and listed as any other."
  )
)

export const endpointCommand = Command.make("endpoint").pipe(
  Command.withDescription("Webhook endpoints, which applications create over the API"),
  Command.withSubcommands([list, show, rotateSecret, disable, enable, replay, test])
)
