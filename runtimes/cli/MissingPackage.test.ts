import { assert, describe, it } from "@effect/vitest"
import { spawnSync } from "node:child_process"
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { onTestFinished } from "vitest"
import { missingPackage } from "./MissingPackage.ts"

const manifest: { readonly peerDependencies: Readonly<Record<string, string>> } = JSON.parse(
  readFileSync(join(import.meta.dirname, "../../package.json"), "utf8")
)

/** As Node says it. */
const notFound = (message: string) => Object.assign(new Error(message), { code: "ERR_MODULE_NOT_FOUND" })

describe("a package that is missing", () => {
  it("is named, with all that the command line wants", () => {
    const text = missingPackage(notFound("Cannot find package 'undici' imported from /srv/mailroom/adapters/undici/index.js"))!

    assert.match(text, /^undici is not installed: npm install undici\. /)
    // Amazon SES has a hint of its own, `effect` comes along, and nodemailer is for those who embed `SmtpMailProvider`.
    const others = ["@aws-sdk/client-sesv2", "effect", "nodemailer"]
    const wanted = Object.keys(manifest.peerDependencies).filter((name) => !others.includes(name))
    assert.deepStrictEqual(text.slice(text.lastIndexOf("npm install ") + "npm install ".length).split(" ").toSorted(), wanted.toSorted())
  })

  it("is not what a package is taken for that is there, and does not fit another", () => {
    const said = "Cannot find module '/srv/node_modules/effect/dist/Crypto.js' imported from /srv/node_modules/@effect/platform-node/dist/NodeCrypto.js"

    const text = missingPackage(notFound(said))!

    assert.match(text, /^packages do not fit together: Cannot find module '\S+\/effect\/dist\/Crypto\.js' imported from \S+\. /)
    assert.notInclude(text, "is not installed")
    assert.include(text, "not with -g")
  })

  it("is not what any other error is about", () => {
    assert.isNull(missingPackage(new Error("Cannot find package 'undici'")))
    assert.isNull(missingPackage("Cannot find package 'undici'"))
  })

  it("is told in one line by the installed command, which hides no other error", () => {
    const folder = mkdtempSync(join(tmpdir(), "mailroom-missing-"))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    for (const name of ["bin.ts", "MissingPackage.ts", "OldNode.ts"]) cpSync(join(import.meta.dirname, name), join(folder, name))
    const ended = (main: string) => {
      writeFileSync(join(folder, "main.ts"), main)
      const { status, stdout, stderr } = spawnSync(process.execPath, [join(folder, "bin.ts")], { encoding: "utf8" })
      return { status, stdout, stderr }
    }

    const missing = ended("import \"a-package-that-is-nowhere\"")
    assert.deepStrictEqual([missing.status, missing.stdout], [1, ""])
    assert.match(missing.stderr, /^mailroom: a-package-that-is-nowhere is not installed: npm install a-package-that-is-nowhere\. .*\n$/)
    const other = ended("throw new Error(\"the disk is gone\")")
    assert.deepStrictEqual([other.status, other.stdout], [1, ""])
    assert.match(other.stderr, /Error: the disk is gone\n +at /)
  })
})
