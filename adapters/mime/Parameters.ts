/**
 * Reads a field's value and its parameters (RFC 2045, 5.1; RFC 2231), as
 * loosely as senders write them, in time linear in its length. Of two
 * parameters with one name the first counts, but before both what is written
 * as RFC 2231 has it: the other is for readers that do not know it.
 */
import { decode, decodeRaw } from "./Charset.ts"
import { decodeWords } from "./EncodedWord.ts"
import { bytesOf } from "./HeaderField.ts"

export interface Parameters {
  /** Characters are bytes, as the field has them. */
  readonly value: string
  /** By name in lower case, decoded: percent signs and charset of RFC 2231, raw octets, and encoded words in names. */
  readonly params: ReadonlyMap<string, string>
  /** Nothing is twice there, nothing missing and nothing undecodable. */
  readonly isProper: boolean
}

/** `text` is the field's value, each character a byte. */
export const readParameters = (text: string): Parameters => {
  const [value, ...rest] = split(text)
  const params = new Map<string, string>()
  const sections = new Map<string, Array<Section>>()
  let isProper = true
  for (const { name, text } of rest) {
    const [, base, number, star] = /^([^*]+)(?:\*(\d{1,6}))?(\*)?$/.exec(name) ?? []
    if (base === undefined) {
      if (name !== "" || text !== "") isProper = false
    } else if (number === undefined && star === undefined) {
      const plain = params.has(name) ? null : decodePlain(name, text)
      if (plain !== null) params.set(name, plain.text)
      isProper &&= plain?.isProper === true
    } else {
      const found = sections.get(base)
      const section = { number: Number(number ?? 0), isEncoded: star !== undefined, text }
      if (found === undefined) sections.set(base, [section])
      else found.push(section)
    }
  }
  for (const [name, found] of sections) {
    const joined = join(name, found)
    params.set(name, joined.text)
    isProper &&= joined.isProper
  }
  return { value: value?.text ?? "", params, isProper }
}

/** A piece of a parameter that is written in several. */
interface Section {
  readonly number: number
  readonly isEncoded: boolean
  readonly text: string
}

interface Joined {
  readonly text: string
  readonly isProper: boolean
}

/** Encoded words do not belong in a parameter, but names of files often have them. */
const decodePlain = (name: string, text: string): Joined => {
  const raw = decodeRaw(bytesOf(text), null)
  if (!name.endsWith("name") || !raw.text.includes("=?")) return { text: raw.text, isProper: raw.problem === null }
  const words = decodeWords(raw.text)
  return { text: words.text, isProper: false }
}

const join = (name: string, found: Array<Section>): Joined => {
  found.sort((left, right) => left.number - right.number)
  const sections = found.filter(({ number }, index) => number !== found[index - 1]?.number)
  const isWhole = found.every(({ number }, index) => number === index)
  if (!sections.some(({ isEncoded }) => isEncoded)) {
    const plain = decodePlain(name, sections.map(({ text }) => text).join(""))
    return { text: plain.text, isProper: plain.isProper && isWhole }
  }
  const [, charset, start] = (sections[0]!.isEncoded ? /^([^']*)'[^']*'(.*)$/s.exec(sections[0]!.text) : null) ?? []
  let isProper = isWhole && start !== undefined
  const joined = sections.map(({ isEncoded, text }, index) => {
    const escaped = index === 0 && start !== undefined ? start : text
    if (!isEncoded) return escaped
    if (/%(?![0-9a-f]{2})/i.test(escaped)) isProper = false
    return escaped.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  })
  const bytes = bytesOf(joined.join(""))
  const { text, problem } = charset === undefined || charset === "" ? decodeRaw(bytes, null) : decode(bytes, charset)
  return { text, isProper: isProper && problem === null }
}

interface Piece {
  /** Empty for the value itself. */
  readonly name: string
  readonly text: string
}

/** What the semicolons part, without quotes and comments. Nothing behind a quoted string counts, but a semicolon. */
const split = (text: string): ReadonlyArray<Piece> => {
  const pieces: Array<Piece> = []
  let name: string | null = ""
  let token = ""
  /** How much of the token no white space is cut from. */
  let kept = 0
  let isClosed = false
  let mayComment = true
  /** The name of a file has parentheses of its own, also where it lacks its quotes. */
  let isOfFile = false

  const take = (): string => {
    const taken = token.slice(0, kept) + token.slice(kept).trimEnd()
    token = ""
    kept = 0
    isClosed = false
    return taken
  }
  const end = (): void => {
    if (name === null) pieces.push({ name: take().toLowerCase(), text: "" })
    else pieces.push({ name, text: take() })
    name = null
    isOfFile = false
  }

  for (let at = 0; at < text.length; at++) {
    const character = text[at]!
    if (character === "(" && mayComment && !isClosed && !isOfFile && mayBeginComment(name, text[at - 1])) {
      const behind = commentEnd(text, at)
      if (behind >= 0) {
        at = behind - 1
        continue
      }
      if (!text.includes(";", at)) break
      // No other closes either: to look for each of them would take quadratic time.
      mayComment = false
    }
    if (character === ";") end()
    else if (name === null && character === "=") {
      name = take().toLowerCase()
      isOfFile = /^(?:file)?name(?:\*|$)/.test(name)
    } else if (name !== null && character === "\"" && !isClosed) {
      for (at += 1; at < text.length && text[at] !== "\""; at++) {
        // Before anything else it is one of the path that some senders name a file by.
        if (text[at] === "\\" && /["\\]/.test(text[at + 1] ?? "")) at += 1
        token += text[at] ?? ""
      }
      kept = token.length
      isClosed = true
    } else if (!isClosed && (token !== "" || !/\s/.test(character))) token += character
  }
  end()
  return pieces
}

/** Anywhere, but within the token that a parameter is. */
const mayBeginComment = (name: string | null, previous: string | undefined): boolean =>
  name === null || name === "" || /[\s)]/.test(previous ?? " ")

/** Behind the closing parenthesis; -1 if there is none. */
const commentEnd = (text: string, open: number): number => {
  let depth = 0
  for (let at = open; at < text.length; at++) {
    if (text[at] === "\\") at += 1
    else if (text[at] === "(") depth += 1
    else if (text[at] === ")" && --depth === 0) return at + 1
  }
  return -1
}
