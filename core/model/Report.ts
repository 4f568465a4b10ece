/**
 * What a report about mail of ours says: a delivery status notification (RFC
 * 3464), what older and stranger servers send in its place, or a complaint
 * (ARF, RFC 5965).
 *
 * Reading is total and takes time linear in the message. Where a report has
 * fields, they are believed; where it has prose alone, it must look like a
 * server's in more than one way (`ReportEvidence`), because a letter taken for a
 * bounce would end mail to somebody who wrote us.
 */
import { classOf, codesIn, hasCode, isGeneric } from "./BounceReason.ts"
import { findingsIn, type Prose, proseOf } from "./BounceText.ts"
import * as Complaint from "./Complaint.ts"
import * as DeliveryStatus from "./DeliveryStatus.ts"
import type { Finding } from "./DeliveryStatus.ts"
import { addressesOf, type Fields, folded, headerOf, messageIdIn, textOfHtml } from "./MailText.ts"
import type { MimePart } from "./MimePart.ts"
import type { ParsedAttachment, ParsedMessage } from "./ParsedMessage.ts"
import type { Bounce } from "./Recipient.ts"
import { bearingOf, type Evidence, evidenceOf, type Found, headerValue, isAnswer, isReportShaped, scoreMin } from "./ReportEvidence.ts"

/** One recipient that a report speaks of. */
export interface ReportedRecipient {
  /** As our envelope had it, as well as can be told. */
  readonly address: string
  readonly action: "failed" | "delayed" | "delivered" | "relayed" | "expanded" | "complained"
  /** The enhanced status code (RFC 3463). */
  readonly status: string | null
  readonly smtpCode: number | null
  readonly class: Exclude<Bounce["class"], "suppressed">
  readonly diagnostic: string | null
}

export interface Report {
  /** `none`: it is not a report, and nothing is to be concluded from it. */
  readonly kind: "bounce" | "delay" | "delivered" | "complaint" | "none"
  readonly recipients: ReadonlyArray<ReportedRecipient>
  /** The Message-ID of the message it speaks of, with its angle brackets. */
  readonly originalMessageId: string | null
}

const none: Report = { kind: "none", recipients: [], originalMessageId: null }

/**
 * What a message reports; `none` if it is no report. `returnPath` is that of its envelope, null for the null sender; without
 * it, the message's own Return-Path field is taken.
 */
export const read = (message: ParsedMessage, returnPath?: string | null): Report => {
  const parts = partsOf(message)
  if (parts.isReceipt && !rejects(message, parts)) return none
  const complaint = complaintIn(message, parts)
  if (complaint !== null) return complaint
  const bearing = bearingOf(message, returnPath)
  if (bearing.isStranger && !claimsStatus(message)) return none // before its text is looked at, which takes longer than all else
  const prose = proseOf(parts.text)
  const told = findingsIn(prose, ownAddresses(message))
  const named = failedRecipients(message, told)
  const spoken = named.length > 0 ? named : told
  const found = { recipients: spoken.length, codes: spoken.filter(isCoded).length, hasOriginal: parts.original !== null || prose.hasCopy }
  const evidence = evidenceOf(message, bearing, prose, found)
  const status = statusOf(message, parts, prose, evidence)
  if (status === null && !isProseReport(message, evidence, found)) return none
  const original = originalOf(parts, prose)
  const findings = status === null ? spoken : completed(status.findings, spoken)
  const recipients = recipientsOf(findings, original, evidence, prose)
  return {
    kind: kindOf(recipients, evidence),
    recipients,
    originalMessageId: originalIdOf(message, original, prose, status?.originalMessageId ?? parts.receipt?.get("original-message-id")?.[0] ?? null)
  }
}

// What the message is made of

interface Parts {
  /** Of the message itself, in plain words. */
  readonly text: string
  readonly statuses: ReadonlyArray<string>
  /** Other texts that hold fields of RFC 3464. */
  readonly lookalikes: ReadonlyArray<string>
  readonly feedback: string | null
  /** The header of the message it speaks of. */
  readonly original: Fields | null
  readonly isReceipt: boolean
  /** The fields of a receipt (RFC 8098). */
  readonly receipt: Fields | null
}

const textBytesMax = 1024 * 1024
/** Of a header, and of a status that stands in a file of another type. */
const originalBytesMax = 64 * 1024

const statusTypes = new Set([
  "message/delivery-status", "message/global-delivery-status", "message/deliverystatus", "application/delivery-status"
])
const receiptTypes = new Set(["message/disposition-notification"])
const originalTypes = new Set([
  "message/rfc822", "message/global", "text/rfc822-headers", "text/rfc822-header", "message/rfc822-headers",
  "message/global-headers", "text/rfc822", "message/partial"
])

const decoded = (bytes: Uint8Array, max: number): string =>
  new TextDecoder().decode(bytes.subarray(0, max)).replace(/\r\n?/g, "\n")

const partsOf = (message: ParsedMessage): Parts => {
  const of = (types: ReadonlySet<string>) => message.attachments.filter(({ mediaType }) => types.has(mediaType.toLowerCase()))
  const text = textOf(message)
  const originals = of(originalTypes).slice(0, 3).map(({ bytes }) => headerOf(decoded(bytes, originalBytesMax)))
  const [feedback] = of(new Set(["message/feedback-report"]))
  const [receipt] = of(receiptTypes)
  const texts = message.attachments.filter(isText).slice(0, 20).map(({ bytes }) => decoded(bytes, originalBytesMax))
  const statuses = of(statusTypes).slice(0, 20)
  return {
    text,
    receipt: receipt === undefined ? null : headerOf(decoded(receipt.bytes, originalBytesMax)),
    statuses: statuses.map(({ bytes }) => decoded(bytes, textBytesMax / statuses.length)),
    lookalikes: [...texts, text].filter(DeliveryStatus.isStatus),
    feedback: feedback === undefined ? null : decoded(feedback.bytes, originalBytesMax),
    original: originals.find((fields) => fields.has("message-id")) ?? originals[0] ?? null,
    isReceipt: mediaTypes(message.structure).has("message/disposition-notification") ||
      /report-type\s*=\s*"?(?:disposition-notification|tlsrpt)/i.test((headerValue(message, "content-type") ?? "").slice(0, 1_000))
  }
}

/** Sieve (RFC 5429) may refuse a message by a receipt: it comes from the mail system, and says so. */
const rejects = (message: ParsedMessage, { text }: Parts): boolean =>
  text.slice(0, 4_000).toLowerCase().includes("automatically rejected") &&
  /auto-replied|auto-generated/i.test(headerValue(message, "auto-submitted") ?? "")

const isText = ({ mediaType, filename }: ParsedAttachment): boolean =>
  /^text\/plain$/i.test(mediaType) || (/^application\/octet-stream$/i.test(mediaType) && /\.(?:txt|dat|dsn)$|^details|^att\d/i.test(filename ?? ""))

/** The page is asked where the text is none, or says nothing of anybody; a body that came apart is read as it is. */
const textOf = ({ text, html, attachments }: ParsedMessage): string => {
  const [first] = attachments
  const isEmpty = (text ?? "").trim() === "" && html === null && attachments.length === 1
  const isOpaque = isEmpty && first?.mediaType === "application/octet-stream" && first.filename === null
  const plain = isOpaque ? decoded(first.bytes, textBytesMax) : (text ?? "").slice(0, textBytesMax)
  if (html === null || (plain.trim() !== "" && plain.includes("@"))) return plain
  return `${plain}\n${textOfHtml(html.slice(0, 256 * 1024))}`
}

const mediaTypes = (root: MimePart): ReadonlySet<string> => {
  const types = new Set<string>()
  const pending: Array<MimePart> = [root]
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    types.add(next.mediaType.toLowerCase())
    if (pending.length < 10_000) pending.push(...next.parts.slice(0, 1_000))
  }
  return types
}

const ownAddresses = (message: ParsedMessage): ReadonlySet<string> =>
  new Set([...message.to, ...message.cc, ...(message.from === null ? [] : [message.from]), ...message.replyTo].map(({ address }) => address.toLowerCase()))

/** X-Failed-Recipients of Exim and Gmail, with what the text says of each. */
const failedRecipients = (message: ParsedMessage, told: ReadonlyArray<Finding>): ReadonlyArray<Finding> => {
  const values = message.headers.filter(({ name }) => name.toLowerCase() === "x-failed-recipients").slice(0, 50)
  const unique = new Set<string>()
  for (const { value } of values) {
    if (unique.size < DeliveryStatus.recipientsMax) for (const address of addressesOf(value.slice(0, 8_000))) unique.add(address)
  }
  // By either of its names; of two findings the first.
  const byName = new Map(told.toReversed().flatMap((finding) => [finding.address, finding.alias].map((name) => [name?.toLowerCase(), finding] as const)))
  return [...unique].slice(0, DeliveryStatus.recipientsMax).map((address) => byName.get(address.toLowerCase()) ?? { ...nothing, address })
}

const nothing: Finding = { address: null, alias: null, action: null, status: null, diagnostic: null, willRetry: false }

// Complaints

const complaintIn = (message: ParsedMessage, parts: Parts): Report | null => {
  const isOld = Complaint.isOldStyle(message.subject, message.from?.address ?? "") && parts.original !== null
  if (parts.feedback === null && !isOld) return null
  const report = parts.feedback === null ? headerFields(message) : Complaint.fieldsOf(parts.feedback)
  if (parts.feedback !== null && !Complaint.complains(report)) return none
  const original: Fields = parts.original ?? new Map()
  const recipients = Complaint.complainers(report, original).map((address): ReportedRecipient => ({
    address, action: "complained", status: null, smtpCode: null, class: "undetermined", diagnostic: null
  }))
  const id = messageIdIn(original.get("message-id")?.[0]) ?? messageIdIn(report.get("original-message-id")?.[0])
  return { kind: "complaint", recipients, originalMessageId: id }
}

const headerFields = (message: ParsedMessage): Fields =>
  new Map(message.headers.slice(0, 500).filter(({ name }) => /^x-/i.test(name)).map(({ name, value }) => [name.toLowerCase(), [value]]))

// Fields of RFC 3464

/** By its type, it has such fields. */
const claimsStatus = (message: ParsedMessage): boolean =>
  isReportShaped(message) || statusTypes.has(message.structure.mediaType.toLowerCase())

/** The status fields, if the message is such a report, or looks like a server's and has them at another place. */
const statusOf = (message: ParsedMessage, parts: Parts, prose: Prose, evidence: Evidence): DeliveryStatus.DeliveryStatus | null => {
  const isReport = claimsStatus(message)
  const isLetter = isAnswer(message.subject) || prose.isConversation || evidence.isOther
  if (!isReport && (isLetter || (evidence.sender < 2 && evidence.score < scoreMin))) return null
  const lookalikes = isReport || evidence.score >= scoreMin - 2 ? parts.lookalikes : []
  const texts = parts.statuses.length > 0 ? parts.statuses : lookalikes
  const read = texts.map(DeliveryStatus.read)
  const findings = read.flatMap(({ findings }) => findings).slice(0, DeliveryStatus.recipientsMax)
  if (findings.length === 0) return null
  return { findings, originalMessageId: read.find(({ originalMessageId }) => originalMessageId !== null)?.originalMessageId ?? null }
}

/** What the fields leave out, the text may tell; and what our envelope had, where the fields name what the server made of it. */
const completed = (findings: ReadonlyArray<Finding>, told: ReadonlyArray<Finding>): ReadonlyArray<Finding> => {
  const names = told.flatMap((finding) => [finding.alias, finding.address].map((name) => [folded(name ?? ""), finding] as const))
  const byName = new Map(names)
  const isOnly = findings.length === 1
  return findings.map((finding) => {
    const { address } = finding
    const isWhole = address?.includes("@") === true
    const same = isWhole ?
      byName.get(folded(address)) :
      told.find((other) => (address === null ? isOnly : folded(other.address ?? "").startsWith(`${folded(address)}@`)))
    const beside = same ?? (isOnly && told.length === 1 ? told[0] : undefined)
    const isAlias = isWhole && folded(beside?.alias ?? "") === folded(address)
    return {
      ...finding,
      address: isWhole && !isAlias ? address : beside?.address ?? address,
      diagnostic: finding.diagnostic ?? beside?.diagnostic ?? null
    }
  })
}

// Judgement

/** Who sends it must count for something; and it must say something of delivery, and of a recipient or of a message. */
const isProseReport = (message: ParsedMessage, evidence: Evidence, found: Found): boolean =>
  !evidence.isOther && (evidence.sender >= 2 || isReportShaped(message)) && evidence.score >= scoreMin &&
  (found.recipients > 0 || found.hasOriginal) &&
  (evidence.says !== null || found.codes > 0)

const isCoded = ({ diagnostic }: Finding): boolean => hasCode(diagnostic ?? "")

const recipientsOf = (findings: ReadonlyArray<Finding>, original: Fields, evidence: Evidence, prose: Prose): ReadonlyArray<ReportedRecipient> => {
  const addressed = (original.get("to") ?? []).slice(0, 10).flatMap((value) => addressesOf(value.slice(0, 2_000)))
  const fallback = addressed.length === 1 ? addressed[0]! : null
  const all: ReadonlyArray<Finding> = findings.length > 0 ?
    findings :
    [nothing]
  // Where one has a reason of its own, the words may be about that one.
  const words = all.length > 1 && all.some(isCoded) ? "" : prose.lines.join("\n").slice(0, 8_000)
  const inWords = classOf({ smtpCode: null, enhancedCode: null }, words)
  const told = all.flatMap((finding) => {
    const isWhole = finding.address !== null && finding.address.includes("@")
    const same = isWhole ? undefined : addressed.find((address) => address.toLowerCase().startsWith(`${finding.address ?? ""}@`.toLowerCase()))
    const address = isWhole ? finding.address : same ?? (all.length === 1 ? fallback : null) ?? finding.address
    return address === null ? [] : [judged({ ...finding, address }, evidence, { words, class: inWords }, all.length === 1)]
  })
  // A report in two languages may have everything twice.
  return [...new Map(told.map((recipient) => [`${recipient.action} ${recipient.address}`, recipient])).values()]
}

/** What the report says in all, and what it comes to. */
interface Said {
  readonly words: string
  readonly class: ReportedRecipient["class"]
}

const judged = (finding: Finding & { readonly address: string }, evidence: Evidence, all: Said, isOnly: boolean): ReportedRecipient => {
  const said = finding.diagnostic ?? (isOnly ? all.words : "")
  const codes = codesIn(said)
  const status = specific(finding.status, codes.enhancedCode)
  const action = finding.action ?? actionOf(finding, status, evidence)
  const { address, diagnostic } = finding
  const judgement = classOf({ smtpCode: codes.smtpCode, enhancedCode: status }, said)
  return {
    address,
    action,
    status,
    smtpCode: codes.smtpCode,
    class: action === "delayed" ? "transient" :
      action !== "failed" ? "undetermined" :
      judgement === "undetermined" ? all.class :
      judgement,
    diagnostic: diagnostic === null ? null : diagnostic.replace(/\s+/g, " ").trim()
  }
}

/** The field's code, unless it says nothing and the server's own answer does. */
const specific = (status: string | null, told: string | null): string | null =>
  status === null || (isGeneric(status) && told !== null && !told.startsWith("2")) ? told ?? status : status

const actionOf = (finding: Finding, status: string | null, evidence: Evidence): ReportedRecipient["action"] => {
  if (status?.startsWith("5") === true && evidence.says !== "delivered") return evidence.says === "delayed" ? "delayed" : "failed"
  return finding.willRetry ? "delayed" : evidence.says ?? "failed"
}

const kindOf = (recipients: ReadonlyArray<ReportedRecipient>, evidence: Evidence): Report["kind"] => {
  const actions = new Set(recipients.map(({ action }) => action))
  if (actions.has("failed")) return "bounce"
  if (actions.has("delayed")) return "delay"
  if (actions.size > 0) return "delivered"
  return evidence.says === "delayed" ? "delay" : evidence.says === "delivered" ? "delivered" : "bounce"
}

// The message it speaks of

const ofHeader = /^\s*(?:received|return-path|from|to|date|subject|message-id|x-[\w-]+|mime-version|dkim-signature)\s?:/i

const originalOf = (parts: Parts, prose: Prose): Fields => {
  if (parts.original !== null) return parts.original
  const start = prose.copy.split("\n", 200).findIndex((line) => ofHeader.test(line.slice(0, 80)))
  if (start < 0) return new Map()
  return headerOf(prose.copy.split("\n").slice(start).map((line) => line.replace(/^[ \t]+(?=[A-Za-z-]+:\s)/, "")).join("\n"))
}

const originalIdOf = (message: ParsedMessage, original: Fields, prose: Prose, told: string | null): string | null => {
  const inText = () => {
    const lines = [...prose.lines, ...prose.copy.split("\n", 400)]
    const line = lines.find((text) => /^\s*(?:original )?message[ -]?id\s?[:=]?\s*</i.test(text.slice(0, 200)))
    return line === undefined ? null : messageIdIn(line.slice(line.indexOf("<")).slice(0, 1_000))
  }
  return messageIdIn(original.get("message-id")?.[0]) ?? inText() ?? messageIdIn(told ?? undefined) ??
    message.inReplyTo ?? message.references.at(-1) ?? null
}
