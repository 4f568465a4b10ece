/** Amazon's SDK is optional, and a worker that is to use it does not start without. */
import { assert, describe, it } from "@effect/vitest"
import { spawnSync } from "node:child_process"
import { join } from "node:path"
import { complete } from "./harness.ts"

/** As where it is not installed. */
const without = `import { registerHooks } from "node:module"
  registerHooks({
    resolve: (name, context, next) => {
      if (name === "@aws-sdk/client-sesv2") throw Object.assign(new Error("Cannot find package"), { code: "ERR_MODULE_NOT_FOUND" })
      return next(name, context)
    }
  })`

describe("the doctor, of Amazon SES,", () => {
  it("says that its package is missing", () => {
    const variables = { ...complete, MAILROOM_PROVIDER: "ses", MAILROOM_SES_REGION: "eu-central-1" }
    const { stdout } = spawnSync(process.execPath, [join(import.meta.dirname, "../cli/main.ts"), "doctor", "--json"], {
      env: { PATH: process.env["PATH"], ...variables, NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(without)}` },
      encoding: "utf8"
    })

    const said = stdout.trim().split("\n").map((line) => JSON.parse(line)).filter(({ check }) => check === "mail")

    assert.deepStrictEqual(said.map(({ status, message }) => [status, message]), [["fail", "MAILROOM_PROVIDER is ses, which wants: npm install @aws-sdk/client-sesv2"]])
  }, 60_000)
})
