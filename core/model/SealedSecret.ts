/** A secret at rest (Spec 6), by AES-256-GCM under the key of this version. All fields but the version are base64. */
export interface SealedSecret {
  readonly version: number
  readonly iv: string
  readonly ciphertext: string
  readonly tag: string
}

/** Above the version of every key. */
export const sealVersionLimit = 2 ** 31 - 1
