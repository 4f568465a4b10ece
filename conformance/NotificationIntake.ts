/**
 * What every NotificationIntake does with what is posted to it, by whomever. A
 * case is a file beside the adapter: what the provider says, and what it means.
 */
import assert from "node:assert/strict"
import { Clock, Effect, Result } from "effect"
import { TestClock } from "effect/testing"
import { notificationRetention } from "../core/model/Limits.ts"
import type { Notification } from "../core/model/Notification.ts"
import {
  intakeBytesMax,
  intakeIdLengthMax,
  intakeKindLengthMax,
  type Intake,
  type IntakeRequest,
  type NotificationIntake
} from "../core/ports/NotificationIntake.ts"
import type { Check, Suite } from "./Suite.ts"

/** One thing that a provider says, and what it means. */
export interface Case {
  readonly title: string
  readonly payload: unknown
  readonly kind: string
  readonly notifications: ReadonlyArray<Notification>
}

export interface Options<R> {
  readonly intake: Effect.Effect<NotificationIntake, never, R>
  readonly cases: ReadonlyArray<Case>
  /** A request as the provider sends it now, of this payload (any text), from this account. */
  readonly authentic: (payload: string, of?: { readonly account: "ours" | "another" }) => Effect.Effect<IntakeRequest, never, R>
  /** The same request from somebody who does not have the provider's key, or secret. */
  readonly forged: ReadonlyArray<{
    readonly title: string
    readonly forge: (request: IntakeRequest) => Effect.Effect<IntakeRequest, never, R>
  }>
  /** Whether the signature is over what is said, and says when; where it is not, whoever knows the secret is believed. */
  readonly isSigned: boolean
}

const textOf = ({ payload }: Case): string => JSON.stringify(payload)

/** Every so many-th byte of a body is changed; enough to meet each member. */
const stride = 7

export const suite = <R>({ intake, cases, authentic, forged, isSigned }: Options<R>): Suite<R> => {
  const receive = (request: IntakeRequest) => Effect.flatMap(intake, (one) => one.receive(request))
  const [first] = cases.filter(({ notifications }) => notifications.length > 0)
  assert.ok(first !== undefined, "there is a case that says something")

  const assertRefused = Effect.fnUntraced(function* (request: IntakeRequest, ...reasons: ReadonlyArray<string>) {
    const ending = yield* Effect.result(receive(request))
    assert.ok(Result.isFailure(ending), "it is refused")
    const { failure } = ending
    assert.ok(failure._tag === "IntakeRefused" && reasons.includes(failure.reason), "reason" in failure ? failure.reason : failure._tag)
  })

  /** Whichever byte of the first case's body is changed, it is refused, or means what was signed. */
  const assertVouchedFor = Effect.fnUntraced(function* (request: IntakeRequest) {
    for (let index = 0; index < request.body.length; index += stride) {
      const body = request.body.with(index, request.body[index]! ^ 1)
      const ending = yield* Effect.result(receive({ ...request, body }))

      if (Result.isSuccess(ending)) assert.deepEqual(ending.success.notifications, first.notifications, `byte ${index}`)
      else assert.equal(ending.failure._tag, "IntakeRefused", `byte ${index}`)
    }
  })

  const meaning: ReadonlyArray<Check<R>> = cases.map((one) => ({
    title: `reads ${one.title}`,
    check: Effect.gen(function* () {
      const { id, kind, notifications } = yield* receive(yield* authentic(textOf(one)))

      assert.deepEqual({ kind, notifications }, { kind: one.kind, notifications: one.notifications })
      assert.ok(id.length > 0 && id.length <= intakeIdLengthMax)
      assert.ok(kind.length <= intakeKindLengthMax)
      const { name } = yield* intake
      for (const { provider } of notifications) assert.equal(provider, name)
    })
  }))

  const doubting: ReadonlyArray<Check<R>> = [
    {
      title: "has the name of its provider",
      check: Effect.gen(function* () {
        const [one, another] = [yield* intake, yield* intake]

        assert.match(one.name, /^[a-z][a-z0-9-]{0,31}$/)
        assert.equal(another.name, one.name)
      })
    },
    ...forged.map(
      ({ title, forge }): Check<R> => ({
        title: `refuses ${title}`,
        check: Effect.gen(function* () {
          yield* assertRefused(yield* forge(yield* authentic(textOf(first))), "bad_signature", "malformed")
        })
      })
    ),
    {
      title: "believes no request for want of headers",
      check: Effect.gen(function* () {
        const request = { ...(yield* authentic(textOf(first))), headers: {} }
        // A signature may stand in the body, and then it is over what is said.
        yield* isSigned ? assertVouchedFor(request) : assertRefused(request, "bad_signature")
      })
    },
    {
      title: "refuses what is of another account",
      check: Effect.gen(function* () {
        yield* assertRefused(yield* authentic(textOf(first), { account: "another" }), "wrong_account")
      })
    },
    {
      title: "refuses what is no notification at all, whoever sends it",
      check: Effect.gen(function* () {
        const { headers } = yield* authentic(textOf(first))
        for (const text of ["", " ", "null", "[]", "{", "\"text\"", "{\"Type\":1}", "\u0000", "[".repeat(100_000), "{\"a\":".repeat(40_000)]) {
          yield* assertRefused({ headers, body: new TextEncoder().encode(text) }, "bad_signature", "malformed", "wrong_account")
        }
        yield* assertRefused({ headers, body: Uint8Array.from({ length: 1_000 }, (_, index) => index % 256) }, "bad_signature", "malformed")
      })
    },
    {
      title: "takes what it does not understand for one that says nothing",
      check: Effect.gen(function* () {
        for (const payload of ["{}", "[]", "null", "text", "{\"eventType\":\"Telegram\",\"RecordType\":\"Telegram\"}", "{\"mail\":{}}"]) {
          const ending = yield* Effect.result(Effect.flatMap(authentic(payload), receive))

          if (Result.isSuccess(ending)) assert.deepEqual(ending.success.notifications, [], payload)
          // Where the payload is the whole body, it may be nothing that the provider sends.
          else assert.ok(!isSigned && ending.failure._tag === "IntakeRefused" && ["malformed", "wrong_account"].includes(ending.failure.reason), payload)
        }
      })
    },
    {
      title: "keeps within bounds what is called by a name without end",
      check: Effect.gen(function* () {
        const endless = "n".repeat(1_000)
        const named = { ...(first.payload as object), kind: endless, eventType: endless, notificationType: endless, RecordType: endless } // as below

        const { id, kind } = yield* receive(yield* authentic(JSON.stringify(named)))

        assert.ok(kind.length > 0 && kind.length <= intakeKindLengthMax)
        assert.ok(id.length > 0 && id.length <= intakeIdLengthMax)
      })
    },
    {
      title: "reads the largest body that it may be given",
      check: Effect.gen(function* () {
        const fill = (length: number) => JSON.stringify({ ...(first.payload as object), note: "n".repeat(length) }) // a case's is an object
        const { body } = yield* authentic(fill(0))
        const request = yield* authentic(fill(intakeBytesMax - body.length))

        assert.equal(request.body.length, intakeBytesMax)
        assert.deepEqual((yield* receive(request)).notifications, first.notifications)
      })
    },
    {
      title: "knows again what is sent again, and tells apart what is not, at any time and in any order",
      check: Effect.gen(function* () {
        const requests = yield* Effect.forEach(cases, (one) => authentic(textOf(one)))
        const receiveAll = (of: ReadonlyArray<IntakeRequest>) => Effect.forEach(of, receive, { concurrency: "unbounded" })
        const once: ReadonlyArray<Intake> = yield* receiveAll(requests)
        yield* TestClock.adjust("1 hour")

        assert.deepEqual((yield* receiveAll(requests.toReversed())).toReversed(), once)
        assert.equal(new Set(once.map(({ id }) => id)).size, cases.length)
      })
    },
    {
      title: "names nothing of the payload, and no secret, in a refusal",
      check: Effect.gen(function* () {
        const request = yield* authentic(textOf(first), { account: "another" })
        const error = yield* Effect.flip(receive(request))

        const said = `${String(error)} ${JSON.stringify(error)}`
        for (const { providerMessageId, recipient } of first.notifications) {
          assert.ok(!said.includes(providerMessageId) && !said.includes(recipient ?? providerMessageId))
        }
        for (const value of Object.values(request.headers)) assert.ok(value === undefined || !said.includes(value))
      })
    }
  ]

  const signed: ReadonlyArray<Check<R>> = [
    {
      title: "refuses a body of which any byte was changed, or means by it what was signed",
      check: Effect.gen(function* () {
        yield* assertVouchedFor(yield* authentic(textOf(first)))
      })
    },
    {
      title: "refuses what is older than anything that waits for it, and nothing before",
      check: Effect.gen(function* () {
        const request = yield* authentic(textOf(first))
        const sentAt = yield* Clock.currentTimeMillis
        yield* TestClock.setTime(sentAt + notificationRetention)
        assert.deepEqual((yield* receive(request)).notifications, first.notifications)
        yield* TestClock.setTime(sentAt + notificationRetention + 1_000)

        yield* assertRefused(request, "stale")
      })
    }
  ]

  return { name: "NotificationIntake", checks: [...meaning, ...doubting, ...(isSigned ? signed : [])] }
}
