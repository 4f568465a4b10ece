/** What the management commands say beside their output, and what they refuse to whoever looked at another version. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, type Layer } from "effect"
import * as Fixtures from "../../conformance/fixtures.ts"
import { shardOf, type ApplicationId, type TenantId } from "../../core/model/Ids.ts"
import { Store } from "../../core/ports/Store.ts"
import { founded, json, layer, nobody, run } from "./harness.ts"

const typed = <E>(title: string, test: Effect.Effect<void, E, Layer.Success<typeof layer>>) =>
  it.effect(title, () => Effect.provide(test, layer))

const endpointOf = Effect.fnUntraced(function* (tenant: string, app: string, over: Parameters<typeof Fixtures.endpoint>[1] = {}) {
  const record = Fixtures.endpoint({ tenantId: tenant as TenantId, environment: "sandbox" }, { applicationId: app as ApplicationId, ...over })
  yield* Effect.orDie(Store.use((store) => store.commit([{ _tag: "Insert", kind: "endpoint", record }], [])))
  return record.id
})

describe("notes", () => {
  typed(
    "say what has changed, and for whom",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded
      const name = Fixtures.domainName()
      yield* json(`domain add ${name} -t ${tenant}`)
      const { id: mailbox } = yield* json(`mailbox create ada@${name} -t ${tenant}`)
      const { apiKey } = yield* json(`key create -t ${tenant} --app ${app} --name web --scope messages:read`)
      const endpoint = yield* endpointOf(tenant, app, { enabled: false, disabledAt: 5 })
      const notes: ReadonlyArray<readonly [line: string, note: string]> = [
        [`tenant suspend ${tenant}`, "suspended: its keys, and mail to its mailboxes, are refused from now on; accepted mail is still sent"],
        [`tenant reinstate ${tenant}`, "in use: its keys are admitted again, unless they or their application are over by themselves"],
        [`app suspend ${app} -t ${tenant}`, "suspended: its keys are refused from the next request on; accepted mail is still sent"],
        [`app reinstate ${app} -t ${tenant}`, "in use: its keys are admitted again, unless they are over by themselves, or the tenant is suspended"],
        [`key revoke ${apiKey.id} -t ${tenant}`, "revoked: it is refused from the next request on, for good"],
        [`mailbox suspend ${mailbox} -t ${tenant}`, "suspended: new mail from it and to it is refused, and accepted mail from it waits"],
        [`mailbox reinstate ${mailbox} -t ${tenant}`, "in use: mail is sent from it again, and what has waited within six minutes"],
        [`domain catch-all ${name} --mailbox ${mailbox} -t ${tenant}`, `mail to any other address of ${name} goes to this mailbox`],
        [`domain catch-all ${name} --none -t ${tenant}`, `mail to addresses of ${name} that no mailbox has is refused`],
        [`domain suspend ${name} -t ${tenant}`, "suspended: new mail from it and to it is refused, and accepted mail from it waits"],
        [`domain confirm ${name} -t ${tenant}`, "still suspended: `mailroom domain reinstate` it, then confirm it again"],
        [`domain reinstate ${name} -t ${tenant}`, "pending: the next check of its DNS records decides, or `mailroom domain confirm`"],
        [`suppression add bob@example.com -t ${tenant}`, "suppressed: mail to it bounces at once. What is on its way to the provider goes on"],
        [`suppression remove bob@example.com -t ${tenant}`, "removed: the next mail to it is sent. If it bounces, or complains, it is suppressed again"],
        [`endpoint enable ${endpoint} -t ${tenant}`, "enabled: events are delivered to it from now on"],
        [`endpoint enable ${endpoint} -t ${tenant}`, "it was enabled already; nothing has changed"],
        [`endpoint test ${endpoint} -t ${tenant}`, "on its way; endpoints of the same application that get this type get it too"],
        [
          `endpoint disable ${endpoint} -t ${tenant}`,
          "disabled: what is under way ends, what is pending dies when it is due, and `mailroom endpoint enable --replay` brings that back"
        ],
        [`endpoint enable ${endpoint} --replay -t ${tenant}`, "enabled: events are delivered to it from now on, and 0 dead deliveries again"]
      ]

      for (const [line, note] of notes) {
        const { code, error } = yield* run(line)
        assert.deepStrictEqual([line, code, error], [line, 0, `mailroom: ${note}\n`])
      }
    })
  )

  typed(
    "say of a key of a suspended application what it waits for",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded
      yield* json(`app suspend ${app} -t ${tenant}`)

      const { error } = yield* run(`key create -t ${tenant} --app ${app} --name late --scope messages:read`)

      const waits = "its application is suspended, and the key is refused until `mailroom app reinstate`"
      assert.strictEqual(error, `mailroom: ${waits}\nmailroom: the key is shown this once; keep it as a secret\n`)
    })
  )

  typed(
    "say which key of the ring seals all secrets, or how many it cannot",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded
      assert.deepStrictEqual(yield* run("sealing reseal"), { code: 0, out: "version   1\nresealed  0\nunopened  -\n", error: "mailroom: all secrets are sealed with key 1 of the ring\n" })

      const ids = yield* Effect.all([endpointOf(tenant, app), endpointOf(tenant, app)])
      const { code, error } = yield* run("sealing reseal")

      const [, count, id] = /^secrets that cannot be opened: (\d+), such as that of endpoint (\S+)\. /.exec(error) ?? []
      assert.deepStrictEqual([code, count, ids.some((one) => one === id)], [1, "2", true], error)
      assert.include(error, "Sealing key 1 is not in the ring (or another is, of that version), or the secret was altered.")
    })
  )

  typed(
    "of an operator on a suspended mailbox are what its tenant is told",
    Effect.gen(function* () {
      const { tenant } = yield* founded
      const name = Fixtures.domainName()
      yield* json(`domain add ${name} -t ${tenant}`)
      const { id: mailbox, displayName } = yield* json(`mailbox create ada@${name} -t ${tenant}`)
      assert.strictEqual(displayName, "")
      yield* json(`mailbox suspend ${mailbox} -t ${tenant} --reason`, "not paid for")
      yield* json(`mailbox reinstate ${mailbox} -t ${tenant} --reason paid`)

      const log = yield* Effect.orDie(Store.use(({ events }) => events.readLog(shardOf(tenant as TenantId), 0n, 1_000)))
      const told = log.filter(({ data }) => data.id === mailbox)
      assert.deepStrictEqual(told.map(({ type, data }) => [type, "reason" in data ? data.reason : null]), [
        ["mailbox.created", null],
        ["mailbox.suspended", "not paid for"],
        ["mailbox.updated", "paid"]
      ])
    })
  )

  typed(
    "say from when a new secret signs",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded
      const endpoint = yield* endpointOf(tenant, app)

      const { error } = yield* run(`endpoint rotate-secret ${endpoint} -t ${tenant}`)

      const notes = ["the secret is shown this once; keep it as a secret", "it signs from 1970-01-02T00:00:00.000Z on: have the receiver take both until then"]
      assert.strictEqual(error, notes.map((note) => `mailroom: ${note}\n`).join(""))
    })
  )
})

describe("a change of what was looked at", () => {
  typed(
    "is refused once the record has moved, and changes nothing",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded
      const name = Fixtures.domainName()
      yield* json(`domain add ${name} -t ${tenant}`)
      const { id: mailbox } = yield* json(`mailbox create ada@${name} -t ${tenant} --name Ada`)
      const { apiKey } = yield* json(`key create -t ${tenant} --app ${app} --name web --scope messages:read`)
      yield* json(`domain add gone.${name} -t ${tenant}`)
      const gone = yield* json(`domain suspend gone.${name} -t ${tenant}`)
      const changes: ReadonlyArray<readonly [change: string, version: number, show: string]> = [
        [`app update ${app} --name n`, 1, `app show ${app}`],
        [`key update ${apiKey.id} --name n`, 1, `key show ${apiKey.id}`],
        [`mailbox update ${mailbox} --name n`, 1, `mailbox show ${mailbox}`],
        [`domain remove gone.${name}`, gone.version, `domain show gone.${name}`]
      ]

      for (const [change, version, show] of changes) {
        const before = yield* json(`${show} -t ${tenant}`)
        const stale = yield* run(`${change} -t ${tenant} --if-version ${version + 1}`)
        assert.deepStrictEqual([change, stale.code, stale.out], [change, 4, ""])
        assert.include(stale.error, `has changed meanwhile: it is at version ${version}.`)
        assert.deepStrictEqual(yield* json(`${show} -t ${tenant}`), before)
        assert.strictEqual((yield* run(`${change} -t ${tenant} --if-version ${version}`)).code, 0, change)
      }
    })
  )
})

describe("a fault", () => {
  typed(
    "names the flag that is to be changed, and where what there is is listed",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded
      const name = Fixtures.domainName()
      yield* json(`domain add ${name} -t ${tenant}`)
      const { id: mailbox } = yield* json(`mailbox create ada@${name} -t ${tenant}`)
      const faults: ReadonlyArray<readonly [words: ReadonlyArray<string>, code: number, says: string]> = [
        [["tenant create --plan standard --name", " "], 2, "--name wants 1 to 200 characters"],
        [[`mailbox update ${mailbox} -t ${tenant} --name`, "a\u0007"], 2, "--name holds a control character, or half of a character"],
        [[`mailbox suspend ${mailbox} -t ${tenant} --reason`, " "], 2, "--reason wants 1 to 200 characters"],
        [["plan create trial --key-requests-per-minute 1"], 2, "--tenant-requests-per-day is missing; only the plans of the specification have numbers of their own"],
        [["plan create / --key-requests-per-minute 1 --tenant-requests-per-day 1 --recipients-per-day 1"], 2, "ID wants 1 to 63 letters, digits, dots, hyphens or underscores"],
        [[`app show ${nobody} -t ${tenant}`], 3, `There is no application ${nobody} in this tenant. \`mailroom app list --tenant ID\` shows those there are.`],
        [[`domain show other.example -t ${tenant}`], 3, "There is no domain other.example in this tenant. `mailroom domain list --tenant ID` shows those there are."],
        [[`mailbox show ${nobody} -t ${tenant}`], 3, `There is no mailbox ${nobody} in this tenant. \`mailroom mailbox list --tenant ID\` shows those there are.`],
        [
          [`suppression remove bob@example.com -t ${tenant}`],
          3,
          "There is no suppression bob@example.com in this tenant. `mailroom suppression list --tenant ID` shows those there are."
        ],
        [
          [`endpoint show ${nobody} -t ${tenant}`],
          3,
          `There is no webhook endpoint ${nobody} in this tenant. \`mailroom endpoint list --tenant ID\` shows those there are.`
        ],
        [[`key show ${"k".repeat(101)} -t ${tenant}`], 2, `ID wants a UUID, and got "${"k".repeat(100)}…"`],
        [
          [`endpoint test ${yield* endpointOf(tenant, app, { enabled: false, disabledAt: 5 })} -t ${tenant}`],
          4,
          "The webhook endpoint is disabled. `mailroom endpoint enable` takes it into use again, and with `--replay` delivers what died meanwhile."
        ]
      ]

      for (const [[line, ...more], code, says] of faults) {
        assert.deepStrictEqual({ line, ...(yield* run(line!, ...more)) }, { line, code, out: "", error: says })
      }
    })
  )
})
