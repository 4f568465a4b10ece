/**
 * Why mail came back, out of what a server said: the SMTP code and the enhanced
 * status code in a text, and the class that follows from them. The words of a
 * text count only where it has no code, or one that says nothing.
 */
import { passingReasons, permanentReasons, quotaReasons, transientReasons } from "./BouncePhrases.ts"
import { folded } from "./MailText.ts"
import { classify } from "./Reply.ts"

export interface Codes {
  readonly smtpCode: number | null
  /** class.subject.detail (RFC 3463). */
  readonly enhancedCode: string | null
}

/** Of a text, so much is looked at, and of the numbers in it that may be codes, as many. */
const textLengthMax = 8_192
const numbersMax = 16

/** An enhanced code ends and begins where a number does: an address, a version and a date are none. */
const enhanced = /(?<![\w.])([245])\.(\d{1,3})\.(\d{1,3})(?![\w]|\.\d)/g

const basic = /(?<![\w.@/])([245][0-7]\d)(?![\w/%@]|[.,]\d|:\d)/g

/** What stands right before a number that is a reply code. A colon between digits is a time of day. */
const introducesCode = /(?:^|[^\d\s]:|[：;=>"'([<#|]|<<<|(?<![A-Za-z])(?:said|says|responded|response|returned|reply|replied|error|code|status|smtp|esmtp|server|with|was|got|is|fehler|erreur|errore|fout|ошибка|kod|código|codigo))[\s:：=-]{0,3}$/i
const introducesOther = /\b(?:port|line|id|pid|ext|phone|tel|fax|room|size|limit|max|least|than|for|after)[\s.:#(=]{0,3}$/i
const isCount = /^\s?(?:[kKmMgG]i?[bB]|bytes?|octets?|messages|e?mails|seconds?|minutes?|hours?|days?|recipients|users|ms|times|characters|lines)\b/

/** The codes in what a server said. A reply code is one only where one would stand. */
export const codesIn = (said: string): Codes => {
  const text = said.slice(0, textLengthMax)
  const replies = numbersIn(text, basic).filter((match) => isReplyCode(text, match.index, match[0].length))
  const withEnhanced = replies.find(({ index }) => /^\d{3}[\s-]{1,2}\(?#?[245]\.\d{1,3}\.\d/.test(text.slice(index, index + 16)))
  const reply = withEnhanced ?? replies.find(({ 0: code }) => code[0] !== "2") ?? replies[0]
  const codes = numbersIn(text, enhanced).filter((match) => isEnhancedCode(text, match.index, match[2]!))
  const after = reply === undefined ? undefined : codes.find(({ index }) => index >= reply.index && index <= reply.index + 12)
  const code = after ?? codes.find(({ 0: value }) => !isGeneric(value)) ?? codes[0]
  return { smtpCode: reply === undefined ? null : Number(reply[0]), enhancedCode: code?.[0] ?? null }
}

/** Whether a server gave a code of either kind. */
export const hasCode = (said: string): boolean => {
  const { smtpCode, enhancedCode } = codesIn(said)
  return smtpCode !== null || enhancedCode !== null
}

const numbersIn = (text: string, pattern: RegExp): ReadonlyArray<RegExpExecArray> => {
  const found: Array<RegExpExecArray> = []
  for (const match of text.matchAll(pattern)) {
    found.push(match)
    if (found.length === numbersMax) break
  }
  return found
}

const isReplyCode = (text: string, index: number, length: number): boolean => {
  const before = text.slice(Math.max(0, index - 40), index)
  const line = before.slice(before.lastIndexOf("\n") + 1)
  const rest = text.slice(index + length, index + length + 24)
  if (/^[\s-]{1,2}\(?#?[245]\.\d{1,3}\.\d/.test(rest)) return true
  if (isCount.test(rest) || introducesOther.test(line)) return false
  return introducesCode.test(line)
}

/** Subjects go up to 7; a version number is called one, or has more to it. */
const isEnhancedCode = (text: string, index: number, subject: string): boolean =>
  Number(subject) <= 7 && !/(?:version|release|\bv|build|postfix|exim|sendmail|qmail|mailer|server|agent)[\s/:]{0,2}$/i.test(text.slice(Math.max(0, index - 16), index))

/** 5.0.0 and 4.0.0 say no more than their class, and servers that know no better give them to everything. */
export const isGeneric = (enhancedCode: string): boolean => enhancedCode.endsWith(".0.0")

/**
 * Whether trying again later can help. The class of the code decides (`Reply.classify`), with two exceptions that
 * RFC 3463 makes itself, whatever class they came with: a full mailbox (X.2.2) and a delivery that took too long (X.4.7)
 * are transient. Where there is no code, or one that says no more than its class, the words are looked at.
 */
export const classOf = ({ smtpCode, enhancedCode }: Codes, said: string): "permanent" | "transient" | "undetermined" => {
  if (enhancedCode !== null && /^[45]\.(2\.2|4\.7)$/.test(enhancedCode)) return "transient"
  if (enhancedCode !== null && /^[45]/.test(enhancedCode) && !isGeneric(enhancedCode)) return judged(0, enhancedCode)
  const words = folded(said.slice(0, textLengthMax))
  if (quotaReasons.some((reason) => words.includes(reason))) return "transient"
  if (smtpCode !== null && smtpCode >= 400) return judged(smtpCode, null)
  const byWords = classOfWords(words)
  if (byWords !== "undetermined") return byWords
  return enhancedCode !== null && /^[45]/.test(enhancedCode) ? judged(0, enhancedCode) : "undetermined"
}

const judged = (smtpCode: number, enhancedCode: string | null): "permanent" | "transient" =>
  classify({ smtpCode, enhancedCode, text: null }) === "permanent" ? "permanent" : "transient"

const classOfWords = (words: string): "permanent" | "transient" | "undetermined" => {
  if (passingReasons.some((reason) => words.includes(reason))) return "transient"
  if (permanentReasons.some((reason) => words.includes(reason))) return "permanent"
  return transientReasons.some((reason) => words.includes(reason)) ? "transient" : "undetermined"
}
