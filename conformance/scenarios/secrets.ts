/** Signing secrets that are replaced: which one signs when, in every process, and that the new one is told or never signs. */
import { Duration, Effect, Redacted } from "effect"
import * as assert from "node:assert/strict"
import { system } from "../../core/model/Audit.ts"
import * as Endpoints from "../../core/model/Endpoint.ts"
import { CommitFaults } from "./Faults.ts"
import { assertSigned, broken, deliveryTo, endpointOf, happen, ok, play, postsTo, respond, untilNextAttempt, type Hook } from "./Receivers.ts"
import * as Time from "./Time.ts"
import { scenario, settle, type Process, type ScenarioSuite, type World } from "./World.ts"

/** The endpoint with the secret that its rotation told. */
const rotate = ({ webhookManagement }: Process, to: Hook, overlap: Duration.Input) =>
  Effect.map(
    webhookManagement.rotateSecret(system, to.of.realm.tenantId, to.endpoint.id, { overlap: Duration.toMillis(Duration.fromInputUnsafe(overlap)) }),
    ({ secret }): Hook => ({ ...to, secret })
  )

const rotations = ({ store }: World, { of }: Hook) =>
  Effect.map(store.audit.page(of.realm.tenantId, 1_000), (entries) =>
    entries.filter(({ action }) => action === "webhook_endpoint.rotate_secret").length
  )

export const suite: ScenarioSuite = {
  name: "webhook secrets",
  checks: [
    scenario("the old secret signs until the overlap is over, and the new one from then on, in every process", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        const other = yield* world.boot()
        const sent = (by: Process) =>
          Effect.gen(function* () {
            yield* happen(by, of)
            yield* settle(by)
            return postsTo(world, to).at(-1)!
          })
        yield* assertSigned(world, to, yield* sent(process))

        const rotated = yield* rotate(process, to, "1 hour")

        assert.notEqual(Redacted.value(rotated.secret), Redacted.value(to.secret))
        assert.equal(yield* rotations(world, to), 1)
        yield* Time.adjust("59 minutes")
        yield* assertSigned(world, to, yield* sent(process))
        yield* Time.adjust("59999 millis")
        yield* assertSigned(world, to, yield* sent(other))
        yield* Time.adjust(1)
        yield* assertSigned(world, rotated, yield* sent(other))
        yield* Time.adjust("1 minute")
        yield* assertSigned(world, rotated, yield* sent(process))
        assert.equal(postsTo(world, to).length, 5)
      })
    ),

    scenario("a delivery that is tried again after the overlap is signed with the new secret then", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        const rotated = yield* rotate(process, to, "30 seconds")
        respond(world, (_, nth) => (nth === 1 ? broken : ok))

        yield* happen(process, of)
        yield* settle(process)
        yield* untilNextAttempt(process, yield* deliveryTo(world, to))

        const [first, second] = postsTo(world, to)
        yield* assertSigned(world, to, first!)
        yield* assertSigned(world, rotated, second!)
      })
    ),

    scenario("a secret that is replaced at once signs nothing more, and neither does one that was to come", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        yield* rotate(process, to, "1 hour")

        const last = yield* rotate(process, to, 0)

        for (const wait of ["1 second", "2 hours"] as const) {
          yield* Time.adjust(wait)
          yield* happen(process, of)
          yield* settle(process)
          yield* assertSigned(world, last, postsTo(world, to).at(-1)!)
        }
        assert.equal(yield* rotations(world, to), 2)
      })
    ),

    scenario("a secret that is replaced while one is in its overlap leaves the one that signs in use", (world) =>
      Effect.gen(function* () {
        const { process, of, to } = yield* play(world)
        const second = yield* rotate(process, to, "1 minute")
        yield* Time.adjust("2 minutes")

        const third = yield* rotate(process, to, "1 minute")

        yield* happen(process, of)
        yield* settle(process)
        yield* assertSigned(world, second, postsTo(world, to).at(-1)!)
        yield* Time.adjust("1 minute")
        yield* happen(process, of)
        yield* settle(process)
        yield* assertSigned(world, third, postsTo(world, to).at(-1)!)
      })
    ),

    scenario("a rotation whose commit lost its answer tells the secret all the same; one that did not land changes nothing", (world) =>
      Effect.gen(function* () {
        const { of, to } = yield* play(world)
        const crashing = yield* world.boot(new CommitFaults(1, "before"))
        yield* Effect.exit(rotate(crashing, to, 0))
        const before = yield* endpointOf(world, to)
        assert.deepEqual([before.version, before.nextSecret, yield* rotations(world, to)], [1, null, 0])

        const unlucky = yield* world.boot(new CommitFaults(1, "lost answer"))
        const rotated = yield* rotate(unlucky, to, "1 hour")

        const { nextSecret } = yield* endpointOf(world, to)
        const opened = yield* world.crypto.open(nextSecret!.secret, Endpoints.sealContext({ ...of.realm, id: to.endpoint.id }))
        assert.equal(Redacted.value(opened), Redacted.value(rotated.secret))
        assert.equal(yield* rotations(world, to), 1)
      })
    )
  ]
}
