/** A deployment as an operator has it: real processes over the real command line, on one database. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Redacted, Result, Scope } from "effect"
import { spawn, type ChildProcess } from "node:child_process"
import { createServer, get, type IncomingMessage, type Server } from "node:http"
import { connect, type AddressInfo } from "node:net"
import { join } from "node:path"
import { json, text } from "node:stream/consumers"
import { afterAll, beforeAll } from "vitest"
import * as Database from "../../adapters/postgres/Database.ts"
import * as PrivatePostgres from "../../adapters/postgres/PrivatePostgres.ts"
import * as TestDatabase from "../../adapters/postgres/TestDatabase.ts"
import * as PrivateRedis from "../../adapters/redis/PrivateRedis.ts"
import { Mailroom, MailroomError } from "../../client/index.ts"
import * as Address from "../../core/model/Address.ts"
import { Management } from "../../core/operations/Management.ts"
import { Store } from "../../core/ports/Store.ts"
import * as Adapters from "../Adapters.ts"
import * as Config from "../Config.ts"
import { provision, type Provisioned } from "../dev/Provision.ts"

const cli = join(import.meta.dirname, "../cli/main.ts")
const sealingKeys = `1:${Buffer.alloc(32, 1).toString("base64")}`

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

interface Process {
  readonly child: ChildProcess
  readonly errors: () => string
  readonly output: () => string
  readonly ended: Promise<number | null>
  /** What it says of itself once it is ready. */
  readonly annotations: Readonly<Record<string, string>>
}

const launch = (verb: string, variables: Readonly<Record<string, string>>) => {
  const child = spawn(process.execPath, [cli, ...verb.split(" ")], { env: { ...clean, ...variables }, stdio: ["ignore", "pipe", "pipe"] })
  children.add(child)
  let [output, errors] = ["", ""]
  child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()))
  child.stderr.on("data", (chunk: Buffer) => (errors += chunk.toString()))
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve))
  return { child, output: () => output, errors: () => errors, ended }
}

/** Runs a verb to its end. */
const run = async (verb: string, variables: Readonly<Record<string, string>>) => {
  const { ended, output, errors } = launch(verb, variables)
  return { status: await ended, output: output(), lines: errors().trim().split("\n") }
}

/** Waits for what processes bring about; fails if they do not. */
const until = async <A>(what: string, look: () => A | Promise<A>, seconds = 60): Promise<NonNullable<A>> => {
  for (const end = Date.now() + seconds * 1000; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 20))) {
    const seen = await look()
    if (seen !== null && seen !== undefined && seen !== false) return seen
  }
  return assert.fail(`in ${seconds} seconds there was no ${what}`)
}

/** Starts a verb that runs, and waits until it says that it is ready. */
const start = async (verb: "serve" | "worker", variables: Readonly<Record<string, string>>): Promise<Process> => {
  const launched = launch(verb, { MAILROOM_PORT: "0", ...variables })
  const line = await until(`${verb} that is ready`, () => {
    if (launched.child.exitCode !== null) assert.fail(launched.errors())
    return launched.errors().split("\n").find((text) => text.includes(`${verb}: ready`))
  })
  return { ...launched, annotations: JSON.parse(line).annotations }
}

const stop = async ({ child, ended }: Process) => {
  child.kill("SIGTERM")
  return ended
}

const settingsOf = (url: Redacted.Redacted<string>) => ({
  MAILROOM_DATABASE_URL: Redacted.value(url),
  MAILROOM_DATABASE_POOL: "4",
  MAILROOM_SEALING_KEYS: sealingKeys,
  MAILROOM_SCANNER: "eicar",
  // Receivers are on this machine.
  MAILROOM_MODE: "development",
  MAILROOM_WEBHOOK_ALLOW_HTTP: "true",
  MAILROOM_WEBHOOK_ALLOWED_ADDRESSES: "127.0.0.0/8",
  MAILROOM_WEBHOOK_BACKOFF: "0",
  MAILROOM_IP_REQUESTS_PER_MINUTE: "100000"
})

/** What an operator does on the database of these settings. */
const operating = <A, E>(variables: Readonly<Record<string, string>>, work: Effect.Effect<A, E, Management | Layer.Success<ReturnType<typeof Adapters.operator>>>) =>
  Config.load(variables, {}, ["database"]).pipe(
    Effect.flatMap((config) =>
      Effect.provide(work, Layer.provideMerge(Management.layer, Adapters.operator(config as Config.Deployment))) // the database is needed
    ),
    Effect.runPromise
  )

describe("a deployment of two serve and two worker processes", () => {
  let settings: ReturnType<typeof settingsOf>
  let tenancy: Provisioned
  let serving: ReadonlyArray<Process>
  let working: Array<Process>
  const clients: Array<Mailroom> = []
  const metricsToken = "a-token-of-the-scraper"
  const told = { MAILROOM_TRUSTED_PROXIES: "127.0.0.2", MAILROOM_METRICS_TOKEN: metricsToken, MAILROOM_PUBLIC_URL: "https://mail.processes.example" }

  beforeAll(async () => {
    settings = settingsOf(await Effect.runPromise(Scope.provide(TestDatabase.url(), scope)))
    const domain = Result.getOrThrow(Address.parseDomain("processes.example"))
    tenancy = await operating(settings, provision(null, { domain, withProduction: false }))
    ;[serving, working] = await Promise.all([
      Promise.all([start("serve", settings), start("serve", { ...settings, ...told })]),
      Promise.all([start("worker", settings), start("worker", { ...settings, MAILROOM_WORKER_PORT: "0" })])
    ])
    for (const { annotations } of serving) clients.push(new Mailroom({ baseUrl: annotations["address"]!, apiKey: tenancy.apiKey, maxRetries: 0 }))
  }, 120_000)

  const letter = () => ({ fromMailboxId: tenancy.mailboxes[0]!.id, to: ["delivered@example.com"], subject: "Note", text: "The engine weaves." })
  const statusAt = async (client: Mailroom, id: string) => (await client.getMessage(id)).message.status

  /** A receiver that is registered, and what it got, without what it refused first. */
  const receive = async (client: Mailroom, refusals = 0) => {
    let refused = 0
    const got: Array<{ readonly type: string; readonly data: { readonly id: string } }> = []
    const server: Server = createServer((request, response) => {
      void json(request).then((body) => {
        // The shape that webhooks have.
        const event = body as (typeof got)[number] & { readonly data: { readonly challenge?: string } }
        if (event.data.challenge !== undefined) return response.end(JSON.stringify({ challenge: event.data.challenge }))
        if (refused++ < refusals) return response.writeHead(503).end()
        got.push(event)
        return response.writeHead(204).end()
      })
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    await Effect.runPromise(Scope.addFinalizer(scope, Effect.sync(() => void server.close())))
    const { port } = server.address() as AddressInfo // it listens
    await client.createWebhookEndpoint({ url: `http://127.0.0.1:${port}/`, eventTypes: ["*"] })
    return got
  }

  it("does at one process what another has accepted, and shows it at a third", { timeout: 120_000 }, async () => {
    const got = await receive(clients[0]!)

    const sent = await Promise.all(Array.from({ length: 20 }, (_, index) => clients[index % 2]!.sendMessage(letter())))

    for (const { id } of sent) await until("delivery", async () => (await statusAt(clients[1]!, id)) === "delivered")
    const ids = new Set<string>(sent.map(({ id }) => id))
    const mine = () => got.filter(({ data }) => ids.has(data.id))
    await until("webhooks of all", () => mine().length === 60)
    const about = mine().map(({ type, data }) => `${type} ${data.id}`)
    assert.strictEqual(new Set(about).size, 60, "each event once")
  })

  it("refuses a key at every process from its revocation on", async () => {
    const issued = await operating(
      settings,
      Effect.flatMap(Management, (management) =>
        management.issueKey({ type: "operator", id: "test" }, { ...tenancy, name: "short", scopes: ["mailboxes:read"] })
      )
    )
    const others = clients.map((_, index) => new Mailroom({ baseUrl: serving[index]!.annotations["address"]!, apiKey: Redacted.value(issued.text), maxRetries: 0 }))
    for (const client of others) await client.listMailboxes()

    await operating(
      settings,
      Effect.flatMap(Management, (management) => management.revokeKey({ type: "operator", id: "test" }, tenancy.tenantId, issued.apiKey.id))
    )

    for (const client of others) {
      const refusal: unknown = await client.listMailboxes().then(() => null, (error: unknown) => error)
      assert.deepStrictEqual(refusal instanceof MailroomError ? refusal.status : refusal, 401)
    }
  })

  it("relays and sends on within seconds when the worker that did is killed", async () => {
    const got = await receive(clients[1]!)

    // One of the two held the relay.
    for (const place of [0, 1]) {
      const { id } = await clients[0]!.sendMessage(letter())
      await until("delivery", async () => (await statusAt(clients[1]!, id)) === "delivered")
      working[place]!.child.kill("SIGKILL")
      await working[place]!.ended
      const after = await clients[1]!.sendMessage(letter())
      await until("its three webhooks", () => got.filter(({ data }) => data.id === after.id).length === 3, 30)
      working[place] = await start("worker", { ...settings, MAILROOM_WORKER_PORT: "0" })
    }
  }, 120_000)

  it("tries a webhook again after the wait that it was told of", async () => {
    const got = await receive(clients[0]!, 2)

    const { id } = await clients[0]!.sendMessage(letter())

    await until("webhook of each event", () => got.filter(({ data }) => data.id === id).length === 3, 30)
  }, 60_000)

  it("hears of clients from the proxies that it was told of, and from nobody else", async () => {
    const { hostname, port } = new URL(serving[1]!.annotations["address"]!)
    const headers = { authorization: `Bearer ${tenancy.apiKey}`, "x-forwarded-for": "203.0.113.7" }
    /** The id of a request that comes from this address. */
    const from = async (localAddress: string) => {
      const answer = await new Promise<IncomingMessage>((resolve) => get({ hostname, port, path: "/v1/mailboxes", headers, localAddress }, resolve))
      await text(answer)
      return answer.headers["x-request-id"]
    }

    const ids = [await from("127.0.0.2"), await from("127.0.0.1")]

    const seen = await until("both in the log of requests", async () => {
      const entries = await operating(settings, Store.use(({ audit }) => audit.requests(tenancy.tenantId, 1_000)))
      const addresses = ids.flatMap((id) => entries.filter(({ requestId }) => requestId === id).map(({ clientAddress }) => clientAddress))
      return addresses.length === 2 ? addresses : null
    })
    assert.deepStrictEqual(seen, ["203.0.113.7", "127.0.0.1"])
  })

  it("shows its metrics to who has the token, and names in its document where it is reached", async () => {
    const [silent, open] = serving.map(({ annotations }) => annotations["address"]!)
    const scraped = async (origin: string, headers: Readonly<Record<string, string>> = {}) => (await fetch(`${origin}/metrics`, { headers })).status
    const document = async (origin: string) => /^servers:\n\s+- url: (\S+)$/m.exec(await (await fetch(`${origin}/openapi.yaml`)).text())?.[1]
    const headers = { authorization: `Bearer ${metricsToken}` }

    assert.deepStrictEqual([await scraped(silent!, headers), await scraped(open!), await scraped(open!, headers)], [404, 401, 200])
    assert.deepStrictEqual([await document(silent!), await document(open!)], [silent, told.MAILROOM_PUBLIC_URL])
  })

  it("is ready, and a worker too, where it has a port", async () => {
    for (const { annotations } of serving) assert.strictEqual((await fetch(`${annotations["address"]}/readyz`)).status, 200)
    const health = /the worker's health is at (http:\S+?)"/.exec(working[1]!.errors())![1]!
    for (const path of ["/healthz", "/readyz"]) assert.strictEqual((await fetch(`${health}${path}`)).status, 200)
    assert.strictEqual((await fetch(`${health}/v1/messages`)).status, 404)
  })

  it("ends with 0 at SIGTERM, all of it", async () => {
    const all = [...serving, ...working]
    assert.deepStrictEqual(await Promise.all(all.map(stop)), [0, 0, 0, 0])
    for (const { errors } of all) assert.deepStrictEqual(errors().match(/(?<=: )stop\w+/g), ["stopping", "stopped"])
  })
})

describe("a deployment with Redis", () => {
  it("queues and counts there, and works on while it has lost everything", { timeout: 120_000 }, async () => {
    const redis = await Effect.runPromise(Scope.provide(PrivateRedis.open(), scope))
    const settings = {
      ...settingsOf(await Effect.runPromise(Scope.provide(TestDatabase.url(), scope))),
      MAILROOM_REDIS_URL: Redacted.value(redis.url),
      MAILROOM_QUEUE: "redis"
    }
    const domain = Result.getOrThrow(Address.parseDomain("redis.example"))
    const tenancy = await operating(settings, provision(null, { domain, withProduction: false }))
    const [serving, working] = await Promise.all([start("serve", settings), start("worker", settings)])
    const client = new Mailroom({ baseUrl: serving.annotations["address"]!, apiKey: tenancy.apiKey, maxRetries: 0 })
    const send = async () =>
      client.sendMessage({ fromMailboxId: tenancy.mailboxes[0]!.id, to: ["delivered@example.com"], subject: "Note", text: "The engine weaves." })
    const delivered = async (id: string) => until("delivery", async () => (await client.getMessage(id)).message.status === "delivered")

    await delivered((await send()).id)
    await Effect.runPromise(redis.kill)
    const { id } = await send()
    await Effect.runPromise(redis.start)
    await delivered(id)

    assert.deepStrictEqual(await Promise.all([serving, working].map(stop)), [0, 0])
  })
})

describe("serve, worker and migrate", () => {
  it("want tables that are up to date, and say how to get them", async () => {
    const url = await Effect.runPromise(Scope.provide(TestDatabase.url("empty"), scope))
    const settings = settingsOf(url)

    for (const verb of ["serve", "worker"]) {
      const { status, lines } = await run(verb, settings)
      assert.strictEqual(status, 1)
      assert.lengthOf(lines, 1)
      assert.match(lines[0]!, /^mailroom: the database lacks 0001_truth.*; run `mailroom migrate`$/)
    }
    const first = await run("migrate", settings)
    assert.strictEqual(first.status, 0, first.lines.join("\n"))
    assert.match(first.output, /^took 0001_truth$/m)
    assert.strictEqual((await run("migrate", settings)).output, "nothing to do\n")
    assert.strictEqual(await stop(await start("serve", settings)), 0)
  }, 120_000)

  it("name in one line a database that is not there, and no password", async () => {
    for (const verb of ["serve", "worker", "migrate"]) {
      const { status, lines } = await run(verb, {
        ...settingsOf(Redacted.make("postgres://ada:lovelace@127.0.0.1:1/mailroom"))
      })
      assert.strictEqual(status, 1)
      assert.lengthOf(lines, 1)
      assert.match(lines[0]!, /^mailroom: the database at 127\.0\.0\.1:1\/mailroom cannot be reached: .*ECONNREFUSED/)
      assert.notInclude(lines[0], "lovelace")
    }
  }, 120_000)

  it("name every setting that they cannot do without", async () => {
    const { status, lines } = await run("worker", { MAILROOM_PORT: "x" })

    assert.strictEqual(status, 2)
    assert.deepStrictEqual(
      lines.map((line) => line.split(" ").slice(1, 2).join("")).toSorted(),
      ["MAILROOM_DATABASE_URL", "MAILROOM_PORT", "MAILROOM_SCANNER", "MAILROOM_SEALING_KEYS"]
    )
  })

  it("hold no more connections than `serve` is told to, which wants to be told of ten at least", async () => {
    const settings = settingsOf(await Effect.runPromise(Scope.provide(TestDatabase.url(), scope)))
    const refused = await run("serve", { ...settings, MAILROOM_CONNECTIONS_MAX: "9" })
    const serving = await start("serve", { ...settings, MAILROOM_CONNECTIONS_MAX: "10" })
    const { port, hostname } = new URL(serving.annotations["address"]!)
    /** A connection that stays open, and what it hears first; nothing, if it is closed before. */
    const opened = async () => {
      const socket = connect(Number(port), hostname)
      socket.on("error", () => {})
      socket.write("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
      const heard = await new Promise<string>((resolve) => {
        socket.once("data", (chunk: Buffer) => resolve(chunk.toString().split("\r\n")[0]!))
        socket.once("close", () => resolve(""))
      })
      return { socket, heard }
    }

    const held = await Promise.all(Array.from({ length: 10 }, opened))
    const beyond = await opened()
    held[0]!.socket.destroy()
    const next = await until("room for another", async () => {
      const tried = await opened()
      return tried.heard === "" ? null : tried
    })

    assert.strictEqual(refused.status, 2)
    assert.deepStrictEqual(refused.lines, ['mailroom: MAILROOM_CONNECTIONS_MAX is "9"; it wants a whole number from 10 to 1000000'])
    assert.deepStrictEqual([...held, beyond, next].map(({ heard }) => heard), [...Array<string>(10).fill("HTTP/1.1 200 OK"), "", "HTTP/1.1 200 OK"])
    await until("word of it", () => serving.errors().includes("a connection was closed: there are 10, and no more are taken"))
    for (const { socket } of [...held, next]) socket.destroy()
    assert.strictEqual(await stop(serving), 0)
  }, 120_000)

  it("stop at once at a second signal", async () => {
    const settings = settingsOf(await Effect.runPromise(Scope.provide(TestDatabase.url(), scope)))
    const serving = await start("serve", settings)
    // A request that does not end holds the first signal up.
    const { port, hostname, origin } = new URL(serving.annotations["address"]!)
    const socket = connect(Number(port), hostname)
    socket.on("error", () => {})
    await new Promise<void>((resolve) => socket.write("POST /v1/messages HTTP/1.1\r\nHost: a\r\n", () => resolve()))
    await fetch(`${origin}/healthz`) // by now it has the bytes before

    serving.child.kill("SIGTERM")
    await until("draining", () => fetch(`${origin}/healthz`).then(() => false, () => true))
    serving.child.kill("SIGTERM")

    assert.strictEqual(await serving.ended, 130)
    socket.destroy()
  })
})

describe("readiness", () => {
  it("is gone within its deadline while the database hangs or is away, and comes back with it", async () => {
    const server = await Effect.runPromise(Scope.provide(PrivatePostgres.open(), scope))
    await Effect.runPromise(server.started)
    const settings = settingsOf(server.url("postgres"))
    assert.strictEqual((await run("migrate", settings)).status, 0)
    const serving = await start("serve", settings)
    const readiness = async () => {
      const before = Date.now()
      const { status } = await fetch(`${serving.annotations["address"]}/readyz`)
      return { status, took: Date.now() - before }
    }
    const becomes = async (status: number, seconds: number) => {
      const seen = await until(`readiness ${status}`, async () => {
        const found = await readiness()
        assert.isBelow(found.took, 2_500)
        return found.status === status ? found : null
      }, seconds)
      return seen.status
    }

    assert.strictEqual((await readiness()).status, 200)
    await Effect.runPromise(server.freeze)
    await becomes(503, 5)
    await Effect.runPromise(server.thaw)
    await becomes(200, 15)
    await Effect.runPromise(server.stop("immediate"))
    await becomes(503, 5)
    await Effect.runPromise(server.start)
    await becomes(200, 15)
    assert.strictEqual((await fetch(`${serving.annotations["address"]}/healthz`)).status, 200)
    assert.strictEqual(await stop(serving), 0)
  }, 180_000)

  it("is gone while the database can be read and takes no writes, says so, and comes back with them", async () => {
    const server = await Effect.runPromise(Scope.provide(PrivatePostgres.open(), scope))
    await Effect.runPromise(server.started)
    const settings = settingsOf(server.url("postgres"))
    assert.strictEqual((await run("migrate", settings)).status, 0)
    const [serving, working] = await Promise.all([start("serve", settings), start("worker", { ...settings, MAILROOM_WORKER_PORT: "0" })])
    const health = /the worker's health is at (http:\S+?)"/.exec(working.errors())![1]!
    const origins = [serving.annotations["address"]!, health]
    const set = (value: "on" | "off") =>
      operating(settings, Effect.flatMap(Database.Database, ({ sql }) =>
        Effect.andThen(sql.unsafe(`alter system set default_transaction_read_only = ${value}`), sql`select pg_reload_conf()`)
      ))
    const become = (status: number) =>
      Promise.all(
        origins.map((origin) =>
          until(`readiness ${status}`, async () => {
            const found = await fetch(`${origin}/readyz`)
            const body = (await found.json()) as { readonly message?: string; readonly reason?: string }
            return found.status === status ? body : null
          }, 15)
        )
      )

    await become(200)
    await set("on")
    const [served, worked] = await become(503)
    assert.include(served!.message, "takes no writes")
    assert.strictEqual(worked!.reason, "read_only")
    for (const origin of origins) assert.strictEqual((await fetch(`${origin}/healthz`)).status, 200)

    await set("off")
    await become(200)
    assert.strictEqual(await stop(serving), 0)
    assert.strictEqual(await stop(working), 0)
  }, 180_000)
})

describe("a deployment on a primary and its standby", () => {
  const opened = (options: PrivatePostgres.Options) =>
    Effect.runPromise(Scope.provide(Effect.tap(PrivatePostgres.open(options), ({ started }) => started), scope))

  it("follows a failover by itself, and loses nothing that it accepted", async () => {
    const primary = await opened({ settings: ["synchronous_standby_names=*"] })
    await Effect.runPromise(primary.stop("fast"))
    const standby = await opened({ standbyOf: primary.folder })
    await Effect.runPromise(primary.start)
    const { MAILROOM_DATABASE_URL: _, ...rest } = settingsOf(primary.url("postgres"))
    const settings = { ...rest, MAILROOM_DATABASE_URL: `postgres:///postgres?user=postgres&host=${standby.folder},${primary.folder}&target_session_attrs=read-write` }
    assert.strictEqual((await run("migrate", settings)).status, 0)
    const domain = Result.getOrThrow(Address.parseDomain("failover.example"))
    const { apiKey, mailboxes } = await operating(settings, provision(null, { domain, withProduction: false }))
    const [serving, working] = await Promise.all([start("serve", settings), start("worker", settings)])
    const client = new Mailroom({ baseUrl: serving.annotations["address"]!, apiKey, maxRetries: 0 })
    const letter = { fromMailboxId: mailboxes[0]!.id, to: ["delivered@example.com"], subject: "Note", text: "The engine weaves." }
    const accepted: Array<string> = []
    const over = new AbortController()
    const senders = Promise.all(
      [1, 2, 3].map(async () => {
        while (!over.signal.aborted) await client.sendMessage(letter).then(({ id }) => accepted.push(id), () => new Promise((resolve) => setTimeout(resolve, 20)))
      })
    )

    await until("mail that is accepted", () => accepted.length > 20)
    await Effect.runPromise(primary.stop("immediate"))
    const before = accepted.length
    const promotion = Database.layer({ stream: () => connect({ path: join(standby.folder, ".s.PGSQL.5432") }) })
    await Effect.runPromise(
      Effect.provide(Effect.flatMap(Database.Database, ({ rows }) => Effect.andThen(rows("select pg_promote()"), rows("alter system set synchronous_standby_names = ''"))), promotion)
    )
    await Effect.runPromise(Effect.provide(Effect.flatMap(Database.Database, ({ rows }) => rows("select pg_reload_conf()")), Layer.fresh(promotion)))
    await until("mail that is accepted behind it", () => accepted.length > before + 20)
    over.abort()
    await senders

    assert.strictEqual(new Set(accepted).size, accepted.length)
    for (const id of accepted) await until("delivery", async () => (await client.getMessage(id)).message.status === "delivered")
    assert.strictEqual(await stop(serving), 0)
    assert.strictEqual(await stop(working), 0)
  }, 240_000)

  it("does not start on standbys alone, and says what to do, without the password", async () => {
    const primary = await opened({})
    await Effect.runPromise(primary.stop("fast"))
    const standby = await opened({ standbyOf: primary.folder })
    const settings = { ...settingsOf(standby.url("postgres")), MAILROOM_DATABASE_URL: `postgres:///postgres?user=postgres&password=lovelace&host=${standby.folder},${standby.folder}` }

    for (const verb of ["serve", "worker", "migrate", "doctor", "tenant list", "dev"]) {
      const { status, lines, output } = await run(verb, { ...settings, MAILROOM_DATA: join(standby.folder, "dev") })
      const said = [...lines, output].join("\n")
      assert.notStrictEqual(status, 0, verb)
      assert.include(said, `${standby.folder}:5432 is a standby, which takes no writes`, verb)
      assert.include(said, "Name the primary in MAILROOM_DATABASE_URL", verb)
      assert.notInclude(said, "lovelace", verb)
    }
  }, 240_000)
})
