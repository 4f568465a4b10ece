import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import { closeSync, openSync } from "node:fs"
import { join } from "node:path"
import * as YAML from "yaml"
import * as Harness from "../http/harness.ts"

const openapiWith = (env: NodeJS.ProcessEnv, ...parameters: ReadonlyArray<string>) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [
    join(import.meta.dirname, "main.ts"),
    "openapi",
    ...parameters
  ], { encoding: "utf8", env: { ...process.env, ...env } })
  return { status, stdout, stderr }
}

const openapi = (...parameters: ReadonlyArray<string>) => openapiWith({}, ...parameters)

layer(Harness.layer(), { excludeTestServices: true })("mailroom openapi", (it) => {
  it.effect("prints what the server serves, byte for byte", () =>
    Effect.gen(function* () {
      const server = yield* Harness.Running
      const served = yield* server.call("GET", "/openapi.yaml", { key: null })

      assert.deepStrictEqual(openapi("--server", server.baseUrl), { status: 0, stdout: served.text, stderr: "" })
      assert.strictEqual(openapi("--json", "--server", server.baseUrl).stdout, `${JSON.stringify(YAML.parse(served.text), null, 2)}\n`)
    }), 60_000)
})

describe("mailroom openapi", () => {
  it("names where the settings have clients reach the server, or have it listen, unless it is told other addresses", () => {
    assert.deepStrictEqual(YAML.parse(openapi().stdout).servers, [{ url: "http://127.0.0.1:3025" }])
    const elsewhere = openapiWith({ MAILROOM_HOST: "::1", MAILROOM_PORT: "4000" })
    assert.deepStrictEqual(YAML.parse(elsewhere.stdout).servers, [{ url: "http://[::1]:4000" }], elsewhere.stderr)
    const behindProxy = openapiWith({ MAILROOM_PUBLIC_URL: "https://mail.example/api", MAILROOM_PORT: "4000" })
    assert.deepStrictEqual(YAML.parse(behindProxy.stdout).servers, [{ url: "https://mail.example/api" }], behindProxy.stderr)
    const told = openapi("--server", "https://a.example", "--server", "https://b.example/mail/")
    assert.deepStrictEqual(YAML.parse(told.stdout).servers, [{ url: "https://a.example" }, {
      url: "https://b.example/mail"
    }])
  }, 60_000)

  it("fails where what it prints cannot be written", () => {
    const full = openSync("/dev/full", "w")
    const { status, stderr } = spawnSync(process.execPath, [join(import.meta.dirname, "main.ts"), "openapi"], {
      encoding: "utf8",
      stdio: ["ignore", full, "pipe"]
    })
    closeSync(full)

    assert.strictEqual(status, 1)
    assert.match(stderr, /^mailroom: standard output cannot be written: .*ENOSPC/)
  }, 60_000)

  it("refuses an address that is none, or that more cannot be put behind", () => {
    for (const address of ["nowhere", "https://u:p@a.example", "mailto:ada@a.example", "https://a.example/?q=1#x"]) {
      const { status, stdout, stderr } = openapi("--server", address)
      assert.deepStrictEqual([status, stdout], [2, ""])
      assert.match(stderr, /^mailroom: --server wants `https:\/\/` or `http:\/\/`, a host, and a path/)
    }
  }, 60_000)
})
