/** How a Mailroom inside a program ends: what it waits for, and for how long. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Stream } from "effect"
import { onTestFinished, vi } from "vitest"
import * as Memory from "../../adapters/memory/index.ts"
import { aroundEach } from "../../conformance/scenarios/Faults.ts"
import { BlobStore } from "../../core/ports/BlobStore.ts"
import type { MailProvider } from "../../core/ports/MailProvider.ts"
import { Store } from "../../core/ports/Store.ts"
import { WebhookTransport } from "../../core/ports/WebhookTransport.ts"
import { embed, found, from, get } from "./harness.ts"

describe("an embedded Mailroom that closes", () => {
  it("lets a request that is under way finish before it closes", async () => {
    const answer = Promise.withResolvers<void>()
    const posted = Promise.withResolvers<void>()
    const slow = Layer.succeed(WebhookTransport, {
      get: () => Effect.die("nothing is fetched"),
      post: ({ body }) =>
        Effect.promise(async () => {
          posted.resolve()
          await answer.promise
          const { challenge } = JSON.parse(new TextDecoder().decode(body)).data
          return { status: 200, retryAfter: null, body: new TextEncoder().encode(JSON.stringify({ challenge })), truncated: false }
        })
    })
    const mailroom = await embed({ webhooks: slow })
    const { apiKey } = await found(mailroom)
    const creating = mailroom.client(apiKey).createWebhookEndpoint({ url: "https://hooks.example.com/", eventTypes: ["*"] })
    await posted.promise

    const closing = mailroom.close()
    assert.strictEqual((await mailroom.fetch(get("/v1/messages"), from)).status, 503)
    answer.resolve()

    assert.match((await creating).secret, /^whsec_/)
    await closing
  })

  /** A Mailroom on a store whose calls are noted, and answered when it is told to. */
  const hesitant = async () => {
    const calls: Array<string> = []
    const [isAsked, mayAnswer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const noted = (call: string) => {
      calls.push(call)
      isAsked.resolve()
      return mayAnswer.promise
    }
    const store = Layer.effect(
      Store,
      Effect.map(Store, (real) => aroundEach(real, "Store", (call, effect) => Effect.andThen(Effect.promise(() => noted(call)), effect)))
    )
    const mailroom = await embed({ store: Layer.provide(store, Memory.MemoryStore.layer) })
    return { mailroom, calls, isAsked: isAsked.promise, answer: mayAnswer.resolve }
  }

  it("lives and is not ready while it closes and from then on, which it knows without its store", async () => {
    const { mailroom, calls } = await hesitant()
    const probes = async () => {
      const replies = await Promise.all(["/healthz", "/readyz"].map((path) => mailroom.fetch(get(path), from)))
      return Promise.all(replies.map(async (reply) => [reply.status, reply.headers.get("retry-after"), reply.headers.get("connection"), await reply.json()]))
    }

    const closing = mailroom.close()
    const meanwhile = await probes()
    await closing

    for (const [alive, ready] of [meanwhile, await probes()]) {
      assert.deepStrictEqual(alive, [200, null, "close", { status: "alive" }])
      assert.deepStrictEqual(ready?.slice(0, 3), [503, "1", "close"])
    }
    assert.deepStrictEqual(calls, [])
  })

  it("is no longer ready for whoever asked before, and is answered while it closes", async () => {
    const { mailroom, isAsked, answer } = await hesitant()
    const early = mailroom.fetch(get("/readyz"), from)
    await isAsked

    const closing = mailroom.close()
    assert.strictEqual((await mailroom.fetch(get("/v1/messages"), from)).status, 503)
    answer()

    const { status, headers } = await early
    assert.deepStrictEqual([status, headers.get("retry-after")], [503, "1"])
    await closing
  })

  /** A Mailroom with a download that has been answered and not read, and what becomes of its blobs. */
  const downloading = async () => {
    const life: Array<string> = []
    const lines: Array<string> = []
    const note = (event: string) => Effect.sync(() => life.push(event))
    const opened = Effect.gen(function* () {
      yield* Effect.addFinalizer(() => note("closed"))
      const real = yield* BlobStore
      return { ...real, read: (tenantId, blob) => Stream.ensuring(real.read(tenantId, blob), note("read")) } satisfies typeof real
    })
    const blobs = Layer.provide(Layer.effect(BlobStore, opened), Memory.MemoryBlobStore.layer)
    const mailroom = await embed({ blobs, log: (line) => lines.push(line) })
    const { apiKey, mailboxId } = await found(mailroom)
    const contentBase64 = Buffer.alloc(300_000, 7).toString("base64")
    const input = { mailboxId, filename: "bytes.bin", mediaType: "application/octet-stream", contentBase64 }
    const { attachment } = await mailroom.client(apiKey).uploadAttachment(input)
    await mailroom.tick() // the scanner has read it
    life.length = 0
    const path = `/v1/attachments/${attachment.id}/download`
    const response = await mailroom.fetch(get(path, { authorization: `Bearer ${apiKey}` }), from)
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    onTestFinished(() => void vi.useRealTimers())
    return { mailroom, life, lines, path, response, contentBase64 }
  }

  it("lets a download that is under way come to its end before it closes what it reads from, and closes at once then", async () => {
    const { mailroom, life, path, response, contentBase64 } = await downloading()

    const closing = mailroom.close().then(() => life.push("all is closed"))
    assert.strictEqual((await mailroom.fetch(get(path), from)).status, 503)
    const text = await response.text()
    await closing

    assert.strictEqual(JSON.parse(text).contentBase64, contentBase64)
    assert.deepStrictEqual(life, ["read", "closed", "all is closed"])
  })

  it("closes in time though nobody reads a download to its end", async () => {
    const { mailroom, life, lines } = await downloading()

    void mailroom.close().then(() => life.push("all is closed"))
    await vi.advanceTimersByTimeAsync(18_999)
    const before = life.length
    await vi.advanceTimersByTimeAsync(1_000)

    assert.deepStrictEqual([before, life], [0, ["closed", "all is closed"]])
    assert.notInclude(lines.join(), "\"ERROR\"")
  })

  it("answers who is still sending a body when the time to finish is over", async () => {
    const mailroom = await embed()
    const { apiKey } = await found(mailroom)
    const headers = { authorization: `Bearer ${apiKey}`, "content-type": "application/json", "idempotency-key": "12345678" }
    const sends = ["/v1/messages", "/v1/attachments"].map((path) => {
      const wanted = Promise.withResolvers<void>()
      const body = new ReadableStream({ pull: () => wanted.resolve() }, { highWaterMark: 0 })
      const init = { method: "POST", headers, body, duplex: "half" }
      return { wanted: wanted.promise, answer: mailroom.fetch(new Request(`http://mailroom.internal${path}`, init), from) }
    })
    await Promise.all(sends.map(({ wanted }) => wanted))
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    onTestFinished(() => void vi.useRealTimers())

    const closing = mailroom.close()
    await vi.advanceTimersByTimeAsync(20_000)

    assert.deepStrictEqual((await Promise.all(sends.map(({ answer }) => answer))).map(({ status }) => status), [503, 503])
    await closing
  })

  it("ends a tick with what it has begun, and leaves the rest of what is due", async () => {
    let submitted = 0
    const closing: Array<Promise<void>> = []
    const provider: MailProvider = {
      name: "counting",
      submit: ({ messageId, envelope }) =>
        Effect.sync(() => {
          submitted += 1
          if (submitted === 1) closing.push(mailroom.close())
          const reply = { smtpCode: 250, enhancedCode: null, text: null }
          return { providerMessageId: messageId, replies: envelope.recipients.map((recipient) => ({ recipient, reply })), pollAt: null }
        }),
      poll: () => Effect.die("nobody polls")
    }
    const mailroom = await embed({ provider })
    const { apiKey, mailboxId } = await found(mailroom, "production")
    const client = mailroom.client(apiKey)
    for (let sent = 0; sent < 100; sent++) await client.sendMessage({ fromMailboxId: mailboxId, to: ["charles@example.com"], text: "x" })

    await mailroom.tick()
    await Promise.all(closing)

    assert.strictEqual(submitted, 64, "as many as one tenant has under way")
  })

  it("begins nothing more in a tick that was reading the log when it was told to", async () => {
    let submitted = 0
    const provider: MailProvider = { name: "counting", submit: () => Effect.die(`nothing is mailed, and this is ${++submitted}`), poll: () => Effect.die("nobody polls") }
    const closing: Array<Promise<void>> = []
    const store = Layer.effect(
      Store,
      Effect.map(Store, (real) => ({
        ...real,
        relay: { ...real.relay, behind: Effect.tap(real.relay.behind, () => Effect.sync(() => void closing.push(mailroom.close()))) }
      }))
    )
    const mailroom = await embed({ provider, store: Layer.provide(store, Memory.MemoryStore.layer) })
    const { apiKey, mailboxId } = await found(mailroom, "production")
    await mailroom.client(apiKey).sendMessage({ fromMailboxId: mailboxId, to: ["charles@example.com"], text: "x" })

    await mailroom.tick()
    await Promise.all(closing)

    assert.deepStrictEqual([submitted, closing.length > 0], [0, true])
  })

  it("closes though its provider hangs, and says what it leaves behind", async () => {
    const lines: Array<string> = []
    const submitting = Promise.withResolvers<void>()
    const hanging = Effect.uninterruptible(Effect.never)
    const provider: MailProvider = {
      name: "hanging",
      submit: () => Effect.andThen(Effect.sync(() => submitting.resolve()), hanging),
      poll: () => hanging
    }
    const opened = Effect.acquireRelease(Effect.succeed(provider), () => hanging)
    const life: Array<string> = []
    const queue = Layer.unwrap(Effect.as(Effect.addFinalizer(() => Effect.sync(() => life.push("closed"))), Memory.MemoryJobQueue.layer))
    const mailroom = await embed({ provider: opened, queue, log: (line) => lines.push(line) })
    const { apiKey, mailboxId } = await found(mailroom, "production")
    await mailroom.start()
    await mailroom.client(apiKey).sendMessage({ fromMailboxId: mailboxId, to: ["charles@example.com"], text: "x" })
    await submitting.promise
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })

    let isClosed = false
    void mailroom.close().then(() => (isClosed = true))
    await vi.advanceTimersByTimeAsync(45_000).finally(() => vi.useRealTimers())

    assert.deepStrictEqual([isClosed, life], [true, ["closed"]])
    const errors = lines.map((line) => JSON.parse(line)).filter(({ level }) => level === "ERROR")
    assert.deepStrictEqual(errors.map(({ message }) => String(message)), [
      "the work in the background did not end within 15 seconds, and is left behind",
      "an adapter did not close within 10 seconds, and is left behind"
    ])
  })
})
