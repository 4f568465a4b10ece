/**
 * Base64 (RFC 4648, section 4) in pieces. Decoding is strict: the standard
 * alphabet, no white space, padding required, unused bits zero, so that one
 * text stands for one sequence of bytes and no other.
 */

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
const wrong = 0x80
const values = new Uint8Array(256).fill(wrong)
for (let value = 0; value < 64; value++) values[alphabet.charCodeAt(value)] = value

const padding = 0x3d

/** Characters from which on a stretch is worth a look of its own. */
const plainMin = 64

export class Base64Decoder {
  /** Values of a group of four that is not complete. */
  readonly #group = new Uint8Array(4)
  #held = 0
  #paddings = 0
  #isFaulty = false

  /**
   * Decodes characters `start` to `end` to the end of `bytes`, which has room
   * for them (`decodedLengthMax`). The new length; -1 if this is not Base64,
   * and from then on.
   */
  write(text: Uint8Array, start: number, end: number, bytes: Uint8Array, lengthBefore: number): number {
    let length = lengthBefore
    let index = start
    while (index < end) {
      if (this.#held === 0 && this.#paddings === 0) {
        // Whole groups; the one with a wrong character or padding is looked at again below.
        for (; index + 4 <= end; index += 4) {
          const a = values[text[index]!]!
          const b = values[text[index + 1]!]!
          const c = values[text[index + 2]!]!
          const d = values[text[index + 3]!]!
          if ((a | b | c | d) & wrong) break
          bytes[length] = (a << 2) | (b >> 4)
          bytes[length + 1] = (b << 4) | (c >> 2)
          bytes[length + 2] = (c << 6) | d
          length += 3
        }
        if (index === end) break
      }
      length = this.#take(text[index]!, bytes, length)
      index += 1
    }
    return this.#isFaulty ? -1 : length
  }

  /**
   * The same, many times faster, for a stretch that holds nothing but the alphabet: as many characters as make whole
   * groups with what is held. How many it took; 0 if the stretch is too short or holds something else, and then nothing
   * has happened. `decodedLength` says how many bytes they make.
   */
  writePlain(text: Uint8Array, start: number, end: number, bytes: Uint8Array, lengthBefore: number): number {
    if (this.#isFaulty || this.#paddings > 0) return 0
    const count = ((this.#held + end - start) & ~3) - this.#held
    if (count < plainMin) return 0
    // The group that was begun goes before the rest.
    const characters = String.fromCharCode(...this.#characters()) + viewOf(text, start, start + count).toString("latin1")
    // Node's decoder skips what is not of the alphabet, and so comes out short; but it takes that of URLs too.
    if (characters.includes("-") || characters.includes("_")) return 0
    const expected = (characters.length >> 2) * 3
    const length = viewOf(bytes, lengthBefore, lengthBefore + expected).write(characters, "base64")
    if (length !== expected) return 0
    this.#held = 0
    return count
  }

  /** Bytes that the next so many characters complete, if they are taken. */
  decodedLength(characters: number): number {
    return ((this.#held + characters) >> 2) * 3
  }

  #characters(): ReadonlyArray<number> {
    return [...this.#group.subarray(0, this.#held)].map((value) => alphabet.charCodeAt(value))
  }

  /** Whether the text may end here. */
  isComplete(): boolean {
    return !this.#isFaulty && this.#held === 0
  }

  /** One character of a group that is split, padded or wrong; the new length of `bytes`. */
  #take(character: number, bytes: Uint8Array, length: number): number {
    const value = values[character]!
    const isPadding = character === padding && this.#held >= 2
    if (!isPadding && (value === wrong || this.#paddings > 0)) {
      this.#isFaulty = true
      return length
    }
    if (isPadding) this.#paddings += 1
    this.#group[this.#held] = value // of padding nothing is used
    this.#held += 1
    if (this.#held < 4) return length
    const [a, b, c, d] = this.#group as unknown as readonly [number, number, number, number] // it has four
    const count = 3 - this.#paddings
    const unused = this.#paddings === 2 ? b & 0x0f : this.#paddings === 1 ? c & 0x03 : 0
    if (unused !== 0) this.#isFaulty = true
    const group = [(a << 2) | (b >> 4), (b << 4) | (c >> 2), (c << 6) | d]
    for (let index = 0; index < count; index++) bytes[length + index] = group[index]!
    this.#held = 0
    return length + count
  }
}

const viewOf = (bytes: Uint8Array, start: number, end: number): Buffer =>
  Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start)

/** Bytes that this many further characters complete, at most. */
export const decodedLengthMax = (characters: number): number => ((characters + 3) >> 2) * 3

/** Characters that this many bytes take. */
export const encodedLength = (sizeBytes: number): number => 4 * Math.ceil(sizeBytes / 3)

/** Encodes in pieces: what does not fill a group of three waits for the next. */
export class Base64Encoder {
  #rest: Uint8Array = new Uint8Array(0)

  write(bytes: Uint8Array): Uint8Array {
    const all = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes])
    const whole = all.length - (all.length % 3)
    this.#rest = Uint8Array.from(all.subarray(whole)) // a copy, which `slice` of a Buffer is not
    return encode(all.subarray(0, whole))
  }

  end(): Uint8Array {
    return encode(this.#rest)
  }
}

const encode = (bytes: Uint8Array): Uint8Array => Buffer.from(viewOf(bytes, 0, bytes.length).toString("base64"), "latin1")
