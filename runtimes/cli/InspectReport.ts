/** `mailroom inspect dsn`: what the service makes of messages that may report on mail it sent. */
import { Command } from "effect/cli"
import type { ParsedMessage } from "../../core/model/ParsedMessage.ts"
import * as Report from "../../core/model/Report.ts"
import { eachMail, files } from "./InspectMail.ts"

/** What `inspect dsn` says of a message. */
export const describe = (parsed: ParsedMessage): object => {
  const { kind, recipients, originalMessageId } = Report.read(parsed)
  return {
    isBounce: kind === "bounce",
    kind,
    recipients: recipients.map(({ address, action, status, smtpCode, class: judgement, diagnostic }) => ({
      address, action, status, smtpCode, class: judgement, diagnostic
    })),
    originalMessageId
  }
}

export const dsnCommand = Command.make("dsn", { files }, ({ files }) => eachMail(files, describe)).pipe(
  Command.withDescription(
    "Says which messages are bounces, one line of JSON for each: {file, isBounce, kind, recipients: [{address, action, status, smtpCode, class, diagnostic}], originalMessageId}. " +
      "Kinds: bounce, delay, delivered, complaint, none; classes: permanent, transient, undetermined."
  ),
  Command.withExamples([{
    command: "mailroom inspect dsn *.eml | jq 'select(.isBounce)'",
    description: "The bounces among some messages"
  }])
)
