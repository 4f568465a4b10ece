/**
 * Lists of addresses (RFC 5322, 3.4 and 4.4; RFC 6854), as loosely as senders
 * write them, in time linear in their length. Groups are their members. What is
 * an address is decided before anything is decoded, so that no encoded word and
 * no name ever becomes one; an address is as written, without its comments, its
 * route and the white space that it may be spread with.
 */
import type { Mentioned } from "../../core/model/ParsedMessage.ts"
import { decodeWords } from "./EncodedWord.ts"
import { isPlainAddress, oneLine } from "./HeaderField.ts"

export interface AddressList {
  readonly parties: ReadonlyArray<Mentioned>
  /**
   * The first of them, but for what an unquoted comma cuts off a name, as in
   * `Doe, John <a@b.example>`: words that nobody could take for an address do
   * not stand for the one behind them. Null if there is none.
   */
  readonly author: Mentioned | null
  /** Every reader finds the same in it: no groups, and addresses that mean the same everywhere. */
  readonly isPlain: boolean
  readonly isProper: boolean
  /** Its encoded words are. */
  readonly isDecoded: boolean
}

/** Characters of an address that we repeat; a path has 256 at most (RFC 5321, 4.5.3.1). */
const addressLengthMax = 1_000

const wellFormed = /^(?:"(?:[^"\\]|\\.)*"|[^\s"(),:;<>@[\]\\]+)@(?:[^\s"(),:;<>@[\]\\]+|\[[^\s[\]\\]*\])$/s
/** An address and nothing else, as most are. */
const simple = /\s*([\w!#$%&'*+/?^`{|}~.-]+@[\w.-]+)\s*(?:,|$)/y
const plain = /[\w.@!#$%&'*+/=?^`{|}~\u00a1-\uffff-]/
const atomEnd = /[\s,;<:"(]/g
const atomEndWithoutComments = /[\s,;<:"]/g
const blankEnd = /\S/g
const encodedWord = /^=\?[^?\s]*\?[bq]\?[^?]*\?=$/i
/** One in a phrase, with what none there may have (RFC 2047, 5), but for what an address in brackets begins and ends with. */
const wordOfPhrase = /=\?[^?\s<>"]{1,80}\?[bq]\?[^?<>"]*\?=/iy

/** Also to whom sees it, or to a reader that takes other characters for an `@`. */
const looksLikeAddress = (address: string): boolean => address.normalize("NFKC").includes("@")

export const readAddresses = (text: string): AddressList => {
  const reader = new Reader(text)
  reader.read()
  return {
    parties: reader.parties,
    author: reader.author ?? reader.parties[0] ?? null,
    isPlain: reader.isProper && !reader.hasGroup && reader.parties.every(({ address }) => isPlainAddress(address)),
    isProper: reader.isProper,
    isDecoded: reader.isDecoded
  }
}

/** A word of a phrase or of a bare address. */
interface Word {
  /** As written, with quotes. */
  raw: string
  /** What it says. */
  text: string
  readonly isGlued: boolean
}

class Reader {
  readonly parties: Array<Mentioned> = []
  author: Mentioned | null = null
  hasGroup = false
  isProper = true
  isDecoded = true
  readonly #text: string
  #at = 0
  #words: Array<Word> = []
  /** Whether one of the words has an `@`: to look for it at each colon would take quadratic time. */
  #hasAt = false
  #comments: Array<string> = []
  #angle: string | null = null
  #isInGroup = false
  /** What may be the beginning of the author's name; null behind what is none. */
  #beginnings: Array<string> | null = []
  /** Whether the next word stands right behind the last. */
  #isGlued = false
  /** Once one has no end, no later one has, and to look for it again would take quadratic time. */
  #mayQuote = true
  #mayComment = true

  constructor(text: string) {
    this.#text = text
  }

  read(): void {
    while (this.#at < this.#text.length) if (!this.#readSimple()) this.#step()
    this.#finish()
    if (this.#isInGroup) this.isProper = false
  }

  #readSimple(): boolean {
    if (this.#words.length > 0 || this.#angle !== null || this.#comments.length > 0) return false
    simple.lastIndex = this.#at
    const [, address] = simple.exec(this.#text) ?? []
    if (address === undefined || address.length > addressLengthMax) return false
    this.#at = simple.lastIndex
    this.#add(address, "")
    return true
  }

  #add(address: string, said: string): void {
    const party = { address, name: this.#named(said) }
    this.parties.push(party)
    const beginnings = this.#beginnings
    this.#beginnings = null
    if (beginnings === null || !looksLikeAddress(address)) return
    this.author = beginnings.length === 0 ? party : { address, name: this.#named([...beginnings, said].filter((text) => text !== "").join(", ")) }
  }

  #named(said: string): string {
    const { text, isProper } = said.includes("=?") ? decodeWords(said) : { text: said, isProper: true }
    this.isDecoded &&= isProper
    return oneLine(text)
  }

  #step(): void {
    const character = this.#text[this.#at]!
    if (character === "=" && this.#readEncodedWord()) return
    if (plain.test(character)) this.#readAtom()
    else if (character === "," || character === ";") {
      if (character === ";") this.#endGroup()
      this.#finish()
      this.#at += 1
    } else if (character === "<") this.#readAngle()
    else if (character === ">") {
      this.isProper = false
      this.#at += 1
    }
    else if (character === ":" && this.#mayBeGroup()) {
      this.isProper &&= !this.#isInGroup
      this.hasGroup = true
      this.#isInGroup = true
      this.#dropWords()
      this.#comments = []
      this.#at += 1
    } else if (/\s/.test(character)) {
      this.#isGlued = false
      blankEnd.lastIndex = this.#at
      this.#at = blankEnd.exec(this.#text)?.index ?? this.#text.length
    } else if (!(character === "(" && this.#readComment()) && !(character === "\"" && this.#readQuoted())) this.#readAtom()
  }

  #endGroup(): void {
    this.isProper &&= this.#isInGroup // some part lists with it
    this.#isInGroup = false
  }

  #mayBeGroup(): boolean {
    return this.#angle === null && this.#words.length > 0 && !this.#hasAt
  }

  #dropWords(): void {
    this.#words = []
    this.#hasAt = false
  }

  #push(raw: string, text: string): void {
    this.#words.push({ raw, text, isGlued: this.#isGlued })
    this.#hasAt ||= raw.includes("@")
    this.#isGlued = true
  }

  /** Whole, with the commas and parentheses that some senders leave in it; other readers may take those for what they are elsewhere. */
  #readEncodedWord(): boolean {
    wordOfPhrase.lastIndex = this.#at
    const [word] = wordOfPhrase.exec(this.#text) ?? []
    if (word === undefined) return false
    if (/[\s,;:(]/.test(word)) this.isProper = false
    this.#push(word, word)
    this.#at += word.length
    return true
  }

  /** Whatever has no meaning of its own here; a domain literal in it. */
  #readAtom(): void {
    const start = this.#at
    const pattern = this.#mayComment ? atomEnd : atomEndWithoutComments
    pattern.lastIndex = start + 1
    this.#at = pattern.exec(this.#text)?.index ?? this.#text.length
    const literal = this.#text[this.#at] === ":" ? this.#text.slice(start, this.#at).lastIndexOf("@[") : -1
    if (literal >= 0) {
      const end = this.#text.slice(this.#at, this.#at + 100).indexOf("]")
      if (end > 0) this.#at += end + 1
    }
    const atom = this.#text.slice(start, this.#at)
    this.#push(atom, atom)
  }

  #readQuoted(): boolean {
    const end = this.#mayQuote ? this.#quoteEnd(this.#at) : -1
    if (end < 0) {
      this.#mayQuote = false
      this.isProper = false
      return false
    }
    const raw = this.#text.slice(this.#at, end + 1)
    this.#push(raw, raw.slice(1, -1).replace(/\\(.)/gs, "$1"))
    this.#at = end + 1
    return true
  }

  #quoteEnd(open: number): number {
    for (let at = open + 1; at < this.#text.length; at++) {
      if (this.#text[at] === "\\") at += 1
      else if (this.#text[at] === "\"") return at
    }
    return -1
  }

  #readComment(): boolean {
    const end = this.#mayComment ? this.#commentEnd(this.#at) : -1
    if (end < 0) {
      this.#mayComment = false
      this.isProper = false
      return false
    }
    this.#comments.push(this.#text.slice(this.#at + 1, end).replace(/\\(.)/gs, "$1"))
    this.#isGlued = false
    this.#at = end + 1
    return true
  }

  #commentEnd(open: number): number {
    let depth = 0
    for (let at = open; at < this.#text.length; at++) {
      const character = this.#text[at]
      if (character === "\\") at += 1
      else if (character === "(") depth += 1
      else if (character === ")" && --depth === 0) return at
    }
    return -1
  }

  /** Up to its bracket, or where the next mailbox begins if that is missing. */
  #readAngle(): void {
    let content = ""
    let isRoute = false
    let isClosed = false
    if (this.#angle !== null) this.isProper = false
    for (this.#at += 1; this.#at < this.#text.length && !isClosed; ) {
      const character = this.#text[this.#at]!
      const quoteEnd = character === "\"" && this.#mayQuote ? this.#quoteEnd(this.#at) : -1
      if (quoteEnd > 0) {
        content += this.#text.slice(this.#at, quoteEnd + 1)
        this.#at = quoteEnd + 1
      } else if (character === "(" && this.#mayComment && this.#commentEnd(this.#at) > 0) {
        this.#at = this.#commentEnd(this.#at) + 1
      } else if (character === "," && !isRoute) break
      else {
        if (character === "\"") this.#mayQuote = false
        if (character === "(") this.#mayComment = false
        if (character === "<") {
          content = ""
          isRoute = false
          this.isProper = false
        } else if (character === ">") isClosed = true
        else if (!/\s/.test(character)) {
          isRoute ||= content === "" && character === "@"
          content += character
        }
        this.#at += 1
      }
    }
    this.isProper &&= isClosed
    this.#angle ??= content.replace(/^@[^:]*:/, "")
    this.#isGlued = false
  }

  #finish(): void {
    const words = this.#words
    const comments = this.#comments
    const angle = this.#angle
    this.#dropWords()
    this.#comments = []
    this.#angle = null
    this.#isGlued = false
    if (words.length === 0 && angle === null) return
    const [address, phrase] = angle === null ? this.#bare(words) : [angle, words]
    if (!wellFormed.test(address.slice(0, addressLengthMax))) this.isProper = false
    if (address.length > addressLengthMax) {
      this.isProper = false
      return
    }
    const said = phrase.length > 0 ? phrase.map(({ text, isGlued }, index) => (index === 0 || isGlued ? text : ` ${text}`)).join("") : comments.join(" ")
    if (angle !== null || looksLikeAddress(address)) {
      if (address !== "") this.#add(oneLine(address), said)
      return
    }
    this.#beginnings?.push(address === "" ? said : address)
    if (address !== "") this.parties.push({ address: oneLine(address), name: this.#named(said) })
  }

  /** An address without brackets, which white space may be about its dots and its `@`; and what stands beside it. */
  #bare(words: ReadonlyArray<Word>): readonly [address: string, phrase: ReadonlyArray<Word>] {
    const merged: Array<Word> = []
    for (const [index, word] of words.entries()) {
      const last = merged.at(-1)
      const joins = word.isGlued || /^[.@]/.test(word.raw) || /[.@]$/.test(words[index - 1]?.raw.slice(-1) ?? "")
      if (last !== undefined && joins) {
        last.raw += word.raw
        last.text += word.text
      } else merged.push({ ...word })
    }
    const isAddress = ({ raw }: Word) => !encodedWord.test(raw) && (raw.includes("@") ? !/^"[^"]*"$/.test(raw) : merged.length === 1 && !raw.startsWith("\""))
    const found = merged.findLastIndex(isAddress)
    this.isProper &&= merged.length === 1
    return found < 0 ? ["", merged] : [merged[found]!.raw, merged.filter((_, index) => index !== found)]
  }
}
