/** RSA keys that follow from what is drawn, for simulations that replay: OpenSSL takes no randomness from us. Made in place. */
import { Redacted } from "effect"
import { checkPrimeSync, createPrivateKey, createPublicKey } from "node:crypto"
import type { GeneratedKey } from "../../core/ports/Crypto.ts"

const exponent = 65_537n

export const seededRsa = (draw: (count: number) => Buffer, bits: number): GeneratedKey => {
  const p = prime(draw, bits / 2)
  const q = prime(draw, bits / 2)
  const d = inverse(exponent, (p - 1n) * (q - 1n))
  const privateKey = createPrivateKey({
    format: "jwk",
    key: {
      kty: "RSA",
      n: encoded(p * q),
      e: encoded(exponent),
      d: encoded(d),
      p: encoded(p),
      q: encoded(q),
      dp: encoded(d % (p - 1n)),
      dq: encoded(d % (q - 1n)),
      qi: encoded(inverse(q, p))
    }
  })
  return {
    publicKey: createPublicKey(privateKey).export({ type: "spki", format: "der" }).toString("base64"),
    privateKey: Redacted.make(privateKey.export({ type: "pkcs8", format: "pem" }).toString())
  }
}

/** The first prime from a drawn number on, large enough for a product of two to have all its bits. */
const prime = (draw: (count: number) => Buffer, bits: number): bigint => {
  let candidate = BigInt(`0x${draw(bits / 8).toString("hex")}`) | (3n << BigInt(bits - 2)) | 1n
  while (candidate % exponent === 1n || !checkPrimeSync(candidate)) candidate += 2n
  return candidate
}

const inverse = (value: bigint, modulus: bigint): bigint => {
  let [before, after] = [modulus, value % modulus]
  let [last, current] = [0n, 1n]
  while (after > 0n) {
    const quotient = before / after
    ;[before, after] = [after, before % after]
    ;[last, current] = [current, last - quotient * current]
  }
  return ((last % modulus) + modulus) % modulus
}

const encoded = (value: bigint): string => {
  const hex = value.toString(16)
  return Buffer.from(hex.padStart(hex.length + (hex.length % 2), "0"), "hex").toString("base64url")
}
