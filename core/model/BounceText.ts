/**
 * Bounces in prose: what servers that know no RFC 3464 write to people. Their
 * own words end where a copy of the message begins; among those words stand the
 * addresses, each in one of a few shapes, with the reason beside it.
 */
import { hasCode } from "./BounceReason.ts"
import { type Finding, statusOf } from "./DeliveryStatus.ts"
import { addressesIn, fieldOf, type FoundAddress, matching } from "./MailText.ts"

/** A bounce says what it has to say at its beginning; the copy of the message may be long. */
const lengthMax = 64 * 1024
const linesMax = 1_500
const lineLengthMax = 1_000
const recipientsMax = 200

export interface Prose {
  /** What the server says itself, line by line, trimmed; quoted lines are empty. */
  readonly lines: ReadonlyArray<string>
  /** What comes behind: a copy of the message, or its header. */
  readonly copy: string
  /** A line says so, or the header of a message that travelled stands there. */
  readonly hasCopy: boolean
  /** Somebody forwards or answers. */
  readonly isConversation: boolean
}

const copyMarkers = [
  "below this line is a copy", "this is a copy of the message", "this is a copy of your message",
  "here is a copy of", "here is your message", "a copy of the original message", "copy of the original message",
  "copy of your message", "original message follows", "original text follows", "original message header", "original message:",
  "--original message", "- original message", "message header follows", "message headers follow",
  "message text follows", "header of the original message", "headers of the original message", "headers follow",
  "unsent message", "returned message", "message returned", "original mail", "undelivered message follows",
  "text of the message", "the initial part of the message", "the message headers are", "first part of the message",
  "start of returned", "beginning of the message", "the original message is attached", "--- message follows",
  "message follows ---", "your message follows", "your message was:", "header follows", "included below",
  "copy of the message", "begin message", "mail header", "body of the message", "ursprüngliche nachricht",
  "originalnachricht", "kopie der nachricht", "kopie ihrer", "message d'origine", "en-têtes du message",
  "mensaje original", "mensagem original", "messaggio originale", "oorspronkelijk bericht", "oryginalna wiadomość",
  "исходное сообщение", "заголовки сообщения", "заголовок сообщения", "元のメール", "原始邮件"
]

const conversationMarkers = [
  "forwarded message", "begin forwarded message", "wrote:", "schrieb:", "a écrit", "escribió:", "escreveu:",
  "ha scritto:", "schreef:", "napisał", "пишет:", "weitergeleitete nachricht", "message transféré",
  "message original-----", "original message-----", "ursprüngliche nachricht-----", "さんは書きました", "写道"
]

/** Takes a message's text apart. */
export const proseOf = (text: string): Prose => {
  const all = text.slice(0, lengthMax).replace(/\r\n?/g, "\n").split("\n", linesMax)
  const lines: Array<string> = []
  let end = all.length
  let isConversation = false
  let hasCopy = false
  for (const [index, raw] of all.entries()) {
    const line = raw.slice(0, lineLengthMax).trim()
    const lower = line.toLowerCase()
    if (lower.length < 200 && conversationMarkers.some((marker) => lower.includes(marker))) {
      isConversation = true
      end = index
      break
    }
    if (marksCopy(lower, all, index) || startsHeader(all, index)) {
      hasCopy = true
      end = index
      break
    }
    isConversation ||= isQuotation(line) && quotesALot(all, index)
    lines.push(isQuotation(line) ? "" : line)
  }
  return { lines, copy: all.slice(end).join("\n"), hasCopy, isConversation }
}

/** An announcement that a copy follows: between dashes, or with a header behind it, or with nothing. */
const marksCopy = (lower: string, all: ReadonlyArray<string>, index: number): boolean => {
  if (lower.length < 5 || lower.length > 160 || !copyMarkers.some((marker) => lower.includes(marker))) return false
  if (/^[-=*_#|+]{2}|[-=*_#|+]{2}$/.test(lower)) return true
  const next = all.slice(index + 1, index + 10).map((line) => line.trim()).filter((line) => line !== "" && !/^[-=*_#|]+$/.test(line))
  return next.length === 0 || next.slice(0, 3).some((line) => ofMessage.has(fieldOf(line.slice(0, 80).replace(/^>\s?/, ""))?.name ?? ""))
}

const ofMessage = new Set([
  "received", "return-path", "from", "to", "subject", "date", "message-id", "mime-version", "content-type", "x-mailer",
  "dkim-signature", "delivered-to", "reply-to", "sender"
])

/** `> ` quotes; `>>>` and `<<<` are lines of an SMTP transcript, and MDaemon lists addresses so. */
const isQuotation = (line: string): boolean =>
  line.startsWith(">") && !line.startsWith(">>>") && !/^>\s?[^\s<>]{1,64}@[^\s<>]{1,255}$/.test(line)

const quotesALot = (all: ReadonlyArray<string>, index: number): boolean =>
  all.slice(index, index + 3).filter((line) => isQuotation(line.trimStart())).length === 3

/** The header of a message that travelled: a field of the trace, and others right behind it. */
const startsHeader = (all: ReadonlyArray<string>, index: number): boolean => {
  const name = fieldOf(all[index]!.slice(0, 80))?.name
  if (name !== "received" && name !== "return-path" && name !== "dkim-signature" && name !== "x-received") return false
  const names = all.slice(index, index + 12).map((line) => fieldOf(line.slice(0, 80))?.name)
  return names.filter((name) => name !== undefined).length >= 2
}

/** Shapes in which an address is named as one that failed, the surest first. */
const shapes = ["fielded", "headed", "labelled", "alone", "addressed", "commanded", "replied", "spoken", "mentioned"] as const
type Shape = (typeof shapes)[number]

interface Candidate {
  readonly address: string
  /** As it stands there. */
  readonly written: string
  readonly shape: Shape
  readonly line: number
  /** Where the reason begins in that line. */
  readonly end: number
}

const labels = matching("i", String.raw`^[\s*•·>"'\-–[\]<>0-9.)]{0,8}(?:(final-recipient|original-recipient|x-failed-recipients?)|(?:failed |the |intended |original |invalid |unknown |bad |undeliverable |envelope )?(?:`, [
  "recipients?(?: address(?:es)?)?", "address(?:es)?", "rcpt to", "addressed to", "destination", "delivery to",
  "unable to deliver (?:message |mail )?to", "failed to deliver (?:message |mail )?to",
  "could not deliver (?:message |mail )?to", "undeliverable to", "unknown user", "unknown recipient",
  "user unknown", "invalid user", "no such user", "not delivered to", "mailbox", "email", "e-mail",
  "user mailbox exceeds allowed size", "to", "empfänger(?:adresse)?", "an", "destinataires?", "destinatarios?",
  "destinatari", "destinatário\\(?s?\\)?", "odbiorca", "adresat", "ontvanger", "geadresseerde", "получатель",
  "адрес получателя", "кому", "адрес", "宛先", "宛先アドレス", "送信先", "受信者", "メールアドレス", "收件人", "收件人地址", "收件人邮件地址", "收件者",
  "받는 사람", "수신자"
], String.raw`)(?:\(s\))?)\s?[:：=]`)

const spoken = matching("i", String.raw`(?:`, [
  "deliver", "deliver\\w+", "send", "sent", "recipient", "address", "mailbox", "user", "account", "rejected",
  "unknown", "undeliverable", "reach\\w*", "bounced", "message to", "mail to", "zugestellt", "empfänger",
  "adresse", "destinat\\w+", "entreg\\w+", "remis", "délivr\\w+", "recapit\\w+", "bezorg\\w+", "dostarcz\\w+",
  "odbiorc\\w+", "доставл\\w*", "адрес\\w*", "получател\\w*", "宛", "配信", "送信", "无法", "收件人", "发送"
], String.raw`)`)

// Its \b would know of ASCII alone.
const notTheirs = matching("iu", String.raw`(?<![\p{L}\p{N}_])(?:`, [
  "from", "sender", "reply-to", "mail from", "message-?id", "return-path", "contact", "postmaster",
  "administrator", "abuse", "support", "help", "https?", "www", "questions?", "reporting-mta", "von", "absender",
  "expéditeur", "de", "remitente", "remetente", "mittente", "da", "afzender", "nadawca", "от", "отправитель",
  "差出人", "发件人", "寄件者"
], String.raw`)(?![\p{L}\p{N}_])\s?[:：]?`)

const serviceLocals = new Set([
  "postmaster", "mailer-daemon", "abuse", "noc", "hostmaster", "helpdesk", "support", "help", "admin", "administrator",
  "noreply", "no-reply"
])

/** Who failed, as the text tells it. `ours` are addresses of this message's own header, which name nobody who failed. */
export const findingsIn = (prose: Prose, ours: ReadonlySet<string>): ReadonlyArray<Finding> => {
  const candidates: Array<Candidate> = []
  for (const [line, text] of prose.lines.entries()) {
    if (text.includes("@")) candidates.push(...candidatesOf(text.replaceAll(/mailto:/gi, "       "), line, prose.lines))
  }
  const theirs = candidates.filter(({ address }) => !ours.has(address.toLowerCase()))
  const pool = theirs.length > 0 ? theirs : candidates.filter(({ shape }) => shape !== "mentioned" && shape !== "spoken")
  const best = shapes.find((shape) => pool.some((candidate) => candidate.shape === shape))
  if (best === undefined) return []
  const chosen = unique(pool.filter(({ shape }) => shape === best)).slice(0, best === "mentioned" ? 1 : recipientsMax)
  return chosen.map((candidate, index) => toFinding(candidate, chosen, index, prose, pool))
}

const unique = (candidates: ReadonlyArray<Candidate>): ReadonlyArray<Candidate> => {
  const seen = new Set<string>()
  return candidates.filter(({ address }) => {
    const before = seen.size
    return seen.add(address.toLowerCase()).size > before
  })
}

const candidatesOf = (text: string, line: number, lines: ReadonlyArray<string>): ReadonlyArray<Candidate> =>
  addressesIn(text).slice(0, 50).flatMap((found, index) => {
    const shape = shapeOf(text, found, index, !(lines[line - 1] ?? "").includes("@"))
    if (shape === null) return []
    const local = found.address.slice(0, found.address.indexOf("@")).toLowerCase()
    if (serviceLocals.has(local) && (shape === "spoken" || shape === "mentioned" || shape === "replied")) return []
    return [{ address: origin(found, text, line, lines), written: found.address, shape, line, end: found.end }]
  })

const shapeOf = (text: string, { start, end, isBracketed }: FoundAddress, index: number, isUndisclosed: boolean): Shape | null => {
  const before = text.slice(0, start)
  const after = text.slice(end)
  const lead = before.slice(0, 120)
  if (/generated from:?\s<?$/i.test(before)) return isUndisclosed ? "headed" : null
  // Behind a program that sendmail ran; behind an address it would be found with that.
  if (isUndisclosed && /^\(expanded from:?\s<?$/i.test(before)) return "alone"
  if (/expanded from|mail from|message-?id/i.test(before.slice(-24))) return null
  if (/^[->]{3}\s?rcpt to:\s?<?$/i.test(before)) return "commanded"
  const label = labels.exec(lead)
  if (label !== null && (index === 0 || /[,;]\s*<?$/.test(before))) return label[1] === undefined ? "labelled" : "fielded"
  if (/(?:rcpt|recipient) to:\s?<?$/i.test(before)) return "commanded"
  const isFirst = /^[\s"'<>([*•·\-–]*(?:smtp:)?$/i.test(before) || /^\d{1,3}[.)]\s*<?$/.test(before)
  if (isFirst && /^[>"')\]]*\s*$/.test(after)) return "alone"
  if (isFirst && (isBracketed || text.startsWith("\"")) && /^[>"']*\s?(?::|\.\.\.|\(|-|,|;|$)/.test(after)) return "headed"
  if (isFirst && /^[>"')\]]*\s?(?::|\.\.\.|\(|\[|-\s|–|,|;|on\s|failed|user|unknown|invalid)/i.test(after)) return "headed"
  if (/(?:message|mail|deliver\w*|sent|send) to:?\s?["'<]{0,2}$/i.test(before.slice(-40))) return "addressed"
  if (notTheirs.test(before.slice(-40))) return null
  if (/^[<>\s"'-]*[245]\d\d[\s-]/.test(lead)) return "replied"
  if (spoken.test(before.slice(-80)) || spoken.test(after.slice(0, 60))) return "spoken"
  return "mentioned"
}

/** The address that our envelope had, where the server tells what became of it: `(expanded from <…>)`, `(generated from …)`. */
const origin = (found: FoundAddress, text: string, line: number, lines: ReadonlyArray<string>): string => {
  for (const [offset, where] of [text.slice(found.end), ...lines.slice(line + 1, line + 5)].entries()) {
    const at = /\((?:expanded|generated|ultimately generated) from:?\s/i.exec(where.slice(0, 300))
    if (at !== null) return addressesIn(where.slice(at.index))[0]?.address ?? found.address
    if (offset > 0 && !where.startsWith("(") && addressesIn(where.slice(0, 300)).length > 0) break
  }
  return found.address
}

/** The reason stands behind the address, up to an empty line or the next address; else wherever a line names both. */
const toFinding = (
  candidate: Candidate,
  chosen: ReadonlyArray<Candidate>,
  index: number,
  prose: Prose,
  pool: ReadonlyArray<Candidate>
): Finding => {
  const block = blockOf(candidate, chosen[index + 1]?.line ?? prose.lines.length, prose.lines)
  const own = [block, ...linesAbout(candidate, prose.lines, pool)].filter((text) => text !== "")
  const told = own.find(hasCode) ?? (chosen.length === 1 ? codedPart(prose.lines) : undefined) ?? own.find((text) => text.length > 3)
  const diagnostic = told === undefined ? null : told.trim().slice(0, lineLengthMax)
  const alias = candidate.written === candidate.address ? null : candidate.written
  return { address: candidate.address, alias, action: null, status: statusLine(prose.lines), diagnostic, willRetry: false }
}

const blockOf = ({ line, end }: Candidate, until: number, lines: ReadonlyArray<string>): string => {
  const first = (lines[line] ?? "").slice(end).replace(/^[\s>"'):;.,\]]+/, "")
  const rest: Array<string> = []
  let blanks = 0
  for (let at = line + 1; at < Math.min(until, lines.length, line + 14); at += 1) {
    const text = lines[at]!
    if (text === "") {
      if (rest.length > 0 || first.length > 3) break
      blanks += 1
      if (blanks > 2) break
      continue
    }
    if (isAside(text)) break
    if (!isRule(text)) rest.push(text)
  }
  return [first, ...rest].filter((text) => text !== "").join("\n")
}

/** What is said to the reader, and is no reason. */
const isAside = (line: string): boolean =>
  /^(?:please (?:reply|contact|do not|check)|if you (?:feel|have|need|believe)|for (?:further|more|help)|this is an automat)/i.test(line)

/** `----- Transcript of session follows -----`. */
const isRule = (line: string): boolean => /^-{3}/.test(line) && line.endsWith("---")

/** Other lines that name the address, each with what follows it closely. */
const linesAbout = (
  { address, line }: Candidate,
  lines: ReadonlyArray<string>,
  pool: ReadonlyArray<Candidate>
): ReadonlyArray<string> =>
  pool.filter((other) => other.address === address && other.line !== line)
    .slice(0, 8)
    .flatMap((other) => {
      const text = lines[other.line]!
      return [text, `${text}\n${lines[other.line + 1] ?? ""}`]
    })

/** From the first line with a code on, as far as it goes. */
const codedPart = (lines: ReadonlyArray<string>): string | undefined => {
  const first = lines.slice(0, 400).findIndex((line) => line !== "" && hasCode(line))
  if (first < 0) return undefined
  const end = lines.findIndex((line, index) => index > first && line === "")
  return lines.slice(first, Math.min(end < 0 ? first + 6 : end, first + 6)).join("\n")
}

/** `Status: 5.1.1` on a line of its own. */
const statusLine = (lines: ReadonlyArray<string>): string | null => {
  const line = lines.find((text) => /^status\s?:/i.test(text))
  return line === undefined ? null : statusOf(line.slice(line.indexOf(":") + 1))
}
