/**
 * What a person reads in HTML, as plain text: paragraphs and lists keep their
 * lines, whatever is no text goes. It looks at each character a bounded number
 * of times and keeps no tree, for HTML may be long, malformed and malicious.
 */

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

// Entities: those of HTML 4, and a few more.

const latin1 =
  "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest " +
  "Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN szlig " +
  "agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute thorn yuml"
const greek =
  "Alpha Beta Gamma Delta Epsilon Zeta Eta Theta Iota Kappa Lambda Mu Nu Xi Omicron Pi Rho - Sigma Tau Upsilon Phi Chi Psi Omega"
const others =
  "quot 34 amp 38 apos 39 lt 60 gt 62 OElig 338 oelig 339 Scaron 352 scaron 353 Yuml 376 fnof 402 circ 710 tilde 732 ensp 8194 emsp 8195 thinsp 8201 " +
  "zwnj 8204 zwj 8205 lrm 8206 rlm 8207 ndash 8211 mdash 8212 lsquo 8216 rsquo 8217 sbquo 8218 ldquo 8220 rdquo 8221 bdquo 8222 dagger 8224 Dagger 8225 " +
  "bull 8226 hellip 8230 permil 8240 prime 8242 Prime 8243 lsaquo 8249 rsaquo 8250 oline 8254 frasl 8260 euro 8364 image 8465 weierp 8472 real 8476 " +
  "trade 8482 alefsym 8501 larr 8592 uarr 8593 rarr 8594 darr 8595 harr 8596 crarr 8629 lArr 8656 uArr 8657 rArr 8658 dArr 8659 hArr 8660 forall 8704 " +
  "part 8706 exist 8707 empty 8709 nabla 8711 isin 8712 notin 8713 ni 8715 prod 8719 sum 8721 minus 8722 lowast 8727 radic 8730 prop 8733 infin 8734 " +
  "ang 8736 and 8743 or 8744 cap 8745 cup 8746 int 8747 there4 8756 sim 8764 cong 8773 asymp 8776 ne 8800 equiv 8801 le 8804 ge 8805 sub 8834 sup 8835 " +
  "nsub 8836 sube 8838 supe 8839 oplus 8853 otimes 8855 perp 8869 sdot 8901 loz 9674 spades 9824 clubs 9827 hearts 9829 diams 9830 check 10003 " +
  "sigmaf 962 thetasym 977 upsih 978 piv 982 num 35 lpar 40 rpar 41 comma 44 period 46 colon 58 commat 64 lbrack 91 rbrack 93 lowbar 95 NewLine 10 Tab 9"

const entities = new Map<string, string>([
  ...latin1.split(" ").map((name, index) => [name, String.fromCharCode(160 + index)] as const),
  ...greek.split(" ").flatMap((name, index) => [
    [name, String.fromCharCode(913 + index)] as const,
    [name.toLowerCase(), String.fromCharCode(945 + index)] as const
  ]),
  ...Array.from(others.matchAll(/(\w+) (\d+)/g), ([, name, code]) => [name!, String.fromCharCode(Number(code))] as const)
])

const decodeEntities = (text: string): string =>
  text.includes("&")
    ? text.replace(/&(?:#(\d{1,8})|#x([0-9a-f]{1,7})|([a-z][a-z0-9]{1,9}));?/gi, (whole, decimal?: string, hex?: string, name?: string) =>
        name === undefined ? character(decimal === undefined ? Number.parseInt(hex!, 16) : Number(decimal)) : (named(name, whole) ?? whole)
      ).replaceAll("\u00a0", " ")
    : text.replaceAll("\u00a0", " ")

/** Without its semicolon only where HTML 4 allowed that, and most senders mean it. */
const named = (name: string, whole: string): string | undefined =>
  whole.endsWith(";") || /^(?:amp|lt|gt|quot|nbsp|copy|reg)$/.test(name) ? entities.get(name) : undefined

/** Code points 128 to 159 mean those of Windows-1252. */
const character = (code: number): string => {
  if (code >= 128 && code < 160) return new TextDecoder("windows-1252").decode(Uint8Array.of(code))
  return code === 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? "\ufffd" : String.fromCodePoint(code)
}
