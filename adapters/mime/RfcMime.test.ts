import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Stream } from "effect"
import { execFileSync } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { deserialize, serialize } from "node:v8"
import type { Worker } from "node:worker_threads"
import { bombs } from "../../conformance/MimeReading.ts"
import { withProcessorTime } from "../../conformance/ProcessorTime.ts"
import * as Fixtures from "../../conformance/fixtures.ts"
import type { MessageId } from "../../core/model/Ids.ts"
import * as Limits from "../../core/model/Limits.ts"
import type { Content, Message } from "../../core/model/Message.ts"
import type { MimePart } from "../../core/model/MimePart.ts"
import * as Recipients from "../../core/model/Recipient.ts"
import { Mime, MimeFailed } from "../../core/ports/Mime.ts"
import { words } from "./Defects.ts"
import { lengthsMax, readMessage, unread } from "./MimeReader.ts"
import * as ParserThreads from "./ParserThreads.ts"
import * as RfcMime from "./RfcMime.ts"

/** Of what is measured in processor time, which others may take most of. */
const patience = 120_000

const use = <A, E>(body: (mime: Mime["Service"]) => Effect.Effect<A, E>) =>
  Effect.flatMap(Mime, body).pipe(Effect.provide(RfcMime.layer))

const built = (stream: Stream.Stream<Uint8Array, unknown>) =>
  Effect.map(Stream.runCollect(stream), (chunks) => Buffer.concat([...chunks]))

describe("the same message", () => {
  const realm = Fixtures.realm()
  const message = Fixtures.message(realm, {
    id: "019a0000-0000-7000-8000-000000000001" as MessageId, // of that form
    from: { address: Fixtures.address(), name: "Ada \"Countess\" Lovelace" },
    subject: "Note G, für Charles 🧮 and everybody else who weaves algebraic patterns",
    recipients: (["to", "cc", "bcc"] as const).map((role) => Recipients.make(Fixtures.address(`one-in-${role}`), role, 0))
  })
  const attachments = [
    Fixtures.attachment(realm, {
      filename: "Übersicht der Bernoulli-Zahlen, mit Anmerkungen und Tafeln.pdf",
      mediaType: "application/pdf"
    }),
    Fixtures.attachment(realm, { filename: "loom.png", mediaType: "image/png", disposition: "inline", contentId: "loom@example.com" })
  ]
  const content = Fixtures.content(
    message,
    {
      text: "The engine weaves algebraic patterns = flowers and leaves, just as the Jacquard loom does. \n.\nEnd",
      html: "<p>Машина ткёт алгебраические узоры</p>"
    },
    attachments
  )
  const recorded = readFileSync(join(import.meta.dirname, "fixtures", "golden.eml"), "latin1")

  it.effect("has the bytes that an earlier version gave it", () =>
    use((mime) =>
      Effect.gen(function* () {
        const files = attachments.map((attachment, index) => ({ attachment, bytes: Stream.make(new Uint8Array(60).fill(index)) }))

        const bytes = yield* built(mime.build(message, content, files))

        assert.strictEqual(bytes.toString("latin1"), recorded)
      })
    )
  )

  it("has the same bytes in another process", () => {
    const program = `
      import { Effect, Stream } from "effect"
      import { Mime } from ${JSON.stringify(import.meta.resolve("../../core/ports/Mime.ts"))}
      import { layer } from ${JSON.stringify(import.meta.resolve("./RfcMime.ts"))}
      const { id, content, attachments } = JSON.parse(process.argv[1])
      const files = attachments.map((attachment, index) => ({ attachment, bytes: Stream.make(new Uint8Array(60).fill(index)) }))
      const print = (chunk) => Effect.sync(() => process.stdout.write(chunk))
      const program = Mime.use((mime) => Stream.runForEach(mime.build({ id }, content, files), print))
      await Effect.runPromise(Effect.provide(program, layer))
    `
    const input = JSON.stringify({ id: message.id, content, attachments })

    const bytes = execFileSync(process.execPath, ["--input-type=module", "--eval", program, input], { cwd: import.meta.dirname })

    assert.strictEqual(bytes.toString("latin1"), recorded)
  })
})

describe("what a message says", () => {
  it.live("makes nobody read a file or fetch an URL", () =>
    Effect.gen(function* () {
      const folder = mkdtempSync(join(tmpdir(), "mailroom-canary-"))
      const path = join(folder, "canary.txt")
      writeFileSync(path, "the canary sings")
      let hits = 0
      const server = createServer((_, response) => {
        hits += 1
        response.end("the canary sings")
      })
      yield* Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void)))
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/canary` // it listens on TCP

      for (const lure of [path, `file://${path}`, url]) {
        const realm = Fixtures.realm()
        const attachment = Fixtures.attachment(realm, { filename: lure, contentId: lure, disposition: "inline", mediaType: "image/png" })
        const message = Fixtures.message(realm, { subject: lure, from: { address: Fixtures.address(), name: lure } })
        const content = Fixtures.content(message, { text: lure, html: `<img src="${lure}"><link href="${lure}">` }, [attachment])
        const bytes = yield* use((mime) => built(mime.build(message, content, [{ attachment, bytes: Stream.make(Buffer.from(lure)) }])))
        const parsed = yield* use((mime) => mime.parse(Stream.make(bytes)))
        assert.notInclude(bytes.toString(), "the canary sings")
        assert.notInclude(bytes.toString(), Buffer.from("the canary sings").toString("base64"))
        assert.strictEqual(Buffer.from(parsed.attachments[0]!.bytes).toString(), lure)
      }

      server.close()
      rmSync(folder, { recursive: true })
      assert.strictEqual(hits, 0)
    })
  )
})

describe("what is no message", () => {
  const realm = Fixtures.realm()
  const message = Fixtures.message(realm)
  const attachment = Fixtures.attachment(realm, { disposition: "inline", contentId: "c1" })
  const content = Fixtures.content(message, { text: "t", html: "h" }, [attachment])
  const ofText = Fixtures.content(message, { text: "t" })
  const [root, leaf] = [content.mime, ofText.mime]
  const withFile = (over: Partial<MimePart>): MimePart => {
    const change = (part: MimePart): MimePart => (part.attachmentId === null ? { ...part, parts: part.parts.map(change) } : { ...part, ...over })
    return change(root)
  }
  const id = (text: string) => ({ ...message, id: text as MessageId }) // as if unchecked
  const cases: Readonly<Record<string, readonly [message: Message, content: Content]>> = {
    "boundary that would end its quotes": [id("\"; x=\"y"), content],
    "boundary that would end its line": [id("x\r\nBcc: eve@example.com"), content],
    "boundary with a blank": [id("x y"), content],
    "boundary that is longer than 70": [id("x".repeat(67)), content],
    "boundary in another part that is longer than 70": [message, { ...content, mime: { ...root, partId: "1.".repeat(18) } }],
    "content id of two words": [message, { ...content, mime: withFile({ contentId: "a b" }) }],
    "content id that would end its brackets": [message, { ...content, mime: withFile({ contentId: "a>b" }) }],
    "content id that is longer than 900": [message, { ...content, mime: withFile({ contentId: "a".repeat(901) }) }],
    "file that says it is a multipart, in another spelling": [message, { ...content, mime: withFile({ mediaType: "Multipart/Mixed" }) }],
    "multipart that says it is a file": [message, { ...content, mime: { ...root, mediaType: "application/pdf" } }],
    "type with a parameter": [message, { ...content, mime: withFile({ mediaType: "text/csv; x=y" }) }],
    "type without its second half": [message, { ...content, mime: withFile({ mediaType: "text/" }) }],
    "text of a type that is neither of the two": [message, { ...ofText, mime: { ...leaf, mediaType: "text/calendar" } }],
    "text with a multipart's type": [message, { ...ofText, mime: { ...leaf, mediaType: "multipart/mixed" } }]
  }
  const write = (message: Message, content: Content) =>
    use((mime) => built(mime.build(message, content, content.html === null ? [] : [{ attachment, bytes: Stream.make(Buffer.from("x")) }])))

  for (const [what, [message, content]] of Object.entries(cases)) {
    it.effect(`is refused: a ${what}`, () =>
      Effect.gen(function* () {
        assert.instanceOf(yield* Effect.flip(write(message, content)), MimeFailed)
      })
    )
  }

  it.effect("is no part that says nothing of its file but its type", () =>
    Effect.gen(function* () {
      for (const filename of [null, "", "\r\n"]) {
        const bytes = yield* write(message, { ...content, mime: withFile({ filename, contentId: null }) })

        assert.include(bytes.toString(), "\r\nContent-Disposition: inline\r\n\r\n")
      }
      const bytes = yield* write(message, { ...content, mime: withFile({ disposition: null, contentId: null }) })

      assert.notInclude(bytes.toString(), "Content-Disposition")
      assert.notInclude(bytes.toString(), "Content-ID")
    })
  )
})

describe("a message made to do harm", () => {
  const nested = (depth: number) =>
    `${Array.from({ length: depth }, (_, index) => `Content-Type: multipart/mixed; boundary=b${index}\r\n\r\n--b${index}\r\n`).join("")}\r\nx`
  const parts = (count: number, part: string) =>
    `Content-Type: multipart/mixed; boundary=b\r\n\r\n${`--b\r\n${part}\r\n`.repeat(count)}--b--\r\n`
  const fields = (bytes: number) => `X-Field: ${"x".repeat(bytes - 11)}\r\n`
  const kibibyte = 1024
  const bounds: ReadonlyArray<readonly [bound: string, defect: string, within: string, beyond: string]> = [
    ["50 levels", "too_deep", nested(50), nested(51)],
    ["250 parts, with the whole", "too_many_parts", parts(249, "\r\nx"), parts(250, "\r\nx")],
    ["256 KiB of header", "truncated_header", fields(256 * kibibyte), fields(256 * kibibyte + 1)],
    ["256 KiB of header before a body", "truncated_header", `${fields(256 * kibibyte)}\r\nx`, `${fields(200 * kibibyte)}${fields(57 * kibibyte)}\r\nx`],
    ["1 MiB of header in all parts", "truncated_header", parts(102, `${fields(10 * kibibyte)}\r\nx`), parts(103, `${fields(10 * kibibyte)}\r\nx`)],
    ["1,000 fields", "too_many_headers", "X: 1\r\n".repeat(1_000), "X: 1\r\n".repeat(1_001)]
  ]

  for (const [bound, defect, within, beyond] of bounds) {
    it.effect(`is read no further than ${bound}`, () =>
      use((mime) =>
        Effect.gen(function* () {
          const found = yield* Effect.forEach([within, beyond], (text) =>
            Effect.map(mime.parse(Stream.make(Buffer.from(text))), ({ defects }) => defects.includes(defect))
          )

          assert.deepStrictEqual(found, [false, true])
        })
      )
    )
  }

  it.effect("is a text if its boundary is longer than a line may be", () =>
    use((mime) =>
      Effect.gen(function* () {
        const textOf = Effect.fnUntraced(function* (boundary: string) {
          const text = `Content-Type: multipart/mixed; boundary=${boundary}\r\n\r\n--${boundary}\r\n\r\nx`
          return (yield* mime.parse(Stream.make(Buffer.from(text)))).text ?? ""
        })

        assert.strictEqual(yield* textOf("b".repeat(990)), "x")
        assert.include(yield* textOf("b".repeat(991)), "--bbb")
      })
    )
  )

  it.effect("is not read to its end when it has none", () =>
    use((mime) =>
      Effect.gen(function* () {
        let pulled = 0
        const endless = Stream.fromEffectRepeat(Effect.sync(() => ((pulled += 1), new Uint8Array(1024 * 1024))))

        const { defects } = yield* mime.parse(endless)

        assert.include(defects, "too_long")
        assert.strictEqual(pulled, 65)
      })
    ),
    patience
  )

  it.effect("is read up to 64 MiB, however its pieces come together", () =>
    use((mime) =>
      Effect.gen(function* () {
        const piece = new Uint8Array(30 * 1024 * 1024)

        const { defects, structure } = yield* mime.parse(Stream.make(Buffer.from("Content-Type: a/b\r\n\r\n"), piece, piece, piece, piece))

        assert.include(defects, "too_long")
        assert.strictEqual(structure.sizeBytes, RfcMime.sizeBytesMax - 21)
      })
    ),
    patience
  )

  it.effect("has no half of a character in the text that is made of the beginning of its HTML", () =>
    use((mime) =>
      Effect.gen(function* () {
        const html = `${"x".repeat(999_999)}😀 and more`

        const { text } = yield* mime.parse(Stream.make(Buffer.from(`Content-Type: text/html; charset=utf-8\r\n\r\n${html}`)))

        assert.isTrue(text?.startsWith("xxx") && text.isWellFormed())
      })
    )
  )

  /** Milliseconds. A reader without bounds needs ten times as much, or never ends. */
  const cpuMax = 1_000
  const memoryMax = 100_000_000

  for (const [what, make] of bombs) {
    it.live(`is read within a second of processor time and 100 MB: ${what}`, () =>
      use((mime) =>
        Effect.gen(function* () {
          const bytes = Buffer.from(make())
          // The thread starts with the first message above 32 KiB.
          yield* mime.parse(Stream.make(Buffer.alloc(40_000, "x\n")))
          const resting = process.memoryUsage().rss
          let most = resting
          const watch = setInterval(() => (most = Math.max(most, process.memoryUsage().rss)), 5)

          const { result, took } = yield* withProcessorTime(mime.parse(Stream.make(bytes)))
          clearInterval(watch)

          assert.isBelow(took, cpuMax)
          // The thread has the message's bytes as well. What no longer is needed counts until it is collected, which a busy machine puts off.
          assert.isBelow(Math.max(most, process.memoryUsage().rss) - resting, memoryMax + Math.min(bytes.length, RfcMime.sizeBytesMax))
          assert.notStrictEqual(result.structure.mediaType, "")
        })
      ),
      patience
    )
  }

  // What the thread cannot do without: V8 collects all else before it gives up.
  it.live("is read by a thread that may have 100 MB", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const oldMax = 60
        const threads = yield* ParserThreads.make({ oldMax })

        const givenUp = yield* Effect.filter(bombs, ([, make]) => {
          const bytes = Buffer.from(make()).subarray(0, RfcMime.sizeBytesMax)
          return Effect.map(threads.parse([bytes], bytes.length, false), (parsed) => parsed === null)
        })

        assert.isBelow((oldMax + ParserThreads.youngMegabytesMax) * 1024 * 1024, memoryMax)
        assert.deepStrictEqual(givenUp.map(([what]) => what), [])
      })
    ),
    patience
  )

  /** Microseconds of this thread for taking in a text in one piece. */
  const takingIn = (text: string): number => {
    const message = serialize(text)
    const before = process.threadCpuUsage()
    assert.strictEqual((deserialize(message) as string).length, text.length)
    return process.threadCpuUsage(before).user
  }

  // In the processor time of this thread between two turns of the loop. The kernel's is left out: giving new memory for a long
  // text takes it 250 ms at times where others want memory too, and 10 else.
  it.live("holds up the loop for less than 50 ms, or what its text takes, as does a large one", () =>
    use((mime) =>
      Effect.gen(function* () {
        const base64 = `${"QUJD".repeat(19)}\r\n`.repeat(25 * 13_000)
        const large = `Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\ntext\r\n--b\r\nContent-Type: a/b\r\nContent-Transfer-Encoding: base64\r\n\r\n${base64}--b--\r\n`
        const messages = [large, ...bombs.map(([, make]) => make())].map((text) => Buffer.from(text, "latin1"))
        let longestText = 0
        yield* mime.parse(Stream.make(messages[0]!))
        let longest = 0
        let isOver = false
        let last = process.threadCpuUsage()
        const turn = () => {
          const now = process.threadCpuUsage()
          longest = Math.max(longest, now.user - last.user)
          last = now
          if (!isOver) setImmediate(turn)
        }

        setImmediate(turn)
        for (const bytes of messages) {
          const { text, html } = yield* mime.parse(Stream.make(bytes))
          longestText = Math.max(longestText, text?.length ?? 0, html?.length ?? 0)
        }
        isOver = true

        assert.isAbove(messages[0]!.length, 25_000_000)
        assert.isAbove(longest, 0)
        // That turn takes 1.3 to 1.9 times as long as its text by itself.
        assert.isBelow(longest, Math.max(50_000, 2.4 * takingIn("\u{100}".repeat(longestText))))
      })
    ),
    patience
  )
})

describe("reading on threads", () => {
  it.live("finds in a message above 32 KiB what it finds in a small one", () =>
    use((mime) =>
      Effect.gen(function* () {
        const message = (padding: number) =>
          Buffer.from(
            `Subject: s\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n${"-".repeat(70)}\r\n`.replace(/(?<=\r\n)-+/, `${"p".repeat(70)}\r\n`.repeat(padding)) +
              "--b\r\n\r\none\r\n--b\r\nContent-Type: a/b\r\nContent-Transfer-Encoding: base64\r\n\r\nYWI=\r\n--b\r\nContent-Type: a/c\r\n\r\ncd\r\n--b--\r\n"
          )

        const [small, large] = yield* Effect.forEach([message(1), message(1_000)], (bytes) => mime.parse(Stream.make(bytes)))

        assert.isAbove(message(1_000).length, 32 * 1024)
        assert.deepStrictEqual(large, small)
        assert.deepStrictEqual(large!.attachments.map(({ bytes }) => Buffer.from(bytes).toString()), ["ab", "cd"])
      })
    )
  )

  it.live("leaves the bytes that it is given as they are", () =>
    use((mime) =>
      Effect.gen(function* () {
        for (const lines of [10, 1_000]) {
          const bytes = Buffer.from(`Content-Transfer-Encoding: base64\r\n\r\n${`${"QUJD".repeat(19)}\r\n`.repeat(lines)}`)
          const before = Buffer.from(bytes)

          yield* mime.parse(Stream.make(bytes))

          assert.isTrue(bytes.equals(before))
        }
      })
    )
  )

  const program = (text: string) => new URL(`data:text/javascript,${encodeURIComponent(text)}`)
  const deaths: Readonly<Record<string, string>> = {
    "ends": "import { parentPort } from 'node:worker_threads'; parentPort.on('message', () => process.exit(1))",
    "throws": "import { parentPort } from 'node:worker_threads'; parentPort.on('message', () => { throw new Error('no') })",
    "runs out of memory": "import { parentPort } from 'node:worker_threads'; parentPort.on('message', () => { for (const all = [];;) all.push(new Array(1e6).fill({})) })",
    "never answers": "import { parentPort } from 'node:worker_threads'; parentPort.on('message', () => { for (;;); })"
  }
  for (const [what, text] of Object.entries(deaths)) {
    it.live(`gives a message up, and the next one to another thread, if a thread ${what}`, () =>
      Effect.scoped(
        Effect.gen(function* () {
          const threads = yield* ParserThreads.make({ program: program(text), secondsMax: 0.5 })
          const bytes = [Buffer.alloc(100_000)]

          const answers = yield* Effect.forEach([1, 2], () => threads.parse(bytes, 100_000, false))

          assert.deepStrictEqual(answers, [null, null])
        })
      ),
      patience
    )
  }

  it.live("gives a message to another thread where one has ended since its last", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const ends: Array<Promise<unknown>> = []
        const onThread = (thread: Worker) => void ends.push(once(thread, "exit"))
        process.on("worker", onThread)
        yield* Effect.addFinalizer(() => Effect.sync(() => process.off("worker", onThread)))
        const answersOnce = program("import { parentPort } from 'node:worker_threads'; parentPort.once('message', () => { parentPort.postMessage({ parsed: 'read', fault: null }); parentPort.close() })")
        const threads = yield* ParserThreads.make({ program: answersOnce, secondsMax: 0.5 })

        const answers: Array<unknown> = []
        for (const _ of [1, 2, 3]) {
          answers.push(yield* threads.parse([Buffer.alloc(9)], 9, false))
          yield* Effect.promise(() => Promise.all(ends))
        }

        assert.deepStrictEqual([answers, ends.length], [["read", "read", "read"], 3])
      })
    ),
    patience
  )

  it.live("does not begin where a bundle has left the program of its threads behind, and says what to do", () =>
    Effect.gen(function* () {
      for (const url of [undefined, "file:///srv/app/bundle.mjs"]) {
        const exit = yield* Effect.exit(Effect.sync(() => ParserThreads.programBeside(url)))

        assert.isTrue(Exit.isFailure(exit) && /external/.test(Cause.pretty(exit.cause)), String(url))
      }
    })
  )

  it("keeps all of a message that was given up, and its head", () => {
    const bytes = Buffer.from("Subject: s\r\n\r\nbody")

    const { subject, defects, attachments, structure } = unread(bytes, false)

    assert.deepStrictEqual([subject, defects], ["s", ["missing_from", "missing_date", "too_costly"]])
    assert.deepStrictEqual([structure.mediaType, attachments[0]!.partId], ["application/octet-stream", structure.partId])
    assert.isTrue(bytes.equals(attachments[0]!.bytes))
  })

  it("reads no more than the beginning of a head that may be what cost too much", () => {
    const { subject, headers } = unread(Buffer.from(`Subject: s\r\nX-Long: ${"a ".repeat(4_096)}\r\nX-Late: l\r\n\r\nbody`), false)

    assert.strictEqual(subject, "s")
    assert.deepStrictEqual(headers.map(({ name }) => name), ["Subject", "X-Long"])
  })
})

describe("the words for what is wrong", () => {
  it("are those that the model explains", () => {
    const source = readFileSync(join(import.meta.dirname, "..", "..", "core", "model", "ParsedMessage.ts"), "utf8")
    const [, text = ""] = /What is wrong with a message, in stable words[^\n]*\n([\s\S]*?)export type Defect/.exec(source) ?? []

    // The last one is the core's own word, for a message that no reading came to an end of.
    assert.deepStrictEqual(Array.from(text.matchAll(/`(\w+)`/g), ([, word]) => word), [...words, "unparsed"])
  })

  it("tell of a line of more than 998 octets, whatever ends it", () => {
    for (const end of ["\r\n", "\n", ""]) {
      const found = [998, 999].map((length) => readMessage(Buffer.from(`A: b\r\n\r\n${"x".repeat(length)}${end}`), false).defects.includes("long_line"))

      assert.deepStrictEqual(found, [false, true])
    }
  })

  it("go with the limits of the core on what is kept of a message", () => {
    const { textLengthMax, htmlLengthMax, filenameLengthMax, mediaTypeLengthMax } = Limits
    assert.deepStrictEqual(lengthsMax, { text: textLengthMax, html: htmlLengthMax, filename: filenameLengthMax, mediaType: mediaTypeLengthMax })
  })

  it("are told by a thread that does without Effect, and so starts soon", () => {
    const seen = new Set<string>()
    const visit = (file: string): void => {
      if (seen.has(file)) return
      seen.add(file)
      for (const [, what] of readFileSync(file, "utf8").matchAll(/^(?:import(?! type)|export\s*[{*])[^"]*?"([^"]+)"/gm)) {
        assert.notMatch(what!, /^@?effect\b/, file)
        if (what!.startsWith(".")) visit(join(file, "..", what!))
      }
    }

    visit(join(import.meta.dirname, "ParserThread.ts"))

    assert.isAbove(seen.size, 10)
  })
})
