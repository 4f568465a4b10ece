/**
 * The client, built and as source, where it must run: Node, Deno and Bun, and
 * in the web workers of the latter two; and that it needs nothing of any of
 * them, by the compiler's word.
 */
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { execFile } from "node:child_process"
import { createHmac } from "node:crypto"
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, dirname, join } from "node:path"
import { pathToFileURL } from "node:url"
import { apiKey, id } from "./fixtures/party.ts"
import type { Task } from "./fixtures/program.ts"
import * as Server from "./fixtures/ScriptedServer.ts"

const root = dirname(import.meta.dirname)
const binaries = join(root, "node_modules", ".bin")
const folder = mkdtempSync(join(tmpdir(), "mailroom-client-"))
afterAll(() => rmSync(folder, { recursive: true }))

const execute = (
  file: string,
  ...args: ReadonlyArray<string>
): Promise<{ readonly exit: number; readonly stdout: string; readonly stderr: string }> =>
  new Promise((resolve) => {
    const environment = {
      ...process.env,
      DENO_DIR: join(folder, "deno"),
      DENO_NO_UPDATE_CHECK: "1",
      NO_COLOR: "1",
      PATH: binaries + delimiter + process.env["PATH"]
    }
    execFile(file, args, { cwd: folder, env: environment, timeout: 60_000 }, (error, stdout, stderr) =>
      resolve({ exit: error === null ? 0 : Number(error.code ?? 1), stdout, stderr }))
  })

/** Compiles these files under these libraries, and no types of any runtime; what the compiler says. */
const compile = (
  name: string,
  files: ReadonlyArray<string>,
  options: Readonly<Record<string, unknown>>
): Promise<string> => {
  const compilerOptions = {
    target: "ES2022",
    module: "NodeNext",
    types: [],
    strict: true,
    exactOptionalPropertyTypes: true,
    rewriteRelativeImportExtensions: true,
    declaration: true,
    ...options
  }
  writeFileSync(join(folder, `tsconfig.${name}.json`), JSON.stringify({ compilerOptions, files }))
  return execute(join(binaries, "tsc"), "--project", join(folder, `tsconfig.${name}.json`)).then(({ stdout, stderr }) =>
    stdout + stderr
  )
}

const source = (file: string): string => join(import.meta.dirname, file)
const built = join(folder, "built")
const webWorker = ["ES2022", "WebWorker", "WebWorker.AsyncIterable"]

beforeAll(async () => {
  mkdirSync(built)
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }))
  const files = ["index.ts", "fixtures/program.ts", "fixtures/worker.ts"].map(source)
  const said = await compile("built", files, { lib: webWorker, rootDir: import.meta.dirname, outDir: built })
  assert.strictEqual(said, "")
})

describe("The built client", () => {
  const modules = () => readdirSync(built).filter((file) => file.endsWith(".js"))

  it("imports nothing but itself", () => {
    assert.include(modules(), "index.js")
    for (const file of modules()) {
      const imports = [...readFileSync(join(built, file), "utf8").matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g)].map((
        [, name]
      ) => name!)
      for (const name of imports) assert.match(name, /^\.\/[A-Za-z0-9]+\.js$/, file)
    }
  })

  it("names no global of Node, nor of a page but to see that there is none", () => {
    const names =
      /\b(process|Buffer|require|module|exports|__dirname|__filename|global|setImmediate|Deno|Bun|window|document|navigator|localStorage)\b/
    for (const file of modules()) {
      const code = readFileSync(join(built, file), "utf8")
        .replace(/\/\*[\s\S]*?\*\/|\/\/ .*$/gm, "")
        .replace(/"document" in globalThis/, "")
        .replace(/(["'`])(?:(?!\1).)*\1/g, "''")
      assert.isNull(names.exec(code), file)
    }
  })

  it("explains each method where an editor looks for it", () => {
    const lines = readFileSync(join(built, "Client.d.ts"), "utf8").split("\n")
    const methods = lines.flatMap((line, index) => {
      const name = /^ {4,8}(?!constructor)(\w+)(?:: )?\(.*;$/.exec(line)?.[1]
      return name === undefined ? [] : [{ name, isExplained: lines[index - 1]!.trimEnd().endsWith("*/") }]
    })

    assert.isAtLeast(methods.length, 2 * 13)
    assert.deepStrictEqual(methods.filter(({ isExplained }) => !isExplained).map(({ name }) => name), [])
  })

  it("type-checks as source with the types of a page too", async () => {
    const said = await compile("page", [source("index.ts")], {
      lib: ["ES2022", "DOM", "DOM.AsyncIterable"],
      noEmit: true,
      rewriteRelativeImportExtensions: false,
      allowImportingTsExtensions: true
    })
    assert.strictEqual(said, "")
  })

  it("has declarations that a strict consumer can use, and that refuse what the service would", async () => {
    writeFileSync(join(folder, "consumer.ts"), consumer)
    const said = await compile("consumer", [join(folder, "consumer.ts")], {
      lib: webWorker,
      noEmit: true,
      skipLibCheck: false,
      noPropertyAccessFromIndexSignature: true
    })
    assert.strictEqual(said, "")
  })
})

const consumer = `
import { isCode, Mailroom, verifyWebhook, type Event, type WebhookPayload } from "./built/index.js"

declare const mailroom: Mailroom
const fromMailboxId: string = "x"

// @ts-expect-error neither text nor html
mailroom.sendMessage({ fromMailboxId, to: [] })
// @ts-expect-error a member that is none
mailroom.sendMessage({ fromMailboxId, to: [], text: "", from: "x" })
// @ts-expect-error no such folder
mailroom.updateMessage("x", { mailboxId: "x", folder: "attic" })
// @ts-expect-error nothing to update
mailroom.updateMessage("x", { mailboxId: "x" })
// @ts-expect-error neither bytes nor Base64
mailroom.uploadAttachment({ mailboxId: "x", filename: "x", mediaType: "x" })
// @ts-expect-error both bytes and Base64
mailroom.uploadAttachment({ mailboxId: "x", filename: "x", mediaType: "x", content: new Uint8Array(1), contentBase64: "AA==" })
mailroom.sendMessage({ fromMailboxId, to: [], html: "", cc: undefined, text: null }, { idempotencyKey: undefined, signal: undefined })
mailroom.events.pages({ cursor: undefined, limit: 5 })
mailroom.events.pages({ cursor: null })
mailroom.listMessages({ cursor: null, mailboxId: undefined })
mailroom.listEvents({ cursor: null })
// @ts-expect-error no mailbox is not all mailboxes
mailroom.listMessages({ mailboxId: null })
// @ts-expect-error deliveries have no pages
mailroom.listWebhookDeliveries({ cursor: null })

export const describe = (event: Event | WebhookPayload): string => {
  switch (event.type) {
    case "message.bounced":
      return event.data.recipient + event.data.bounce.class
    case "domain.health_changed":
      return event.data.reasons.map(({ record }) => record).join()
    case "message.queued":
      return event.data.to.join()
    default: {
      // @ts-expect-error of a type that is not known, nothing is known
      event.data.recipient
      return event.type
    }
  }
}

export const judge = (error: unknown): number | string | undefined => {
  if (isCode(error, "rate_limited")) return error.details.retryAfterSeconds
  if (isCode(error, "not_found")) return error.details.field
  // @ts-expect-error no such code
  isCode(error, "rate_limit")
  return undefined
}

export const later = async (request: Request): Promise<string> => {
  const event = await verifyWebhook({ secret: ["whsec_a"], headers: request.headers, body: await request.arrayBuffer() })
  const { status } = await mailroom.sendMessage({ fromMailboxId, to: ["a@b.example"], text: "x" })
  const literal: "queued" = status
  const { message } = await mailroom.messages.retrieve("x")
  // A vocabulary that may grow is compared as such.
  const isDone: boolean = message.status === "delivered" || message.status === "something new"
  return event.id + literal + String(isDone)
}
`

describe("The client runs", () => {
  const content = Buffer.from(Uint8Array.from({ length: 70_001 }, (_, index) => index * 7))
  const seenKeys = new Set<unknown>()
  let server: Server.ScriptedServer
  let task: Task

  /** What is not here is not answered. */
  const steps: Readonly<Record<string, Server.Step>> = {
    "POST /v1/messages": (response, request) => {
      const key = request.headers["idempotency-key"]
      const step = seenKeys.has(key)
        ? Server.answer(202, { id, object: "message", status: "queued" }, { "idempotent-replayed": "true" })
        : Server.refuse(503, "unavailable", {}, { "retry-after": "0" })
      seenKeys.add(key)
      step(response, request)
    },
    "POST /v1/attachments": (response, request) => {
      const file = JSON.parse(request.body) as { contentBase64: string; filename: string } // as the program sends it
      const isWhole = Buffer.from(file.contentBase64, "base64").equals(content)
      Server.answer(201, { attachment: { filename: file.filename, isWhole } })(response, request)
    },
    [`GET /v1/attachments/${id}/download`]: Server.answer(200, {
      filename: "b.bin",
      mediaType: "a/b",
      contentBase64: content.toString("base64")
    }),
    "GET /v1/events": Server.answer(200, { items: [{ type: "message.queued" }], nextCursor: "next" }),
    "GET /v1/events?cursor=next": Server.answer(200, { items: [{ type: "message.sent" }], nextCursor: null }),
    [`GET /v1/messages/${id}`]: Server.refuse(404, "not_found", { field: apiKey }),
    "GET /v1/mailboxes": Server.answer(400, "<h1>Bad Request</h1>"),
    "GET /v1/domains": Server.answer(302, "", { location: "/v1/events" }),
    "GET /hangs-up/v1/domains": Server.hangUp
  }

  beforeAll(async () => {
    server = await Server.start()
    server.play((response, request) => steps[`${request.method} ${request.url}`]?.(response, request))
    const secret = "whsec_ключ"
    const event = JSON.stringify({
      id,
      type: "mailbox.renamed",
      apiVersion: "2026-12-01",
      occurredAt: "2026-12-01T09:30:00.000Z",
      data: { name: "🚀" }
    })
    const mac = createHmac("sha256", secret).update(`${id}.1796117400.${event}`).digest("hex")
    const headers = {
      "Service-Webhook-Id": id,
      "Service-Webhook-Timestamp": "1796117400",
      "Service-Webhook-Signature": `v1=${mac}`
    }
    task = {
      baseUrl: server.baseUrl,
      apiKey,
      webhook: { secret, headers, body: event, nowMs: 1_796_117_400_000 }
    }
  })
  afterAll(() => server.close())

  const expected = {
    sent: { id, object: "message", status: "queued", replayed: true },
    uploaded: { filename: "a.bin", isWhole: true },
    downloaded: ["b.bin", content.length, content.reduce((sum, byte) => sum + byte, 0)],
    events: ["message.queued", "next", "message.sent", "next"],
    refused: ["not_found", "svc_…", Server.requestId, "What to do about not_found.", "MailroomError"],
    proxy: [400, "unknown"],
    redirected: [302, "unknown"],
    late: ["timeout", 1, true, "MailroomConnectionError"],
    aborted: "AbortError",
    broken: ["network", 1, true, "MailroomConnectionError"],
    event: [id, "mailbox.renamed", { name: "🚀" }],
    mismatch: "signature_mismatch",
    old: "timestamp_out_of_tolerance"
  }

  const bun = () => {
    const vendor = join(root, "node_modules", "@oven") // the launcher that npm would put into .bin is not installed
    return join(vendor, readdirSync(vendor)[0]!, "bin", "bun")
  }
  const runtimes: ReadonlyArray<readonly [name: string, hasWorkers: boolean, command: () => ReadonlyArray<string>]> = [
    ["Node", false, () => [process.execPath]],
    [
      "Deno, allowed nothing but the network",
      true,
      () => [
        join(binaries, "deno"),
        "run",
        "--no-prompt",
        "--allow-net=127.0.0.1",
        `--allow-read=${folder},${import.meta.dirname}`
      ]
    ],
    ["Bun", true, () => [bun(), "run"]]
  ]
  const forms = [
    ["built", (name: string) => join(built, "fixtures", `${name}.js`)],
    ["as source", (name: string) => source(`fixtures/${name}.ts`)]
  ] as const

  for (const [name, hasWorkers, command] of runtimes) {
    for (const [form, locate] of forms) {
      it(`in ${name}, ${form}${hasWorkers ? ", and in a web worker there" : ""}`, { timeout: 60_000 }, async () => {
        const starter = join(folder, `${name.slice(0, 4)}-${form.slice(0, 2)}.js`)
        writeFileSync(
          starter,
          `import { connect, run } from ${JSON.stringify(pathToFileURL(locate("program")).href)}
const task = ${JSON.stringify(task)}
const mailroom = connect(task)
console.error("shown", mailroom, await mailroom.getMessage(${JSON.stringify(id)}).catch((error) => error))
const outcomes = { main: await run(task) }
if (${hasWorkers}) {
  const worker = new Worker(${JSON.stringify(pathToFileURL(locate("worker")).href)}, { type: "module" })
  outcomes.worker = await new Promise((resolve, reject) => {
    worker.onmessage = (message) => resolve(message.data)
    worker.onerror = (event) => reject(new Error(event.message))
    worker.postMessage(task)
  })
  worker.terminate()
}
console.log(JSON.stringify(outcomes))
`
        )
        const [file, ...args] = command()

        const { exit, stdout, stderr } = await execute(file!, ...args, starter)

        assert.strictEqual(exit, 0, stderr)
        assert.deepStrictEqual(
          JSON.parse(stdout),
          hasWorkers ? { main: expected, worker: expected } : { main: expected }
        )
        assert.include(stderr, "shown")
        assert.notInclude(stderr, apiKey)
      })
    }
  }
})
