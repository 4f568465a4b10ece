/** What was told at RCPT holds for the message behind it, or is looked at again; and what a large message takes beside a small one. */
import { Effect, Exit, Stream } from "effect"
import * as assert from "node:assert/strict"
import { system } from "../../core/model/Audit.ts"
import { enclosedMax } from "../../core/ports/BlobStore.ts"
import { answerTo, arrive, refusalOf, withFile } from "./Arrivals.ts"
import { atEachCall, CallLog } from "./Faults.ts"
import { logOf, pass, scenario, settle, typesOf, type Process, type ScenarioSuite, type Tenancy, type World } from "./World.ts"

const messagesOf = ({ store }: World, { realm }: Tenancy) => store.messages.page(realm, { mailboxId: null, before: null, limit: 100 })

/** A file that makes a message too large to be left to its commit. */
const fileSize = 10 * Math.floor(enclosedMax / 10)
const large = withFile("0123456789".repeat(fileSize / 10))

export const suite: ScenarioSuite = {
  name: "known recipients",
  checks: [
    scenario("a recipient is looked up at RCPT, and not again for the message", (world) =>
      Effect.gen(function* () {
        const [of, other] = [yield* world.found(), yield* world.found()]
        const calls = new CallLog()
        const process = yield* world.boot(calls)
        const lookUps = () => calls.made.filter((call) => call === "Store.mailboxes.addressee").length

        assert.equal(yield* answerTo(process, of.mailbox.address), null)
        yield* arrive(process, of.mailbox.address)
        assert.equal(lookUps(), 1)
        assert.equal(yield* answerTo(process, of.mailbox.address), null)
        assert.equal(lookUps(), 2, "each RCPT looks")
        yield* arrive(process, [of.mailbox.address, other.mailbox.address])
        assert.equal(lookUps(), 3, "who was not asked about is looked up")

        assert.deepEqual([(yield* messagesOf(world, of)).length, (yield* messagesOf(world, other)).length], [2, 1])
      })
    ),

    scenario("what another process makes of a recipient between RCPT and the end of the message holds", (world) =>
      Effect.gen(function* () {
        const [process, elsewhere] = [yield* world.boot(), yield* world.boot()]
        const { management } = elsewhere
        const rows: ReadonlyArray<readonly [string, (of: Tenancy) => Effect.Effect<unknown, unknown>, string]> = [
          ["mailbox", ({ realm, mailbox }) => management.updateMailbox(system, realm.tenantId, mailbox.id, { status: "suspended" }), "550 5.2.1"],
          ["domain", ({ realm, mailbox }) => management.setDomainSuspended(system, realm.tenantId, mailbox.domainId, true), "550 5.2.1"],
          ["tenant", ({ realm }) => management.setTenantStatus(system, realm.tenantId, "suspended"), "550 5.2.1"]
        ]
        for (const [index, [what, change, refusal]] of [...rows, ...rows].entries()) {
          const [of, other] = [yield* world.found(), yield* world.found()]
          const both = index < rows.length ? [of, other] : [other, of]
          for (const { mailbox } of both) assert.equal(yield* answerTo(process, mailbox.address), null)
          yield* Effect.orDie(change(of))

          assert.equal(refusalOf(yield* Effect.exit(arrive(process, both.map(({ mailbox }) => mailbox.address)))), "451 4.3.0", what)
          assert.equal(refusalOf(yield* Effect.exit(arrive(process, of.mailbox.address))), refusal, what)
          yield* arrive(process, other.mailbox.address)
          assert.deepEqual([(yield* messagesOf(world, of)).length, (yield* messagesOf(world, other)).length], [0, 1], what)
        }
      })
    ),

    scenario("a recipient that has changed and takes mail has the message as it is by then, once, and counted once", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const [process, elsewhere] = [yield* world.boot(undefined, { inboundPerMinute: 1 }), yield* world.boot()]
        const { realm: { tenantId }, mailbox: { domainId, address } } = of
        const domain = address.slice(address.indexOf("@") + 1)
        const [before, after] = yield* Effect.forEach(["before", "after"], (name) =>
          elsewhere.management.createMailbox(system, { tenantId, address: `${name}@${domain}` as never, displayName: "" })
        )
        yield* elsewhere.management.setCatchAll(system, tenantId, domainId, before!.id)
        assert.equal(yield* answerTo(process, `nobody@${domain}`), null)
        yield* elsewhere.management.setCatchAll(system, tenantId, domainId, after!.id)

        yield* arrive(process, `nobody@${domain}`)

        assert.deepEqual((yield* messagesOf(world, of)).map(({ mailboxId }) => mailboxId), [after!.id])
        assert.equal(yield* answerTo(process, address), null)
        yield* elsewhere.management.updateMailbox(system, tenantId, of.mailbox.id, { displayName: "Countess" })
        yield* arrive(process, address)
        assert.equal((yield* messagesOf(world, of)).length, 2)
      })
    ),

    scenario("a message too large to go with its commit is taken all the same: by every tenant, or by nobody, wherever the process crashes", (world) =>
      Effect.gen(function* () {
        const crashes = yield* atEachCall(({ faults, label }) =>
          Effect.gen(function* () {
            const tenancies = [yield* world.found(), yield* world.found()]
            const recipients = tenancies.map(({ mailbox }) => mailbox.address)
            const doomed = yield* world.boot(faults)

            const exit = yield* Effect.exit(arrive(doomed, recipients, large))

            const landed = (yield* messagesOf(world, tenancies[0]!)).length
            assert.ok(landed === 1 || Exit.isFailure(exit), label)
            const heir = yield* world.boot()
            if (Exit.isFailure(exit)) yield* arrive(heir, recipients, large)
            yield* pass(heir, "10 minutes", "1 minute")
            // A copy more where the answer was lost, and only then.
            const expected = Exit.isFailure(exit) && landed === 1 ? [fileSize, fileSize] : [fileSize]
            for (const of of tenancies) assert.deepEqual(yield* filesOf(world, heir, of), expected, label)
          })
        , ["before", "after"])
        assert.ok(crashes >= 4, `${crashes} crashes were played`)
      })
    ),

    scenario("a small or a large message that is refused when all of it has come can be taken later", (world) =>
      Effect.gen(function* () {
        const [of, other] = [yield* world.found(), yield* world.found()]
        const calls = new CallLog()
        const process = yield* world.boot(calls)
        const written = () => calls.made.filter((call) => call === "BlobStore.writer" || call === "BlobStore.enclose")
        world.stage.spam = "refuse"

        assert.equal(refusalOf(yield* Effect.exit(arrive(process, of.mailbox.address, withFile("0123456789")))), "550 5.7.1")
        assert.deepEqual(written(), [], "a small one is not stored before it is taken")
        assert.equal(refusalOf(yield* Effect.exit(arrive(process, of.mailbox.address, large))), "550 5.7.1")
        assert.deepEqual(written(), ["BlobStore.writer"], "a large one goes to the store as it comes")
        assert.deepEqual(yield* messagesOf(world, of), [])
        world.stage.spam = "ham"
        for (const bytes of [withFile("0123456789"), large]) yield* arrive(process, of.mailbox.address, bytes)
        yield* settle(process)

        assert.deepEqual((yield* filesOf(world, process, of)).toSorted((left, right) => left - right), [10, fileSize])
        assert.deepEqual(typesOf(yield* logOf(world, of)), ["message.received", "message.received"])
        calls.made.length = 0
        yield* arrive(process, [of.mailbox.address, other.mailbox.address])
        assert.deepEqual(written(), ["BlobStore.enclose", "BlobStore.writer"], "a further tenant's copy is no part of the commit")
      })
    )
  ]
}

/** The sizes of all files that came in. */
const filesOf = (world: World, process: Process, of: Tenancy) =>
  Effect.flatMap(messagesOf(world, of), (messages) =>
    Effect.forEach(messages.flatMap(({ attachmentIds }) => attachmentIds), (id) =>
      Effect.flatMap(process.attachments.download(of.principal, id), ({ bytes }) => Effect.map(Stream.mkUint8Array(bytes), ({ length }) => length))
    )
  )
