/** The management commands as an operator types them, in this process and on memory adapters: what they print, and how they end. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Option, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import builtin from "node:fs/promises"
import { syncBuiltinESMExports } from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll } from "vitest"
import * as Fixtures from "../../conformance/fixtures.ts"
import { keepPayload, payload } from "../../conformance/StoreLaw.ts"
import type { ApplicationId, TenantId } from "../../core/model/Ids.ts"
import { Access } from "../../core/operations/Access.ts"
import { Store } from "../../core/ports/Store.ts"
import { CommandFailed } from "./CommandFailed.ts"
import { epoch, founded, json, layer, nobody, run } from "./harness.ts"
import { Output } from "./Output.ts"
import { tellOnce } from "./SecretFile.ts"

const folder = mkdtempSync(join(tmpdir(), "mailroom-cli-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const admitted = (text: string) =>
  Access.use(({ admit }) =>
    admit({ authorization: `Bearer ${text.trim()}`, operation: "listMessages", requestId: "r", clientAddress: "192.0.2.1" }, () => {}, () => {})
  ).pipe(Effect.as("admitted"), Effect.catchTag("Unauthorized", ({ reason }) => Effect.succeed(reason)))

const typed = <E>(title: string, test: Effect.Effect<void, E, Layer.Success<typeof layer>>) =>
  it.effect(title, () => Effect.provide(test, layer))

describe("management commands", () => {
  typed(
    "print stable documents, and times as RFC 3339",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded

      assert.deepStrictEqual(yield* json(`tenant show ${tenant}`), {
        id: tenant,
        name: "Analytical Engines",
        planId: "standard",
        status: "active",
        version: 1,
        createdAt: epoch
      })
      assert.deepStrictEqual(yield* json("plan show standard"), {
        id: "standard",
        keyRequestsPerMinute: 120,
        tenantRequestsPerDay: 100_000,
        recipientsPerDay: 50_000
      })
      assert.deepStrictEqual(yield* json(`app list --tenant ${tenant}`), [
        { id: app, tenantId: tenant, environment: "sandbox", name: "Billing", status: "active", version: 1, createdAt: epoch }
      ])
      const { apiKey, key, ...rest } = yield* json(`key create -t ${tenant} --app ${app} --name web --scope messages:send,messages:read --expires 90d`)
      assert.deepStrictEqual(rest, {})
      assert.match(key, /^svc_test_[0-9A-Za-z]{50}$/)
      assert.deepStrictEqual(apiKey, {
        id: apiKey.id,
        tenantId: tenant,
        applicationId: app,
        environment: "sandbox",
        publicId: key.slice(9, 20),
        name: "web",
        scopes: ["messages:send", "messages:read"],
        state: "active",
        createdAt: epoch,
        expiresAt: "1970-04-01T00:00:00.000Z",
        revokedAt: null,
        lastUsedAt: null,
        version: 1
      })
      assert.deepStrictEqual(yield* json(`key list -t ${tenant}`), [apiKey])
      yield* Effect.orDie(Store.use(({ commit }) => commit([{ _tag: "TouchApiKeys", used: [{ id: apiKey.id, at: 5 }] }], [])))
      const used = { ...apiKey, lastUsedAt: "1970-01-01T00:00:00.005Z" }
      assert.deepStrictEqual(yield* json(`key show ${apiKey.id} -t ${tenant}`), used)

      const domain = yield* json(`domain create Bücher.example -t ${tenant}`)
      const { records, nextDkimSelector, ...shown } = domain
      assert.deepStrictEqual(shown, {
        id: domain.id,
        tenantId: tenant,
        domain: "xn--bcher-kva.example",
        unicode: "bücher.example",
        health: "pending",
        verified: false,
        catchAll: null,
        checks: [],
        dkimSelector: null,
        nextCheckAt: epoch,
        nextDkim: null,
        version: 2,
        createdAt: epoch
      })
      assert.strictEqual(records[1].name, `${nextDkimSelector}._domainkey.xn--bcher-kva.example`)
      assert.strictEqual((yield* json(`domain confirm ${domain.id} -t ${tenant}`)).verified, true)
      const mailbox = yield* json(`mailbox create ada@xn--bcher-kva.example -t ${tenant}`, "--name", "Ada Lovelace")
      assert.deepStrictEqual(mailbox, {
        id: mailbox.id,
        tenantId: tenant,
        domainId: domain.id,
        address: "ada@xn--bcher-kva.example",
        displayName: "Ada Lovelace",
        status: "active",
        version: 1,
        createdAt: epoch
      })
      assert.deepStrictEqual(yield* json(`mailbox list -t ${tenant} --domain ${domain.id}`), [mailbox])
      assert.strictEqual((yield* json(`domain list -t ${tenant}`))[0].mailboxCount, 1)

      const audit = yield* json(`audit list ${tenant} --limit 1`)
      assert.deepStrictEqual(audit, [
        {
          number: audit[0].number,
          id: audit[0].id,
          at: epoch,
          action: "mailbox.create",
          actorType: "operator",
          actorId: audit[0].actorId,
          subjectType: "mailbox",
          subjectId: mailbox.id,
          environment: null,
          requestId: null,
          clientAddress: null
        }
      ])
      assert.deepStrictEqual(yield* json(`audit requests ${tenant}`), [])
    })
  )

  typed(
    "print tables and key and value for people, in which nothing can command a terminal",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded
      yield* json(`app create -t ${tenant} --environment production --name 日本`)

      const list = yield* run(`app list -t ${tenant}`)
      const [head, ...rows] = list.out.split("\n")
      assert.match(head!, /^ID {36}NAME {5}ENVIRONMENT  STATUS  CREATED AT$/)
      assert.strictEqual(rows[0], `${app}  Billing  sandbox      active  ${epoch}`)
      assert.match(rows[1]!, /^[-0-9a-f]{36} {2}日本 {5}production {3}active {2}1970/)
      const plan = yield* run("plan show standard")
      assert.strictEqual(
        plan.out,
        "id                    standard\nkeyRequestsPerMinute  120\ntenantRequestsPerDay  100000\nrecipientsPerDay      50000\n"
      )
      const record = Fixtures.endpoint({ tenantId: tenant as TenantId, environment: "sandbox" }, { applicationId: app as ApplicationId, description: "a\u001b[2J\u009bb\nc" })
      yield* Effect.orDie(Store.use(({ commit }) => commit([{ _tag: "Insert", kind: "endpoint", record }], [])))
      const endpoint = yield* run(`endpoint show ${record.id} -t ${tenant}`)
      assert.include(endpoint.out, "description          a\\u001b[2J\\u009bb c\n")
      assert.strictEqual((yield* json(`endpoint show ${record.id} -t ${tenant}`)).description, "a\u001b[2J\u009bb\nc")
      assert.notInclude((yield* run(`endpoint show ${record.id} -t ${tenant} --json`)).out, "\u009b")
      assert.deepStrictEqual(yield* run(`domain list -t ${tenant}`), { code: 0, out: "", error: "mailroom: there are none\n" })
    })
  )

  typed(
    "list page by page, and say when there is more",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded
      yield* json(`app create -t ${tenant} --environment production --name live`)

      const first = yield* run(`app list -t ${tenant} --limit 1 --json`)
      assert.strictEqual(first.error, `mailroom: there is more: go on with --after ${app}\n`)
      assert.lengthOf(JSON.parse(first.out), 1)
      assert.deepStrictEqual((yield* json(`app list -t ${tenant} --after ${app}`)).map(({ name }: { name: string }) => name), ["live"])
      const whole = yield* json(`audit list ${tenant}`)
      const [, place] = /^mailroom: there is more: go on with --after (\d+)\n$/.exec((yield* run(`audit list ${tenant} --limit 1`)).error) ?? []
      assert.deepStrictEqual(yield* json(`audit list ${tenant} --after ${place}`), whole.slice(1))
      assert.strictEqual(whole[0].number, Number(place), "a program goes on by what is printed")
      assert.deepInclude(yield* run(`audit list ${tenant} --after ${app}`), { code: 2 })
      assert.lengthOf(yield* json("tenant list"), 1)
      const other = yield* json("tenant create --name Difference --plan standard")
      assert.deepStrictEqual(yield* json(`tenant list --after ${tenant}`), [other])
      assert.lengthOf(yield* json("audit list --installation"), 1)
    })
  )

  typed(
    "change, suspend and reinstate, say what they did, and put on record who did it",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded
      yield* json("plan create scale")
      const { key } = yield* json(`key create -t ${tenant} --app ${app} --name web --scope messages:read`)
      assert.deepInclude(yield* json(`tenant update ${tenant} --plan scale --name Engines --if-version 1`), { name: "Engines", planId: "scale", version: 2 })
      assert.strictEqual((yield* json("plan update scale --recipients-per-day 5")).recipientsPerDay, 5)
      const trial = { id: "trial", keyRequestsPerMinute: 7, tenantRequestsPerDay: 8, recipientsPerDay: 9 }
      assert.deepStrictEqual(yield* json("plan create trial --key-requests-per-minute 7 --tenant-requests-per-day 8 --recipients-per-day 9"), trial)
      assert.strictEqual((yield* run("plan show trial --json")).out, `${JSON.stringify(trial, null, 2)}\n`)
      assert.strictEqual((yield* json(`tenant create --id ${nobody} --name Lost --plan trial`)).id, nobody)
      assert.strictEqual((yield* json(`app update ${app} -t ${tenant} --name Bills`)).name, "Bills")

      const suspended = yield* run(`tenant suspend ${tenant} --by`, "Grace Hopper")
      assert.strictEqual(suspended.error, "mailroom: suspended: its keys, and mail to its mailboxes, are refused from now on; accepted mail is still sent\n")
      assert.strictEqual(yield* admitted(key), "tenant")
      const waiting = yield* run(`key create -t ${tenant} --app ${app} --name late --scope messages:read`)
      assert.include(waiting.error, "the tenant is suspended, and the key is refused until `mailroom tenant reinstate`")
      yield* json(`tenant reinstate ${tenant}`)
      assert.strictEqual((yield* json(`app suspend ${app} -t ${tenant}`)).status, "suspended")
      assert.strictEqual(yield* admitted(key), "application")
      yield* json(`app reinstate ${app} -t ${tenant}`)
      assert.strictEqual(yield* admitted(key), "admitted")

      const { id: domain } = yield* json(`domain create mail.example -t ${tenant}`)
      const { id: mailbox } = yield* json(`mailbox create ada@mail.example -t ${tenant}`)
      assert.strictEqual((yield* json(`domain suspend ${domain} -t ${tenant}`)).health, "suspended")
      assert.strictEqual((yield* json(`domain reinstate ${domain} -t ${tenant}`)).health, "pending")
      assert.strictEqual((yield* json(`mailbox update ${mailbox} -t ${tenant} --name Ada`)).displayName, "Ada")
      assert.strictEqual((yield* json(`mailbox suspend ${mailbox} -t ${tenant} --reason unpaid`)).status, "suspended")
      assert.strictEqual((yield* json(`mailbox reinstate ${mailbox} -t ${tenant}`)).status, "active")
      const entries: ReadonlyArray<{ action: string; actorId: string }> = yield* json(`audit list ${tenant}`)
      assert.strictEqual(entries.find(({ action }) => action === "tenant.suspend")?.actorId, "Grace Hopper")
    })
  )

  typed(
    "remove a mailbox and a domain, and say what still needs them and that their names are free",
    Effect.gen(function* () {
      const { tenant } = yield* founded
      yield* json(`domain add mail.example -t ${tenant}`)
      const { id: mailbox, version } = yield* json(`mailbox create ada@mail.example -t ${tenant}`)
      const [ofMailbox, ofDomain] = [`mailbox remove ${mailbox} -t ${tenant}`, `domain remove mail.example -t ${tenant}`]

      const early = yield* run(ofMailbox)
      assert.deepStrictEqual([early.code, early.out, early.error.includes(`The mailbox ${mailbox} is in use; suspend it first.`)], [4, "", true])
      yield* json(`mailbox suspend ${mailbox} -t ${tenant}`)
      yield* json(`domain suspend mail.example -t ${tenant}`)
      assert.include((yield* run(ofDomain)).error, "The domain mail.example has mailboxes; remove them first.")
      assert.strictEqual((yield* run(`${ofMailbox} --if-version ${version}`)).code, 4)

      assert.include((yield* run(ofMailbox)).error, "ada@mail.example can be had again")
      const removed = yield* run(`${ofDomain} --by Ada`)
      assert.deepStrictEqual([removed.code, removed.error], [0, "mailroom: removed, with its DKIM keys: mail.example can be added again, by any tenant\n"])
      for (const line of [ofMailbox, ofDomain]) assert.strictEqual((yield* run(line)).code, 3)
      assert.strictEqual((yield* json(`domain add mail.example -t ${tenant}`)).domain, "mail.example")
      assert.include((yield* json(`audit list ${tenant}`)).map((entry: { readonly action: string }) => entry.action), "domain.remove")
    })
  )

  typed(
    "write a key to a file that only its owner can read, and tell it nowhere else",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded
      const file = join(folder, "web.key")
      const create = (scope: string, to = file) => run(`key create -t ${tenant} --app ${app} --name web --scope ${scope} --out`, to, "--json")

      const made = yield* create("messages:read")
      const text = readFileSync(file, "utf8")
      assert.match(text, /^svc_test_[0-9A-Za-z]{50}\n$/)
      assert.strictEqual(statSync(file).mode & 0o777, 0o600)
      assert.strictEqual(yield* admitted(text), "admitted")
      assert.strictEqual(JSON.parse(made.out).file, file)
      assert.notInclude(made.out + made.error, text.trim())

      writeFileSync(join(folder, "taken"), "mine")
      const taken = yield* create("messages:read", join(folder, "taken"))
      assert.deepStrictEqual([taken.code, readFileSync(join(folder, "taken"), "utf8")], [2, "mine"])
      assert.strictEqual(taken.error, `--out ${join(folder, "taken")} is there already, and nothing is written over: name a new file`)
      const astray = yield* create("messages:read", join(folder, "nowhere/web.key"))
      assert.strictEqual(astray.code, 2)
      assert.match(astray.error, /web\.key lies in a folder that is not there: make it, or name another file$/)
      const refused = yield* create("messages:sent", join(folder, "none"))
      assert.deepStrictEqual([refused.code, existsSync(join(folder, "none"))], [2, false])
      assert.lengthOf(yield* json(`key list -t ${tenant}`), 1)
    })
  )

  it.effect("tell a secret that was being made when they were told to stop, wherever it goes", () =>
    Effect.gen(function* () {
      const file = join(folder, "stopped.key")
      for (const out of [Option.none(), Option.some(file)]) {
        const told: Array<string> = []
        const [begun, goOn] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        const make = Effect.andThen(Deferred.succeed(begun, undefined), Effect.as(Deferred.await(goOn), Redacted.make("whsec_1")))
        const telling = tellOnce({ out, json: true }, make, {
          what: "secret",
          secretIn: (made) => made,
          shown: () => ({}),
          lost: (_, message) => new CommandFailed({ exitCode: 1, message })
        }).pipe(Effect.provideService(Output, { out: (text) => Effect.sync(() => void told.push(text)), error: () => Effect.void }))
        const fiber = yield* Effect.forkChild(telling)
        yield* Deferred.await(begun)

        const stopping = yield* Effect.forkChild(Fiber.interrupt(fiber), { startImmediately: true })
        yield* Deferred.succeed(goOn, undefined)
        yield* Fiber.await(stopping)

        assert.include(Option.isNone(out) ? told.join("") : existsSync(file) && readFileSync(file, "utf8"), "whsec_1")
      }
    })
  )

  /** Files that are opened do this in place of what they would. */
  const breaking = (fault: (handle: builtin.FileHandle, path: unknown) => Partial<builtin.FileHandle>) => {
    const { open } = builtin
    const broken: typeof open = async (path, ...parameters) => {
      const handle = await open(path, ...parameters)
      return Object.assign(handle, fault(handle, path))
    }
    const put = (open: typeof broken) => Effect.sync(() => (Object.assign(builtin, { open }), syncBuiltinESMExports()))
    return Effect.acquireRelease(put(broken), () => put(open))
  }

  for (const failing of ["writeFile", "sync", "close"] as const) {
    typed(
      `name the key to revoke where its file cannot be written, and leave none: ${failing}`,
      Effect.gen(function* () {
        const { tenant, app } = yield* founded
        const file = join(folder, `${failing}.key`)
        yield* breaking((handle) => {
          const really = handle.close.bind(handle)
          const fail = () => Promise.reject(new Error("EIO: i/o error"))
          return { [failing]: failing === "close" ? () => really().then(fail) : fail }
        })

        const { code, out, error } = yield* run(`key create -t ${tenant} --app ${app} --name web --scope messages:read --out`, file)

        const [{ id }] = yield* json(`key list -t ${tenant}`)
        assert.deepStrictEqual([code, out, error], [1, "", `the key ${id} was issued and cannot be written: EIO: i/o error. Revoke it, and issue another.`])
        assert.isFalse(existsSync(file))
      }).pipe(Effect.scoped)
    )
  }

  typed(
    "keep a secret's file in a folder that cannot be synced, as some file systems have it",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded
      const file = join(folder, "unsynced.key")
      let asked = 0
      const sync = () => Promise.reject(new Error(`EINVAL: invalid argument, fsync ${(asked += 1)}`))
      yield* breaking((_, path) => (path === folder ? { sync } : {}))

      const { code } = yield* run(`key create -t ${tenant} --app ${app} --name web --scope messages:read --out`, file)

      assert.deepStrictEqual([code, existsSync(file), asked], [0, true, 1])
    }).pipe(Effect.scoped)
  )

  typed(
    "rotate a key with an overlap, and revoke one at once",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded
      const old = yield* json(`key create -t ${tenant} --app ${app} --name web --scope messages:read`)

      const { apiKey, replaced, key } = yield* json(`key rotate ${old.apiKey.id} -t ${tenant} --overlap 24h`)
      assert.deepStrictEqual([apiKey.name, apiKey.scopes, apiKey.expiresAt], ["web", ["messages:read"], null])
      assert.deepStrictEqual([replaced.id, replaced.expiresAt], [old.apiKey.id, "1970-01-02T00:00:00.000Z"])
      yield* TestClock.adjust(86_399_999)
      assert.deepStrictEqual([yield* admitted(old.key), yield* admitted(key)], ["admitted", "admitted"])
      yield* TestClock.adjust(1)
      assert.deepStrictEqual([yield* admitted(old.key), yield* admitted(key)], ["expired", "admitted"])
      const over = yield* run(`key rotate ${old.apiKey.id} -t ${tenant}`)
      assert.deepStrictEqual(over, { code: 4, out: "", error: `The API key ${old.apiKey.id} is expired already. Issue a new one instead.` })

      const shown = yield* run(`key rotate ${apiKey.id} -t ${tenant} --overlap 0s --expires 7d`)
      assert.match(shown.out, new RegExp(`^replaces +${apiKey.id}\nreplacedUntil +1970-01-02T00:00:00.000Z\nkey +svc_test_[0-9A-Za-z]{50}\n`, "m"))
      assert.strictEqual(shown.error, "mailroom: the key is shown this once; keep it as a secret\n")
      const last = /svc_test_\S+/.exec(shown.out)![0]
      assert.deepStrictEqual([yield* admitted(key), yield* admitted(last)], ["expired", "admitted"])
      const id = (yield* json(`key list -t ${tenant}`)).at(-1).id
      assert.strictEqual((yield* json(`key update ${id} -t ${tenant} --name site`)).name, "site")
      assert.strictEqual((yield* json(`key revoke ${id} -t ${tenant}`)).state, "revoked")
      assert.strictEqual(yield* admitted(last), "revoked")
    })
  )

  typed(
    "refuse what is wrong in one line that says what to do, with the exit code of its kind",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded
      const { id: domain } = yield* json(`domain create mail.example -t ${tenant}`)
      yield* json(`mailbox create ada@mail.example -t ${tenant}`)
      const { apiKey } = yield* json(`key create -t ${tenant} --app ${app} --name k --scope messages:read --expires 1d`)
      yield* TestClock.adjust(60_000)
      const key = `key create -t ${tenant} --app ${app} --name k`
      const wrong: ReadonlyArray<readonly [line: string, code: number, says: string]> = [
        [`${key} --scope messages:sent`, 2, "--scope holds \"messages:sent\", which is no scope; there are mailboxes:read, messages:read,"],
        [`${key} --scope messages:read --expires tomorrow`, 2, "--expires wants a date-time such as 2027-01-31T12:00:00Z, a duration from now such as 90d, or never, and got \"tomorrow\""],
        [`${key} --scope messages:read --expires 1970-01-01T00:00:30Z`, 2, "--expires lies in the past"],
        [`key rotate ${apiKey.id} -t ${tenant}`, 2, "--expires is missing: the old key has one"],
        [`key rotate ${apiKey.id} -t ${tenant} --overlap day`, 2, "--overlap wants a duration such as 30m, 24h or 7d, and got \"day\""],
        [`key rotate ${apiKey.id} -t ${tenant} --expires never --overlap 400d`, 2, "--overlap is longer than 90 days"],
        [`key rotate ${apiKey.id} -t ${tenant} --expires never --overlap 99999999s`, 2, "--overlap is longer than 90 days"],
        [`key rotate ${apiKey.id} -t ${tenant} --overlap 1d --expires 9999999d`, 2, "--expires lies behind 9999-12-31, the last day there is"],
        [`${key} --scope messages:read --expires 999999w`, 2, "--expires lies behind 9999-12-31, the last day there is"],
        [`${key} --scope messages:read --expires ${"9".repeat(400)}w`, 2, "--expires lies behind 9999-12-31, the last day there is"],
        [`app list -t ${nobody}`, 3, `There is no tenant ${nobody}. \`mailroom tenant list\` shows those there are.`],
        [`tenant show ${nobody}`, 3, `There is no tenant ${nobody}.`],
        ["tenant create --name n --plan gold", 3, "There is no plan gold. `mailroom plan list` shows those there are."],
        [`key revoke ${nobody} -t ${tenant}`, 3, `There is no API key ${nobody} in this tenant. \`mailroom key list --tenant ID\` shows those there are.`],
        [`endpoint enable ${nobody} -t ${tenant}`, 3, `There is no webhook endpoint ${nobody} in this tenant.`],
        [`endpoint disable ${nobody} -t ${tenant}`, 3, `There is no webhook endpoint ${nobody} in this tenant.`],
        [`mailbox create a@other.example -t ${tenant}`, 3, "There is no domain other.example in this tenant."],
        ["tenant show 17", 2, "ID wants a UUID, and got \"17\""],
        ["app list -t T", 2, "--tenant wants a UUID, and got \"T\""],
        ["plan create standard", 4, "A plan with this id exists already."],
        ["plan create trial", 2, "--key-requests-per-minute is missing"],
        ["plan update standard", 2, "plan update wants at least one of its numbers"],
        ["plan update standard --recipients-per-day 0", 2, "--recipients-per-day wants a whole number from 1 to"],
        [`tenant update ${tenant}`, 2, "tenant update wants --name, --plan or both"],
        [`tenant update ${tenant} --name n --if-version 7`, 4, `The tenant ${tenant} has changed meanwhile: it is at version 1.`],
        [`tenant list --limit 1001`, 2, "--limit wants a whole number from 1 to 1000"],
        [`domain create localhost -t ${tenant}`, 2, "\"localhost\": the domain needs at least two labels"],
        [`domain create MAIL.example -t ${tenant}`, 4, "A domain with this domain exists already."],
        [`mailbox create ADA@mail.example -t ${tenant}`, 4, "A mailbox with this address exists already."],
        [`mailbox create ada -t ${tenant}`, 2, "\"ada\": an address is local@domain"],
        [`domain show ${domain} -t ${nobody}`, 3, `There is no domain ${domain} in this tenant.`],
        [`endpoint replay ${nobody} -t ${tenant} --since 2026-12-01T00:00:00Z`, 3, "There is no webhook endpoint"],
        [`endpoint replay ${nobody} -t ${tenant} --since now`, 2, "--since wants a date-time such as"],
        [`tenant suspend ${tenant} --by `, 2, "--by wants 1 to 200 characters"],
        ["audit list", 2, "audit list wants the id of a tenant, or --installation"],
        ["tenant list --after zzz", 2, "--after names nothing in this list"],
        [`tenant list --after ${nobody}`, 2, "--after names nothing in this list"],
        [`app list -t ${tenant} --after zzz`, 2, "--after names nothing in this list"]
      ]

      for (const [line, code, says] of wrong) {
        const ended = yield* run(line)
        assert.deepStrictEqual([line, ended.code, ended.out], [line, code, ""])
        assert.include(ended.error, says)
        assert.notInclude(ended.error, "\n")
      }
      assert.lengthOf(yield* json(`key list -t ${tenant}`), 1)
    })
  )

  typed(
    "say of a command line that is none why, and which help to ask, and leave standard output alone",
    Effect.gen(function* () {
      const wrong: ReadonlyArray<readonly [line: string, reason: string, help: string]> = [
        ["tenant list --json --nonsense", "Unrecognized flag: --nonsense in command mailroom tenant list", "mailroom tenant list"],
        ["tenant list --afer x", "Unrecognized flag: --afer in command mailroom tenant list; did you mean --after?", "mailroom tenant list"],
        ["tenant lst", "Unknown subcommand \"lst\" for \"mailroom tenant\"; did you mean list?", "mailroom tenant"],
        ["nonsense", "Unknown subcommand \"nonsense\" for \"mailroom\"", "mailroom"],
        [`app create -t ${nobody} --name n --environment test`, "Invalid value for flag --environment: \"test\". Expected: \"sandbox\" | \"production\"", "mailroom app create"],
        [`key create -t ${nobody} --app ${nobody} --name k`, "Missing required flag: --scope", "mailroom key create"],
        ["tenant show", "Missing required argument: id", "mailroom tenant show"]
      ]

      for (const [line, reason, help] of wrong) {
        assert.deepStrictEqual(yield* run(line), { code: 2, out: "", error: `mailroom: ${reason}\nmailroom: \`${help} --help\` shows what there is\n` })
      }
      const several = yield* run("tenant list --nonsense --rubbish")
      assert.match(several.error, /^mailroom: .*--nonsense.*\nmailroom: .*--rubbish.*\nmailroom: `mailroom tenant list --help` shows what there is\n$/)
      const bare = yield* run("tenant --log-level none")
      assert.deepStrictEqual([bare.code, bare.out], [2, ""])
      assert.match(bare.error, /SUBCOMMANDS\n +create /)
    })
  )

  typed(
    "print what providers posted, one JSON object a line, newest first",
    Effect.gen(function* () {
      const store = yield* Store
      const posted = [payload({ provider: "ses", receivedAt: 1 }), payload({ provider: "postmark" }), payload({ provider: "ses", text: "{\"a\":\"\u202e\"}" })]
      for (const one of posted) yield* Effect.orDie(store.commit([keepPayload(one)], []))
      const lines = (line: string) =>
        Effect.map(run(line), ({ code, out, error }) => ({ code, error, ids: out.split("\n").slice(0, -1).map((text) => JSON.parse(text).id) }))
      const [first, second, third] = posted.map(({ id }) => id)

      assert.deepStrictEqual(yield* lines("provider payloads"), { code: 0, error: "", ids: [third, second, first] })
      assert.deepStrictEqual(yield* lines("provider payloads --provider ses"), { code: 0, error: "", ids: [third, first] })
      assert.deepStrictEqual(yield* lines("provider payloads --provider postmark"), { code: 0, error: "", ids: [second] })
      const { error, ids } = yield* lines("provider payloads --limit 1")
      const [, place] = /^mailroom: there is more: go on with --after (\d+)\n$/.exec(error) ?? []
      assert.deepStrictEqual(ids, [third])
      assert.deepStrictEqual(yield* lines(`provider payloads --after ${place}`), { code: 0, error: "", ids: [second, first] })
      assert.strictEqual((yield* run("provider payloads --provider sess")).code, 2)
      const { out } = yield* run("provider payloads --provider ses --limit 2")
      assert.notInclude(out, "\u202e")
      assert.deepStrictEqual(JSON.parse(out.split("\n")[1]!), { ...posted[0], receivedAt: "1970-01-01T00:00:00.001Z", number: 1 })
      assert.strictEqual((yield* run("provider payloads --limit 0")).code, 2)
    })
  )
})
