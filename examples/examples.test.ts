/** Each example is run as a person runs it, and says what it says it says. */
import { assert, describe, it } from "@effect/vitest"
import { spawn, spawnSync, type ChildProcess } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { SMTPServer } from "smtp-server"
import type { AddressInfo } from "node:net"
import { text as textOf } from "node:stream/consumers"
import { afterEach } from "vitest"

const root = join(import.meta.dirname, "..")
const example = (...parameters: ReadonlyArray<string>) => ["--conditions=mailroom-source", join(root, "examples/run.ts"), ...parameters]

const cleanUps: Array<() => unknown> = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp()
})

const run = (parameters: ReadonlyArray<string>, variables: Readonly<Record<string, string>> = {}): Promise<string> => {
  const child = spawn(process.execPath, example(...parameters), {
    cwd: root,
    env: { ...process.env, ...variables },
    stdio: ["ignore", "pipe", "inherit"]
  })
  cleanUps.push(() => child.kill("SIGKILL"))
  return textOf(child.stdout)
}

/** Variables of a process in which these packages are not installed. */
const without = (...packages: ReadonlyArray<string>): Readonly<Record<string, string>> => {
  const hooks = `import { registerHooks } from "node:module"
    registerHooks({ resolve: (name, context, next) => {
      if (!${JSON.stringify(packages)}.some((one) => name === one || name.startsWith(one + "/"))) return next(name, context)
      throw Object.assign(new Error("Cannot find package '" + name + "'"), { code: "ERR_MODULE_NOT_FOUND" })
    } })`
  return { NODE_OPTIONS: `--import data:text/javascript;base64,${btoa(hooks)}` }
}

/** What a process says until it says this. */
const until = (child: ChildProcess, pattern: RegExp): Promise<string> =>
  new Promise((resolve, reject) => {
    let output = ""
    child.stdout?.on("data", (chunk: Buffer) => {
      output += chunk.toString()
      if (pattern.test(output)) resolve(output)
    })
    child.on("exit", () => reject(new Error(`it ended before ${pattern}: ${output}`)))
  })

const start = (parameters: ReadonlyArray<string>): ChildProcess => {
  const child = spawn(process.execPath, [...parameters], { cwd: root, stdio: ["ignore", "pipe", "ignore"] })
  cleanUps.push(() => child.kill("SIGKILL"))
  return child
}

describe("the examples", () => {
  it("are all run by the tests, here or beside dev", () => {
    const names = readdirSync(import.meta.dirname).filter((file) => file.endsWith(".ts") && !/^run\.ts$|\.test\.ts$/.test(file))
    const tests = ["examples/examples.test.ts", "runtimes/dev/dev.test.ts"].map((file) => readFileSync(join(root, file), "utf8")).join()

    assert.deepStrictEqual(names.filter((file) => !tests.includes(`"${file.slice(0, -".ts".length)}"`)), [])
  })

  // `npm run check` does so with DOM, which has a Response of its own.
  it("type-check in a strict project without DOM, as one for Node alone is", { timeout: 120_000 }, () => {
    const tsc = join(root, "node_modules/.bin/tsc")
    const { status, stdout } = spawnSync(tsc, ["--project", "tsconfig.examples.json"], { cwd: root, encoding: "utf8" })

    assert.deepStrictEqual([stdout, status], ["", 0])
  })

  it("embed with Promises: a send is queued and delivered, and mail comes in", async () => {
    assert.strictEqual(await run(["embed-with-promises"]), "queued\ndelivered to delivered@example.com\nreceived: Note G\n")
  })

  it("embed with Promises: the same where the packages of the server are not installed", async () => {
    const printed = await run(["embed-with-promises"], without("yaml", "@effect/platform-node"))

    assert.strictEqual(printed, "queued\ndelivered to delivered@example.com\nreceived: Note G\n")
  })

  it("embed over PostgreSQL: the same, and it ends", async () => {
    const printed = await run(["embed-over-postgres"], { ...without("yaml", "@effect/platform-node", "ioredis"), DATABASE_URL: "" })

    assert.strictEqual(printed, "queued\ndelivered to delivered@example.com\nclosed\n")
  }, 60_000) // a database comes up, and beside other tests that takes its time

  it("embed with Effect: the same", async () => {
    assert.strictEqual(await run(["embed-with-effect"]), "queued\ndelivered to delivered@example.com\n")
  })

  it("end without a word when nobody reads what they print", async () => {
    const child = spawn(process.execPath, example("embed-with-promises"), { cwd: root, stdio: ["ignore", "pipe", "pipe"] })
    cleanUps.push(() => child.kill("SIGKILL"))
    child.stdout.destroy()
    const [errors] = await Promise.all([textOf(child.stderr), once(child, "exit")])

    assert.deepStrictEqual([errors, child.exitCode], ["", 0])
  })

  it("mount the handler beside a host's own route", async () => {
    const [own, alive, refused] = (await run(["mount-fetch-handler"])).trim().split("\n")

    assert.deepStrictEqual([own, alive], ["200 The host's own route", '200 {"status":"alive"}'])
    assert.match(refused!, /^401 \{"code":"unauthorized",/)
  })

  it("give an answer up with the caller who goes away in the middle of it", async () => {
    const [mounted] = readFileSync(join(root, "examples/mount-fetch-handler.ts"), "utf8").split("for (const path of")
    const program = `${mounted}
      const endless = { pull: (stream) => stream.enqueue(new Uint8Array(65_536)), cancel: () => console.log("given up") }
      mailroom.fetch = async () => new Response(new ReadableStream(endless))
      const response = await fetch(\`http://127.0.0.1:\${port}/\`)
      await response.body.cancel()
      // And with one who has gone before it comes.
      const gone = new AbortController()
      server.once("connection", (socket) => {
        mailroom.fetch = () => new Promise((resolve) => {
          socket.once("close", () => setImmediate(resolve, new Response(new ReadableStream(endless))))
          gone.abort()
        })
      })
      await fetch(\`http://127.0.0.1:\${port}/\`, { signal: gone.signal, headers: { connection: "close" } }).catch(() => {})`
    const child = start(["--conditions=mailroom-source", "--input-type=module-typescript", "--eval", program])

    assert.strictEqual(await until(child, /given up\ngiven up/), "given up\ngiven up\n")
  })

  it("answer who sends a large body whole before it looks, though the body was given up, and go on", async () => {
    const [mounted] = readFileSync(join(root, "examples/mount-fetch-handler.ts"), "utf8").split("for (const path of")
    const program = `${mounted}
      import { connect } from "node:net"
      mailroom.fetch = async ({ body }) => {
        const reader = body.getReader()
        await reader.read()
        await reader.cancel()
        return new Response("given up", { status: 400 })
      }
      for (const size of [8_000_000, 70_000]) {
        const socket = connect(port, "127.0.0.1")
        socket.write(\`POST / HTTP/1.1\\r\\nHost: a.example\\r\\nContent-Length: \${size}\\r\\n\\r\\n\`)
        await new Promise((resolve, reject) => socket.on("error", reject).write(Buffer.alloc(size), resolve))
        const [answer] = await Array.fromAsync(socket.take(1))
        console.log(String(answer).split("\\r\\n")[0])
        socket.destroy()
      }
      server.close()`
    const child = spawn(process.execPath, ["--conditions=mailroom-source", "--input-type=module-typescript", "--eval", program], {
      cwd: root,
      stdio: ["ignore", "pipe", "inherit"]
    })
    cleanUps.push(() => child.kill("SIGKILL"))

    const printed = await until(child, /(.+\n){2}/)

    assert.strictEqual(printed, "HTTP/1.1 400 Bad Request\nHTTP/1.1 400 Bad Request\n")
  })

  it("prove an adapter: the run says which law the flaw breaks, and by which check", () => {
    const name = "prove-adapter"
    const command = ["--conditions=mailroom-source", join(root, "runtimes/cli/main.ts"), "conformance", "--adapters"]
    const { status, stdout } = spawnSync(process.execPath, [...command, join(root, `examples/${name}.ts`)], { encoding: "utf8" })

    assert.strictEqual(status, 1)
    assert.include(stdout, "FAILED  a queue without a fence breaks a law of JobQueue:\n        refuses a lost lease, and lets it change nothing\n")
    assert.notInclude(stdout, "the memory queue breaks")
    assert.match(stdout, /\n\d+ passed, 6 failed, in /)
  })

  it("prove adapters among tests: each law is one, by the lines that ADDING.md shows", { timeout: 60_000 }, () => {
    const name = "prove-in-tests"
    const file = join(root, `examples/${name}.ts`)
    const { NODE_TEST_CONTEXT: _, ...env } = process.env
    const { status, stdout } = spawnSync(process.execPath, ["--conditions=mailroom-source", "--test", file], { encoding: "utf8", env })

    assert.strictEqual(status, 0, stdout)
    assert.match(stdout, /my queue, JobQueue: stops waiting when a throttle is lifted/)
    assert.match(stdout, /a set with my queue, send to every outcome: /)
    const shown = /^ *const proofs = [^]*?(?=^ *```)/m.exec(readFileSync(join(root, "adapters/ADDING.md"), "utf8"))?.[0].replace(/^ {3}/gm, "").trim()
    assert.include(readFileSync(file, "utf8"), shown ?? "no lines are shown")
  })

  it("swap the provider: a printing one gets the envelope and the bytes", async () => {
    const printed = await run(["swap-provider"])

    assert.include(printed, "MAIL FROM:<ada@mail.example> RCPT TO:<charles@example.com>")
    assert.match(printed, /^Subject: Note G\r?$/m)
    assert.match(printed, /\nsent\n$/)
  })

  it("swap the provider: one that sends no SMTP needs no package for it", async () => {
    assert.match(await run(["swap-provider"], without("nodemailer")), /\nsent\n$/)
  })

  it("swap the provider: a mail server takes the same message", async () => {
    const got: Array<string> = []
    const server = new SMTPServer({
      disabledCommands: ["AUTH", "STARTTLS"],
      onData: (stream, _, done) => void textOf(stream).then((mail) => (got.push(mail), done()))
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    cleanUps.push(() => new Promise<void>((resolve) => server.close(resolve)))
    const { port } = server.server.address() as AddressInfo // it listens

    const printed = await run(["swap-provider"], { SMTP_HOST: "127.0.0.1", SMTP_PORT: String(port) })

    assert.strictEqual(printed, "sent\n")
    assert.lengthOf(got, 1)
    assert.match(got[0]!, /^Subject: Note G\r?$/m)
  })

  it("verify webhooks: the receiver registers itself and prints each event of a send once", { timeout: 60_000 }, async () => {
    const folder = mkdtempSync(join(tmpdir(), "mailroom-example-"))
    cleanUps.push(() => rmSync(folder, { recursive: true, force: true }))
    await until(start([join(root, "runtimes/cli/main.ts"), "dev", "--memory", "--data", folder, "--port", "0"]), /line by line/)
    const receiver = start(example("verify-webhook", join(folder, "dev.json")))
    await until(receiver, /^endpoint [0-9a-f-]{36} at http:/m)
    const arrived = until(receiver, /message\.delivered/)

    const sent = spawnSync(process.execPath, example("first-send", join(folder, "dev.json")), { cwd: root, encoding: "utf8" })
    const lines = (await arrived).trim().split("\n").map((line) => line.split(/ +/))

    const id = /^202 +queued +(\S+)/m.exec(sent.stdout)?.[1]
    assert.sameDeepMembers(lines, ["message.queued", "message.sent", "message.delivered"].map((type) => [type, id]))
  })
})
