/** The suppression list at work: who bounced is not mailed, who is taken off it is, until the next bounce. */
import { Effect } from "effect"
import * as assert from "node:assert/strict"
import { system } from "../../core/model/Audit.ts"
import type { MessageId } from "../../core/model/Ids.ts"
import type { Notification } from "../../core/model/Notification.ts"
import { address } from "../fixtures.ts"
import { accepted, providerMessageId, providerName, scenario, send, settle, type Process, type ScenarioSuite, type Tenancy, type World } from "./World.ts"

const [ada, bob] = [address("ada"), address("bob")]

const bounceOf = (id: MessageId): Notification => ({
  provider: providerName,
  providerMessageId: providerMessageId({ messageId: id }),
  recipient: ada,
  outcome: { _tag: "Bounced", at: 1, class: "permanent", smtpCode: 550, enhancedCode: "5.1.1", diagnostic: "no such user" }
})

const bounced = (process: Process, id: MessageId) => process.notifications.record([bounceOf(id)])

const outcomeOf = (process: Process, of: Tenancy, id: MessageId) =>
  Effect.map(process.messages.get(of.principal, id), ({ message }) => {
    const [recipient] = message.recipients
    return [recipient!.status, recipient!.bounceClass, recipient!.diagnostic]
  })

/** Sends to her, and lets the worker do what it does. */
const sendTo = (world: World, process: Process, of: Tenancy) =>
  Effect.gen(function* () {
    const before = world.stage.submissions.length
    const id = yield* send(process, of, ada)
    yield* settle(process)
    return { id, isSubmitted: world.stage.submissions.length > before }
  })

export const suite: ScenarioSuite = {
  name: "the suppression list",
  checks: [
    scenario("who bounced is not mailed until she is taken off the list, and is on it again with the next bounce", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const { realm } = tenancy
        const process = yield* world.boot()
        const list = Effect.map(process.management.listSuppressions(realm, {}), ({ items }) => items.map(({ reason, messageId }) => [reason, messageId]))
        const first = yield* sendTo(world, process, tenancy)
        yield* bounced(process, first.id)
        assert.deepEqual(yield* list, [["bounce", first.id]])

        const second = yield* sendTo(world, process, tenancy)
        assert.equal(second.isSubmitted, false)
        assert.deepEqual(yield* outcomeOf(process, tenancy, second.id), ["bounced", "suppressed", "the address bounced before"])
        assert.equal((yield* process.management.removeSuppression(system, realm, ada)).messageId, first.id)
        const third = yield* sendTo(world, process, tenancy)
        assert.equal(third.isSubmitted, true)
        assert.deepEqual(yield* list, [])
        yield* bounced(process, first.id)
        assert.deepEqual(yield* list, [], "a bounce that is told again is none")
        yield* bounced(process, third.id)

        assert.deepEqual(yield* list, [["bounce", third.id]])
        assert.equal((yield* sendTo(world, process, tenancy)).isSubmitted, false)
      })
    ),

    scenario("who is taken off the list stays off it when her bounce is told again beside news of her or of others", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const { management } = process
        const id = yield* send(process, tenancy, ada, { cc: [bob] })
        yield* settle(process)
        const bounce = bounceOf(id)
        const complaint: Notification = { ...bounce, outcome: { _tag: "Complained", at: 2 } }
        yield* process.notifications.record([bounce, complaint])
        yield* management.removeSuppression(system, tenancy.realm, ada)

        yield* process.notifications.record([
          bounce,
          { ...bounce, recipient: bob, outcome: { _tag: "Delivered", at: 3, smtpResponse: null } },
          { ...bounce, outcome: { _tag: "Delivered", at: 4, smtpResponse: null } },
          complaint
        ])

        const { message } = yield* process.messages.get(tenancy.principal, id)
        assert.deepEqual(message.recipients.map(({ status }) => status), ["bounced", "delivered"])
        assert.deepEqual((yield* management.listSuppressions(tenancy.realm, {})).items, [])
      })
    ),

    scenario("who is put on the list by hand is not mailed by that tenant, and by no other's word", (world) =>
      Effect.gen(function* () {
        const [tenancy, other] = [yield* world.found(), yield* world.found()]
        const process = yield* world.boot()
        yield* process.management.addSuppression(system, tenancy.realm, address("ADA"))

        const { id, isSubmitted } = yield* sendTo(world, process, tenancy)
        assert.equal(isSubmitted, false)
        assert.deepEqual(yield* outcomeOf(process, tenancy, id), ["bounced", "suppressed", "the address is on the suppression list"])
        assert.equal((yield* sendTo(world, process, other)).isSubmitted, true)
        const refused = yield* Effect.flip(process.management.removeSuppression(system, other.realm, ada))
        assert.equal(refused._tag, "UnknownResource")
      })
    ),

    scenario("in the sandbox nobody is suppressed, whatever the list holds", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found("sandbox")
        const process = yield* world.boot()
        const suppression = { ...tenancy.realm, address: ada, reason: "manual", messageId: null, createdAt: 0 } as const
        yield* world.store.commit([{ _tag: "Suppress", suppression }], [])

        const { id } = yield* sendTo(world, process, tenancy)

        assert.equal((yield* outcomeOf(process, tenancy, id))[0], "sent")
      })
    ),

    scenario("mail on its way goes on, mail that waits finds the list as it is when it is tried", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const { management } = process
        world.stage.behave = (request) =>
          Effect.as(Effect.orDie(management.addSuppression(system, tenancy.realm, ada)), accepted(request))
        const onItsWay = yield* sendTo(world, process, tenancy)
        assert.equal((yield* outcomeOf(process, tenancy, onItsWay.id))[0], "sent")

        const waits = yield* send(process, tenancy, ada)
        yield* management.removeSuppression(system, tenancy.realm, ada)
        yield* settle(process)

        assert.equal((yield* outcomeOf(process, tenancy, waits))[0], "sent")
      })
    )
  ]
}
