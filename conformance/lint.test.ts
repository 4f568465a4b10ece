/**
 * The lint configuration, held to account: each rule of `.oxlintrc.json` meets
 * a file that breaks it, and files that keep the rules pass; so do the Effect
 * diagnostics of `tsconfig.json`. Without this a mistyped pattern would let
 * everything through, and nobody would notice.
 */
import { assert, beforeAll, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, dirname, join } from "node:path"

const root = dirname(import.meta.dirname)
const binaries = join(root, "node_modules", ".bin")

interface Case {
  readonly file: string
  readonly source: string
  /** Part of what the linter must say. */
  readonly says: string
}

const imports = (specifier: string) => `import { thing } from "${specifier}"\nexport const used = thing\n`

const refusedImports: ReadonlyArray<readonly [folder: string, specifier: string, says: string]> = [
  ["core", "../adapters/memory/index.ts", "The core imports nothing outside core/"],
  ["core", "effect/sql", "The core imports only the root of effect"],
  ["core/operations", "node:fs", "The core imports only the root of effect"],
  ["core/operations", "effect/testing", "The core imports only the root of effect"],
  ["core/operations", "@effect/platform-node", "The core imports only the root of effect"],
  ["core/operations", "mailroom/adapters/memory", "The core imports only the root of effect"],
  ["core/operations", "../../adapters/memory/index.ts", "The core imports nothing outside core/"],
  ["core/operations", "../jobs/SubmitMessage.ts", "An operation knows the model and ports, never a job"],
  ["core/jobs", "../../runtimes/Config.ts", "The core imports nothing outside core/"],
  ["core/model", "../ports/Store.ts", "The model is pure values and decisions"],
  ["core/model", "../../conformance/Suite.ts", "The model is pure values and decisions"],
  ["core/model", "yaml", "The core imports only the root of effect"],
  ["core/ports", "../operations/Messages.ts", "A port knows the model and other ports"],
  ["core/ports", "../jobs/SubmitMessage.ts", "A port knows the model and other ports"],
  ["core/ports", "../../adapters/memory/index.ts", "A port knows the model and other ports"],
  ["core/ports", "node:crypto", "The core imports only the root of effect"],
  ["adapters/memory", "../sandbox/index.ts", "An adapter knows no other adapter"],
  ["adapters/memory", "../../runtimes/Config.ts", "An adapter imports core/ and nothing else of the house"],
  ["adapters/memory", "../../conformance/fixtures.ts", "An adapter imports core/ and nothing else of the house"],
  ["adapters/memory", "node:fs", "An adapter imports effect and its own driver"],
  ["adapters/memory", "nodemailer", "An adapter imports effect and its own driver"],
  ["adapters/memory", "mailroom", "An adapter imports effect and its own driver"],
  ["adapters/node", "../memory/index.ts", "An adapter knows no other adapter"],
  ["adapters/node", "../../runtimes/Config.ts", "An adapter imports core/ and nothing else of the house"],
  ["adapters/node", "nodemailer", "An adapter imports effect and its own driver"],
  ["adapters/mime", "../memory/index.ts", "An adapter knows no other adapter"],
  ["adapters/mime", "../../conformance/fixtures.ts", "An adapter imports core/ and nothing else of the house"],
  ["adapters/mime", "nodemailer/lib/mime-funcs", "An adapter imports effect and its own driver"],
  ["adapters/mime", "node:fs", "An adapter imports effect and its own driver"],
  ["adapters/smtp", "../mime/index.ts", "An adapter knows no other adapter"],
  ["adapters/smtp", "undici", "An adapter imports effect and its own driver"],
  ["adapters/undici", "../node/NodeResolver.ts", "An adapter knows no other adapter"],
  ["adapters/undici", "nodemailer", "An adapter imports effect and its own driver"],
  ["adapters/smtp-server", "../smtp/index.ts", "An adapter knows no other adapter"],
  ["adapters/smtp-server", "nodemailer", "An adapter imports effect and its own driver"],
  ["adapters/mailauth", "../smtp/Dkim.ts", "An adapter knows no other adapter"],
  ["adapters/mailauth", "undici", "An adapter imports effect and its own driver"],
  ["adapters/rspamd", "../undici/index.ts", "An adapter knows no other adapter"],
  ["adapters/rspamd", "node:net", "An adapter imports effect and its own driver"],
  ["adapters/clamd", "../eicar/EicarScanner.ts", "An adapter knows no other adapter"],
  ["adapters/clamd", "node:fs", "An adapter imports effect and its own driver"],
  ["adapters/postgres", "../memory/index.ts", "An adapter knows no other adapter"],
  ["adapters/postgres", "../../conformance/fixtures.ts", "An adapter imports core/ and nothing else of the house"],
  ["adapters/postgres", "pg", "An adapter imports effect and its own driver"],
  ["adapters/redis", "../memory/MemoryJobQueue.ts", "An adapter knows no other adapter"],
  ["adapters/redis", "node:fs", "An adapter imports effect and its own driver"],
  ["runtimes/http", "../../conformance/index.ts", "A runtime carries no test code"],
  ["runtimes/http", "mailroom/conformance", "A runtime carries no test code"],
  ["runtimes/http", "@effect/platform-node", "Import one of its modules"],
  ["runtimes/cli", "@effect/platform-node", "Import one of its modules"],
  ["conformance", "../adapters/memory/index.ts", "A suite knows ports, never an adapter or a runtime"],
  ["conformance", "../runtimes/http/index.ts", "A suite knows ports, never an adapter or a runtime"],
  ["conformance", "../core/operations/Messages.ts", "A suite holds one port to its contract"],
  ["conformance", "../core/jobs/SubmitMessage.ts", "A suite holds one port to its contract"],
  ["conformance", "../core/index.ts", "A suite holds one port to its contract"],
  ["conformance", "vitest", "A suite runs wherever an adapter runs"],
  ["conformance", "effect/sql", "A suite runs wherever an adapter runs"],
  ["conformance/scenarios", "../../adapters/memory/index.ts", "A scenario knows the core"],
  ["conformance/scenarios", "../../runtimes/http/index.ts", "A scenario knows the core"],
  ["conformance/scenarios", "@effect/vitest", "A suite runs wherever an adapter runs"],
  ["conformance/http", "../fixtures.ts", "A black-box check knows what is on the wire"],
  ["conformance/http", "../../core/model/Ids.ts", "A black-box check knows what is on the wire"],
  ["conformance/http", "effect/testing", "A suite runs wherever an adapter runs"],
  ["client", "../core/index.ts", "The client imports nothing"],
  ["client", "effect", "The client has no dependencies"]
]

const allowedImports: ReadonlyArray<readonly [folder: string, specifier: string]> = [
  ["core", "./operations/Messages.ts"],
  ["core/operations", "effect"],
  ["core/operations", "../ports/Store.ts"],
  ["core/jobs", "../operations/Commit.ts"],
  ["core/model", "effect"],
  ["core/model", "./Ids.ts"],
  ["core/ports", "../model/Ids.ts"],
  ["core/ports", "./BlobStore.ts"],
  ["adapters/memory", "../../core/ports/Store.ts"],
  ["adapters/memory", "./MemoryStore.ts"],
  ["adapters/memory", "effect"],
  ["adapters/memory", "effect/sql"],
  ["adapters/node", "node:crypto"],
  ["adapters/node", "node:fs/promises"],
  ["adapters/node", "argon2"],
  ["adapters/mime", "iconv-lite"],
  ["adapters/smtp", "nodemailer"],
  ["adapters/smtp", "nodemailer/lib/smtp-connection"],
  ["adapters/postgres", "@effect/sql-pg"],
  ["adapters/postgres", "@electric-sql/pglite"],
  ["adapters/postgres", "effect/sql/SqlError"],
  ["adapters/redis", "ioredis"],
  ["runtimes/http", "../../adapters/memory/index.ts"],
  ["runtimes/http", "../../core/index.ts"],
  ["runtimes/http", "@effect/platform-node/NodeHttpServer"],
  ["conformance", "./Suite.ts"],
  ["conformance", "../core/ports/Store.ts"],
  ["conformance", "../core/model/Ids.ts"],
  ["conformance", "effect/testing"],
  ["conformance", "node:assert/strict"],
  ["conformance/scenarios", "../fixtures.ts"],
  ["conformance/scenarios", "../../core/index.ts"],
  ["conformance/scenarios", "../../core/jobs/SubmitMessage.ts"],
  ["conformance/http", "./Shapes.ts"],
  ["conformance/http", "../Suite.ts"],
  ["client", "./Client.ts"]
]

const refusedCode: ReadonlyArray<readonly [folder: string, source: string, says: string]> = [
  ["core/model", "export const now = Date.now()", "Read Effect's Clock; format with DateTime."],
  ["core/model", "export const now = new globalThis.Date()", "Read Effect's Clock; format with DateTime."],
  ["core/model", "export const now = performance.now()", "Read Effect's Clock."],
  ["core/model", "export const chance = Math.random()", "Draw from the Crypto port"],
  ["core/model", "const { random } = Math\nexport const chance = random()", "Draw from the Crypto port"],
  ["core/model", "export const id = crypto.randomUUID()", "Use the Crypto port, so that a simulation can seed it."],
  ["core/model", "export const bytes = Buffer.alloc(1)", "The core runs anywhere. Use Uint8Array."],
  ["core/model", "export const page = () => fetch(\"http://a.example\")", "The core reaches the world through its ports."],
  ["core/model", "export const home = process.env", "The core runs anywhere. Settings are read in runtimes/Config.ts"],
  ["core/model", "setImmediate(() => {})", "Use Effect.yieldNow."],
  ["core/model", "globalThis.setTimeout(() => {}, 1)", "Use Effect.sleep or a Schedule"],
  ["core/model", "globalThis.setInterval(() => {}, 1)", "Use Effect.repeat with a Schedule"],
  ["core/model", "export const home = globalThis.process", "Settings are read in runtimes/Config.ts and passed in."],
  ["core/model", "globalThis.console.log(1)", "Use Effect.log"],
  ["core/model", "console.log(1)", "Unexpected console statement"],
  ["core/jobs", "setTimeout(() => {}, 1)", "Use Effect.sleep or a Schedule"],
  ["core/jobs", "setInterval(() => {}, 1)", "Use Effect.repeat with a Schedule"],
  ["adapters/memory", "export const now = new Date()", "Read Effect's Clock; format with DateTime."],
  ["adapters/memory", "export const now = performance.now()", "Read Effect's Clock."],
  ["adapters/memory", "export const id = crypto.randomUUID()", "Take the Crypto port from the context"],
  ["adapters/memory", "export const chance = Math.random()", "Draw from the Crypto port"],
  ["adapters/node", "export const home = process.env", "Settings are read in runtimes/Config.ts and passed in."],
  ["adapters/node", "setTimeout(() => {}, 1)", "Use Effect.sleep or a Schedule"],
  ["adapters/node", "setInterval(() => {}, 1)", "Use Effect.repeat with a Schedule"],
  ["adapters/node", "console.log(1)", "Unexpected console statement"],
  ["runtimes/http", "export const now = Date.now()", "Read Effect's Clock; format with DateTime."],
  ["runtimes/http", "setTimeout(() => {}, 1)", "Use Effect.sleep or a Schedule"],
  ["runtimes/http", "setInterval(() => {}, 1)", "Use Effect.repeat with a Schedule"],
  ["runtimes/http", "export const chance = Math.random()", "Draw from the Crypto port"],
  ["conformance", "export const now = Date.now()", "Read Effect's Clock: checks run on a virtual one."],
  ["conformance", "setTimeout(() => {}, 1)", "Use TestClock.adjust; never sleep in a check."],
  ["conformance", "setInterval(() => {}, 1)", "Use TestClock.adjust; never sleep in a check."],
  ["conformance", "export const home = process.env", "A suite takes what it needs as a parameter."],
  ["runtimes/http", "export const loose = (value: any) => value", "Unexpected `any`"],
  ["runtimes/http", "const later = () => Promise.resolve(1)\nlater()", "Promises must be awaited"],
  ["runtimes/http", "export const run = (list: ReadonlyArray<number>) => list.forEach(async () => {})", "Promise returned in function argument"],
  ["runtimes/http", "export const one = async () => await 1", "Unexpected `await` of a non-Promise"],
  ["runtimes/http", "export const same = (a: string, b: string) => a == b", "Expected === and instead saw =="],
  [
    "runtimes/http",
    "export const name = (of: \"a\" | \"b\") => { switch (of) { case \"a\": return 1 } return 2 }",
    "Switch is not exhaustive"
  ],
  ["core/model", imports("./cycle.ts"), "Dependency cycle detected"],
  ["core/model", "export const lazily = () => import(\"../ports/Store.ts\")", "The model is pure values and decisions"],
  ["core/model", "export { thing } from \"../ports/Store.ts\"", "The model is pure values and decisions"],
  ["core/model", "import type { Store } from \"../ports/Store.ts\"\nexport type Mine = Store", "The model is pure values and decisions"]
]

const allowedCode: ReadonlyArray<readonly [file: string, source: string]> = [
  ["core/model/Some.test.ts", imports("../../adapters/memory/index.ts") + "export const now = Date.now()"],
  ["adapters/memory/Memory.conformance.test.ts", imports("../../conformance/Store.ts")],
  ["conformance/WebhookSockets.ts", imports("node:net")],
  ["runtimes/cli/conformance.ts", "export const lazily = () => import(\"../../conformance/index.ts\")"],
  ["runtimes/cli/main.ts", "export const name = () => process.argv[2]"]
]

const refused: ReadonlyArray<Case> = [
  ...refusedImports.map(([folder, specifier, says], index) => ({ file: `${folder}/Import${index}.ts`, source: imports(specifier), says })),
  { file: "conformance/OfAnAdapterSockets.ts", source: imports("../adapters/undici/index.ts"), says: "A suite knows ports, never an adapter or a runtime" },
  { file: "conformance/OfADriverSockets.ts", source: imports("undici"), says: "Receivers are made of Node's own servers" },
  ...refusedCode.map(([folder, source, says], index) => ({ file: `${folder}/Code${index}.ts`, source, says }))
]
const allowed: ReadonlyArray<Omit<Case, "says">> = [
  ...allowedImports.map(([folder, specifier], index) => ({ file: `${folder}/Allowed${index}.ts`, source: imports(specifier) })),
  ...allowedCode.map(([file, source]) => ({ file, source }))
]

interface Diagnostic {
  readonly filename: string
  readonly message: string
  readonly help?: string
}

/** Lets a tool judge a copy of the house that holds only these files, under the house's own configuration. */
const judge = (files: ReadonlyArray<Omit<Case, "says">>, tool: string, ...options: ReadonlyArray<string>): string => {
  const house = mkdtempSync(join(tmpdir(), "mailroom-lint-"))
  try {
    for (const { file, source } of files) {
      mkdirSync(join(house, dirname(file)), { recursive: true })
      writeFileSync(join(house, file), source)
    }
    for (const configuration of [".oxlintrc.json", "tsconfig.json"]) cpSync(join(root, configuration), join(house, configuration))
    symlinkSync(join(root, "node_modules"), join(house, "node_modules"), "junction")
    const environment = { ...process.env, PATH: binaries + delimiter + process.env["PATH"] }
    return execFileSync(join(binaries, tool), options, { cwd: house, env: environment, encoding: "utf8" })
  } catch (error) {
    return (error as { stdout: string }).stdout // the tool exits with 1 when it has something to say
  } finally {
    rmSync(house, { recursive: true })
  }
}

/** What oxlint says, by file. */
const lint = (files: ReadonlyArray<Omit<Case, "says">>): Map<string, Array<string>> => {
  const output = JSON.parse(judge(files, "oxlint", "--type-aware", "--format", "json", ".")) as { diagnostics: ReadonlyArray<Diagnostic> } // oxlint's own format
  const said = new Map<string, Array<string>>()
  for (const { filename, message, help = "" } of output.diagnostics) said.set(filename, [...(said.get(filename) ?? []), `${message} ${help}`])
  return said
}

const configuration = readFileSync(join(root, ".oxlintrc.json"), "utf8")

describe("the lint configuration", () => {
  let said = new Map<string, Array<string>>()
  beforeAll(() => {
    const cycle = refused.find(({ source }) => source === imports("./cycle.ts"))!
    const back = { file: "core/model/cycle.ts", source: `export { used as thing } from "./${cycle.file.split("/").at(-1)}"` }
    said = lint([...refused, ...allowed, back])
  })

  for (const { file, source, says } of refused) {
    it(`refuses, in ${dirname(file)}: ${source.split("\n").filter((line) => !line.startsWith("export const used")).join("; ")}`, () => {
      assert.include((said.get(file) ?? []).join("\n"), says)
    })
  }

  for (const { file, source } of allowed) {
    it(`allows, in ${dirname(file)}: ${source.split("\n")[0]}`, () => {
      assert.deepStrictEqual(said.get(file) ?? [], [])
    })
  }

  it("gives no reason that no test above provokes", () => {
    const reasons = [...configuration.matchAll(/"message": "([^"]+)"/g)].map((match) => match[1]!)

    const unprovoked = new Set(reasons.filter((reason) => ![...said.values()].flat().some((line) => line.includes(reason))))

    assert.isAbove(reasons.length, 20)
    assert.deepStrictEqual([...unprovoked], [])
  })

  it("turns no rule off without a reason", () => {
    const bare = configuration.split("\n").filter((line) => /^ {4}"[^"]+": "off"/.test(line) && !/\/\/ \S/.test(line))

    assert.deepStrictEqual(bare, [])
  })
})

describe("the Effect diagnostics", () => {
  const inEffect = (body: string) => `import { Effect } from "effect"\nexport const program = Effect.gen(function*() {\n  ${body}\n  return yield* Effect.succeed(1)\n})\n`
  const rows: ReadonlyArray<readonly [rule: string, file: string, source: string]> = [
    ["floatingEffect", "core/Floating.ts", inEffect("Effect.log(\"never\")")],
    ["globalDateInEffect", "core/Dated.ts", inEffect("yield* Effect.log(Date.now())")],
    ["globalRandomInEffect", "core/Random.ts", inEffect("yield* Effect.log(Math.random())")],
    ["globalTimersInEffect", "adapters/memory/Timed.ts", inEffect("setTimeout(() => {}, 1)")],
    ["globalConsoleInEffect", "runtimes/Loud.ts", inEffect("console.log(1)")],
    ["processEnv", "runtimes/Home.ts", "export const home = process.env[\"HOME\"]"],
    ["tryCatchInEffectGen", "core/Caught.ts", inEffect("try { yield* Effect.void } catch {}")],
    [
      "missingEffectContext",
      "core/Unprovided.ts",
      "import { Context, Effect } from \"effect\"\nclass Port extends Context.Service<Port, number>()(\"port\") {}\nexport const program: Effect.Effect<void> = Effect.asVoid(Port)\n"
    ],
    ["missingEffectError", "core/Unhandled.ts", "import { Effect } from \"effect\"\nexport const program: Effect.Effect<void> = Effect.fail(1)\n"],
    ["runEffectInsideEffect", "core/Nested.ts", inEffect("Effect.runSync(Effect.void)")]
  ]
  let said = ""
  beforeAll(() => {
    const fine = [
      { file: "runtimes/Config.ts", source: "export const home = process.env[\"HOME\"]" },
      { file: "core/Some.test.ts", source: inEffect("yield* Effect.log(Date.now())") },
      { file: "bench/Bench.ts", source: "console.log(process.env[\"HOME\"])\nexport {}" }
    ]
    said = judge([...rows.map(([, file, source]) => ({ file, source })), ...fine], "effect-tsgo", ...diagnostics)
  })

  for (const [rule, file] of rows) {
    it(`refuse ${rule}`, () => assert.match(said, new RegExp(`${file}\\(.*error effect\\(${rule}\\)`)))
  }

  it("judge every file, and allow what is allowed", () => {
    assert.match(said, /Checked 13 files out of 13 files/)
    for (const file of ["runtimes/Config.ts", "core/Some.test.ts", "bench/Bench.ts"]) assert.notInclude(said, file)
  })
})

/** As `npm run diagnostics` has them. */
const diagnostics = (JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: { diagnostics: string } }).scripts.diagnostics.split(" ").slice(1) // npm's own format
