/** What authors get wrong about intakes: each flaw is put into one that is right, and a law names it. */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
import * as MemoryNotificationIntake from "../adapters/memory/MemoryNotificationIntake.ts"
import type { Notification } from "../core/model/Notification.ts"
import type { NotificationIntake } from "../core/ports/NotificationIntake.ts"
import { address } from "./fixtures.ts"
import { suite } from "./NotificationIntake.ts"
import { conforms, prove } from "./Proof.ts"

const options = { name: "memory", account: "ours", secret: "a secret of the test" }

const complaint: Notification = { provider: "memory", providerMessageId: "m1", recipient: address(), outcome: { _tag: "Complained", at: 1 } }

const suiteOf = (intake: NotificationIntake) =>
  suite({
    intake: Effect.succeed(intake),
    cases: [{ title: "a complaint", kind: "complaint", payload: { notifications: [complaint] }, notifications: [complaint] }],
    authentic: (payload, { account } = { account: "ours" }) =>
      Effect.map(Clock.currentTimeMillis, (sentAt) => {
        const said = JSON.parse(payload) as object // as the cases have it
        const body = JSON.stringify({ id: "one", account, sentAt, kind: "complaint", ...said })
        return MemoryNotificationIntake.signed(options, new TextEncoder().encode(body))
      }),
    forged: [],
    isSigned: true
  })

/** Verifies the signature that there is. */
const trusting = (intake: NotificationIntake): NotificationIntake => ({
  ...intake,
  receive: ({ headers, body }) => intake.receive(Object.keys(headers).length === 0 ? MemoryNotificationIntake.signed(options, body) : { headers, body })
})

const flaws: ReadonlyArray<readonly [flaw: string, law: string, make: (intake: NotificationIntake) => NotificationIntake]> = [
  ["belief in who shows no signature", "believes no request for want of headers", trusting]
]

describe("the suite of NotificationIntake", () => {
  for (const [flaw, law, make] of flaws) {
    it.live(`refuses ${flaw}`, () =>
      Effect.gen(function* () {
        const flawed = suiteOf(make(MemoryNotificationIntake.make(options)))

        const { checks } = yield* prove([conforms("flawed", flawed, Layer.empty)], { filter: [law], timeout: "8 seconds", onResult: () => Effect.void })

        assert.deepStrictEqual(checks.map(({ title, outcome }) => [title, outcome]), [[law, "failed"]])
      }))
  }
})
