/** Domains and suppressed addresses at the command line. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import * as Fixtures from "../../conformance/fixtures.ts"
import type { DomainName } from "../../core/model/Address.ts"
import { keyOf } from "../../core/model/DomainRecords.ts"
import type { MessageId, TenantId } from "../../core/model/Ids.ts"
import { Store } from "../../core/ports/Store.ts"
import { defaults, Settings } from "../../core/Settings.ts"
import { dns, epoch, founded, json, layer, nobody, run } from "./harness.ts"
import { services } from "./Operator.ts"

const typed = <E>(title: string, test: Effect.Effect<void, E, Layer.Success<typeof layer>>) =>
  it.effect(title, () => Effect.provide(test, layer))

const actionsOf = Effect.fnUntraced(function* (tenant: string) {
  const audit: ReadonlyArray<{ action: string; environment: string | null; subjectId: string }> = yield* json(`audit list ${tenant} --limit 100`)
  return audit.toReversed()
})

interface Wanted {
  readonly record: string
  readonly type: "TXT"
  readonly name: string
  readonly value: string
}

describe("domain", () => {
  typed(
    "goes from its claim over its records to mail, and to another key",
    Effect.gen(function* () {
      const { tenant } = yield* founded
      const name = Fixtures.domainName()
      const added = yield* json(`domain add ${name} -t ${tenant}`)
      const wanted: ReadonlyArray<Wanted> = added.records
      assert.deepStrictEqual(wanted.map(({ record }) => record), ["ownership", "dkim", "dmarc"])
      const [ownership, dkim] = wanted
      assert.match(ownership!.value, /^mailroom-verify=[0-9a-f]{32}$/)
      assert.match(dkim!.value, /^v=DKIM1; k=rsa; p=[A-Za-z0-9+/=]{200,}$/)
      assert.deepStrictEqual((yield* json(`domain show ${name} -t ${tenant}`)).records, wanted)

      const early = yield* run(`domain check ${name} -t ${tenant}`)
      assert.include(early.error, `mailroom: dkim: there is no such record: set TXT ${dkim!.name} to ${dkim!.value}\n`)
      assert.include(early.error, `mailroom: ${name} is pending: mail cannot be sent from it\n`)
      for (const record of wanted) dns.set(keyOf(record), [record.value])
      const checked = yield* json(`domain check ${added.id} -t ${tenant}`)
      assert.deepStrictEqual([checked.health, checked.verified, checked.dkimSelector], ["healthy", true, added.nextDkimSelector])
      assert.deepStrictEqual(
        checked.records.map(({ state, advice }: Record<string, unknown>) => [state, advice]),
        wanted.map(() => ["ok", null])
      )

      const rotating = yield* json(`domain rotate-dkim ${name} -t ${tenant}`)
      assert.deepStrictEqual([rotating.dkimSelector, rotating.nextDkim.isOptional], [added.nextDkimSelector, true])
      assert.include((yield* run(`domain show ${name} -t ${tenant}`)).out, rotating.nextDkim.value)
      dns.set(keyOf(rotating.nextDkim), [rotating.nextDkim.value])
      assert.strictEqual((yield* json(`domain check ${name} -t ${tenant}`)).dkimSelector, rotating.nextDkimSelector)

      const acts = (yield* actionsOf(tenant)).map(({ action }) => action).filter((action) => action.startsWith("domain."))
      const checks = ["domain.check", "domain.check", "domain.rotate_dkim", "domain.check"]
      assert.deepStrictEqual(acts, ["domain.create", "domain.make_key", ...checks])
    })
  )

  typed(
    "says which records sending waits for, and which it does not",
    Effect.gen(function* () {
      const { tenant } = yield* founded
      const name = Fixtures.domainName()

      const added = yield* run(`domain add ${name} -t ${tenant}`)
      const records: ReadonlyArray<Wanted> = (yield* json(`domain show ${name} -t ${tenant}`)).records
      const [record, table] = added.out.split("\n\n")
      assert.match(record!, /^id +\S+\n/)
      assert.match(table!, /^RECORD +NEEDED +STATE +TYPE +NAME +VALUE\nownership +to send .*\ndkim +to send .*\ndmarc +to be healthy .*\n$/)
      assert.strictEqual(
        added.error,
        `mailroom: the table shows the DNS records to set for ${name}\n` +
          "mailroom: pending: mail can be sent from it once its ownership and dkim records were seen; while dmarc is missing it is degraded, and sends. " +
          "Records are looked at on a schedule, or at once by `mailroom domain check`\n"
      )
      for (const one of records.filter(({ record }) => record !== "dmarc")) dns.set(keyOf(one), [one.value])
      assert.include((yield* run(`domain check ${name} -t ${tenant}`)).error, `mailroom: ${name} is degraded: mail can be sent from it\n`)
    })
  )

  typed(
    "is not looked at any more once it is confirmed, until somebody asks for a check",
    Effect.gen(function* () {
      const { tenant } = yield* founded
      const name = Fixtures.domainName()
      yield* json(`domain add ${name} -t ${tenant}`)

      const confirmed = yield* run(`domain confirm ${name} -t ${tenant} --json`)
      assert.isNull(JSON.parse(confirmed.out).nextCheckAt)
      assert.strictEqual(
        confirmed.error,
        "mailroom: confirmed: mail can be sent from it, and its DNS records are not looked at. " +
          "`mailroom domain check` looks at them, and from then on they are on the schedule, and decide\n"
      )
      const { health, nextCheckAt } = yield* json(`domain check ${name} -t ${tenant}`)
      assert.strictEqual(health, "degraded")
      assert.isNotNull(nextCheckAt)
    })
  )

  typed(
    "is told which records are optional and what for, and of these no more unless they are wrong",
    Effect.gen(function* () {
      const { tenant } = yield* founded
      const name = Fixtures.domainName()
      const added = yield* run(`domain add ${name} -t ${tenant}`)
      assert.match(added.out, /\nreturn_path +optional +- +CNAME .*\nmx +optional +- +MX .* 10 mx\.mailroom\.example\n$/)
      assert.include(
        added.error,
        "mailroom: return_path is optional: with it, bounces come back under the domain's own name, and SPF is aligned\n" +
          "mailroom: mx is optional: set it to receive the domain's mail here, and leave it to receive it elsewhere\n" +
          "mailroom: pending: mail can be sent from it once its ownership and dkim records were seen; while dmarc is missing it is degraded"
      )

      const missing = yield* run(`domain check ${name} -t ${tenant}`)
      assert.match(missing.out, /\nreturn_path +missing .*\nmx +missing /)
      assert.notMatch(missing.error, /return_path|mx/)
      const records: ReadonlyArray<Wanted> = (yield* json(`domain show ${name} -t ${tenant}`)).records
      dns.set(keyOf(records.find(({ record }) => record === "return_path")!), ["elsewhere.example"])
      assert.match((yield* run(`domain check ${name} -t ${tenant}`)).error, /^mailroom: return_path: .*bounces\.mailroom\.example/m)
    }).pipe(
      Effect.provide(
        Layer.fresh(
          Layer.provide(
            services,
            Layer.succeed(Settings, {
              ...defaults,
              mxHost: "mx.mailroom.example" as DomainName, // a host name, as the next one
              bounceDomain: "bounces.mailroom.example" as DomainName
            })
          )
        )
      )
    )
  )

  typed(
    "shows what was found of each record, and of the next key's beside that of the key that signs",
    Effect.gen(function* () {
      const { tenant } = yield* founded
      const name = Fixtures.domainName()
      const added = yield* json(`domain add ${name} -t ${tenant}`)
      for (const record of added.records) dns.set(keyOf(record), [record.value])
      const healthy = yield* json(`domain check ${name} -t ${tenant}`)
      assert.deepStrictEqual(healthy.checks.map(({ record, state, since }: Record<string, string>) => [record, state, since]), [
        ["ownership", "ok", epoch],
        ["dkim", "ok", epoch],
        ["dmarc", "ok", epoch]
      ])
      assert.deepStrictEqual([healthy.nextDkim, healthy.records[0].since], [null, epoch])

      const rotated = yield* run(`domain rotate-dkim ${name} -t ${tenant}`)
      assert.match(rotated.out, /\nownership +to send +ok .*\ndkim +to send +ok .*\ndmarc +to be healthy +ok .*\nnext dkim +optional +- +TXT .*\n$/)
      assert.strictEqual(
        rotated.error,
        `mailroom: the table shows the DNS records to set for ${name}\n` +
          "mailroom: the new key signs once its record was seen in DNS. Leave the former record for a week after that, for mail that is on its way\n"
      )
      const checked = yield* run(`domain check ${name} -t ${tenant}`)
      assert.match(checked.out, /^RECORD +STATE +SINCE +TYPE +NAME +OBSERVED\nownership +ok +1970-.* mailroom-verify=\w+\n[^]*\nnext dkim +missing +1970-.* -\n$/)
      const { nextDkim } = yield* json(`domain check ${name} -t ${tenant}`)
      assert.deepStrictEqual([nextDkim.record, nextDkim.state, nextDkim.observed], ["dkim", "missing", null])
    })
  )

  typed(
    "takes an operator's word for no record of a key that was never seen",
    Effect.gen(function* () {
      const { tenant } = yield* founded
      const name = Fixtures.domainName()
      yield* json(`domain add ${name} -t ${tenant}`)
      yield* json(`domain confirm ${name} -t ${tenant}`)

      const { records, dkimSelector } = yield* json(`domain show ${name} -t ${tenant}`)
      const { error } = yield* run(`domain rotate-dkim ${name} -t ${tenant}`)

      assert.isNull(dkimSelector)
      assert.deepStrictEqual(records.map(({ record, state }: Record<string, unknown>) => [record, state]), [["ownership", "ok"], ["dkim", null], ["dmarc", null]])
      assert.include(error, "mailroom: nobody looks for it by itself: `mailroom domain check` does, and does so from then on\n")
    })
  )

  typed(
    "takes in mail for addresses that no mailbox has, or does not",
    Effect.gen(function* () {
      const { tenant } = yield* founded
      const [name, other] = [Fixtures.domainName(), Fixtures.domainName()]
      for (const domain of [name, other]) yield* json(`domain add ${domain} -t ${tenant}`)
      const mailbox = yield* json(`mailbox create ada@${name} -t ${tenant}`)
      const elsewhere = yield* json(`mailbox create ada@${other} -t ${tenant}`)

      assert.strictEqual((yield* json(`domain show ${name} -t ${tenant}`)).catchAll, null)
      assert.strictEqual((yield* json(`domain catch-all ${name} --mailbox ${mailbox.id} -t ${tenant}`)).catchAll, mailbox.id)
      assert.strictEqual((yield* json(`domain catch-all ${name} --none -t ${tenant}`)).catchAll, null)
      for (const flags of ["", ` --mailbox ${mailbox.id} --none`, " --mailbox ada"]) {
        assert.strictEqual((yield* run(`domain catch-all ${name}${flags} -t ${tenant}`)).code, 2, flags)
      }
      assert.strictEqual((yield* run(`domain catch-all ${name} --mailbox ${elsewhere.id} -t ${tenant}`)).code, 3)
      assert.include((yield* actionsOf(tenant)).map(({ action }) => action), "domain.catch_all")
    })
  )

  typed(
    "shows no private key, sealed or open, and knows a domain by its name in either form",
    Effect.gen(function* () {
      const { tenant } = yield* founded
      yield* json(`domain create Straße.example -t ${tenant}`)
      for (const line of ["show straße.example", "check xn--strae-oqa.example", "rotate-dkim straße.example", "suspend straße.example"]) {
        for (const flag of ["", " --json"]) {
          const { code, out, error } = yield* run(`domain ${line} -t ${tenant}${flag}`)
          assert.strictEqual(code, 0, error)
          assert.include(out, "xn--strae-oqa.example")
          assert.notMatch(out + error, /PRIVATE|ciphertext|privateKey/)
        }
      }
      assert.strictEqual((yield* json(`domain list -t ${tenant}`))[0].unicode, "straße.example")
      assert.strictEqual((yield* run(`domain check other.example -t ${tenant}`)).code, 3)
      assert.strictEqual((yield* run(`domain check localhost -t ${tenant}`)).code, 2)
      assert.strictEqual((yield* run(`domain add STRAẞE.example -t ${tenant}`)).code, 4, "the same after mapping")
    })
  )
})

describe("suppression", () => {
  typed(
    "lists addresses, puts them there by hand and takes them off, each on record",
    Effect.gen(function* () {
      const { tenant } = yield* founded
      const realm = { tenantId: tenant as TenantId, environment: "production" } as const
      const bounced = { ...realm, address: Fixtures.address("Bob"), reason: "bounce", messageId: Fixtures.freshId<MessageId>(), createdAt: 5 } as const
      yield* Effect.orDie(Store.use(({ commit }) => commit([{ _tag: "Suppress", suppression: bounced }], [])))

      const added = yield* json(`suppression add Ada@example.com -t ${tenant}`)
      assert.deepStrictEqual(added, { ...realm, address: "Ada@example.com", reason: "manual", messageId: null, createdAt: epoch })
      const listed = yield* json(`suppression list -t ${tenant}`)
      assert.deepStrictEqual(listed, [added, { ...bounced, createdAt: "1970-01-01T00:00:00.005Z" }])
      assert.deepStrictEqual(yield* json(`suppression list -t ${tenant} --after ADA@example.com`), listed.slice(1))
      assert.include((yield* run(`suppression list -t ${tenant} --limit 1`)).error, "go on with --after Ada@example.com")
      assert.deepStrictEqual(yield* json(`suppression add bob@example.com -t ${tenant}`), listed[1], "the first reason stays")
      assert.deepStrictEqual(yield* json(`suppression list -t ${tenant} --environment sandbox`), [])

      assert.deepStrictEqual(yield* json(`suppression remove BOB@example.com -t ${tenant}`), listed[1])
      assert.deepStrictEqual(yield* json(`suppression list -t ${tenant}`), [added])
      const acts = (yield* actionsOf(tenant)).filter(({ action }) => action.startsWith("suppression."))
      assert.deepStrictEqual(
        acts.map(({ action, environment, subjectId }) => [action, environment, subjectId]),
        [
          ["suppression.add", "production", "ada@example.com"],
          ["suppression.remove", "production", "bob@example.com"]
        ]
      )
    })
  )

  typed(
    "says what it cannot do",
    Effect.gen(function* () {
      const { tenant } = yield* founded
      for (const [line, code, says] of [
        [`suppression remove bob@example.com -t ${tenant}`, 3, "There is no suppression bob@example.com in this tenant."],
        [`suppression list -t ${nobody}`, 3, `There is no tenant ${nobody}.`],
        [`suppression add bob@example.com -t ${nobody}`, 3, `There is no tenant ${nobody}.`],
        [`suppression remove bob@example.com -t ${nobody}`, 3, `There is no tenant ${nobody}.`],
        [`suppression add bob@example.com -t ${tenant} --environment sandbox`, 2, "--environment wants production: in the sandbox nobody is suppressed"],
        [`suppression add bob -t ${tenant}`, 2, "\"bob\": an address is local@domain"]
      ] as const) {
        const ended = yield* run(line)
        assert.strictEqual(ended.code, code, line)
        assert.include(ended.error, says)
      }
    })
  )
})
