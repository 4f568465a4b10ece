/** `dev` with its database in its folder, killed in the middle of what it does, and started again. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "../../adapters/redis/PrivateRedis.ts"
import { chance, sleep, type Caller } from "../Api.ts"
import { ready, Supervised } from "../Cluster.ts"
import { Clients } from "./Clients.ts"
import { verdict } from "./Invariants.ts"
import type { Outcome } from "./Run.ts"

export interface DevPlan {
  readonly kills: number
  readonly senders: number
  /** As in a cluster's plan. */
  readonly backWithinMs: number
}

export const runDev = async ({ kills, senders, backWithinMs }: DevPlan, tell: (line: string) => void): Promise<Outcome> => {
  const folder = mkdtempSync(join(tmpdir(), "mailroom-faults-dev-"))
  const data = join(folder, "data")
  const port = await freePort()
  const baseUrl = `http://127.0.0.1:${port}`
  const dev = new Supervised("dev", ["dev", "--data", data, "--port", String(port)], {}, folder)
  try {
    dev.start()
    tell(`ready after ${Math.round(await ready(baseUrl, dev))} ms`)
    const devFile = join(data, "dev.json")
    while (!existsSync(devFile)) await sleep(20) // it is written once all is provisioned
    const { apiKey, mailboxes } = JSON.parse(readFileSync(devFile, "utf8"))
    const caller: Caller = { name: "dev", apiKey, mailboxId: mailboxes[0].id, environment: "sandbox", canary: "dev" }
    const clients = new Clients([caller], () => [baseUrl])
    const returns: Array<{ fault: string; ms: number; allMs: number }> = []
    clients.start(senders)
    for (let number = 1; number <= kills; number++) {
      await sleep(300 + chance() * 1_500)
      dev.kill()
      const begin = performance.now()
      while (!(await clients.probe(caller)).byAll) {
        if (performance.now() - begin > 60_000) throw new Error(`dev does not come back:\n${dev.tail(20)}`)
        await sleep(50)
      }
      const ms = Math.round(performance.now() - begin)
      returns.push({ fault: "kill -9 dev", ms, allMs: ms })
      if (number % 10 === 0 || number === kills) tell(`${number} of ${kills} kills, ${clients.sendings.length} sends`)
    }
    await clients.stop()
    const violations = await verdict(clients, caller)
    tell(`${violations.length === 0 ? "ok  " : "FAIL"} what was accepted came to its end once, and its feed has no gap`)
    const slow = returns.filter(({ ms }) => ms > backWithinMs).map(({ ms }) => `back only ${ms} ms after kill -9 dev`)
    return {
      violations: [...violations, ...slow],
      returns,
      counts: { faults: kills, sends: clients.sendings.length, accepted: clients.sendings.filter(({ ids }) => ids.size > 0).length }
    }
  } finally {
    await dev.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}
