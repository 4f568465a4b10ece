import { assert, describe, it } from "@effect/vitest"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { quantile, run } from "./Load.ts"

const answeredOnce = async (base: URL, perSecond: number) =>
  run({ base, cpu: () => 0, connections: 1, durationMs: 1_000, perSecond, expected: 200, request: () => ({ method: "GET", path: "/", headers: {} }) }).then(
    () => "no error",
    (error: unknown) => String(error)
  )

describe("a load", () => {
  it("is void when the server closes a connection on which nothing is under way", { timeout: 10_000 }, async () => {
    const server = createServer((request, response) => response.end("x", () => request.socket.destroy()))
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    const { port } = server.address() as AddressInfo // it listens

    const said = await answeredOnce(new URL(`http://127.0.0.1:${port}`), 10)

    server.close()
    assert.include(said, "void: the server closed the connection")
  })

  it("asks once over each connection, however short it is", async () => {
    const server = createServer((_, response) => response.end("x"))
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    const { port } = server.address() as AddressInfo // it listens
    const base = new URL(`http://127.0.0.1:${port}`)

    const { requests } = await run({ base, cpu: () => 0, connections: 3, durationMs: 0, expected: 200, request: () => ({ method: "GET", path: "/", headers: {} }) })

    server.close()
    assert.strictEqual(requests, 3)
  })
})

describe("what is told of a list", () => {
  it("has the least value that so large a share does not exceed", () => {
    const hundred = Array.from({ length: 100 }, (_, index) => index + 1)

    assert.strictEqual(quantile(hundred, 0.99), 99)
    assert.strictEqual(quantile(hundred, 0.5), 50)
    assert.strictEqual(quantile([1, 2, 3], 1), 3)
    assert.strictEqual(quantile([7], 0.99), 7)
  })
})
