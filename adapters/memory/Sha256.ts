/**
 * SHA-256 (FIPS 180-4) in plain language, step by step: on every platform, and
 * within one turn of the event loop, so that a seeded simulation stays in step.
 */
export class Sha256 {
  readonly #state = Int32Array.from(initial)
  readonly #block = new Uint8Array(64)
  readonly #words = new Int32Array(64)
  #length = 0

  update(bytes: Uint8Array): this {
    let offset = 0
    while (offset < bytes.length) {
      const filled = this.#length % 64
      const part = bytes.subarray(offset, offset + 64 - filled)
      this.#block.set(part, filled)
      this.#length += part.length
      offset += part.length
      if (this.#length % 64 === 0) this.#compress()
    }
    return this
  }

  /** 64 lower-case hex digits. Ends the calculation. */
  digest(): string {
    const bits = BigInt(this.#length) * 8n
    const padding = new Uint8Array(((119 - (this.#length % 64)) % 64) + 9)
    padding[0] = 0x80
    new DataView(padding.buffer).setBigUint64(padding.length - 8, bits)
    this.update(padding)
    return Array.from(this.#state, (word) => (word >>> 0).toString(16).padStart(8, "0")).join("")
  }

  #compress(): void {
    const words = this.#words
    const view = new DataView(this.#block.buffer)
    for (let index = 0; index < 16; index++) words[index] = view.getInt32(4 * index)
    for (let index = 16; index < 64; index++) {
      const low = words[index - 15]!
      const high = words[index - 2]!
      const sigma0 = rotate(low, 7) ^ rotate(low, 18) ^ (low >>> 3)
      const sigma1 = rotate(high, 17) ^ rotate(high, 19) ^ (high >>> 10)
      words[index] = (words[index - 16]! + sigma0 + words[index - 7]! + sigma1) | 0
    }
    let [a, b, c, d, e, f, g, h] = this.#state as unknown as Eight // it has eight words
    for (let index = 0; index < 64; index++) {
      const sum1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)
      const first = (h + sum1 + ((e & f) ^ (~e & g)) + constants[index]! + words[index]!) | 0
      const sum0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)
      const second = (sum0 + ((a & b) ^ (a & c) ^ (b & c))) | 0
      h = g
      g = f
      f = e
      e = (d + first) | 0
      d = c
      c = b
      b = a
      a = (first + second) | 0
    }
    const next = [a, b, c, d, e, f, g, h]
    for (let index = 0; index < 8; index++) this.#state[index]! += next[index]!
  }
}

type Eight = [number, number, number, number, number, number, number, number]

const rotate = (word: number, by: number): number => (word >>> by) | (word << (32 - by))

const primes: ReadonlyArray<number> = (() => {
  const found: Array<number> = []
  for (let candidate = 2; found.length < 64; candidate++) if (found.every((prime) => candidate % prime !== 0)) found.push(candidate)
  return found
})()

/** The first 32 bits behind the point. */
const fraction = (value: number): number => Math.floor((value % 1) * 2 ** 32)

const initial = primes.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)))
const constants = Int32Array.from(primes, (prime) => fraction(Math.cbrt(prime)))
