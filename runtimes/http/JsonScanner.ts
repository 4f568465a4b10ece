/**
 * Reads a JSON object as it arrives and says at once what is wrong with it.
 * It follows the grammar of RFC 8259 as `JSON.parse` does, and refuses
 * besides: anything but an object, members given twice, nesting and lists
 * beyond any use, NUL, and halves of surrogate pairs. It builds nothing; an
 * `Outermost` is told the members of the outermost object, text in runs.
 *
 * Bytes in, no recursion, no regard for where one chunk ends and the next begins.
 */
import { escapePointer, type Issue } from "./Issues.ts"

export const depthMax = 32
/** Far beyond what any operation takes, and few enough that reporting on each of them stays cheap. */
export const membersMax = 64
export const itemsMax = 1_000
export const nameBytesMax = 1_024

export type Kind = "text" | "number" | "literal" | "object" | "array"

export interface Outermost {
  /** A member of the outermost object, in order of arrival. */
  readonly begin: (name: string, kind: Kind) => void
  /**
   * Asked at a run's beginning: how many of the bytes from `start` on it has taken itself, none of which is a quote, a
   * backslash, a control character or no ASCII. What remains of the run is told by `run`.
   */
  readonly take?: (bytes: Uint8Array, start: number) => number
  /** Bytes `start` to `end` of a text member, escapes resolved. They are valid during the call only. */
  readonly run: (bytes: Uint8Array, start: number, end: number) => void
  /** The end of a text member. */
  readonly end: () => void
}

const states = {
  start: 0,
  nameOrClose: 1,
  name: 2,
  colon: 3,
  value: 4,
  valueOrClose: 5,
  after: 6,
  done: 7,
  text: 8,
  escape: 9,
  unicode: 10,
  number: 11,
  literal: 12
} as const
type State = (typeof states)[keyof typeof states]

/** Where in a number we are. */
const inNumber = {
  minus: 0,
  zero: 1,
  integer: 2,
  point: 3,
  fraction: 4,
  exponent: 5,
  sign: 6,
  power: 7,
  ended: 8,
  wrong: 9
} as const
type InNumber = (typeof inNumber)[keyof typeof inNumber]

interface Frame {
  /** Null in an array. */
  readonly names: Set<string> | null
  /** The member that is being read. */
  name: string
  count: number
}

export class JsonScanner {
  readonly #outermost: Outermost | null
  readonly #frames: Array<Frame> = []
  #state: State = states.start
  #fault: Issue | null = null
  #offset = 0
  /** The outermost value is one. Another is read to its end all the same, for it may be no JSON. */
  #isObject = false
  #isName = false
  readonly #name = Buffer.allocUnsafe(nameBytesMax) // from a pool; of it only what was written is read
  #nameLength = 0
  /** The first half of a surrogate pair, while the second is awaited; else 0. */
  #high = 0
  #unit = 0
  #digits = 0
  readonly #character = new Uint8Array(4)
  #number: InNumber = inNumber.minus
  #literal = ""
  #matched = 0

  constructor(outermost: Outermost | null = null) {
    this.#outermost = outermost
  }

  /** Takes in the next bytes; what is wrong, as soon as it is seen, and from then on. */
  write(bytes: Uint8Array): Issue | null {
    let index = 0
    while (index < bytes.length && this.#fault === null) {
      index = this.#state === states.text ? this.#text(bytes, index) : this.#step(bytes, index)
    }
    this.#offset += bytes.length
    return this.#fault
  }

  /** Nothing more will come. */
  end(): Issue | null {
    if (this.#fault !== null) return this.#fault
    if (this.#state === states.start) return { path: "", code: "empty_body", message: "Expected a JSON object, and the body is empty" }
    const isNumber = this.#state === states.number && this.#frames.length === 0 && numberStep(this.#number, 0x20) === inNumber.ended
    if (this.#state !== states.done && !isNumber) return { path: "", code: "malformed_json", message: "Malformed JSON: the body ends too early" }
    return this.#isObject ? null : { path: "", code: "wrong_type", message: "Expected a JSON object" }
  }

  /** One byte outside a text's plain run; the index to go on at. */
  #step(bytes: Uint8Array, index: number): number {
    const byte = bytes[index]!
    switch (this.#state) {
      case states.escape:
        this.#escape(byte, index)
        return index + 1
      case states.unicode:
        this.#hexDigit(byte, index)
        return index + 1
      case states.literal:
        if (byte !== this.#literal.charCodeAt(this.#matched)) return this.#malformed(byte, index)
        this.#matched += 1
        if (this.#matched === this.#literal.length) this.#endValue()
        return index + 1
      case states.number:
        this.#number = numberStep(this.#number, byte)
        if (this.#number === inNumber.wrong) return this.#malformed(byte, index)
        if (this.#number !== inNumber.ended) return index + 1
        this.#endValue()
        return index // the byte belongs to what comes after the number
      default:
        if (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) return index + 1
        return this.#structure(byte, index)
    }
  }

  #structure(byte: number, index: number): number {
    switch (this.#state) {
      case states.start:
        if (byte === 0x7b) {
          this.#isObject = true
          return this.#open(true, index)
        }
        if (byte === 0xef || byte === 0xfe || byte === 0xff) {
          return this.#refuse("", "malformed_json", "Expected UTF-8 without a byte order mark", index)
        }
        return this.#startValue(byte, index)
      case states.nameOrClose:
        if (byte === 0x7d) return this.#close(index)
        return this.#startName(byte, index)
      case states.name:
        return this.#startName(byte, index)
      case states.colon:
        if (byte !== 0x3a) return this.#malformed(byte, index)
        this.#state = states.value
        return index + 1
      case states.valueOrClose:
        if (byte === 0x5d) return this.#close(index)
        return this.#startValue(byte, index)
      case states.value:
        return this.#startValue(byte, index)
      case states.after: {
        const isObject = this.#frames[this.#frames.length - 1]!.names !== null
        if (byte === 0x2c) {
          this.#state = isObject ? states.name : states.value
          return index + 1
        }
        return byte === (isObject ? 0x7d : 0x5d) ? this.#close(index) : this.#malformed(byte, index)
      }
      default:
        return this.#malformed(byte, index)
    }
  }

  #startName(byte: number, index: number): number {
    if (byte !== 0x22) return this.#malformed(byte, index)
    this.#isName = true
    this.#nameLength = 0
    this.#state = states.text
    return index + 1
  }

  #startValue(byte: number, index: number): number {
    const frame = this.#frames[this.#frames.length - 1]
    if (frame?.names === null) {
      frame.count += 1
      if (frame.count > itemsMax) return this.#tooMany(`${itemsMax} items`, index)
    }
    if (byte === 0x22) {
      this.#begin("text")
      this.#isName = false
      this.#state = states.text
    } else if (byte === 0x7b || byte === 0x5b) {
      this.#begin(byte === 0x7b ? "object" : "array")
      return this.#open(byte === 0x7b, index)
    } else if (byte === 0x2d || (byte >= 0x30 && byte <= 0x39)) {
      this.#begin("number")
      this.#number = byte === 0x2d ? inNumber.minus : byte === 0x30 ? inNumber.zero : inNumber.integer
      this.#state = states.number
    } else if (byte === 0x74 || byte === 0x66 || byte === 0x6e) {
      this.#begin("literal")
      this.#literal = byte === 0x74 ? "true" : byte === 0x66 ? "false" : "null"
      this.#matched = 1
      this.#state = states.literal
    } else return this.#malformed(byte, index)
    return index + 1
  }

  #begin(kind: Kind): void {
    if (this.#isMember) this.#outermost?.begin(this.#frames[0]!.name, kind)
  }

  #open(isObject: boolean, index: number): number {
    if (this.#frames.length === depthMax) {
      return this.#refuse("", "too_deep", `Expected at most ${depthMax} levels of nesting`, index)
    }
    this.#frames.push({ names: isObject ? new Set() : null, name: "", count: 0 })
    this.#state = isObject ? states.nameOrClose : states.valueOrClose
    return index + 1
  }

  #close(index: number): number {
    this.#frames.pop()
    this.#endValue()
    return index + 1
  }

  #endValue(): void {
    this.#state = this.#frames.length === 0 ? states.done : states.after
  }

  /** Whether the value that is being read is a member of the outermost object. */
  get #isMember(): boolean {
    return this.#frames.length === 1 && this.#isObject
  }

  /** A text up to its end, the next escape, or the end of the chunk. */
  #text(bytes: Uint8Array, begin: number): number {
    const isOutermost = !this.#isName && this.#isMember && this.#high === 0
    const start = isOutermost && this.#outermost?.take !== undefined ? begin + this.#outermost.take(bytes, begin) : begin
    let end = start
    while (end < bytes.length) {
      const byte = bytes[end]!
      if (byte === 0x22 || byte === 0x5c || byte < 0x20) break
      end += 1
    }
    if (end > start) {
      if (this.#high !== 0) return this.#loneSurrogate(start)
      this.#run(bytes, start, end)
    }
    if (end === bytes.length) return end
    if (bytes[end] === 0x5c) {
      this.#state = states.escape
      return end + 1
    }
    if (bytes[end] !== 0x22) return this.#malformed(bytes[end]!, end)
    if (this.#high !== 0) return this.#loneSurrogate(end)
    return this.#endText(end)
  }

  #endText(index: number): number {
    if (!this.#isName) {
      if (this.#isMember) this.#outermost?.end()
      this.#endValue()
      return index + 1
    }
    const frame = this.#frames[this.#frames.length - 1]!
    frame.name = this.#name.toString("utf8", 0, this.#nameLength)
    frame.count += 1
    if (frame.names!.has(frame.name)) {
      return this.#refuse(this.#path(), "duplicate_member", "Expected this member once", index)
    }
    if (frame.count > membersMax) return this.#tooMany(`${membersMax} members`, index)
    frame.names!.add(frame.name)
    this.#state = states.colon
    return index + 1
  }

  #run(bytes: Uint8Array, start: number, end: number): void {
    if (!this.#isName) {
      if (this.#isMember) this.#outermost?.run(bytes, start, end)
    } else if (this.#nameLength + end - start > nameBytesMax) {
      this.#refuse(this.#path(1), "unknown_member", `Expected member names of at most ${nameBytesMax} bytes`, start)
    } else {
      // One by one: a name is short.
      for (let index = start; index < end; index++) this.#name[this.#nameLength++] = bytes[index]!
    }
  }

  #escape(byte: number, index: number): void {
    if (byte === 0x75) {
      this.#unit = 0
      this.#digits = 0
      this.#state = states.unicode
    } else if (this.#high !== 0) {
      this.#loneSurrogate(index)
    } else {
      const resolved = escapes[byte]
      if (resolved === undefined) this.#malformed(byte, index)
      else this.#emit(resolved)
    }
  }

  #hexDigit(byte: number, index: number): void {
    const digit = hexDigit(byte)
    if (digit < 0) {
      this.#malformed(byte, index)
      return
    }
    this.#unit = this.#unit * 16 + digit
    this.#digits += 1
    if (this.#digits < 4) return
    const [unit, high] = [this.#unit, this.#high]
    const isLow = unit >= 0xdc00 && unit <= 0xdfff
    if (unit === 0) this.#refuse(this.#textPath(), "invalid_text", "Expected text without NUL", index)
    else if (isLow !== (high !== 0)) this.#loneSurrogate(index)
    else if (unit >= 0xd800 && unit <= 0xdbff) {
      this.#high = unit
      this.#state = states.text
    } else {
      this.#high = 0
      this.#emit(isLow ? 0x10000 + ((high - 0xd800) << 10) + (unit - 0xdc00) : unit)
    }
  }

  /** One character in UTF-8. */
  #emit(point: number): void {
    this.#state = states.text
    const to = this.#character
    if (point < 0x80) {
      to[0] = point
      return this.#run(to, 0, 1)
    }
    const length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4
    for (let index = length - 1, rest = point; index >= 0; index--, rest >>= 6) {
      to[index] = index > 0 ? 0x80 | (rest & 0x3f) : [0, 0, 0xc0, 0xe0, 0xf0][length]! | rest
    }
    this.#run(to, 0, length)
  }

  #loneSurrogate(index: number): number {
    return this.#refuse(this.#textPath(), "invalid_text", "Expected text without halves of surrogate pairs", index)
  }

  #tooMany(what: string, index: number): number {
    return this.#refuse(this.#path(1), "too_many", `Expected at most ${what}`, index)
  }

  #malformed(byte: number, index: number): number {
    const isShown = byte > 0x20 && byte < 0x7f
    const what = isShown ? `"${String.fromCharCode(byte)}"` : `byte 0x${byte.toString(16).padStart(2, "0")}`
    return this.#refuse("", "malformed_json", `Malformed JSON: unexpected ${what} at byte ${this.#offset + index}`, index)
  }

  #refuse(path: string, code: Issue["code"], message: string, index: number): number {
    this.#fault ??= { path, code, message }
    return index
  }

  /** Where the text is that is being read; a name is in its object. */
  #textPath(): string {
    return this.#path(this.#isName ? 1 : 0)
  }

  /** The JSON Pointer of the value that is being read, or of what is that many levels above. */
  #path(above = 0): string {
    return this.#frames
      .slice(0, this.#frames.length - above)
      .map(({ names, name, count }) => `/${names === null ? count - 1 : escapePointer(name)}`)
      .join("")
  }
}

/** What the character behind a backslash stands for. */
const escapes: Readonly<Record<number, number>> = {
  0x22: 0x22,
  0x5c: 0x5c,
  0x2f: 0x2f,
  0x62: 0x08,
  0x66: 0x0c,
  0x6e: 0x0a,
  0x72: 0x0d,
  0x74: 0x09
}

/** The value of a hexadecimal digit; -1 of any other character. */
const hexDigit = (byte: number): number => {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = byte | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1
}

const numberStep = (at: InNumber, byte: number): InNumber => {
  const isDigit = byte >= 0x30 && byte <= 0x39
  switch (at) {
    case inNumber.minus:
      return byte === 0x30 ? inNumber.zero : isDigit ? inNumber.integer : inNumber.wrong
    case inNumber.point:
      return isDigit ? inNumber.fraction : inNumber.wrong
    case inNumber.exponent:
      return byte === 0x2b || byte === 0x2d ? inNumber.sign : isDigit ? inNumber.power : inNumber.wrong
    case inNumber.sign:
      return isDigit ? inNumber.power : inNumber.wrong
    default:
      if (isDigit) return at === inNumber.zero ? inNumber.wrong : at
      if (byte === 0x2e && (at === inNumber.zero || at === inNumber.integer)) return inNumber.point
      if ((byte === 0x65 || byte === 0x45) && at !== inNumber.power) return inNumber.exponent
      return inNumber.ended // behind a digit
  }
}
