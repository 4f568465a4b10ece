/** The doctor over deployments in order, and over each fault that it is there to find. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Redacted } from "effect"
import { spawnSync } from "node:child_process"
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync, type StatsFs } from "node:fs"
import builtin from "node:fs/promises"
import { syncBuiltinESMExports } from "node:module"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { generate } from "selfsigned"
import { SMTPServer } from "smtp-server"
import * as FileBlobStore from "../../adapters/node/FileBlobStore.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import * as Database from "../../adapters/postgres/Database.ts"
import * as PostgresBlobStore from "../../adapters/postgres/PostgresBlobStore.ts"
import * as PostgresStore from "../../adapters/postgres/PostgresStore.ts"
import * as PrivatePostgres from "../../adapters/postgres/PrivatePostgres.ts"
import * as TestDatabase from "../../adapters/postgres/TestDatabase.ts"
import { address, attachment, content, endpoint, mailbox, mailDomain, message, realm, tenant } from "../../conformance/fixtures.ts"
import type { BlobRef } from "../../core/model/Blob.ts"
import * as Endpoints from "../../core/model/Endpoint.ts"
import type { AttachmentId, MessageId, Realm } from "../../core/model/Ids.ts"
import * as MailDomains from "../../core/model/MailDomain.ts"
import { BlobStore, enclosedAtOnce } from "../../core/ports/BlobStore.ts"
import { Crypto } from "../../core/ports/Crypto.ts"
import { Store, type Change } from "../../core/ports/Store.ts"
import type { Variables } from "../Config.ts"
import type { Finding } from "./Findings.ts"
import { complete, findingsOf, key, listening, portOf, says } from "./harness.ts"

const fresh = Effect.fnUntraced(function* (content: "migrated" | "empty" = "migrated") {
  return { ...complete, MAILROOM_DATABASE_URL: Redacted.value(yield* TestDatabase.url(content)) }
})

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "mailroom-doctor-"))),
  (made) => Effect.sync(() => rmSync(made, { recursive: true, force: true }))
)

describe("the doctor", () => {
  it.live("finds nothing wrong with a database in order, but what the tests' own server is lacking", () =>
    Effect.gen(function* () {
      const findings = yield* findingsOf(yield* fresh())

      assert.deepStrictEqual(says(findings, "settings"), ["ok all in order, for production"])
      assert.match(says(findings, "database")[0]!, /^ok PostgreSQL \d+/)
      assert.match(says(findings, "clock")[0]!, /^ok \d+ ms/)
      assert.match(says(findings, "migrations")[0]!, /^ok all \d+ taken$/)
      assert.deepStrictEqual(says(findings, "rights"), ["ok postgres may read and write every table"])
      assert.deepStrictEqual(says(findings, "durability"), ["fail fsync and full_page_writes are off: a crash loses accepted mail"])
      assert.deepStrictEqual(says(findings, "secrets"), ["ok none is stored yet"])
      assert.deepStrictEqual(says(findings, "scanner"), ["warn attachments are passed unscanned"])
      assert.isTrue(findings.every(({ status, advice }) => (status === "ok") === (advice === null)), "what is not in order has an advice")
    }).pipe(Effect.scoped)
  )

  it.live("changes nothing", () =>
    Effect.gen(function* () {
      const variables = yield* fresh("empty")
      const at = yield* folder

      yield* findingsOf({ ...variables, MAILROOM_BLOBS: join(at, "blobs") })

      const again = yield* findingsOf(variables)
      assert.match(says(again, "migrations")[0]!, /^fail missing: 0001_truth/)
      assert.deepStrictEqual(says(again, "rights"), ["fail there is no schema mailroom yet"])
      assert.deepStrictEqual(readdirSync(at), [])
    }).pipe(Effect.scoped)
  )

  it.live("names the indexes that a restore did not come to, and those that were not made to their end", () =>
    Effect.gen(function* () {
      const variables = yield* fresh()
      const opened = yield* Layer.build(Database.layer({ url: Redacted.make(variables.MAILROOM_DATABASE_URL) }))
      const { sql } = Context.get(opened, Database.Database)
      assert.deepStrictEqual(says(yield* findingsOf(variables), "indexes"), ["ok all 80 are there"])

      yield* sql`alter table mailroom.message drop constraint message_pkey`
      yield* sql`drop index mailroom.job_ready`
      yield* sql`update pg_index set indisvalid = false where indexrelid = 'mailroom.event_time'::regclass`

      assert.deepStrictEqual(says(yield* findingsOf(variables), "indexes"), [
        "fail missing: job_ready, message_pkey",
        "fail event_time was not made to its end, and is not used"
      ])
      yield* sql`insert into mailroom.migration (name, applied_ms) values ('9999_later', 0)`
      assert.deepStrictEqual(says(yield* findingsOf(variables), "indexes"), [])
    }).pipe(Effect.scoped)
  )

  it.live("names every fault of the settings, and goes on where it can", () =>
    Effect.gen(function* () {
      const findings = yield* findingsOf({ MAILROOM_SMTP_USER: "ada" })

      assert.deepStrictEqual(says(findings, "settings").map((text) => text.split(" ").slice(0, 2).join(" ")).toSorted(), [
        "fail MAILROOM_DATABASE_URL",
        "fail MAILROOM_SCANNER",
        "fail MAILROOM_SEALING_KEYS",
        "fail MAILROOM_SMTP_USER",
        "fail MAILROOM_SMTP_USER"
      ])
      assert.deepStrictEqual(says(findings, "blobs"), ["ok in the database"])
      const unread = yield* findingsOf({ MAILROOM_PORT: "x" })
      assert.include(says(unread, "settings").at(-1), "nothing else was looked at")
    })
  )

  it.live("says that the database is away, and not with which password", () =>
    Effect.gen(function* () {
      const findings = yield* findingsOf(complete)

      assert.match(says(findings, "database")[0]!, /^fail 127\.0\.0\.1:1\/mailroom: .*ECONNREFUSED/)
      assert.notInclude(JSON.stringify(findings), "lovelace")
    })
  )

  it.live("looks at each server of a URL with several, by itself", () =>
    Effect.gen(function* () {
      const url = new URL((yield* fresh()).MAILROOM_DATABASE_URL)
      const at = url.searchParams.get("host")!
      const other = yield* PrivatePostgres.open()
      yield* other.started
      const among = (path: string, ...hosts: ReadonlyArray<string>) => {
        const named = new URL(url)
        named.pathname = path
        named.searchParams.set("host", hosts.join(","))
        return findingsOf({ ...complete, MAILROOM_DATABASE_URL: named.href })
      }

      const oneIsAway = yield* among(url.pathname, at, "/nowhere")
      const oneTwice = yield* among(url.pathname, at, at)
      const two = yield* among("/postgres", at, other.folder)

      assert.deepStrictEqual(says(oneIsAway, "servers"), [
        "warn /nowhere:5432: connect ENOENT /nowhere/.s.PGSQL.5432",
        `ok ${at}:5432 of 2 is the primary`
      ])
      assert.deepStrictEqual(says(oneTwice, "servers"), [`ok ${at}:5432 and ${at}:5432 of 2 are the primary`])
      assert.match(says(two, "servers")[0]!, /^fail .* and .* take writes, and are not one server/)
    }).pipe(Effect.scoped),
    60_000
  )

  it.live("says of servers that none of them could be looked at, and no more", () =>
    Effect.gen(function* () {
      const variables = yield* fresh()
      const url = new URL(variables.MAILROOM_DATABASE_URL)
      const role = `lone_${url.pathname.slice(1)}`
      yield* Effect.gen(function* () {
        const { sql } = yield* Database.Database
        // The doctor's own connection is the one that it may have.
        yield* sql.unsafe(`create role "${role}" login connection limit 1`)
        yield* Effect.addFinalizer(() => Effect.ignore(sql.unsafe(`drop role "${role}"`)))
        const at = url.searchParams.get("host")!
        url.searchParams.set("host", `${at},${at}`)
        url.searchParams.set("user", role)
        url.username = ""

        const said = says(yield* findingsOf({ ...variables, MAILROOM_DATABASE_URL: url.href }), "servers")

        assert.lengthOf(said, 3)
        for (const warning of said.slice(0, 2)) assert.match(warning, /^warn .*: too many connections for role/)
        assert.match(said[2]!, /^fail none of 2 servers/)
      }).pipe(Effect.provide(Database.layer({ url: Redacted.make(variables.MAILROOM_DATABASE_URL) })))
    }).pipe(Effect.scoped)
  )

  it.live("sees a database that is set to read only", () =>
    Effect.gen(function* () {
      const variables = yield* fresh()
      const url = new URL(variables.MAILROOM_DATABASE_URL)
      yield* Effect.gen(function* () {
        const { sql } = yield* Database.Database
        yield* sql.unsafe(`alter database "${url.pathname.slice(1)}" set default_transaction_read_only = on`)
      }).pipe(Effect.provide(Database.layer({ url: Redacted.make(url.href) })))

      assert.match(says(yield* findingsOf(variables), "database")[0]!, /^fail .* is set to read only, and takes no writes$/)
    }).pipe(Effect.scoped)
  )

  it.live("sees what the user may not write", () =>
    Effect.gen(function* () {
      const variables = yield* fresh()
      const url = new URL(variables.MAILROOM_DATABASE_URL)
      const role = `reader_${url.pathname.slice(1)}`
      yield* Effect.gen(function* () {
        const { sql } = yield* Database.Database
        yield* sql.unsafe(`create role ${role} login`)
        yield* sql.unsafe(`grant usage on schema mailroom to ${role}`)
        yield* sql.unsafe(`grant select, insert, update, delete on all tables in schema mailroom to ${role}`)
        yield* sql.unsafe(`revoke update on mailroom.message from ${role}`)
      }).pipe(Effect.provide(Database.layer({ url: Redacted.make(url.href) })))
      url.username = role

      const findings = yield* findingsOf({ ...variables, MAILROOM_DATABASE_URL: url.href })

      assert.deepStrictEqual(says(findings, "rights"), [`fail ${role} may not read and write message`])
      yield* Effect.gen(function* () {
        const { sql } = yield* Database.Database
        yield* sql.unsafe(`drop owned by ${role}`)
        yield* sql.unsafe(`drop role ${role}`)
      }).pipe(Effect.provide(Database.layer({ url: Redacted.make(variables.MAILROOM_DATABASE_URL) })))
    }).pipe(Effect.scoped)
  )

  /** Commits what is made with a key of version 2, and finds what is said of it with other rings. */
  const sealedWith = Effect.fnUntraced(function* (made: (crypto: Crypto["Service"]) => Effect.Effect<ReadonlyArray<Change>>) {
    const variables = yield* fresh()
    yield* Effect.gen(function* () {
      const [store, crypto] = [yield* Store, yield* Crypto]
      yield* store.commit(yield* made(crypto), [])
    }).pipe(
      Effect.provide(
        Layer.merge(
          PostgresStore.layerWithoutJobs.pipe(Layer.provide(Database.layer({ url: Redacted.make(variables.MAILROOM_DATABASE_URL) }))),
          NodeCrypto.layer({ sealingKeys: [{ version: 2, key: Redacted.make(new Uint8Array(32).fill(2)) }] })
        )
      )
    )
    return (ring: string) => Effect.map(findingsOf({ ...variables, MAILROOM_SEALING_KEYS: ring }), (found) => says(found, "secrets"))
  })

  const stored = {
    "secrets of webhook endpoints": (crypto: Crypto["Service"]) => {
      const sealed = endpoint(realm())
      return Effect.map(crypto.seal(Redacted.make("whsec_x"), Endpoints.sealContext(sealed)), (secret) => [
        { _tag: "Insert", kind: "endpoint", record: { ...sealed, secret } } as const
      ])
    },
    "DKIM keys of domains": (crypto: Crypto["Service"]) => {
      const sealed = mailDomain(realm().tenantId)
      return Effect.map(crypto.seal(Redacted.make("a key"), MailDomains.sealContext(sealed)), (privateKey) => [
        { _tag: "Insert", kind: "domain", record: { ...sealed, dkim: { selector: "s1", publicKey: "p", privateKey } } } as const
      ])
    }
  }
  for (const [what, made] of Object.entries(stored)) {
    it.live(`tries the key ring on stored ${what}`, () =>
      Effect.gen(function* () {
        const secretsWith = yield* sealedWith(made)
        assert.deepStrictEqual(yield* secretsWith(`2:${key(2)}`), ["ok the keys open what is stored"])
        assert.deepStrictEqual(yield* secretsWith(`2:${key(2)},3:${key(3)}`), ["warn some secrets are sealed by an older key"])
        for (const ring of [`1:${key(1)}`, `3:${key(3)}`]) {
          const [said, ...more] = yield* secretsWith(ring)
          assert.deepStrictEqual(more, [])
          assert.match(said!, /^fail the keys of version \d do not open what version 2 sealed$/)
        }
        assert.match((yield* secretsWith(`2:${key(9)}`))[0]!, /^fail /)
      }).pipe(Effect.scoped)
    )
  }

  it.live("looks for the postmaster's mailbox, where one is named", () =>
    Effect.gen(function* () {
      const variables = yield* fresh()
      const [owner, left] = [tenant(), tenant({ status: "suspended" })]
      const caught = mailDomain(owner.id)
      const ops = mailbox(caught)
      const domain = { ...caught, catchAll: ops.id }
      const [claimed, foreign] = [mailDomain(owner.id, { health: "pending" }), mailDomain(left.id)]
      const [old, early, gone] = [mailbox(domain, { status: "suspended", address: address("old", domain.domain) }), mailbox(claimed), mailbox(foreign)]
      yield* Effect.gen(function* () {
        const store = yield* Store
        const tenants = [owner, left].map((record): Change => ({ _tag: "Insert", kind: "tenant", record }))
        const domains = [domain, claimed, foreign].map((record): Change => ({ _tag: "Insert", kind: "domain", record }))
        const mailboxes = [ops, old, early, gone].map((record): Change => ({ _tag: "Insert", kind: "mailbox", record }))
        yield* store.commit([...tenants, ...domains, ...mailboxes], [])
      }).pipe(Effect.provide(PostgresStore.layerWithoutJobs.pipe(Layer.provide(Database.layer({ url: Redacted.make(variables.MAILROOM_DATABASE_URL) })))))
      const at = (place: string) =>
        Effect.map(findingsOf({ ...variables, MAILROOM_INBOUND_POSTMASTER: place }), (found) => says(found, "postmaster"))

      assert.deepStrictEqual(yield* at(""), [])
      assert.deepStrictEqual(yield* at(ops.address), [`ok ${ops.address} takes mail for it`])
      assert.deepStrictEqual(yield* at(`any@${domain.domain}`), [`ok any@${domain.domain} takes mail for it`], "what the catch-all takes")
      assert.deepStrictEqual(yield* at("nobody@mail.example"), ["fail nobody@mail.example takes none: 550 5.7.1 mail for this domain is not taken here"])
      assert.deepStrictEqual(yield* at(`any@${foreign.domain}`), [`fail any@${foreign.domain} takes none: 550 5.1.1 there is no such mailbox`])
      for (const { address } of [old, gone]) assert.deepStrictEqual(yield* at(address), [`fail ${address} takes none: 550 5.2.1 the mailbox is suspended`])
      assert.deepStrictEqual(yield* at(early.address), [`fail ${early.address} takes none: 550 5.7.1 mail for this domain is not taken here`])
    }).pipe(Effect.scoped)
  )

  const referring = {
    attachments: (of: Realm, id: string, blob: BlobRef): Change => ({
      _tag: "Insert",
      kind: "attachment",
      record: attachment(of, { id: id as AttachmentId, blob }) // in the form of a UUID
    }),
    messages: (of: Realm, id: string, blob: BlobRef): Change => {
      const record = message(of, { id: id as MessageId, mime: blob }) // in the form of a UUID
      return { _tag: "InsertMessage", message: record, content: content(record) }
    }
  }
  for (const [kind, insertOf] of Object.entries(referring)) {
    it.live(`looks whether the blobs of ${kind} are where the setting says`, () =>
      Effect.gen(function* () {
        const variables = yield* fresh()
        const at = yield* folder
        const directory = join(at, "blobs")
        const database = Database.layer({ url: Redacted.make(variables.MAILROOM_DATABASE_URL) })
        const of = realm()
        let last = 0
        const put = Effect.fnUntraced(function* (count: number) {
          const [store, blobs] = [yield* Store, yield* BlobStore]
          for (const until = last + count; last < until; last += 1) {
            const { blob } = yield* enclosedAtOnce(blobs.writer)(of.tenantId, [Buffer.from(`blob ${last}`)])
            yield* store.commit([insertOf(of, `00000000-0000-7000-8000-${String(last).padStart(12, "0")}`, blob)], [])
          }
        }, Effect.provide(PostgresStore.layerWithoutJobs.pipe(Layer.provide(database))))
        const said = (place: string) => Effect.map(findingsOf({ ...variables, MAILROOM_BLOBS: place }), (found) => says(found, "blobs"))

        assert.deepStrictEqual(yield* said("postgres"), ["ok in the database"], "nothing is stored yet")
        yield* put(1).pipe(Effect.provide(PostgresBlobStore.layer.pipe(Layer.provide(database))))
        assert.deepStrictEqual(yield* said("postgres"), ["ok the oldest and the newest are where they are looked for", "ok in the database"])
        assert.strictEqual((yield* said(directory))[0], `fail of 1 that messages and attachments refer to 1 is not in ${directory}; the database has 1 of them`)
        assert.deepStrictEqual(readdirSync(at), [], "nothing is made")

        yield* put(50).pipe(Effect.provide(FileBlobStore.layer({ directory })))
        assert.strictEqual((yield* said(directory))[0], `fail of 40 that messages and attachments refer to 1 is not in ${directory}; the database has 1 of them`)
        assert.strictEqual((yield* said("postgres"))[0], "fail of 40 that messages and attachments refer to 39 are not in the database")
        rmSync(join(directory, of.tenantId), { recursive: true })
        assert.strictEqual((yield* said(directory))[0], `fail of 40 that messages and attachments refer to 40 are not in ${directory}; the database has 1 of them`)
        symlinkSync("circle", join(at, "circle"))
        assert.strictEqual((yield* said(join(at, "circle")))[0], "fail what is in the folder cannot be read (ELOOP)")
      }).pipe(Effect.scoped)
    )
  }

  it.live("signs in at the mail server and leaves, without a mail", () =>
    Effect.gen(function* () {
      let mails = 0
      const { port } = yield* listening(() => {
        const smtp = new SMTPServer({
          disabledCommands: ["STARTTLS", "AUTH"],
          onMailFrom: (_address, _session, done) => {
            mails += 1
            done()
          }
        })
        return { server: smtp, port: () => portOf(smtp.server.address()) }
      })
      const variables = { ...complete, MAILROOM_SMTP_HOST: "127.0.0.1", MAILROOM_SMTP_PORT: String(port) }

      const open = says(yield* findingsOf({ ...variables, MAILROOM_SMTP_TLS: "none" }), "mail")
      assert.deepStrictEqual(open, [`ok 127.0.0.1:${port} answers, in clear text`])
      assert.match(says(yield* findingsOf(variables), "mail")[0]!, /^fail 127\.0\.0\.1:\d+: /)
      assert.match(says(yield* findingsOf({ ...variables, MAILROOM_SMTP_CA_FILE: "/nowhere" }), "mail")[0]!, /^fail MAILROOM_SMTP_CA_FILE: no such file; it wants the path of a file /)
      assert.strictEqual(mails, 0)
    }).pipe(Effect.scoped)
  )

  it.live("says which provider takes mail, and whether it is heard of again", () =>
    Effect.gen(function* () {
      const ses = { ...complete, MAILROOM_PROVIDER: "ses", MAILROOM_SES_REGION: "eu-central-1" }
      const ok = "ok production mail goes through Amazon SES in eu-central-1, which signs it"

      assert.deepStrictEqual(says(yield* findingsOf(ses), "mail"), [ok, "warn nobody says what becomes of production mail: it stays sent"])
      const told = { ...ses, MAILROOM_SES_TOPICS: "arn:aws:sns:eu-central-1:123456789012:mail" }
      assert.deepStrictEqual(says(yield* findingsOf(told), "mail"), [ok])
    }).pipe(Effect.scoped)
  )

  it.live("asks clamd, and says when there is none", () =>
    Effect.gen(function* () {
      const { port } = yield* listening(() => {
        const answer = (bytes: Buffer) => (bytes.includes("VERSION") ? "ClamAV 1.4.3/27000\0" : "stream: OK\0")
        const server = createServer((socket) => socket.on("error", () => {}).on("data", (bytes) => socket.end(answer(bytes))))
        return { server, port: () => portOf(server.address()) }
      })
      const at = (place: string) => Effect.map(findingsOf({ ...complete, MAILROOM_SCANNER: "clamd", MAILROOM_CLAMD: place }), (found) => says(found, "scanner"))

      const careless = yield* at(`127.0.0.1:${port}`)
      assert.match(careless[0]!, /^ok clamd at 127\.0\.0\.1:\d+ answers: ClamAV 1\.4\.3/)
      assert.isAbove(careless.length, 1, "it calls everything OK")
      assert.match((yield* at("127.0.0.1:1"))[0]!, /^fail clamd at 127\.0\.0\.1:1: /)
    }).pipe(Effect.scoped)
  )

  it.live("looks at files: who may read secrets, and whether blobs can be written", () =>
    Effect.gen(function* () {
      const at = yield* folder
      const secret = join(at, "keys")
      writeFileSync(secret, `1:${key(1)}\n`)
      const { MAILROOM_SEALING_KEYS: _, ...rest } = complete
      const files = () => findingsOf({ ...rest, MAILROOM_SEALING_KEYS_FILE: secret, MAILROOM_BLOBS: join(at, "blobs/of/us") })

      chmodSync(secret, 0o600)
      assert.deepStrictEqual(says(yield* files(), "files"), [`ok MAILROOM_SEALING_KEYS_FILE: ${secret} is closed to others`])
      assert.deepStrictEqual(says(yield* files(), "blobs"), [`warn ${join(at, "blobs/of/us")} is not there yet`])
      mkdirSync(join(at, "blobs/of/us"), { recursive: true })
      assert.deepStrictEqual(says(yield* files(), "blobs"), [`ok ${join(at, "blobs/of/us")} can be written`])
      chmodSync(secret, 0o644)
      rmSync(join(at, "blobs"), { recursive: true })
      writeFileSync(join(at, "blobs"), "")
      assert.match(says(yield* files(), "files")[0]!, /^warn .* is open to every user/)
      assert.match(says(yield* files(), "blobs")[0]!, /^fail .* is no folder$/)
    }).pipe(Effect.scoped)
  )
})

describe("the disk of the blobs", () => {
  /** What is said of a folder on a disk of which the system tells this. */
  const on = (disk: Partial<StatsFs>) =>
    Effect.gen(function* () {
      const at = yield* folder
      const { statfs } = builtin
      const told = { blocks: 1_000_000, bavail: 900_000, bsize: 4096, files: 1_000, ffree: 900, ...disk }
      yield* Effect.acquireRelease(
        Effect.sync(() => (Object.assign(builtin, { statfs: () => Promise.resolve(told) }), syncBuiltinESMExports())),
        () => Effect.sync(() => (Object.assign(builtin, { statfs }), syncBuiltinESMExports()))
      )
      return (yield* findingsOf({ ...complete, MAILROOM_BLOBS: at })).filter(({ check }) => check === "blobs").map(({ status, message }) => `${status} ${message.replace(at, "it")}`)
    }).pipe(Effect.scoped)

  it.live("is one with room, for bytes and for files, or one that does not tell", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* on({}), ["ok it can be written"])
      assert.deepStrictEqual(yield* on({ bavail: 0 }), ["fail the disk of it has room for 0 MiB only"])
      assert.deepStrictEqual(yield* on({ bavail: 65_535 }), ["fail the disk of it has room for 255 MiB only"])
      assert.deepStrictEqual(yield* on({ bavail: 65_536 }), ["ok it can be written"])
      assert.deepStrictEqual(yield* on({ ffree: 0 }), ["fail the disk of it has no room for another file"])
      assert.deepStrictEqual(yield* on({ blocks: 0, bavail: 0, files: 0, ffree: 0 }), ["ok it can be written"])
    })
  )
})

describe("the certificate for mail that comes in", () => {
  const certified = Effect.fnUntraced(function* (host: string, days: number, since = -100) {
    const at = yield* folder
    const made = yield* Effect.promise(() =>
      generate([{ name: "commonName", value: host }], {
        algorithm: "sha256",
        notBeforeDate: new Date(Date.now() + since * 86_400_000 + 60_000),
        notAfterDate: new Date(Date.now() + days * 86_400_000 + 60_000),
        extensions: [{ name: "subjectAltName", altNames: [{ type: 2, value: host }] }]
      })
    )
    const files = { MAILROOM_INBOUND_TLS_CERT_FILE: join(at, "cert"), MAILROOM_INBOUND_TLS_KEY_FILE: join(at, "key") }
    writeFileSync(files.MAILROOM_INBOUND_TLS_CERT_FILE, made.cert)
    writeFileSync(files.MAILROOM_INBOUND_TLS_KEY_FILE, made.private, { mode: 0o600 })
    return { ...complete, ...files, MAILROOM_INBOUND_HOSTNAME: "in.example.net" }
  })
  const saidOf = (variables: Variables) => Effect.map(findingsOf(variables), (found) => says(found, "certificate"))

  it.live("is looked at for its host, its time and its key", () =>
    Effect.gen(function* () {
      const [early, good, late, past, other] = yield* Effect.all([
        certified("in.example.net", 60, 1),
        certified("in.example.net", 60),
        certified("in.example.net", 13),
        certified("in.example.net", -1),
        certified("mx.example.net", 60)
      ])
      const day = (days: number) => new Date(Date.now() + days * 86_400_000 + 60_000).toISOString().slice(0, 10)

      assert.deepStrictEqual(yield* saidOf(complete), [])
      assert.deepStrictEqual(yield* saidOf(early), [`fail it is valid from ${day(1)} on`])
      assert.deepStrictEqual(yield* saidOf(good), [`ok for in.example.net, until ${day(60)}`])
      assert.deepStrictEqual(yield* saidOf(late), [`warn it is valid until ${day(13)}`])
      assert.deepStrictEqual(yield* saidOf(past), [`fail it was valid until ${day(-1)}`])
      assert.deepStrictEqual(yield* saidOf(other), ["warn it is not for in.example.net"])
      assert.deepStrictEqual(says(yield* findingsOf(good), "files"), [
        `ok MAILROOM_INBOUND_TLS_KEY_FILE: ${good.MAILROOM_INBOUND_TLS_KEY_FILE} is closed to others`
      ])
      const [mixed] = yield* saidOf({ ...good, MAILROOM_INBOUND_TLS_KEY_FILE: other.MAILROOM_INBOUND_TLS_KEY_FILE })
      assert.match(mixed!, /^fail MAILROOM_INBOUND_TLS_CERT_FILE and MAILROOM_INBOUND_TLS_KEY_FILE: they are not a certificate and its key, both in PEM \(.*mismatch/)
      const wanted = "it wants the path of a file that is there, and that this user may read"
      const [gone] = yield* saidOf({ ...good, MAILROOM_INBOUND_TLS_CERT_FILE: "/nowhere" })
      assert.strictEqual(gone, `fail MAILROOM_INBOUND_TLS_CERT_FILE: no such file; ${wanted}`)
      const [folder] = yield* saidOf({ ...good, MAILROOM_INBOUND_TLS_KEY_FILE: "/" })
      assert.strictEqual(folder, `fail MAILROOM_INBOUND_TLS_KEY_FILE: is a folder; ${wanted}`)
    }).pipe(Effect.scoped)
  )
})

describe("mailroom doctor", () => {
  const doctor = (variables: Readonly<Record<string, string>>, ...flags: ReadonlyArray<string>) =>
    spawnSync(process.execPath, [join(import.meta.dirname, "../cli/main.ts"), "doctor", ...flags], {
      env: { PATH: process.env["PATH"], ...variables },
      encoding: "utf8"
    })

  it("prints a line for each finding and what to do, and ends with 1 when something is to mend", () => {
    const { status, stdout, stderr } = doctor(complete)

    assert.deepStrictEqual([status, stderr], [1, ""])
    assert.match(stdout, /^ok {4}settings {5}all in order, for production$/m)
    assert.match(stdout, /^FAIL {2}database {5}127\.0\.0\.1:1\/mailroom: .*\n +→ Start PostgreSQL/m)
    assert.match(stdout, /\n\d+ ok, \d+ to look at, 1 to mend\n$/)
  })

  it("prints JSON Lines with --json", () => {
    const { status, stdout } = doctor(complete, "--json")

    const findings = stdout.trim().split("\n").map((line): Finding => JSON.parse(line))
    assert.strictEqual(status, 1)
    assert.deepStrictEqual(findings[0], { check: "settings", status: "ok", message: "all in order, for production", advice: null })
  })
})
