/**
 * An intake for the memory provider: notifications as JSON, signed with
 * HMAC-SHA256 under a shared secret. For tests and simulations, and to hold the
 * suite to something simple.
 */
import { Clock, Effect, Result, Schema } from "effect"
import { createHmac, timingSafeEqual } from "node:crypto"
import { notificationRetention } from "../../core/model/Limits.ts"
import { Notification } from "../../core/model/Notification.ts"
import { intakeKindLengthMax, IntakeRefused, type IntakeRequest, type NotificationIntake } from "../../core/ports/NotificationIntake.ts"

export interface Options {
  /** As the provider's. */
  readonly name: string
  readonly account: string
  readonly secret: string
}

/** What a body says. Notifications of another shape are none. */
const Posted = Schema.fromJsonString(
  Schema.Struct({
    id: Schema.String,
    account: Schema.String,
    sentAt: Schema.Int,
    kind: Schema.String,
    notifications: Schema.Array(Schema.Unknown)
  })
)

const header = "x-memory-signature"

const signatureOf = (secret: string, body: Uint8Array): string => createHmac("sha256", secret).update(body).digest("hex")

/** A request as this provider sends it. */
export const signed = ({ secret }: Pick<Options, "secret">, body: Uint8Array): IntakeRequest => ({
  headers: { [header]: signatureOf(secret, body) },
  body
})

export const make = ({ name, account, secret }: Options): NotificationIntake => ({
  name,
  receive: Effect.fnUntraced(function* ({ headers, body }) {
    const [given, due] = [headers[header] ?? "", signatureOf(secret, body)].map((text) => new TextEncoder().encode(text))
    if (given!.length !== due!.length || !timingSafeEqual(given!, due!)) {
      return yield* new IntakeRefused({ reason: "bad_signature" })
    }
    const posted = Schema.decodeUnknownResult(Posted)(new TextDecoder().decode(body))
    if (Result.isFailure(posted)) return yield* new IntakeRefused({ reason: "malformed" })
    if (posted.success.account !== account) return yield* new IntakeRefused({ reason: "wrong_account" })
    if (posted.success.sentAt < (yield* Clock.currentTimeMillis) - notificationRetention) {
      return yield* new IntakeRefused({ reason: "stale" })
    }
    const { id, kind, notifications } = posted.success
    return { id, kind: kind.slice(0, intakeKindLengthMax), notifications: notifications.filter(Schema.is(Notification)) }
  })
})
