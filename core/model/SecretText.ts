/** Texts that nobody is to guess: how they are made of random bytes, and compared with what somebody shows. */

/** Bytes as text, two lower-case digits each. */
export const hex = (bytes: Uint8Array): string => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")

/** Equal texts, found out in a time that does not depend on where they differ. */
export const isEqual = (shown: string, due: string): boolean => {
  let difference = shown.length ^ due.length
  for (let index = 0; index < due.length; index++) difference |= shown.charCodeAt(index) ^ due.charCodeAt(index)
  return difference === 0
}
