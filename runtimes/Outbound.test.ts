import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger, Stream } from "effect"
import { testFile } from "../adapters/eicar/EicarScanner.ts"
import { MailProviders } from "../core/ports/MailProvider.ts"
import { NotificationIntakes } from "../core/ports/NotificationIntake.ts"
import { Scanner } from "../core/ports/Scanner.ts"
import * as Config from "./Config.ts"
import * as Outbound from "./Outbound.ts"

/** What the scanner of these settings says of the EICAR test file, and what the log says at the start. */
const scanned = Effect.fnUntraced(function* (variables: Config.Variables) {
  const lines: Array<string> = []
  const log = Logger.layer([Logger.make(({ logLevel, message }) => void lines.push(`${logLevel} ${String(message)}`))])
  const context = yield* Layer.build(Layer.provide(Outbound.layer(yield* Config.load(variables)), log))
  const verdict = yield* Scanner.use(({ scan }) => scan(Stream.make(testFile), testFile.length)).pipe(Effect.provideContext(context))
  return { verdict: verdict._tag, lines }
})

describe("what looks at attachments", () => {
  it.effect("passes everything where the settings say none, and says so at the start", () =>
    Effect.gen(function* () {
      for (const MAILROOM_MODE of ["production", "development"]) {
        const { verdict, lines } = yield* scanned({ MAILROOM_MODE, MAILROOM_SCANNER: "none" })

        assert.deepStrictEqual([verdict, lines], ["Clean", ["Warn attachments are passed unscanned: MAILROOM_SCANNER is none"]])
      }
    })
  )

  it.effect("finds the test file where the settings say eicar, and says in production that this is no protection", () =>
    Effect.gen(function* () {
      const production = yield* scanned({ MAILROOM_SCANNER: "eicar" })
      assert.strictEqual(production.verdict, "Infected")
      assert.match(production.lines.join("\n"), /^Warn attachments are passed all but unscanned/)

      for (const variables of [{ MAILROOM_SCANNER: "eicar" }, {}]) {
        assert.deepStrictEqual(yield* scanned({ MAILROOM_MODE: "development", ...variables }), { verdict: "Infected", lines: [] })
      }
    })
  )

  it.effect("fails with a stream that fails, also where nothing is scanned", () =>
    Effect.gen(function* () {
      const context = yield* Layer.build(Outbound.layer(yield* Config.load({ MAILROOM_SCANNER: "none" })))

      const failure = yield* Scanner.use(({ scan }) => scan(Stream.fail("gone"), 1)).pipe(Effect.provideContext(context), Effect.flip)

      assert.strictEqual(failure, "gone")
    })
  )
})

describe("the mail server's files", () => {
  it.effect("are all named that are at fault", () =>
    Effect.gen(function* () {
      const variables = { MAILROOM_SMTP_HOST: "relay.example", MAILROOM_SMTP_CA_FILE: "/nowhere/ca.pem", MAILROOM_DKIM_FILE: import.meta.filename }
      const { faults } = yield* Effect.flip(Outbound.smtpOptions(yield* Config.load(variables)))

      assert.lengthOf(faults, 2)
      assert.match(faults[0]!, /^MAILROOM_SMTP_CA_FILE: no such file; it wants the path of a file /)
      assert.match(faults[1]!, /^MAILROOM_DKIM_FILE: .* wants a JSON list of/)
    })
  )
})

describe("who takes production mail", () => {
  const ses = { MAILROOM_PROVIDER: "ses", MAILROOM_SES_REGION: "eu-central-1" }
  const postmark = { MAILROOM_PROVIDER: "postmark", MAILROOM_POSTMARK_TOKEN: "00000000-aaaa-4bbb-8ccc-000000000000" }
  const cases: ReadonlyArray<readonly [Config.Variables, name: string | null, place: string | null]> = [
    [{}, null, null],
    [{ MAILROOM_SMTP_HOST: "relay.example" }, "smtp", "relay.example:587"],
    [ses, "ses", "Amazon SES in eu-central-1"],
    [{ ...ses, MAILROOM_SES_ACCESS_KEY_ID: "AKIDEXAMPLE12345", MAILROOM_SES_SECRET_ACCESS_KEY: "secret" }, "ses", "Amazon SES in eu-central-1"],
    [{ ...postmark, MAILROOM_SMTP_HOST: "relay.example" }, "postmark", "Postmark"]
  ]
  for (const [variables, name, place] of cases) {
    it.effect(`is ${name ?? "nobody"} with ${Object.keys(variables).join(", ") || "no settings"}`, () =>
      Effect.gen(function* () {
        const config = yield* Config.load({ MAILROOM_MODE: "development", ...variables })
        const context = yield* Layer.build(Outbound.layer(config))

        const { production, sandbox } = yield* Effect.provideContext(MailProviders, context)

        assert.deepStrictEqual([production?.name ?? null, sandbox.name, Outbound.productionPlace(config)], [name, "sandbox", place])
      })
    )
  }

  it.effect("wants what it cannot do without, and none of what would do nothing", () =>
    Effect.gen(function* () {
      const faulty: ReadonlyArray<readonly [Config.Variables, RegExp]> = [
        [{ MAILROOM_PROVIDER: "ses" }, /MAILROOM_SES_REGION is not set/],
        [{ MAILROOM_PROVIDER: "postmark" }, /MAILROOM_POSTMARK_TOKEN is not set/],
        [{ MAILROOM_SES_ACCESS_KEY_ID: "AKIDEXAMPLE12345" }, /want each other/],
        [{ ...ses, MAILROOM_SMTP_HOST: "relay.example", MAILROOM_DKIM_FILE: "keys.json" }, /signs by itself/]
      ]
      for (const [variables, fault] of faulty) {
        const { faults } = yield* Effect.flip(Config.load(variables))
        assert.lengthOf(faults, 1)
        assert.match(faults[0]!, fault)
      }
    })
  )

  it.effect("is told of by those whose settings are there, whoever it is now", () =>
    Effect.gen(function* () {
      const namesOf = Effect.fnUntraced(function* (variables: Config.Variables) {
        const context = yield* Layer.build(Outbound.serving(yield* Config.load(variables)))
        return (yield* Effect.provideContext(NotificationIntakes, context)).map(({ name }) => name)
      })
      const topics = { MAILROOM_SES_TOPICS: "arn:aws:sns:eu-central-1:123456789012:mail" }

      assert.deepStrictEqual(yield* namesOf({}), [])
      assert.deepStrictEqual(yield* namesOf(topics), ["ses"])
      assert.deepStrictEqual(yield* namesOf({ ...topics, MAILROOM_POSTMARK_WEBHOOK_SECRET: "0123456789abcdef" }), ["ses", "postmark"])
    })
  )
})
