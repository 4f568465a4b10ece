/** `mailroom mailbox`: the addresses of a tenant. */
import { Effect, type Option } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import type { DomainId, MailboxId } from "../../core/model/Ids.ts"
import type { Mailbox } from "../../core/model/Mailbox.ts"
import * as Timestamp from "../../core/model/Timestamp.ts"
import { Management } from "../../core/operations/Management.ts"
import {
  address,
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
import { note, printPage, printRecord } from "./Output.ts"

const shown = ({ id, tenantId, domainId, address, displayName, status, version, createdAt }: Mailbox) => ({
  id,
  tenantId,
  domainId,
  address,
  displayName,
  status,
  version,
  createdAt: Timestamp.fromMillis(createdAt)
})

const id = idArgument("The id of the mailbox")

const create = Command.make(
  "create",
  {
    address: Argument.String("address").pipe(Argument.withDescription("local@domain, at a domain of the tenant")),
    tenant: tenantFlag,
    name: Flag.String("name").pipe(Flag.withDescription("The name shown beside the address"), Flag.withDefault("")),
    by,
    json
  },
  operating(Effect.fnUntraced(function* ({ address: text, tenant, name, by, json }) {
    const { createMailbox } = yield* Management
    const input = { tenantId: yield* tenantOf(tenant), address: yield* address(text), displayName: name }
    yield* printRecord(json, shown(yield* createMailbox(actorOf(by), input)))
  }))
).pipe(
  Command.withDescription("Creates a mailbox"),
  Command.withExamples([{ command: "mailroom mailbox create billing@mail.example.com --tenant ID --name Billing" }])
)

const list = Command.make(
  "list",
  { tenant: tenantFlag, domain: optionalText("domain", "Only those at the domain of this id"), ...page, json },
  operating(Effect.fnUntraced(function* ({ tenant, domain, json, ...flags }) {
    const { listMailboxes } = yield* Management
    const at = yield* optionalIdOf<"domainId", DomainId>("domainId", "--domain", domain)
    const found = yield* listMailboxes(yield* tenantOf(tenant), { ...pageQuery(flags), ...at })
    yield* printPage(json, found, shown, ["id", "address", "displayName", "status", "createdAt"], ({ id }) => id)
  }))
).pipe(Command.withDescription("Lists a tenant's mailboxes by address"))

const show = Command.make(
  "show",
  { id, tenant: tenantFlag, json },
  operating(Effect.fnUntraced(function* ({ id, tenant, json }) {
    const { getMailbox } = yield* Management
    yield* printRecord(json, shown(yield* getMailbox(yield* tenantOf(tenant), yield* idOf<MailboxId>("ID", id))))
  }))
).pipe(Command.withDescription("Shows a mailbox"))

const update = Command.make(
  "update",
  { id, tenant: tenantFlag, name: Flag.String("name").pipe(Flag.withDescription("The name shown beside the address")), ifVersion, by, json },
  operating(Effect.fnUntraced(function* ({ id, tenant, name, ifVersion, by, json }) {
    const { updateMailbox } = yield* Management
    const input = { displayName: name, ...given("version", ifVersion) }
    const updated = yield* updateMailbox(actorOf(by), yield* tenantOf(tenant), yield* idOf<MailboxId>("ID", id), input)
    yield* printRecord(json, shown(updated))
  }))
).pipe(Command.withDescription("Renames a mailbox. Its address is for good."))

interface Flags {
  readonly id: string
  readonly tenant: string
  readonly reason: Option.Option<string>
  readonly by: Option.Option<string>
  readonly json: boolean
}

const reason = optionalText("reason", "Why; part of the event that the tenant's webhooks get")

const turning = (status: Mailbox["status"], told: string) =>
  operating(
    Effect.fnUntraced(function* ({ id, tenant, reason, by, json }: Flags) {
      const { updateMailbox } = yield* Management
      const input = { status, ...given("reason", reason) }
      const updated = yield* updateMailbox(actorOf(by), yield* tenantOf(tenant), yield* idOf<MailboxId>("ID", id), input)
      yield* printRecord(json, shown(updated))
      yield* note(told)
    })
  )

const suspend = Command.make(
  "suspend",
  { id, tenant: tenantFlag, reason, by, json },
  turning("suspended", "suspended: new mail from it and to it is refused, and accepted mail from it waits")
).pipe(
  Command.withDescription("Stops a mailbox: new mail from it and to it is refused; accepted mail from it waits, and fails if it waits too long.")
)

const reinstate = Command.make(
  "reinstate",
  { id, tenant: tenantFlag, reason, by, json },
  turning("active", "in use: mail is sent from it again, and what has waited within six minutes")
).pipe(Command.withDescription("Takes a suspended mailbox into use again"))

const remove = Command.make(
  "remove",
  { id, tenant: tenantFlag, ifVersion, by, json },
  operating(Effect.fnUntraced(function* ({ id, tenant, ifVersion, by, json }) {
    const { removeMailbox } = yield* Management
    const input = given("version", ifVersion)
    const removed = yield* removeMailbox(actorOf(by), yield* tenantOf(tenant), yield* idOf<MailboxId>("ID", id), input)
    yield* printRecord(json, shown(removed))
    yield* note(`removed: ${removed.address} can be had again, by any tenant`)
  }))
).pipe(Command.withDescription("Removes a suspended mailbox that has no mail, for good. Its address is free again."))

export const mailboxCommand = Command.make("mailbox").pipe(
  Command.withDescription("Addresses that a tenant sends from"),
  Command.withSubcommands([create, list, show, update, suspend, reinstate, remove])
)
