import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted, Result, Stream } from "effect"
import * as Memory from "../../adapters/memory/index.ts"
import * as RfcMime from "../../adapters/mime/RfcMime.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import * as Address from "../model/Address.ts"
import type { ApiKeyId, RequestId } from "../model/Ids.ts"
import * as Limits from "../model/Limits.ts"
import { BlobStore } from "../ports/BlobStore.ts"
import { defaults, Settings } from "../Settings.ts"
import { Attachments } from "./Attachments.ts"
import { Management } from "./Management.ts"
import * as Pieces from "./Pieces.ts"
import { Receive } from "./Receive.ts"
import { RecordReport } from "./RecordReport.ts"
import { RequestLog } from "./RequestLog.ts"

const byByte = (bytes: Uint8Array): Stream.Stream<Uint8Array> =>
  Stream.map(Stream.range(0, bytes.length - 1), (at) => bytes.subarray(at, at + 1))

/** Numbers of its own at each place. */
const numbered = (length: number): Uint8Array => Uint8Array.from({ length }, (_, at) => at % 251)

const sizes = (pieces: ReadonlyArray<Uint8Array>) => pieces.map(({ length }) => length)

describe("Pieces", () => {
  it.effect("are put together from bytes that come one at a time", () =>
    Effect.gen(function* () {
      const bytes = numbered(40_000)

      const pieces = yield* Stream.runCollect(Pieces.ofStream(byByte(bytes)))

      assert.deepStrictEqual(sizes(pieces), [16_384, 16_384, 40_000 - 2 * 16_384])
      assert.deepStrictEqual(new Uint8Array(Buffer.concat(pieces)), bytes)
    })
  )

  it.effect("go on as they are where they are large, behind what came before them", () =>
    Effect.gen(function* () {
      const bytes = numbered(60_001)
      const given = [bytes.subarray(0, 1), bytes.subarray(1, 20_001), bytes.subarray(20_001, 36_385), bytes.subarray(36_385)]

      const pieces = yield* Stream.runCollect(Pieces.ofStream(Stream.make(...given)))

      assert.deepStrictEqual(sizes(pieces), [1, 20_000, 16_384, 60_001 - 36_385])
      assert.strictEqual(pieces[1], given[1])
      assert.deepStrictEqual(new Uint8Array(Buffer.concat(pieces)), bytes)
    })
  )

  it.effect("are none of no bytes", () =>
    Effect.gen(function* () {
      const pieces = yield* Stream.runCollect(Pieces.ofStream(Stream.make(new Uint8Array(0), new Uint8Array(0))))

      assert.deepStrictEqual(pieces, [])
    })
  )
})

describe("What comes a byte at a time", () => {
  /** How many pieces were stored. */
  let appends = 0
  const counting = Layer.effect(
    BlobStore,
    Effect.map(BlobStore, (blobs) => ({
      ...blobs,
      writer: (tenantId) =>
        Effect.map(blobs.writer(tenantId), ({ append, finish }) => ({
          append: (bytes: Uint8Array) => Effect.suspend(() => ((appends += 1), append(bytes))),
          finish
        }))
    }))
  )
  const ports = Layer.mergeAll(
    Memory.MemoryStore.layer,
    Memory.MemoryJobQueue.layer,
    Memory.MemoryRateLimiter.layer,
    Layer.provide(counting, Memory.MemoryBlobStore.layer),
    RfcMime.layer,
    NodeCrypto.layerSeeded("pieces", { sealingKeys: [{ version: 1, key: Redacted.make(new Uint8Array(32)) }] }),
    Layer.succeed(Settings, { ...defaults, inboundEnvironment: "sandbox" })
  )
  const layer = Layer.mergeAll(Layer.provide(Receive.layer, RecordReport.layer), Attachments.layer, Management.layer).pipe(
    Layer.provideMerge(RequestLog.layer),
    Layer.provideMerge(ports)
  )
  const actor = { type: "operator", id: "ada" } as const

  const founded = Effect.gen(function* () {
    const management = yield* Management
    yield* management.createPlan(actor, { id: "standard" })
    const { id: tenantId } = yield* management.createTenant(actor, { name: "Analytical Engines", planId: "standard" })
    const application = yield* management.createApplication(actor, { tenantId, environment: "sandbox", name: "Billing" })
    const domain = yield* management.createDomain(actor, { tenantId, domain: Result.getOrThrow(Address.parseDomain("mail.example")) })
    const checked = { state: "ok", expected: "yes", observed: "yes", since: 0 } as const
    yield* management.recordChecks(tenantId, domain.id, [{ record: "ownership", ...checked }, { record: "dkim", ...checked }])
    const mailbox = yield* management.createMailbox(actor, {
      tenantId,
      address: Result.getOrThrow(Address.parse("ada@mail.example")),
      displayName: "Ada"
    })
    return { tenantId, application, mailbox }
  })

  it.effect("is stored in larger pieces, mail and uploads", () =>
    Effect.gen(function* () {
      const { tenantId, application, mailbox } = yield* founded
      const mail = Buffer.concat([Buffer.from("From: charles@example.org\r\n\r\n"), Buffer.alloc(50_000, "x\r\n")])
      appends = 0
      yield* (yield* Receive).accept({
        peer: { remoteAddress: "192.0.2.25", helo: "mx.example.org", protocol: "ESMTPS" },
        returnPath: "charles@example.org",
        recipients: ["ada@mail.example"],
        bytes: byByte(mail)
      })
      const ofMail = appends
      appends = 0
      const { sizeBytes } = yield* (yield* Attachments).upload(
        {
          realm: { tenantId, environment: "sandbox" },
          applicationId: application.id,
          apiKeyId: "key" as ApiKeyId,
          scopes: [],
          plan: Limits.plans[0]!,
          requestId: "request" as RequestId,
          clientAddress: "192.0.2.1"
        },
        { mailboxId: mailbox.id, filename: "a.bin", mediaType: "application/octet-stream" },
        byByte(numbered(50_000))
      )

      assert.strictEqual(sizeBytes, 50_000)
      assert.deepStrictEqual([ofMail, appends], [4, 4]) // our trace goes with the first of mail
    }).pipe(Effect.provide(layer))
  )
})
