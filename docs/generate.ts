/**
 * Writes the documents that follow from the code: `npm run docs`. A test
 * compares them with what this file makes, so that none goes stale.
 */
import { Schema } from "effect"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { generate as clientContract } from "../client/generate.ts"
import * as Attachment from "../core/model/Attachment.ts"
import * as Delivery from "../core/model/Delivery.ts"
import * as Endpoint from "../core/model/Endpoint.ts"
import * as Event from "../core/model/Event.ts"
import * as Machine from "../core/model/Machine.ts"
import * as MailDomain from "../core/model/MailDomain.ts"
import * as Message from "../core/model/Message.ts"
import * as Recipient from "../core/model/Recipient.ts"
import { commands, managementCommands } from "../runtimes/cli/Commands.ts"
import { cliMarkdown } from "../runtimes/cli/Markdown.ts"
import { configurationMarkdown } from "../runtimes/Config.ts"
import * as OpenApi from "../runtimes/http/Document.ts"
import { errorsMarkdown } from "../runtimes/http/ErrorBody.ts"

/** A generated document: its path from this folder, and its text as it should be. */
export interface GeneratedDocument {
  readonly file: string
  readonly text: string
}

interface Chapter {
  readonly title: string
  readonly about: string
  readonly source: string
  readonly initial: string
  readonly table: Machine.Table<string, string, string>
}

const chapters: ReadonlyArray<Chapter> = [
  {
    title: "Recipient",
    about: "One recipient of an outbound message. What the table does not hold leaves its evidence and moves nothing.",
    source: "core/model/Recipient.ts",
    initial: "queued",
    table: Recipient.transitions
  },
  {
    title: "Attachment scan",
    about: "Only `clean` is ever downloaded or mailed.",
    source: "core/model/Attachment.ts",
    initial: "pending",
    table: Attachment.transitions
  },
  {
    title: "Domain health",
    about: "Mail is sent from a domain that is `healthy` or `degraded`, and taken for it.",
    source: "core/model/MailDomain.ts",
    initial: "pending",
    table: MailDomain.transitions
  },
  {
    title: "Webhook endpoint",
    about: "`FailedOften` is the failed attempt that makes ten in a row. An operator may disable one too, and only an operator enables it again.",
    source: "core/model/Endpoint.ts",
    initial: "enabled",
    table: Endpoint.transitions
  },
  {
    title: "Webhook delivery",
    about: "`Exhausted` is the fifth failed attempt of a round. `Abandoned` is one that no worker came to an end with, or whose body is gone with its event: no fault of the receiver, and no attempt that counts. A replay starts a new round.",
    source: "core/model/Delivery.ts",
    initial: "pending",
    table: Delivery.transitions
  }
]

const stateMachines = (): string =>
  [
    "# State machines",
    "Each machine is a table in the code, and this page is written from the tables by `npm run docs`. What a table does not hold is illegal, and an illegal input changes nothing.",
    messageChapter(),
    ...chapters.map(machineChapter)
  ].join("\n\n") + "\n"

/** The message has no table: its status is a fold. */
const messageChapter = (): string => {
  const entries = Object.entries(Message.successors)
  return [
    "## Outbound message",
    "The status of a message is a fold over its recipients, in `core/model/Message.ts`: `queued` while any recipient is queued; then `failed` if any failed, else `bounced` if any bounced, else `delivered` if all are delivered, else `sent`. These are the ways in which it can move; one commit may carry the outcomes of several recipients.",
    fence("mermaid", [
      "stateDiagram-v2",
      "  [*] --> queued",
      ...entries.flatMap(([state, next]) =>
        next.length === 0 ? [`  ${state} --> [*]`] : next.map((successor) => `  ${state} --> ${successor}`)
      )
    ].join("\n")),
    rows(["State", "Next"], entries.map(([state, next]) => [code(state), next.length === 0 ? "the end" : next.map(code).join(", ")]))
  ].join("\n\n")
}

const machineChapter = ({ title, about, source, initial, table }: Chapter): string =>
  [
    `## ${title}`,
    `${about} The table is in \`${source}\`.`,
    fence("mermaid", Machine.mermaid(table, initial)),
    rows(
      ["State", "Input", "Next state", "Event"],
      Object.entries(table).flatMap(([state, row]) => {
        const cells = Object.entries(row).flatMap(([input, cell]) =>
          cell === undefined ? [] : [[code(state), code(input), code(cell.to), cell.emits === undefined ? "" : code(cell.emits)]]
        )
        return cells.length === 0 ? [[code(state), "none", "the end", ""]] : cells
      })
    )
  ].join("\n\n")

const code = (text: string): string => `\`${text}\``

const fence = (language: string, body: string): string => `\`\`\`${language}\n${body}\n\`\`\``

const rows = (head: ReadonlyArray<string>, body: ReadonlyArray<ReadonlyArray<string>>): string =>
  [head, head.map(() => "---"), ...body].map((cells) => `| ${cells.join(" | ")} |`).join("\n")

/** When each event comes. */
const occasions: Readonly<Record<Event.Type, string>> = {
  "message.queued": "A send was accepted: in the same commit as the message.",
  "message.sent": "The provider has taken the message, and no recipient waits any more. Once, if anybody was accepted.",
  "message.delivered": "A recipient's server took it.",
  "message.bounced": "It came back from a recipient, at once or late; or the address is suppressed and was not tried.",
  "message.failed": "We or the provider gave a recipient up.",
  "message.received": "A message came in and is parsed, or it cannot be parsed and is shown by its head alone.",
  "message.updated": "Flags or folder were set with updateMessage; `changed` names what is different now.",
  "mailbox.created": "A mailbox was made.",
  "mailbox.updated": "A mailbox was changed, or taken into use again.",
  "mailbox.suspended": "A mailbox was suspended: it neither sends nor receives.",
  "domain.health_changed": "The delivery health of a domain changed; `reasons` names the records that are not in order."
}

interface JsonSchema {
  readonly type?: string
  readonly enum?: ReadonlyArray<unknown>
  readonly format?: string
  readonly items?: JsonSchema
  readonly anyOf?: ReadonlyArray<JsonSchema>
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: ReadonlyArray<string>
}

const typeOf = (schema: JsonSchema): string => {
  if (schema.enum !== undefined) return schema.enum.map((value) => code(String(value))).join(" or ")
  if (schema.anyOf !== undefined) return schema.anyOf.map(typeOf).join(" or ")
  if (schema.items !== undefined) return `list of ${typeOf(schema.items)}`
  if (schema.properties === undefined) return schema.format ?? schema.type ?? "anything"
  return `{ ${Object.entries(schema.properties).map(([name, member]) => `${code(name)}: ${typeOf(member)}`).join(", ")} }`
}

const eventsPage = (): string =>
  [
    "# Events",
    [
      "What `GET /v1/events` lists. An event has `id`, `type`, `resourceType`, `resourceId`, `occurredAt` and `data`; `data` always has",
      "`object` and `id` of the resource, and `sequence`, which rises by one per event of the resource. Ignore members and types that you",
      "do not know. Order between resources is not promised. Webhooks carry the same `data`; how they are signed, by one secret also while",
      "it is being replaced, stands in the contract (`receiveEvent`). This page is generated: `npm run docs`."
    ].join("\n"),
    ...Event.types.map((type) => {
      const { schema } = Schema.toJsonSchemaDocument(Event.data[type])
      const { properties = {}, required = [] } = schema as JsonSchema // a struct's schema
      const members = Object.entries(properties).filter(([name]) => !["object", "id", "sequence"].includes(name))
      return [
        `## ${type}`,
        occasions[type],
        rows(
          ["Member", "Type"],
          members.map(([name, member]) => [`${code(name)}${required.includes(name) ? "" : " (optional)"}`, typeOf(member)])
        )
      ].join("\n\n")
    })
  ].join("\n\n") + "\n"

/** All documents that `npm run docs` writes. */
export const documents = (): ReadonlyArray<GeneratedDocument> => [
  { file: "state-machines.md", text: stateMachines() },
  { file: "events.md", text: eventsPage() },
  { file: "errors.md", text: errorsMarkdown() },
  { file: "cli.md", text: cliMarkdown(commands, managementCommands) },
  { file: "configuration.md", text: configurationMarkdown() },
  { file: "../client/Contract.ts", text: clientContract(OpenApi.make([])) }
]

if (import.meta.main) {
  for (const { file, text } of documents()) writeFileSync(join(import.meta.dirname, file), text)
}
