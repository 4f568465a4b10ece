/**
 * What a report about a message of ours comes to for its recipients. Who the
 * report is from has been settled before; here it is only applied to those
 * whom the message was for.
 */
import { Result } from "effect"
import * as Address from "./Address.ts"
import type { Millis } from "./Ids.ts"
import type { Message } from "./Message.ts"
import { cleanReply } from "./Reply.ts"
import type { Report, ReportedRecipient } from "./Report.ts"
import type { Outcome } from "./Settlement.ts"

/**
 * One outcome for each recipient of the message that the report names. If it names none of them, and the message went to
 * one only, it is that one. `at`: when the report was written, as far as that can be believed.
 */
export const outcomesOf = (message: Pick<Message, "recipients">, report: Report, at: Millis): ReadonlyArray<Outcome> => {
  const ours = report.recipients.flatMap((reported) => {
    const name = nameOf(reported)
    const recipient = message.recipients.find(({ address }) => Address.foldCase(address) === name)
    return recipient === undefined ? [] : [{ address: recipient.address, reported }]
  })
  const [only, ...others] = message.recipients
  if (ours.length > 0 || only === undefined || others.length > 0) {
    return ours.flatMap(({ address, reported }) => outcomeOf(address, reported, at))
  }
  const reported = report.recipients.length > 0 ? report.recipients : unnamed(report)
  return reported.flatMap((one) => outcomeOf(only.address, one, at))
}

/** As our own addresses are compared: servers show a domain of A-labels in the letters that it stands for. */
const nameOf = ({ address }: ReportedRecipient): string =>
  Result.match(Address.parse(address), { onSuccess: Address.foldCase, onFailure: () => address.toLowerCase() })

/** What a report says that names nobody. */
const unnamed = ({ kind }: Report): ReadonlyArray<ReportedRecipient> => {
  const action = actionOf[kind]
  return action === null ? [] : [{ address: "", action, status: null, smtpCode: null, class: "undetermined", diagnostic: null }]
}

const actionOf = { bounce: "failed", delay: null, delivered: "delivered", complaint: "complained", none: null } as const

const outcomeOf = (recipient: Address.Address, reported: ReportedRecipient, at: Millis): ReadonlyArray<Outcome> => {
  const { action, status, smtpCode, class: bounceClass } = reported
  const diagnostic = cleanReply(reported.diagnostic)
  switch (action) {
    case "failed":
      return [
        {
          recipient,
          reported: { _tag: "Bounced", at, bounce: { class: bounceClass, smtpCode, enhancedCode: status, diagnostic } }
        }
      ]
    case "delivered":
    case "relayed":
    case "expanded":
      return [{ recipient, reported: { _tag: "Delivered", at, smtpResponse: diagnostic } }]
    case "complained":
      return [{ recipient, complainedAt: at }]
    case "delayed":
      return []
  }
}
