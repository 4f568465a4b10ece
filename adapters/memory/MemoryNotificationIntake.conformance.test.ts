import { Clock, Effect, Layer } from "effect"
import { suite, type Case } from "../../conformance/NotificationIntake.ts"
import { conforms } from "../../conformance/vitest.ts"
import type { Address } from "../../core/model/Address.ts"
import type { Notification } from "../../core/model/Notification.ts"
import * as MemoryNotificationIntake from "./MemoryNotificationIntake.ts"

const options = { name: "memory", account: "ours", secret: "a secret of the test" }

const told = (outcome: Notification["outcome"], recipient: Notification["recipient"] = null): Notification => ({
  provider: "memory",
  providerMessageId: "m1",
  recipient,
  outcome
})
const ada = "ada@example.com" as Address // it is one
const saying = (title: string, ...notifications: ReadonlyArray<Notification>): Case => ({
  title,
  kind: title,
  payload: { kind: title, notifications },
  notifications
})

const conformance = suite({
  intake: Effect.succeed(MemoryNotificationIntake.make(options)),
  cases: [
    saying("a delivery", told({ _tag: "Delivered", at: 1, smtpResponse: "250 Ok" }, ada)),
    saying("a delivery and a complaint", told({ _tag: "Delivered", at: 1, smtpResponse: null }), told({ _tag: "Complained", at: 2 }, ada)),
    saying("nothing")
  ],
  authentic: (payload, { account } = { account: "ours" }) =>
    Effect.map(Clock.currentTimeMillis, (sentAt) => {
      const said = parsed(payload)
      const body = JSON.stringify({ id: payload.slice(0, 100), account, sentAt, kind: "?", notifications: [], ...said })
      return MemoryNotificationIntake.signed(options, new TextEncoder().encode(body))
    }),
  forged: [
    {
      title: "a signature under another secret",
      forge: ({ body }) => Effect.succeed(MemoryNotificationIntake.signed({ secret: "another" }, body))
    },
    { title: "a signature that is none", forge: ({ body }) => Effect.succeed({ headers: { "x-memory-signature": "ü".repeat(64) }, body }) }
  ],
  isSigned: true
})

/** An object, or nothing. */
const parsed = (payload: string): object => {
  try {
    const value: unknown = JSON.parse(payload)
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : {}
  } catch {
    return {}
  }
}

conforms("MemoryNotificationIntake", conformance, Layer.empty)
