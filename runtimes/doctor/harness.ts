/** For tests: what the doctor finds of settings, and servers on ports of their own. */
import { Effect } from "effect"
import type { createServer } from "node:net"
import type { Variables } from "../Config.ts"
import type { Finding } from "./Findings.ts"
import { examine } from "./main.ts"

export const key = (fill: number) => Buffer.alloc(32, fill).toString("base64")
export const complete = {
  MAILROOM_DATABASE_URL: "postgres://ada:lovelace@127.0.0.1:1/mailroom",
  MAILROOM_SEALING_KEYS: `1:${key(1)}`,
  MAILROOM_SCANNER: "none"
}

export const findingsOf = Effect.fnUntraced(function* (variables: Variables) {
  const findings: Array<Finding> = []
  yield* examine(variables, { began: () => Effect.void, found: (finding) => Effect.sync(() => void findings.push(finding)) })
  return findings
})

/** What it says of one check: `status message`. */
export const says = (findings: ReadonlyArray<Finding>, check: string) =>
  findings.filter((finding) => finding.check === check).map(({ status, message }) => `${status} ${message}`)

interface Listener {
  readonly server: { listen: (port: number, host: string, done: () => void) => unknown; close: (done: () => void) => unknown }
  readonly port: () => number
}

export const listening = (make: () => Listener) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const { server, port } = make()
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
      return { server, port: port() }
    }),
    ({ server }) => Effect.promise(() => new Promise<void>((resolve) => void server.close(resolve)))
  )

export const portOf = (address: ReturnType<ReturnType<typeof createServer>["address"]>) => (address !== null && typeof address === "object" ? address.port : 0)
