/**
 * An HTTPS server with a certificate that nobody vouches for, in an environment that asks Node to verify none: what a
 * client that shows it a secret must not talk to.
 */
import { Effect, type Scope } from "effect"
import { createServer } from "node:https"
import type { AddressInfo } from "node:net"
import { generate } from "selfsigned"
import { vi } from "vitest"

export interface UntrustedServer {
  readonly url: string
  /** Requests that came, whatever it answered. */
  readonly requests: () => number
}

/** It answers 200 with this; the environment is as it was when the scope closes. */
export const start = (answer: string): Effect.Effect<UntrustedServer, never, Scope.Scope> =>
  Effect.gen(function* () {
    yield* unverified
    const made = yield* Effect.promise(() => generate([{ name: "commonName", value: "localhost" }]))
    let requests = 0
    const server = createServer({ key: made.private, cert: made.cert }, (_, response) => {
      requests += 1
      response.setHeader("Content-Type", "application/json").end(answer)
    })
    yield* Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void)))
    yield* Effect.addFinalizer(() => Effect.sync(() => (server.closeAllConnections(), server.close())))
    const { port } = server.address() as AddressInfo // it listens on a port
    return { url: `https://127.0.0.1:${port}`, requests: () => requests }
  })

/** An environment that asks Node to verify no certificate; as it was when the scope closes. */
export const unverified = Effect.acquireRelease(
  Effect.sync(() => vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0")),
  () => Effect.sync(() => vi.unstubAllEnvs())
)
