/**
 * What a linter cannot see: that adapters are proved, documents are fresh,
 * links lead somewhere, exceptions give a reason, and nothing stays half done.
 * Each rule about text also shows that it notices what it is there for.
 */
import { assert, describe, it } from "@effect/vitest"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { basename, dirname, extname, join, normalize, relative, sep } from "node:path"

const root = dirname(import.meta.dirname)

const notOurs = new Set([".git", ".mailroom", ".scratch", ".vitest", "coverage", "dist", "node_modules"])

const filesIn = (folder: string): ReadonlyArray<string> =>
  readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    if (notOurs.has(entry.name)) return []
    const path = folder === "" ? entry.name : `${folder}/${entry.name}`
    return entry.isDirectory() ? filesIn(path) : [path]
  })

const read = (file: string): string => readFileSync(join(root, file), "utf8")

const files = filesIn("")
const isText = (file: string) => [".json", ".md", ".ts", ".yaml", ".yml"].includes(extname(file)) || file === ".ci/run"
const isCode = (file: string) => file.endsWith(".ts") && !file.endsWith(".d.ts")
const isTest = (file: string) => file.endsWith(".test.ts")
const isIn = (...folders: ReadonlyArray<string>) => (file: string) => folders.some((folder) => file.startsWith(`${folder}/`))
const isProduct = (file: string) => isCode(file) && !isTest(file) && isIn("core", "adapters", "runtimes", "conformance", "client")(file)

/** Code without its comments, line by line, so that a comment may name what it forbids. */
const withoutComments = (text: string): string =>
  text
    .split("\n")
    .map((line) => (/^\s*(\/\/|\/?\*)/.test(line) ? "" : line.replace(/\s\/\/ .*$/, "")))
    .join("\n")

/** What runs for each message, delivery, attachment or request; what somebody does now and then is written as is best read. */
const runsOften = (file: string): boolean =>
  isProduct(file) &&
  (isIn("core/jobs", "core/ports")(file) ||
    /^core\/operations\/(Access|Attachments|Commit|Messages|Notifications|Receive|Routing|Senders|Sending)\.ts$/.test(file) ||
    /^(adapters\/\w+\/\w*BlobStore|runtimes\/http\/Handlers)\.ts$/.test(file))

interface TextRule {
  readonly title: string
  readonly appliesTo: (file: string) => boolean
  readonly pattern: RegExp
  readonly instead: string
  readonly notices: string
  /** Files that may, each with a reason. */
  readonly exceptions?: Readonly<Record<string, string>>
  readonly inComments?: boolean
}

/** In two halves, where the whole would be found in this very file. */
const word = (...parts: ReadonlyArray<string>) => parts.join("")

const rules: ReadonlyArray<TextRule> = [
  {
    title: "makes no generator function anew for each message",
    appliesTo: runsOften,
    pattern: /(?:\bchangeRecord\(\s*[\w.]+,|\bEffect\.scoped\()\s*Effect\.gen\(/,
    instead: "Effect.fnUntraced, made once: V8 keeps what a generator function closes over until the whole heap is collected (0033)",
    notices: "changeRecord(id, Effect.gen(function* () {}))"
  },
  {
    title: "takes time from Effect's Clock",
    appliesTo: isProduct,
    pattern: /\bDate\.now\b|\bnew Date\b|\bDate\(\)/,
    instead: "Clock.currentTimeMillis, DateTime",
    notices: "const at = Date.now()",
    exceptions: {
      "client/Platform.ts": "is where the client, which has no Effect, takes the time from",
      "client/fixtures/program.ts": "sets the clock of a receiver of webhooks"
    }
  },
  {
    title: "draws chance from the Crypto port",
    appliesTo: isProduct,
    pattern: /\bMath\.random\b/,
    instead: "Crypto.randomBytes",
    notices: "const chance = Math.random()"
  },
  {
    title: "passes time down to a database, and never asks it",
    appliesTo: isProduct,
    pattern: /(?<![.\w])now\(\)|\b(current_timestamp|localtimestamp|clock_timestamp|statement_timestamp)\b/i,
    instead: "a parameter, from Effect's Clock",
    notices: "sql`select * from job where run_at <= now()`",
    exceptions: {
      "adapters/postgres/Database.ts": "measures how far the server's clock is off",
      "adapters/postgres/JobClaims.ts": "measures how long a claim keeps the server busy",
      "adapters/postgres/migrations/0018_attachment_uses.ts": "what an older version does not tell counts from when it is written",
      "runtimes/doctor/DatabaseChecks.ts": "measures how long commits have waited for a standby"
    }
  },
  {
    title: "reads the environment in one place",
    appliesTo: isProduct,
    pattern: /\bprocess\.env\b|\{\s*env\b[^}]*\}\s*=\s*process\b/,
    instead: "a setting of runtimes/Config.ts",
    notices: "const home = process.env.HOME",
    exceptions: {
      "runtimes/Config.ts": "is that place",
      "conformance/servers.ts": "is told for one run of the tests which PostgreSQL they are for"
    }
  },
  {
    title: "logs with Effect",
    appliesTo: isProduct,
    pattern: /\bconsole\s*[.[]/,
    instead: "Effect.log; a command prints with process.stdout.write",
    notices: "console.log(1)"
  },
  {
    title: "loads the suites in the command line alone, and lazily",
    appliesTo: (file) => isCode(file) && !isTest(file) && isIn("runtimes")(file),
    pattern: /^\s*(import|export)\b[^(]*["'][^"']*\bconformance\b/m,
    instead: "await import(...) in runtimes/cli",
    notices: "import { suites } from \"../../conformance/index.ts\""
  },
  {
    title: "gives a reason with each lint exception",
    appliesTo: isText,
    inComments: true,
    pattern: new RegExp(
      [
        String.raw`${word("oxlint-", "disable")}(?!.* -- \S.{9,})`,
        String.raw`${word("@effect-", "diagnostics")}(?!.* -- \S.{9,})`,
        String.raw`${word("@ts-", "expect-error")}(?! \S.{9,})`,
        String.raw`${word("@ts-", "ignore")}`,
        String.raw`${word("@ts-", "nocheck")}`,
        String.raw`${word("eslint-", "disable")}`
      ].join("|")
    ),
    instead: "`-- reason` behind it; for TypeScript, the reason itself",
    notices: word("// oxlint-", "disable-next-line no-console")
  },
  {
    title: "runs every test",
    appliesTo: (file) => isCode(file),
    pattern: new RegExp(String.raw`\b(it|test|describe|layer|suite)(\.\w+)*\.(skip|only|todo|fails|skipIf|runIf)\b`),
    instead: "a test that runs, or none",
    notices: word("it.effect.", "skip(\"later\", () => Effect.void)")
  },
  {
    // By itself fast-check draws about ten pieces, or ten more than the least, whatever the most is.
    title: "draws lists and texts as long as it says",
    appliesTo: (file) => isCode(file) && read(file).includes("from \"fast-check\""),
    pattern: /\{(?![^{}]*\bsize:)[^{}]*\bmaxLength: (?:1[1-9]|[2-9]\d|\d[\d_]{2,})\b[^{}]*\}/,
    instead: "size: \"max\" beside a maxLength of more than ten",
    notices: word("fc.array(fc.nat(), { maxLen", "gth: 200 })")
  },
  {
    title: "titles tests with claims",
    appliesTo: (file) => isTest(file) || isIn("conformance")(file),
    pattern: new RegExp(String.raw`(title:|\b(it|test|describe)(\.\w+)*\()\s*["'\x60][^"'\x60]*\b${word("sho", "uld")}\b`),
    instead: "the present tense: what holds, not what ought to",
    notices: word("it(\"sho", "uld work\", () => {})")
  },
  {
    title: "leaves nothing half done",
    appliesTo: isText,
    inComments: true,
    pattern: new RegExp(String.raw`\b(${[word("TO", "DO"), word("FIX", "ME")].join("|")})\b`),
    instead: "the thing itself, or nothing",
    notices: word("// TO", "DO: later")
  },
  {
    title: "names no path of a machine",
    appliesTo: (file) => isText(file) && file !== "package-lock.json",
    inComments: true,
    pattern: new RegExp(String.raw`(?<![\w.}/])/(${["wo rk", "t mp", "ho me", "ro ot", "Us ers"].join("|").replaceAll(" ", "")})/`),
    instead: "a path relative to the checkout, or os.tmpdir()",
    notices: word("const folder = \"/t", "mp/mailroom\"")
  }
]

const lineOf = (text: string, index: number): number => text.slice(0, index).split("\n").length

const faultsOf = (rule: TextRule, file: string, text: string): ReadonlyArray<string> => {
  const searched = rule.inComments === true || !isCode(file) ? text : withoutComments(text)
  const pattern = new RegExp(rule.pattern.source, [...new Set([...rule.pattern.flags, "g"])].join(""))
  return [...searched.matchAll(pattern)].map(
    (match) => `${file}:${lineOf(searched, match.index)}: ${match[0].trim()}; instead: ${rule.instead}`
  )
}

describe("the text of the house", () => {
  for (const rule of rules) {
    it(rule.title, () => {
      const judged = files.filter((file) => rule.appliesTo(file) && rule.exceptions?.[file] === undefined)

      assert.deepStrictEqual(judged.flatMap((file) => faultsOf(rule, file, read(file))), [])
    })

    it(`${rule.title}: notices ${rule.notices}`, () => {
      assert.lengthOf(faultsOf(rule, "core/Some.ts", rule.notices), 1)
    })
  }

  it("lets a comment name what is banned", () => {
    const time = rules.find(({ title }) => title.includes("Clock"))!

    assert.deepStrictEqual(faultsOf(time, "core/Some.ts", "/** Not `Date.now`. */\n// nor new Date\nconst one = 1 // Date.now"), [])
  })
})

describe("the size of the house", () => {
  const linesMax = 500
  /** Longer files, each with the reason why it is one. */
  const longer: Readonly<Record<string, string>> = {}

  it(`keeps files within ${linesMax} lines`, () => {
    const long = files
      .filter((file) => isCode(file) && isIn("core", "adapters", "runtimes", "conformance")(file) && longer[file] === undefined)
      .map((file) => ({ file, lines: read(file).trimEnd().split("\n").length }))
      .filter(({ lines }) => lines > linesMax)

    assert.deepStrictEqual(long, [])
  })

  it("lists no file as long that is not", () => {
    const stale = Object.keys(longer).filter((file) => !existsSync(join(root, file)) || read(file).trimEnd().split("\n").length <= linesMax)

    assert.deepStrictEqual(stale, [])
  })

  it("keeps the map on a few screens", () => {
    const lines = existsSync(join(root, "ARCHITECTURE.md")) ? read("ARCHITECTURE.md").trimEnd().split("\n").length : 0

    assert.isAtMost(lines, 150)
  })

  it("has no drawer for odds and ends", () => {
    const drawer = /(^|\/)(utils?|common|helpers?|types|shared|misc|domain|application)(\/|\.ts$)/i

    assert.deepStrictEqual(files.filter((file) => drawer.test(file)), [])
  })
})

/** The files that a file imports. */
const importsOf = (file: string): ReadonlyArray<string> =>
  [...read(file).matchAll(/(?:from|import)\s*\(?\s*["'](\.[^"']+)["']/g)].map((match) =>
    normalize(join(dirname(file), match[1]!)).split(sep).join("/")
  )

describe("adapters", () => {
  /** Files that no suite reaches, each with a reason. */
  const unproved: Readonly<Record<string, string>> = {
    "adapters/mime/ParserThread.ts": "ParserThreads.ts starts it by its name, which no import shows",
    "adapters/mailauth/Header.ts": "runs in a thread, which the suite starts by its address",
    "adapters/mailauth/Thread.ts": "the same",
    "adapters/postgres/Pooler.ts": "looks at what is between us and the server, which no suite has; its own test does",
    "adapters/postgres/TestPooler.ts": "is between the tests and the server, for that test",
    "adapters/postgres/TestProcess.ts": "starts what tests look at, beside the suites"
  }
  const isIndex = (file: string) => basename(file) === "index.ts"

  /** What a suite exercises: what its test imports, and what that is made of within its own folder. */
  const proved = (() => {
    const reached = new Set<string>()
    const visit = (file: string): void => {
      if (reached.has(file) || !files.includes(file) || isIndex(file)) return
      reached.add(file)
      for (const next of importsOf(file)) if (dirname(next) === dirname(file)) visit(next)
    }
    for (const test of files.filter((file) => file.endsWith(".conformance.test.ts"))) for (const file of importsOf(test)) visit(file)
    return reached
  })()

  it("are each held to a suite", () => {
    const judged = files.filter((file) => /^adapters\/[^/]+\/[^/]+\.ts$/.test(file) && !isTest(file) && !isIndex(file))

    assert.deepStrictEqual(judged.filter((file) => !proved.has(file) && unproved[file] === undefined), [])
  })

  it("are not excused once they are held to a suite, or gone", () => {
    assert.deepStrictEqual(Object.keys(unproved).filter((file) => proved.has(file) || !files.includes(file)), [])
  })

  it("lie flat, one folder per technology, but for the history of its tables", () => {
    const isDeep = (file: string) => /^adapters\/[^/]+\/(?!migrations\/\d{4}_\w+\.ts$).+\/.+\.ts$/.test(file)

    assert.deepStrictEqual(files.filter((file) => isDeep(file) && !isTest(file)), [])
  })
})

describe("documents", () => {
  const withoutCode = (text: string): string => text.replace(/^(```|~~~)[\s\S]*?^\1/gm, "").replace(/`[^`\n]*`/g, "code")
  const slugs = (text: string): ReadonlySet<string> => {
    const seen = new Map<string, number>()
    const headings = text.replace(/^(```|~~~)[\s\S]*?^\1/gm, "").matchAll(/^#{1,6}\s+(.+?)\s*$/gm)
    return new Set(
      [...headings].map((match) => {
        const slug = match[1]!.toLowerCase().replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/[^\p{L}\p{N}\s_-]/gu, "").replace(/\s/g, "-")
        const count = seen.get(slug) ?? 0
        seen.set(slug, count + 1)
        return count === 0 ? slug : `${slug}-${count}`
      })
    )
  }
  const isThere = (path: string): boolean => existsSync(join(root, path))
  const brokenLinks = (file: string, text: string, leads: (path: string) => boolean = isThere): ReadonlyArray<string> =>
    [...withoutCode(text).matchAll(/\]\(\s*<?([^)\s>]+)>?[^)]*\)|^\[[^\]]+\]:\s*(\S+)/gm)]
      .map((match) => match[1] ?? match[2]!)
      .filter((target) => !/^[a-z][a-z0-9+.-]*:/i.test(target))
      .flatMap((target) => {
        const [path = "", anchor] = target.split("#")
        const linked = path === "" ? file : normalize(join(dirname(file), decodeURIComponent(path)))
        if (relative(root, join(root, linked)).startsWith("..") || !leads(linked)) return [`${file}: ${target} leads nowhere`]
        return anchor === undefined || !linked.endsWith(".md") || slugs(read(linked)).has(anchor)
          ? []
          : [`${file}: ${target} names no heading`]
      })
  const pages = files.filter((file) => file.endsWith(".md"))

  it("have links that lead somewhere", () => {
    assert.deepStrictEqual(pages.flatMap((file) => brokenLinks(file, read(file))), [])
  })

  it("have links that are checked", () => {
    const text = "[gone](docs/gone.md) [there](docs/state-machines.md#recipient) [no](docs/state-machines.md#nobody) `[code](x)` [web](https://a.example)"

    assert.deepStrictEqual(brokenLinks("README.md", text), [
      "README.md: docs/gone.md leads nowhere",
      "README.md: docs/state-machines.md#nobody names no heading"
    ])
  })

  it("have links that lead somewhere in the package, too", () => {
    const { files: named } = JSON.parse(read("package.json")) as { readonly files: ReadonlyArray<string> } // npm's own format
    const isNamed = (entries: ReadonlyArray<string>, file: string) =>
      entries.some((entry) => new RegExp(`^${entry.replaceAll(".", "\\.").replaceAll("*", "[^/]*")}(/|$)`).test(file))
    const left = named.flatMap((entry) => (entry.startsWith("!") ? [entry.slice(1)] : []))
    const packed = files.filter((file) => file === "README.md" || (isNamed(named, file) && !isNamed(left, file)))
    const leads = (path: string) => packed.some((file) => file === path || file.startsWith(path.replace(/\/?$/, "/")))

    assert.isFalse(leads("core/index.ts"))
    assert.isFalse(leads("docs/generate.ts"))
    assert.deepStrictEqual(pages.filter(leads).flatMap((file) => brokenLinks(file, read(file), leads)), [])
  })

  it("that follow from the code are fresh: npm run docs", async () => {
    const { documents } = await import("../docs/generate.ts")

    for (const { file, text } of documents()) {
      assert.isTrue(existsSync(join(root, "docs", file)), `docs/${file} is missing`)
      assert.strictEqual(read(`docs/${file}`), text, `docs/${file} is stale`)
    }
  })

  it("give the commands that are run to prove a submission", () => {
    const commands = read(".ci/run").split("\n").filter((line) => line.startsWith("npm "))
    const readme = existsSync(join(root, "README.md")) ? read("README.md") : commands.join("\n")

    assert.deepStrictEqual(commands, ["npm ci", "npm test", "npm run peers"])
    for (const command of commands) assert.include(readme, command)
  })
})

describe("the package", () => {
  interface Exported {
    readonly "mailroom-source": string
    readonly types: string
    readonly default: string
  }
  interface Manifest {
    readonly version: string
    readonly bin: Readonly<Record<string, string>>
    readonly exports: Readonly<Record<string, string | Exported>>
    readonly dependencies?: Readonly<Record<string, string>>
    readonly devDependencies: Readonly<Record<string, string>>
    readonly peerDependencies: Readonly<Record<string, string>>
    readonly peerDependenciesMeta: Readonly<Record<string, { readonly optional: boolean }>>
    readonly allowScripts: Readonly<Record<string, boolean>>
  }
  interface Locked {
    readonly version?: string
    readonly resolved?: string
    readonly integrity?: string
    readonly hasInstallScript?: boolean
    readonly optionalDependencies?: Readonly<Record<string, string>>
    readonly optional?: boolean
    readonly os?: ReadonlyArray<string>
    readonly dependencies?: Readonly<Record<string, string>>
    readonly devDependencies?: Readonly<Record<string, string>>
    readonly peerDependencies?: Readonly<Record<string, string>>
  }
  const manifest = JSON.parse(read("package.json")) as Manifest // npm's own format
  const lock = (JSON.parse(read("package-lock.json")) as { packages: Record<string, Locked> }).packages // npm's own format
  const sourceOf = (built: string) => built.replace(/^\.\/dist\//, "./").replace(/\.js$/, ".ts")

  it("pins every version", () => {
    const pinned = { ...manifest.dependencies, ...manifest.devDependencies }

    assert.deepStrictEqual(Object.entries(pinned).filter(([, version]) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version)), [])
  })

  it("asks of its host what it is tested with, or newer within a major", () => {
    for (const [name, range] of Object.entries(manifest.peerDependencies)) {
      assert.strictEqual(range, `^${manifest.devDependencies[name]}`, name)
    }
  })

  it("demands effect of its host, and no driver", () => {
    const demanded = Object.keys(manifest.peerDependencies).filter((name) => manifest.peerDependenciesMeta[name]?.optional !== true)

    assert.deepStrictEqual(demanded, ["effect"])
    assert.deepStrictEqual(manifest.dependencies ?? {}, {})
  })

  it("says of each package that it wants of its host why it is there", () => {
    const rows = new Set([...read("docs/decisions/0007-libraries.md").matchAll(/^\| (\S+) \| .+ \| .+ \|$/gm)].map(([, name]) => name))

    assert.deepStrictEqual(Object.keys(manifest.peerDependencies).filter((name) => !rows.has(name)), [])
  })

  it("has a lockfile that agrees with it and names no registry", () => {
    assert.deepStrictEqual(lock[""]?.devDependencies, manifest.devDependencies)
    assert.deepStrictEqual(lock[""]?.peerDependencies, manifest.peerDependencies)
    assert.deepStrictEqual(Object.keys(lock).filter((name) => lock[name]!.resolved !== undefined), [])
    assert.notMatch(read("package-lock.json"), /"https?:[^"]*\.tgz"/)
  })

  it("knows the digest of every package that is installed here", () => {
    const unknown = Object.entries(lock).filter(
      ([name, { integrity, os }]) => name !== "" && integrity === undefined && (os === undefined || os.includes(process.platform))
    )

    assert.deepStrictEqual(unknown.filter(([name]) => existsSync(join(root, name))).map(([name]) => name), [])
  })

  it("judges every install script, and allows those without which a package does not work", () => {
    const scripted = Object.keys(lock).filter((name) => lock[name]!.hasInstallScript === true).map((name) => name.replace(/^.*node_modules\//, ""))
    const judged = Object.keys(manifest.allowScripts)
    const allowed = judged.filter((name) => manifest.allowScripts[name] === true)

    assert.deepStrictEqual(scripted.filter((name) => !judged.includes(name)), [])
    assert.deepStrictEqual(allowed, ["node"]) // it fetches the binary of this platform; the others ship theirs, or are helped along
    assert.match(read(".npmrc"), /^strict-allow-scripts=true$/m)
  })

  it("locks the packages of every platform, without which a clean installation refuses the lock", () => {
    const missing = Object.entries(lock).flatMap(([name, { optionalDependencies = {} }]) =>
      Object.keys(optionalDependencies).filter(
        (wanted) => lock[`node_modules/${wanted}`] === undefined && lock[`${name}/node_modules/${wanted}`] === undefined
      )
    )

    assert.deepStrictEqual(missing, [])
  })

  it("names in the README all that is installed with it for everything at once", () => {
    const [, version, names = ""] = /^npm install \S*\/mailroom-(\S+)\.tgz (.+)$/m.exec(read("README.md")) ?? []

    assert.strictEqual(version, manifest.version)
    assert.deepStrictEqual(names.split(" ").toSorted(), Object.keys(manifest.peerDependencies).toSorted())
  })

  it("exports sources that exist, beside what they are built to", () => {
    for (const [name, target] of Object.entries(manifest.exports)) {
      if (typeof target === "string") continue
      assert.deepStrictEqual(Object.keys(target), ["mailroom-source", "types", "default"], name)
      assert.strictEqual(sourceOf(target.default), target["mailroom-source"], name)
      assert.isTrue(existsSync(join(root, target["mailroom-source"])), `${name}: ${target["mailroom-source"]}`)
    }
  })

  it("is built of nothing but what its exports and commands reach", () => {
    const { include, exclude } = JSON.parse(read("tsconfig.build.json")) as { readonly include: Array<string>; readonly exclude: Array<string> } // as it is written
    const isBuilt = (file: string) =>
      isCode(file) && isIn(...include)(file) && !isTest(file) && !exclude.includes(file) && !isIn(...exclude)(file)
    const reached = new Set<string>()
    const visit = (file: string): void => {
      if (reached.has(file) || !files.includes(file)) return
      reached.add(file)
      importsOf(file).forEach(visit)
    }
    const threads = ["adapters/mime/ParserThread.ts", "adapters/mailauth/Thread.ts"] // started by their names
    const targets = Object.values(manifest.exports).filter((target) => typeof target !== "string")
    const sources = [...targets.map((target) => target["mailroom-source"]), ...Object.values(manifest.bin).map(sourceOf)]
    for (const source of [...sources, ...threads]) visit(normalize(source))

    assert.deepStrictEqual(files.filter((file) => isBuilt(file) && !reached.has(file)), [])
  })

  it("has commands that a shell can start", () => {
    for (const built of Object.values(manifest.bin)) assert.match(read(sourceOf(built)), /^#!\/usr\/bin\/env node\n/)
  })
})
