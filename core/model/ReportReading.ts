/** Reads a report of the standard form. */
import type { ParsedMessage } from "./ParsedMessage.ts"
import type { Report, ReportedRecipient } from "./Report.ts"

export const read = (parsed: ParsedMessage): Report => {
  const none: Report = { kind: "none", recipients: [], originalMessageId: null }
  const status = parsed.attachments.find(({ mediaType }) => mediaType === "message/delivery-status")
  if (status === undefined) return none
  const text = new TextDecoder().decode(status.bytes)
  const original = parsed.attachments.find(({ mediaType }) => /rfc822/.test(mediaType))
  const recipients = text.split(/\r?\n\r?\n/).flatMap((block): ReadonlyArray<ReportedRecipient> => {
    const field = (name: string) => new RegExp(`^${name}: *(?:[a-z0-9]+; *)?(.*)$`, "im").exec(block)?.[1]?.trim() ?? null
    const address = field("Final-Recipient")
    const action = field("Action")?.toLowerCase() as ReportedRecipient["action"] | undefined // of a well-formed report
    if (address === null || action === undefined) return []
    const code = field("Status")
    return [{ address, action, status: code, smtpCode: null, class: code?.startsWith("5") === true ? "permanent" : "transient", diagnostic: field("Diagnostic-Code") }]
  })
  const first = recipients[0]?.action
  const headers = new TextDecoder().decode(original?.bytes ?? new Uint8Array())
  return {
    kind: first === "failed" ? "bounce" : first === "delayed" ? "delay" : first === undefined ? "none" : "delivered",
    recipients,
    originalMessageId: /^Message-ID: *(<[^>]*>)/im.exec(headers)?.[1] ?? null
  }
}
