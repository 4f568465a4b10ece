/** Bytes in whichever shape a runtime has them. */

/**
 * The bytes of a view or a buffer, of whatever realm; null for all else. The constructor alone would make none of a promise
 * or a stream, and count numbers where a view has bytes.
 */
export const bytesOf = (value: unknown): Uint8Array | null => {
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
  const isBuffer = /^\[object (?:Shared)?ArrayBuffer\]$/.test(Object.prototype.toString.call(value))
  return isBuffer ? new Uint8Array(value as ArrayBuffer) : null // it says so itself
}
