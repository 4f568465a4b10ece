import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Fiber, Redacted, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import { simpleParser } from "mailparser"
import { dkimVerify } from "mailauth/lib/dkim/verify.js"
import { generateKeyPairSync } from "node:crypto"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import { hostname, tmpdir } from "node:os"
import { join } from "node:path"
import type { AddressInfo } from "node:net"
import { drafts } from "../../conformance/MimeDrafts.ts"
import { arrivals, endOf, heard, large, mail, type Conversation, type Script } from "../../conformance/MailServerScript.ts"
import { address, realm } from "../../conformance/fixtures.ts"
import type { Address } from "../../core/model/Address.ts"
import { BlobMissing } from "../../core/ports/BlobStore.ts"
import { Mime } from "../../core/ports/Mime.ts"
import * as RfcMime from "../mime/RfcMime.ts"
import * as PipeliningSmtpMailProvider from "./PipeliningSmtpMailProvider.ts"
import * as ScriptedServer from "./ScriptedServer.ts"
import * as SmtpMailProvider from "./SmtpMailProvider.ts"

type Over = Partial<SmtpMailProvider.Options>

const open = (all: ReadonlyArray<Conversation>): number => all.filter(({ isClosed }) => !isClosed).length

const { privateKey, publicKey } = generateKeyPairSync("rsa", {
  modulusLength: 2048,
  publicKeyEncoding: { type: "spki", format: "pem" },
  privateKeyEncoding: { type: "pkcs8", format: "pem" }
})
const dkim = [{ domain: "example.com", selector: "s", privateKey: Redacted.make(privateKey) }]
const resolver = () => Promise.resolve([[`v=DKIM1; p=${publicKey.replace(/-----[^-]+-----|\s/g, "")}`]])

for (const [name, { make }] of Object.entries({ SmtpMailProvider, PipeliningSmtpMailProvider })) {
  const against = Effect.fnUntraced(function* (over: Over = {}, script: Script = () => null) {
    const server = yield* ScriptedServer.start(script)
    const provider = yield* make({ host: "127.0.0.1", port: server.port, tls: "none", ...over })
    return { provider, server }
  })

  describe(name, () => {
    it.effect("names a submission after its message, every time, and has nothing to be polled", () =>
      Effect.gen(function* () {
        const { provider } = yield* against()
        const request = mail()

        const first = yield* provider.submit(request)
        const second = yield* provider.submit(request)

        assert.strictEqual(provider.name, "smtp")
        assert.deepInclude(first, { providerMessageId: request.messageId, pollAt: null })
        assert.strictEqual(second.providerMessageId, first.providerMessageId)
        const submission = { provider: "smtp", providerMessageId: request.messageId, submittedAt: 0, recipients: [], pollAt: null }
        assert.deepStrictEqual(yield* provider.poll(submission), { notifications: [], pollAt: null })
      })
    )

    it.effect("waits longer for the word behind the end of a message than for any other", () =>
      Effect.gen(function* () {
        const step: Script = ({ place, connection, message }) => {
          if (place === "message" && connection === 1 && message === 1) return { say: "250 2.0.0 queued\r\n", waits: true }
          return place === "MAIL" && (connection === 2 || message === 2) ? {} : null
        }
        const { provider, server } = yield* against({ connectionsMax: 2, timeouts: { socket: "500 millis", end: "1 hour" } }, step)
        const slow = yield* Effect.forkScoped(endOf(provider, mail()))
        yield* server.until(([first]) => first?.messages.length === 1)

        // Whoever is silent elsewhere is given up, which takes no less time than it would have taken the first.
        assert.strictEqual(yield* endOf(provider, mail()), "unavailable")
        yield* server.goOn

        assert.strictEqual(yield* Fiber.join(slow), "250")
        yield* endOf(provider, mail())
        yield* server.until(([first]) => first!.isClosed)
      })
    )

    it.effect("is unavailable where nobody listens, and says so to the operator", () =>
      Effect.gen(function* () {
        const port = yield* Effect.scoped(Effect.map(ScriptedServer.start(() => null), (server) => server.port))
        const provider = yield* make({ host: "127.0.0.1", port, tls: "starttls" })

        const error = yield* Effect.flip(provider.submit(mail()))

        assert.isTrue(error._tag === "MailProviderUnavailable" && String(error.cause).includes("ECONNREFUSED"))
      })
    )

    it.effect("introduces itself by the configured name, or this machine's, and by nothing from a message", () =>
      Effect.gen(function* () {
        const machine = hostname().includes(".") ? hostname() : "[127.0.0.1]"
        for (const ehloName of ["relay.example.com", "[192.0.2.1]", null]) {
          const { provider, server } = yield* against({ ehloName })
          yield* provider.submit(mail())

          const [only] = yield* server.conversations
          assert.strictEqual(only!.commands[0], `EHLO ${ehloName ?? machine}`)
        }
      })
    )

    it.effect("says the envelope and nothing else about a message", () =>
      Effect.gen(function* () {
        const { provider, server } = yield* against()
        const request = mail(["charles", "mary"])

        yield* provider.submit(request)
        yield* provider.submit({ ...request, envelope: { ...request.envelope, returnPath: null } })

        const [only] = yield* server.conversations
        assert.deepStrictEqual(only!.commands.slice(1), [
          "MAIL FROM:<bounces@example.com> BODY=8BITMIME",
          "RCPT TO:<charles@example.com>",
          "RCPT TO:<mary@example.com>",
          "DATA",
          "MAIL FROM:<> BODY=8BITMIME",
          "RCPT TO:<charles@example.com>",
          "RCPT TO:<mary@example.com>",
          "DATA"
        ])
      })
    )

    const crooked: ReadonlyArray<string> = [
      "a@b.example> SIZE=1",
      "a@b.example\r\nRCPT TO:<c@d.example",
      "a@b.example\nDATA",
      "a b@c.example",
      "a@b.example c",
      "<a@b.example>",
      "a@b.example\0",
      "ä@b.example",
      "a@bä.example",
      "@b.example",
      "a@",
      "",
      "postmaster"
    ]
    for (const wrong of crooked) {
      it.effect(`dies of the address ${JSON.stringify(wrong)}, and says nothing of it to anybody`, () =>
        Effect.gen(function* () {
          const { provider, server } = yield* against()
          const request = mail()
          const unchecked = wrong as Address // as if it had slipped through
          const envelopes = [
            { ...request.envelope, recipients: [address(), unchecked] },
            { ...request.envelope, returnPath: unchecked }
          ]

          for (const envelope of envelopes) {
            const exit = yield* Effect.exit(provider.submit({ ...request, envelope }))
            assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
          }
          assert.lengthOf(yield* server.conversations, 0)
        })
      )
    }

    const impossible: ReadonlyArray<readonly [what: string, over: Over]> = [
      ["credentials in clear text", { auth: { user: "ada", password: Redacted.make("s3cret") } }],
      ["an EHLO name with a line end", { ehloName: "a.example\r\nMAIL FROM:<x@y.example>" }],
      ["an EHLO name with a space", { ehloName: "a.example SIZE" }],
      ["an empty host", { host: "" }],
      ["a URL for a host", { host: "smtp://user:s3cret@mail.example" }],
      ["port 0", { port: 0 }],
      ["no connection", { connectionsMax: 0 }],
      ["connections for no message", { messagesPerConnectionMax: 0 }],
      ["a key that is none", { dkim: [{ domain: "example.com", selector: "s", privateKey: Redacted.make("s3cret") }] }]
    ]
    for (const [what, over] of impossible) {
      it.effect(`dies at once of ${what}, without a secret`, () =>
        Effect.gen(function* () {
          const exit = yield* Effect.exit(make({ host: "127.0.0.1", port: 25, tls: "none", ...over }))

          assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
          assert.notInclude(Exit.isFailure(exit) ? Cause.pretty(exit.cause) : "", "s3cret")
        })
      )
    }
  })

  describe(`the connections of ${name}`, () => {
    it.effect("are never more than allowed, and are shared by all messages", () =>
      Effect.gen(function* () {
        const { provider, server } = yield* against({ connectionsMax: 3 })
        let most = 0
        yield* Effect.forkScoped(
          server.until((all) => {
            most = Math.max(most, open(all))
            return false
          })
        )
        const requests = Array.from({ length: 40 }, (_, index) => mail([`r${index}`], `${index}\r\n`))

        const ends = yield* Effect.forEach(requests, (request) => endOf(provider, request), { concurrency: "unbounded" })

        assert.deepStrictEqual(new Set(ends), new Set(["250"]))
        assert.strictEqual(most, 3)
        assert.lengthOf(yield* server.conversations, 3)
        for (const request of requests) assert.lengthOf(yield* arrivals(server, request), 1)
      })
    )

    it.effect("are never more than allowed while they fail, are refused, and are interrupted", () =>
      Effect.gen(function* () {
        const { provider, server } = yield* against({ connectionsMax: 2 }, ({ place, argument }) => {
          if (place === "RCPT" && argument.includes("drop")) return { drops: true }
          if (place === "RCPT" && argument.includes("refuse")) return { say: "550 5.1.1 no\r\n" }
          return place === "RCPT" && argument.includes("hang") ? {} : null
        })
        let most = 0
        yield* Effect.forkScoped(
          server.until((all) => {
            most = Math.max(most, open(all))
            return false
          })
        )

        const ends = yield* Effect.forEach(
          Array.from({ length: 40 }, (_, index) => ["drop", "refuse", "hang", "fine"][index % 4]!),
          (local) =>
            local === "hang"
              ? Effect.gen(function* () {
                  const submitting = yield* Effect.forkScoped(endOf(provider, mail([local])))
                  yield* server.until((all) => heard(all.filter(({ isClosed }) => !isClosed), "RCPT TO:<HANG@") > 0)
                  yield* Fiber.interrupt(submitting)
                  return local
                })
              : endOf(provider, mail([local])),
          { concurrency: 8 }
        )

        assert.deepStrictEqual(ends, Array.from({ length: 40 }, (_, index) => ["unavailable", "550", "hang", "250"][index % 4]!))
        // One that the server has closed may be told apart a moment later than it is replaced.
        assert.isAtMost(most, 3)
      })
    )

    it.effect("are given up after so many messages, politely", () =>
      Effect.gen(function* () {
        const { provider, server } = yield* against({ messagesPerConnectionMax: 2, connectionsMax: 1 })

        for (let count = 0; count < 5; count++) assert.strictEqual(yield* endOf(provider, mail()), "250")

        yield* server.until((all) => open(all) === 1)
        const conversations = yield* server.conversations
        assert.deepStrictEqual(conversations.map(({ messages }) => messages.length), [2, 2, 1])
        assert.deepStrictEqual(conversations.map(({ commands }) => commands.at(-1)), ["QUIT", "QUIT", "DATA"])
      })
    )

    it.effect("are given up when they have been idle for so long since their last message", () =>
      Effect.gen(function* () {
        const { provider, server } = yield* against({ timeouts: { idle: "30 seconds" } })
        yield* provider.submit(mail())
        yield* TestClock.adjust("20 seconds")
        yield* provider.submit(mail())
        yield* TestClock.adjust("29 seconds")
        yield* provider.submit(mail())
        assert.lengthOf(yield* server.conversations, 1)

        yield* TestClock.adjust("30 seconds")

        yield* server.until((all) => open(all) === 0)
        assert.strictEqual((yield* server.conversations)[0]!.commands.at(-1), "QUIT")
        assert.strictEqual(yield* endOf(provider, mail()), "250")
        assert.lengthOf(yield* server.conversations, 2)
      })
    )

    it.effect("are closed with the scope, idle or busy, and none is opened after it", () =>
      Effect.gen(function* () {
        const scope = yield* Scope.make()
        const server = yield* ScriptedServer.start(({ place, argument }) =>
          place === "RCPT" && argument.includes("hang") ? {} : null
        )
        const options = { host: "127.0.0.1", port: server.port, tls: "none" } as const
        const provider = yield* Scope.provide(make(options), scope)
        const hanging = yield* Effect.forkScoped(endOf(provider, mail(["hang"])))
        yield* server.until((all) => heard(all, "RCPT") > 0)
        yield* provider.submit(mail())

        yield* Scope.close(scope, Exit.void)

        assert.strictEqual(yield* Fiber.join(hanging), "unavailable")
        yield* server.until((all) => open(all) === 0)
        const lastWords = (yield* server.conversations).map(({ commands }) => commands.at(-1))
        assert.deepStrictEqual(lastWords, ["RCPT TO:<hang@example.com>", "QUIT"])
        assert.strictEqual(yield* endOf(provider, mail()), "unavailable")
        assert.lengthOf(yield* server.conversations, 2)
      })
    )
  })

  describe(`the bytes that ${name} submits`, () => {
    it.effect("are read when the server has taken the envelope, and not before", () =>
      Effect.gen(function* () {
        const { provider } = yield* against({}, ({ place }) => (place === "RCPT" ? { say: "550 5.1.1 no\r\n" } : null))

        assert.strictEqual(yield* endOf(provider, { ...large(mail()), mime: Stream.die("read") }), "550")
      })
    )

    it.effect("are read as fast as the server takes them: a large message is never held whole", () =>
      Effect.gen(function* () {
        for (const keys of [[], dkim]) {
          const { provider, server } = yield* against({ dkim: keys }, ({ place }) => (place === "bytes" ? { stalls: true } : null))
          const chunk = new Uint8Array(65_536).fill(120)
          let read = 0
          const head = new TextEncoder().encode("From: ada@example.com\r\n\r\n")
          let passes = 0
          const mime = Stream.suspend(() => {
            passes += 1
            read = 0
            const chunks = Stream.tap(Stream.take(Stream.forever(Stream.make(chunk)), 640), () =>
              Effect.sync(() => (read += 1))
            )
            return Stream.concat(Stream.make(head), chunks)
          })
          const submitting = yield* Effect.forkScoped(provider.submit({ ...mail(), sizeBytes: 640 * chunk.length, mime }))
          yield* server.until(([first]) => first !== undefined && first.partial !== "")
          let before: number
          do {
            before = read
            yield* Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 200)))
          } while (read > before)

          assert.strictEqual(passes, keys.length + 1)
          // What the kernel holds of both ends of the connection is some megabytes.
          assert.isBelow(read, 320)
          yield* Fiber.interrupt(submitting)
        }
      })
    )

    it.effect("are signed as the next hop will see them, and announced with their signature", () =>
      Effect.gen(function* () {
        const { provider, server } = yield* against({ dkim }, ({ place }) => (place === "EHLO" ? { say: "250-mail.example\r\n250 SIZE 100000\r\n" } : null))
        for (const body of ["a\rb\nc\r\r\nd\n\re\n", "a", "a\r", ".\r.\n.", "\n\n\n", ""]) {
          const request = mail(["charles"], body)

          assert.strictEqual(yield* endOf(provider, request), "250")

          const [wire] = yield* arrivals(server, request)
          const arrived = Buffer.from(wire!.replace(/^\./gm, ""), "latin1")
          const { results } = yield* Effect.promise(() => dkimVerify(arrived, { resolver }))
          assert.deepStrictEqual(results.map(({ status }) => status.result), ["pass"])
          const said = (yield* server.conversations)[0]!.commands.findLast((command) => command.startsWith("MAIL"))
          const signature = arrived.toString("latin1").indexOf("\r\nFrom:") + 2
          assert.strictEqual(said, `MAIL FROM:<bounces@example.com> SIZE=${signature + request.sizeBytes}`)
        }
      })
    )

    it.effect("that can be read to sign but not to send are a failure of their own, and no message", () =>
      Effect.gen(function* () {
        const { provider, server } = yield* against({ dkim })
        const request = large(mail())
        const missing = new BlobMissing({ sha256: "" })
        let passes = 0
        const mime = Stream.suspend(() => (++passes === 1 ? request.mime : Stream.concat(request.mime, Stream.fail(missing))))

        assert.strictEqual(yield* Effect.flip(provider.submit({ ...request, mime })), missing)

        yield* server.until((all) => open(all) === 0)
        assert.lengthOf(yield* arrivals(server, request), 0)
      })
    )

    it.effect("of every kind of message arrive signed and as they were, and read the same", () =>
      Effect.gen(function* () {
        const mime = yield* Mime
        const { provider, server } = yield* against({ dkim })
        for (const [what, make] of drafts) {
          const { message, content, files } = make()
          const sources = files.map(({ attachment, bytes }) => ({ attachment, bytes: Stream.make(bytes) }))
          const bytes = Buffer.from(yield* Stream.mkUint8Array(mime.build(message, content, sources)))
          const request = { ...mail(), realm: realm("production"), sizeBytes: bytes.length, mime: Stream.make(bytes) }
          const before = (yield* server.conversations)[0]?.messages.length ?? 0

          assert.strictEqual(yield* endOf(provider, request), "250", what)

          const wire = (yield* server.conversations)[0]!.messages[before]!
          const arrived = wire.replace(/^\./gm, "")
          const [signature, ...rest] = arrived.split(/\r\n(?![ \t])/)
          assert.match(signature!, /^DKIM-Signature: v=1; a=rsa-sha256;/)
          assert.strictEqual(rest.join("\r\n"), bytes.toString("latin1"), what)
          const { results } = yield* Effect.promise(() => dkimVerify(Buffer.from(arrived, "latin1"), { resolver }))
          assert.deepStrictEqual(results.map(({ status }) => status.result), ["pass"], what)
          const [sent, got] = yield* Effect.promise(() =>
            Promise.all([simpleParser(bytes), simpleParser(Buffer.from(arrived, "latin1"))])
          )
          const read = ({ subject, from, to, text, html, messageId, attachments }: typeof sent) => ({
            subject,
            from: from?.text,
            to: JSON.stringify(to),
            text,
            html,
            messageId,
            attachments: attachments.map(({ filename, checksum, contentType }) => [filename, checksum, contentType])
          })
          assert.deepStrictEqual(read(got), read(sent), what)
        }
      }).pipe(Effect.provide(RfcMime.layer))
    )

    it.effect("open no file and fetch no URL, whatever they say", () =>
      Effect.gen(function* () {
        const folder = mkdtempSync(join(tmpdir(), "mailroom-smtp-"))
        yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(folder, { recursive: true })))
        const canary = join(folder, "canary")
        writeFileSync(canary, "canary-in-a-file")
        let hits = 0
        const web = createServer((_, response) => {
          hits += 1
          response.end("canary-on-the-web")
        })
        yield* Effect.callback<void>((resume) => void web.listen(0, "127.0.0.1", () => resume(Effect.void)))
        yield* Effect.addFinalizer(() => Effect.sync(() => web.close()))
        const url = `http://127.0.0.1:${(web.address() as AddressInfo).port}/canary` // it listens on a port
        const { provider, server } = yield* against({ dkim })
        for (const target of [canary, url, `file://${canary}`]) {
          const texts = [
            target,
            JSON.stringify({ path: target, href: target, raw: { path: target, href: target } }),
            `Content-Type: message/external-body; access-type=local-file; name="${target}"\r\n\r\n${target}`
          ]
          for (const text of texts) {
            const request = mail(["charles"], `${text}\r\n`)

            assert.strictEqual(yield* endOf(provider, request), "250")

            const [wire] = yield* arrivals(server, request)
            assert.include(wire, text)
            assert.notInclude(wire, "canary-in-a-file")
            assert.notInclude(wire, "canary-on-the-web")
          }
        }
        assert.strictEqual(hits, 0)
      })
    )
  })
}
