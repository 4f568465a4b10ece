/**
 * Plays the conversations in `fixtures`, over real sockets. A file is one:
 *
 *     # what it shows
 *     @ size 1000          a setting: protocol, size, recipients, errors, commands, tls, implicit, proxy, bytewise, silence
 *     C: EHLO a.test       the client says a line; lines in a row are sent at once
 *     C| .\r\n             bytes as they are: \r \n \t \0 \xNN, and \{x*40} for forty of them
 *     S: 250-mail *        the server says this line; `*` at its end stands for anything
 *     TLS                  the client starts TLS; `TLS fails` if it cannot
 *     FIN                  the client says no more
 *     CLOSED               the server closes
 *     = <a@a.test> <u@ours.test> ESMTP: hello\r\n      a message was taken, in this order and no others
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { createSecureContext } from "node:tls"
import { generate } from "selfsigned"
import { client, recorder, type Client, type Taken } from "./TestPeer.ts"
import * as SmtpListener from "./SmtpListener.ts"

const folder = `${import.meta.dirname}/fixtures`
const names = readdirSync(folder).filter((name) => name.endsWith(".smtp"))

const made = await generate([{ name: "commonName", value: "mail.ours.test" }])
const context = createSecureContext({ key: made.private, cert: made.cert })

const unescape = (text: string): string =>
  text.replace(/\\(?:x([0-9a-f]{2})|\{(.+?)\*(\d+)\}|(.))/g, (_, hex?: string, repeated?: string, times?: string, sign?: string) =>
    hex !== undefined
      ? String.fromCharCode(Number.parseInt(hex, 16))
      : repeated !== undefined
        ? unescape(repeated).repeat(Number(times))
        : ({ r: "\r", n: "\n", t: "\t", "0": "\0" }[sign ?? ""] ?? sign ?? "")
  )

const escape = (text: string): string =>
  text.replace(/[^\x20-\x7e]/g, (sign) => ({ "\r": "\\r", "\n": "\\n", "\t": "\\t", "\0": "\\0" })[sign] ?? `\\x${sign.charCodeAt(0).toString(16).padStart(2, "0")}`)

const shown = ({ peer, returnPath, recipients, text }: Taken): string =>
  `<${returnPath ?? ""}> ${recipients.map((address) => `<${address}>`).join(" ")} ${peer.protocol}: ${escape(text)}`

const optionsOf = (settings: ReadonlyMap<string, string>): SmtpListener.Options => {
  const number = (name: string, fallback: number) => Number(settings.get(name) ?? fallback)
  return {
    protocol: settings.get("protocol") === "LMTP" ? "LMTP" : "SMTP",
    address: { host: "127.0.0.1", port: 0 },
    hostname: "mail.ours.test",
    sizeBytesMax: number("size", 100_000),
    secureContext: () => (settings.has("tls") || settings.has("implicit") ? context : null),
    isImplicitTls: settings.has("implicit"),
    isProxy: () => settings.has("proxy"),
    limits: { recipients: number("recipients", 100), errors: number("errors", 50), commands: number("commands", 1_000) },
    timeouts: { silence: `${number("silence", 20_000)} millis` }
  }
}

const deadline = 10_000

const play = Effect.fnUntraced(function* (text: string) {
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"))
  const settings = new Map(lines.filter((line) => line.startsWith("@ ")).map((line) => [line.split(" ")[1]!, line.split(" ").slice(2).join(" ")]))
  const { taken, layer } = recorder()
  const { address } = yield* Effect.provide(SmtpListener.listen(optionsOf(settings)), layer)
  const peer = yield* client(address)
  if (settings.has("implicit")) assert.isTrue(yield* peer.startTls)
  const expected: Array<string> = []
  let unsaid = ""
  const speak = Effect.fnUntraced(function* () {
    const bytes = Buffer.from(unsaid, "latin1")
    unsaid = ""
    if (!settings.has("bytewise")) return yield* peer.say(bytes)
    for (const byte of bytes) {
      yield* peer.say(Buffer.of(byte))
      yield* Effect.yieldNow
    }
  })
  for (const [index, line] of lines.entries()) {
    if (line.startsWith("@ ")) continue
    else if (line.startsWith("= ")) expected.push(line.slice(2))
    else if (line.startsWith("C: ") || line === "C:") unsaid += `${unescape(line.slice(3))}\r\n`
    else if (line.startsWith("C| ")) unsaid += unescape(line.slice(3))
    else {
      if (unsaid !== "") yield* speak()
      yield* step(peer, line, `${line}, line ${index + 1} of the conversation`)
    }
  }
  assert.deepStrictEqual(taken.map(shown), expected)
})

const step = Effect.fnUntraced(function* (peer: Client, line: string, place: string) {
  if (line.startsWith("S: ")) {
    const heard = yield* peer.hear
    const wanted = line.slice(3)
    if (wanted.endsWith("*") && heard !== null) assert.strictEqual(`${heard.slice(0, wanted.length - 1)}*`, wanted, place)
    else assert.strictEqual(heard, wanted, place)
  } else if (line === "TLS" || line === "TLS fails") assert.strictEqual(yield* peer.startTls, line === "TLS", place)
  else if (line === "FIN") peer.socket().end()
  else if (line === "CLOSED") assert.isNull(yield* peer.hear, place)
  else assert.fail(`not a line of a conversation: ${line}`)
})

describe("SmtpListener", () => {
  it("has a conversation for each of many behaviours, each with a title of its own", () => {
    const titles = names.map((name) => readFileSync(`${folder}/${name}`, "utf8").split("\n")[0]!)

    assert.isAtLeast(names.length, 60)
    assert.isTrue(titles.every((title) => /^# .{10,}/.test(title)))
    assert.strictEqual(new Set(titles).size, titles.length)
  })

  for (const name of names) {
    const text = readFileSync(`${folder}/${name}`, "utf8")
    it.live(`${text.split("\n")[0]!.slice(2)} (${name})`, () =>
      Effect.scoped(Effect.timeoutOrElse(play(text), { duration: deadline, orElse: () => Effect.die(new Error("the conversation has come to a stop")) }))
    )
  }
})
