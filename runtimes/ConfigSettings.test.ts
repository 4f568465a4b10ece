/** What the core is told of the settings. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { defaults, Settings } from "../core/Settings.ts"
import * as Config from "./Config.ts"

/** What the core has with these. */
const told = Effect.fnUntraced(function* (variables: Config.Variables) {
  const config = yield* Config.load({ MAILROOM_MODE: "development", ...variables })
  return yield* Effect.provide(Settings, Config.settingsLayer(config))
})

const day = 86_400_000

describe("the core's settings", () => {
  it.effect("are its defaults where nothing is set", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* told({}), defaults)
    })
  )

  const rows: ReadonlyArray<readonly [Config.Variables, object]> = [
    [{ MAILROOM_IP_REQUESTS_PER_MINUTE: "7" }, { ipRequestsPerMinute: 7 }],
    [{ MAILROOM_BOUNCE_DOMAIN: "bounces.example" }, { bounceDomain: "bounces.example" }],
    [{ MAILROOM_SPF: "include:spf.example.net ip4:192.0.2.1" }, { spf: ["include:spf.example.net", "ip4:192.0.2.1"] }],
    [{ MAILROOM_MX_HOST: "mx.example" }, { mxHost: "mx.example" }],
    [{ MAILROOM_EVENT_RETENTION_DAYS: "2" }, { eventRetention: 2 * day }],
    [{ MAILROOM_MESSAGE_RETENTION_DAYS: "3" }, { messageRetention: 3 * day }],
    [{ MAILROOM_INBOUND_PER_MINUTE: "8" }, { inboundPerMinute: 8 }],
    [{ MAILROOM_WEBHOOK_ALLOW_HTTP: "true" }, { webhookTargets: { allowHttp: true, allowedBlocks: [] } }],
    [
      { MAILROOM_WEBHOOK_ALLOWED_ADDRESSES: "10.0.0.0/8, 192.0.2.1, 2001:db8::/32, ::1" },
      { webhookTargets: { allowHttp: false, allowedBlocks: ["10.0.0.0/8", "192.0.2.1/32", "2001:db8::/32", "::1/128"] } }
    ],
    [{ MAILROOM_WEBHOOK_BACKOFF: "5, 60" }, { deliveryBackoff: [5_000, 60_000] }]
  ]
  for (const [variables, changed] of rows) {
    it.effect(`follow ${Object.keys(variables).join()}, and nothing else changes`, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual<unknown>(yield* told(variables), { ...defaults, ...changed })
      })
    )
  }

  it.effect("are those of a runtime, where it says something of its own", () =>
    Effect.gen(function* () {
      const config = yield* Config.load({ MAILROOM_INBOUND_PER_MINUTE: "8" })

      const { hostName, inboundPerMinute } = yield* Effect.provide(Settings, Config.settingsLayer(config, { hostName: "mx.example" }))

      assert.deepStrictEqual([hostName, inboundPerMinute], ["mx.example", 8])
    })
  )
})
