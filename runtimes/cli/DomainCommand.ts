/** `mailroom domain`: the domains that a tenant's mail is from, and comes in for. */
import { Effect, Option, Result, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { domainToUnicode } from "node:url"
import { CheckDomains, type CheckedRecord } from "../../core/jobs/CheckDomains.ts"
import type { ExpectedRecord } from "../../core/model/DomainRecords.ts"
import { Uuid, type DomainId, type MailboxId, type TenantId } from "../../core/model/Ids.ts"
import { isEssential, isVerified, type MailDomain } from "../../core/model/MailDomain.ts"
import * as Timestamp from "../../core/model/Timestamp.ts"
import type { DomainRecordSet } from "../../core/operations/DomainManagement.ts"
import { Management } from "../../core/operations/Management.ts"
import { usage } from "./CommandFailed.ts"
import { domainName, given, idOf, ifVersion, json, optionalText, page, pageQuery, tenantFlag, tenantOf } from "./Inputs.ts"
import { actorOf, by, operating } from "./Operator.ts"
import { note, Output, printJson, printPage, printRecord } from "./Output.ts"

/** Its keys are shown by their selectors alone. */
const shown = ({ id, tenantId, domain, health, catchAll, checks, dkim, nextDkim, nextCheckAt, version, createdAt }: MailDomain) => ({
  id,
  tenantId,
  domain,
  unicode: domainToUnicode(domain),
  health,
  verified: isVerified(health),
  catchAll,
  checks: checks.map(({ record, state, expected, observed, since }) => ({
    record,
    state,
    expected,
    observed,
    since: Timestamp.fromMillis(since)
  })),
  dkimSelector: dkim?.selector ?? null,
  nextDkimSelector: nextDkim?.selector ?? null,
  nextCheckAt: Timestamp.fromMillisOrNull(nextCheckAt),
  version,
  createdAt: Timestamp.fromMillis(createdAt)
})

const named = Argument.String("domain").pipe(Argument.withDescription("The name or the id of the domain"))

/** The domain that a name or an id is of. */
const idIn = Effect.fnUntraced(function* (tenantId: TenantId, text: string) {
  const id = Schema.decodeUnknownResult(Uuid)(text)
  if (Result.isSuccess(id)) return id.success as DomainId // a UUID is any of them
  const { domainNamed } = yield* Management
  return (yield* domainNamed(tenantId, yield* domainName(text))).id
})

const wanted = ({ record, type, name, value, isOptional }: ExpectedRecord) => ({ record, type, name, value, isOptional })

/** What is for machines in one document is for people a record, and a table of what to set. */
const printSet = Effect.fnUntraced(function* (asJson: boolean, { domain, records, next }: DomainRecordSet) {
  // A check of another value, or an operator's word, says nothing of a key that was made since.
  const isUnseen = ({ record }: ExpectedRecord) => record === "dkim" && domain.dkim === null
  const stateOf = ({ record }: ExpectedRecord) => domain.checks.find((check) => check.record === record)?.state ?? null
  const rows = records.map((one) => ({ ...wanted(one), state: isUnseen(one) && stateOf(one) === "ok" ? null : stateOf(one) }))
  if (asJson) return yield* printJson({ ...shown(domain), records: rows, nextDkim: next === null ? null : wanted(next) })
  const { checks: _, ...record } = shown(domain)
  yield* printRecord(false, record)
  const shownRows = next === null ? rows : [...rows, { ...wanted(next), record: "next dkim", state: null }]
  yield* Effect.flatMap(Output, ({ out }) => out("\n"))
  yield* note(`the table shows the DNS records to set for ${domain.domain}`)
  yield* printPage(
    false,
    { items: shownRows, hasMore: false },
    (row) => ({ ...row, needed: isEssential(row) ? "to send" : row.isOptional ? "optional" : "to be healthy" }),
    ["record", "needed", "state", "type", "name", "value"],
    null
  )
})

const optionalNote: Readonly<Record<string, string>> = {
  return_path: "return_path is optional: with it, bounces come back under the domain's own name, and SPF is aligned",
  mx: "mx is optional: set it to receive the domain's mail here, and leave it to receive it elsewhere"
}

const noteOptional = ({ records }: DomainRecordSet) =>
  Effect.forEach(
    records.filter(({ isOptional }) => isOptional).flatMap(({ record }) => optionalNote[record] ?? []),
    note,
    { discard: true }
  )

const add = Command.make(
  "add",
  {
    domain: Argument.String("domain").pipe(Argument.withDescription("The domain name; other than ASCII is taken to its A-label form")),
    tenant: tenantFlag,
    by,
    json
  },
  operating(Effect.fnUntraced(function* ({ domain, tenant, by, json }) {
    const { createDomain, domainRecords } = yield* Management
    const tenantId = yield* tenantOf(tenant)
    const { id } = yield* createDomain(actorOf(by), { tenantId, domain: yield* domainName(domain) })
    const set = yield* domainRecords(actorOf(by), tenantId, id)
    yield* printSet(json, set)
    yield* noteOptional(set)
    const others = set.records.filter((one) => !one.isOptional && !isEssential(one)).map(({ record }) => record)
    yield* note(
      `pending: mail can be sent from it once its ownership and dkim records were seen; while ${others.join(" or ")} is missing it is degraded, and sends. ` +
        "Records are looked at on a schedule, or at once by `mailroom domain check`"
    )
  }))
).pipe(
  Command.withAlias("create"),
  Command.withDescription(
    "Claims a domain for a tenant, makes a DKIM key for it, and prints the DNS records to set. No other tenant can claim it then. " +
      "`domain create` is the same."
  ),
  Command.withExamples([{ command: "mailroom domain add mail.example.com --tenant ID" }])
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
  { domain: named, tenant: tenantFlag, by, json },
  operating(Effect.fnUntraced(function* ({ domain, tenant, by, json }) {
    const { domainRecords } = yield* Management
    const tenantId = yield* tenantOf(tenant)
    yield* printSet(json, yield* domainRecords(actorOf(by), tenantId, yield* idIn(tenantId, domain)))
  }))
).pipe(
  Command.withDescription("Shows a domain, the DNS records that it should have, and what was found of them. One that has no DKIM key yet gets one.")
)

const checkedRow = ({ expected, check, advice }: CheckedRecord) => ({
  ...wanted(expected),
  state: check.state,
  observed: check.observed,
  since: Timestamp.fromMillis(check.since),
  advice
})

const check = Command.make(
  "check",
  { domain: named, tenant: tenantFlag, by, json },
  operating(Effect.fnUntraced(function* ({ domain: text, tenant, by, json }) {
    const { check } = yield* CheckDomains
    const tenantId = yield* tenantOf(tenant)
    const { domain, records, next } = yield* check(actorOf(by), tenantId, yield* idIn(tenantId, text))
    if (json) {
      return yield* printJson({ ...shown(domain), records: records.map(checkedRow), nextDkim: next === null ? null : checkedRow(next) })
    }
    const rows = [...records.map(checkedRow), ...(next === null ? [] : [{ ...checkedRow(next), record: "next dkim" }])]
    const columns = ["record", "state", "since", "type", "name", "observed"]
    yield* printPage(false, { items: rows, hasMore: false }, (row) => row, columns, null)
    for (const { record, state, isOptional, advice } of rows) {
      if (advice !== null && !(isOptional && state === "missing")) yield* note(`${record}: ${advice}`)
    }
    yield* note(`${domain.domain} is ${domain.health}: mail ${isVerified(domain.health) ? "can" : "cannot"} be sent from it`)
  }))
).pipe(
  Command.withDescription(
    "Looks at a domain's DNS records now, says what is the matter with each and what to do, and lets its health follow. " +
      "The domain is checked on a schedule from then on."
  ),
  Command.withExamples([{ command: "mailroom domain check mail.example.com --tenant ID" }])
)

const rotateDkim = Command.make(
  "rotate-dkim",
  { domain: named, tenant: tenantFlag, by, json },
  operating(Effect.fnUntraced(function* ({ domain, tenant, by, json }) {
    const { rotateDkim } = yield* Management
    const tenantId = yield* tenantOf(tenant)
    const set = yield* rotateDkim(actorOf(by), tenantId, yield* idIn(tenantId, domain))
    yield* printSet(json, set)
    yield* note(
      "the new key signs once its record was seen in DNS. Leave the former record for a week after that, for mail that is on its way"
    )
    if (set.domain.nextCheckAt === null) yield* note("nobody looks for it by itself: `mailroom domain check` does, and does so from then on")
  }))
).pipe(
  Command.withDescription(
    "Makes a new DKIM key for a domain and prints its DNS record, beside that of the key that signs. It signs as soon as the record was seen."
  )
)

interface Flags {
  readonly domain: string
  readonly tenant: string
  readonly by: Option.Option<string>
  readonly json: boolean
}

const confirm = Command.make(
  "confirm",
  { domain: named, tenant: tenantFlag, by, json },
  operating(Effect.fnUntraced(function* ({ domain: text, tenant, by, json }) {
    const { confirmDomain } = yield* Management
    const tenantId = yield* tenantOf(tenant)
    const domain = yield* confirmDomain(actorOf(by), tenantId, yield* idIn(tenantId, text))
    yield* printRecord(json, shown(domain))
    yield* note(
      domain.health === "suspended"
        ? "still suspended: `mailroom domain reinstate` it, then confirm it again"
        : "confirmed: mail can be sent from it, and its DNS records are not looked at. `mailroom domain check` looks at them, and from then on they are on the schedule, and decide"
    )
  }))
).pipe(
  Command.withDescription(
    "Takes a domain as verified by your word: that it is the tenant's, and that what signs its mail is published. For where DNS is not checked. Its own DKIM key signs only once its record was seen."
  )
)

const turning = (suspended: boolean, told: string) =>
  operating(
    Effect.fnUntraced(function* ({ domain, tenant, by, json }: Flags) {
      const { setDomainSuspended } = yield* Management
      const tenantId = yield* tenantOf(tenant)
      const domainId = yield* idIn(tenantId, domain)
      yield* printRecord(json, shown(yield* setDomainSuspended(actorOf(by), tenantId, domainId, suspended)))
      yield* note(told)
    })
  )

const suspend = Command.make(
  "suspend",
  { domain: named, tenant: tenantFlag, by, json },
  turning(true, "suspended: new mail from it and to it is refused, and accepted mail from it waits")
).pipe(
  Command.withDescription(
    "Stops a domain, whatever its DNS records say: new mail from it and to it is refused; accepted mail from it waits, and fails if it waits too long."
  )
)

const reinstate = Command.make(
  "reinstate",
  { domain: named, tenant: tenantFlag, by, json },
  turning(false, "pending: the next check of its DNS records decides, or `mailroom domain confirm`")
).pipe(Command.withDescription("Lets the next check decide again about a suspended domain"))

const catchAll = Command.make(
  "catch-all",
  {
    domain: named,
    mailbox: optionalText("mailbox", "The id of the mailbox, one of the domain's"),
    none: Flag.Boolean("none").pipe(Flag.withDescription("Refuse such mail again"), Flag.withDefault(false)),
    tenant: tenantFlag,
    by,
    json
  },
  operating(Effect.fnUntraced(function* ({ domain: text, mailbox, none, tenant, by, json }) {
    if (none === Option.isSome(mailbox)) return yield* usage("give --mailbox with an id, or --none")
    const { setCatchAll } = yield* Management
    const tenantId = yield* tenantOf(tenant)
    const mailboxId = Option.isNone(mailbox) ? null : yield* idOf<MailboxId>("--mailbox", mailbox.value)
    const domain = yield* setCatchAll(actorOf(by), tenantId, yield* idIn(tenantId, text), mailboxId)
    yield* printRecord(json, shown(domain))
    yield* note(
      mailboxId === null
        ? `mail to addresses of ${domain.domain} that no mailbox has is refused`
        : `mail to any other address of ${domain.domain} goes to this mailbox`
    )
  }))
).pipe(
  Command.withDescription("Has mail to addresses of a domain that no mailbox has go to one of its mailboxes, or refuses it"),
  Command.withExamples([{ command: "mailroom domain catch-all mail.example.com --mailbox ID --tenant ID" }])
)

const remove = Command.make(
  "remove",
  { domain: named, tenant: tenantFlag, ifVersion, by, json },
  operating(Effect.fnUntraced(function* ({ domain: text, tenant, ifVersion, by, json }) {
    const { removeDomain } = yield* Management
    const tenantId = yield* tenantOf(tenant)
    const removed = yield* removeDomain(actorOf(by), tenantId, yield* idIn(tenantId, text), given("version", ifVersion))
    yield* printRecord(json, shown(removed))
    yield* note(`removed, with its DKIM keys: ${removed.domain} can be added again, by any tenant`)
  }))
).pipe(Command.withDescription("Removes a suspended domain that has no mailboxes, for good. Its name is free again."))

export const domainCommand = Command.make("domain").pipe(
  Command.withDescription("Domains that a tenant's mail is from, and comes in for"),
  Command.withSubcommands([add, list, show, check, rotateDkim, catchAll, confirm, suspend, reinstate, remove])
)
