import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Logger, Option, Result, Stream } from "effect"
import { TestClock } from "effect/testing"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { hostname, tmpdir } from "node:os"
import { join } from "node:path"
import tls from "node:tls"
import { generate } from "selfsigned"
import type { Address } from "../adapters/smtp-server/SmtpListener.ts"
import { client, recorder, type Recorder } from "../adapters/smtp-server/TestPeer.ts"
import * as MailAddress from "../core/model/Address.ts"
import { Management } from "../core/operations/Management.ts"
import { Receive } from "../core/operations/Receive.ts"
import { MailAuthenticator } from "../core/ports/MailAuthenticator.ts"
import { SpamFilter } from "../core/ports/SpamFilter.ts"
import * as Config from "./Config.ts"
import { provision } from "./dev/Provision.ts"
import * as Harness from "./http/harness.ts"
import * as Inbound from "./Inbound.ts"

const made = { one: await generate([{ name: "commonName", value: "one.ours.test" }]), two: await generate([{ name: "commonName", value: "two.ours.test" }]) }

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "mailroom-inbound-"))),
  (made) => Effect.sync(() => rmSync(made, { recursive: true }))
)

/** Settings that name the files of a certificate, and how another is written into them. */
const certified = Effect.map(folder, (place) => {
  const variables = { MAILROOM_INBOUND_TLS_CERT_FILE: join(place, "cert.pem"), MAILROOM_INBOUND_TLS_KEY_FILE: join(place, "key.pem") }
  const put = ({ cert, private: key }: { readonly cert: string; readonly private: string }) => {
    writeFileSync(variables.MAILROOM_INBOUND_TLS_CERT_FILE, cert)
    writeFileSync(variables.MAILROOM_INBOUND_TLS_KEY_FILE, key)
  }
  put(made.one)
  return { place, variables, put }
})

/** The lines of the log, as they come. */
const logged = () => {
  const lines: Array<string> = []
  return { lines, log: Logger.layer([Logger.make(({ logLevel, message }) => void lines.push(`${logLevel} ${String(message)}`))]) }
}

/** Where it listens with these settings beside a name, and ports that are free. */
const listening = Effect.fnUntraced(function* (variables: Config.Variables, { layer }: Pick<Recorder, "layer"> = recorder()) {
  const config = yield* Config.load({ MAILROOM_INBOUND_HOSTNAME: "mx.ours.test", MAILROOM_INBOUND_PORT: "0", ...variables })
  const places = yield* Effect.provide(Inbound.listen(config), layer)
  return places.map(({ protocol, address }) => ({ protocol, address: addressOf(address) }))
})

const addressOf = (place: string): Address =>
  place.startsWith("/") ? { path: place } : { host: "127.0.0.1", port: Number(/^127\.0\.0\.1:(\d+)$/.exec(place)?.[1]) }

interface Way {
  readonly isUnderTls?: boolean
  /** The address that the client has, of this machine's. */
  readonly from?: string
}

/** All that is heard by who says all this at once. */
const heard = Effect.fnUntraced(function* (address: Address, lines: ReadonlyArray<string>, { isUnderTls = false, from = "127.0.0.1" }: Way = {}) {
  const target = "path" in address ? address : { ...address, localAddress: from }
  const peer = yield* client(target)
  if (isUnderTls) assert.isTrue(yield* peer.startTls)
  yield* peer.say(lines.map((line) => `${line}\r\n`).join(""))
  const answers: Array<string> = []
  for (let line = yield* peer.hear; line !== null; line = yield* peer.hear) answers.push(line)
  return answers
})

/** The name on the certificate that is shown to who speaks TLS up to this version; null: they do not come together. */
const named = (address: Address, maxVersion: tls.SecureVersion = "TLSv1.3") =>
  Effect.callback<string | null>((resume) => {
    const socket = tls.connect({ ...address, rejectUnauthorized: false, minVersion: "TLSv1", maxVersion, ciphers: "DEFAULT@SECLEVEL=0" }, () => {
      resume(Effect.succeed(socket.getPeerCertificate().subject.CN as string)) // it has one name
      socket.destroy()
    })
    socket.once("error", () => resume(Effect.succeed(null)))
  })

const offers = ["250-PIPELINING", "250-SIZE 65536", "250-8BITMIME", "250-SMTPUTF8"]
const unknown = "500 5.5.2 no such command"
const bye = "221 2.0.0 bye"

describe("where mail comes in", () => {
  it.live("is each place of the settings, which speaks as it is to, by this name and up to this size", () =>
    Effect.gen(function* () {
      const { place, variables } = yield* certified
      const path = join(place, "lmtp.sock")
      const places = yield* listening({ ...variables, MAILROOM_INBOUND_TLS_PORT: "0", MAILROOM_INBOUND_LMTP: path, MAILROOM_INBOUND_SIZE_MAX: "65536" })
      const [clear, encrypted, local] = places.map(({ address }) => address)

      const said = [
        yield* heard(clear!, ["LHLO a.test", "EHLO a.test", "QUIT"]),
        yield* heard(encrypted!, ["LHLO a.test", "EHLO a.test", "QUIT"], { isUnderTls: true }),
        yield* heard(local!, ["EHLO a.test", "LHLO a.test", "QUIT"])
      ]

      assert.deepStrictEqual(places.map(({ protocol }) => protocol), ["SMTP", "SMTP under TLS", "LMTP"])
      assert.deepStrictEqual(local, { path })
      const open = [...offers, "250-ENHANCEDSTATUSCODES", "250 STARTTLS"]
      assert.deepStrictEqual(said, [
        ["220 mx.ours.test ESMTP", unknown, "250-mx.ours.test", ...open, bye],
        ["220 mx.ours.test ESMTP", unknown, "250-mx.ours.test", ...offers, "250 ENHANCEDSTATUSCODES", bye],
        ["220 mx.ours.test LMTP", unknown, "250-mx.ours.test", ...open, bye]
      ])
    })
  )

  it.live("hears whom a proxy names, and from nobody else who that is", () =>
    Effect.gen(function* () {
      const { taken, layer } = recorder()
      const { lines, log } = logged()
      const places = yield* Effect.provide(listening({ MAILROOM_INBOUND_PROXIES: "127.0.0.2, 192.0.2.0/24" }, { layer }), log)
      const { address } = places[0]!
      const greeting = "220 mx.ours.test ESMTP"
      const proxied = "PROXY TCP4 203.0.113.9 127.0.0.1 4711 25"
      const letter = ["HELO a.test", "MAIL FROM:<a@a.test>", "RCPT TO:<u@ours.test>", "DATA", "x", ".", "QUIT"]

      assert.deepStrictEqual(yield* heard(address, [proxied, "QUIT"]), [greeting, unknown, bye])
      assert.deepStrictEqual(yield* heard(address, [proxied, "QUIT"], { from: "127.0.0.3" }), [greeting, unknown, bye])
      assert.deepStrictEqual(yield* heard(address, ["QUIT"], { from: "127.0.0.2" }), [])
      assert.include(yield* heard(address, [proxied, ...letter], { from: "127.0.0.2" }), "250 2.0.0 message taken")
      assert.deepStrictEqual(taken.map(({ peer }) => peer.remoteAddress), ["203.0.113.9"])
      assert.lengthOf(lines, 1)
      assert.match(lines[0]!, /^Warn a connection was closed: it is from a proxy, /)
    })
  )

  it.effect("shows the certificate that is in its files by now, and keeps it while they hold none", () =>
    Effect.gen(function* () {
      const { put, variables } = yield* certified
      const { lines, log } = logged()
      const places = yield* Effect.provide(listening({ ...variables, MAILROOM_INBOUND_TLS_PORT: "0" }), log)
      const shown = (certificate: { readonly cert: string; readonly private: string }) =>
        Effect.sync(() => put(certificate)).pipe(Effect.andThen(TestClock.adjust("1 minute")), Effect.andThen(named(places[1]!.address)))

      assert.strictEqual(yield* named(places[1]!.address), "one.ours.test")
      assert.strictEqual(yield* shown(made.two), "two.ours.test")
      assert.strictEqual(yield* shown({ ...made.one, cert: "half" }), "two.ours.test")
      assert.strictEqual(yield* shown(made.one), "one.ours.test")
      assert.lengthOf(lines, 1)
      assert.match(lines[0]!, /^Warn the certificate stays as it was: MAILROOM_INBOUND_TLS_CERT_FILE and MAILROOM_INBOUND_TLS_KEY_FILE: they are not /)
    })
  )

  it.effect("speaks no TLS before 1.2, whatever Node is told to", () =>
    Effect.gen(function* () {
      const before = [tls.DEFAULT_MIN_VERSION, tls.DEFAULT_CIPHERS] as const
      yield* Effect.addFinalizer(() => Effect.sync(() => ([tls.DEFAULT_MIN_VERSION, tls.DEFAULT_CIPHERS] = before)))
      tls.DEFAULT_MIN_VERSION = "TLSv1"
      tls.DEFAULT_CIPHERS = "DEFAULT@SECLEVEL=0"
      const { variables } = yield* certified

      const places = yield* listening({ ...variables, MAILROOM_INBOUND_TLS_PORT: "0" })

      assert.isNull(yield* named(places[1]!.address, "TLSv1.1"))
      assert.strictEqual(yield* named(places[1]!.address, "TLSv1.2"), "one.ours.test")
    })
  )
})

describe("who judges what comes in", () => {
  const judges = Effect.fnUntraced(function* (variables: Config.Variables) {
    const context = yield* Layer.build(Inbound.judges(yield* Config.load(variables)))
    return { authenticator: Context.getOption(context, MailAuthenticator), spamFilter: Context.getOption(context, SpamFilter) }
  })

  it.live("asks whom mail is from unless that is off, and Rspamd where one is named", () =>
    Effect.gen(function* () {
      const url = "http://127.0.0.1:11333"
      const rows: ReadonlyArray<readonly [Config.Variables, asksWhom: boolean, asksRspamd: boolean]> = [
        [{}, true, false],
        [{ MAILROOM_INBOUND_DMARC: "spam" }, true, false],
        [{ MAILROOM_INBOUND_DMARC: "off" }, false, false],
        [{ MAILROOM_INBOUND_RSPAMD: url }, true, true],
        [{ MAILROOM_INBOUND_DMARC: "off", MAILROOM_INBOUND_RSPAMD: url }, false, true]
      ]

      for (const [variables, asksWhom, asksRspamd] of rows) {
        const { authenticator, spamFilter } = yield* judges(variables)
        assert.deepStrictEqual([Option.isSome(authenticator), Option.isSome(spamFilter)], [asksWhom, asksRspamd], JSON.stringify(variables))
      }
    })
  )

  it.live("refuses what Rspamd refuses, which is shown its password", () =>
    Effect.gen(function* () {
      const passwords: Array<unknown> = []
      const server = createServer(({ headers }, response) => {
        passwords.push(headers["password"])
        response.end("{\"action\":\"reject\"}")
      })
      yield* Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void)))
      yield* Effect.addFinalizer(() => Effect.sync(() => (server.closeAllConnections(), server.close())))
      const { port } = server.address() as AddressInfo // it listens on a port
      const config = yield* Config.load({
        MAILROOM_INBOUND_DMARC: "off",
        MAILROOM_INBOUND_RSPAMD: `http://127.0.0.1:${port}`,
        MAILROOM_INBOUND_RSPAMD_PASSWORD: "secret"
      })
      const context = yield* Layer.build(Layer.merge(Inbound.core(config), Management.layer).pipe(Layer.provideMerge(Harness.adapters)))
      const { mailboxes } = yield* Effect.provideContext(provision(null, { domain: Result.getOrThrow(MailAddress.parseDomain("ours.test")), withProduction: true }), context)

      const refusal = yield* Receive.use(({ accept }) =>
        accept({
          peer: { remoteAddress: "203.0.113.9", helo: "a.test", protocol: "ESMTP" },
          returnPath: null,
          recipients: [mailboxes[0]!.address],
          bytes: Stream.make(Buffer.from("Subject: Note\r\n\r\nx\r\n"))
        })
      ).pipe(Effect.flip, Effect.provideContext(context))

      assert.strictEqual(refusal._tag, "ReceiveRefused")
      assert.match(refusal.message, /spam/)
      assert.deepStrictEqual(passwords, ["secret"])
    })
  )

  it.effect("has of the core done what the settings say, under the name of this machine unless there is another", () =>
    Effect.gen(function* () {
      const told = (variables: Config.Variables) => Effect.map(Config.load(variables), Inbound.coreSettings)
      const named = { MAILROOM_INBOUND_HOSTNAME: "mx.ours.test", MAILROOM_INBOUND_POSTMASTER: "ops@ours.test" }

      assert.deepStrictEqual<unknown>(yield* told({}), { hostName: hostname(), postmaster: null, dmarcReject: "refuse" })
      assert.deepStrictEqual<unknown>(yield* told({ ...named, MAILROOM_INBOUND_DMARC: "spam" }), {
        hostName: "mx.ours.test",
        postmaster: "ops@ours.test",
        dmarcReject: "spam"
      })
      assert.deepStrictEqual<unknown>(yield* told({ ...named, MAILROOM_INBOUND_DMARC: "off" }), { hostName: "mx.ours.test", postmaster: "ops@ours.test" })
    })
  )
})
