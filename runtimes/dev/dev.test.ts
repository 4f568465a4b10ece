/** `dev` as a person meets it: a real process, its folder, its output, the commands of the README. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Redacted, Scope } from "effect"
import { spawn, spawnSync, type ChildProcess } from "node:child_process"
import { cpSync, mkdtempSync, readFileSync, rmSync, statSync, existsSync, writeFileSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, afterEach, beforeAll } from "vitest"
import * as TestDatabase from "../../adapters/postgres/TestDatabase.ts"
import type { DevFile } from "./DataFolder.ts"

const root = join(import.meta.dirname, "../..")
const cli = join(root, "runtimes/cli/main.ts")

interface Running {
  readonly child: ChildProcess
  readonly folder: string
  readonly devFile: DevFile
  readonly output: () => string
  readonly errors: () => string
  readonly ended: Promise<number | null>
}

const cleanUps: Array<() => void> = []
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) cleanUp()
})

const freshFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "mailroom-dev-"))
  cleanUps.push(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** What the test's own environment says of settings is not for these processes. */
const clean = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !name.startsWith("MAILROOM_") && name !== "DATABASE_URL")
)

/** Starts `mailroom dev` and waits until it says that it listens. */
const start = async (folder = freshFolder(), variables: Readonly<Record<string, string>> = {}, flags: ReadonlyArray<string> = []): Promise<Running> => {
  const child = spawn(process.execPath, [cli, "dev", "--data", folder, "--port", "0", ...flags], {
    env: { ...clean, ...variables },
    stdio: ["ignore", "pipe", "pipe"]
  })
  cleanUps.push(() => child.kill("SIGKILL"))
  const [output, errors]: [Array<string>, Array<string>] = [[], []]
  child.stderr.on("data", (chunk: Buffer) => errors.push(chunk.toString()))
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve))
  await new Promise<void>((resolve, reject) => {
    child.stdout.on("data", (chunk: Buffer) => {
      output.push(chunk.toString())
      if (output.join("").includes("line by line")) resolve()
    })
    void ended.then(() => reject(new Error(`ended before it listened: ${errors.join("")}`)))
  })
  const devFile: DevFile = JSON.parse(readFileSync(join(folder, "dev.json"), "utf8"))
  return { child, folder, devFile, output: () => output.join(""), errors: () => errors.join(""), ended }
}

/** A folder in which there is a database already: to make one takes seconds. */
const madeFolder = (): string => {
  const folder = freshFolder()
  cpSync(template, folder, { recursive: true })
  return folder
}
const template = mkdtempSync(join(tmpdir(), "mailroom-dev-template-"))
afterAll(() => rmSync(template, { recursive: true, force: true }))

/** For what is the same over any database: this one is made at once. */
const fleeting = (folder = freshFolder()) => start(folder, {}, ["--memory"])

/** Runs a command to its end; for starts that must fail. */
const fail = (parameters: ReadonlyArray<string>, variables: Readonly<Record<string, string>> = {}) => {
  const { status, stderr } = spawnSync(process.execPath, [cli, ...parameters], {
    env: { ...clean, ...variables },
    encoding: "utf8"
  })
  return { status, lines: stderr.trim().split("\n") }
}

const stop = async ({ child, ended }: Running): Promise<number | null> => {
  child.kill("SIGTERM")
  return ended
}

const bash = (script: string, cwd: string) => spawnSync("bash", ["--norc", "-euo", "pipefail", "-c", script], { cwd, encoding: "utf8" })

const eventually = async <A>(what: string, look: () => Promise<A | undefined> | A | undefined): Promise<A> => {
  for (const end = Date.now() + 20_000; Date.now() < end; ) {
    const found = await look()
    if (found !== undefined) return found
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  throw new Error(`it never came to ${what}`)
}

const api = async (running: Running, path: string, init: RequestInit = {}) => {
  const headers = { authorization: `Bearer ${running.devFile.apiKey}`, "content-type": "application/json", ...init.headers }
  const response = await fetch(`${running.devFile.baseUrl}${path}`, { ...init, headers })
  return { status: response.status, body: await response.json() }
}

describe("mailroom dev", () => {
  beforeAll(async () => {
    const first = await start(template)
    assert.strictEqual(await stop(first), 0)
    cleanUps.splice(0)
  }, 120_000)

  it("prints a curl that works when pasted, and the way of its message", async () => {
    const running = await fleeting()
    const curl = /^curl [\s\S]*?\}'$/m.exec(running.output())?.[0]
    assert.isDefined(curl)

    const { stdout, stderr } = bash(curl!, running.folder)

    assert.strictEqual(stderr, "")
    const { id, status } = JSON.parse(stdout)
    assert.strictEqual(status, "queued")
    await eventually("a delivered line", () => (/message\.delivered/.test(running.output()) ? true : undefined))
    const lines = running.output().split("\n").filter((line) => line.includes(id))
    assert.deepStrictEqual(
      lines.map((line) => line.split(/ +/)[1]),
      ["message.queued", "message.sent", "message.delivered"]
    )
  })

  it("prints a mail that comes in when pasted, and shows it in the sandbox", async () => {
    const running = await fleeting()
    const mail = /^printf 'From: [\s\S]*? -T -$/m.exec(running.output())?.[0]
    assert.isDefined(mail)

    const { stderr } = bash(mail!, running.folder)

    assert.strictEqual(stderr, "")
    await eventually("a line", () => (/message\.received/.test(running.output()) ? true : undefined))
    const { baseUrl, apiKey, mailboxes } = running.devFile
    const { items } = (await (await fetch(`${baseUrl}/v1/messages`, { headers: { authorization: `Bearer ${apiKey}` } })).json()) as {
      readonly items: ReadonlyArray<Record<string, unknown>> // the contract says so
    }
    const [received] = items.filter(({ direction }) => direction === "inbound")
    assert.deepStrictEqual([received?.["mailboxId"], received?.["subject"], received?.["snippet"]], [mailboxes[0]?.id, "Hello", "It comes in."])
    const metrics = await (await fetch(`${baseUrl}/metrics`)).text()
    assert.match(metrics, /^mailroom_inbound_messages_total\{outcome="taken"\} 1(\.0+)?$/m)
  })

  it("writes what one needs to call it, for its owner only", async () => {
    const { devFile, folder, output } = await start(madeFolder())

    assert.match(devFile.baseUrl, /^http:\/\/127\.0\.0\.1:\d+$/)
    assert.strictEqual(devFile.docsUrl, `${devFile.baseUrl}/docs`)
    assert.strictEqual(devFile.smtp?.host, "127.0.0.1")
    assert.isAtLeast(devFile.smtp?.port ?? 0, 1)
    assert.match(devFile.apiKey, /^svc_test_[0-9A-Za-z]{50}$/)
    assert.isAtLeast(devFile.mailboxes.length, 1)
    assert.strictEqual(statSync(join(folder, "dev.json")).mode & 0o777, 0o600)
    assert.strictEqual(statSync(join(folder, "keys.json")).mode & 0o777, 0o600)
    for (const shown of [devFile.baseUrl, devFile.docsUrl, devFile.apiKey, devFile.mailboxes[0]!.id]) assert.include(output(), shown)
    assert.include(output(), `All of it is kept in ${folder}`)
  })

  const send = async (running: Running, name: string, more: object = {}) => {
    const { status, body } = await api(running, "/v1/messages", {
      method: "POST",
      headers: { "idempotency-key": `message-${name}` },
      body: JSON.stringify({ fromMailboxId: running.devFile.mailboxes[0]!.id, to: ["a@example.com"], text: "x", ...more })
    })
    assert.strictEqual(status, 202, JSON.stringify(body))
    return { id: body.id as string } // as the contract has it
  }

  const settled = (running: Running, id: string) =>
    eventually("its end", async () => {
      const { body } = await api(running, `/v1/messages/${id}`)
      return body.message.status === "delivered" ? body.message : undefined
    })

  const typesOf = async (running: Running, id: string) => {
    const { body } = await api(running, "/v1/events?limit=100")
    const items = body.items as ReadonlyArray<{ readonly type: string; readonly resourceId: string }> // as the contract has it
    return items.filter((item) => item.resourceId === id).map(({ type }) => type)
  }

  const sameButWhere = (one: DevFile, other: DevFile) => {
    const nowhere = { baseUrl: "", docsUrl: "", smtp: null }
    assert.deepStrictEqual({ ...one, ...nowhere }, { ...other, ...nowhere })
  }

  it("keeps all of it over a restart: tenant, key, mailboxes, messages, attachments", { timeout: 120_000 }, async () => {
    const first = await start(madeFolder())
    const upload = await api(first, "/v1/attachments", {
      method: "POST",
      body: JSON.stringify({ mailboxId: first.devFile.mailboxes[0]!.id, filename: "a.txt", mediaType: "text/plain", contentBase64: "QQ==" })
    })
    const sent = await send(first, "restart", { attachmentIds: [upload.body.attachment.id] })
    const message = await settled(first, sent.id)
    assert.strictEqual(await stop(first), 0)

    const second = await start(first.folder)

    sameButWhere(second.devFile, first.devFile)
    assert.deepStrictEqual(await settled(second, message.id), message)
    const { status, body } = await api(second, `/v1/attachments/${upload.body.attachment.id}/download`)
    assert.deepStrictEqual([status, body.contentBase64], [200, "QQ=="])
    assert.deepStrictEqual(await typesOf(second, message.id), ["message.queued", "message.sent", "message.delivered"])
    assert.notInclude(second.output(), message.id, "what was before is not told again")
  })

  it("completes each send once that it was killed in", { timeout: 120_000 }, async () => {
    let running = await start(madeFolder())
    const sent: Array<string> = []
    for (let round = 0; round < 2; round++) {
      const accepted = await Promise.all(Array.from({ length: 10 }, (_, index) => send(running, `killed-${round}-${index}`)))
      sent.push(...accepted.map(({ id }) => id))
      running.child.kill("SIGKILL")
      await running.ended
      running = await start(running.folder)
    }

    for (const id of sent) await settled(running, id)
    for (const id of sent) assert.deepStrictEqual(await typesOf(running, id), ["message.queued", "message.sent", "message.delivered"])
  })

  it("finds what it has made when dev.json is gone, and gives out a new key", { timeout: 120_000 }, async () => {
    const first = await start(madeFolder())
    const { id } = await send(first, "lost-1")
    await stop(first)
    rmSync(join(first.folder, "dev.json"))

    const second = await start(first.folder)

    const { apiKey: _, ...rest } = second.devFile
    sameButWhere({ ...rest, apiKey: first.devFile.apiKey }, first.devFile)
    assert.notStrictEqual(second.devFile.apiKey, first.devFile.apiKey)
    await settled(second, id)
  })

  it("keeps ids and key when the database is gone", { timeout: 120_000 }, async () => {
    const first = await start(madeFolder())
    await stop(first)
    rmSync(join(first.folder, "database"), { recursive: true })

    const second = await start(first.folder)

    sameButWhere(second.devFile, first.devFile)
    await send(second, "anew")
  })

  it("forgets all mail with --memory, and leaves what a run without it keeps", { timeout: 120_000 }, async () => {
    const kept = await start(madeFolder())
    const { id } = await send(kept, "kept-1")
    await settled(kept, id)
    await stop(kept)

    const memory = await fleeting(kept.folder)
    sameButWhere(memory.devFile, kept.devFile)
    assert.include(memory.output(), "gone when this stops")
    assert.deepStrictEqual((await api(memory, "/v1/messages")).body.items, [])
    await send(memory, "thrown")
    await stop(memory)

    const again = await start(kept.folder)
    const { items } = (await api(again, "/v1/messages")).body
    assert.deepStrictEqual(items.map((item: { readonly id: string }) => item.id), [id])
  })

  it("works on a database that is named, which it migrates, and says where that is", { timeout: 120_000 }, async () => {
    const scope = Scope.makeUnsafe()
    try {
      const url = Redacted.value(await Effect.runPromise(Scope.provide(TestDatabase.url("empty"), scope)))
      const first = await start(freshFolder(), { DATABASE_URL: url })
      const { id } = await send(first, "named-1")
      await settled(first, id)
      assert.match(first.output(), /Mail is kept in the database at \S+:5432\/test_/)
      assert.isFalse(existsSync(join(first.folder, "database")))
      await stop(first)

      const elsewhere = await start(freshFolder(), { MAILROOM_DATABASE_URL: url })

      assert.strictEqual(elsewhere.devFile.tenantId, first.devFile.tenantId)
      await settled(elsewhere, id)
      await stop(elsewhere)
    } finally {
      await Effect.runPromise(Scope.close(scope, Exit.void))
    }
  })

  it("is in a folder alone, and takes over the lock of a process that is gone", { timeout: 120_000 }, async () => {
    const running = await fleeting()

    const { status, lines } = fail(["dev", "--data", running.folder, "--port", "0"])

    assert.strictEqual(status, 1)
    assert.lengthOf(lines, 1)
    assert.match(lines[0]!, /is in use by process \d+; stop it, or choose another with --data DIR$/)
    running.child.kill("SIGKILL")
    await running.ended
    assert.isTrue(existsSync(join(running.folder, "lock")), "a killed process leaves its lock")
    const heir = await fleeting(running.folder)
    assert.strictEqual(heir.devFile.apiKey, running.devFile.apiKey)
  })

  it("has one owner of a folder, however many start at once", { timeout: 120_000 }, async () => {
    const folder = freshFolder()
    const starts = [1, 2, 3].map(() => fleeting(folder))

    const settled = await Promise.allSettled(starts)

    const refused = settled.flatMap((one) => (one.status === "rejected" ? [String(one.reason)] : []))
    assert.lengthOf(refused, 2)
    for (const reason of refused) assert.match(reason, /is in use by process \d+/)
  })

  it("goes on when nobody reads its output any more", async () => {
    const running = await fleeting()
    running.child.stdout!.destroy()

    for (let sends = 0; sends < 3; sends++) {
      const { status } = await api(running, "/v1/messages", {
        method: "POST",
        headers: { "idempotency-key": `closed-${sends}` },
        body: JSON.stringify({ fromMailboxId: running.devFile.mailboxes[0]!.id, to: ["a@example.com"], text: "x" })
      })
      assert.strictEqual(status, 202)
      await eventually("a delivery", async () => {
        const { body } = await api(running, "/v1/messages")
        return body.items.every((item: { readonly status: string }) => item.status === "delivered") ? true : undefined
      })
    }
    assert.isNull(running.child.exitCode)
  })

  it("says in one line that its port is taken", async () => {
    const blocker = createServer().listen(0, "127.0.0.1")
    await new Promise((resolve) => blocker.once("listening", resolve))
    cleanUps.push(() => blocker.close())
    const address = blocker.address()
    const port = address !== null && typeof address === "object" ? address.port : 0

    const { status, lines } = fail(["dev", "--memory", "--data", freshFolder(), "--port", String(port)])

    assert.strictEqual(status, 1)
    assert.deepStrictEqual(lines, [
      `mailroom: port ${port} of 127.0.0.1 is in use, perhaps by another Mailroom; stop it, or choose another with --port N`
    ])
  })

  it("names every fault of the configuration at once, with what each setting wants", () => {
    const { status, lines } = fail(["dev", "--data", freshFolder(), "--port", "70000"], {
      MAILROOM_HOST: "nowhere",
      MAILROOM_IP_REQUESTS_PER_MINUTE: "many",
      MAILROOM_PROT: "80"
    })

    assert.strictEqual(status, 2)
    assert.deepStrictEqual(lines.toSorted(), [
      'mailroom: --port is "70000"; it wants a port from 0 to 65535 (0: any free one)',
      'mailroom: MAILROOM_HOST is "nowhere"; it wants an IP address to listen on',
      'mailroom: MAILROOM_IP_REQUESTS_PER_MINUTE is "many"; it wants a whole number from 1 to 1000000',
      "mailroom: MAILROOM_PROT is no setting of Mailroom; see docs/configuration.md"
    ])
  })

  it("is not for production", () => {
    const { status, lines } = fail(["dev", "--data", freshFolder(), "--port", "0"], { MAILROOM_MODE: "production" })

    assert.strictEqual(status, 2)
    assert.deepStrictEqual(lines, ['mailroom: MAILROOM_MODE is "production"; `dev` wants `development`'])
  })

  it("says which file is damaged", () => {
    const folder = freshFolder()
    writeFileSync(join(folder, "dev.json"), "{")

    const { status, lines } = fail(["dev", "--data", folder, "--port", "0"])

    assert.strictEqual(status, 1)
    assert.deepStrictEqual(lines, [`mailroom: ${join(folder, "dev.json")} is damaged; remove it to start anew`])
  })

  it("finishes a request in flight at SIGTERM, ends with 0, and leaves no lock behind", async () => {
    const running = await fleeting()
    const { baseUrl, apiKey, mailboxes } = running.devFile
    let release: () => void = () => {}
    const held = new Promise<void>((resolve) => (release = resolve))
    const body = `{"mailboxId":"${mailboxes[0]!.id}","filename":"a.txt","mediaType":"text/plain","contentBase64":"QQ=="}`
    const slow = fetch(`${baseUrl}/v1/attachments`, {
      method: "POST",
      headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
      body: new ReadableStream({
        async start(controller) {
          controller.enqueue(new TextEncoder().encode(body.slice(0, 30)))
          await held
          controller.enqueue(new TextEncoder().encode(body.slice(30)))
          controller.close()
        }
      }),
      duplex: "half"
    } as RequestInit) // `duplex` is wanted for streams, and not in the type
    await eventually("a request under way", async () => ((await fetch(`${baseUrl}/healthz`)).ok ? true : undefined))

    running.child.kill("SIGTERM")
    await eventually("refusing new connections", () => fetch(`${baseUrl}/healthz`).then(() => undefined, () => true))
    release()

    assert.strictEqual((await slow).status, 201)
    assert.strictEqual(await running.ended, 0)
    assert.isFalse(existsSync(join(running.folder, "lock")))
  })

  it("logs JSON lines with request id, tenant and operation, and never a key", async () => {
    const running = await fleeting()
    await api(running, "/v1/mailboxes?api_key=svc_live_secret")
    await api(running, "/v1/messages?limit=0")
    await stop(running)

    const lines = running.errors().trim().split("\n").map((line) => JSON.parse(line))

    const annotations = lines.filter(({ message }) => message === "request").map((line) => line.annotations)
    assert.deepStrictEqual(
      annotations.map(({ operation, status, tenantId }) => [operation, status, tenantId]),
      [
        ["listMailboxes", 200, running.devFile.tenantId],
        ["listMessages", 400, running.devFile.tenantId]
      ]
    )
    assert.isTrue(annotations.every(({ requestId }) => /^[0-9a-f-]{36}$/.test(requestId)))
    assert.notInclude(running.errors(), "svc_")
  })
})

describe("the README", () => {
  const readme = readFileSync(join(root, "README.md"), "utf8")
  const blocks = [...readme.matchAll(/```sh\n([\s\S]*?)```/g)].map((match) => match[1]!)

  it("shows a first send that works, command by command", async () => {
    const running = await fleeting()
    const byHand = blocks.find((block) => block.includes("BASE="))!
    assert.isDefined(byHand)

    const { status, stdout, stderr } = bash(byHand.replaceAll("./.mailroom/", `${running.folder}/`), root)

    assert.strictEqual(status, 0, stderr)
    assert.include(stdout, '"status":"queued"')
    assert.include(stdout, '"message.queued"')
  })

  it("shows a first message that comes in, command by command", async () => {
    const running = await fleeting()
    const [named, received] = ["BASE=", "MAIL="].map((start) => blocks.find((block) => block.includes(start))!.replaceAll("./.mailroom/", `${running.folder}/`))

    const { status, stdout, stderr } = bash(named!.split("\n\n")[0] + "\n" + received!, root)

    assert.strictEqual(status, 0, stderr)
    assert.include(stdout, '"direction":"inbound"')
    assert.include(stdout, '"subject":"Note G"')
  })

  it("names only npm scripts that there are", () => {
    const scripts: Record<string, string> = JSON.parse(readFileSync(join(root, "package.json"), "utf8")).scripts
    const named = [...readme.matchAll(/npm (?:run (?:--silent )?)([a-z]+)/g)].map((match) => match[1]!)

    assert.isAtLeast(named.length, 4)
    for (const name of named) assert.property(scripts, name)
  })

  it("runs the example of a first send, and of catching up with events", async () => {
    const running = await fleeting()
    const example = (name: string, ...parameters: ReadonlyArray<string>) =>
      spawnSync(process.execPath, [join(root, "examples/run.ts"), name, join(running.folder, "dev.json"), ...parameters], {
        cwd: root,
        encoding: "utf8"
      })

    const sent = example("first-send")
    assert.strictEqual(sent.stderr, "")
    const words = sent.stdout.trim().split("\n").map((line) => line.trim().split(/ +/)[0])
    assert.deepStrictEqual(
      words.filter((word) => word !== "sent"), // it may be delivered before one looks
      ["202", "delivered", "events", "message.queued", "message.sent", "message.delivered"]
    )

    const state = join(running.folder, "reconciled.json")
    const first = example("reconcile-with-events", state)
    const second = example("reconcile-with-events", state)
    assert.match(first.stdout, /message\.delivered/)
    assert.match(first.stdout, /^6 new events$/m)
    assert.match(second.stdout, /^0 new events$/m)

    assert.strictEqual(example("nothing-of-ours").status, 2)
    const nowhere = spawnSync(process.execPath, [join(root, "examples/run.ts"), "first-send", join(running.folder, "none.json")], {
      encoding: "utf8"
    })
    assert.deepStrictEqual([nowhere.status, nowhere.stderr.split("\n").length], [1, 2])
    assert.match(nowhere.stderr, /^There is no dev\.json there\. Start `npm run dev` first/)
  })
})
