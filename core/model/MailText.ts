/**
 * Text of messages, read with care: addresses, header fields and plain words
 * out of lines that anybody may have written. Everything here takes time linear
 * in its input, whatever the input is; no regular expression looks back or
 * ahead without a bound.
 */

import { decodeEntities } from "./HtmlEntities.ts"

/** An address found in running text, and where it stands. */
export interface FoundAddress {
  readonly address: string
  readonly start: number
  readonly end: number
  /** Whether it stands in angle brackets. */
  readonly isBracketed: boolean
}

const localLengthMax = 128
const domainLengthMax = 255

const isAsciiLocal = (char: string): boolean => /[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~.]/.test(char)
/** A letter beyond ASCII; the punctuation of other scripts (general, CJK, full-width, guillemets) is none. */
const isForeign = (char: string): boolean => /[^\u0000-\u00bf\u2000-\u206f\u3000-\u303f\uff00-\uffef]/.test(char)
const isIdeographic = (char: string): boolean => /[\u3040-\u9fff\uac00-\ud7af]/.test(char)
const isDomain = (char: string): boolean => /[A-Za-z0-9.\-_]/.test(char) || isForeign(char)

/** The addresses in a field's value; one that is nothing but an address is that, whatever sign it begins with. */
export const addressesOf = (value: string): ReadonlyArray<string> => {
  const bare = value.trim()
  const [whole] = addressesIn(`<${bare}>`)
  return whole?.address === bare && bare.includes(".", bare.indexOf("@")) ? [bare] : addressesIn(value).map(({ address }) => address)
}

/** The addresses in a line, in order; what looks like one and has no domain worth the name is none. */
export const addressesIn = (line: string): ReadonlyArray<FoundAddress> => {
  const found: Array<FoundAddress> = []
  let from = 0
  for (let at = line.indexOf("@"); at >= 0; at = line.indexOf("@", at + 1)) {
    const end = endOfDomain(line, at)
    const start = startOfLocal(line, at, from, end)
    if (start === at || end === at + 1) continue
    const isBracketed = line[start - 1] === "<" && line[end] === ">"
    const domain = line.slice(at + 1, end)
    if (!isBracketed && !domain.includes(".") && !domain.startsWith("[")) continue
    found.push({ address: line.slice(start, end), start, end, isBracketed })
    from = end
  }
  return found
}

const startOfLocal = (line: string, at: number, from: number, end: number): number => {
  const first = Math.max(from, at - localLengthMax)
  if (line[at - 1] === "\"") {
    const quote = line.lastIndexOf("\"", at - 2)
    return quote >= first ? quote : at
  }
  let start = at
  while (start > first && isAsciiLocal(line[start - 1]!)) start -= 1
  // Ideographs run on without a space: they belong to the address only if nothing else does.
  if (start === at || (start > first && isForeign(line[start - 1]!) && !isIdeographic(line[start - 1]!))) {
    while (start > first && (isAsciiLocal(line[start - 1]!) || isForeign(line[start - 1]!))) start -= 1
  }
  // In running text these dress an address up; in brackets they are of it.
  if (line[start - 1] === "<" && line[end] === ">") return start
  while (start < at && /['`=/*.?|{]/.test(line[start]!)) start += 1
  return start
}

const endOfDomain = (line: string, at: number): number => {
  const last = Math.min(line.length, at + 1 + domainLengthMax)
  if (line[at + 1] === "[") {
    const length = line.slice(at, last).indexOf("]") + 1
    return at + Math.max(length, 1)
  }
  let end = at + 1
  let hasDot = false
  while (end < last && isDomain(line[end]!)) {
    if (hasDot && isIdeographic(line[end]!) && /[A-Za-z]/.test(line[end - 1]!)) break
    hasDot ||= line[end] === "."
    end += 1
  }
  while (end > at + 1 && /[.\-_]/.test(line[end - 1]!)) end -= 1
  return end
}

/** The fields of a header, by lower-case name, unfolded; of a field that stands twice, all values in order. */
export type Fields = ReadonlyMap<string, ReadonlyArray<string>>

/** The header at the start of a text, up to its first empty line. */
export const headerOf = (text: string): Fields => {
  const fields = new Map<string, Array<string>>()
  let values: Array<string> | null = null
  for (const line of text.replace(/^\s*\n/, "").split("\n", headerLinesMax)) {
    if (line.trim() === "") break
    if (/^[ \t]/.test(line) && values !== null) {
      values[values.length - 1] += ` ${line.trim()}`
      continue
    }
    const field = fieldOf(line)
    values = null
    if (field === null) continue
    values = fields.get(field.name) ?? []
    values.push(field.value)
    fields.set(field.name, values)
  }
  return fields
}

const headerLinesMax = 2_000

/** `Name: value` of a line; the name in lower case. */
export const fieldOf = (line: string): { readonly name: string; readonly value: string } | null => {
  const colon = line.indexOf(":")
  if (colon < 1 || colon > 60) return null
  const name = line.slice(0, colon).trim()
  return /^[A-Za-z][A-Za-z0-9_-]*$/.test(name) ? { name: name.toLowerCase(), value: line.slice(colon + 1).trim() } : null
}

/** The first Message-ID in a value, with its angle brackets. */
export const messageIdIn = (value: string | undefined): string | null => {
  if (value === undefined) return null
  const start = value.indexOf("<")
  const end = value.indexOf(">", start)
  if (start >= 0 && end > start + 1 && end - start < 1_000) return value.slice(start, end + 1).replace(/\s/g, "")
  const bare = value.trim()
  return /^[^\s<>]{3,500}$/.test(bare) && bare.includes("@") ? `<${bare}>` : null
}

/** For comparing phrases: lower case, one space for any white space, plain apostrophes. */
export const folded = (text: string): string =>
  text.toLowerCase().replace(/[\u2018\u2019\u02bc\u00b4`]/g, "'").replace(/[\s\u00a0]+/g, " ")

/** An expression of alternatives, for more words than a line holds. */
export const matching = (flags: string, before: string, words: ReadonlyArray<string>, after: string): RegExp =>
  new RegExp(`${before}${words.join("|")}${after}`, flags)

/** Where the tag that opens here ends, with all that it shows to nobody: a comment, a script, a style, a title; -1 if it does not. */
const tagEnd = (html: string, open: number): number => {
  if (html.startsWith("<!--", open)) {
    const end = html.indexOf("-->", open + 4)
    return end < 0 ? -1 : end + 2
  }
  const hidden = /^<(script|style|title)\b/i.exec(html.slice(open, open + 8))?.[1]
  if (hidden === undefined) return html.indexOf(">", open)
  const closing = new RegExp(`</${hidden}`, "gi")
  closing.lastIndex = open
  return closing.test(html) ? html.indexOf(">", closing.lastIndex) : -1
}

/**
 * What a page says, roughly, and no more of it than so many characters of its source, or some more: for bounces that are
 * nothing but HTML, and for snippets. What is set within a line stays in its word.
 */
export const textOfHtml = (html: string, lengthMax = html.length): string => {
  const opening = /<(?=[a-z/!?])/gi // any other < is text
  let text = ""
  let at = 0
  while (text.length < lengthMax) {
    opening.lastIndex = at
    const open = opening.exec(html)?.index ?? html.length
    text += html.slice(at, Math.min(open, at + lengthMax))
    const end = open === html.length ? -1 : tagEnd(html, open)
    if (end < 0) break
    const name = /^<\/?([A-Za-z0-9]+)/.exec(html.slice(open, open + 12))?.[1]?.toLowerCase() ?? ""
    if (blocks.has(name)) text += "\n"
    at = end + 1
  }
  return decodeEntities(text)
}

const blocks = new Set(["br", "p", "div", "tr", "td", "th", "table", "li", "ul", "ol", "dt", "dd", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "hr", "center", "blockquote", "section", "article"])
