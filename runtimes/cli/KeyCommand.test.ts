/** API keys as an operator types them, beyond their life from issue to end (Management.test.ts): what is left out, and what stands in the way. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import builtin from "node:fs/promises"
import { syncBuiltinESMExports } from "node:module"
import os, { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll } from "vitest"
import { Crypto, CryptoBusy } from "../../core/ports/Crypto.ts"
import { Store, StoreUnavailable } from "../../core/ports/Store.ts"
import { epoch, founded, json, layer, run, unread } from "./harness.ts"
import { services } from "./Operator.ts"

const folder = mkdtempSync(join(tmpdir(), "mailroom-cli-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const typed = <E>(title: string, test: Effect.Effect<void, E, Layer.Success<typeof layer>>) =>
  it.effect(title, () => Effect.provide(test, layer))

/** What Node's modules export, replaced until the scope closes. */
const replaced = <M extends object>(module: M, members: Partial<M>) => {
  const real = Object.fromEntries(Object.keys(members).map((name) => [name, module[name as keyof M]])) // its own members
  const put = (of: object) => Effect.sync(() => (Object.assign(module, of), syncBuiltinESMExports()))
  return Effect.acquireRelease(put(members), () => put(real))
}

describe("keys", () => {
  typed(
    "take scopes by repeated flags, by commas, and with blanks behind these",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded

      const { code, out } = yield* run(
        `key create -t ${tenant} --app ${app} --name web --scope webhooks:read --scope`,
        "messages:read, messages:send"
      )

      assert.strictEqual(code, 0)
      assert.match(out, /^scopes +webhooks:read, messages:read, messages:send$/m)
      assert.match(out, /^expiresAt +-$/m)
    })
  )

  typed(
    "that are replaced go on for a day, or for as long as was said, and show when they were revoked",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded
      const { apiKey } = yield* json(`key create -t ${tenant} --app ${app} --name web --scope messages:read`)

      const rotated = yield* json(`key rotate ${apiKey.id} -t ${tenant}`)
      assert.strictEqual(rotated.replaced.expiresAt, "1970-01-02T00:00:00.000Z")

      const overlaps: ReadonlyArray<readonly [overlap: string, until: string]> = [
        ["90s", "1970-01-01T00:01:30.000Z"],
        ["30m", "1970-01-01T00:30:00.000Z"],
        ["2h", "1970-01-01T02:00:00.000Z"],
        ["3d", "1970-01-04T00:00:00.000Z"],
        ["1w", "1970-01-08T00:00:00.000Z"]
      ]
      for (const [overlap, until] of overlaps) {
        const { apiKey: { id } } = yield* json(`key create -t ${tenant} --app ${app} --name web --scope messages:read`)
        assert.strictEqual((yield* json(`key rotate ${id} -t ${tenant} --overlap ${overlap}`)).replaced.expiresAt, until)
      }

      const revoked = yield* json(`key revoke ${apiKey.id} -t ${tenant}`)
      assert.deepStrictEqual([revoked.state, revoked.revokedAt], ["revoked", epoch])
    })
  )

  typed(
    "expire so long after now, or at a time, or never",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded
      yield* TestClock.adjust("1 hour")
      const expiries: ReadonlyArray<readonly [expires: string, at: string | null]> = [
        ["2h", "1970-01-01T03:00:00.000Z"],
        ["1970-01-02T00:00:00+02:00", "1970-01-01T22:00:00.000Z"],
        ["never", null]
      ]

      for (const [expires, at] of expiries) {
        const { apiKey } = yield* json(`key create -t ${tenant} --app ${app} --name web --scope messages:read --expires ${expires}`)
        assert.deepStrictEqual([apiKey.expiresAt, apiKey.createdAt], [at, "1970-01-01T01:00:00.000Z"])
      }
    })
  )

  typed(
    "that nobody was told are named, to be revoked; a list that nobody reads ends without a word",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded

      const lost = yield* unread(`key create -t ${tenant} --app ${app} --name web --scope messages:read`)

      const [{ id }] = yield* json(`key list -t ${tenant}`)
      assert.deepStrictEqual(lost, {
        code: 1,
        out: "",
        error: `the key ${id} was issued and cannot be written: nobody reads standard output. Revoke it, and issue another.`
      })
      assert.deepStrictEqual(yield* unread(`key list -t ${tenant}`), { code: 0, out: "", error: "" })
    })
  )

  typed(
    "are not issued where their file cannot be made, and why is said in words",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded
      const create = (file: string) => run(`key create -t ${tenant} --app ${app} --name web --scope messages:read --out`, file)
      writeFileSync(join(folder, "a-file"), "")
      const inFile = join(folder, "a-file", "web.key")
      const file = join(folder, "web.key")
      const refusing = (code: string, message = code) =>
        replaced(builtin, { open: () => Promise.reject(Object.assign(new Error(message), { code })) })

      assert.deepStrictEqual(yield* create(inFile), { code: 2, out: "", error: `--out ${inFile} lies in a folder that is none: name another file` })
      const reasons: ReadonlyArray<readonly [code: string, why: string]> = [
        ["EACCES", "may not be made by this user: name a file in a folder of theirs"],
        ["EROFS", "lies on a disk that is read only: name another file"],
        ["ENOSPC", "cannot be made: ENOSPC"]
      ]
      for (const [code, why] of reasons) {
        const ended = yield* Effect.scoped(Effect.andThen(refusing(code), create(file)))
        assert.deepStrictEqual(ended, { code: 2, out: "", error: `--out ${file} ${why}` })
      }
      assert.isEmpty(yield* json(`key list -t ${tenant}`))
    })
  )
})

describe("what is done", () => {
  typed(
    "is on record for the user of the system, or for its number where it has no name",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded
      const actors: Array<string> = []
      const suspend = Effect.gen(function* () {
        yield* json(`app suspend ${app} -t ${tenant}`)
        actors.push((yield* json(`audit list ${tenant} --limit 1`))[0].actorId)
        yield* json(`app reinstate ${app} -t ${tenant}`)
      })

      yield* suspend
      yield* Effect.scoped(Effect.andThen(replaced(os, { userInfo: (() => ({ username: "ada" })) as unknown as typeof os.userInfo }), suspend)) // of its members one is read
      const nameless = () => {
        throw new Error("ENOENT: no such user")
      }
      yield* Effect.scoped(Effect.andThen(replaced(os, { userInfo: nameless }), suspend))

      assert.deepStrictEqual(actors, [os.userInfo().username, "ada", `uid ${process.getuid!()}`])
    })
  )

  typed(
    "may be done or not where the database does not answer, and what cannot be done now ends with 1",
    Effect.gen(function* () {
      const { tenant, app } = yield* founded
      const store = yield* Store
      const crypto = yield* Crypto
      const away = Effect.fail(new StoreUnavailable({ cause: new Error("connect ECONNREFUSED") }))
      const on = (ports: Layer.Layer<Store | Crypto>) => Effect.provide(Layer.fresh(Layer.provide(services, ports)))
      const create = run(`key create -t ${tenant} --app ${app} --name web --scope messages:read`)

      assert.deepStrictEqual(yield* create.pipe(on(Layer.merge(Layer.succeed(Store, { ...store, commit: () => away }), Layer.succeed(Crypto, crypto)))), {
        code: 1,
        out: "",
        error: "The database does not answer, or takes no writes. What was asked for may be done or not: look before you repeat it."
      })
      const busy = { ...crypto, hashSecret: () => Effect.fail(new CryptoBusy()) }
      assert.deepStrictEqual(yield* create.pipe(on(Layer.merge(Layer.succeed(Store, store), Layer.succeed(Crypto, busy)))), {
        code: 1,
        out: "",
        error: "too many key verifications are under way"
      })
    })
  )
})
