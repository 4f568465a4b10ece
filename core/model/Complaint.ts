/**
 * Complaints: feedback reports (ARF, RFC 5965), which a provider sends when a
 * reader presses "spam", and what Hotmail sent before there was a standard.
 * Reports on authentication (RFC 6591) have the same shape and are none.
 */
import { addressesOf, type Fields, headerOf } from "./MailText.ts"

/** Somebody does not want our mail; not that something was wrong with its signature, or that it was no spam after all. */
const unwanted = new Set([
  "abuse", "fraud", "virus", "phishing", "other", "miscategorized", "opt-out", "opt-out-list", "complaint", "spam", "unsubscribe"
])

/** Whether a feedback report complains; by its type, and a report without one does. */
export const complains = (report: Fields): boolean => {
  const type = (report.get("feedback-type")?.[0] ?? "abuse").toLowerCase().split(/[\s;(]/, 1)[0]!
  return unwanted.has(type)
}

export const fieldsOf = (report: string): Fields => {
  // Some providers put an empty line between the fields that must be there and those that may.
  const [first, ...more] = report.split(/\n\s*\n/, 4).map(headerOf)
  return new Map([...(first ?? []), ...more.flatMap((fields) => [...fields])])
}

/** The addresses that complained: as the report says, else as the original was addressed. Providers that hide them leave nothing. */
export const complainers = (report: Fields, original: Fields): ReadonlyArray<string> => {
  const places: ReadonlyArray<readonly [Fields, string]> = [
    [report, "original-rcpt-to"], [report, "original-recipient"], [report, "removal-recipient"], [report, "recipient"],
    [report, "x-hmxmroriginalrecipient"], [original, "x-hmxmroriginalrecipient"], [original, "x-rcpt-to"], [original, "x-original-to"],
    [original, "x-envelope-to"], [original, "delivered-to"], [original, "to"]
  ]
  for (const [fields, name] of places) {
    const values = (fields.get(name) ?? []).slice(0, 100)
    const addresses = values.flatMap((value) => addressesOf(value.slice(0, 4_000)))
    // Of several readers it does not say which one complained; and one of them may be hidden.
    if (fields === original && name === "to" && new Set(addresses).size > 1) return []
    const shown = [...new Set(addresses.filter((address) => !/redact|^undisclosed|^hidden|^x+@|\*/i.test(address)))]
    if (shown.length > 0) return shown
  }
  return []
}

/** Hotmail's old programme: no feedback report, but a subject of its own and the message within. */
export const isOldStyle = (subject: string, from: string): boolean =>
  /^(?:complaint about message from|email feedback report for ip|abuse report for message|feedback report for)\b/i.test(subject.trim()) ||
  /^(?:staff@(?:hotmail|live|outlook|msn)\.com|scomp@aol\.net)$/i.test(from)
