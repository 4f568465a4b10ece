/** Messages that come in, and what a worker holds of them. */
import { Effect, Fiber, Latch, Layer, Stream } from "effect"
import * as assert from "node:assert/strict"
import * as Memory from "../../adapters/memory/index.ts"
import { arrive, plain, withFile } from "../../conformance/scenarios/Arrivals.ts"
import { CallLog, Faults } from "../../conformance/scenarios/Faults.ts"
import * as Time from "../../conformance/scenarios/Time.ts"
import { loggedTo, logOf, messageOf, scenario, settle, typesOf } from "../../conformance/scenarios/World.ts"
import { companions } from "../../conformance/sets.ts"
import { plays } from "../../conformance/vitest.ts"
import { largeMessageBytes } from "../model/Limits.ts"
import { parseJob } from "../operations/Receive.ts"
import { BlobCorrupt, BlobMissing, enclosedMax } from "../ports/BlobStore.ts"
import { Mime } from "../ports/Mime.ts"

const memory = Layer.mergeAll(Memory.MemoryStore.layer, Memory.MemoryJobQueue.layer, Memory.MemoryBlobStore.layer, Memory.MemoryRateLimiter.layer)

/** Readings that have begun, each of which waits at the gate. */
let begun = 0
const gate = Latch.makeUnsafe()

const gated = Layer.effect(
  Mime,
  Effect.map(Mime, (mime) => ({
    ...mime,
    parse: (bytes) => {
      begun += 1
      return Effect.andThen(gate.await, mime.parse(bytes))
    }
  }) satisfies typeof Mime.Service)
)

/** A message with these files. */
const withFiles = (files: ReadonlyArray<string>) =>
  plain(
    { "MIME-Version": "1.0", "Content-Type": "multipart/mixed; boundary=b" },
    [...files.map((file) => `--b\nContent-Type: application/octet-stream\nContent-Disposition: attachment\n\n${file}\n`), "--b--\n"].join("")
  )

/** Blobs of which none can be read, for good. */
class Unreadable extends Faults {
  readonly #Gone: typeof BlobMissing | typeof BlobCorrupt

  constructor(Gone: typeof BlobMissing | typeof BlobCorrupt) {
    super(0, "before")
    this.#Gone = Gone
  }

  override aroundStream<A, E, R>(call: string, stream: Stream.Stream<A, E, R>): Stream.Stream<A, E, R> {
    return call === "BlobStore.read" ? Stream.fail(new this.#Gone({ sha256: "" }) as E) : stream // of this call alone
  }
}

plays("{memory}", {
  name: "reads messages",
  checks: [
    scenario("one large message at a time, which is held whole with the files that are in it, and small ones meanwhile", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const process = yield* world.boot()
        const [large, small] = [withFile("x".repeat(largeMessageBytes + 1)), withFile("x".repeat(largeMessageBytes / 2))]
        for (const bytes of [large, large, large, small]) yield* arrive(process, of.mailbox.address, bytes)
        begun = 0
        gate.closeUnsafe()

        const ticking = yield* Effect.forkDetach(process.worker.tick, { startImmediately: true })
        yield* Time.until(() => begun >= 2)
        yield* Effect.repeat(Effect.yieldNow, { times: 100 }) // whatever else is about to begin does
        const atOnce = begun
        gate.openUnsafe()
        yield* Fiber.join(ticking)
        yield* settle(process)

        assert.equal(atOnce, 2)
        assert.equal(begun, 4)
        const { items } = yield* process.messages.list(of.principal, { limit: 10, cursor: null, mailboxId: of.mailbox.id })
        assert.deepEqual(items.map(({ hasAttachments }) => hasAttachments), [true, true, true, true])
      })
    ),

    scenario("as many of its files go with its commit as have room, and the others are stored before", (world) =>
      Effect.gen(function* () {
        gate.openUnsafe()
        const of = yield* world.found()
        const calls = new CallLog()
        const process = yield* world.boot(calls)
        yield* arrive(process, of.mailbox.address, withFiles(["x".repeat(enclosedMax), "y", "", "z"]))
        calls.made.length = 0

        yield* settle(process)

        const kept = calls.made.filter((call) => ["BlobStore.enclose", "BlobStore.writer"].includes(call))
        assert.deepEqual(kept, ["BlobStore.enclose", "BlobStore.writer", "BlobStore.enclose", "BlobStore.writer"])
      })
    ),

    scenario("once, at the time of its reading, whatever jobs of it come again", (world) =>
      Effect.gen(function* () {
        gate.openUnsafe()
        const of = yield* world.found()
        const process = yield* world.boot()
        yield* arrive(process, of.mailbox.address, withFile("x"))
        const [taken] = yield* world.store.messages.page(of.realm, { mailboxId: null, before: null, limit: 1 })
        yield* Time.adjust("5 seconds")
        begun = 0
        yield* settle(process)
        const message = yield* messageOf(world, of, taken!.id)

        yield* world.queue.offer([parseJob(message, 0)])
        assert.equal(yield* process.worker.tick, 1)
        yield* Time.adjust("2 minutes")
        assert.equal(yield* process.worker.tick, 0, "its job has ended")

        assert.equal(begun, 1)
        assert.deepEqual(yield* messageOf(world, of, message.id), message)
        const [file] = yield* world.store.attachments.many(of.realm, message.attachmentIds)
        assert.deepEqual([message.reception?.receivedAt, message.updatedAt, file?.createdAt], [0, 5_000, 5_000])
      })
    ),

    scenario("for two minutes at most, and shows what takes longer by its head", (world) =>
      Effect.gen(function* () {
        gate.openUnsafe()
        const of = yield* world.found()
        const process = yield* world.boot()
        world.stage.parse = () => Effect.never
        yield* arrive(process, of.mailbox.address)
        const reading = yield* Effect.forkChild(settle(process))

        yield* Time.adjust("119 seconds", "10 seconds")
        const before = yield* logOf(world, of)
        yield* Time.adjust("1 second")
        yield* Fiber.join(reading)

        assert.deepEqual([typesOf(before), typesOf(yield* logOf(world, of))], [[], ["message.received"]])
        const { items } = yield* process.messages.list(of.principal, { limit: 10, cursor: null, mailboxId: null })
        assert.deepEqual((yield* process.messages.get(of.principal, items[0]!.id)).message.defects, ["unparsed"])
      })
    ),

    ...([BlobMissing, BlobCorrupt] as const).map((Gone) =>
      scenario(`by its head where its bytes are not there, which the operator is told: ${Gone.name}`, (world) =>
        Effect.gen(function* () {
          gate.openUnsafe()
          const lines: Array<string> = []
          const of = yield* world.found()
          const process = yield* world.boot(new Unreadable(Gone))
          yield* arrive(process, of.mailbox.address)

          yield* Effect.provide(settle(process), loggedTo(lines))

          assert.deepEqual(typesOf(yield* logOf(world, of)), ["message.received"])
          const said = lines.map((line) => [JSON.parse(line)].map(({ level, message }) => `${level} ${[message].flat()[0]}`)[0])
          assert.deepEqual(said, ["ERROR the bytes of a message are not there", "WARN a message could not be parsed; it is shown by its head"])
        })
      )
    )
  ]
}, Layer.merge(memory, Layer.provideMerge(gated, companions)))
