import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { TestClock } from "effect/testing"
import * as Memory from "../../adapters/memory/index.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import * as Fixtures from "../../conformance/fixtures.ts"
import { pollJob, RecordNotification } from "../operations/RecordNotification.ts"
import { MailProviders, MailProviderUnavailable, type MailProvider } from "../ports/MailProvider.ts"
import { Store } from "../ports/Store.ts"
import { PollProvider } from "./PollProvider.ts"

const minute = 60_000
const hours48 = 48 * 60 * minute
const submittedAt = 1_000 * hours48

const away: MailProvider = {
  name: "staged",
  submit: () => Effect.die(new Error("nothing is submitted")),
  poll: () => Effect.fail(new MailProviderUnavailable({ cause: "away" }))
}

const behind: MailProvider = { ...away, poll: ({ pollAt }) => Effect.succeed({ notifications: [], pollAt }) }
const long: MailProvider = { ...away, poll: () => Effect.succeed({ notifications: [], pollAt: minute }) }

/** At what age a submission is asked about next that is due at this one. */
const nextAge = (age: number, production: MailProvider | null) => {
  const now = submittedAt + age
  const ports = Layer.mergeAll(
    Memory.layer,
    Layer.succeed(MailProviders, { sandbox: away, production }),
    NodeCrypto.layerSeeded("polls", { sealingKeys: [{ version: 1, key: Redacted.make(new Uint8Array(32)) }] })
  )
  const layer = Layer.provideMerge(Layer.provide(PollProvider.layer, RecordNotification.layer), ports)
  return Effect.gen(function* () {
    const [store, { handle }] = [yield* Store, yield* PollProvider]
    const realm = Fixtures.realm("production")
    const submission = { provider: "staged", providerMessageId: "m1", submittedAt, recipients: [], pollAt: now }
    const message = { ...Fixtures.message(realm), nextAttemptAt: null, submissions: [submission] }
    yield* store.commit([{ _tag: "InsertMessage", message, content: Fixtures.content(message) }], [])
    yield* TestClock.setTime(now)
    yield* handle({ job: pollJob(message, now), token: "t", claims: 1, expiresAt: now + minute })
    const { pollAt } = (yield* store.messages.get(realm, message.id))!.submissions[0]! // just inserted
    return pollAt === null ? null : pollAt - submittedAt
  }).pipe(Effect.provide(layer, { local: true }))
}

describe("a submission about which a provider says nothing, or no time that is ahead", () => {
  for (const [who, production] of [
    ["a provider that is away", away],
    ["a process without one", null],
    ["a provider that would be asked now", behind],
    ["a provider that would have been asked before", long]
  ] as const) {
    it.effect(`is asked about again after a quarter of its age, and at least a minute, for 48 hours: by ${who}`, () =>
      Effect.gen(function* () {
        for (const [age, wait] of [
          [0, minute],
          [4 * minute, minute],
          [4 * minute + 4, minute + 1],
          [60 * minute, 15 * minute],
          [hours48 - 4, hours48 / 4 - 1]
        ] as const) {
          assert.strictEqual(yield* nextAge(age, production), age + wait, `at ${age}`)
        }
        for (const age of [hours48, hours48 + minute]) assert.isNull(yield* nextAge(age, production))
      })
    )
  }

  it.effect("is asked about again when it is said, however soon that is", () =>
    Effect.gen(function* () {
      const soon: MailProvider = { ...away, poll: () => Effect.succeed({ notifications: [], pollAt: submittedAt + 61 * minute + 1 }) }

      assert.strictEqual(yield* nextAge(61 * minute, soon), 61 * minute + 1)
    })
  )
})
