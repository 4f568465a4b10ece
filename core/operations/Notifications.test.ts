import { assert, it } from "@effect/vitest"
import { createHash } from "node:crypto"
import { Effect, Layer, Metric, Redacted } from "effect"
import * as Memory from "../../adapters/memory/index.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import * as Fixtures from "../../conformance/fixtures.ts"
import * as Metrics from "../Metrics.ts"
import type { Notification } from "../model/Notification.ts"
import { payloadBytesMax } from "../model/ProviderPayload.ts"
import { intakeIdLengthMax, intakeKindLengthMax, IntakeRefused, IntakeUnavailable, NotificationIntakes, type Intake as Told, type NotificationIntake } from "../ports/NotificationIntake.ts"
import { Store, StoreUnavailable, type Change } from "../ports/Store.ts"
import { Notifications } from "./Notifications.ts"
import { RecordNotification } from "./RecordNotification.ts"

const crypto = NodeCrypto.layerSeeded("intake", { sealingKeys: [{ version: 1, key: Redacted.make(new Uint8Array(32)) }] })

const bob = Fixtures.address("bob")

const bounced = (provider: string): Notification => ({
  provider,
  providerMessageId: "m1",
  recipient: bob,
  outcome: { _tag: "Bounced", at: 5, class: "permanent", smtpCode: 550, enhancedCode: "5.1.1", diagnostic: null }
})

/** Believes everybody; a body says what it means by its first word. */
const intake: NotificationIntake = {
  name: "trusting",
  receive: ({ body }) => {
    const [word = "", id = ""] = new TextDecoder().decode(body).split(" ")
    const told: Told = { id, kind: word, notifications: word === "bounced" ? [bounced("trusting"), bounced("another")] : [] }
    if (word === "forged") return Effect.fail(new IntakeRefused({ reason: "bad_signature" }))
    return word === "later" ? Effect.fail(new IntakeUnavailable({ cause: "test" })) : Effect.succeed(told)
  }
}

const run = (
  test: (world: {
    /** The tags of the changes of each commit so far. */
    readonly commits: Array<ReadonlyArray<string>>
    /** Commits with this change fail, once each time. */
    readonly failing: { on: Change["_tag"] | null }
    readonly store: typeof Store.Service
    readonly post: (text: string, provider?: string) => Effect.Effect<string>
  }) => Effect.Effect<void, unknown>
) => {
  const commits: Array<ReadonlyArray<string>> = []
  const failing: { on: Change["_tag"] | null } = { on: null }
  const watched = Layer.effect(
    Store,
    Effect.map(Store, (store): typeof Store.Service => ({
      ...store,
      commit: (changes, jobs, lease) =>
        Effect.suspend(() => {
          if (changes.some(({ _tag }) => _tag === failing.on)) {
            failing.on = null
            return Effect.fail(new StoreUnavailable({ cause: "test" }))
          }
          commits.push(changes.map(({ _tag }) => _tag))
          return store.commit(changes, jobs, lease)
        })
    }))
  )
  const layer = Notifications.layer.pipe(
    Layer.provide(RecordNotification.layer),
    Layer.provide(Layer.succeed(NotificationIntakes, [intake])),
    Layer.provideMerge(watched),
    Layer.provideMerge(Memory.layer),
    Layer.provideMerge(crypto)
  )
  return Effect.gen(function* () {
    const { receive } = yield* Notifications
    const store = yield* Store
    const realm = Fixtures.realm("production")
    const submission = { provider: "trusting", providerMessageId: "m1" }
    const sent = Fixtures.message(realm)
    const recipient = { ...sent.recipients[0]!, address: bob, status: "sent" as const, submission }
    const message = {
      ...sent,
      status: "sent" as const,
      sentAt: 0,
      recipients: [recipient],
      nextAttemptAt: null,
      submissions: [{ ...submission, submittedAt: 0, recipients: [bob], pollAt: null }]
    }
    yield* store.commit([{ _tag: "InsertMessage", message, content: Fixtures.content(message) }], [])
    commits.length = 0
    const post = (text: string, provider = "trusting") =>
      receive(provider, { headers: {}, body: new TextEncoder().encode(text) }).pipe(
        Effect.match({ onFailure: ({ _tag }) => _tag, onSuccess: () => "recorded" })
      )
    yield* test({ commits, failing, store, post })
  }).pipe(Effect.provide(layer))
}

it.effect("What is posted is kept before it is recorded, and said again it changes nothing", () =>
  run(({ commits, post }) =>
    Effect.gen(function* () {
      assert.strictEqual(yield* post("bounced 1"), "recorded")
      assert.deepStrictEqual(commits, [["KeepPayload"], ["Update", "AppendEvent", "Suppress"]])

      for (const text of ["bounced 1", "bounced 2"]) assert.strictEqual(yield* post(text), "recorded")

      assert.deepStrictEqual(commits.slice(2), [["KeepPayload"], ["KeepPayload"]])
    })
  )
)

it.effect("What is not recorded is recorded when it comes again, though it is kept already", () =>
  run(({ failing, post, store }) =>
    Effect.gen(function* () {
      failing.on = "KeepPayload"
      assert.strictEqual(yield* post("bounced 1"), "StoreUnavailable")
      assert.deepStrictEqual(yield* store.audit.payloads(null, 10), [])
      failing.on = "AppendEvent"
      assert.strictEqual(yield* post("bounced 1"), "StoreUnavailable")
      assert.lengthOf(yield* store.audit.payloads(null, 10), 1)

      assert.strictEqual(yield* post("bounced 1"), "recorded")

      assert.lengthOf(yield* store.audit.payloads(null, 10), 1)
      const message = yield* store.messages.bySubmission({ provider: "trusting", providerMessageId: "m1" })
      assert.strictEqual(message?.recipients[0]?.status, "bounced")
    })
  )
)

it.effect("What is refused, or cannot be verified, leaves nothing", () =>
  run(({ commits, post }) =>
    Effect.gen(function* () {
      assert.strictEqual(yield* post("forged 1"), "IntakeRefused")
      assert.strictEqual(yield* post("later 1"), "IntakeUnavailable")
      assert.strictEqual(yield* post("bounced 1", "nobody"), "ProviderUnknown")
      assert.deepStrictEqual(commits, [])
    })
  )
)

it.effect("What is kept is cut, told by its digest, and no other provider's", () =>
  run(({ post, store }) =>
    Effect.gen(function* () {
      const text = `bounced 1 ${"é".repeat(payloadBytesMax)}`
      yield* post(text)

      const [kept] = yield* store.audit.payloads("trusting", 1)
      assert.isDefined(kept)
      assert.deepInclude(kept, { id: "1", provider: "trusting", kind: "bounced", notifications: 1 })
      assert.strictEqual(kept.text, text.slice(0, kept.text.length))
      assert.strictEqual(new TextEncoder().encode(kept.text).length, payloadBytesMax)
      assert.strictEqual(kept.digest, createHash("sha256").update(text).digest("hex"))
      assert.deepStrictEqual(yield* store.notifications.kept({ provider: "another", providerMessageId: "m1" }), [])
    })
  )
)

it.effect("What a provider names at length is kept by its beginning", () =>
  run(({ post, store }) =>
    Effect.gen(function* () {
      const long = `${"k".repeat(500)} ${"1".repeat(500)}`
      yield* post(long)

      const [kept] = yield* store.audit.payloads("trusting", 1)
      assert.deepStrictEqual([kept?.id, kept?.kind], [long.slice(-intakeIdLengthMax), long.slice(0, intakeKindLengthMax)])
    })
  )
)

it.effect("What is posted is counted by what became of it", () =>
  run(({ failing, post }) =>
    Effect.gen(function* () {
      const counted = Effect.forEach([Metrics.intakes.recorded, Metrics.intakes.refused, Metrics.intakes.unavailable], (metric) =>
        Effect.map(Metric.value(metric), ({ count }) => count)
      )
      const before = yield* counted

      for (const text of ["bounced 1", "other 2", "forged 3", "later 4", "later 5", "later 6"]) yield* post(text)
      failing.on = "KeepPayload"
      yield* post("bounced 7")

      assert.deepStrictEqual((yield* counted).map((count, index) => count - before[index]!), [2, 1, 4])
    })
  )
)
