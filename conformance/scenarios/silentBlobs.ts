/** Blobs that do not even fail: what waits for them is given up in time, and done once they answer. */
import { Effect, Fiber } from "effect"
import * as assert from "node:assert/strict"
import { enclosedMax } from "../../core/ports/BlobStore.ts"
import { address } from "../fixtures.ts"
import { arrive, withFile } from "./Arrivals.ts"
import { Silence, Within } from "./Faults.ts"
import * as Time from "./Time.ts"
import { messageOf, pass, scenario, send, settle, typesOf, logOf, upload, type Process, type ScenarioSuite } from "./World.ts"

/** What is due is done, or given up, within this time. */
const within = (process: Process, minutes: 3 | 11) =>
  Effect.gen(function* () {
    const working = yield* Effect.forkDetach(settle(process))
    // By the minute, for a longer wait passes at once: before the store has put the job off, it would be due again.
    for (let minute = 0; minute < minutes; minute++) yield* Time.adjust("1 minute", "20 seconds")
    assert.notEqual(working.pollUnsafe(), undefined, "it is still waited for")
    yield* Fiber.join(working)
  })

export const suite: ScenarioSuite = {
  name: "silent blobs",
  checks: [
    ...(["BlobStore.enclose", "BlobStore.read"] as const).map((call) =>
      scenario(`a message is put off whose object cannot be made for want of an answer to ${call}, and sent with a later try`, (world) =>
        Effect.gen(function* () {
          const of = yield* world.found()
          const silence = new Silence(call)
          const meanwhile = new Within(silence)
          const process = yield* world.boot(meanwhile)
          const attachment = yield* upload(process, of)
          yield* settle(process)
          const id = yield* send(process, of, address("bob"), { attachmentIds: [attachment.id] })
          meanwhile.isOn = true

          yield* within(process, 11)

          assert.ok(silence.hasStruck)
          const { status, attempts } = yield* messageOf(world, of, id)
          assert.deepEqual([status, attempts], ["queued", 1])
          meanwhile.isOn = false
          yield* pass(process, "2 minutes")
          assert.equal((yield* messageOf(world, of, id)).status, "sent")
          assert.equal(world.stage.submissions.length, 1)
        })
      )
    ),

    ...([["BlobStore.read", 1], ["BlobStore.enclose", 1], ["BlobStore.writer", enclosedMax + 1]] as const).map(([call, fileSize]) =>
      scenario(`a message that came in is read later for want of an answer to ${call}, and loses no file by it`, (world) =>
        Effect.gen(function* () {
          const of = yield* world.found()
          const silence = new Silence(call)
          const meanwhile = new Within(silence)
          const process = yield* world.boot(meanwhile)
          yield* arrive(process, of.mailbox.address, withFile("x".repeat(fileSize)))
          meanwhile.isOn = true

          yield* within(process, 3)

          assert.ok(silence.hasStruck)
          const [before] = yield* world.store.messages.page(of.realm, { mailboxId: null, before: null, limit: 1 })
          assert.deepEqual(typesOf(yield* logOf(world, of, before!.id)), [], "it is not received yet")
          meanwhile.isOn = false
          yield* pass(process, "2 minutes")
          const { attachmentIds } = yield* messageOf(world, of, before!.id)
          assert.equal(attachmentIds.length, 1)
          assert.deepEqual(typesOf(yield* logOf(world, of, before!.id)), ["message.received"])
        })
      )
    )
  ]
}
