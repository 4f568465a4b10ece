import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import * as Fixtures from "../../conformance/fixtures.ts"
import { Mime } from "../../core/ports/Mime.ts"
import * as RfcMime from "./RfcMime.ts"

const use = <A, E>(body: (mime: Mime["Service"]) => Effect.Effect<A, E>) =>
  Effect.flatMap(Mime, body).pipe(Effect.provide(RfcMime.layer))

describe("the media type of a file", () => {
  const realm = Fixtures.realm()
  const message = Fixtures.message(realm)

  it.effect("is written with its parameters, folded, and read again", () =>
    Effect.gen(function* () {
      const parameters = ["method=REQUEST", "charset=utf-8", 'component="VEVENT; with ten words, so that the line is folded"']
      const invitation = Fixtures.attachment(realm, { mediaType: ["Text/Calendar", ...parameters].join(" ;") })
      const content = Fixtures.content(message, { text: "t", html: "h" }, [invitation])

      const built = use((mime) => Stream.runCollect(mime.build(message, content, [{ attachment: invitation, bytes: Stream.make(Buffer.from("x")) }])))
      const bytes = Buffer.concat([...(yield* built)])
      const parsed = yield* use((mime) => mime.parse(Stream.make(bytes)))

      assert.include(bytes.toString(), `\r\nContent-Type: text/calendar; method=REQUEST; charset=utf-8;\r\n ${parameters[2]}\r\nContent-Transfer-Encoding: base64\r\n`)
      assert.deepStrictEqual(parsed.attachments.map(({ mediaType, parameters }) => [mediaType, parameters]), [["text/calendar", parameters]])
      assert.strictEqual(content.mime.parts[1]?.mediaType, "text/calendar")
    })
  )

  it.effect("has no parameters where its part was not taken apart, for they would be of another type", () =>
    Effect.gen(function* () {
      const levels = Array.from({ length: 200 }, (_, level) => `Content-Type: multipart/mixed; boundary=b${level}; x=y\r\n\r\n--b${level}\r\n`)
      const text = `MIME-Version: 1.0\r\n${levels.join("")}\r\nend`

      const parsed = yield* use((mime) => mime.parse(Stream.make(Buffer.from(text))))

      assert.deepStrictEqual(parsed.attachments.map(({ mediaType, parameters }) => [mediaType, parameters]), [["application/octet-stream", []]])
    })
  )

  it.effect("is read with those parameters that say what is in it, and can be written again", () =>
    Effect.gen(function* () {
      const type = 'text/csv; name="a.csv"; header=present; boundary=x; q="two words"; long=' + "l".repeat(120) + '; b="=?utf-8?q?x?="; c="a\\"b"; d*=utf-8\'\'%C3%A9'
      const text = `MIME-Version: 1.0\r\nContent-Type: ${type}\r\nContent-Disposition: attachment\r\n\r\na,b`

      const parsed = yield* use((mime) => mime.parse(Stream.make(Buffer.from(text))))

      assert.deepStrictEqual(parsed.attachments[0]?.parameters, ["header=present", 'q="two words"'])
    })
  )
})
