/**
 * What every Mime adapter promises. What it builds is judged twice: by the
 * strict reader of MimeWire.ts, and by the adapter's own `parse`.
 *
 * CRLF, LF and CR in a text mean the same; on the wire they are CRLF, and a
 * message that is a single text may gain a last one.
 */
import { Effect, Result, Stream } from "effect"
import assert from "node:assert/strict"
import type { Address } from "../core/model/Address.ts"
import { mediaTypeParts, sentMediaType } from "../core/model/Attachment.ts"
import type { Header, MimePart } from "../core/model/MimePart.ts"
import * as Recipients from "../core/model/Recipient.ts"
import type { ParsedMessage } from "../core/model/ParsedMessage.ts"
import { Mime, MimeFailed } from "../core/ports/Mime.ts"
import * as Fixtures from "./fixtures.ts"
import { binary, draft, drafts, file, from, type Draft } from "./MimeDrafts.ts"
import { reading } from "./MimeReading.ts"
import { understanding } from "./MimeUnderstanding.ts"
import { decodeText, readParties, readWire, type WirePart } from "./MimeWire.ts"
import type { Check, Suite } from "./Suite.ts"

const check = (title: string, body: (mime: Mime["Service"]) => Effect.Effect<void, unknown>): Check<Mime> => ({
  title,
  check: Effect.flatMap(Mime, body)
})

// Building and judging

const buildFrom = (mime: Mime["Service"], { message, content, files }: Draft, chunkBytes = 65_536) =>
  mime.build(message, content, files.map(({ attachment, bytes }) => ({ attachment, bytes: chunked(bytes, chunkBytes) })))

const chunked = (bytes: Uint8Array, size: number): Stream.Stream<Uint8Array> =>
  Stream.fromIterable(
    Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) => bytes.subarray(index * size, (index + 1) * size))
  )

const build = (mime: Mime["Service"], made: Draft, chunkBytes?: number) =>
  Effect.map(Stream.runCollect(buildFrom(mime, made, chunkBytes)), (chunks) => Buffer.concat([...chunks]))

const canonical = (text: string): string => text.toWellFormed().replace(/\r\n|\r|\n/g, "\r\n")
const isContentField = ({ name }: Header): boolean => /^content-/i.test(name)

/** What the fields of a draft are once written: empty ones are left out. */
const written = ({ content }: Draft): ReadonlyArray<Header> =>
  content.headers.filter(({ value }) => value !== "").map(({ name, value }) => ({ name, value: value.toWellFormed() }))

const spell = (parties: ReturnType<typeof readParties>): string =>
  parties.map(({ name, address }) => (name === "" ? address : `"${name.replace(/["\\]/g, "\\$&")}" <${address}>`)).join(", ")

const decodeField = ({ name, value }: Header): Header => ({
  name,
  value: /^(From|To|Cc)$/.test(name) ? spell(readParties(value)) : /^(Subject|X-.*)$/.test(name) ? decodeText(value) : value
})

const assertTree = (wire: WirePart, part: MimePart): void => {
  assert.equal(wire.mediaType, part.mediaType)
  assert.equal(wire.typeParams["charset"] ?? null, part.charset)
  assert.deepEqual([wire.disposition, wire.filename, wire.contentId], [part.disposition, part.filename, part.contentId])
  assert.equal(wire.parts.length, part.parts.length)
  for (const [index, child] of part.parts.entries()) assertTree(wire.parts[index]!, child)
}

const leavesOf = <P extends { readonly parts: ReadonlyArray<P> }>(part: P): ReadonlyArray<P> =>
  part.parts.length === 0 ? [part] : part.parts.flatMap(leavesOf)

const assertBodies = (wire: WirePart, made: Draft): void => {
  const leaves = leavesOf(wire)
  for (const [index, part] of leavesOf(made.content.mime).entries()) {
    const { body } = leaves[index]!
    if (part.attachmentId !== null) {
      const sent = made.files.find(({ attachment }) => attachment.id === part.attachmentId)!
      assert.ok(body.equals(sent.bytes), `the bytes of ${part.filename} differ`)
      continue
    }
    const text = canonical((part.mediaType === "text/html" ? made.content.html : made.content.text)!)
    const got = body.toString()
    assert.ok(got === text || (leaves.length === 1 && got === `${text}\r\n`), `the ${part.mediaType} body differs`)
  }
}

const lineFeeds = (text: string | null): string => canonical(text ?? "").replace(/\r\n/g, "\n").replace(/\n$/, "")

const assertParsed = (parsed: ParsedMessage, made: Draft): void => {
  assert.deepEqual(parsed.headers.filter((header) => !isContentField(header)), written(made))
  // Where there is but HTML the text is made from it.
  const text = (made.content.text ?? "") === "" && parsed.html !== null ? parsed.text : made.content.text
  assert.equal(lineFeeds(parsed.text), lineFeeds(text), "the text differs")
  assert.equal(lineFeeds(parsed.html), lineFeeds(made.content.html), "the HTML differs")
  assert.deepEqual(
    parsed.attachments.map(({ bytes: _, partId: __, ...rest }) => rest),
    made.files.map(({ attachment }) => {
      const { filename, disposition, contentId } = attachment
      return { filename, mediaType: sentMediaType(attachment), parameters: mediaTypeParts(attachment.mediaType).parameters, disposition, contentId }
    })
  )
  for (const [index, { bytes }] of made.files.entries()) assert.ok(Buffer.from(parsed.attachments[index]!.bytes).equals(bytes))
}

const building = drafts.flatMap(([what, make]) => [
  check(`builds ${what}`, (mime) =>
    Effect.gen(function* () {
      const made = make()

      const wire = readWire(yield* build(mime, made))

      assert.deepEqual(wire.fields.filter((field) => !isContentField(field)).map(decodeField), written(made))
      assertTree(wire, made.content.mime)
      assertBodies(wire, made)
    })
  ),
  check(`reads back ${what}`, (mime) =>
    Effect.gen(function* () {
      const made = make()

      const parsed = yield* mime.parse(Stream.make(yield* build(mime, made)))

      assertParsed(parsed, made)
    })
  )
])

const filenames = [
  "ünïcödé Ωμέγα.txt",
  "🧵🪡.png",
  "with spaces and  more.txt",
  "a;b=c,d'e(f)[g].txt",
  "\"quoted\".txt",
  "100%.txt",
  "=?utf-8?Q?a?=.txt",
  `${"n".repeat(251)}.txt`,
  `${"ж".repeat(251)}.txt`,
  "no extension",
  ".hidden",
  "'",
  "*",
  "a*0*=utf-8''b"
]

const ordering = [
  check("keeps apart a body that holds the message's own boundary", (mime) =>
    Effect.gen(function* () {
      const made = draft({}, { text: "", html: "" })
      const { boundary } = readWire(yield* build(mime, made)).typeParams
      const content = { ...made.content, text: `before\n--${boundary}\n\nbetween\n--${boundary}--\nbehind` }

      const wire = readWire(yield* build(mime, { ...made, content }))

      assertBodies(wire, { ...made, content })
    })
  ),
  check("writes file names so that they come back whole", (mime) =>
    Effect.gen(function* () {
      const made = draft({}, { text: "" }, filenames.map((filename) => file(binary(3), { filename })))

      const wire = readWire(yield* build(mime, made))

      assert.deepEqual(wire.parts.slice(1).map(({ filename }) => filename), filenames)
    })
  ),
  check("writes header fields in the order they are given, then those of the root part", (mime) =>
    Effect.gen(function* () {
      const made = draft({})
      const headers = [...made.content.headers].reverse()

      const wire = readWire(yield* build(mime, { ...made, content: { ...made.content, headers } }))

      const names = wire.fields.map(({ name }) => name)
      assert.deepEqual(names.slice(0, headers.length), headers.map(({ name }) => name))
      for (const name of names.slice(headers.length)) assert.match(name, /^Content-/)
    })
  ),
  check("adds no field of its own: no date, no identifier, no signature of the program", (mime) =>
    Effect.gen(function* () {
      const made = draft({})
      const headers = made.content.headers.filter(({ name }) => name === "From" || name === "Subject")

      const wire = readWire(yield* build(mime, { ...made, content: { ...made.content, headers } }))

      assert.deepEqual(wire.fields.map(({ name }) => name).filter((name) => !name.startsWith("Content-")), ["From", "Subject"])
    })
  )
]

// Recipients

/** A small generator, so that every run meets the same mixes. */
const generator = (seed: number) => {
  let state = seed
  return (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

const bcc = [
  check("mentions a bcc recipient nowhere, and every other one once, in 1,000 mixes", (mime) =>
    Effect.gen(function* () {
      const next = generator(32)
      for (let round = 0; round < 1_000; round++) {
        const mix = Array.from({ length: 1 + next(8) }, (_, index) => {
          const role = (["to", "cc", "bcc"] as const)[next(3)]!
          return Recipients.make(Fixtures.address(`r${index}x${next(1_000)}`), role, 0)
        })
        const listed = (role: Recipients.Role): ReadonlyArray<string> =>
          mix.filter((recipient) => recipient.role === role).map(({ address }) => address)

        const bytes = yield* build(mime, draft({ recipients: mix }))

        const text = bytes.toString("latin1").toLowerCase()
        for (const address of listed("bcc")) assert.ok(!text.includes(address.toLowerCase()), "a bcc recipient shows")
        assert.doesNotMatch(text, /^bcc/m)
        const { fields } = readWire(bytes)
        for (const [name, role] of [["To", "to"], ["Cc", "cc"]] as const) {
          const value = fields.find((field) => field.name === name)?.value ?? ""
          assert.deepEqual(readParties(value).map(({ address }) => address), listed(role))
        }
      }
    })
  ),
  check("writes no bcc field, even if one is among the headers", (mime) =>
    Effect.gen(function* () {
      const made = draft({})
      const headers = [...made.content.headers, { name: "Bcc", value: "hidden@example.com" }]

      yield* build(mime, made)
      const built = yield* Effect.result(build(mime, { ...made, content: { ...made.content, headers } }))

      if (Result.isSuccess(built)) assert.doesNotMatch(built.success.toString("latin1"), /hidden|bcc/i)
      else assert.equal(built.failure._tag, "MimeFailed")
    })
  )
]

// Header injection

const breaks = ["\r\n", "\n", "\r", "\n\r", "\r\n\r\n", "\r\n ", "\r\n\t"]
const controls = ["\u0000", "\u000b", "\u000c", "\u001b", "\u0085", "\u2028", "\u2029"]
const evil: ReadonlyArray<string> = [
  ...[...breaks, ...controls].flatMap((end) => [`x${end}Bcc: evil@example.com`, `x${end}`, `${end}X-Evil: 1`, `é${end}X-Evil: 1${end}${end}body`]),
  "=?utf-8?B?DQo=?=",
  "=?utf-8?Q?=0D=0AX-Evil:_1?=",
  "=?utf-8?B?DQpYLUV2aWw6IDE=?= x",
  "\"; X-Evil=\"1",
  "x; boundary=evil",
  "a\" <evil@example.com>, \"b",
  "\\",
  "\\\"",
  ">\r\nX-Evil: 1\r\n<"
]

/** The places a caller's text can reach in a message, each made of that text. */
const places: ReadonlyArray<readonly [place: string, make: (text: string) => Draft]> = [
  ["the subject", (text) => draft({ subject: text })],
  ["the sender's name", (text) => draft({ from: from(text) })],
  ["the sender's address", (text) => draft({ from: { address: `ada${text}@example.com` as Address, name: "Ada" } })], // as if unchecked
  ["the sender's domain", (text) => draft({ from: { address: `ada@example.com${text}` as Address, name: "" } })], // as if unchecked
  ["a recipient's address", (text) => draft({ recipients: [Recipients.make(`${text}@example.com` as Address, "to", 0)] })], // as if unchecked
  ["the message's identifier", (text) => draft({ internetMessageId: `<${text}@example.com>` })],
  ["the name of a header field", (text) => withHeader({ name: `X-${text}`, value: "x" })],
  ["the value of a header field", (text) => withHeader({ name: "X-Note", value: text })],
  ["the value of a structured header field", (text) => withHeader({ name: "References", value: text })],
  ["a file name", (text) => draft({}, { text: "" }, [file(binary(3), { filename: text })])],
  ["a media type", (text) => draft({}, { text: "" }, [file(binary(3), { mediaType: `text/${text}` })])],
  ["a content identifier", (text) => withContentId(text)]
]

/** As if unchecked: what is made of an attachment has none that no header can hold. */
const withContentId = (contentId: string): Draft => {
  const made = draft({}, { text: "" }, [file(binary(3), { contentId: "c1", disposition: "inline" })])
  const parts = made.content.mime.parts.map((part) => (part.contentId === null ? part : { ...part, contentId }))
  return { ...made, content: { ...made.content, mime: { ...made.content.mime, parts } } }
}

const withHeader = (header: Header): Draft => {
  const made = draft({})
  return { ...made, content: { ...made.content, headers: [...made.content.headers, header] } }
}

/** Every field's name, part by part. */
const skeleton = (part: WirePart): unknown => [part.fields.map(({ name }) => name), part.parts.map(skeleton)]

const control = /[\u0000-\u0008\u000a-\u001f\u007f-\u009f\u2028\u2029]/

const injection = places.map(([place, make]) =>
  check(`lets nothing in ${place} end a line or start a field`, (mime) =>
    Effect.gen(function* () {
      const harmless = skeleton(readWire(yield* build(mime, make("harmless"))))
      for (const text of evil) {
        const built = yield* Effect.result(build(mime, make(text)))
        if (built._tag === "Failure") {
          assert.ok(built.failure instanceof MimeFailed)
          continue
        }
        const wire = readWire(built.success)
        const parsed = yield* mime.parse(Stream.make(built.success))

        if (place === "the name of a header field") {
          for (const { name } of wire.fields) assert.doesNotMatch(name, /evil|bcc/i)
        } else assert.deepEqual(skeleton(wire), harmless, JSON.stringify(text))
        assert.deepEqual(parsed.headers.map(({ name }) => name), wire.fields.map(({ name }) => name))
        for (const { value } of [...wire.fields.map(decodeField), ...parsed.headers]) assert.doesNotMatch(value, control)
        for (const { filename } of [...leavesOf(wire), ...parsed.attachments]) assert.doesNotMatch(filename ?? "", control)
      }
    })
  )
)

const refusals: ReadonlyArray<readonly [what: string, make: () => Draft]> = [
  ["an attachment whose part is missing", () => {
    const made = draft({}, { text: "" }, [file(binary(3))])
    return { ...made, content: { ...made.content, mime: made.content.mime.parts[0]! } }
  }],
  ["a part whose attachment is missing", () => ({ ...draft({}, { text: "" }, [file(binary(3))]), files: [] })],
  ["a part whose body is missing", () => {
    const made = draft({}, { text: "", html: "" })
    return { ...made, content: { ...made.content, html: null } }
  }],
  ["a file that says it is a multipart", () => draft({}, { text: "" }, [file(binary(3), { mediaType: "multipart/mixed" })])],
  ["an address that a reader could decode to another", () => {
    const address = "=?utf-8?Q?evil=40x.example?=@example.com" as Address // a dot-atom
    return draft({ recipients: [Recipients.make(address, "to", 0)] })
  }]
]

const refusing = refusals.map(([what, make]) =>
  check(`refuses ${what}, before the first byte`, (mime) =>
    Effect.gen(function* () {
      let emitted = 0
      const failed = yield* Effect.flip(Stream.runForEach(buildFrom(mime, make()), () => Effect.sync(() => (emitted += 1))))

      assert.ok(failed instanceof MimeFailed)
      assert.equal(emitted, 0)
    })
  )
)

// Bytes and streams

const everything = (): Draft =>
  draft({ subject: "Grüße 🧵", from: from("Ада") }, { text: "a\nb", html: "<p>ж</p>" }, [
    file(binary(100_000), { filename: "é.bin" }),
    file(binary(58))
  ])

const streaming = [
  check("builds the same bytes each time, however the attachments are cut", (mime) =>
    Effect.gen(function* () {
      const made = everything()
      const first = yield* build(mime, made)

      for (const chunkBytes of [65_536, 1, 3, 56, 57, 58, 1_000, 100_000]) {
        assert.ok((yield* build(mime, made, chunkBytes)).equals(first), `other bytes when cut to ${chunkBytes}`)
      }
    })
  ),
  check("builds other boundaries for another message", (mime) =>
    Effect.gen(function* () {
      const boundary = (made: Draft) => Effect.map(build(mime, made), (bytes) => readWire(bytes).typeParams["boundary"])

      assert.notEqual(yield* boundary(everything()), yield* boundary(everything()))
    })
  ),
  check("pulls an attachment of 25 MiB no faster than it is taken", (mime) =>
    Effect.gen(function* () {
      const chunk = binary(65_536)
      const made = draft({}, { text: "" }, [file(new Uint8Array())])
      let pulled = 0
      let taken = 0
      let ahead = 0
      const bytes = Stream.fromIterable(Array.from({ length: 400 }), { chunkSize: 1 }).pipe(
        Stream.mapEffect(() => Effect.sync(() => ((pulled += chunk.length), chunk)))
      )

      const built = mime.build(made.message, made.content, [{ attachment: made.files[0]!.attachment, bytes }])
      yield* Stream.runForEach(built, (out) =>
        Effect.andThen(
          Effect.yieldNow,
          Effect.sync(() => {
            taken += out.length
            ahead = Math.max(ahead, pulled - (taken * 3) / 4)
          })
        )
      )

      assert.equal(pulled, 400 * 65_536)
      assert.ok(taken > pulled * 1.33, "bytes are missing")
      assert.ok(ahead < 2 * 1024 * 1024, `${ahead} bytes were pulled before they were asked for`)
    })
  ),
  check("closes the attachments when the reader goes away", (mime) =>
    Effect.gen(function* () {
      const made = draft({}, { text: "" }, [file(new Uint8Array()), file(new Uint8Array())])
      let pulled = 0
      let open = 0
      const bytes = Stream.fromEffectRepeat(Effect.sync(() => ((pulled += 1), binary(65_536)))).pipe(
        Stream.onStart(Effect.sync(() => (open += 1))),
        Stream.ensuring(Effect.sync(() => (open -= 1)))
      )

      let taken = 0
      yield* Stream.runForEachWhile(
        mime.build(made.message, made.content, made.files.map(({ attachment }) => ({ attachment, bytes }))),
        (out) => Effect.sync(() => (taken += out.length) < 300_000)
      )

      assert.equal(open, 0, "an attachment is still open")
      assert.ok(pulled > 0 && pulled < 100, `${pulled} chunks were pulled`)
    })
  ),
  check("fails as the attachment's bytes fail", (mime) =>
    Effect.gen(function* () {
      const made = draft({}, { text: "" }, [file(new Uint8Array()), file(new Uint8Array())])
      const [first, second] = made.files
      const broken = { _tag: "DiskBroken" } as const

      const failed = yield* Effect.flip(
        Stream.runDrain(
          mime.build(made.message, made.content, [
            { attachment: first!.attachment, bytes: Stream.concat(Stream.make(binary(100)), Stream.fail(broken)) },
            { attachment: second!.attachment, bytes: Stream.die("read after the failure") }
          ])
        )
      )

      assert.equal(failed, broken)
    })
  )
]

export const suite: Suite<Mime> = {
  name: "Mime",
  checks: [...building, ...ordering, ...bcc, ...injection, ...refusing, ...streaming, ...reading, ...understanding]
}
