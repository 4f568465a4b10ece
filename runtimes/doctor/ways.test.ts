/** What the doctor says of the ways to a database, a Redis and a mail server: poolers between, and certificates. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Redacted } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer as createHttpServer } from "node:http"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createServer as createTlsServer, TLSSocket } from "node:tls"
import { generate } from "selfsigned"
import { SMTPServer } from "smtp-server"
import * as Database from "../../adapters/postgres/Database.ts"
import * as TestDatabase from "../../adapters/postgres/TestDatabase.ts"
import * as TestPooler from "../../adapters/postgres/TestPooler.ts"
import * as ScriptedServer from "../../adapters/smtp/ScriptedServer.ts"
import type { Script } from "../../conformance/MailServerScript.ts"
import { isDistrust } from "../Adapters.ts"
import { complete, findingsOf, listening, portOf, says } from "./harness.ts"

describe("the doctor, on the way to others,", () => {
  /** What it says behind a pooler, of one check, with its advice. */
  const behind = Effect.fnUntraced(function* (options: TestPooler.Options, prepare: boolean) {
    const found = yield* findingsOf({
      ...complete,
      MAILROOM_DATABASE_URL: Redacted.value(yield* TestPooler.url(options)),
      MAILROOM_DATABASE_PREPARE: String(prepare)
    })
    return (check: string) => found.filter((finding) => finding.check === check).map(({ status, message, advice }) => `${status} ${message}: ${advice}`)
  })

  it.live("tells a pooler's refusals apart from a server that is away, and what a pooler takes away", () =>
    Effect.gen(function* () {
      const refused = yield* behind({ mode: "session" }, true)
      assert.match(refused("database")[0]!, /^fail .*: unsupported startup parameter: idle_\w+: A pooler is between: set MAILROOM_DATABASE_PREPARE=false/)

      const forgetful = yield* behind({ mode: "transaction", ignoresParameters: true }, true)
      assert.match(forgetful("connections")[0]!, /^fail the pooler at .* forgets prepared statements: Set MAILROOM_DATABASE_PREPARE=false/)

      const bare = yield* behind({ mode: "transaction" }, false)
      assert.match(bare("connections")[0]!, /^warn lack settings that ours want: enable_bitmapscan is on, .*idle_in_transaction_session_timeout is 0, .*: Give them to the role/)

      const statements = yield* behind({ mode: "statement" }, false)
      assert.match(statements("connections")[0]!, /^fail the pooler at .* allows no transactions: Let it pool by transactions/)

      const strict = new URL(Redacted.value(yield* TestDatabase.url()))
      strict.searchParams.set("options", "-c default_transaction_isolation=serializable")
      const isolated = yield* findingsOf({ ...complete, MAILROOM_DATABASE_URL: strict.href, MAILROOM_DATABASE_PREPARE: "false" })
      assert.match(says(isolated, "connections")[0]!, /^warn lack .*default_transaction_isolation is serializable/)

      const plain = yield* findingsOf({ ...complete, MAILROOM_DATABASE_URL: Redacted.value(yield* TestDatabase.url()) })
      assert.deepStrictEqual(says(plain, "connections"), ["ok have the settings that ours want"])
    }).pipe(Effect.scoped)
  )

  /** `pong` to a ping, and to `/auth` what each says: a controller looks at the password, a worker that judges knows no such path. */
  const rspamd = (pong: string, auth: number) =>
    Effect.map(
      listening(() => {
        const server = createHttpServer(({ url }, response) => void (url === "/ping" ? response.end(pong) : response.writeHead(url === "/auth" ? auth : 404).end("{}")))
        return { server, port: () => portOf(server.address()) }
      }),
      ({ port }) => `http://127.0.0.1:${port}`
    )

  it.live("asks Rspamd whether it is there, and whether it takes the password, and shows it no message", () =>
    Effect.gen(function* () {
      const at = (url: string, password = "") =>
        Effect.map(findingsOf({ ...complete, MAILROOM_INBOUND_RSPAMD: url, MAILROOM_INBOUND_RSPAMD_PASSWORD: password }), (found) => {
          assert.notInclude(JSON.stringify(found), "lovelace-1")
          return says(found, "rspamd").map((text) => text.replace(/:\d+/, ""))
        })
      const [worker, open, shut, stranger] = [yield* rspamd("pong\r\n", 404), yield* rspamd("pong\r\n", 200), yield* rspamd("pong\r\n", 401), yield* rspamd("Hello", 404)]

      assert.deepStrictEqual(yield* at(worker, "lovelace-1"), ["ok http://127.0.0.1 answers"])
      assert.deepStrictEqual(yield* at(open, "lovelace-1"), ["ok http://127.0.0.1 answers, and takes the password"])
      assert.deepStrictEqual(yield* at(shut, "lovelace-1"), ["fail http://127.0.0.1 refuses the password: mail comes in unjudged"])
      assert.deepStrictEqual(yield* at(shut), ["fail http://127.0.0.1 wants a password: mail comes in unjudged"])
      assert.deepStrictEqual(yield* at(stranger), ["fail http://127.0.0.1: it does not answer as Rspamd does: mail comes in unjudged"])
      assert.match((yield* at("http://127.0.0.1:1"))[0]!, /^fail http:\/\/127\.0\.0\.1: .*ECONNREFUSED.*: mail comes in unjudged$/)
      assert.deepStrictEqual(says(yield* findingsOf(complete), "rspamd"), [])
    }).pipe(Effect.scoped)
  )

  it.live("tells of settings that do nothing beside others, which one file for all may hold", () =>
    Effect.gen(function* () {
      const idle = (variables: Record<string, string>) => Effect.map(findingsOf({ ...complete, ...variables }), (found) => says(found, "settings").slice(1))
      const token = { MAILROOM_METRICS_TOKEN: "lovelace-lovelace" }

      assert.deepStrictEqual(yield* idle({ ...token, MAILROOM_METRICS: "open" }), [
        "warn MAILROOM_METRICS is open: MAILROOM_METRICS_TOKEN is asked of nobody"
      ])
      assert.deepStrictEqual(yield* idle({ MAILROOM_SCANNER: "none", MAILROOM_CLAMD: "clamd.example:3310" }), [
        "warn MAILROOM_SCANNER is none: nothing is shown to the clamd of MAILROOM_CLAMD"
      ])
      assert.deepStrictEqual([...(yield* idle(token)), ...(yield* idle({ MAILROOM_METRICS: "open" }))], [])
      assert.deepStrictEqual(yield* idle({ MAILROOM_SCANNER: "clamd", MAILROOM_CLAMD: "127.0.0.1:1" }), [])
    })
  )

  it.live("tells a user that is not let in, and a database that is not there, apart from a server that is away", () =>
    Effect.gen(function* () {
      const at = Effect.fnUntraced(function* (url: string) {
        const found = yield* findingsOf({ ...complete, MAILROOM_DATABASE_URL: url })
        return found.filter(({ check }) => check === "database").map(({ status, message, advice }) => `${status} ${message}: ${advice}`)
      })
      const there = new URL(Redacted.value(yield* TestDatabase.url("empty")))
      const [missing, stranger] = [new URL(there), new URL(there)]
      missing.pathname = "/nowhere"
      stranger.username = "nobody"
      const refusing = Effect.map(listening(refusingPassword), ({ port }) => `127.0.0.1:${port}`)
      const [one, another] = [yield* refusing, yield* refusing]

      assert.match((yield* at(missing.href)).join(), /^fail .* "nowhere" does not exist: Make the database, then run `mailroom migrate`; or .* in MAILROOM_DATABASE_URL\.$/)
      assert.match((yield* at(stranger.href)).join(), /^fail .* "nobody" does not exist: Let the role .* log in, .*pg_hba\.conf/)
      for (const hosts of [one, `${one},${another}`]) {
        const said = (yield* at(`postgres://ada:lovelace@${hosts}/mailroom`)).join()
        assert.match(said, /^fail .*: password authentication failed for user "ada": Mend the user or the password in MAILROOM_DATABASE_URL/)
        assert.notInclude(said, "lovelace")
      }
    }).pipe(Effect.scoped)
  )

  it.live("says of a database that does not answer where to look, and goes on", () =>
    Effect.gen(function* () {
      const url = yield* TestDatabase.url()
      const holder = yield* Database.Database.use(({ connect }) => connect).pipe(Effect.provide(Database.layer({ url, connectionsMax: 1 })))
      yield* holder.query("begin", [])
      yield* holder.query("lock table mailroom.endpoint in access exclusive mode", [])

      const findings = yield* findingsOf({ ...complete, MAILROOM_DATABASE_URL: Redacted.value(url) }).pipe(
        Effect.provideService(Database.StatementDeadline, Duration.seconds(2))
      )

      const { message, advice } = findings.find(({ check }) => check === "secrets")!
      assert.strictEqual(message, "the database did not answer within 2s")
      assert.match(advice ?? "", /^Look at what it waits for: a lock \(pg_stat_activity\), /)
      assert.deepStrictEqual(says(findings, "redis"), ["ok none: PostgreSQL does without"])
    }).pipe(Effect.scoped)
  )

  it.live("names who holds a lock on a table for longer than a moment, whichever it is, and no lock on rows", () =>
    Effect.gen(function* () {
      const url = yield* TestDatabase.url()
      const holder = yield* Database.Database.use(({ connect }) => connect).pipe(
        Effect.provide(Database.layer({ url, connectionsMax: 1, applicationName: "reindex by hand" }))
      )
      const found = Effect.map(findingsOf({ ...complete, MAILROOM_DATABASE_URL: Redacted.value(url) }), (findings) =>
        findings.filter(({ check }) => check === "locks").map(({ status, message, advice }) => `${status} ${message}: ${advice}`)
      )
      const within = Effect.fnUntraced(function* (statement: string) {
        yield* holder.query("begin", [])
        yield* holder.query(statement, [])
        const said = yield* found
        yield* holder.query("rollback", [])
        return said
      })

      assert.deepStrictEqual(yield* within("select from mailroom.job for update"), ["ok nobody holds up a table: null"])
      const [exclusive, ...more] = yield* within("lock table mailroom.job in access exclusive mode")
      assert.match(
        exclusive ?? "",
        /^fail session \d+ \(reindex by hand\) has locked mailroom\.job for \d+ s \(AccessExclusiveLock\): all that reads or writes it waits, and is given up after 10 s: Let it come to its end, or end it: select pg_terminate_backend\(\d+\)\.$/
      )
      assert.deepStrictEqual(more, [])
      const shared = yield* within("lock table mailroom.message, mailroom.event in share mode")
      assert.match(shared.join(), /^fail session \d+ \(reindex by hand\) has locked mailroom\.event, mailroom\.message for \d+ s \(ShareLock\): all that writes /)
    }).pipe(Effect.scoped)
  )

  it.live("says of a pooler that lets us in, and has no place left, what it wants, and not that the server is away", () =>
    Effect.gen(function* () {
      const full = new URL(Redacted.value(yield* TestPooler.url({ mode: "session", ignoresParameters: true, isFull: true })))
      full.search = "connect_timeout=2"
      const found = yield* findingsOf({ ...complete, MAILROOM_DATABASE_URL: full.href })

      const { message, advice } = found.find(({ check }) => check === "database")!
      assert.match(message, / let us in, and did not say in time whether it takes writes$/)
      assert.match(advice ?? "", /^If a pooler is between, give it a place for each connection of each process/)
    }).pipe(Effect.scoped)
  )

  it.live("does not take a connection for encrypted that may be in clear text", () =>
    Effect.gen(function* () {
      const elsewhere = new URL(Redacted.value(yield* TestPooler.url({ mode: "transaction" })))
      elsewhere.hostname = "0.0.0.0"
      elsewhere.search = "sslmode=prefer"
      const clear = yield* findingsOf({ ...complete, MAILROOM_DATABASE_URL: elsewhere.href, MAILROOM_DATABASE_PREPARE: "false" })
      assert.include(says(clear, "database"), "warn nothing makes sure that the connection is encrypted")
    }).pipe(Effect.scoped)
  )

  it.live("says what to do about a database, a Redis and a mail server whose certificates are not trusted", () =>
    Effect.gen(function* () {
      const made = yield* Effect.promise(() => generate([{ name: "commonName", value: "localhost" }]))
      const { port } = yield* listening(() => {
        const server = createServer((socket) => {
          socket.on("error", () => {})
          socket.once("data", () => {
            socket.write("S")
            new TLSSocket(socket, { isServer: true, key: made.private, cert: made.cert }).on("error", () => {})
          })
        })
        return { server, port: () => portOf(server.address()) }
      })

      const mail = yield* listening(() => {
        const server = new SMTPServer({ key: made.private, cert: made.cert })
        server.on("error", () => {})
        return { server, port: () => portOf(server.server.address()) }
      })
      const redis = yield* listening(() => {
        const server = createTlsServer({ key: made.private, cert: made.cert }).on("tlsClientError", () => {})
        return { server, port: () => portOf(server.address()) }
      })

      const findings = yield* findingsOf({
        ...complete,
        MAILROOM_SMTP_HOST: "localhost",
        MAILROOM_SMTP_PORT: String(mail.port),
        MAILROOM_REDIS_URL: `rediss://:lovelace@localhost:${redis.port}`,
        MAILROOM_DATABASE_URL: `postgres://ada:lovelace@localhost:${port}/mailroom?sslmode=verify-full`
      })

      const [finding] = findings.filter(({ check }) => check === "database")
      assert.match(finding!.message, /self-signed certificate/)
      assert.match(finding!.advice!, /valid now and for this name.*NODE_EXTRA_CA_CERTS/)
      const adviceOf = (name: string) => findings.find(({ check }) => check === name)?.advice
      assert.match(String(adviceOf("mail")), /valid now and for this name.*MAILROOM_SMTP_CA_FILE/)
      assert.match(String(adviceOf("redis")), /valid now and for this name.*NODE_EXTRA_CA_CERTS/)
      assert.notInclude(JSON.stringify(findings), "lovelace")
    }).pipe(Effect.scoped)
  )

  it.live("signs in at a mail server as `worker` does, and says what to mend where it is not let in, without the password", () =>
    Effect.gen(function* () {
      const made = yield* Effect.promise(() => generate([{ name: "commonName", value: "localhost" }], { extensions: [{ name: "subjectAltName", altNames: [{ type: 2, value: "localhost" }] }] }))
      const folder = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync(join(tmpdir(), "mailroom-doctor-"))),
        (path) => Effect.sync(() => rmSync(path, { recursive: true }))
      )
      writeFileSync(join(folder, "ca.pem"), made.cert)
      const mail = Effect.fnUntraced(function* (script: Script) {
        const { port } = yield* ScriptedServer.start(script, { certificate: { key: made.private, cert: made.cert } })
        const findings = yield* findingsOf({
          ...complete,
          MAILROOM_SMTP_HOST: "localhost",
          MAILROOM_SMTP_PORT: String(port),
          MAILROOM_SMTP_TLS: "starttls",
          MAILROOM_SMTP_CA_FILE: join(folder, "ca.pem"),
          MAILROOM_SMTP_USER: "ada",
          MAILROOM_SMTP_PASSWORD: "lovelace"
        })
        return findings.filter(({ check }) => check === "mail").map(({ status, message, advice }) => `${status} ${message.replace(String(port), "port")}: ${advice ?? ""}`)
      })
      const mend = "Mend MAILROOM_SMTP_USER and MAILROOM_SMTP_PASSWORD."

      assert.deepStrictEqual(yield* mail(() => null), ["ok localhost:port answers, with TLS (starttls), and takes ada: "])
      assert.deepStrictEqual(
        yield* mail(({ place }) => (place === "AUTH" ? { say: "535 5.7.8 not you\r\n" } : null)),
        [`fail localhost:port: AUTH PLAIN: 535 5.7.8 not you: ${mend}`]
      )
      assert.deepStrictEqual(
        yield* mail(({ place }) => (place === "AUTH" ? { say: "535 5.7.8 not with lovelace\r\n" } : null)),
        [`fail localhost:port: AUTH PLAIN: (not shown: the server quotes the credentials): ${mend}`]
      )
      assert.deepStrictEqual(
        yield* mail(({ place, isEncrypted }) => (place === "EHLO" && isEncrypted ? { say: "250-mail.example\r\n250 AUTH XOAUTH2\r\n" } : null)),
        [`fail localhost:port: AUTH: the server takes no credentials: ${mend}`],
        "though it would take a password that it does not ask for"
      )
    }).pipe(Effect.scoped)
  )
})

/** Lets nobody in, in PostgreSQL's words. */
const refusingPassword = () => {
  const server = createServer((socket) => {
    const fields = ["SFATAL", "VFATAL", "C28P01", 'Mpassword authentication failed for user "ada"', ""].map((field) => `${field}\0`).join("")
    const head = Buffer.from("E\0\0\0\0")
    head.writeInt32BE(4 + fields.length, 1)
    socket.on("error", () => {})
    socket.once("data", () => socket.end(Buffer.concat([head, Buffer.from(fields)])))
  })
  return { server, port: () => portOf(server.address()) }
}

it("a server that wants a certificate of ours is not one whose own is not trusted", () => {
  const words = {
    "self-signed certificate": true,
    "certificate has expired": true,
    "Hostname/IP does not match certificate's altnames: Host: a. is not cert's CN: b": true,
    "connection requires a valid client certificate": false,
    "connect ECONNREFUSED 127.0.0.1:5432": false
  }
  assert.deepStrictEqual(Object.fromEntries(Object.keys(words).map((said) => [said, isDistrust(said)])), words)
})
