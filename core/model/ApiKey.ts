/**
 * API keys: their text, what is stored of them, and whether one is valid now
 * (Spec 5). The text is a prefix that names the environment, a public id that
 * finds the row, a secret of 192 random bits, and a checksum, so that a
 * mistyped key is refused without a query or a hash:
 *
 *     svc_test_ | 11 characters | 33 characters | 6 characters      base62
 */
import { Option, Redacted, Schema } from "effect"
import type { ApiKeyId, ApplicationId, Environment, Millis, TenantId } from "./Ids.ts"
import type { Application, Tenant } from "./Tenant.ts"

export const Scope = Schema.Literals([
  "mailboxes:read",
  "messages:read",
  "messages:write",
  "messages:send",
  "attachments:write",
  "attachments:read",
  "webhooks:read",
  "webhooks:write"
])
export type Scope = typeof Scope.Type
export const scopes: ReadonlyArray<Scope> = Scope.literals

/** What is stored of a key. The secret itself is not. */
export interface ApiKey {
  readonly id: ApiKeyId
  readonly tenantId: TenantId
  readonly applicationId: ApplicationId
  readonly environment: Environment
  readonly version: number
  readonly publicId: string
  /** Argon2id, in PHC string format. */
  readonly secretHash: string
  readonly name: string
  readonly scopes: ReadonlyArray<Scope>
  readonly createdAt: Millis
  readonly expiresAt: Millis | null
  readonly revokedAt: Millis | null
  /** Written behind; may lag by some seconds. */
  readonly lastUsedAt: Millis | null
}

/** A key's text, taken apart. */
export interface Token {
  readonly environment: Environment
  readonly publicId: string
  readonly secret: Redacted.Redacted<string>
}

const prefixes: Readonly<Record<Environment, string>> = { sandbox: "svc_test_", production: "svc_live_" }
const publicIdLength = 11
const secretLength = 33
const checksumLength = 6
const shape = /^svc_(test|live)_[0-9A-Za-z]{50}$/

/** Random bytes that one key is made of. */
export const publicIdBytes = 8
export const secretBytes = 24

/** A key's text, and its parts. */
export interface Minted {
  readonly token: Token
  readonly text: Redacted.Redacted<string>
}

/** Makes a key's text of random bytes: 8 for the public id, 24 for the secret. */
export const format = (environment: Environment, publicBytes: Uint8Array, privateBytes: Uint8Array): Minted =>
  withPublicId(environment, base62(publicBytes, publicIdLength), privateBytes)

/** The text of a key with this public id and a secret of these 24 bytes. */
export const withPublicId = (environment: Environment, publicId: string, privateBytes: Uint8Array): Minted => {
  const secret = base62(privateBytes, secretLength)
  const body = `${prefixes[environment]}${publicId}${secret}`
  return {
    token: { environment, publicId, secret: Redacted.make(secret) },
    text: Redacted.make(`${body}${checksum(body)}`)
  }
}

/** Takes a key's text apart; none if the prefix, the length, the alphabet or the checksum is wrong. */
export const parse = (text: string): Option.Option<Token> => {
  if (!shape.test(text)) return Option.none()
  const body = text.slice(0, -checksumLength)
  if (checksum(body) !== text.slice(-checksumLength)) return Option.none()
  const environment: Environment = text.startsWith(prefixes.sandbox) ? "sandbox" : "production"
  const start = prefixes[environment].length
  return Option.some({
    environment,
    publicId: text.slice(start, start + publicIdLength),
    secret: Redacted.make(text.slice(start + publicIdLength, start + publicIdLength + secretLength))
  })
}

/** Why a key whose secret is right is refused all the same; null if it is not. */
export const refusal = (
  key: ApiKey,
  application: Pick<Application, "environment" | "status">,
  tenant: Pick<Tenant, "status">,
  token: Pick<Token, "environment">,
  now: Millis
): "environment" | "revoked" | "expired" | "application" | "tenant" | null => {
  if (token.environment !== key.environment || application.environment !== key.environment) return "environment"
  if (key.revokedAt !== null) return "revoked"
  if (key.expiresAt !== null && key.expiresAt <= now) return "expired"
  if (application.status !== "active") return "application"
  if (tenant.status !== "active") return "tenant"
  return null
}

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

const base62 = (bytes: Uint8Array, length: number): string => {
  let value = 0n
  for (const byte of bytes) value = (value << 8n) | BigInt(byte)
  let text = ""
  for (let index = 0; index < length; index++) {
    text = alphabet[Number(value % 62n)]! + text
    value /= 62n
  }
  return text
}

const crcTable = Uint32Array.from({ length: 256 }, (_, index) => {
  let crc = index
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1
  return crc
})

/** CRC-32 (ISO 3309) of ASCII text, as six base62 characters. */
const checksum = (text: string): string => {
  let crc = 0xffffffff
  for (let index = 0; index < text.length; index++) crc = crcTable[(crc ^ text.charCodeAt(index)) & 0xff]! ^ (crc >>> 8)
  let value = (crc ^ 0xffffffff) >>> 0
  let result = ""
  for (let index = 0; index < checksumLength; index++) {
    result = alphabet[value % 62]! + result
    value = Math.floor(value / 62)
  }
  return result
}
