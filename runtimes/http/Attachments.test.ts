import { assert, it, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Stream } from "effect"
import { BlobCorrupt, BlobMissing, BlobUnavailable, type BlobStore } from "../../core/ports/BlobStore.ts"
import * as Harness from "./harness.ts"

const live = { excludeTestServices: true }
const sizeMax = 26_214_400
const bodyBytesMax = 37_748_736

const rest = { filename: "a.bin", mediaType: "application/octet-stream" }
const fields = ({ mailbox }: Harness.Party) => ({ mailboxId: mailbox.id, ...rest })

/** An upload's body of so many bytes of content, in pieces: it is not held whole here either. Spaces make it longer. */
const streamed = (server: Harness.Party, sizeBytes: number, bodyBytesMin = 0): ReadableStream<Uint8Array> => {
  const head = `${JSON.stringify(fields(server)).slice(0, -1)},"contentBase64":"`
  const group = Buffer.alloc(3 * 16_384, 7)
  let left = sizeBytes
  let isBegun = false
  return new ReadableStream({
    pull: (controller) => {
      if (!isBegun) controller.enqueue(Buffer.from(head))
      isBegun = true
      const size = Math.min(left, group.length)
      controller.enqueue(Buffer.from(group.subarray(0, size).toString("base64")))
      left -= size
      if (left > 0) return
      controller.enqueue(Buffer.from("\"}".padEnd(bodyBytesMin - head.length - 4 * Math.ceil(sizeBytes / 3))))
      controller.close()
    }
  })
}

layer(Harness.layer(), live)("uploadAttachment", (it) => {
  it.effect("stores the bytes that downloadAttachment gives back, once the scan is clean", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      for (const size of [0, 1, 2, 3, 4, 100_000]) {
        const bytes = Buffer.alloc(size, "é😀")
        const filename = `ü "x" ${size}.txt`
        const input = { ...fields(server), filename, mediaType: "text/plain", contentBase64: bytes.toString("base64") }

        const { status, json } = yield* server.call("POST", "/v1/attachments", { body: input })
        assert.strictEqual(status, 201)
        const { id, sizeBytes, scanState, messageId } = json.attachment
        assert.deepStrictEqual([sizeBytes, scanState, messageId], [size, "pending", null])

        const early = yield* server.call("GET", `/v1/attachments/${id}/download`)
        assert.deepStrictEqual([early.status, early.json.code], [409, "attachment_not_clean"])
        assert.deepStrictEqual(early.json.details, { scanState: "pending", attachmentId: id })
        assert.strictEqual(early.headers.get("retry-after"), "5")

        yield* server.scanned(server, id, "Clean")
        const { json: downloaded, headers, text } = yield* server.call("GET", `/v1/attachments/${id}/download`)
        assert.deepStrictEqual(downloaded, { filename, mediaType: "text/plain", contentBase64: input.contentBase64 })
        assert.strictEqual(headers.get("content-length"), String(Buffer.byteLength(text)))
        const [type, caches, sniffing] = ["content-type", "cache-control", "x-content-type-options"].map((name) => headers.get(name))
        assert.deepStrictEqual([type, caches, sniffing], ["application/json", "no-store", "nosniff"])
        assert.match(headers.get("x-request-id") ?? "", /^[0-9a-f-]{36}$/)
        assert.match(headers.get("ratelimit-remaining") ?? "", /^\d+$/)
      }
    })
  )

  it.effect("takes the largest file in the longest body, and gives it back", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running

      const { status, json } = yield* server.call("POST", "/v1/attachments", { body: streamed(server, sizeMax, bodyBytesMax) })

      assert.strictEqual(status, 201)
      assert.strictEqual(json.attachment.sizeBytes, sizeMax)
      yield* server.scanned(server, json.attachment.id, "Clean")
      const { text } = yield* server.call("GET", `/v1/attachments/${json.attachment.id}/download`)
      assert.isTrue(text.endsWith("BwcHBw==\"}"))
      assert.strictEqual(text.length, JSON.stringify({ ...rest, contentBase64: "" }).length + 4 * Math.ceil(sizeMax / 3))
    })
  )

  it.effect("refuses one byte more, and keeps nothing", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running

      const { status, json } = yield* server.call("POST", "/v1/attachments", { body: streamed(server, sizeMax + 1) })

      assert.deepStrictEqual([status, json.code, json.details], [413, "attachment_too_large", { limitBytes: sizeMax }])
    })
  )

  const inputs: ReadonlyArray<readonly [what: string, change: object, paths: ReadonlyArray<string>]> = [
    ["a file name of 255 characters", { filename: "😀".repeat(255) }, []],
    ["a file name of 256 characters", { filename: "x".repeat(256) }, ["/filename"]],
    ["an empty file name", { filename: "" }, ["/filename"]],
    ["a path as file name", { filename: "../x" }, ["/filename"]],
    ["a media type of 120 characters", { mediaType: `a/${"x".repeat(118)}` }, []],
    ["a media type of 121 characters", { mediaType: `a/${"x".repeat(119)}` }, ["/mediaType"]],
    ["a media type with a line break", { mediaType: "a/b\r\nx: y" }, ["/mediaType"]],
    ["a mailbox id that is no UUID", { mailboxId: "x" }, ["/mailboxId"]],
    [
      "several faults at once",
      { mailboxId: 5, filename: null, contentBase64: [], size: 1 },
      ["/contentBase64", "/filename", "/mailboxId", "/size"]
    ],
    ["the member __proto__", { ["__proto__"]: "x" }, ["/__proto__"]],
    ["the member tenantId", { tenantId: "x" }, ["/tenantId"]],
    ["the member scanState", { scanState: "clean" }, ["/scanState"]],
    ["content that is no Base64", { contentBase64: "a b" }, ["/contentBase64"]],
    ["Base64 for URLs", { contentBase64: "_-8=" }, ["/contentBase64"]],
    ["Base64 without padding", { contentBase64: "QQ" }, ["/contentBase64"]],
    ["no content", { contentBase64: undefined }, ["/contentBase64"]]
  ]
  for (const [what, change, paths] of inputs) {
    it.effect(`${paths.length === 0 ? "takes" : "refuses"} ${what}`, () =>
      Effect.gen(function* () {
        const server = yield* Harness.Running
        const body = { ...fields(server), contentBase64: "QUJD", ...change }
        const reply = yield* server.call("POST", "/v1/attachments", { body })

        if (paths.length === 0) return assert.strictEqual(reply.status, 201, reply.text)
        assert.strictEqual(reply.json.code, "invalid_request")
        assert.deepStrictEqual(reply.json.details.issues.map(({ path }: { path: string }) => path).sort(), [...paths])
      })
    )
  }

  it.effect("takes its members in any order, and escaped slashes", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const members = ["\"contentBase64\":\"\\/\\/\\/\\/\"", "\"mediaType\":\"a\\/b\"", "\"filename\":\"\\u0061.txt\""]
      const body = `{${members.join()},"mailboxId":"${server.mailbox.id}"}`

      const { status, json } = yield* server.call("POST", "/v1/attachments", { body })

      assert.strictEqual(status, 201)
      const { sizeBytes, filename, mediaType } = json.attachment
      assert.deepStrictEqual([sizeBytes, filename, mediaType], [3, "a.txt", "a/b"])
    })
  )

  it.effect("refuses a faulty body at once, without waiting for its end, and one that breaks off or ends too early", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const headers = [Harness.bearer(server), "Content-Type: application/json", "Transfer-Encoding: chunked"]

      const answer = yield* server.raw([Harness.wire("POST /v1/attachments", headers), "1\r\nx\r\n"])

      assert.match(answer, /^HTTP\/1\.1 400 [^]*"code":"invalid_request"/)
      const broken = yield* server.raw([Harness.wire("POST /v1/attachments", headers), "1\r\n{\r\n", "xyz\r\n"])
      assert.match(broken, /^HTTP\/1\.1 400 [^]*"code":"malformed_http"/)
      assert.isFalse(server.logs.some((line) => line.includes("defect")))
      const { json: short } = yield* server.call("POST", "/v1/attachments", { body: "{" })
      assert.deepStrictEqual([short.details.issues.length, short.details.issues[0]?.code], [1, "malformed_json"])
    })
  )

  it.effect("stops reading a body that passes its cap, and closes the connection", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const headers = [Harness.bearer(server), "Content-Type: application/json", "Transfer-Encoding: chunked"]
      const chunk = `100000\r\n${" ".repeat(1024 * 1024)}\r\n`

      const answer = yield* server.raw([Harness.wire("POST /v1/attachments", headers), ...Array<string>(36).fill(chunk), "1\r\n \r\n"])

      assert.match(answer, /^HTTP\/1\.1 413 [^]*connection: close[^]*"code":"payload_too_large"/i)
      assert.include(answer, `at most ${bodyBytesMax} bytes`)
    })
  )
})

layer(Harness.layer(), live)("sendMessage with an attachment", (it) => {
  const outcomes = [
    ["Clean", 202, undefined, () => undefined],
    ["Infected", 400, "attachment_infected", (attachmentId: string) => ({ attachmentId })],
    ["Errored", 409, "attachment_not_clean", (attachmentId: string) => ({ scanState: "error", attachmentId })]
  ] as const
  for (const [verdict, status, code, details] of outcomes) {
    it.effect(`answers ${code ?? status} when its scan ends in ${verdict}`, () =>
      Effect.gen(function* () {
        const server = yield* Harness.Running
        const upload = server.call("POST", "/v1/attachments", { body: { ...fields(server), contentBase64: "QUJD" } })
        const { json: beside } = yield* upload
        yield* server.scanned(server, beside.attachment.id, "Clean")
        const { json } = yield* upload
        yield* server.scanned(server, json.attachment.id, verdict)

        const reply = yield* server.send({ attachmentIds: [beside.attachment.id, json.attachment.id] })
        const download = yield* server.call("GET", `/v1/attachments/${json.attachment.id}/download`)

        assert.deepStrictEqual([reply.status, reply.json.code, reply.json.details], [status, code, details(json.attachment.id)])
        assert.strictEqual(download.status, verdict === "Clean" ? 200 : 409)
        assert.isNull(download.headers.get("retry-after"))
      })
    )
  }
})

it.live("uploadAttachment reads no faster than the blobs are written, and a refused upload leaves none", () =>
  Effect.gen(function* () {
    const mayWrite = yield* Deferred.make<void>()
    let kept: typeof BlobStore.Service | null = null
    const server = yield* Harness.start({
      blobs: (blobs) => {
        kept = blobs
        return {
          ...blobs,
          writer: (tenantId) =>
            Effect.map(blobs.writer(tenantId), (writer) => ({
              ...writer,
              append: (bytes) => Effect.andThen(Deferred.await(mayWrite), writer.append(bytes))
            }))
        }
      }
    })
    let pulled = 0
    const counted = streamed(server, sizeMax + 1).pipeThrough(
      new TransformStream({
        transform: (chunk: Uint8Array, controller) => {
          pulled += chunk.length
          controller.enqueue(chunk)
        }
      })
    )

    const upload = yield* Effect.forkChild(server.call("POST", "/v1/attachments", { body: counted }))
    let [pulledWhileWaiting, unchanged] = [0, 0]
    yield* Harness.eventually(() => {
      unchanged = pulled === pulledWhileWaiting ? unchanged + 1 : 0
      pulledWhileWaiting = pulled
      return pulled > 0 && unchanged === 20
    })
    yield* Deferred.succeed(mayWrite, undefined)
    const { status } = yield* Fiber.join(upload)
    const small = { ...fields(server), contentBase64: "QUJD" }
    const faulty = yield* server.call("POST", "/v1/attachments", { body: { ...small, mailboxId: "x" } })
    const foreign = yield* server.call("POST", "/v1/attachments", { body: { ...small, mailboxId: crypto.randomUUID() } })

    assert.isBelow(pulledWhileWaiting, 16_000_000)
    assert.deepStrictEqual([status, faulty.status, foreign.status], [413, 400, 404])
    const { blobs } = yield* Effect.orDie(kept!.olderThan({ before: Number.MAX_SAFE_INTEGER, after: null, limit: 10 }))
    assert.deepStrictEqual(blobs, [])
  }).pipe(Effect.scoped)
)

const uploaded = Effect.fnUntraced(function* (server: Harness.Harness) {
  const contentBase64 = Buffer.alloc(200_000).toString("base64")
  const { json } = yield* server.call("POST", "/v1/attachments", { body: { ...fields(server), contentBase64 } })
  yield* server.scanned(server, json.attachment.id, "Clean")
  return String(json.attachment.id)
})

for (const [what, rest] of [
  ["other bytes", (sha256: string) => Stream.fail(new BlobCorrupt({ sha256 }))],
  ["more of them", () => Stream.concat(Stream.make(new Uint8Array(100)), Stream.never)]
] as const) {
  it.live(`downloadAttachment breaks the connection off before the answer is whole when the blob turns out to have ${what}`, () =>
    Effect.gen(function* () {
      const server = yield* Harness.start({
        blobs: (blobs) => ({
          ...blobs,
          read: (tenantId, ref) => Stream.concat(blobs.read(tenantId, ref), rest(ref.sha256))
        })
      })
      const id = yield* uploaded(server)

      const answer = yield* server.raw(Harness.wire(`GET /v1/attachments/${id}/download`, [Harness.bearer(server)]))

      const [head, body] = answer.split("\r\n\r\n") as [string, string]
      assert.match(head, /^HTTP\/1\.1 200 /)
      assert.isBelow(body.length, Number(/content-length: (\d+)/.exec(head)![1]))
    }).pipe(Effect.scoped)
  )
}

it.live("downloadAttachment answers 404 where the file is removed meanwhile", () =>
  Effect.gen(function* () {
    let isRemoved = false
    const server = yield* Harness.start({
      store: (store) => ({
        ...store,
        attachments: { ...store.attachments, get: (...asked) => Effect.suspend(() => (isRemoved ? Effect.succeed(null) : store.attachments.get(...asked))) }
      }),
      blobs: (blobs) => ({
        ...blobs,
        read: (_, { sha256 }) =>
          Stream.suspend(() => {
            isRemoved = true
            return Stream.fail(new BlobMissing({ sha256 }))
          })
      })
    })
    const id = yield* uploaded(server)

    const { status, json } = yield* server.call("GET", `/v1/attachments/${id}/download`)

    assert.deepStrictEqual([status, json.code], [404, "not_found"])
  }).pipe(Effect.scoped)
)

for (const [what, Fault] of [["gone", BlobMissing], ["others", BlobCorrupt]] as const) {
  it.live(`downloadAttachment answers 500 where the bytes of a file that is there are ${what}, and the log says which`, () =>
    Effect.gen(function* () {
      const server = yield* Harness.start({
        blobs: (blobs) => ({ ...blobs, read: (_, { sha256 }) => Stream.fail(new Fault({ sha256 })) })
      })
      const id = yield* uploaded(server)

      const { status, json } = yield* server.call("GET", `/v1/attachments/${id}/download`)

      assert.deepStrictEqual([status, json.code], [500, "internal_error"])
      assert.isTrue(server.logs.some((line) => line.includes(Fault.name) && line.includes(json.requestId)))
    }).pipe(Effect.scoped)
  )
}

it.live("downloadAttachment answers 503 when the blobs are away, and uploadAttachment too", () =>
  Effect.gen(function* () {
    let isAway = false
    const away = new BlobUnavailable({ cause: "gone" })
    const server = yield* Harness.start({
      blobs: (blobs) => ({
        ...blobs,
        writer: (tenantId) => Effect.suspend(() => (isAway ? Effect.fail(away) : blobs.writer(tenantId))),
        read: (tenantId, ref) => Stream.suspend(() => (isAway ? Stream.fail(away) : blobs.read(tenantId, ref)))
      })
    })
    const id = yield* uploaded(server)
    isAway = true

    const download = yield* server.call("GET", `/v1/attachments/${id}/download`)
    const upload = yield* server.call("POST", "/v1/attachments", { body: { ...fields(server), contentBase64: "QUJD" } })

    for (const { status, json, headers } of [download, upload]) {
      assert.deepStrictEqual([status, json.code, json.details, headers.get("retry-after")], [503, "unavailable", {}, "5"])
    }
  }).pipe(Effect.scoped)
)

let appends = 0
const counting = (blobs: typeof BlobStore.Service): typeof BlobStore.Service => ({
  ...blobs,
  writer: (tenantId) =>
    Effect.map(blobs.writer(tenantId), (writer) => ({
      ...writer,
      append: (bytes) => {
        appends += 1
        return writer.append(bytes)
      }
    }))
})

layer(Harness.layer({ blobs: counting }), { excludeTestServices: true })("An upload in small pieces", (it) => {
  it.effect("is not stored in small pieces", () =>
    Effect.gen(function* () {
      const { key, mailbox, raw } = yield* Harness.Running
      const body = JSON.stringify({ mailboxId: mailbox.id, filename: "a.txt", mediaType: "text/plain", contentBase64: "AAAA".repeat(50_000) })
      const chunks = [...body].map((character) => `1\r\n${character}\r\n`).join("")
      const heads = [`Authorization: Bearer ${key}`, "Content-Type: application/json", "Transfer-Encoding: chunked", "Connection: close"]

      const answer = yield* raw(`${Harness.wire("POST /v1/attachments", heads)}${chunks}0\r\n\r\n`, 5_000)

      assert.include(answer, "\"sizeBytes\":150000")
      assert.isAtMost(appends, 20)
    })
  )
})
