/** A worker whose ring does not open what is stored says so when it starts, and not with the first webhook that waits for it. */
import { assert, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { createInterface } from "node:readline"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import * as Database from "../../adapters/postgres/Database.ts"
import * as PostgresStore from "../../adapters/postgres/PostgresStore.ts"
import * as TestDatabase from "../../adapters/postgres/TestDatabase.ts"
import { endpoint, realm } from "../../conformance/fixtures.ts"
import { sealContext } from "../../core/model/Endpoint.ts"
import { Crypto } from "../../core/ports/Crypto.ts"
import { Store } from "../../core/ports/Store.ts"

const key = (fill: number) => Buffer.alloc(32, fill)
const ringOf = (version: number) => `${version}:${key(version).toString("base64")}`

/** A database with the secret of an endpoint, sealed by key 2. */
const sealed = Effect.gen(function* () {
  const url = yield* TestDatabase.url("migrated")
  const record = endpoint(realm())
  yield* Effect.gen(function* () {
    const secret = yield* (yield* Crypto).seal(Redacted.make("whsec_x"), sealContext(record))
    yield* (yield* Store).commit([{ _tag: "Insert", kind: "endpoint", record: { ...record, secret } }], [])
  }).pipe(
    Effect.provide(
      Layer.merge(
        PostgresStore.layerWithoutJobs.pipe(Layer.provide(Database.layer({ url }))),
        NodeCrypto.layer({ sealingKeys: [{ version: 2, key: Redacted.make(key(2)) }] })
      )
    )
  )
  return url
})

/** What a worker with this ring logs until it was told to stop, once it was ready and had looked. */
const logOf = Effect.fnUntraced(function* (url: Redacted.Redacted<string>, ring: string) {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("MAILROOM_") && name !== "DATABASE_URL")
  const env = {
    ...Object.fromEntries(inherited),
    MAILROOM_DATABASE_URL: Redacted.value(url),
    MAILROOM_DATABASE_POOL: "4",
    MAILROOM_SEALING_KEYS: ring,
    MAILROOM_SCANNER: "none"
  }
  const child = yield* Effect.acquireRelease(
    Effect.sync(() => spawn(process.execPath, [join(import.meta.dirname, "../cli/main.ts"), "worker"], { env, stdio: ["ignore", "ignore", "pipe"] })),
    (running) => Effect.sync(() => running.kill("SIGKILL"))
  )
  return yield* Effect.promise(async () => {
    const lines: Array<string> = []
    for await (const line of createInterface({ input: child.stderr })) {
      lines.push(line)
      if (line.includes("worker: ready")) child.kill("SIGTERM")
    }
    if (child.exitCode === null) await once(child, "close")
    return { status: child.exitCode, lines }
  })
})

it.live("A worker tells of a key that is not in its ring, or is another's, and of nothing else", () =>
  Effect.gen(function* () {
    const url = yield* sealed
    for (const ring of [ringOf(1), `2:${key(9).toString("base64")}`]) {
      const { status, lines } = yield* logOf(url, ring)

      assert.strictEqual(status, 0, lines.join("\n"))
      const [told, ...more] = lines.map((line) => JSON.parse(line) as { readonly level: string; readonly message: string }).filter(({ level }) => level === "ERROR")
      assert.deepStrictEqual(more, [])
      assert.strictEqual(
        told?.message,
        `the keys of version ${ring[0]} do not open what version 2 sealed. Give MAILROOM_SEALING_KEYS the keys back that were in use: ` +
          "without them no webhook can be signed, and no mail of the domains whose DKIM keys they sealed."
      )
    }
    const { status, lines } = yield* logOf(url, ringOf(2))
    assert.deepStrictEqual([status, lines.filter((line) => /"ERROR"|do not open/.test(line))], [0, []])
  }).pipe(Effect.scoped), 60_000
)
