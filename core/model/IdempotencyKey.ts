/**
 * Idempotent sending (Spec 4, Idempotency on send). A key belongs to one
 * application for 24 hours. Equality of requests is of the decoded input:
 * member order, white space and explicit defaults do not matter.
 */
import { Schema } from "effect"
import type { ApplicationId, MessageId, Millis } from "./Ids.ts"
import * as Limits from "./Limits.ts"

export const IdempotencyKey = Schema.String.check(
  Schema.isBetweenCodePoints(Limits.idempotencyKeyLengthMin, Limits.idempotencyKeyLengthMax, {
    expected: `${Limits.idempotencyKeyLengthMin} to ${Limits.idempotencyKeyLengthMax} characters`
  }),
  Limits.isStorable // no header has them, but where the core is embedded a key is any text
).pipe(Schema.brand("IdempotencyKey"))
export type IdempotencyKey = typeof IdempotencyKey.Type

/** What a reserved key remembers: which input it stood for, and the message that came of it. */
export interface Reservation {
  readonly applicationId: ApplicationId
  readonly idempotencyKey: IdempotencyKey
  /** SHA-256 of the canonical input, in hex. */
  readonly fingerprint: string
  readonly messageId: MessageId
  readonly reservedAt: Millis
  readonly expiresAt: Millis
}

/** One text for all inputs that are equal: members sorted, undefined left out. It is written as it goes, for a sorted copy takes longer. */
export const canonical = (input: unknown): string => {
  if (typeof input !== "object" || input === null) return JSON.stringify(input) ?? "null"
  if (Array.isArray(input)) return `[${input.map(canonical).join(",")}]`
  let members = ""
  for (const name of Object.keys(input).sort()) {
    const member = (input as Readonly<Record<string, unknown>>)[name] // one of its own
    if (member !== undefined) members += `${members === "" ? "" : ","}${JSON.stringify(name)}:${canonical(member)}`
  }
  return `{${members}}`
}
