/** A stored object: its bytes are named by their digest, and owned by a tenant. */
export interface BlobRef {
  /** SHA-256 of the bytes, 64 lower-case hex digits. */
  readonly sha256: string
  readonly sizeBytes: number
}
