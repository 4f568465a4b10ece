import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Effect, Exit, Layer, Redacted, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as Memory from "../../adapters/memory/index.ts"
import * as RfcMime from "../../adapters/mime/RfcMime.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import * as Fixtures from "../../conformance/fixtures.ts"
import { peer, plain } from "../../conformance/scenarios/Arrivals.ts"
import * as Time from "../../conformance/scenarios/Time.ts"
import { loggedTo } from "../../conformance/scenarios/World.ts"
import { insert, land } from "../../conformance/StoreLaw.ts"
import { parse } from "../model/Address.ts"
import { inboundHeadBytesMax } from "../model/Limits.ts"
import type { Authentication, Examined, Peer } from "../model/Reception.ts"
import { BlobStore } from "../ports/BlobStore.ts"
import { MailAuthenticator } from "../ports/MailAuthenticator.ts"
import { SpamFilter } from "../ports/SpamFilter.ts"
import { Store, StoreUnavailable } from "../ports/Store.ts"
import { defaults, Settings } from "../Settings.ts"
import { Receive } from "./Receive.ts"
import { RecordReport } from "./RecordReport.ts"

type Bytes = Stream.Stream<Uint8Array, unknown>

/**
 * Who is asked about a message, and a store that does not say of a commit that it takes it, after so many milliseconds, and is
 * away until then, and then fails so many commits of a premise alone.
 */
interface Around {
  readonly authenticate?: (bytes: Bytes, peer: Peer) => Effect.Effect<Examined>
  readonly judge?: (bytes: Bytes) => Effect.Effect<"ham" | "spam">
  readonly landsAfter?: number
  readonly failsPremises?: number
}

const cut = (bytes: Uint8Array, size: number): ReadonlyArray<Uint8Array> =>
  Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) => bytes.subarray(index * size, (index + 1) * size))

/** A mailbox, and a message that is brought to it. */
const receiving = Effect.fnUntraced(function* ({ authenticate, judge, landsAfter, failsPremises = 0 }: Around) {
  const memory = Context.get(yield* Layer.build(Memory.MemoryStore.layer), Store)
  const { id: tenantId, ...tenant } = Fixtures.tenant()
  const domain = Fixtures.mailDomain(tenantId)
  const mailbox = Fixtures.mailbox(domain)
  yield* land(memory, insert("tenant", { id: tenantId, ...tenant }), insert("domain", domain), insert("mailbox", mailbox))

  let [isAway, premises] = [false, 0]
  const away = Effect.suspend(() => {
    isAway = true
    return Effect.fail(new StoreUnavailable({ cause: "no answer in time" }))
  })
  const store: typeof Store.Service = {
    ...memory,
    messages: { ...memory.messages, get: (...given) => (isAway ? away : memory.messages.get(...given)) },
    commit: (...given) => {
      if (landsAfter === undefined) return memory.commit(...given)
      if (given[0].every(({ _tag }) => _tag === "Require")) {
        return premises++ < failsPremises ? Effect.fail(new StoreUnavailable({ cause: "no answer in time" })) : memory.commit(...given)
      }
      const landing = Effect.ensuring(memory.commit(...given), Effect.sync(() => (isAway = false)))
      return Effect.andThen(Effect.forkDetach(Effect.delay(landing, landsAfter)), away)
    }
  }
  const memoryBlobs = Context.get(yield* Layer.build(Memory.MemoryBlobStore.layer), BlobStore)
  let reads = 0
  const read: typeof memoryBlobs.read = (...given) =>
    Stream.suspend(() => (reads++, Stream.flatMap(memoryBlobs.read(...given), (piece) => Stream.fromIterable(cut(piece, 50)))))
  const ports = Layer.mergeAll(
    Layer.succeed(Store, store),
    Memory.MemoryJobQueue.layer,
    Layer.succeed(BlobStore, { ...memoryBlobs, read }),
    RfcMime.layer,
    NodeCrypto.layerSeeded("receiving", { sealingKeys: [{ version: 1, key: Redacted.make(new Uint8Array(32)) }] }),
    Layer.succeed(Settings, { ...defaults, inboundEnvironment: "sandbox" }),
    authenticate === undefined ? Layer.empty : Layer.succeed(MailAuthenticator, { authenticate: ({ bytes, peer }) => authenticate(bytes, peer) }),
    judge === undefined ? Layer.empty : Layer.succeed(SpamFilter, { judge: ({ bytes }) => judge(bytes) })
  )
  const context = yield* Layer.build(Receive.layer.pipe(Layer.provide(RecordReport.layer), Layer.provide(ports)))
  const receive = Context.get(context, Receive)
  const { accept } = receive

  /** Brings it, for a minute and more: how that ended, after how many milliseconds, and what the mailbox has then. */
  const bring = Effect.fnUntraced(function* (bytes: Stream.Stream<Uint8Array> = Stream.make(plain()), from: Peer = peer) {
    const since = yield* Clock.currentTimeMillis
    const accepting = Effect.exit(accept({ peer: from, returnPath: "charles@sender.example", recipients: [mailbox.address], bytes }))
    const ending = Effect.flatMap(accepting, (exit) => Effect.map(Clock.currentTimeMillis, (now) => ({ exit, tookMillis: now - since })))
    const fiber = yield* Effect.forkChild(ending, { startImmediately: true })
    yield* Time.adjust("65 seconds", "500 millis")
    const ended = fiber.pollUnsafe()
    assert.ok(ended !== undefined && Exit.isSuccess(ended), "it has ended")
    const messages = yield* store.messages.page({ tenantId, environment: "sandbox" }, { mailboxId: null, before: null, limit: 10 })
    return { ...ended.value, messages, reads }
  })
  return { bring, receive, store, domain, mailbox }
})

const nobody: Authentication = { spf: "fail", dkim: "fail", dmarc: "fail", arc: "none", dmarcPolicy: "quarantine" }

const wholeOf = (bytes: Bytes) => Effect.orDie(Stream.mkUint8Array(bytes))

describe("who brings a message", () => {
  it.effect("from an IPv4 address in IPv6's form comes from that address, for those who are asked and in what is kept", () =>
    Effect.gen(function* () {
      for (const remoteAddress of ["::ffff:192.0.2.7", "::FFFF:C000:207", "0:0:0:0:0:ffff:c000:0207"]) {
        const asked: Array<string> = []
        const { bring } = yield* receiving({
          authenticate: (_, peer) => Effect.sync(() => asked.push(peer.remoteAddress)).pipe(Effect.as({ ...nobody, author: null }))
        })

        const { messages } = yield* bring(undefined, { ...peer, remoteAddress })

        assert.deepStrictEqual(asked, ["192.0.2.7"])
        assert.deepStrictEqual(messages.map(({ reception }) => reception?.peer.remoteAddress), ["192.0.2.7"])
      }
    }).pipe(Effect.scoped)
  )
})

describe("who is asked about a message", () => {
  it.effect("is waited for for 30 seconds, and then the message is taken as if nobody had been asked", () =>
    Effect.gen(function* () {
      const { bring } = yield* receiving({ authenticate: () => Effect.never, judge: () => Effect.never })

      const { exit, tookMillis, messages } = yield* bring()

      assert.deepStrictEqual([exit._tag, tookMillis], ["Success", 60_000])
      assert.deepStrictEqual(messages.map(({ folder, reception }) => [folder, reception?.authentication]), [["inbox", null]])
    })
  )

  it.effect("is heard within that time", () =>
    Effect.gen(function* () {
      const { bring } = yield* receiving({ authenticate: () => Effect.delay(Effect.succeed({ ...nobody, author: null }), "29 seconds") })

      const { messages } = yield* bring()

      assert.deepStrictEqual(messages.map(({ folder, reception }) => [folder, reception?.authentication]), [["spam", nobody]])
    })
  )

  it.effect("is not heard where it breaks, and the operator is told who did", () =>
    Effect.gen(function* () {
      const lines: Array<string> = []
      const breaks = () => Effect.die(new Error("a bug"))
      const { bring } = yield* receiving({ authenticate: breaks, judge: breaks })

      const { messages } = yield* Effect.provide(bring(), loggedTo(lines))

      assert.deepStrictEqual(messages.map(({ folder, reception }) => [folder, reception?.authentication]), [["inbox", null]])
      for (const who of ["MailAuthenticator", "SpamFilter"]) assert.ok(lines.some((line) => line.includes(`${who} broke`)), who)
    })
  )

  it.effect("need not be there", () =>
    Effect.gen(function* () {
      const { bring } = yield* receiving({})

      const { messages } = yield* bring()

      assert.deepStrictEqual(messages.map(({ folder, reception }) => [folder, reception?.authentication]), [["inbox", null]])
    })
  )

  it.effect("sees what came, though whoever brought it has used its chunks again", () =>
    Effect.gen(function* () {
      const size = 20_000
      const head = Buffer.alloc(size, plain({}, "x".repeat(size)))
      const body = Buffer.alloc(size, "y")
      const chunk = Buffer.alloc(size)
      const reused = Stream.flatMap(Stream.make(head, body), (bytes) => Stream.sync(() => (chunk.set(bytes), chunk)))
      const judged: Array<Buffer> = []
      const { bring } = yield* receiving({ judge: (bytes) => Effect.map(wholeOf(bytes), (whole) => (judged.push(Buffer.from(whole)), "ham")) })

      yield* bring(reused)

      assert.ok(judged.length === 1 && judged[0]!.equals(Buffer.concat([head, body])))
    })
  )
})

describe("a large message", () => {
  it.effect("is shown to its end, though no more than its beginning is kept at hand", () =>
    Effect.gen(function* () {
      const bytes = Buffer.from(plain({}, "The engine weaves.\n".repeat(20_000)))
      const judged: Array<Uint8Array> = []
      const { bring } = yield* receiving({ judge: (shown) => Effect.map(wholeOf(shown), (whole) => (judged.push(whole), "ham")) })

      const { reads } = yield* bring(Stream.fromIterable(cut(bytes, 10_000)))

      assert.strictEqual(reads, 1, "what is not at hand is read back")
      assert.isAbove(bytes.length, inboundHeadBytesMax)
      assert.ok(judged.length === 1 && bytes.equals(judged[0]!))
    })
  )
})

describe("what was told of a recipient", () => {
  it.effect("holds for a minute, and is looked up again for a message that comes later", () =>
    Effect.gen(function* () {
      const { receive, store, domain, mailbox } = yield* receiving({})
      const address = yield* Effect.fromResult(parse(`new@${domain.domain}`))
      yield* land(store, { _tag: "Update", kind: "domain", record: { ...domain, version: domain.version + 1, catchAll: mailbox.id } })
      yield* receive.recipient(address)
      const own = { ...Fixtures.mailbox(domain), address }
      yield* land(store, insert("mailbox", own))
      const accept = receive.accept({ peer, returnPath: null, recipients: [address], bytes: Stream.make(plain()) })

      yield* TestClock.adjust("59 seconds")
      yield* accept
      yield* TestClock.adjust("1 second")
      yield* accept

      const messages = yield* store.messages.page({ tenantId: domain.tenantId, environment: "sandbox" }, { mailboxId: null, before: null, limit: 10 })
      assert.deepStrictEqual(messages.map(({ mailboxId }) => mailboxId), [own.id, mailbox.id])
    })
  )
})

describe("a message whose commit had no answer", () => {
  it.effect("is looked for each second, for 20 seconds, though the store is away, before its sender is told to bring it again", () =>
    Effect.gen(function* () {
      const broughtAt = (landsAfter: number) => Effect.flatMap(receiving({ landsAfter }), ({ bring }) => bring())

      const [found, late] = [yield* broughtAt(18_500), yield* broughtAt(20_500)]

      assert.deepStrictEqual([found.exit._tag, found.tookMillis, found.messages.length], ["Success", 19_000, 1])
      assert.deepStrictEqual([late.exit._tag, late.tookMillis], ["Failure", 20_000])
    })
  )

  it.effect("is as good as taken when it is found and a commit lands behind it: what is read may be on one server only", () =>
    Effect.gen(function* () {
      const broughtWith = (failsPremises: number) => Effect.flatMap(receiving({ landsAfter: 500, failsPremises }), ({ bring }) => bring())

      const [stands, never] = [yield* broughtWith(2), yield* broughtWith(100)]

      assert.deepStrictEqual([stands.exit._tag, stands.tookMillis, stands.messages.length], ["Success", 3_000, 1])
      assert.deepStrictEqual([never.exit._tag, never.tookMillis], ["Failure", 20_000])
    })
  )
})
