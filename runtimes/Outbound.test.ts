import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger, Result, Stream } from "effect"
import { generateKeyPairSync } from "node:crypto"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { createServer, type AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Agent } from "undici"
import { vi } from "vitest"
import { testFile } from "../adapters/eicar/EicarScanner.ts"
import * as FakePostmark from "../adapters/postmark/FakePostmark.ts"
import * as FakeSes from "../adapters/ses/FakeSes.ts"
import * as FakeSns from "../adapters/ses/FakeSns.ts"
import { address, freshId, realm } from "../conformance/fixtures.ts"
import { MailProviders } from "../core/ports/MailProvider.ts"
import { NotificationIntakes, type IntakeRequest } from "../core/ports/NotificationIntake.ts"
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

  it.live("is the clamd at the place of the settings", () =>
    Effect.gen(function* () {
      const server = createServer((socket) => socket.on("error", () => {}).end("stream: Of-This-Place FOUND\0"))
      yield* Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void)))
      yield* Effect.addFinalizer(() => Effect.sync(() => void server.close()))
      const { port } = server.address() as AddressInfo // it listens on a port

      const said = yield* scanned({ MAILROOM_SCANNER: "clamd", MAILROOM_CLAMD: `127.0.0.1:${port}` })

      assert.deepStrictEqual(said, { verdict: "Infected", lines: [] })
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

  it.effect("may begin with a mark that they are UTF-8", () =>
    Effect.gen(function* () {
      const folder = mkdtempSync(join(tmpdir(), "mailroom-outbound-"))
      yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(folder, { recursive: true })))
      writeFileSync(join(folder, "dkim.json"), "\ufeff[]")

      const options = yield* Outbound.smtpOptions(yield* Config.load({ MAILROOM_SMTP_HOST: "relay.example", MAILROOM_DKIM_FILE: join(folder, "dkim.json") }))

      assert.deepStrictEqual(options?.dkim, [])
    })
  )

  it.effect("hold keys that can sign, or are named with the key", () =>
    Effect.gen(function* () {
      const folder = mkdtempSync(join(tmpdir(), "mailroom-outbound-"))
      yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(folder, { recursive: true })))
      const file = join(folder, "dkim.json")
      const config = yield* Config.load({ MAILROOM_SMTP_HOST: "relay.example", MAILROOM_DKIM_FILE: file })
      const saidOf = (entry: object) => {
        writeFileSync(file, JSON.stringify([entry]))
        return Effect.map(Effect.result(Outbound.smtpOptions(config)), (options) => (Result.isSuccess(options) ? "good" : options.failure.faults.join()))
      }
      const key = generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" })

      assert.strictEqual(yield* saidOf({ domain: "mail.example", selector: "s1", privateKey: key }), "good")
      const cut = yield* saidOf({ domain: "mail.example", selector: "s1", privateKey: String(key).slice(0, 60) })
      assert.match(cut, /^MAILROOM_DKIM_FILE: \S+: the DKIM key s1 at mail\.example is no private key in PEM/)
      assert.notInclude(cut, String(key).slice(30, 50))
      assert.match(yield* saidOf({ domain: "mail.example", selector: "s_1", privateKey: key }), /^MAILROOM_DKIM_FILE: .* the DKIM selector at mail\.example is no host name$/)
    })
  )
})

describe("who takes production mail", () => {
  const ses = { MAILROOM_PROVIDER: "ses", MAILROOM_SES_REGION: "eu-central-1" }
  const sesKey = { MAILROOM_SES_ACCESS_KEY_ID: FakeSes.credentials.accessKeyId, MAILROOM_SES_SECRET_ACCESS_KEY: FakeSes.credentials.secretAccessKey }
  const postmark = { MAILROOM_PROVIDER: "postmark", MAILROOM_POSTMARK_TOKEN: FakePostmark.serverToken }
  const cases: ReadonlyArray<readonly [Config.Variables, name: string | null, place: string | null]> = [
    [{}, null, null],
    [{ MAILROOM_SMTP_HOST: "relay.example" }, "smtp", "relay.example:587"],
    [ses, "ses", "Amazon SES in eu-central-1"],
    [{ ...ses, ...sesKey }, "ses", "Amazon SES in eu-central-1"],
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

  /** Has who takes production mail with these settings take one. */
  const submitted = Effect.fnUntraced(function* (variables: Config.Variables) {
    const context = yield* Layer.build(Outbound.layer(yield* Config.load({ MAILROOM_MODE: "development", ...variables })))
    const { production } = yield* Effect.provideContext(MailProviders, context)
    const bytes = new TextEncoder().encode("From: ada@example.com\r\nTo: bob@example.com\r\n\r\nHi\r\n")
    return yield* production!.submit({
      realm: realm("production"),
      messageId: freshId(),
      envelope: { returnPath: address(), recipients: [address("bob")] },
      sizeBytes: bytes.length,
      mime: Stream.make(bytes),
      dkim: null,
      isWanted: () => true
    })
  })

  it.live("calls SES with the key of the settings, and by their configuration set", () =>
    Effect.gen(function* () {
      const fake = yield* FakeSes.start
      vi.stubEnv("AWS_ENDPOINT_URL_SESV2", fake.endpoint)
      yield* Effect.addFinalizer(() => Effect.sync(() => vi.unstubAllEnvs()))

      for (const set of [{}, { MAILROOM_SES_CONFIGURATION_SET: "mail" }]) yield* submitted({ ...ses, ...sesKey, ...set })

      assert.deepStrictEqual(fake.sent.map(({ configurationSet }) => configurationSet), [null, "mail"])
    })
  )

  it.live("calls Postmark with the token of the settings, and by their stream", () =>
    Effect.gen(function* () {
      const fake = yield* FakePostmark.start
      const { dispatch } = Agent.prototype
      const dispatched = vi.spyOn(Agent.prototype, "dispatch").mockImplementation(function (this: Agent, options, handler) {
        return dispatch.call(this, { ...options, origin: fake.endpoint }, handler)
      })
      yield* Effect.addFinalizer(() => Effect.sync(() => dispatched.mockRestore()))

      for (const stream of [{}, { MAILROOM_POSTMARK_STREAM: "receipts" }]) yield* submitted({ ...postmark, ...stream })

      assert.deepStrictEqual(dispatched.mock.calls.map(([{ origin }]) => String(origin)), Array(2).fill("https://api.postmarkapp.com"))
      assert.deepStrictEqual(fake.sent.map(({ MessageStream }) => MessageStream ?? null), [null, "receipts"])
    })
  )

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

  describe("is told of", () => {
    const topics = { MAILROOM_SES_TOPICS: FakeSns.topic }
    const secret = { MAILROOM_POSTMARK_WEBHOOK_SECRET: "0123456789abcdef" }
    const intakesOf = Effect.fnUntraced(function* (variables: Config.Variables) {
      return yield* Effect.provideContext(NotificationIntakes, yield* Layer.build(Outbound.serving(yield* Config.load(variables))))
    })
    /** Why the one who takes this in with these settings does not believe it; null: it does. */
    const doubt = Effect.fnUntraced(function* (variables: Config.Variables, request: IntakeRequest) {
      const [intake] = yield* intakesOf(variables)
      return yield* Effect.match(intake!.receive(request), { onFailure: (error) => ("reason" in error ? error.reason : error._tag), onSuccess: () => null })
    })

    it.effect("by those whose settings are there, whoever it is now", () =>
      Effect.gen(function* () {
        const namesOf = (variables: Config.Variables) => Effect.map(intakesOf(variables), (intakes) => intakes.map(({ name }) => name))

        assert.deepStrictEqual(yield* namesOf({}), [])
        assert.deepStrictEqual(yield* namesOf(topics), ["ses"])
        assert.deepStrictEqual(yield* namesOf({ ...topics, ...secret }), ["ses", "postmark"])
      })
    )

    it.effect("by SES at the topics of the settings", () =>
      Effect.gen(function* () {
        const unsigned = { SigningCertURL: "https://mail.example/certificate.pem" }
        const other = `${FakeSns.topic}2`

        assert.strictEqual(yield* doubt(topics, FakeSns.request(FakeSns.message("{}", 0, unsigned))), "bad_signature")
        assert.strictEqual(yield* doubt(topics, FakeSns.request(FakeSns.message("{}", 0, { ...unsigned, TopicArn: other }))), "wrong_account")
      })
    )

    it.effect("by Postmark of the server of the settings, which shows their secret", () =>
      Effect.gen(function* () {
        const { payload } = JSON.parse(readFileSync(join(import.meta.dirname, "../adapters/postmark/fixtures/delivery.json"), "utf8"))
        const request = (shown: string) => ({ headers: { authorization: `Bearer ${shown}` }, body: new TextEncoder().encode(JSON.stringify(payload)) })
        const believed = request(secret.MAILROOM_POSTMARK_WEBHOOK_SECRET)

        assert.isNull(yield* doubt(secret, believed))
        assert.isNull(yield* doubt({ ...secret, MAILROOM_POSTMARK_SERVER_ID: String(payload.ServerID) }, believed))
        assert.strictEqual(yield* doubt({ ...secret, MAILROOM_POSTMARK_SERVER_ID: "1" }, believed), "wrong_account")
        assert.strictEqual(yield* doubt(secret, request("0123456789abcdeg")), "bad_signature")
      })
    )
  })
})
