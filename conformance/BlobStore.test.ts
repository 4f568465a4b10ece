/** What authors get wrong about blobs: each flaw is put into a store that is right, and a law names it. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Stream } from "effect"
import { hash } from "node:crypto"
import * as MemoryBlobStore from "../adapters/memory/MemoryBlobStore.ts"
import { BlobCorrupt, BlobStore } from "../core/ports/BlobStore.ts"
import { suite } from "./BlobStore.ts"
import { conforms, prove } from "./Proof.ts"

type Store = BlobStore["Service"]

const yields = Effect.repeat(Effect.yieldNow, { times: 5 })

/** Its finish writes where readers look. */
const inPlace = (store: Store): Store => {
  const torn = new Set<string>()
  return {
    ...store,
    writer: (tenantId) =>
      Effect.map(store.writer(tenantId), (writer) => {
        const pieces: Array<Uint8Array> = []
        return {
          append: (bytes) => Effect.andThen(Effect.sync(() => pieces.push(Uint8Array.from(bytes))), writer.append(bytes)),
          finish: Effect.gen(function* () {
            const sha256 = hash("sha256", Buffer.concat(pieces), "hex") // at once: the law interrupts after so many turns, and not after so long
            torn.add(`${tenantId} ${sha256}`)
            yield* yields
            torn.delete(`${tenantId} ${sha256}`)
            return yield* writer.finish
          })
        }
      }),
    read: (tenantId, ref) =>
      torn.has(`${tenantId} ${ref.sha256}`) ? Stream.fail(new BlobCorrupt({ sha256: ref.sha256 })) : store.read(tenantId, ref)
  }
}

/** All that writers of a tenant take until one finishes becomes one blob. */
const oneDraft = (store: Store): Store => {
  const drafts = new Map<string, Array<Uint8Array>>()
  return {
    ...store,
    writer: (tenantId) =>
      Effect.map(store.writer(tenantId), (writer) => ({
        append: (bytes) => Effect.sync(() => void drafts.set(tenantId, [...(drafts.get(tenantId) ?? []), Uint8Array.from(bytes)])),
        finish: Effect.suspend(() => {
          const pieces = drafts.get(tenantId) ?? []
          drafts.delete(tenantId)
          return Effect.andThen(Effect.forEach(pieces, writer.append), writer.finish)
        })
      }))
  }
}

/** Looks how old the blob is, and then removes it, however old it is by then. */
const looksFirst = (store: Store): Store => ({
  ...store,
  remove: Effect.fnUntraced(function* (tenantId, sha256, before) {
    const { blobs } = yield* store.olderThan({ before, after: null, limit: 1_000_000 })
    if (!blobs.some((blob) => blob.tenantId === tenantId && blob.sha256 === sha256)) return
    yield* yields
    yield* store.remove(tenantId, sha256, Number.MAX_SAFE_INTEGER)
  })
})

/** What it has once read is at hand for the next reader. */
const sharedPieces = (store: Store): Store => {
  const read = new Map<string, ReadonlyArray<Uint8Array>>()
  return {
    ...store,
    read: (tenantId, ref) =>
      Stream.unwrap(
        Effect.map(Stream.runCollect(store.read(tenantId, ref)), (pieces) => {
          const name = `${tenantId} ${ref.sha256}`
          const known = read.get(name) ?? pieces
          read.set(name, known)
          return Stream.fromIterable(known)
        })
      )
  }
}

/** All that it reads comes in one buffer. */
const oneBuffer = (store: Store): Store => {
  const buffer = new Uint8Array(64 * 1024)
  return {
    ...store,
    read: (tenantId, ref) =>
      Stream.map(store.read(tenantId, ref), (piece) => {
        buffer.set(piece)
        return buffer.subarray(0, piece.length)
      })
  }
}

const flaws: ReadonlyArray<readonly [flaw: string, law: string, make: (store: Store) => Store]> = [
  ["a finish that is interrupted in the middle", "shows a blob whole or not at all when its finish is interrupted, however late", inPlace],
  ["writers that share a draft", "keeps the bytes of writers apart that take their pieces by turns", oneDraft],
  ["pieces that readers share", "gives each reader pieces of its own, to write over and to keep", sharedPieces],
  ["one buffer for all pieces", "gives each reader pieces of its own, to write over and to keep", oneBuffer],
  ["a removal of what was old a moment ago", "loses no blob whose next finish begins at any moment of its removal", looksFirst]
]

describe("the suite of BlobStore", () => {
  for (const [flaw, law, make] of flaws) {
    it.live(`refuses ${flaw}`, () =>
      Effect.gen(function* () {
        const flawed = Layer.effect(BlobStore, Effect.map(BlobStore, make)).pipe(Layer.provide(MemoryBlobStore.layer))

        const { checks } = yield* prove([conforms("flawed", suite(), flawed)], { filter: [law], timeout: "8 seconds", onResult: () => Effect.void })

        assert.deepStrictEqual(checks.map(({ title, outcome }) => [title, outcome]), [[law, "failed"]])
      }))
  }
})
