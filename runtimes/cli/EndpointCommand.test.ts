/** The commands for webhook endpoints and their secrets as an operator types them, in this process and on memory adapters. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll } from "vitest"
import * as Fixtures from "../../conformance/fixtures.ts"
import * as Endpoints from "../../core/model/Endpoint.ts"
import type { ApplicationId, TenantId } from "../../core/model/Ids.ts"
import { Crypto } from "../../core/ports/Crypto.ts"
import { Store } from "../../core/ports/Store.ts"
import { epoch, founded, json, layer, nobody, ring, run, unread } from "./harness.ts"
import { services } from "./Operator.ts"

const folder = mkdtempSync(join(tmpdir(), "mailroom-cli-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** An endpoint of the application, with a dead delivery, disabled. */
const disabled = Effect.fnUntraced(function* (tenant: string, app: string) {
  const realm = { tenantId: tenant as TenantId, environment: "sandbox" } as const
  const endpoint = Fixtures.endpoint(realm, { applicationId: app as ApplicationId, enabled: false, consecutiveFailures: 10, disabledAt: 5 })
  const secret = yield* Crypto.use(({ seal }) => seal(Redacted.make("whsec_topsecret"), Endpoints.sealContext(endpoint)))
  const delivery = Fixtures.delivery(endpoint, { status: "dead", nextAttemptAt: null, deadAt: 7, lastError: "endpoint_disabled" })
  yield* Store.use(({ commit }) =>
    commit(
      [
        { _tag: "Insert", kind: "endpoint", record: { ...endpoint, secret } },
        { _tag: "InsertDelivery", delivery, body: "{}" }
      ],
      []
    )
  ).pipe(Effect.orDie)
  return { endpoint, delivery, realm }
})

const typed = <E>(title: string, test: Effect.Effect<void, E, Layer.Success<typeof layer>>) =>
  it.effect(title, () => Effect.provide(test, layer))

describe("endpoint commands", () => {
  typed(
    "take an endpoint into use again, replay what died there, and send it a test event",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded
      const { endpoint, delivery, realm } = yield* disabled(tenant, app)

      assert.deepInclude((yield* json(`endpoint list -t ${tenant} --app ${app}`))[0], { id: endpoint.id, enabled: false, disabledAt: "1970-01-01T00:00:00.005Z", sealVersion: 1 })
      assert.deepInclude(yield* run(`endpoint test ${endpoint.id} -t ${tenant}`), { code: 4 })
      assert.deepInclude(yield* run(`endpoint replay ${endpoint.id} -t ${tenant} --since ${epoch}`), { code: 4 })
      yield* TestClock.adjust(10)
      const enabled = yield* json(`endpoint enable ${endpoint.id} --tenant ${tenant} --replay`)
      assert.deepInclude(enabled, { enabled: true, consecutiveFailures: 0, disabledAt: null, replayed: 1 })
      assert.strictEqual((yield* Store.use(({ deliveries }) => deliveries.get(realm, delivery.id)))?.status, "pending")
      assert.include((yield* run(`endpoint enable ${endpoint.id} -t ${tenant}`)).error, "it was enabled already")
      assert.include((yield* run(`endpoint enable ${endpoint.id} -t ${tenant} --replay`)).error, "and nothing is replayed: `mailroom endpoint replay --since` delivers again")
      assert.deepStrictEqual(yield* json(`endpoint replay ${endpoint.id} -t ${tenant} --since ${epoch}`), { id: endpoint.id, replayed: 0 })
      assert.deepInclude(yield* json(`endpoint test ${endpoint.id} -t ${tenant} --type mailbox.created`), { type: "mailbox.created", applicationId: app, demo: true })
      const strange = yield* run(`endpoint test ${endpoint.id} -t ${tenant} --type message.read`)
      assert.match(strange.error, /^--type is none that this endpoint gets; it gets message\.queued, /)
    })
  )

  typed(
    "enable an endpoint and replay nothing unless asked, and disable it, once",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded
      const { endpoint, delivery, realm } = yield* disabled(tenant, app)
      const shown = {
        id: endpoint.id,
        ...realm,
        applicationId: app,
        url: endpoint.url,
        description: endpoint.description,
        eventTypes: endpoint.eventTypes,
        isSlow: false,
        apiVersion: endpoint.apiVersion,
        nextSecretFrom: null,
        sealVersion: 1,
        createdAt: epoch
      }
      const disabledThen = { ...shown, enabled: false, consecutiveFailures: 10, disabledAt: "1970-01-01T00:00:00.005Z", version: 1 }
      assert.deepStrictEqual(yield* json(`endpoint show ${endpoint.id} -t ${tenant}`), disabledThen)
      const enabled = yield* json(`endpoint enable ${endpoint.id} -t ${tenant}`)
      assert.deepStrictEqual(enabled, { ...shown, enabled: true, consecutiveFailures: 0, disabledAt: null, version: 2, replayed: 0 })
      assert.strictEqual((yield* Store.use(({ deliveries }) => deliveries.get(realm, delivery.id)))?.status, "dead", "it was not asked for")

      const first = yield* run(`endpoint disable ${endpoint.id} -t ${tenant} --json`)

      assert.deepInclude(JSON.parse(first.out), { id: endpoint.id, enabled: false, version: 3 })
      assert.include(first.error, "`mailroom endpoint enable --replay` brings that back")
      assert.include((yield* run(`endpoint disable ${endpoint.id} -t ${tenant}`)).error, "it was disabled already; nothing has changed")
      assert.strictEqual((yield* Store.use(({ endpoints }) => endpoints.get(realm, endpoint.id)))?.version, 3)
      const [entry] = yield* json(`audit list ${tenant} --limit 1`)
      assert.deepInclude(entry, { action: "webhook_endpoint.disable" })
    })
  )

  typed(
    "replace an endpoint's secret, told once, on standard output or in a file",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded
      const { endpoint, realm } = yield* disabled(tenant, app)
      const secretAt = (at: number) =>
        Effect.gen(function* () {
          const stored = yield* Store.use(({ endpoints }) => endpoints.get(realm, endpoint.id))
          const opened = yield* Crypto.use(({ open }) => open(Endpoints.signingSecret(stored!, at), Endpoints.sealContext(endpoint)))
          return Redacted.value(opened)
        })

      const rotated = yield* json(`endpoint rotate-secret ${endpoint.id} -t ${tenant}`)
      assert.deepInclude(rotated.endpoint, { id: endpoint.id, nextSecretFrom: "1970-01-02T00:00:00.000Z" })
      assert.match(rotated.secret, /^whsec_[0-9a-f]{64}$/)
      assert.deepStrictEqual([yield* secretAt(86_399_999), yield* secretAt(86_400_000)], ["whsec_topsecret", rotated.secret])
      const file = join(folder, "webhook.secret")
      const written = yield* run(`endpoint rotate-secret ${endpoint.id} -t ${tenant} --overlap 0s --out`, file)
      assert.match(written.out, /^nextSecretFrom +-$/m)
      assert.include(written.error, `the secret is in ${file}, and nowhere else\nmailroom: it signs from now on\n`)
      assert.notInclude(written.out, "whsec_")
      assert.strictEqual(readFileSync(file, "utf8"), `${yield* secretAt(0)}\n`)
      assert.notInclude(JSON.stringify(yield* json(`endpoint show ${endpoint.id} -t ${tenant}`)), "whsec_")
      assert.strictEqual((yield* json(`audit list ${tenant} --limit 2`)).filter((entry: { action: string }) => entry.action === "webhook_endpoint.rotate_secret").length, 2)

      const long = yield* run(`endpoint rotate-secret ${endpoint.id} -t ${tenant} --overlap 91d`)
      assert.deepInclude(long, { code: 2, out: "" })
      assert.include(long.error, "--overlap is longer than 90 days")
      const taken = yield* run(`endpoint rotate-secret ${endpoint.id} -t ${tenant} --out`, file)
      assert.include(taken.error, "is there already, and nothing is written over: name a new file")
      assert.strictEqual(readFileSync(file, "utf8"), `${yield* secretAt(0)}\n`)
      assert.deepStrictEqual(yield* unread(`endpoint rotate-secret ${endpoint.id} -t ${tenant} --overlap 0s`), {
        code: 1,
        out: "",
        error: `the secret of endpoint ${endpoint.id} was replaced, and the new one cannot be written: nobody reads standard output. Replace it again.`
      })
      const unknown = yield* run(`endpoint rotate-secret ${nobody} -t ${tenant} --out`, join(folder, "no.secret"))
      assert.deepStrictEqual([unknown.code, existsSync(join(folder, "no.secret"))], [3, false])
    })
  )

  typed(
    "seal secrets anew with the newest key, and end with 1 if some cannot be opened",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded
      const { endpoint } = yield* disabled(tenant, app)
      const resealing = (...versions: ReadonlyArray<number>) =>
        run("sealing reseal --json").pipe(Effect.provide(Layer.fresh(Layer.provide(services, ring(...versions)))))

      const lost = yield* resealing(3)
      assert.strictEqual(lost.code, 1)
      assert.include(lost.error, `secrets that cannot be opened: 1, such as that of endpoint ${endpoint.id}. Sealing key 1 is not in the ring`)
      assert.deepStrictEqual(JSON.parse((yield* resealing(1, 2)).out), { version: 2, resealed: 1, unopened: [] })
      assert.strictEqual((yield* json(`endpoint show ${endpoint.id} -t ${tenant}`)).sealVersion, 2)
    })
  )
})
