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

      assert.deepStrictEqual(config, {
        mode: "production",
        host: "127.0.0.1",
        port: 3025,
        data: ".mailroom",
        logLevel: "Info",
        ipRequestsPerMinute: 120,
        trustedProxies: [],
        bounceDomain: null,
        eventRetentionDays: 30
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
    ["MAILROOM_EVENT_RETENTION_DAYS", ["1", "3650"], ["0", "3651"]]
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
