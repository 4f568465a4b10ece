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
    while (index < end && !this.#isFaulty) {
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

  /** Whether the text may end here. */
  isComplete(): boolean {
    return !this.#isFaulty && this.#held === 0
  }

  /** One character of a group that is split, padded or wrong; the new length of `bytes`. */
  #take(character: number, bytes: Uint8Array, length: number): number {
    const value = values[character]!
    const isPadding = character === padding && this.#held >= 2
    if (this.#isEnded || (isPadding ? false : value === wrong || this.#paddings > 0)) {
      this.#isFaulty = true
      return length
    }
    if (isPadding) this.#paddings += 1
    this.#group[this.#held] = isPadding ? 0 : value
    this.#held += 1
    if (this.#held < 4) return length
    const [a, b, c, d] = this.#group as unknown as readonly [number, number, number, number] // it has four
    const count = 3 - this.#paddings
    const unused = this.#paddings === 2 ? b & 0x0f : this.#paddings === 1 ? c & 0x03 : 0
    if (unused !== 0) this.#isFaulty = true
    const group = [(a << 2) | (b >> 4), ((b << 4) | (c >> 2)) & 0xff, ((c << 6) | d) & 0xff]
    for (let index = 0; index < count; index++) bytes[length + index] = group[index]!
    this.#held = 0
    return length + count
  }

  /** A padded group was the last. */
  get #isEnded(): boolean {
    return this.#held === 0 && this.#paddings > 0
  }
}

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
    this.#rest = all.slice(whole)
    return encode(all.subarray(0, whole))
  }

  end(): Uint8Array {
    return encode(this.#rest)
  }
}

const encode = (bytes: Uint8Array): Uint8Array =>
  Buffer.from(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64"), "latin1")
