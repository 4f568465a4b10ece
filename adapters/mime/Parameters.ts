/**
 * Reads a field's value and its parameters (RFC 2045, 5.1; RFC 2231), as
 * loosely as senders write them, in time linear in its length. Of two
 * parameters with one name the first counts. Characters are bytes, as the
 * field has them; a charset that RFC 2231 names is not applied.
 */

export interface Parameters {
  readonly value: string
  /** By name in lower case. */
  readonly params: ReadonlyMap<string, string>
}

export const readParameters = (text: string): Parameters => {
  const [value, ...rest] = split(text)
  const params = new Map<string, string>()
  const sections = new Map<string, Array<Section>>()
  for (const { name, text } of rest) {
    const [, base, number, star] = /^([^*]+)(?:\*(\d{1,6}))?(\*)?$/.exec(name) ?? []
    if (base === undefined) continue
    if (number === undefined && star === undefined) {
      if (!params.has(name)) params.set(name, text)
      continue
    }
    const found = sections.get(base)
    const section = { number: Number(number ?? 0), isEncoded: star !== undefined, text }
    if (found === undefined) sections.set(base, [section])
    else found.push(section)
  }
  for (const [name, found] of sections) if (!params.has(name)) params.set(name, joined(found))
  return { value: value?.text ?? "", params }
}

/** A piece of a parameter that is written in several. */
interface Section {
  readonly number: number
  readonly isEncoded: boolean
  readonly text: string
}

const joined = (sections: Array<Section>): string =>
  sections
    .sort((left, right) => left.number - right.number)
    .map(({ number, isEncoded, text }) => {
      if (!isEncoded) return text
      const bytes = number === 0 ? text.replace(/^[^']*'[^']*'/, "") : text
      return bytes.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    })
    .join("")

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
  }

  for (let at = 0; at < text.length; at++) {
    const character = text[at]!
    if (character === "(" && mayComment && !isClosed && mayBeginComment(name, text[at - 1])) {
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
    else if (name === null && character === "=") name = take().toLowerCase()
    else if (name !== null && character === "\"" && !isClosed) {
      for (at += 1; at < text.length && text[at] !== "\""; at++) {
        if (text[at] === "\\") at += 1
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
