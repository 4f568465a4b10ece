/**
 * Base64 (RFC 4648, section 4) of bytes, fast enough for files: what runtimes
 * share (`btoa`) takes text, and ten times as long.
 */

const digits = new TextEncoder().encode("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
const padding = 0x3d

/** Three bytes are four digits; what is missing to three is padded. */
export const encode = (bytes: Uint8Array): string => {
  const text = new Uint8Array(Math.ceil(bytes.length / 3) * 4).fill(padding)
  for (let from = 0, to = 0; from < bytes.length; from += 3, to += 4) {
    const bits = (bytes[from]! << 16) | ((bytes[from + 1] ?? 0) << 8) | (bytes[from + 2] ?? 0)
    text[to] = digits[bits >> 18]!
    text[to + 1] = digits[(bits >> 12) & 63]!
    if (from + 1 < bytes.length) text[to + 2] = digits[(bits >> 6) & 63]!
    if (from + 2 < bytes.length) text[to + 3] = digits[bits & 63]!
  }
  return new TextDecoder().decode(text)
}

export const decode = (text: string): Uint8Array<ArrayBuffer> => {
  const characters = atob(text)
  const bytes = new Uint8Array(characters.length)
  for (let index = 0; index < characters.length; index++) bytes[index] = characters.charCodeAt(index)
  return bytes
}
