/** What the lists of the management commands show of each item, and of which items. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, type Layer } from "effect"
import * as Fixtures from "../../conformance/fixtures.ts"
import { requestEntry } from "../../conformance/StoreLaw.ts"
import type { ApplicationId, MessageId, TenantId } from "../../core/model/Ids.ts"
import { Store, type Change } from "../../core/ports/Store.ts"
import { epoch, founded, json, layer, run } from "./harness.ts"

const typed = <E>(title: string, test: Effect.Effect<void, E, Layer.Success<typeof layer>>) =>
  it.effect(title, () => Effect.provide(test, layer))

const commit = (...changes: ReadonlyArray<Change>) => Effect.orDie(Store.use((store) => store.commit(changes, [])))

/** A tenant that has one of everything. */
const furnished = Effect.gen(function* () {
  const { tenant, app } = yield* founded
  const [realm, name] = [{ tenantId: tenant as TenantId, environment: "sandbox" } as const, Fixtures.domainName()]
  const { apiKey } = yield* json(`key create -t ${tenant} --app ${app} --name web --scope messages:read`)
  const domain = yield* json(`domain add ${name} -t ${tenant}`)
  const mailbox = yield* json(`mailbox create ada@${name} -t ${tenant}`)
  yield* json(`suppression add bob@example.com -t ${tenant}`)
  const endpoint = Fixtures.endpoint(realm, { applicationId: app as ApplicationId })
  const request = requestEntry(realm, { at: 5, status: 404, code: "not_found" })
  yield* commit({ _tag: "Insert", kind: "endpoint", record: endpoint }, { _tag: "AppendRequests", entries: [request] })
  return { tenant, app, realm, key: apiKey.id, domain: domain.id, mailbox: mailbox.id, endpoint, request }
})

describe("lists", () => {
  typed(
    "have a column for each thing that tells items apart",
    Effect.gen(function* () {
      const { tenant } = yield* furnished
      const columns: ReadonlyArray<readonly [line: string, columns: ReadonlyArray<string>]> = [
        ["plan list", ["ID", "KEY REQUESTS PER MINUTE", "TENANT REQUESTS PER DAY", "RECIPIENTS PER DAY"]],
        ["tenant list", ["ID", "NAME", "PLAN ID", "STATUS", "CREATED AT"]],
        [`app list -t ${tenant}`, ["ID", "NAME", "ENVIRONMENT", "STATUS", "CREATED AT"]],
        [`key list -t ${tenant}`, ["ID", "NAME", "ENVIRONMENT", "STATE", "SCOPES", "LAST USED AT", "EXPIRES AT", "CREATED AT"]],
        [`domain list -t ${tenant}`, ["ID", "DOMAIN", "HEALTH", "VERIFIED", "MAILBOX COUNT", "CREATED AT"]],
        [`mailbox list -t ${tenant}`, ["ID", "ADDRESS", "DISPLAY NAME", "STATUS", "CREATED AT"]],
        [`suppression list -t ${tenant}`, ["ADDRESS", "REASON", "MESSAGE ID", "CREATED AT"]],
        [`endpoint list -t ${tenant}`, ["ID", "ENVIRONMENT", "URL", "ENABLED", "CONSECUTIVE FAILURES", "DISABLED AT", "EVENT TYPES"]],
        [`audit list ${tenant}`, ["AT", "ACTION", "ACTOR TYPE", "ACTOR ID", "SUBJECT ID", "ENVIRONMENT"]],
        [`audit requests ${tenant}`, ["AT", "OPERATION", "STATUS", "CODE", "DURATION MS", "ENVIRONMENT", "API KEY ID", "CLIENT ADDRESS", "REQUEST ID"]]
      ]

      for (const [line, expected] of columns) {
        const [head, row] = (yield* run(line)).out.split("\n")
        assert.deepStrictEqual(head!.split(/ {2,}/), expected, line)
        assert.lengthOf(row!.split(/ {2,}/), expected.length, line)
      }
    })
  )

  typed(
    "have columns as wide as their widest item is on a terminal",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded
      const { id } = yield* json(`app create -t ${tenant} --environment sandbox --name 日本日本日本`)

      const lines = ["NAME          ENVIRONMENT", "Billing       sandbox", "日本日本日本  sandbox"]
      const ids = ["ID".padEnd(36), app, id]
      const { out } = yield* run(`app list -t ${tenant}`)
      assert.deepStrictEqual(out.split("\n").slice(0, 3).map((line, index) => line.startsWith(`${ids[index]}  ${lines[index]}`)), [true, true, true], out)
    })
  )

  typed(
    "are of one application, or of one domain, when asked",
    Effect.gen(function* () {
      const { tenant, app, key, domain, mailbox, endpoint } = yield* furnished
      const elsewhere = Fixtures.domainName()
      const { id: other } = yield* json(`app create -t ${tenant} --environment sandbox --name other`)
      const { id: otherDomain } = yield* json(`domain add ${elsewhere} -t ${tenant}`)
      const { id: otherMailbox } = yield* json(`mailbox create ada@${elsewhere} -t ${tenant}`)
      const filtered: ReadonlyArray<readonly [line: string, ids: ReadonlyArray<string>]> = [
        [`key list --app ${app}`, [key]],
        [`key list --app ${other}`, []],
        [`endpoint list --app ${app}`, [endpoint.id]],
        [`endpoint list --app ${other}`, []],
        [`mailbox list --domain ${domain}`, [mailbox]],
        [`mailbox list --domain ${otherDomain}`, [otherMailbox]]
      ]

      for (const [line, ids] of filtered) {
        const items: ReadonlyArray<{ readonly id: string }> = yield* json(`${line} -t ${tenant}`)
        assert.deepStrictEqual(items.map(({ id }) => id), ids, line)
      }
    })
  )

  typed(
    "say that there is more to who reads JSON, too, and are nothing but JSON on standard output",
    Effect.gen(function* () {
      const { tenant } = yield* furnished

      assert.deepStrictEqual(yield* run(`suppression list -t ${tenant} --environment sandbox --json`), { code: 0, out: "[]\n", error: "" })
      const { out, error } = yield* run(`audit list ${tenant} --limit 1 --json`)
      assert.strictEqual(error, `mailroom: there is more: go on with --after ${JSON.parse(out)[0].number}\n`)
    })
  )

  typed(
    "of requests show how each ended, page by page",
    Effect.gen(function* () {
      const { tenant, realm, request } = yield* furnished
      const second = requestEntry(realm)
      yield* commit({ _tag: "AppendRequests", entries: [second] })

      const [last, first] = yield* json(`audit requests ${tenant}`)

      const { tenantId: _, ...rest } = request
      assert.deepStrictEqual(first, { ...rest, number: first.number, at: "1970-01-01T00:00:00.005Z" })
      assert.deepStrictEqual([last.requestId, last.code], [second.requestId, null])
      const page = yield* run(`audit requests ${tenant} --limit 1 --json`)
      assert.deepStrictEqual([JSON.parse(page.out), page.error], [[last], `mailroom: there is more: go on with --after ${last.number}\n`])
      assert.deepStrictEqual(yield* json(`audit requests ${tenant} --after ${last.number}`), [first])
    })
  )

  typed(
    "of what is no tenant's are asked for without one",
    Effect.gen(function* () {
      const { tenant } = yield* founded

      const { code, out, error } = yield* run(`audit list ${tenant} --installation`)

      assert.deepStrictEqual([code, out, error], [2, "", "audit list wants the id of a tenant, or --installation"])
    })
  )

  typed(
    "show a record within another by its members, and what is empty as a hyphen",
    Effect.gen(function* () {
      const { tenant, realm, domain } = yield* furnished
      const bounced = { ...realm, environment: "production", address: Fixtures.address("eve"), reason: "bounce", messageId: Fixtures.freshId<MessageId>(), createdAt: 0 } as const
      yield* commit({ _tag: "Suppress", suppression: bounced })
      const [head, ...rows] = (yield* run(`suppression list -t ${tenant}`)).out.split("\n")
      assert.strictEqual(head!.indexOf("MESSAGE ID"), rows[0]!.indexOf("-"))
      assert.include(rows[1], `  bounce  ${bounced.messageId}  ${epoch}`)

      yield* json(`domain check ${domain} -t ${tenant}`)
      const { out } = yield* run(`domain suspend ${domain} -t ${tenant}`)
      const first = ["record +ownership", "state +missing", "expected +mailroom-verify=[0-9a-f]{32}", "observed +-", "since +1970-01-01T00:00:00.000Z"]
      assert.match(out, new RegExp(`^catchAll +-\n${first.map((member) => `checks\\.0\\.${member}\n`).join("")}checks\\.1\\.record +dkim\n`, "m"))
    })
  )
})
