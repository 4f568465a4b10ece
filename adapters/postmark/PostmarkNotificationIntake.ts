/**
 * NotificationIntake for Postmark. Postmark signs nothing: its webhook is set
 * up with a secret of the operator's, as the password of basic authentication
 * (any user name) or as a bearer token, and who shows it is believed. It is
 * looked at before anything else of the request.
 */
import { Effect, Redacted } from "effect"
import { createHash, timingSafeEqual } from "node:crypto"
import { intakeKindLengthMax, IntakeRefused, type NotificationIntake } from "../../core/ports/NotificationIntake.ts"
import * as PostmarkNotifications from "./PostmarkNotifications.ts"
import type { Told } from "./PostmarkNotifications.ts"

/** Of the provider, its submissions and its notifications. */
export const name = "postmark"

export interface Options {
  readonly secret: Redacted.Redacted<string>
  /** The server's id, which each notification names; null: any. */
  readonly serverId?: number | null
}

export const make = ({ secret, serverId = null }: Options): NotificationIntake => {
  const due = digest(Redacted.value(secret))
  return {
    name,
    receive: Effect.fnUntraced(function* ({ headers, body }) {
      const shown = secretIn(headers["authorization"] ?? "")
      // Digests are of one length, and say nothing of what they are of.
      if (shown === null || !timingSafeEqual(digest(shown), due)) return yield* new IntakeRefused({ reason: "bad_signature" })
      const told = PostmarkNotifications.parse(new TextDecoder().decode(body))
      if (told === null) return yield* new IntakeRefused({ reason: "malformed" })
      if (serverId !== null && told.ServerID !== serverId) return yield* new IntakeRefused({ reason: "wrong_account" })
      return { id: idOf(told), kind: told.RecordType.slice(0, intakeKindLengthMax), notifications: PostmarkNotifications.read(name, told) }
    })
  }
}

const digest = (text: string): Buffer => createHash("sha256").update(text).digest()

/** What an Authorization header shows; null if it shows nothing. */
const secretIn = (authorization: string): string | null => {
  const [, scheme = "", credentials = ""] = /^(basic|bearer) +([^\s]+)$/i.exec(authorization) ?? []
  if (scheme.toLowerCase() === "bearer") return credentials
  const pair = Buffer.from(credentials, "base64").toString()
  return pair.includes(":") ? pair.slice(pair.indexOf(":") + 1) : null
}

/** Bounces and complaints have an id, whose last digits are lost; what each is about says which it is. */
const idOf = ({ RecordType, ID, MessageID, Email, Recipient, BouncedAt, DeliveredAt, ChangedAt, Metadata }: Told): string => {
  const about = JSON.stringify([ID ?? null, MessageID, Email ?? Recipient, BouncedAt ?? DeliveredAt ?? ChangedAt, Metadata])
  return `${RecordType.slice(0, intakeKindLengthMax)} ${digest(about).toString("hex")}`
}
