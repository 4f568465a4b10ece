/** What `dev` says at its start. */
import { authority } from "../../core/model/Authority.ts"
import { placeOf } from "../Adapters.ts"
import type { Config } from "../Config.ts"
import type { DevFile } from "./DataFolder.ts"
import type { Place } from "./Ports.ts"

/** A first send that works when pasted. */
export const curl = ({ baseUrl, apiKey, mailboxes }: DevFile): string =>
  [
    `curl -sS -w '\\n' ${baseUrl}/v1/messages \\`,
    `  -H 'Authorization: Bearer ${apiKey}' \\`,
    `  -H 'Content-Type: application/json' \\`,
    `  -H "Idempotency-Key: first-$(date +%s)" \\`,
    `  -d '{"fromMailboxId":"${mailboxes[0]?.id}","to":["delivered@example.com"],"subject":"Hello","text":"It works."}'`
  ].join("\n")

/** A first mail that comes in when pasted: curl speaks SMTP too. */
const mail = ({ host, port }: NonNullable<DevFile["smtp"]>, address: string | undefined): string =>
  [
    String.raw`printf 'From: ada@example.com\r\nTo: ${address}\r\nSubject: Hello\r\n\r\nIt comes in.\r\n' |`,
    `  curl -sS smtp://${authority(host, port)} --mail-from ada@example.com --mail-rcpt ${address} -T -`
  ].join("\n")

const databaseOf = ({ databaseUrl }: Config): string => (databaseUrl === null ? "" : placeOf({ databaseUrl }))

/** For those who wait. */
export const preparing = (config: Config, place: Place): string =>
  place === "server" ? `  Preparing the database at ${databaseOf(config)} …` : `  Preparing the database in ${config.data} …`

const kept = (config: Config, place: Place): ReadonlyArray<string> => {
  switch (place) {
    case "memory":
      return [`The key and the mailboxes are kept in ${config.data}/dev.json. Mail is kept in memory, and is gone when this stops.`]
    case "folder":
      return [`All of it is kept in ${config.data}: the database, attachments, and dev.json with the key and the mailboxes.`]
    case "server":
      return [`Mail is kept in the database at ${databaseOf(config)}, the key and the mailboxes in ${config.data}/dev.json.`]
  }
}

export const text = (config: Config, place: Place, devFile: DevFile, productionPlace: string | null): string =>
  [
    "",
    `  Mailroom listens at  ${devFile.baseUrl}`,
    `  Documentation        ${devFile.docsUrl}`,
    ...(devFile.smtp === null ? [] : [`  Takes mail at        ${authority(devFile.smtp.host, devFile.smtp.port)}`]),
    `  API key (sandbox)    ${devFile.apiKey}`,
    ...(productionPlace === null || devFile.production === undefined
      ? []
      : [`  API key (production) ${devFile.production.apiKey}`, `                       sends real mail through ${productionPlace}`]),
    ...devFile.mailboxes.map(({ id, address }, index) => `  ${index === 0 ? "Mailboxes" : "         "}            ${id}  ${address}`),
    "",
    ...kept(config, place).map((line) => `  ${line}`),
    "",
    "  Send a first message; it is delivered in the sandbox, and nothing leaves this process:",
    "",
    curl(devFile),
    "",
    ...(devFile.smtp === null ? [] : ["  Mail comes in too:", "", mail(devFile.smtp, devFile.mailboxes[0]?.address), ""]),
    "  What happens to it shows here, line by line:",
    ""
  ].join("\n")
