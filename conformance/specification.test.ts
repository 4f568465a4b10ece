/**
 * Holds specification.txt to the truth: each statement has tests that run
 * under just these titles, or belongs to a named part that is not there yet.
 * The titles are Vitest's own: it collects every file, as for a run.
 */
import { assert, beforeAll, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, dirname, join, relative, sep } from "node:path"
import { scopes } from "../core/model/ApiKey.ts"
import * as Event from "../core/model/Event.ts"
import { requiredScopes } from "../core/operations/Access.ts"
import { codes } from "../runtimes/http/ErrorBody.ts"
import type { Suite } from "./Suite.ts"

const root = dirname(import.meta.dirname)

interface Row {
  readonly id: string
  readonly section: string
  readonly statement: string
  readonly tests: ReadonlyArray<{ readonly file: string; readonly title: string }>
  readonly later: ReadonlyArray<string>
}

/** Parts of the product that are still to come. */
const parts = ["inbound", "domains", "providers", "dashboard"]

/** Every table and heading that has statements. */
const sections = [
  ..."Mailbox, Domain, Message summary, Message page, Queued message, Event, Webhook endpoint, Error envelope, Identifiers and times".split(", ").map((name) => `2 ${name}`),
  ..."Outbound message, Flags and folder, Webhook delivery, Webhook endpoint, Attachment".split(", ").map((name) => `3 ${name}`),
  ..."Shared parameters, Operations, SendMessageInput, UpdateMessageInput, UploadAttachmentInput, Create webhook endpoint, Idempotency, Pagination".split(", ").map((name) => `4 ${name}`),
  ..."Credential, Prefixes, Scopes, Pipeline, Refusals, Rotation, Webhook requests".split(", ").map((name) => `5 ${name}`),
  ..."Event types, Webhook request, Signature, Handshake, Delivery semantics".split(", ").map((name) => `6 ${name}`),
  "7 Envelope",
  "7 Statuses",
  "8 Limits",
  "D Scoping",
  "D Identifiers, time, cursors",
  ..."Resources, Outbound messages, Webhooks, Idempotency, Errors, Limits, Sandbox, Versioning".split(", ").map((name) => `D ${name}`)
]

/** The rows of section 8, and of the states, which no list in the code names. */
const demanded = [
  ..."ip-guard key-minute tenant-day page-size page-size-deliveries event-cursor idempotency-key idempotency-reservation recipients subject".split(" ").map((name) => `8.${name}`),
  ..."text-html attachment-ids attachment-size filename-media-type event-types description response-time attempts failures timestamp-tolerance".split(" ").map((name) => `8.${name}`),
  ..."queued queued-sent sent-delivered sent-bounced sent-failed".split(" ").map((name) => `3.message.${name}`),
  ..."retried exhausted replayed delivered".split(" ").map((name) => `3.delivery.${name}`),
  ..."delivered bounced bounced-soft failed delayed late-bounce duplicate tag anything restart".split(" ").map((name) => `D.sandbox.${name}`),
  ..."ip route length credential limits scope inside".split(" ").map((name) => `D.order.${name}`),
  ..."from to cc bcc subject text html body attachments".split(" ").map((name) => `4.send.${name}`)
]

/** Operations of the specification; all of them are there. */
const specified = Object.keys(requiredScopes)

const parse = (text: string): ReadonlyArray<Row> => {
  const rows: Array<Row> = []
  let section = ""
  let row: { tests: Array<Row["tests"][number]>; later: Array<string> } | null = null
  for (const [index, line] of text.split("\n").entries()) {
    const unread = () => new Error(`specification.txt:${index + 1}: ${line}`)
    if (line === "" || /^#( |$)/.test(line)) continue
    if (line.startsWith("## ")) section = line.slice(3)
    else if (line.startsWith("  ")) {
      if (row === null) throw unread()
      const test = /^ {2}(\S+\.ts) :: (.+)$/.exec(line)
      const later = /^ {2}later: (.+)$/.exec(line)
      if (test !== null) row.tests.push({ file: test[1]!, title: test[2]! })
      else if (later !== null) row.later.push(later[1]!)
      else throw unread()
    } else {
      const head = /^([2-8D]\.\S+) {2}(.+)$/.exec(line)
      if (head === null) throw unread()
      row = { tests: [], later: [] }
      rows.push({ id: head[1]!, section, statement: head[2]!, ...row })
    }
  }
  return rows
}

/** The full titles of all tests, by file: what Vitest itself would run. */
const collect = (): ReadonlyMap<string, ReadonlySet<string>> => {
  const folder = mkdtempSync(join(tmpdir(), "mailroom-titles-"))
  try {
    const file = join(folder, "titles.json")
    const vitest = join(root, "node_modules", "vitest", "vitest.mjs")
    // Parsing the files would miss the titles that come from tables. Nothing is run, so nothing needs to be isolated.
    const args = [vitest, "list", "--no-static-parse", "--no-isolate", `--json=${file}`]
    const variables = Object.entries(process.env).filter(([name]) => !/^(VITEST|TEST$|NODE_ENV$)/.test(name))
    // Files make folders as they are loaded, and what removes them behind their tests does not run here.
    const env = { ...Object.fromEntries(variables), TMPDIR: folder }
    execFileSync(process.execPath, args, { cwd: root, env, stdio: ["ignore", "pipe", "pipe"] })
    const listed = JSON.parse(readFileSync(file, "utf8")) as ReadonlyArray<{ readonly name: string; readonly file: string }> // its own format
    const titles = new Map<string, Set<string>>()
    for (const one of listed) {
      const path = relative(root, one.file).split(sep).join("/")
      titles.set(path, (titles.get(path) ?? new Set()).add(one.name.trim()))
    }
    return titles
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Titles of suites, as `suite > title`, whichever adapters and sets they are bound to. */
const boundTitles = (titles: ReadonlyMap<string, ReadonlySet<string>>): ReadonlySet<string> =>
  new Set([...titles.values()].flatMap((of) => [...of]).flatMap((name) => /^.*? (?:conforms to|plays) (.+)$/s.exec(name)?.[1] ?? []))

const rows = parse(readFileSync(join(import.meta.dirname, "specification.txt"), "utf8"))
const ids = new Set(rows.map(({ id }) => id))
const idsUnder = (prefix: string) => rows.filter(({ id }) => id.startsWith(prefix)).map(({ id }) => id.slice(prefix.length))

describe("the table of the specification", () => {
  it("names each statement once", () => {
    assert.deepStrictEqual(rows.map(({ id }) => id).filter((id, index, all) => all.indexOf(id) !== index), [])
  })

  it("has a section for every heading, each with statements", () => {
    assert.deepStrictEqual([...new Set(rows.map(({ section }) => section))].sort(), [...sections].sort())
    for (const { id, section } of rows) assert.strictEqual(id[0], section[0], id)
  })

  it("has a row for every limit, state, input member, order of refusal and sandbox outcome", () => {
    assert.deepStrictEqual(demanded.filter((id) => !ids.has(id)), [])
  })

  it("has a row for every scope, operation, event type and error code", () => {
    assert.deepStrictEqual(idsUnder("5.scope.").sort(), [...scopes].sort())
    assert.deepStrictEqual(idsUnder("4.operation.").sort(), [...specified].sort())
    assert.deepStrictEqual(idsUnder("6.type.").sort(), [...Event.types, Event.verificationType].sort())
    assert.deepStrictEqual(Event.types.filter((type) => !ids.has(`D.data.${type}`)), [])
    assert.deepStrictEqual(codes.filter((code) => !ids.has(`7.code.${code}`)), [])
  })

  it("puts off no operation and no code that is there", () => {
    const there = [...Object.keys(requiredScopes).map((name) => `4.operation.${name}`), ...codes.map((code) => `7.code.${code}`)]
    const judged = rows.filter(({ id }) => /^(4\.operation|7\.code)\./.test(id))

    for (const { id, later } of judged) assert.strictEqual(later.length === 0, there.includes(id), id)
  })

  it("gives each statement a test, or the part that it waits for", () => {
    assert.deepStrictEqual(rows.filter(({ tests, later }) => tests.length + later.length === 0).map(({ id }) => id), [])
    assert.deepStrictEqual(rows.flatMap(({ id, later }) => later.filter((part) => !parts.includes(part)).map((part) => `${id}: ${part}`)), [])
  })

  it("names no test twice for one statement", () => {
    for (const { id, tests } of rows) assert.strictEqual(new Set(tests.map(({ file, title }) => `${file} ${title}`)).size, tests.length, id)
  })
})

describe("the tests that it names", () => {
  let titles: ReadonlyMap<string, ReadonlySet<string>> = new Map()
  beforeAll(() => void (titles = collect()), 300_000)

  it("are in files that exist", () => {
    const files = new Set(rows.flatMap(({ tests }) => tests.map(({ file }) => file)))

    assert.deepStrictEqual([...files].filter((file) => !existsSync(join(root, file))), [])
  })

  it("run under just these titles", async () => {
    const bound = boundTitles(titles)
    const missing: Array<string> = []
    for (const { id, tests } of rows) {
      for (const { file, title } of tests) {
        const isThere = file.endsWith(".test.ts") ? titles.get(file)?.has(title) : bound.has(`${await suiteOf(file)} > ${title}`)
        if (isThere !== true) missing.push(`${id}: ${file} :: ${title}`)
      }
    }

    assert.deepStrictEqual(missing, [])
  })

  it("are found by a search that would notice a title that is not there", () => {
    const bound = boundTitles(titles)
    assert.isAbove(bound.size, 300)
    assert.isFalse(bound.has("Store > does what no store does"))
    assert.isFalse(titles.get("conformance/specification.test.ts")!.has("the table of the specification > names each statement twice"))
    assert.isTrue(titles.get("conformance/specification.test.ts")!.has("the table of the specification > names each statement once"))
  })
})

const suiteNames = new Map<string, Promise<string>>()

const suiteOf = (file: string): Promise<string> => {
  const known = suiteNames.get(file)
  if (known !== undefined) return known
  // A suite that takes parameters bears the name of its file.
  const name = import(join(root, file)).then(({ suite }: { readonly suite: Suite<never> | (() => unknown) }) =>
    typeof suite === "function" ? basename(file, ".ts") : suite.name
  )
  suiteNames.set(file, name)
  return name
}
