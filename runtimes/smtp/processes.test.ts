/** `mailroom smtp` as an operator has it: real processes over the real command line, on one database. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Redacted, Result, Scope } from "effect"
import { spawn, type ChildProcess } from "node:child_process"
import { connect, type Socket } from "node:net"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import * as TestDatabase from "../../adapters/postgres/TestDatabase.ts"
import { Mailroom } from "../../client/index.ts"
import * as Address from "../../core/model/Address.ts"
import { Management } from "../../core/operations/Management.ts"
import * as Adapters from "../Adapters.ts"
import * as Config from "../Config.ts"
import { provision, type Provisioned } from "../dev/Provision.ts"

const cli = join(import.meta.dirname, "../cli/main.ts")

/** What the test's own environment says of settings is not for these processes. */
const clean = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !name.startsWith("MAILROOM_") && name !== "DATABASE_URL")
)

const scope = Scope.makeUnsafe()
const children = new Set<ChildProcess>()
afterAll(async () => {
  for (const child of children) child.kill("SIGKILL")
  await Effect.runPromise(Scope.close(scope, Exit.void))
}, 60_000)

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds))

/** Starts a verb, and waits for what it says of itself. */
const start = async (verb: "serve" | "smtp" | "worker", variables: Readonly<Record<string, string>>) => {
  const child = spawn(process.execPath, [cli, verb], { env: { ...clean, ...variables }, stdio: ["ignore", "ignore", "pipe"] })
  children.add(child)
  let errors = ""
  child.stderr.on("data", (chunk: Buffer) => (errors += chunk.toString()))
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve))
  for (const end = Date.now() + 90_000; !errors.includes(`${verb}: ready`); await pause(20)) {
    if (child.exitCode !== null || Date.now() > end) assert.fail(`${verb} is not ready: ${errors}`)
  }
  return { child, ended, port: Number(/"address":"[^"]*:(\d+)"/.exec(errors)?.[1]), errors: () => errors }
}

/** Waits for what processes bring about. */
const until = async <A>(what: string, look: () => A | null | Promise<A | null>): Promise<A> => {
  for (const end = Date.now() + 60_000; Date.now() < end; await pause(20)) {
    const seen = await look()
    if (seen !== null) return seen
  }
  return assert.fail(`there was no ${what}`)
}

/** The same numbers in each run. */
const seeded = (seed: number) => {
  let state = seed
  return (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

interface Heard {
  readonly socket: Socket
  readonly text: () => string
  readonly closed: Promise<void>
}

const talk = (port: number): Heard => {
  const socket = connect(port, "127.0.0.1")
  let heard = ""
  socket.on("data", (chunk: Buffer) => (heard += chunk.toString("latin1")))
  socket.on("error", () => {})
  return { socket, text: () => heard, closed: new Promise((resolve) => socket.once("close", () => resolve())) }
}

const took = ({ text }: Heard): boolean => text().includes("250 2.0.0 message taken\r\n")

describe("mailroom smtp", () => {
  let settings: Readonly<Record<string, string>>
  let tenancy: Provisioned
  let client: Mailroom
  let address: string

  beforeAll(async () => {
    const url = await Effect.runPromise(Scope.provide(TestDatabase.url(), scope))
    settings = {
      MAILROOM_DATABASE_URL: Redacted.value(url),
      MAILROOM_DATABASE_POOL: "4",
      MAILROOM_SEALING_KEYS: `1:${Buffer.alloc(32, 1).toString("base64")}`,
      MAILROOM_SCANNER: "eicar",
      MAILROOM_MODE: "development",
      MAILROOM_PORT: "0",
      MAILROOM_INBOUND_PORT: "0",
      MAILROOM_INBOUND_DMARC: "off",
      MAILROOM_INBOUND_HOSTNAME: "mx.processes.example"
    }
    const config = await Effect.runPromise(Config.load(settings, {}, ["database"]))
    const domain = Result.getOrThrow(Address.parseDomain("processes.example"))
    tenancy = await Effect.runPromise(
      Effect.provide(
        provision(null, { domain, withProduction: true }),
        Layer.provideMerge(Management.layer, Adapters.operator(config as Config.Deployment)) // the database is needed
      )
    )
    address = tenancy.mailboxes[0]!.address
    const serving = await start("serve", settings)
    client = new Mailroom({ baseUrl: `http://127.0.0.1:${serving.port}`, apiKey: tenancy.production!.apiKey, maxRetries: 0 })
  }, 180_000)

  const dialogue = (subject: string, recipient = address): string =>
    `EHLO client.example\r\nMAIL FROM:<ada@client.example>\r\nRCPT TO:<${recipient}>\r\nDATA\r\n` +
    `From: ada@client.example\r\nTo: ${address}\r\nSubject: ${subject}\r\n\r\nThe engine weaves.\r\n${"x".repeat(70)}\r\n.\r\n`

  /** How many messages there are, by subject. */
  const counted = async () => {
    const counts = new Map<string, number>()
    let cursor: string | null = null
    do {
      const page: Awaited<ReturnType<typeof client.listMessages>> = await client.listMessages({ limit: 100, ...(cursor === null ? {} : { cursor }) })
      for (const { subject } of page.items) counts.set(subject, (counts.get(subject) ?? 0) + 1)
      cursor = page.nextCursor
    } while (cursor !== null)
    return counts
  }

  it("has each message that it said 250 to, and no message twice but for a lost 250, killed at any byte", { timeout: 400_000 }, async () => {
    const below = seeded(20_26)
    const cases: Array<{ readonly subject: string; readonly isWhole: boolean; readonly isTaken: boolean }> = []
    let smtp = await start("smtp", settings)
    for (let round = 0; round < 4; round++) {
      const open = Array.from({ length: 12 }, (_, index) => {
        const subject = `round ${round} case ${index}`
        const bytes = dialogue(subject)
        // Half of them have said all, so that the process dies on the way to the commit or behind it.
        const said = index % 2 === 0 ? bytes.length : below(bytes.length)
        const conversation = talk(smtp.port)
        conversation.socket.write(bytes.slice(0, said))
        return { subject, conversation, isWhole: said === bytes.length }
      })
      if (round > 0) await until("first answer", () => (open.some(({ conversation }) => conversation.text().includes("354")) ? true : null))
      await pause(below(40))
      smtp.child.kill("SIGKILL")
      await smtp.ended
      await Promise.all(open.map(({ conversation }) => conversation.closed))
      cases.push(...open.map(({ subject, isWhole, conversation }) => ({ subject, isWhole, isTaken: took(conversation) })))
      smtp = await start("smtp", settings)
    }

    const before = await counted()
    for (const { subject, isWhole, isTaken } of cases) {
      const there = before.get(subject) ?? 0
      if (isTaken) assert.strictEqual(there, 1, `${subject} was answered with 250`)
      else assert.isAtMost(there, isWhole ? 1 : 0, `${subject} was not`)
    }
    for (const { subject } of cases.filter(({ isTaken }) => !isTaken)) {
      const again = talk(smtp.port)
      again.socket.write(dialogue(subject))
      await until("250", () => (took(again) ? true : null))
      again.socket.destroy()
    }

    const after = await counted()
    for (const { subject, isTaken } of cases) {
      assert.strictEqual(after.get(subject), (before.get(subject) ?? 0) + (isTaken ? 0 : 1), subject)
    }
    smtp.child.kill("SIGTERM")
    assert.strictEqual(await smtp.ended, 0)
  })

  it("finishes what is under way at SIGTERM, here for the postmaster that it was told of, and ends with 0", { timeout: 120_000 }, async () => {
    const smtp = await start("smtp", { ...settings, MAILROOM_INBOUND_HEALTH_PORT: "0", MAILROOM_INBOUND_POSTMASTER: address })
    const health = /the listener's health is at (http:\S+?)"/.exec(smtp.errors())![1]!
    assert.strictEqual((await fetch(`${health}/readyz`)).status, 200)
    const bytes = dialogue("drained", "postmaster")
    const conversation = talk(smtp.port)
    conversation.socket.write(bytes.slice(0, -20))
    await until("354", () => (conversation.text().includes("354") ? true : null))

    smtp.child.kill("SIGTERM")
    await until("end of its readiness", () => fetch(`${health}/readyz`).then(({ status }) => (status === 200 ? null : true), () => true))
    await until("refusal of others", async () => {
      const late = talk(smtp.port)
      await Promise.race([late.closed, pause(500)])
      late.socket.destroy()
      return late.text() === "" ? true : null
    })
    const ends = () => smtp.errors().match(/smtp: stop\w+/g)
    assert.deepStrictEqual(await until("word of it", ends), ["smtp: stopping"])
    conversation.socket.write(bytes.slice(-20))
    await conversation.closed

    assert.isTrue(took(conversation))
    assert.include(conversation.text(), "421 4.3.2")
    assert.strictEqual(await smtp.ended, 0)
    assert.deepStrictEqual(ends(), ["smtp: stopping", "smtp: stopped"])
    assert.strictEqual((await counted()).get("drained"), 1)
  })

  it("says in one line why it cannot listen", { timeout: 120_000 }, async () => {
    const first = await start("smtp", settings)
    const child = spawn(process.execPath, [cli, "smtp"], { env: { ...clean, ...settings, MAILROOM_INBOUND_PORT: String(first.port) }, stdio: ["ignore", "ignore", "pipe"] })
    let errors = ""
    child.stderr.on("data", (chunk: Buffer) => (errors += chunk.toString()))

    assert.strictEqual(await new Promise((resolve) => child.once("close", resolve)), 1)
    assert.match(errors, new RegExp(`mailroom: cannot listen on 127\\.0\\.0\\.1:${first.port}: .*EADDRINUSE.*; choose another with MAILROOM_INBOUND_PORT\\n$`))
    first.child.kill("SIGTERM")
    await first.ended
  })
})
