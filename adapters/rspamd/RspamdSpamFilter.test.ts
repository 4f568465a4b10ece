import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted, Result, Stream } from "effect"
import dns from "node:dns"
import { createServer, type IncomingHttpHeaders } from "node:http"
import type { AddressInfo } from "node:net"
import { vi } from "vitest"
import * as UntrustedServer from "../../conformance/UntrustedServer.ts"
import { SpamFilter } from "../../core/ports/SpamFilter.ts"
import * as RspamdSpamFilter from "./RspamdSpamFilter.ts"

interface Heard {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

/** Answers 200 with this, or by path with another status; null: it does not answer. */
const server = Effect.fnUntraced(function* (answer: string | null, statuses: Readonly<Record<string, number>> = {}) {
  const heard: Array<Heard> = []
  const made = createServer((request, response) => {
    const pieces: Array<Buffer> = []
    request.on("data", (piece: Buffer) => pieces.push(piece))
    request.on("end", () => {
      heard.push({ path: request.url ?? "", headers: request.headers, body: Buffer.concat(pieces) })
      if (answer !== null) response.writeHead(statuses[request.url ?? ""] ?? 200).end(answer)
    })
  })
  yield* Effect.callback<void>((resume) => void made.listen(0, "127.0.0.1", () => resume(Effect.void)))
  yield* Effect.addFinalizer(() => Effect.sync(() => (made.closeAllConnections(), made.close())))
  return { heard, url: `http://127.0.0.1:${(made.address() as AddressInfo).port}` } // it listens on a port
})

const judge = (options: RspamdSpamFilter.Options, ...pieces: ReadonlyArray<Uint8Array>) => judgeStream(options, Stream.fromIterable(pieces))

const judgeStream = (options: RspamdSpamFilter.Options, bytes: Stream.Stream<Uint8Array>) =>
  SpamFilter.use((filter) =>
    filter.judge({
      peer: { remoteAddress: "2001:db8::1", helo: "mail.client.test", protocol: "ESMTP" },
      returnPath: null,
      recipients: ["u@ours.test", "ü@ours.test"],
      bytes
    })
  ).pipe(Effect.provide(RspamdSpamFilter.layerWith(options)))

const verdict = "{\"action\":\"no action\"}"

describe("RspamdSpamFilter", () => {
  it.live("tells Rspamd who sends and for whom, and the password", () =>
    Effect.gen(function* () {
      const { heard, url } = yield* server(verdict)

      yield* judge({ url, password: Redacted.make("secret") }, Buffer.from("x"))

      const [{ headers } = { headers: {} as IncomingHttpHeaders }] = heard
      assert.deepStrictEqual([headers["ip"], headers["helo"], headers["from"], headers["password"]], ["2001:db8::1", "mail.client.test", "", "secret"])
      assert.strictEqual(Buffer.from(String(headers["rcpt"]), "latin1").toString("utf8"), "u@ours.test, ü@ours.test")
    })
  )

  for (const password of ["grün", "pass€", "a b\tc"]) {
    it.live(`says the password ${JSON.stringify(password)} as UTF-8, and as it is`, () =>
      Effect.gen(function* () {
        const { heard, url } = yield* server(verdict)
        const asked = yield* server("pong")
        const options = { password: Redacted.make(password) }

        yield* judge({ url, ...options }, Buffer.from("x"))
        yield* RspamdSpamFilter.check({ url: asked.url, ...options })

        const shown = [...heard, ...asked.heard].map(({ headers }) => Buffer.from(String(headers["password"]), "latin1").toString("utf8"))
        assert.deepStrictEqual(shown, [password, password, password])
      })
    )
  }

  for (const [base, under] of [["", ""], ["/", ""], ["/rspamd", "/rspamd"], ["/rspamd/", "/rspamd"], ["/a/b%20c/", "/a/b%20c"]] as const) {
    it.live(`asks under the path of its URL, which is "${base}"`, () =>
      Effect.gen(function* () {
        const { heard, url } = yield* server(verdict)
        const asked = yield* server("pong")

        yield* judge({ url: url + base }, Buffer.from("x"))
        yield* RspamdSpamFilter.check({ url: asked.url + base })

        assert.deepStrictEqual([...heard, ...asked.heard].map(({ path }) => path), [`${under}/checkv2`, `${under}/ping`, `${under}/auth`])
      })
    )
  }

  it.live("shows the message as it came, though whoever brought it has used its pieces again", () =>
    Effect.gen(function* () {
      const { heard, url } = yield* server(verdict)
      const piece = Buffer.alloc(4)
      const reused = Stream.flatMap(Stream.make("note", "book"), (word) => Stream.sync(() => (piece.write(word), piece)))

      yield* judgeStream({ url }, reused)

      assert.deepStrictEqual(heard.map(({ body }) => body.toString()), ["notebook"])
    })
  )

  it.live("shows the beginning of a large message, and reads no more of it", () =>
    Effect.gen(function* () {
      const { heard, url } = yield* server(verdict)

      yield* judge({ url, shownBytesMax: 100_000 }, Buffer.alloc(60_000), Buffer.alloc(60_000), Buffer.alloc(60_000))

      assert.deepStrictEqual(heard.map(({ body }) => body.length), [100_000])
    })
  )

  it.live("shows 4 MiB of a message unless told otherwise, and reads an answer of up to 1 MiB", () =>
    Effect.gen(function* () {
      const mebibyte = 1024 * 1024
      const { heard, url } = yield* server(verdict.padEnd(mebibyte))
      const longer = yield* server(verdict.padEnd(mebibyte + 1))

      const judged = yield* judge({ url }, Buffer.alloc(3 * mebibyte), Buffer.alloc(mebibyte + 1))

      assert.deepStrictEqual([judged, heard.map(({ body }) => body.length)], ["ham", [4 * mebibyte]])
      assert.strictEqual((yield* Effect.flip(judge({ url: longer.url }, Buffer.from("x"))))._tag, "SpamFilterUnavailable")
    })
  )

  for (const [status, said] of [[200, "taken"], [401, "refused"], [403, "refused"], [404, "not asked"], [500, "not asked"]] as const) {
    it.live(`has its password ${said} by what answers ${status} to it`, () =>
      Effect.gen(function* () {
        const { url } = yield* server("pong\r\n", { "/auth": status })

        assert.strictEqual(yield* RspamdSpamFilter.check({ url, password: Redacted.make("secret") }), said)
      })
    )
  }

  for (const [status, answer] of [[503, "pong"], [404, "pong"], [200, "ping"], [200, ""]] as const) {
    it.live(`takes no other for Rspamd, that answers ${status} and "${answer}" to a ping`, () =>
      Effect.gen(function* () {
        const { url } = yield* server(answer, { "/ping": status })

        assert.strictEqual((yield* Effect.flip(RspamdSpamFilter.check({ url }))).reason, "it does not answer as Rspamd does")
      })
    )
  }

  it.live("reads a message when its turn has come, so that few wait in memory", () =>
    Effect.gen(function* () {
      const { heard, url } = yield* server(null)
      const filter = yield* SpamFilter.pipe(Effect.provide(yield* Layer.build(RspamdSpamFilter.layerWith({ url }))))
      let read = 0
      const bytes = Stream.sync(() => ((read += 1), Buffer.from("x")))
      const peer = { remoteAddress: "2001:db8::1", helo: "mail.client.test", protocol: "ESMTP" } as const

      for (let count = 0; count < 20; count++) yield* Effect.forkScoped(filter.judge({ peer, returnPath: null, recipients: [], bytes }))
      yield* Effect.repeat(Effect.yieldNow, { until: () => heard.length === 16 })

      assert.strictEqual(read, 16)
    })
  )

  it.live("shows a message and the password to nobody whose certificate is not good, whatever the environment says", () =>
    Effect.gen(function* () {
      const server = yield* UntrustedServer.start(verdict)

      const options = { url: server.url, password: Redacted.make("secret") }

      const refused = [yield* Effect.flip(judge(options, Buffer.from("x"))), yield* Effect.flip(RspamdSpamFilter.check(options))]

      assert.deepStrictEqual(refused.map(({ _tag }) => _tag), ["SpamFilterUnavailable", "CheckFailed"])
      assert.strictEqual(server.requests(), 0)
    })
  )

  it.live("says why it was not reached at any address of a name that has several", () =>
    Effect.gen(function* () {
      const several = [{ address: "127.0.0.1", family: 4 }, { address: "127.0.0.2", family: 4 }]
      const lookup: unknown = (_: string, __: unknown, found: (error: null, addresses: typeof several) => void) => found(null, several)
      yield* Effect.acquireRelease(
        Effect.sync(() => vi.spyOn(dns, "lookup").mockImplementation(lookup as typeof dns.lookup)), // one of its overloads
        (spy) => Effect.sync(() => spy.mockRestore())
      )

      const { reason } = yield* Effect.flip(RspamdSpamFilter.check({ url: "http://rspamd.test:1" }))

      assert.strictEqual(reason, "connect ECONNREFUSED 127.0.0.1:1; connect ECONNREFUSED 127.0.0.2:1")
    }).pipe(Effect.scoped)
  )

  it.live("is unavailable where nobody listens, and where nobody answers in time", () =>
    Effect.gen(function* () {
      const { url } = yield* server(null)

      for (const options of [{ url, timeout: "200 millis" as const }, { url: "http://127.0.0.1:1" }]) {
        const outcome = yield* Effect.result(judge(options, Buffer.from("x")))
        assert.strictEqual(Result.isFailure(outcome) ? outcome.failure._tag : "a verdict", "SpamFilterUnavailable")
      }
    })
  )
})
