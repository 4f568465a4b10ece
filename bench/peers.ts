/**
 * Servers that are not ours, over loopback. Mail to and from them: `dev` beside
 * a Postfix of this machine in a folder of its own, swaks as a client, and a
 * server at the end that keeps what it gets. And proxies before `serve`.
 * What is missing is installed from Debian's packages; Postfix wants root.
 */
import { Effect, Exit, Scope } from "effect"
import { execFileSync, spawn, spawnSync } from "node:child_process"
import { generateKeyPairSync } from "node:crypto"
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { dkimVerify } from "mailauth/lib/dkim/verify.js"
import { generate } from "selfsigned"
import { freePort } from "../adapters/redis/PrivateRedis.ts"
import * as ScriptedServer from "../adapters/smtp/ScriptedServer.ts"
import { Mailroom } from "../client/index.ts"
import type { DevFile } from "../runtimes/dev/DataFolder.ts"
import { behindProxies } from "./Proxies.ts"
import * as Postfix from "./reference/Postfix.ts"

const isThere = (program: string, ...more: ReadonlyArray<string>): boolean => spawnSync(program, more, { stdio: "ignore" }).status === 0

const install = (packages: ReadonlyArray<string>): boolean => {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" }
  const run = (...words: ReadonlyArray<string>) => spawnSync("apt-get", words, { env, stdio: "ignore" }).status === 0
  return run("update") && run("install", "-y", "--no-install-recommends", ...packages)
}

const needed: Readonly<Record<string, () => boolean>> = {
  "swaks": () => isThere("swaks", "--version"),
  // Without it swaks knows no TLS; it is only recommended to it.
  "libnet-ssleay-perl": () => isThere("perl", "-MNet::SSLeay", "-e", "1"),
  "postfix": () => isThere("postconf", "-d", "mail_version"),
  "nginx": () => isThere("nginx", "-v"),
  "haproxy": () => isThere("haproxy", "-v")
}
const missing = Object.keys(needed).filter((name) => !needed[name]!()) // its own keys
if (missing.length > 0 && !install(missing)) {
  console.error(`There is no ${missing.join(", no ")} here, and it cannot be installed. On Debian: apt-get install ${missing.join(" ")}`)
  process.exit(2)
}
const hasDkimPy = () => spawnSync("/usr/bin/python3", ["-c", "import dkim"], { stdio: "ignore" }).status === 0
const dkimPy = hasDkimPy() || (install(["python3-dkim"]) && hasDkimPy())

const folder = mkdtempSync(join(tmpdir(), "mailroom-peers-"))
const scope = Scope.makeUnsafe()
const cleanUps: Array<() => void> = [() => rmSync(folder, { recursive: true, force: true })]
const failures: Array<string> = []
const row = (isRight: boolean, what: string, detail = "") => {
  if (!isRight) failures.push(what)
  console.log(`${isRight ? "ok    " : "WRONG "} ${what}${detail === "" ? "" : `: ${detail}`}`)
}
const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds))
const until = async <A>(what: string, look: () => A | null | Promise<A | null>): Promise<A> => {
  for (const end = Date.now() + 90_000; Date.now() < end; await pause(50)) {
    const seen = await look()
    if (seen !== null) return seen
  }
  throw new Error(`there was no ${what}`)
}
const inFolder = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text, { mode: 0o600 })
  return join(folder, name)
}

const filesIn = (path: string): ReadonlyArray<string> =>
  readdirSync(path).flatMap((name) => (statSync(join(path, name)).isDirectory() ? filesIn(join(path, name)) : [join(path, name)]))

/** Whatever the product keeps, a character for a byte. */
const blobs = () => filesIn(join(folder, "data/blobs")).map((file) => readFileSync(file, "latin1"))

/** What came between DATA and the dot. */
const unstuffed = (text: string): string => text.replace(/^\./gm, "")

const { privateKey, publicKey } = generateKeyPairSync("rsa", {
  modulusLength: 2_048,
  publicKeyEncoding: { type: "spki", format: "der" },
  privateKeyEncoding: { type: "pkcs8", format: "pem" }
})
const keyRecord = `v=DKIM1; k=rsa; p=${publicKey.toString("base64")}`

const byDkimPy = (message: string): boolean =>
  spawnSync(
    "/usr/bin/python3",
    ["-c", "import dkim,sys,os\nsys.exit(0 if dkim.verify(sys.stdin.buffer.read(), dnsfunc=lambda name, timeout=5: os.environ['RECORD'].encode()) else 1)"],
    { input: Buffer.from(message, "latin1"), env: { ...process.env, RECORD: keyRecord } }
  ).status === 0

/** A mail server is configured, so there is one. */
type Production = { readonly production: { readonly apiKey: string } }

const start = async () => {
  const refused = "refused@sink.example"
  const sink = await Effect.runPromise(
    Scope.provide(
      ScriptedServer.start(({ place, argument }) => (place === "RCPT" && argument.includes(refused) ? { say: "550 5.1.1 no such user here\r\n" } : null)),
      scope
    )
  )
  const inboundPort = await freePort()
  const ours = ["mail.example", "bounces.example"].map((domain) => `{ ${domain} = smtp:[127.0.0.1]:${inboundPort} }`).join(" ")
  const postfix = await Postfix.open(sink.port, {
    transport_maps: `inline:{ ${ours} }`,
    smtp_tls_security_level: "may",
    minimal_backoff_time: "2s",
    queue_run_delay: "2s",
    message_size_limit: "52428800"
  })
  cleanUps.push(postfix.stop)
  const certificate = await generate([{ name: "commonName", value: "mx.mail.example" }])
  const child = spawn(process.execPath, [join(import.meta.dirname, "../runtimes/cli/main.ts"), "dev", "--data", join(folder, "data"), "--port", "0"], {
    env: {
      ...process.env,
      MAILROOM_DEV_DOMAIN: "mail.example",
      MAILROOM_BOUNCE_DOMAIN: "bounces.example",
      MAILROOM_SMTP_HOST: "127.0.0.1",
      MAILROOM_SMTP_PORT: String(postfix.port),
      MAILROOM_SMTP_TLS: "none",
      MAILROOM_DKIM_FILE: inFolder("dkim.json", JSON.stringify([{ domain: "mail.example", selector: "engine", privateKey }])),
      MAILROOM_INBOUND_PORT: String(inboundPort),
      MAILROOM_INBOUND_HOSTNAME: "mx.mail.example",
      MAILROOM_INBOUND_TLS_CERT_FILE: inFolder("cert.pem", certificate.cert),
      MAILROOM_INBOUND_TLS_KEY_FILE: inFolder("key.pem", certificate.private)
    },
    stdio: ["ignore", "pipe", "pipe"]
  })
  cleanUps.push(() => child.kill("SIGKILL"))
  let output = ""
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (output += chunk.toString()))
  const devFile = await until("banner", () => {
    if (child.exitCode !== null) throw new Error(output)
    return output.includes("line by line") ? (JSON.parse(readFileSync(join(folder, "data/dev.json"), "utf8")) as DevFile & Production) : null // as documented
  })
  const clientOf = (apiKey: string) => new Mailroom({ baseUrl: devFile.baseUrl, apiKey })
  return {
    sink,
    postfix,
    inboundPort,
    refused,
    mailbox: devFile.mailboxes[0]!, // it has two
    sandbox: clientOf(devFile.apiKey),
    production: clientOf(devFile.production.apiKey)
  }
}

type World = Awaited<ReturnType<typeof start>>

/** With an attachment of all bytes, UTF-8 in header and text, and lines that begin with dots. */
const letter = (subject: string): string =>
  [
    "From: =?UTF-8?Q?Ada_L=C3=B6velace?= <ada@client.example>",
    "To: hello@mail.example",
    "Date: Thu, 01 Jan 2026 00:00:00 +0000",
    `Message-ID: <${subject.replaceAll(" ", "-")}@client.example>`,
    `Subject: ${subject}`,
    "MIME-Version: 1.0",
    "Content-Type: multipart/mixed; boundary=b",
    "",
    "--b",
    "Content-Type: text/plain; charset=utf-8",
    "Content-Transfer-Encoding: 8bit",
    "",
    ".",
    "..",
    ".Grüße ✓",
    "--b",
    "Content-Type: application/octet-stream; name=\"all.bin\"",
    "Content-Transfer-Encoding: base64",
    "Content-Disposition: attachment; filename=\"all.bin\"",
    "",
    Buffer.from(Array.from({ length: 256 }, (_, index) => index)).toString("base64").replace(/.{76}/g, "$&\n"),
    "--b--",
    ""
  ].join("\n")

/** Byte for byte behind what servers on the way put before it, and understood. */
const arrives = async ({ sandbox }: World, what: string, subject: string, wire: string) => {
  const { id } = await until(what, async () => (await sandbox.listMessages({ limit: 100 })).items.find((one) => one.subject === subject) ?? null)
  row(blobs().some((blob) => blob.endsWith(wire)), `${what}, byte for byte`)
  const message = await until(`${what} that is parsed`, async () => {
    const { message } = await sandbox.getMessage(id)
    return message.attachments.length > 0 ? message : null
  })
  row(message.text === ".\n..\n.Grüße ✓" || message.text === ".\n..\n.Grüße ✓\n", `${what}, its text`, JSON.stringify(message.text))
  row(message.attachments.length === 1 && message.attachments[0]?.sizeBytes === 256, `${what}, its attachment`)
}

const bySwaks = (port: number, file: string, ...more: ReadonlyArray<string>) =>
  execFileSync("swaks", ["--server", `127.0.0.1:${port}`, "--helo", "client.example", "--from", "ada@client.example", "--to", "hello@mail.example", "--data", `@${file}`, ...more], {
    encoding: "utf8"
  })

const inbound = async (world: World) => {
  const ways = [
    ["mail by swaks", world.inboundPort, []],
    ["mail by swaks, with STARTTLS", world.inboundPort, ["--tls"]],
    ["mail by Postfix, with STARTTLS", world.postfix.port, []]
  ] as const
  for (const [what, port, more] of ways) {
    const text = letter(what.replaceAll(",", ""))
    const said = bySwaks(port, inFolder("letter.eml", text.slice(0, -1)), ...more) // swaks ends the last line
    if (more.length > 0) row(said.includes("TLS started"), `${what}, encrypted`)
    await arrives(world, what, what.replaceAll(",", ""), Buffer.from(text.replaceAll("\n", "\r\n")).toString("latin1"))
  }
  row(blobs().some((blob) => /^Received: from relay\.bench\.example[^]{0,200}with ESMTPS/.test(blob)), "Postfix used STARTTLS")
  const relayed = spawnSync("swaks", ["--server", `127.0.0.1:${world.inboundPort}`, "--from", "ada@client.example", "--to", "somebody@else.example"], { encoding: "utf8" })
  row(/550 5\.7\.1/.test(relayed.stdout), "mail for others is refused to swaks")
}

/** All messages at the sink. */
const kept = async ({ sink }: World): Promise<ReadonlyArray<string>> =>
  (await Effect.runPromise(sink.conversations)).flatMap(({ messages }) => messages).map(unstuffed)

const outbound = async (world: World) => {
  const { production, mailbox } = world
  const content = Uint8Array.from({ length: 100_000 }, (_, index) => index * 7)
  const { attachment } = await production.uploadAttachment({ mailboxId: mailbox.id, filename: "Übersicht.bin", mediaType: "application/octet-stream", content })
  await production.sendMessage({ fromMailboxId: mailbox.id, to: ["charles@sink.example"], subject: "Note G – Grüße", text: ".\n..\nGrüße ✓\n", attachmentIds: [attachment.id] })
  const [message = ""] = await until("mail at the sink", async () => {
    const all = await kept(world)
    return all.length > 0 ? all : null
  })
  row(blobs().some((blob) => blob.length > 100_000 && message.endsWith(blob)), "mail through Postfix, byte for byte")
  const { results } = await dkimVerify(Buffer.from(message, "latin1"), {
    resolver: (name: string) => Promise.resolve(name === "engine._domainkey.mail.example" ? [[keyRecord]] : [])
  })
  row(results.length === 1 && results[0]?.status.result === "pass", "its DKIM signature, says mailauth", String(results[0]?.status.result))
  if (dkimPy) {
    row(byDkimPy(message), "its DKIM signature, says dkimpy")
    row(!byDkimPy(message.replace("Subject: ", "Subject: Not ")), "a changed subject, says dkimpy")
  } else console.log("       dkimpy is not here, and cannot be installed")
}

const bounce = async ({ production, mailbox, refused }: World) => {
  const { id } = await production.sendMessage({ fromMailboxId: mailbox.id, to: [refused], subject: "to nobody", text: "x" })
  const message = await until("bounce", async () => {
    const { message } = await production.getMessage(id)
    return message.recipients[0]?.status === "bounced" ? message : null
  })
  const [recipient] = message.recipients
  row(recipient?.bounceClass === "permanent" && recipient.enhancedCode === "5.1.1", "a bounce by Postfix", `${recipient?.bounceClass} ${recipient?.smtpCode} ${recipient?.enhancedCode}`)
  const { items } = await production.listEvents({ limit: 100 })
  row(items.filter(({ type, data }) => type === "message.bounced" && "id" in data && data.id === id).length === 1, "message.bounced, once")
}

const tricks = ["\n.\n", "\n.\r", "\r.\n", "\r.\r", "\n.\r\n", "\r.\r\n", "\r\n.\n", "\r\n.\r", "\r\n.\r\r\n", "\r\r\n.\r\r\n", "\r\n.\r\n"]

const smuggling = async (world: World) => {
  const { production, mailbox } = world
  const before = (await kept(world)).length
  for (const trick of tricks) {
    const text = `one${trick}MAIL FROM:<evil@mail.example>\r\nRCPT TO:<victim@sink.example>\r\nDATA\r\nSubject: smuggled\r\n\r\nx\r\n.\r\n`
    await production.sendMessage({ fromMailboxId: mailbox.id, to: ["charles@sink.example"], subject: "one", text })
  }
  await until("mails of all tricks", async () => ((await kept(world)).length >= before + tricks.length && !world.postfix.isBusy() ? true : null))
  await pause(1_000)
  const commands = (await Effect.runPromise(world.sink.conversations)).flatMap((one) => one.commands)
  row((await kept(world)).length === before + tricks.length, "each trick in a text is one message", `${tricks.length} texts`)
  row(!commands.some((command) => /evil|victim/.test(command)), "no trick becomes a command")
}

try {
  const world = await start()
  for (const part of [inbound, outbound, bounce, smuggling]) {
    await part(world).catch((error: unknown) => row(false, part.name, error instanceof Error ? error.message : String(error)))
  }
  await behindProxies(row)
} finally {
  await Effect.runPromise(Scope.close(scope, Exit.void))
  for (const cleanUp of cleanUps.reverse()) cleanUp()
}
console.log(failures.length === 0 ? "as it ought to be" : `${failures.length} WRONG`)
process.exit(failures.length === 0 ? 0 : 1)
