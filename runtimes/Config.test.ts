import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import * as Config from "./Config.ts"
import { version } from "./Version.ts"

const faultsOf = (variables: Readonly<Record<string, string>>) =>
  Effect.map(Effect.flip(Config.load(variables)), ({ faults }) => faults)

describe("Config", () => {
  it.effect("has the specification's values by default", () =>
    Effect.gen(function* () {
      const config = yield* Config.load({})

      assert.deepStrictEqual<unknown>(config, {
        mode: "production",
        host: "127.0.0.1",
        port: 3025,
        data: ".mailroom",
        logLevel: "Info",
        ipRequestsPerMinute: 120,
        trustedProxies: [],
        bounceDomain: null,
        eventRetentionDays: 30,
        devDomain: "dev.example",
        smtpHost: null,
        smtpPort: 587,
        smtpTls: "starttls",
        smtpUser: null,
        smtpPassword: null,
        smtpCa: null,
        dkimFile: null,
        scanner: "eicar",
        clamd: { host: "127.0.0.1", port: 3310 },
        webhookAllowHttp: false,
        webhookAllowedAddresses: [],
        webhookBackoff: [60_000, 600_000, 3_600_000, 21_600_000],
        apiKey: null
      })
    })
  )

  it.effect("lets the environment go before a runtime's defaults, and flags before the environment", () =>
    Effect.gen(function* () {
      const defaults = { ipRequestsPerMinute: "6000", port: "1" }
      const flagged = Config.withFlags({ MAILROOM_PORT: "2" }, { data: null, port: 3 })

      assert.strictEqual((yield* Config.load({}, defaults)).port, 1)
      assert.strictEqual((yield* Config.load({ MAILROOM_PORT: "2" }, defaults)).port, 2)
      assert.strictEqual((yield* Config.load(flagged, defaults)).port, 3)
      assert.strictEqual((yield* Config.load(flagged, defaults)).ipRequestsPerMinute, 6000)
    })
  )

  for (const [name, good, bad] of [
    ["MAILROOM_MODE", ["development"], ["dev", ""]],
    ["MAILROOM_HOST", ["::1", "0.0.0.0"], ["localhost", "300.1.1.1"]],
    ["MAILROOM_PORT", ["0", "65535"], ["-1", "65536", "80.5", "http"]],
    ["MAILROOM_LOG_LEVEL", ["Debug"], ["debug", "all"]],
    ["MAILROOM_IP_REQUESTS_PER_MINUTE", ["1", "1000000"], ["0", "1000001", "1e9"]],
    ["MAILROOM_TRUSTED_PROXIES", ["10.0.0.0/8, ::1", ""], ["10.0.0.0/33", "proxy", "10.0.0.1/8/8"]],
    ["MAILROOM_BOUNCE_DOMAIN", ["bounces.example", ""], ["bounces", "a b.example", "10.0.0.1"]],
    ["MAILROOM_EVENT_RETENTION_DAYS", ["1", "3650"], ["0", "3651"]],
    ["MAILROOM_DEV_DOMAIN", ["mail.example"], ["mail", ""]],
    ["MAILROOM_SMTP_HOST", ["relay.example", "::1", ""], ["relay.example:25", "a b"]],
    ["MAILROOM_SMTP_PORT", ["25", "465"], ["0", "65536"]],
    ["MAILROOM_SMTP_TLS", ["implicit", "none"], ["tls", ""]],
    ["MAILROOM_SCANNER", ["clamd"], ["none", ""]],
    ["MAILROOM_CLAMD", ["clamd.example:3310", "[::1]:3310", "/run/clamd.sock"], ["clamd.example", "::1:3310", "host:0", ""]],
    ["MAILROOM_WEBHOOK_ALLOW_HTTP", ["false"], ["yes", ""]],
    ["MAILROOM_WEBHOOK_ALLOWED_ADDRESSES", [""], ["localhost", "10.0.0.0/64"]],
    ["MAILROOM_WEBHOOK_BACKOFF", ["1", "60, 600,3600,21600"], ["", "1,2,3,4,5", "1.5", "-1"]]
  ] as const) {
    it.effect(`takes good values of ${name}, and names it with what it wants for bad ones`, () =>
      Effect.gen(function* () {
        for (const value of good) yield* Config.load({ [name]: value })
        for (const value of bad) {
          const faults = yield* faultsOf({ [name]: value })
          assert.lengthOf(faults, 1, value)
          assert.isTrue(faults[0]!.startsWith(`${name} is ${JSON.stringify(value)}; it wants `), faults[0])
        }
      })
    )
  }

  const clashing: ReadonlyArray<readonly [string, Readonly<Record<string, string>>]> = [
    ["MAILROOM_WEBHOOK_ALLOW_HTTP", { MAILROOM_WEBHOOK_ALLOW_HTTP: "true" }],
    ["MAILROOM_WEBHOOK_ALLOWED_ADDRESSES", { MAILROOM_WEBHOOK_ALLOWED_ADDRESSES: "10.0.0.1" }],
    ["MAILROOM_SMTP_USER", { MAILROOM_SMTP_HOST: "relay.example", MAILROOM_SMTP_USER: "ada" }],
    ["MAILROOM_SMTP_USER", { MAILROOM_SMTP_HOST: "relay.example", MAILROOM_SMTP_PASSWORD: "x" }],
    ["MAILROOM_SMTP_USER", { MAILROOM_SMTP_USER: "ada", MAILROOM_SMTP_PASSWORD: "x" }],
    ["MAILROOM_DKIM_FILE", { MAILROOM_DKIM_FILE: "keys.json" }],
    [
      "MAILROOM_SMTP_TLS",
      { MAILROOM_SMTP_HOST: "relay.example", MAILROOM_SMTP_USER: "ada", MAILROOM_SMTP_PASSWORD: "x", MAILROOM_SMTP_TLS: "none" }
    ]
  ]
  for (const [named, variables] of clashing) {
    it.effect(`refuses what does not go together: ${Object.keys(variables).join(" with ")}`, () =>
      Effect.gen(function* () {
        const faults = yield* faultsOf(variables)

        assert.lengthOf(faults, 1)
        assert.isTrue(faults[0]!.startsWith(named), faults[0])
      })
    )
  }

  it.effect("allows in development what production refuses", () =>
    Effect.gen(function* () {
      const config = yield* Config.load({
        MAILROOM_MODE: "development",
        MAILROOM_WEBHOOK_ALLOW_HTTP: "true",
        MAILROOM_WEBHOOK_ALLOWED_ADDRESSES: "127.0.0.0/8, ::1"
      })

      assert.deepStrictEqual([config.webhookAllowHttp, config.webhookAllowedAddresses], [true, ["127.0.0.0/8", "::1"]])
    })
  )

  it.effect("repeats no password, neither in a fault nor when it is printed", () =>
    Effect.gen(function* () {
      const variables = { MAILROOM_SMTP_HOST: "relay.example", MAILROOM_SMTP_USER: "ada", MAILROOM_SMTP_PASSWORD: "lace\0love" }

      assert.deepStrictEqual(yield* faultsOf(variables), ["MAILROOM_SMTP_PASSWORD wants a password"])
      const config = yield* Config.load({ ...variables, MAILROOM_SMTP_PASSWORD: "lacelove" })
      assert.notInclude(JSON.stringify(config), "lacelove")
    })
  )

  it.effect("knows all its settings, so that a mistyped one is named", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* faultsOf({ MAILROOM_PROT: "1" }), [
        "MAILROOM_PROT is no setting of Mailroom; see docs/configuration.md"
      ])
    })
  )

  it("tells the version of the package", () => {
    const { version: published } = JSON.parse(readFileSync(join(import.meta.dirname, "../package.json"), "utf8"))

    assert.strictEqual(version, published)
  })
})
