/**
 * What a person reads in HTML, as plain text: paragraphs and lists keep their
 * lines, whatever is no text goes. It looks at each character a bounded number
 * of times and keeps no tree, for HTML may be long, malformed and malicious.
 */

import { decodeEntities } from "../../core/model/HtmlEntities.ts"

/** The charset that a document names in its own beginning; null if it names none. */
export const charsetInHtml = (bytes: Uint8Array): string | null => {
  const start = Buffer.from(bytes.subarray(0, 1024)).toString("latin1")
  const [, charset = null] = /<meta[^>]{0,200}?charset\s{0,10}=\s{0,10}["']?([\w.:-]{1,40})/i.exec(start) ?? []
  // It was ASCII up to here.
  return charset !== null && /^(?:utf-?16|utf-?32|utf-?7)/i.test(charset) ? "utf-8" : charset
}

export const shownText = (html: string): string => {
  const page = new Page()
  const opening = /<(?=[a-z/!?])/gi // any other < is text
  const tags = new TagEnds(html)
  let at = 0
  for (let tag = opening.exec(html); tag !== null; tag = opening.exec(html)) {
    page.text(html.slice(at, tag.index))
    const end = tags.endOf(tag.index)
    if (end < 0) return page.end()
    at = end + 1
    opening.lastIndex = at
    const [, slash, name] = /^<(\/?)([a-z][a-z0-9]{0,20})/i.exec(html.slice(tag.index, tag.index + 24)) ?? []
    if (name === undefined) continue
    const element = name.toLowerCase()
    if (slash === "" && unshown.has(element)) {
      const close = closingOf(html, element, at)
      if (close < 0) return page.end()
      at = close
      opening.lastIndex = at
    } else page.tag(element, slash !== "", element === "img" ? html.slice(tag.index, end) : "")
  }
  page.text(html.slice(at))
  return page.end()
}

/** Elements whose content is not shown, whatever stands in it. */
const unshown = new Set(["script", "style", "title", "textarea", "xmp", "iframe", "noframes", "noembed", "template"])

/** Where the element's end tag begins; -1 if it has none. */
const closingOf = (html: string, element: string, from: number): number => {
  const closing = new RegExp(`</${element}(?=[\\s/>])`, "gi")
  closing.lastIndex = from
  return closing.exec(html)?.index ?? -1
}

/** Where tags and comments end; a quote that is never closed is none, and is looked for once. */
class TagEnds {
  readonly #html: string
  readonly #unclosed = new Set<string>()

  constructor(html: string) {
    this.#html = html
  }

  /** The last character of what opens here; -1 if it has no end. */
  endOf(open: number): number {
    const html = this.#html
    if (html.startsWith("<!--", open)) {
      if (html.startsWith("<!-->", open) || html.startsWith("<!--->", open)) return html.indexOf(">", open)
      const end = html.indexOf("-->", open + 4)
      return end < 0 ? -1 : end + 2
    }
    const mark = /["'>]/g
    mark.lastIndex = open
    for (let found = mark.exec(html); found !== null; found = mark.exec(html)) {
      const [character] = found
      if (character === ">") return found.index
      if (html[found.index - 1] !== "=" || this.#unclosed.has(character)) continue
      const close = html.indexOf(character, found.index + 1)
      if (close < 0) this.#unclosed.add(character)
      else mark.lastIndex = close + 1
    }
    return -1
  }
}

/** Elements that begin and end a line, and how many line ends part them from what is beside them. */
const breaks = new Map<string, number>([
  ...["p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "dl", "blockquote", "pre", "table", "hr"].map((name) => [name, 2] as const),
  ...["div", "tr", "li", "dt", "dd", "section", "article", "header", "footer", "nav", "main", "aside", "address", "form", "fieldset"].map(
    (name) => [name, 1] as const
  ),
  ...["center", "figure", "figcaption", "caption", "body", "html", "head", "option", "legend", "details", "summary"].map((name) => [name, 1] as const)
])

/** The lines of a text as it grows. What is written is not looked at again before the end. */
class Page {
  readonly #pieces: Array<string> = []
  /** How many line ends it ends with. */
  #ends = 0
  #hasSpace = false
  #breaks = 0
  #preformatted = 0

  text(source: string): void {
    if (source === "") return
    const text = decodeEntities(source)
    if (this.#preformatted > 0) return this.#write(text.replace(/\r\n?/g, "\n"))
    const folded = text.replace(/[ \t\n\r\f]+/g, " ")
    if (folded.startsWith(" ")) this.#hasSpace = true
    const words = folded.trim()
    if (words === "") return
    this.#write(words)
    this.#hasSpace = folded.endsWith(" ")
  }

  tag(name: string, isEnd: boolean, source: string): void {
    const lines = breaks.get(name)
    if (name === "br" && !isEnd) {
      const ends = this.#breaks + 1
      this.#breaks = 0
      this.#hasSpace = false
      this.#end(ends)
    } else if (lines !== undefined) {
      this.#breaks = Math.max(this.#breaks, lines - this.#ends)
      this.#hasSpace = false
      if (name === "pre") this.#preformatted = Math.max(0, this.#preformatted + (isEnd ? -1 : 1))
      if (name === "li" && !isEnd) {
        this.#write("*")
        this.#hasSpace = true
      }
    } else if (name === "td" || name === "th") this.#hasSpace = true
    else if (name === "img" && !isEnd) {
      const [, , double, single] = /\salt\s*=\s*("([^"]*)"|'([^']*)')/i.exec(source) ?? []
      this.text(double ?? single ?? "")
    }
  }

  end(): string {
    const lines = this.#pieces.join("").split("\n")
    return lines.map((line) => line.trimEnd()).join("\n").trim()
  }

  /** Two at most: one empty line parts as well as many. */
  #end(ends: number): void {
    if (this.#pieces.length === 0) return
    const more = Math.min(ends, 2 - this.#ends)
    if (more > 0) this.#pieces.push("\n".repeat(more))
    this.#ends += Math.max(0, more)
  }

  #write(text: string): void {
    if (this.#breaks > 0) this.#end(this.#breaks)
    else if (this.#hasSpace && this.#ends === 0 && this.#pieces.length > 0) this.#pieces.push(" ")
    this.#breaks = 0
    this.#hasSpace = false
    this.#pieces.push(text)
    this.#ends = text.endsWith("\n\n") ? 2 : text.endsWith("\n") ? 1 : 0
  }
}
