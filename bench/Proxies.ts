/**
 * Proxies of this machine before two processes of `serve`, as docs/deploy.md
 * shows them: one process after the other is restarted under load, clients come
 * from two addresses and name a third, and a file is as large as one may be.
 */
import { spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { Agent, request } from "node:https"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { generate } from "selfsigned"
import { freePort } from "../adapters/redis/PrivateRedis.ts"
import { kilobyte, letter, sleep } from "./Api.ts"
import { ready } from "./Cluster.ts"
import { connected } from "./Copies.ts"
import * as Deployment from "./Deployment.ts"
import { blockOf } from "./Documented.ts"

type Row = (isRight: boolean, what: string, detail?: string) => void

/** What is documented for a port and a place that are not to be had here. */
interface Place {
  readonly port: number
  readonly certificate: string
  readonly key: string
  readonly both: string
}

interface Proxy {
  readonly name: string
  readonly replacements: (place: Place) => ReadonlyArray<readonly [documented: string, here: string]>
  /** The whole configuration: what is documented may be a part of it. */
  readonly whole: (text: string, folder: string) => string
  readonly command: (config: string) => readonly [program: string, ...parameters: ReadonlyArray<string>]
}

const proxies: ReadonlyArray<Proxy> = [
  {
    name: "nginx",
    replacements: ({ port, certificate, key }) => [
      ["listen 443 ssl", `listen 127.0.0.1:${port} ssl`],
      ["/etc/nginx/tls-cert.pem", certificate],
      ["/etc/nginx/tls-key.pem", key]
    ],
    whole: (text, folder) => {
      const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((kind) => `${kind}_temp_path ${join(folder, kind)};`)
      return `user root;\ndaemon off;\npid ${join(folder, "pid")};\nevents {}\nhttp {\naccess_log off;\n${temporary.join("\n")}\n${text}}\n`
    },
    command: (config) => ["nginx", "-e", "stderr", "-c", config]
  },
  {
    name: "haproxy",
    replacements: ({ port, both }) => [
      ["bind :443 ssl", `bind 127.0.0.1:${port} ssl`],
      ["/etc/haproxy/mail.example.com.pem", both]
    ],
    whole: (text) => text,
    command: (config) => ["haproxy", "-db", "-f", config]
  }
]

interface Answer {
  readonly status: number
  readonly type: string
}

/** Over connections that are kept, from an address of its own, and with somebody else's word for another. */
const clientAt = (localAddress: string, port: number, apiKey: string) => {
  const agent = new Agent({ keepAlive: true, localAddress, rejectUnauthorized: false })
  const ask = (method: string, path: string, body?: string): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const headers = {
        "authorization": `Bearer ${apiKey}`,
        "x-forwarded-for": "192.0.2.1",
        ...(body === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(body), "idempotency-key": randomUUID() })
      }
      const asked = request({ host: "127.0.0.1", port, method, path, agent, headers }, (response) => {
        response.resume()
        response.once("error", reject)
        response.once("end", () => resolve({ status: response.statusCode ?? 0, type: response.headers["content-type"] ?? "" }))
      })
      asked.once("error", reject)
      asked.end(body)
    })
  return { ask, close: () => agent.destroy() }
}

const start = async ({ name, replacements, whole, command }: Proxy, upstreams: ReadonlyArray<string>) => {
  const folder = mkdtempSync(join(tmpdir(), `mailroom-${name}-`))
  const inFolder = (file: string, text: string): string => {
    writeFileSync(join(folder, file), text, { mode: 0o600 })
    return join(folder, file)
  }
  const port = await freePort()
  const { cert, private: key } = await generate([{ name: "commonName", value: "mail.example.com" }])
  const place = { port, certificate: inFolder("cert.pem", cert), key: inFolder("key.pem", key), both: inFolder("both.pem", `${cert}\n${key}`) }
  const all = [...upstreams.map((host, index) => [`127.0.0.1:${3025 + index}`, host] as const), ...replacements(place)]
  const text = all.reduce((text, [documented, here]) => {
    if (text.split(documented).length !== 2) throw new Error(`docs/deploy.md has not one ${documented}:\n${text}`)
    return text.replace(documented, here)
  }, blockOf(name))
  const [program, ...parameters] = command(inFolder("config", whole(text, folder)))
  const child = spawn(program, parameters, { stdio: ["ignore", "ignore", "pipe"] })
  let said = ""
  child.stderr.on("data", (chunk: Buffer) => (said += chunk.toString()))
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()))
  process.once("exit", () => child.kill())
  return {
    port,
    /** What it said last, once it has ended by itself; else null. */
    failure: () => (child.exitCode === null ? null : said),
    stop: async () => {
      child.kill("SIGTERM")
      await ended
      rmSync(folder, { recursive: true, force: true })
    }
  }
}

const largest = 25 * 1024 * 1024

const behind = async (proxy: Proxy, addresses: ReadonlyArray<string>, { cluster, sandbox }: Deployment.Deployment, row: Row): Promise<void> => {
  const { port, failure, stop } = await start(proxy, cluster.baseUrls.map((url) => new URL(url).host))
  const clients = addresses.map((address) => clientAt(address, port, sandbox.apiKey))
  const { ask } = clients[0]!
  try {
    for (let waited = 0; (await ask("GET", "/healthz").catch(() => null))?.status !== 200; waited += 50) {
      if (waited > 30_000 || failure() !== null) throw new Error(`${proxy.name} does not answer: ${failure()}`)
      await sleep(50)
    }

    const body = JSON.stringify(letter(sandbox, kilobyte))
    const answers = new Map<string, number>()
    const over = new AbortController()
    const loads = clients.flatMap((client) =>
      Array.from({ length: 8 }, async () => {
        while (!over.signal.aborted) {
          for (const [method, path, content] of [["POST", "/v1/messages", body], ["GET", "/v1/mailboxes"]] as const) {
            const outcome = await client.ask(method, path, content).then(({ status }) => `${method} ${status}`, (error: unknown) => `${method} ${String(error)}`)
            answers.set(outcome, (answers.get(outcome) ?? 0) + 1)
          }
        }
      })
    )
    for (const [index, one] of [...cluster.serves, ...cluster.serves].entries()) {
      await sleep(500)
      const before = one.pid
      one.kill("SIGTERM")
      while (one.pid === before || one.pid === null) await sleep(20)
      await ready(cluster.baseUrls[index % cluster.serves.length]!, one)
    }
    over.abort()
    await Promise.all(loads)
    const isRight = [...answers.keys()].toSorted().join() === "GET 200,POST 202"
    const counts = [...answers].map(([outcome, count]) => `${outcome} × ${count}`).join(", ")
    row(isRight, `behind ${proxy.name} each of two is restarted twice, and no request is refused`, counts)

    const file = (bytes: number) =>
      JSON.stringify({ mailboxId: sandbox.mailboxId, filename: "a.bin", mediaType: "application/octet-stream", contentBase64: Buffer.alloc(bytes).toString("base64") })
    const [taken, refused] = [await ask("POST", "/v1/attachments", file(largest)), await ask("POST", "/v1/attachments", file(largest + 1))]
    row(taken.status === 201, `behind ${proxy.name} the largest file is taken`, String(taken.status))
    row(refused.status === 413 && refused.type.startsWith("application/json"), `behind ${proxy.name} a larger one has our own refusal`, `${refused.status} ${refused.type}`)
  } finally {
    for (const { close } of clients) close()
    await stop()
  }
}

export const behindProxies = async (row: Row): Promise<void> => {
  const product = await Deployment.open({ serves: 2, measuresCommits: false, variables: { MAILROOM_TRUSTED_PROXIES: "127.0.0.1" } })
  try {
    const addresses = proxies.map((_, index) => [`127.0.1.${index}`, `127.0.2.${index}`])
    for (const [index, proxy] of proxies.entries()) await behind(proxy, addresses[index]!, product, row)
    const seen = await connected(product.database.url("postgres"), async (client) => {
      const { rows } = await client.query<{ address: string }>("select distinct record->>'clientAddress' as address from mailroom.request")
      return rows.map(({ address }) => address).toSorted()
    })
    row(seen.join() === addresses.flat().toSorted().join(), "behind a proxy clients are who they are, and not whom they name", seen.join(" "))
  } finally {
    await product.stop()
  }
}
