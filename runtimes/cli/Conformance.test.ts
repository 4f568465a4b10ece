/** `mailroom conformance` as a person and a pipeline meet it: real processes, a real deployment, and a broken one. */
import { assert, describe, it } from "@effect/vitest"
import { type ChildProcess, spawn } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { createServer, type Server } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { type Report, suites } from "../../conformance/http/index.ts"

const cli = join(import.meta.dirname, "main.ts")
const folder = mkdtempSync(join(tmpdir(), "mailroom-conformance-"))
const children: Array<ChildProcess> = []
const servers: Array<Server> = []
let deployment = { baseUrl: "", apiKey: "" }

interface Ended {
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

interface Running {
  readonly child: ChildProcess
  readonly stderr: () => string
  readonly ended: Promise<Ended>
}

const start = (
  parameters: ReadonlyArray<string>,
  options: { readonly key?: string | null; readonly keyFile?: string; readonly input?: string } = {}
): Running => {
  const { MAILROOM_API_KEY: _, ...inherited } = process.env
  const { key = deployment.apiKey, keyFile, input = "" } = options
  const child = spawn(process.execPath, [cli, "conformance", ...parameters], {
    env: { ...inherited, ...(key === null ? {} : { MAILROOM_API_KEY: key }), ...(keyFile === undefined ? {} : { MAILROOM_API_KEY_FILE: keyFile }) },
    stdio: ["pipe", "pipe", "pipe"]
  })
  children.push(child)
  const [stdout, stderr]: [Array<string>, Array<string>] = [[], []]
  child.stdout.on("data", (chunk: Buffer) => stdout.push(chunk.toString()))
  child.stderr.on("data", (chunk: Buffer) => stderr.push(chunk.toString()))
  child.stdin.end(input)
  const ended = new Promise<Ended>((resolve) =>
    child.once("close", (status) => resolve({ status, stdout: stdout.join(""), stderr: stderr.join("") }))
  )
  return { child, stderr: () => stderr.join(""), ended }
}

const conformance = (parameters: ReadonlyArray<string>, options = {}): Promise<Ended> =>
  start(parameters, options).ended

/** Listens on a free port of this machine. */
const listening = async (server: Server): Promise<string> => {
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const address = server.address()
  return `http://127.0.0.1:${address !== null && typeof address === "object" ? address.port : 0}`
}

/** Stands before the deployment, and changes the JSON of its answers. */
const proxy = (change: (json: Record<string, unknown>, status: number) => void): Promise<string> =>
  listening(
    createServer((request, response) => {
      const chunks: Array<Buffer> = []
      request.on("data", (chunk: Buffer) => chunks.push(chunk))
      request.on("end", () => {
        const { host: _host, connection: _connection, "content-length": _length, ...headers } = request
          .headers as Record<string, string> // none of ours is repeated
        const body = chunks.length === 0 ? {} : { body: Buffer.concat(chunks) }
        void fetch(`${deployment.baseUrl}${request.url}`, { method: request.method!, headers, ...body }).then(
          async (answer) => {
            const json = (await answer.json()) as Record<string, unknown> // of the operations, which all answer JSON objects
            change(json, answer.status)
            response.writeHead(answer.status, {
              "content-type": "application/json",
              "x-request-id": answer.headers.get("x-request-id") ?? ""
            })
            response.end(JSON.stringify(json))
          }
        )
      })
    })
  )

beforeAll(async () => {
  const child = spawn(process.execPath, [cli, "dev", "--memory", "--data", folder, "--port", "0"], {
    stdio: ["ignore", "pipe", "pipe"]
  })
  children.push(child)
  const errors: Array<string> = []
  child.stderr.on("data", (chunk: Buffer) => errors.push(chunk.toString()))
  await new Promise<void>((resolve, reject) => {
    child.stdout.on("data", (chunk: Buffer) => chunk.includes("line by line") && resolve())
    child.once("exit", () => reject(new Error(`dev ended: ${errors.join("")}`)))
  })
  deployment = JSON.parse(readFileSync(join(folder, "dev.json"), "utf8"))
}, 60_000)

afterAll(() => {
  for (const child of children) child.kill("SIGKILL")
  for (const server of servers) server.close().closeAllConnections()
  rmSync(folder, { recursive: true, force: true })
})

describe("mailroom conformance", () => {
  it("proves `mailroom dev`, webhooks and all", async () => {
    const { status, stdout, stderr } = await conformance(["--base-url", deployment.baseUrl, "--json"])

    const report: Report = JSON.parse(stdout)
    assert.deepStrictEqual(report.checks.filter(({ outcome }) => outcome === "failed"), [])
    assert.strictEqual(status, 0, stderr)
    const total = suites.flatMap(({ checks }) => checks).length
    assert.strictEqual(report.passed + report.notApplicable, total)
    const reasons = new Set(
      report.checks.flatMap(({ outcome, reason }) => (outcome === "not_applicable" ? [reason] : []))
    )
    assert.deepStrictEqual([...reasons].map(String).sort(), [
      "it takes a key of another tenant, environment or application; pass one with --other-key-file",
      "it takes a key without messages:send; pass one with --narrow-key-file",
      "it would use up the key's requests of a minute; pass --exhaust-limits to let it",
      "no answer was of this kind"
    ])
    const lines = stderr.trim().split("\n")
    assert.lengthOf(lines, total)
    assert.match(lines[0]!, /^ok {3}1\/\d+ access: a key as Bearer token is let in \(Spec 5, 1\) \d+ ms$/)
  }, 180_000)

  it(
    "says of a broken deployment which law it broke, with the request and the answer, and without the key",
    async () => {
      const broken = await proxy((json, status) =>
        status === 404 && Object.assign(json, { stack: "at main\u001b[31m" })
      )
      const { status, stdout, stderr } = await conformance([
        "--base-url",
        `${broken}/`,
        "--filter",
        "a path that does not exist",
        "--filter",
        "every error"
      ])

      assert.strictEqual(status, 1)
      assert.match(stdout, /^FAILED {2}contract: every error of this run is the envelope: .* \(Spec 7, Envelope\)$/m)
      assert.match(stdout, /^ {8}the body does not fit: .*stack/m)
      assert.match(stdout, new RegExp(`^ {8}> GET ${broken}/v1/nothing-of-the-kind$`, "m"))
      assert.match(stdout, /^ {8}> authorization: Bearer svc_test_…$/m)
      assert.match(stdout, /^ {8}< 404$/m)
      assert.match(stdout, /^1 passed, 1 failed, 0 not applicable$/m)
      assert.match(stderr, /^ok {3}1\/2 .*\nFAIL 2\/2 .*\n$/)
      for (const output of [stdout, stderr]) assert.notInclude(output, deployment.apiKey.slice(12, 30))
    },
    60_000
  )

  it("takes the key from a file, from the environment, or from standard input, in this order", async () => {
    const file = join(folder, "key.txt")
    writeFileSync(file, `${deployment.apiKey}\n`)
    const one = ["--base-url", deployment.baseUrl, "--filter", "a key as Bearer token"]

    const runs = await Promise.all([
      conformance([...one, "--api-key-file", file], { key: "svc_test_wrong" }),
      conformance(one, { key: null, keyFile: file, input: "svc_test_wrong" }),
      conformance(one, { key: null, input: `${deployment.apiKey}\n` }),
      conformance([...one, "--api-key-file", "-"], { key: "svc_test_wrong", input: deployment.apiKey })
    ])

    assert.deepStrictEqual(runs.map(({ status }) => status), [0, 0, 0, 0])
  }, 60_000)

  const usage: ReadonlyArray<
    readonly [what: string, parameters: ReadonlyArray<string>, key: string | null, says: RegExp]
  > = [
    ["no address", [], "svc_test_x", /base-url/],
    [
      "an address with a password",
      ["--base-url", "http://ada:secret@127.0.0.1"],
      "svc_test_x",
      /^mailroom: --base-url wants an http or https URL without credentials/
    ],
    ["no key", ["--base-url", "http://127.0.0.1:1"], null, /^mailroom: reading the API key from standard input\nmailroom: standard input holds no API key/],
    [
      "a key that is none",
      ["--base-url", "http://127.0.0.1:1"],
      "topsecret",
      /^mailroom: MAILROOM_API_KEY holds no API key/
    ],
    [
      "a production key",
      ["--base-url", "http://127.0.0.1:1"],
      "svc_live_topsecret",
      /^mailroom: a production key \(svc_live_\) is not used unless --allow-live/
    ],
    [
      "a file that is not there",
      ["--base-url", "http://127.0.0.1:1", "--other-key-file", "/nowhere"],
      "svc_test_x",
      /^mailroom: --other-key-file \/nowhere: no such file\n$/
    ],
    [
      "a receiver that listens nowhere",
      ["--base-url", "http://127.0.0.1:1", "--receiver-url", "https://hooks.example.com"],
      "svc_test_x",
      /^mailroom: --receiver-url wants --receiver-listen/
    ],
    [
      "a receiver at no address",
      ["--base-url", "http://127.0.0.1:1", "--receiver-listen", "here"],
      "svc_test_x",
      /^mailroom: --receiver-listen wants host:port/
    ],
    [
      "a filter that leaves nothing",
      ["--base-url", "http://127.0.0.1:1", "--filter", "no such check"],
      "svc_test_x",
      /^mailroom: --filter leaves no check$/m
    ]
  ]
  it("ends with 2 at a fault of its caller, which it names, and never shows a secret", async () => {
    for (const [what, parameters, key, says] of usage) {
      const { status, stdout, stderr } = await conformance(parameters, { key })
      assert.deepStrictEqual([what, status], [what, 2])
      assert.match(stderr, says)
      assert.notMatch(stderr + stdout, /topsecret|ada:secret/)
    }
  }, 120_000)

  it("ends with 2 if the deployment refuses the key, and with 3 if there is no deployment", async () => {
    const [refused, unreachable] = await Promise.all([
      conformance(["--base-url", deployment.baseUrl], { key: "svc_test_unknown" }),
      conformance(["--base-url", "http://127.0.0.1:1"])
    ])

    assert.deepStrictEqual([refused.status, refused.stdout, refused.stderr], [
      2,
      "",
      `mailroom: ${deployment.baseUrl} refuses the API key with 401\n`
    ])
    assert.deepStrictEqual([unreachable.status, unreachable.stdout], [3, ""])
    assert.match(
      unreachable.stderr,
      /^mailroom: http:\/\/127\.0\.0\.1:1 cannot be reached: GET \/v1\/mailboxes: this port belongs to another protocol, .+\n$/
    )
  }, 60_000)

  it("ends with 2 at the first answer that says that the key lacks a scope, whatever was judged before", async () => {
    const asked: Array<string> = []
    const narrow = await listening(
      createServer((request, response) => {
        asked.push(`${request.method} ${request.url}`)
        const isRead = request.url === "/v1/mailboxes"
        const refusal = { code: "insufficient_scope", details: { required: ["messages:send"], missing: ["messages:send"] } }
        response.writeHead(isRead ? 200 : 403, { "content-type": "application/json" })
        response.end(JSON.stringify(isRead ? { data: [], pagination: { nextCursor: null, hasMore: false } } : refusal))
      })
    )

    const { status, stdout, stderr } = await conformance(["--base-url", narrow])

    assert.deepStrictEqual([status, stdout], [2, ""])
    assert.include(stderr, `mailroom: ${narrow} refuses the API key with 403, for it lacks messages:send: the suite wants a key of all scopes\n`)
    assert.isBelow(asked.length, 20)
  }, 60_000)

  it("has the deployment call the receiver where it is told that it can", async () => {
    // What forwards: it puts a path of its own before.
    const seen: Array<string> = []
    let at = ""
    const forwarder = await listening(
      createServer((request, response) => {
        seen.push(request.url ?? "")
        const chunks: Array<Buffer> = []
        request.on("data", (chunk: Buffer) => chunks.push(chunk))
        request.on("end", () => {
          const headers = request.headers as Record<string, string> // none of ours is repeated
          void fetch(`${at}${request.url}`, {
            method: "POST",
            headers: { ...headers, connection: "close" },
            body: Buffer.concat(chunks)
          }).then(async (answer) => {
            response.writeHead(answer.status, { "content-type": "application/json" }).end(await answer.text())
          }, () => response.writeHead(502).end())
        })
      })
    )
    const free = await listening(createServer())
    servers.pop()!.close()
    at = free

    const { status, stdout } = await conformance(
      [
        "--base-url",
        deployment.baseUrl,
        "--receiver-url",
        `${forwarder}/prefix/`,
        "--receiver-listen",
        free.slice("http://".length),
        "--filter",
        "Spec 6, Signature"
      ]
    )

    assert.strictEqual(status, 0, stdout)
    assert.isAtLeast(seen.length, 2)
    for (const path of seen) assert.match(path, /^\/prefix\/conformance\/[0-9a-f]{8}$/)
  }, 60_000)

  it("reports what it has found when the deployment goes away, and ends with 3", async () => {
    let answered = 0
    const dying = await listening(
      createServer((request, response) => {
        answered += 1
        if (answered > 1) return void request.socket.destroy()
        response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ items: [] }))
      })
    )

    const { status, stdout, stderr } = await conformance(["--base-url", dying, "--json", "--filter", "mailboxes:"])

    assert.strictEqual(status, 3, stderr)
    const report: Report = JSON.parse(stdout)
    assert.deepStrictEqual([report.passed, report.failed], [0, 1])
    assert.include(stderr, `\nmailroom: ${dying} cannot be reached: GET /v1/mailboxes: `)
  }, 60_000)

  it("reports what it has found when it is interrupted, and ends with 130", async () => {
    const { child, stderr, ended } = start(["--base-url", deployment.baseUrl, "--json"])
    await new Promise<void>((resolve) => child.stderr!.on("data", () => stderr().includes("ok   5/") && resolve()))

    child.kill("SIGINT")
    const { status, stdout } = await ended

    assert.strictEqual(status, 130)
    const report: Report = JSON.parse(stdout)
    assert.isAtLeast(report.passed, 5)
    assert.isAtLeast(report.notRun, 1)
    assert.strictEqual(
      report.passed + report.failed + report.notApplicable + report.notRun,
      suites.flatMap(({ checks }) => checks).length
    )
  }, 60_000)
})
