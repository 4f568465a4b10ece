/** `mailroom domain`: the domains that a tenant sends from. */
import { Effect, type Option } from "effect"
import { Argument, Command } from "effect/cli"
import type { DomainId } from "../../core/model/Ids.ts"
import { isVerified, type MailDomain } from "../../core/model/MailDomain.ts"
import * as Timestamp from "../../core/model/Timestamp.ts"
import { Management } from "../../core/operations/Management.ts"
import { domainName, idArgument, idOf, json, page, pageQuery, tenantFlag, tenantOf } from "./Inputs.ts"
import { actorOf, by, operating } from "./Operator.ts"
import { note, printPage, printRecord } from "./Output.ts"

const shown = ({ id, tenantId, domain, health, checks, version, createdAt }: MailDomain) => ({
  id,
  tenantId,
  domain,
  health,
  verified: isVerified(health),
  checks: checks.map(({ record, state, expected, observed, since }) => ({
    record,
    state,
    expected,
    observed,
    since: Timestamp.fromMillis(since)
  })),
  version,
  createdAt: Timestamp.fromMillis(createdAt)
})

const id = idArgument("The id of the domain")

const create = Command.make(
  "create",
  {
    domain: Argument.String("domain").pipe(Argument.withDescription("The domain name; other than ASCII is taken to its A-label form")),
    tenant: tenantFlag,
    by,
    json
  },
  operating(Effect.fnUntraced(function* ({ domain, tenant, by, json }) {
    const { createDomain } = yield* Management
    const tenantId = yield* tenantOf(tenant)
    yield* printRecord(json, shown(yield* createDomain(actorOf(by), { tenantId, domain: yield* domainName(domain) })))
    yield* note("pending: mail can be sent from it once it is verified, by its DNS records or by `mailroom domain confirm`")
  }))
).pipe(
  Command.withDescription("Claims a domain for a tenant. No other tenant can claim it then."),
  Command.withExamples([{ command: "mailroom domain create mail.example.com --tenant ID" }])
)

const list = Command.make(
  "list",
  { tenant: tenantFlag, ...page, json },
  operating(Effect.fnUntraced(function* ({ tenant, json, ...flags }) {
    const { listDomains } = yield* Management
    const found = yield* listDomains(yield* tenantOf(tenant), pageQuery(flags))
    const columns = ["id", "domain", "health", "verified", "mailboxCount", "createdAt"]
    const counted = ({ domain, mailboxCount }: (typeof found.items)[number]) => ({ ...shown(domain), mailboxCount })
    yield* printPage(json, found, counted, columns, ({ domain }) => domain.id)
  }))
).pipe(Command.withDescription("Lists a tenant's domains by name, with their delivery health"))

const show = Command.make(
  "show",
  { id, tenant: tenantFlag, json },
  operating(Effect.fnUntraced(function* ({ id, tenant, json }) {
    const { getDomain } = yield* Management
    yield* printRecord(json, shown(yield* getDomain(yield* tenantOf(tenant), yield* idOf<DomainId>("ID", id))))
  }))
).pipe(Command.withDescription("Shows a domain, with what was found of its DNS records"))

interface Flags {
  readonly id: string
  readonly tenant: string
  readonly by: Option.Option<string>
  readonly json: boolean
}

const confirm = Command.make(
  "confirm",
  { id, tenant: tenantFlag, by, json },
  operating(Effect.fnUntraced(function* ({ id, tenant, by, json }) {
    const { confirmDomain } = yield* Management
    const domain = yield* confirmDomain(actorOf(by), yield* tenantOf(tenant), yield* idOf<DomainId>("ID", id))
    yield* printRecord(json, shown(domain))
    yield* note(
      domain.health === "suspended"
        ? "still suspended: `mailroom domain reinstate` it, then confirm it again"
        : "confirmed: mail can be sent from it until a round of DNS checks finds otherwise"
    )
  }))
).pipe(
  Command.withDescription(
    "Takes a domain as verified by your word: that it is the tenant's, and that its DKIM record is published. For where DNS is not checked."
  )
)

const turning = (suspended: boolean, told: string) =>
  operating(
    Effect.fnUntraced(function* ({ id, tenant, by, json }: Flags) {
      const { setDomainSuspended } = yield* Management
      const domainId = yield* idOf<DomainId>("ID", id)
      yield* printRecord(json, shown(yield* setDomainSuspended(actorOf(by), yield* tenantOf(tenant), domainId, suspended)))
      yield* note(told)
    })
  )

const suspend = Command.make(
  "suspend",
  { id, tenant: tenantFlag, by, json },
  turning(true, "suspended: new mail from it is refused, and accepted mail from it waits")
).pipe(
  Command.withDescription(
    "Stops sending from a domain, whatever its DNS records say. New mail is refused; accepted mail waits, and fails if it waits too long."
  )
)

const reinstate = Command.make(
  "reinstate",
  { id, tenant: tenantFlag, by, json },
  turning(false, "pending: the next check of its DNS records decides, or `mailroom domain confirm`")
).pipe(Command.withDescription("Lets the next check decide again about a suspended domain"))

export const domainCommand = Command.make("domain").pipe(
  Command.withDescription("Domains that a tenant sends from"),
  Command.withSubcommands([create, list, show, confirm, suspend, reinstate])
)
