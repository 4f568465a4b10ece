/**
 * The whole product over real sockets: HTTP in, mail out through a mail server
 * with TLS, authentication and DKIM, webhooks out to HTTPS receivers. What
 * arrives is parsed and verified by software that is not ours.
 */
import { assert, describe, it } from "@effect/vitest"
import { dkimVerify } from "mailauth/lib/dkim/verify.js"
import { simpleParser } from "mailparser"
import { generate } from "selfsigned"
import { SMTPServer } from "smtp-server"
import { spawn, spawnSync, type ChildProcess } from "node:child_process"
import { createHmac, generateKeyPairSync, randomBytes } from "node:crypto"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { createServer as createHttpsServer, type Server } from "node:https"
import type { IncomingHttpHeaders } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { buffer } from "node:stream/consumers"
import { afterAll, beforeAll } from "vitest"
import { Mailroom, verifyWebhook, webhookChallenge } from "../../client/index.ts"
import type { DevFile } from "./DataFolder.ts"

const cli = join(import.meta.dirname, "../cli/main.ts")
const folder = mkdtempSync(join(tmpdir(), "mailroom-end-to-end-"))
const inFolder = (name: string, content: string) => {
  const file = join(folder, name)
  writeFileSync(file, content, { mode: 0o600 })
  return file
}

const cleanUps: Array<() => unknown> = [() => rmSync(folder, { recursive: true, force: true })]
afterAll(async () => {
  for (const cleanUp of cleanUps.toReversed()) await cleanUp()
})

/** Waits for what processes and sockets bring about; fails if they do not. */
const until = async <A>(what: string, look: () => A | Promise<A>): Promise<NonNullable<A>> => {
  for (const end = Date.now() + 60_000; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 15))) {
    const seen = await look()
    if (seen !== null && seen !== undefined && seen !== false) return seen
  }
  return assert.fail(`in 60 seconds there was no ${what}`)
}

const portOf = (server: { readonly address: () => AddressInfo | string | null }) => (server.address() as AddressInfo).port // it listens

interface Taken {
  readonly from: string
  readonly to: ReadonlyArray<string>
  readonly user: string | undefined
  readonly isEncrypted: boolean
  readonly bytes: Buffer
}

interface Got {
  readonly type: string
  readonly id: string
  readonly data: { readonly id: string }
}

interface Receiver {
  readonly url: string
  readonly events: Array<Got>
  readonly refusals: Array<string>
  secret: string
  /** Instead of 204. */
  status: number
}

const mails: Array<Taken> = []
const dkim = generateKeyPairSync("rsa", { modulusLength: 2048, publicKeyEncoding: { type: "spki", format: "der" }, privateKeyEncoding: { type: "pkcs8", format: "pem" } })
let process_: ChildProcess
let devFile: DevFile & { readonly production: { readonly apiKey: string } }
let receive: (verify: (headers: IncomingHttpHeaders, body: Buffer, secret: string) => Promise<Got>) => Promise<Receiver>

beforeAll(async () => {
  const ca = await generate([{ name: "commonName", value: "Test CA" }], {
    keySize: 2048,
    algorithm: "sha256",
    extensions: [
      { name: "basicConstraints", cA: true, critical: true },
      { name: "keyUsage", keyCertSign: true, cRLSign: true, critical: true }
    ]
  })
  const leaf = await generate([{ name: "commonName", value: "localhost" }], {
    keySize: 2048,
    algorithm: "sha256",
    ca: { key: ca.private, cert: ca.cert },
    extensions: [{ name: "subjectAltName", altNames: [{ type: 2, value: "localhost" }] }]
  })
  const tls = { key: leaf.private, cert: leaf.cert }

  const smtp = new SMTPServer({
    ...tls,
    authMethods: ["PLAIN"],
    onAuth: ({ username, password }, _, done) =>
      password === "difference engine" ? done(null, { user: username }) : done(new Error("no")),
    onData: (stream, session, done) => {
      void buffer(stream).then((bytes) => {
        const { mailFrom, rcptTo } = session.envelope
        mails.push({
          from: mailFrom === false ? "" : mailFrom.address,
          to: rcptTo.map(({ address }) => address),
          user: session.user as string | undefined, // what onAuth gave
          isEncrypted: session.secure,
          bytes
        })
        done()
      })
    }
  })
  await new Promise<void>((resolve) => smtp.listen(0, "127.0.0.1", resolve))
  cleanUps.push(() => new Promise<void>((resolve) => smtp.close(resolve)))

  receive = async (verify) => {
    const state: { -readonly [K in keyof Receiver]: Receiver[K] } = { url: "", events: [], refusals: [], secret: "", status: 204 }
    const server: Server = createHttpsServer(tls, (request, response) => {
      void buffer(request).then(async (body) => {
        const challenge = state.secret === "" ? webhookChallenge(body) : null
        if (challenge !== null) {
          assert.isUndefined(request.headers["service-webhook-signature"])
          return response.writeHead(200).end(JSON.stringify(challenge))
        }
        try {
          const got = await verify(request.headers, body, state.secret)
          if (state.status === 204) state.events.push(got)
          return response.writeHead(state.status).end("nobody reads this")
        } catch (error) {
          state.refusals.push(String(error))
          return response.writeHead(401).end()
        }
      })
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    cleanUps.push(() => {
      server.closeAllConnections()
      server.close()
    })
    state.url = `https://localhost:${portOf(server)}/hook`
    return state
  }

  const caFile = inFolder("ca.pem", ca.cert)
  const keys = [{ domain: "mail.example", selector: "engine", privateKey: dkim.privateKey }]
  const child = spawn(process.execPath, [cli, "dev", "--data", join(folder, "data"), "--port", "0"], {
    env: {
      ...process.env,
      NODE_EXTRA_CA_CERTS: caFile,
      MAILROOM_DEV_DOMAIN: "mail.example",
      MAILROOM_SMTP_HOST: "localhost",
      MAILROOM_SMTP_PORT: String(portOf(smtp.server)),
      MAILROOM_SMTP_USER: "ada",
      MAILROOM_SMTP_PASSWORD: "difference engine",
      MAILROOM_SMTP_CA_FILE: caFile,
      MAILROOM_DKIM_FILE: inFolder("dkim.json", JSON.stringify(keys)),
      MAILROOM_WEBHOOK_BACKOFF: "0"
    },
    stdio: ["ignore", "pipe", "pipe"]
  })
  process_ = child
  cleanUps.push(() => child.kill("SIGKILL"))
  let output = ""
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (output += chunk.toString()))
  devFile = await until("banner", () => {
    if (child.exitCode !== null) assert.fail(output)
    return output.includes("line by line") ? JSON.parse(readFileSync(join(folder, "data/dev.json"), "utf8")) : null
  })
}, 120_000)

const sandbox = () => new Mailroom({ baseUrl: devFile.baseUrl, apiKey: devFile.apiKey })
const production = () => new Mailroom({ baseUrl: devFile.baseUrl, apiKey: devFile.production.apiKey })

/** By the client's helper. */
const byClient = async (headers: IncomingHttpHeaders, body: Buffer, secret: string): Promise<Got> =>
  (await verifyWebhook({ headers, body, secret })) as unknown as Got // the members that the test reads

/** By the words of the specification. */
const byHand = (headers: IncomingHttpHeaders, body: Buffer, secret: string): Promise<Got> => {
  const [id, at, signature] = ["id", "timestamp", "signature"].map((name) => String(headers[`service-webhook-${name}`]))
  const mac = createHmac("sha256", secret).update(`${id}.${at}.`).update(body).digest("hex")
  if (signature !== `v1=${mac}`) return Promise.reject(new Error(`${signature} is not v1=${mac}`))
  if (Math.abs(Date.now() / 1000 - Number(at)) > 300) return Promise.reject(new Error("old"))
  assert.strictEqual(headers["content-type"], "application/json")
  assert.strictEqual(headers["user-agent"], "Service-Webhooks/1.0")
  const event = JSON.parse(body.toString("utf8"))
  assert.hasAllKeys(event, ["id", "type", "apiVersion", "occurredAt", "data"])
  assert.deepStrictEqual([event.id, event.apiVersion], [id, "2026-12-01"])
  return Promise.resolve(event)
}

const subscribe = async (client: Mailroom, receiver: Receiver, eventTypes: ["*" | "message.sent" | "message.queued"]) => {
  const { endpoint, secret } = await client.createWebhookEndpoint({ url: receiver.url, eventTypes })
  assert.match(secret, /^whsec_/)
  receiver.secret = secret
  return endpoint
}

const typesAbout = ({ events }: Receiver, id: string) => events.filter(({ data }) => data.id === id).map(({ type }) => type)

describe("the whole product", () => {
  it("takes a message over HTTP, mails it signed and encrypted, and tells receivers that verify", { timeout: 120_000 }, async () => {
    const client = production()
    const [all, some] = [await receive(byClient), await receive(byHand)]
    await subscribe(client, all, ["*"])
    await subscribe(client, some, ["message.sent"])
    const mailboxId = devFile.mailboxes[0]!.id
    const content = new Uint8Array(100_000).map((_, index) => index * 7)
    const { attachment } = await client.uploadAttachment({ mailboxId, filename: "Übersicht.bin", mediaType: "application/octet-stream", content })
    const text = "The engine weaves.\n.\n..\nFrom the machine: Grüße ✓\n"

    const { id } = await client.sendMessage({
      fromMailboxId: mailboxId,
      to: ["charles@example.com"],
      cc: ["mary@example.org"],
      bcc: ["secret@example.net"],
      subject: "Note G – Grüße",
      text,
      html: "<p>The engine <b>weaves</b>.</p>",
      attachmentIds: [attachment.id]
    })

    // Mail: the envelope, the parts, the signature.
    const mail = await until("mail", () => mails[0])
    assert.deepStrictEqual([mail.from, mail.user, mail.isEncrypted], [devFile.mailboxes[0]!.address, "ada", true])
    assert.sameMembers([...mail.to], ["charles@example.com", "mary@example.org", "secret@example.net"])
    assert.notInclude(mail.bytes.toString("latin1"), "secret@example.net")
    const parsed = await simpleParser(mail.bytes)
    assert.strictEqual(parsed.subject, "Note G – Grüße")
    assert.strictEqual(parsed.text?.replaceAll("\r\n", "\n").trimEnd(), text.trimEnd())
    assert.include(String(parsed.html), "<b>weaves</b>")
    assert.deepStrictEqual(parsed.attachments.map(({ filename }) => filename), ["Übersicht.bin"])
    assert.isTrue(parsed.attachments[0]!.content.equals(content))
    const resolver = async (name: string) =>
      name === "engine._domainkey.mail.example" ? [[`v=DKIM1; k=rsa; p=${dkim.publicKey.toString("base64")}`]] : []
    const { results } = await dkimVerify(mail.bytes, { resolver })
    assert.deepStrictEqual(results.map(({ status, signingDomain }) => [status.result, signingDomain]), [["pass", "mail.example"]])
    const forged = Buffer.from(mail.bytes.toString("latin1").replace("Subject: ", "Subject: Not "), "latin1")
    assert.notStrictEqual((await dkimVerify(forged, { resolver })).results[0]?.status.result, "pass")

    // Webhooks: each once, and each verified.
    await until("message.sent at both", () => typesAbout(all, id).length === 2 && typesAbout(some, id).length === 1)
    assert.deepStrictEqual(typesAbout(all, id).toSorted(), ["message.queued", "message.sent"])
    assert.deepStrictEqual(typesAbout(some, id), ["message.sent"])
    assert.deepStrictEqual([all.refusals, some.refusals], [[], []])
    const { items } = await until("end of deliveries", async () => {
      const page = await client.listWebhookDeliveries()
      return page.items.every(({ status }) => status === "delivered") ? page : null
    })
    assert.lengthOf(items, 3)

    // Events: the same, paged one by one to null.
    const seen: Array<string> = []
    for await (const page of client.events.pages({ limit: 1 })) seen.push(...page.items.map((event) => event.id))
    assert.includeMembers(seen, all.events.map((event) => event.id))
    assert.strictEqual(new Set(seen).size, seen.length)

    assert.deepInclude((await client.getMessage(id)).message, { status: "sent", subject: "Note G – Grüße" })
    assert.lengthOf(mails, 1)
  })

  it("sends no sandbox mail to the mail server", { timeout: 120_000 }, async () => {
    const client = sandbox()
    const before = mails.length

    const { id } = await client.sendMessage({ fromMailboxId: devFile.mailboxes[0]!.id, to: ["charles@example.com"], text: "x" })
    await until("delivery in the sandbox", async () => (await client.getMessage(id)).message.status === "delivered")

    assert.lengthOf(mails, before)
  })

  it("shows a failing receiver each attempt, gives up after five, replays, and disables it after ten", { timeout: 120_000 }, async () => {
    const client = sandbox()
    const receiver = await receive(byHand)
    const endpoint = await subscribe(client, receiver, ["message.queued"])
    const send = async () =>
      (await client.sendMessage({ fromMailboxId: devFile.mailboxes[0]!.id, to: ["charles@example.com"], text: "x" })).id
    const deliveries = async () => (await client.listWebhookDeliveries({ endpointId: endpoint.id })).items
    const dead = () => until("dead delivery", async () => (await deliveries()).find(({ status }) => status === "dead"))

    receiver.status = 500
    const first = await send()
    const { id, attempts, lastError, lastResponseStatus } = await dead()
    assert.deepStrictEqual(attempts.map(({ number, round, outcome, responseStatus }) => [number, round, outcome, responseStatus]),
      [1, 2, 3, 4, 5].map((number) => [number, 1, "http_error", 500]))
    assert.deepStrictEqual([lastError, lastResponseStatus], ["http_error", 500])

    receiver.status = 204
    const { delivery } = await client.replayWebhookDelivery(id)
    assert.deepInclude(delivery, { id, status: "pending", trigger: "replay", attemptCount: 0 })
    await until("replayed delivery", async () => (await deliveries())[0]?.status === "delivered")
    assert.deepStrictEqual(typesAbout(receiver, first), ["message.queued"])
    assert.lengthOf((await deliveries())[0]!.attempts, 6)

    receiver.status = 500
    await send()
    await send()
    const disabled = await until("disabled endpoint", async () => (await client.listWebhookEndpoints()).items.find((one) => one.id === endpoint.id && !one.enabled))
    assert.deepInclude(disabled, { enabled: false, consecutiveFailures: 10 })
    assert.isString(disabled.disabledAt)
    const refused = await client.replayWebhookDelivery(id).catch((error: unknown) => error)
    assert.deepInclude(refused, { status: 409, code: "endpoint_disabled" })
    assert.deepStrictEqual(receiver.refusals, [])
  })

  it("ends when it is told to, and leaves nothing behind", { timeout: 120_000 }, async () => {
    process_.kill("SIGTERM")

    assert.strictEqual(await until("end", () => (process_.exitCode === null ? null : { code: process_.exitCode })).then(({ code }) => code), 0)
  })

  it("does not begin again with other keys, with which no webhook could be signed", { timeout: 120_000 }, () => {
    const [data, others] = [join(folder, "data"), randomBytes(32).toString("base64")]
    const again = (variables: Readonly<Record<string, string>>) =>
      spawnSync(process.execPath, [cli, "dev", "--data", data, "--port", "0"], { env: { ...process.env, ...variables }, encoding: "utf8" })
    const refusal = (keys: string) =>
      `mailroom: the keys in ${keys} do not open what the database has sealed: it was used with others. Give those back (as ${join(data, "keys.json")}, or as MAILROOM_SEALING_KEYS); or, to start anew, name another database or remove what is in this one\n`

    const set = again({ MAILROOM_SEALING_KEYS: `1:${others}` })
    assert.deepStrictEqual([set.status, set.stderr], [1, refusal("MAILROOM_SEALING_KEYS")])
    writeFileSync(join(data, "keys.json"), JSON.stringify({ sealingKeys: [{ version: 1, key: others }] }))
    const written = again({})
    assert.deepStrictEqual([written.status, written.stderr], [1, refusal(join(data, "keys.json"))])
  })
})
