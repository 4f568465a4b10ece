/** `mailroom conformance` where it is not asked as it wants to be: in this process, for nothing is run then. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, PlatformError, Stdio, Stream } from "effect"
import { Command } from "effect/cli"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer, type Server } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll } from "vitest"
import { CommandFailed } from "./CommandFailed.ts"
import { conformanceCommand } from "./Conformance.ts"

const folder = mkdtempSync(join(tmpdir(), "mailroom-conformance-usage-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const file = (name: string, text: string): string => {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}

const key = file("key", "svc_test_topsecret\n")
const other = file("other", "svc_test_other")
const live = file("live", "svc_live_topsecret")

/** Listens on a free port of this machine until the scope closes. */
const listening = Effect.fnUntraced(function* (server: Server) {
  yield* Effect.addFinalizer(() => Effect.sync(() => server.close().closeAllConnections()))
  yield* Effect.promise(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve)))
  const address = server.address()
  return `http://127.0.0.1:${address !== null && typeof address === "object" ? address.port : 0}`
})

/** How it fails, with this on standard input. */
const fed = (stdin: Stdio.Stdio["stdin"], ...parameters: ReadonlyArray<string>) =>
  Command.runWith(conformanceCommand, { version: "0" })(parameters).pipe(
    Effect.updateService(Stdio.Stdio, (real) => Stdio.make({ ...real, stdin })),
    Effect.provide(NodeServices.layer),
    Effect.exit,
    Effect.map((exit) => {
      const fault = Exit.isSuccess(exit) ? null : Cause.squash(exit.cause)
      return fault instanceof CommandFailed ? [fault.exitCode, fault.message] : fault
    })
  )

const conformance = (...parameters: ReadonlyArray<string>) => fed(Stream.empty, ...parameters)

const at = (url: string) => ["--base-url", url, "--api-key-file", key]
const nowhere = at("http://127.0.0.1:1")
const badAddress = "--base-url wants an http or https URL without credentials, query and fragment, such as https://mail.example.com"
const production = "a production key (svc_live_) is not used unless --allow-live is given; nothing is sent with one even then"
const what = "what is to be proved? Give --base-url URL for a deployment, or --adapters FILE for adapters of your own"
const noKey = (where: string) => `${where} holds no API key: it begins with svc_test_ or svc_live_, and has no white space`
const noProofs = (path: string) =>
  `--adapters: ${path} wants a default export with a list of proofs, such as [conforms("MyQueue", jobQueue, layer)]; see adapters/ADDING.md`

const none = file("none.mjs", "export const proofs = []")
const empty = file("empty.mjs", "export default []")
const others = file("others.mjs", "export default [{ begin: 1 }]")
const unasked = file("unasked.mjs", "export default [{ begin: 1, titles: [] }]")
const broken = file("broken.mjs", "throw new Error('it has no license')")

const faults: ReadonlyArray<readonly [parameters: ReadonlyArray<string>, message: string]> = [
  [[], what],
  [[...nowhere, "--adapters", none], "--base-url and --adapters prove different things: give one of them"],
  ...["mail.example", "ftp://mail.example", "http://mail.example/?a", "http://mail.example/#a", "http://ada@mail.example", "http://:topsecret@mail.example"].map(
    (url) => [at(url), badAddress] as const
  ),
  [[...nowhere, "--timeout", "0"], "--timeout wants a number of seconds, 1 or more"],
  [["--adapters", none, "--timeout", "0"], "--timeout wants a number of seconds, 1 or more"],
  [["--base-url", "http://127.0.0.1:1", "--api-key-file", live], production],
  [[...nowhere, "--other-key-file", live], production],
  [[...nowhere, "--narrow-key-file", live], production],
  [["--base-url", "http://127.0.0.1:1", "--api-key-file", file("two", "svc_test_top secret")], noKey("--api-key-file")],
  [[...nowhere, "--other-key-file", file("basic", "topsecret")], noKey("--other-key-file")],
  [[...nowhere, "--narrow-key-file", join(folder, "away")], `--narrow-key-file ${join(folder, "away")}: no such file`],
  [[...nowhere, "--receiver-listen", "127.0.0.1:65536"], "--receiver-listen wants host:port"],
  [[...nowhere, "--receiver-listen", ":3030"], "--receiver-listen wants host:port"],
  [[...nowhere, "--receiver-url", "https://hooks.example.com"], "--receiver-url wants --receiver-listen HOST:PORT, where it leads to"],
  [
    [...nowhere, "--receiver-url", "https://hooks.example.com/?a", "--receiver-listen", "127.0.0.1:0"],
    badAddress.replace("--base-url", "--receiver-url")
  ],
  [["--adapters", none], noProofs(none)],
  [["--adapters", empty], noProofs(empty)],
  [["--adapters", others], noProofs(others)],
  [["--adapters", unasked, "--filter", "nothing"], "--filter leaves no check"],
  [["--adapters", broken], `--adapters: ${broken} cannot be loaded: it has no license`]
]

describe("mailroom conformance that cannot be run as asked", () => {
  for (const [parameters, message] of faults) {
    it.live(`ends with 2: ${parameters.join(" ").replaceAll(folder, "FOLDER")}`, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* conformance(...parameters), [2, message])
      })
    )
  }

  it.live("reads no more of standard input than a key may have, and says where it cannot be read", () =>
    Effect.gen(function* () {
      const reading = ["--base-url", "http://127.0.0.1:1", "--api-key-file", "-"]
      const text = (bytes: number) => Stream.make(new Uint8Array(bytes).fill(0x20))

      assert.deepStrictEqual(yield* fed(text(4_096), ...reading), [2, noKey("standard input").replace("standard input", "--api-key-file")])
      assert.deepStrictEqual(yield* fed(Stream.concat(text(4_096), text(1)), ...reading), [2, "standard input has more than 4096 bytes"])
      const broken = Stream.fail(PlatformError.systemError({ _tag: "Unknown", module: "Stdio", method: "stdin" }))
      assert.deepStrictEqual(yield* fed(broken, ...reading), [2, "standard input cannot be read"])
    })
  )

  for (const host of ["localhost", "127.0.0.2", "[::1]"]) {
    it.live(`ends with 2 where there is no receiver for a deployment on this machine: ${host}`, () =>
      Effect.gen(function* () {
        const taken = new URL(yield* listening(createServer()))

        const ended = yield* conformance(...at(`http://${host}:1`), "--receiver-listen", taken.host)

        assert.deepStrictEqual(ended, [2, `the webhook receiver cannot listen on ${taken.host}: listen EADDRINUSE: address already in use ${taken.host}`])
      }).pipe(Effect.scoped)
    )
  }

  for (const flag of ["other", "narrow"]) {
    it.live(`ends with 2 and says which key was refused: ${flag}`, () =>
      Effect.gen(function* () {
        const deployment = createServer((request, response) => {
          const isKnown = request.headers.authorization === "Bearer svc_test_topsecret"
          response.writeHead(isKnown ? 200 : 401, { "content-type": "application/json" })
          response.end(JSON.stringify(isKnown ? { items: [] } : { code: "unauthorized" }))
        })
        const url = yield* listening(deployment)

        const ended = yield* conformance(...at(url), `--${flag}-key-file`, other)

        assert.deepStrictEqual(ended, [2, `${url} refuses the key of --${flag}-key-file with 401`])
      }).pipe(Effect.scoped)
    )
  }
})
