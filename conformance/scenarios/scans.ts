/** From an upload to a verdict: what nobody could scan is scanned again by schedule, and is not sent. */
import { Clock, Effect, Fiber } from "effect"
import * as assert from "node:assert/strict"
import { scanTimeout } from "../../core/jobs/ScanAttachment.ts"
import { system } from "../../core/model/Audit.ts"
import { scanJob } from "../../core/operations/Attachments.ts"
import { ScanFailed } from "../../core/ports/Scanner.ts"
import { address } from "../fixtures.ts"
import { CommitFaults, Faults, Silence, Within } from "./Faults.ts"
import * as Time from "./Time.ts"
import { loggedTo, messageOf, pass, scenario, send, settle, upload, type Process, type ScenarioSuite, type Tenancy, type World } from "./World.ts"

/** Uploads a file; how to look at it. */
const attach = (world: World, process: Process, of: Tenancy) =>
  Effect.map(upload(process, of), ({ id }) => ({ id, stored: Effect.map(world.store.attachments.get(of.realm, id), (attachment) => attachment!) }))

/** From now on every scan fails; how many there were. */
const unscannable = ({ stage }: World) => {
  const scans = { count: 0 }
  stage.scan = () =>
    Effect.suspend(() => {
      scans.count += 1
      return Effect.fail(new ScanFailed({ reason: "away" }))
    })
  return scans
}

export const suite: ScenarioSuite = {
  name: "scans of attachments",
  checks: [
    scenario("a scan that fails is tried again after 1 m, 5 m, 15 m, 1 h, then every 4 h, never before its time, and not after 48 h", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const scans = unscannable(world)
        const { stored } = yield* attach(world, process, tenancy)
        const waits: Array<number> = []

        for (;;) {
          yield* settle(process)
          const attachment = yield* stored
          assert.deepEqual([attachment.scanState, attachment.scanErrors, scans.count], ["error", waits.length + 1, waits.length + 1])
          if (attachment.nextScanAt === null) break
          const now = yield* Clock.currentTimeMillis
          waits.push((attachment.nextScanAt - now) / 60_000)
          yield* Time.adjust(attachment.nextScanAt - now - 1)
          yield* world.queue.offer([scanJob(attachment, yield* Clock.currentTimeMillis)])
          yield* settle(process)
          assert.equal(scans.count, waits.length, "a job that comes early scans nothing")
          yield* Time.adjust(1)
        }

        for (const [index, wait] of waits.entries()) {
          const step = [1, 5, 15, 60][index] ?? 240
          assert.ok(Math.abs(wait - step) <= 0.2 * step, `scan ${index + 2} came ${wait} minutes after the one before`)
        }
        const total = waits.reduce((sum, wait) => sum + wait, 0)
        assert.ok(total < 48 * 60 && total > 42 * 60, `the last scan came after ${total} minutes`)
      })
    ),

    scenario("a file that ends the process of whoever scans it is given up at the fifth claim", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        let faults = new Faults(0, "before")
        let process = yield* world.boot(faults)
        let scans = 0
        world.stage.scan = () =>
          Effect.suspend(() => {
            scans += 1
            faults.kill()
            return Effect.die(new Error("a bug that ends the process"))
          })
        const { stored } = yield* attach(world, process, tenancy)

        for (let restart = 0; restart < 10; restart++) {
          for (let tick = 0; tick < 5; tick++) yield* Effect.exit(process.worker.tick)
          yield* Time.adjust("5 minutes")
          if (faults.crashed === null) continue
          faults = new Faults(0, "before")
          process = yield* world.boot(faults)
        }

        const { scanState, nextScanAt } = yield* stored
        assert.deepEqual([scans, scanState, nextScanAt], [4, "error", null])
      })
    ),

    scenario("a job that comes again for a file that has its verdict scans nothing", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const { stored } = yield* attach(world, process, tenancy)
        yield* settle(process)
        const before = yield* stored
        const scans = unscannable(world)

        yield* world.queue.offer([scanJob(before, yield* Clock.currentTimeMillis)])
        assert.equal(yield* process.worker.tick, 1)

        assert.deepEqual([scans.count, yield* stored], [0, before])
      })
    ),

    ...(["are gone", "do not come"] as const).map((what) =>
      scenario(`a file whose bytes ${what} is not clean, and the operator is told which and why`, (world) =>
        Effect.gen(function* () {
          const lines: Array<string> = []
          const tenancy = yield* world.found()
          const silence = new Within(new Silence("BlobStore.read"))
          const process = yield* world.boot(silence)
          const { id, stored } = yield* attach(world, process, tenancy)
          const { tenantId, blob } = yield* stored
          if (what === "are gone") yield* world.blobs.remove(tenantId, blob.sha256, Number.MAX_SAFE_INTEGER)
          else silence.isOn = true

          const scanning = yield* Effect.forkChild(Effect.provide(settle(process), loggedTo(lines)))
          yield* Time.adjust(scanTimeout, "10 seconds")
          yield* Fiber.join(scanning)

          const { scanState, scanErrors } = yield* stored
          assert.deepEqual([scanState, scanErrors > 0], ["error", true])
          const [line] = lines.filter((text) => text.includes("attachment not scanned"))
          assert.ok(line?.includes(`"attachmentId":"${id}"`) && /"reason":"[^"]+/.test(line), lines.join("\n"))
        })
      )
    ),

    ...(["lost answer", "after"] as const).map((moment) =>
      scenario(`a message that an error had put off is due with the verdict, though its commit comes to ${moment === "after" ? "the end of the process" : "no answer"}`, (world) =>
        Effect.gen(function* () {
          const tenancy = yield* world.found()
          const process = yield* world.boot()
          unscannable(world)
          const { id: fileId, stored } = yield* attach(world, process, tenancy)
          const id = yield* send(process, tenancy, address("ada"), { attachmentIds: [fileId] })
          yield* settle(process)
          const { nextScanAt } = yield* stored
          const message = yield* messageOf(world, tenancy, id)
          const later = { ...message, version: message.version + 1, nextAttemptAt: nextScanAt! + 4 * 3_600_000 }
          yield* world.witness.watch(world.store).commit([{ _tag: "Update", kind: "message", record: later }], [])
          world.stage.scan = () => Effect.succeed({ _tag: "Clean" })
          // The first begins the scan, the second has the verdict.
          const faults = new CommitFaults(2, moment)
          const unlucky = yield* world.boot(faults)

          yield* Time.setTime(nextScanAt!)
          yield* Effect.exit(settle(unlucky))
          assert.deepEqual([faults.hasStruck, (yield* stored).scanState], [true, "clean"])
          yield* pass(process, "2 minutes")

          assert.equal((yield* messageOf(world, tenancy, id)).status, "sent")
        })
      )
    ),

    scenario("each verdict is in the audit trail, as the system's", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        const clean = yield* attach(world, process, tenancy)
        yield* settle(process)
        world.stage.scan = () => Effect.succeed({ _tag: "Infected", signature: "Test" })
        const infected = yield* attach(world, process, tenancy)
        yield* settle(process)

        const entries = yield* world.store.audit.page(tenancy.realm.tenantId, 100)
        assert.deepEqual(
          entries.filter(({ action }) => action.startsWith("attachment.scan")).toReversed().map(({ action, actor, subject }) => [action, actor, subject.id]),
          [["attachment.scan_clean", system, clean.id], ["attachment.scan_infected", system, infected.id]]
        )
      })
    ),

    scenario("mail whose attachment nobody can scan is not sent, and fails after 48 hours", (world) =>
      Effect.gen(function* () {
        const tenancy = yield* world.found()
        const process = yield* world.boot()
        unscannable(world)
        const attachment = yield* attach(world, process, tenancy)
        const id = yield* send(process, tenancy, address("ada"), { attachmentIds: [attachment.id] })

        yield* pass(process, "47 hours", "20 minutes")
        const file = yield* attachment.stored
        const waiting = yield* messageOf(world, tenancy, id)
        assert.deepEqual([file.scanState, waiting.status], ["error", "queued"])
        const record = { ...file, version: file.version + 1, nextScanAt: null }
        yield* world.witness.watch(world.store).commit([{ _tag: "Update", kind: "attachment", record }], [])
        yield* world.queue.offer([scanJob(record, yield* Clock.currentTimeMillis)])
        yield* settle(process)
        assert.deepEqual(yield* messageOf(world, tenancy, id), waiting, "a scan that was given up brings no verdict that a message waits for")
        yield* pass(process, "2 hours", "20 minutes")

        const { status, failure } = yield* messageOf(world, tenancy, id)
        assert.deepEqual([status, failure?.stage, failure?.code], ["failed", "submit", "attachment_not_clean"])
        assert.equal(world.stage.submissions.length, 0)
      })
    )
  ]
}
