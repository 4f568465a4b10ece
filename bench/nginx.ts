/**
 * nginx of this machine before two processes of `serve`, as docs/deploy.md
 * shows it: one process after the other is restarted under load, clients come
 * from two addresses and name a third, and a file is as large as one may be.
 */
import { spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { Agent, request } from "node:https"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { generate } from "selfsigned"
import { freePort } from "../adapters/redis/PrivateRedis.ts"
import { kilobyte, letter, sleep } from "./Api.ts"
import { ready } from "./Cluster.ts"
import { connected } from "./Copies.ts"
import * as Deployment from "./Deployment.ts"

/** What is documented, with each of these words, which must be there once, replaced. */
const documented = (replacements: ReadonlyArray<readonly [from: string, to: string]>): string => {
  const page = readFileSync(join(import.meta.dirname, "../docs/deploy.md"), "utf8")
  const block = /^```nginx\n([\s\S]*?)^```$/m.exec(page)?.[1]
  if (block === undefined) throw new Error("docs/deploy.md shows no nginx")
  return replacements.reduce((text, [from, to]) => {
    if (text.split(from).length !== 2) throw new Error(`docs/deploy.md has not one ${from}:\n${text}`)
    return text.replace(from, to)
  }, block)
}

interface Answer {
  readonly status: number
  readonly type: string
}

export const behindNginx = async (row: (isRight: boolean, what: string, detail?: string) => void): Promise<void> => {
  const folder = mkdtempSync(join(tmpdir(), "mailroom-nginx-"))
  const product = await Deployment.open({ serves: 2, measuresCommits: false, variables: { MAILROOM_TRUSTED_PROXIES: "127.0.0.1" } })
  const { cluster, sandbox, database } = product
  const port = await freePort()
  const { cert, private: key } = await generate([{ name: "commonName", value: "mail.example.com" }])
  const inFolder = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text, { mode: 0o600 })
    return join(folder, name)
  }
  const [first = "", second = ""] = cluster.baseUrls.map((url) => new URL(url).host)
  const server = documented([
    ["127.0.0.1:3025", first],
    ["127.0.0.1:3026", second],
    ["listen 443 ssl", `listen 127.0.0.1:${port} ssl`],
    ["/etc/nginx/tls-cert.pem", inFolder("cert.pem", cert)],
    ["/etc/nginx/tls-key.pem", inFolder("key.pem", key)]
  ])
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((kind) => `${kind}_temp_path ${join(folder, kind)};`)
  const config = inFolder("nginx.conf", `user root;\ndaemon off;\npid ${join(folder, "pid")};\nevents {}\nhttp {\naccess_log off;\n${temporary.join("\n")}\n${server}}\n`)
  const nginx = spawn("nginx", ["-e", join(folder, "error.log"), "-c", config], { stdio: ["ignore", "ignore", "inherit"] })
  const ended = new Promise((resolve) => nginx.once("exit", resolve))
  process.once("exit", () => nginx.kill())

  /** Over connections that are kept, from an address of its own, and with somebody else's word for another. */
  const clientAt = (localAddress: string) => {
    const agent = new Agent({ keepAlive: true, localAddress, rejectUnauthorized: false })
    const ask = (method: string, path: string, body?: string): Promise<Answer> =>
      new Promise((resolve, reject) => {
        const headers = {
          "authorization": `Bearer ${sandbox.apiKey}`,
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
    return { address: localAddress, ask, close: () => agent.destroy() }
  }
  const clients = ["127.0.0.2", "127.0.0.3"].map(clientAt)

  try {
    for (let waited = 0; (await clients[0]!.ask("GET", "/healthz").catch(() => null))?.status !== 200; waited += 50) {
      if (waited > 30_000 || nginx.exitCode !== null) throw new Error(`nginx does not answer: ${readFileSync(join(folder, "error.log"), "utf8")}`)
      await sleep(50)
    }

    const body = JSON.stringify(letter(sandbox, kilobyte))
    const answers = new Map<string, number>()
    const over = new AbortController()
    const loads = clients.flatMap(({ ask }) =>
      Array.from({ length: 8 }, async () => {
        while (!over.signal.aborted) {
          for (const [method, path, content] of [["POST", "/v1/messages", body], ["GET", "/v1/mailboxes"]] as const) {
            const outcome = await ask(method, path, content).then(({ status }) => `${method} ${status}`, (error: unknown) => `${method} ${String(error)}`)
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
      await ready(cluster.baseUrls[index % 2]!, one)
    }
    over.abort()
    await Promise.all(loads)
    const others = [...answers].filter(([outcome]) => !["POST 202", "GET 200"].includes(outcome))
    row(others.length === 0 && answers.size === 2, "behind nginx each of two is restarted twice, and no request is refused", [...answers].map(([outcome, count]) => `${outcome} × ${count}`).join(", "))

    const addresses = await connected(database.url("postgres"), async (client) => {
      const { rows } = await client.query<{ address: string }>("select distinct record->>'clientAddress' as address from mailroom.request order by 1")
      return rows.map(({ address }) => address)
    })
    row(addresses.join() === clients.map(({ address }) => address).join(), "behind nginx clients are who they are, and not whom they name", addresses.join(" "))

    const file = (bytes: number) =>
      JSON.stringify({ mailboxId: sandbox.mailboxId, filename: "a.bin", mediaType: "application/octet-stream", contentBase64: Buffer.alloc(bytes).toString("base64") })
    const most = 25 * 1024 * 1024
    const [taken, refused] = [await clients[0]!.ask("POST", "/v1/attachments", file(most)), await clients[0]!.ask("POST", "/v1/attachments", file(most + 1))]
    row(taken.status === 201, "behind nginx the largest file is taken", String(taken.status))
    row(refused.status === 413 && refused.type.startsWith("application/json"), "behind nginx a larger one has our own refusal", `${refused.status} ${refused.type}`)
  } finally {
    for (const { close } of clients) close()
    nginx.kill("SIGTERM")
    await ended
    await product.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}
