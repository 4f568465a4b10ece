/**
 * What every WebhookTransport over sockets does with the bytes it gets, with
 * the connections it opens, and with certificates. The suite of
 * `WebhookTransport` holds it to the rest.
 */
import assert from "node:assert/strict"
import { Context, Effect, Fiber, type Scope } from "effect"
import { webhookAnswerBytesMax } from "../core/model/Limits.ts"
import type { TargetPolicy } from "../core/model/WebhookUrl.ts"
import { WebhookTransport } from "../core/ports/WebhookTransport.ts"
import type { Suite } from "./Suite.ts"
import { targetOf, until } from "./WebhookTransport.ts"

/** What a certificate is of, and whether it is to be believed. */
export type Certificate =
  | "OfItsName"
  | "OfItsAddress"
  | "OfAnotherName"
  | "Expired"
  | "NotYetValid"
  | "SelfSigned"
  | "OfUnknownAuthority"
  /** No certificate: the connection is accepted, and nothing is said. */
  | "Mute"

/** Bytes, one per character; or `<end>` or `<reset>`, by which it closes the connection. */
export type Said = string

/** A server, and what it has seen. */
export interface Listener {
  /** `https`, if it has a certificate; at a fresh name that leads to its first address. */
  readonly url: string
  readonly host: string
  /** The bytes of the requests it read, in order of arrival. */
  readonly requests: Effect.Effect<ReadonlyArray<string>>
  /** The addresses at which it was connected to, each time. */
  readonly reached: Effect.Effect<ReadonlyArray<string>>
  /** The names that TLS asked for, where its handshake came to an end; null for none. */
  readonly serverNames: Effect.Effect<ReadonlyArray<string | null>>
  /** Connections that are open. */
  readonly open: Effect.Effect<number>
}

/** What a server is to be, and to say. */
export interface Listening {
  readonly certificate?: Certificate
  /** Where it listens: everywhere, unless said otherwise. */
  readonly only?: string
  /** What it says to the first request, the second and so on, whoever sends it; to later ones, the last. */
  readonly says: ReadonlyArray<ReadonlyArray<Said>>
}

/**
 * Servers that say what they are told, byte by byte, and the names that lead to them: the layer that is held to the suite
 * provides it beside the transport, which trusts the authority of the certificates but for `OfUnknownAuthority`.
 * `mailroom/conformance/webhook-sockets` has one for transports that take a `Resolver`.
 */
export class Wire extends Context.Service<
  Wire,
  {
    /** Allows http, and the addresses. */
    readonly policy: TargetPolicy
    /** Two addresses of this machine. */
    readonly addresses: readonly [string, string]
    /** Another, which is not allowed. */
    readonly forbidden: string
    readonly listen: (listening: Listening) => Effect.Effect<Listener, never, Scope.Scope>
    readonly lead: (host: string, ...answers: ReadonlyArray<ReadonlyArray<string>>) => Effect.Effect<void>
  }
>()("mailroom/conformance/Wire") {}

const head = (...lines: ReadonlyArray<string>): string => [...lines, "", ""].join("\r\n")
const okWith = (body: string): string => head("HTTP/1.1 200 OK", `content-length: ${body.length}`) + body
const ok = okWith("fine")

const listen = (...says: Listening["says"]) => Wire.use((wire) => wire.listen({ says }))

const post = Effect.fnUntraced(function* (url: string, body = "{}") {
  const { policy } = yield* Wire
  const target = yield* targetOf(url, policy)
  const transport = yield* WebhookTransport
  const answer = yield* transport.post({ target, headers: { "content-type": "application/json" }, body: new TextEncoder().encode(body) })
  return { ...answer, body: new TextDecoder("latin1").decode(answer.body) }
})

const get = Effect.fnUntraced(function* (url: string) {
  const { policy } = yield* Wire
  const transport = yield* WebhookTransport
  return yield* transport.get({ target: yield* targetOf(url, policy), headers: {} })
})

const assertFails = Effect.fnUntraced(function* (url: string, reason: "unsafe_url" | "network_error" = "network_error") {
  const error = yield* Effect.flip(post(url))
  assert.equal(error._tag, "WebhookUnanswered")
  assert.equal(error.reason, reason)
})

const untilOpen = ({ open }: Listener, expected: number) => until(open, (count) => count === expected)

/** A URL of the same port, but for the host. */
const at = (url: string, host: string): string => url.replace(new URL(url).hostname, host)

type Checks = Suite<WebhookTransport | Wire>["checks"]

const bytes: Checks = [
  {
    title: "reads answers however they are framed",
    check: Effect.gen(function* () {
      const framed: ReadonlyArray<readonly [says: ReadonlyArray<Said>, status: number, body: string]> = [
        [[ok], 200, "fine"],
        [[...ok], 200, "fine"],
        [[head("HTTP/1.1 200 OK", "transfer-encoding: chunked"), "2\r\nfi\r\n", "2;ext=1\r\nne\r\n", "0\r\n\r\n"], 200, "fine"],
        [[head("HTTP/1.1 200 OK", "transfer-encoding: chunked"), "4\r\nfine\r\n0\r\nretry-after: 9\r\nx: y\r\n\r\n"], 200, "fine"],
        [[head("HTTP/1.1 200 OK"), "fi", "ne", "<end>"], 200, "fine"],
        [[head("HTTP/1.0 200 OK"), "fine", "<end>"], 200, "fine"],
        [[head("HTTP/1.1 200 OK", "content-length: 0")], 200, ""],
        [[head("HTTP/1.1 204 No Content")], 204, ""],
        [[head("HTTP/1.1 304 Not Modified", "content-length: 4")], 304, ""],
        [[head("HTTP/1.1 102 Processing"), head("HTTP/1.1 103 Early Hints", "link: </x>", "retry-after: 9"), ok], 200, "fine"],
        [[head("HTTP/1.1 100 Continue"), ok], 200, "fine"],
        [[head("HTTP/1.1 100 Continue", "x: y") + head("HTTP/1.1 103 Early Hints") + head("HTTP/1.1 100") + ok], 200, "fine"],
        [[...head("HTTP/1.1 100 Continue", "x: y"), ...head("HTTP/1.1 100 Continue"), ...okWith("HTTP/1.1 100\r\n\r\nHTTP/1.1 100 Continue")], 200, "HTTP/1.1 100\r\n\r\nHTTP/1.1 100 Continue"],
        [[head("HTTP/1.1 200", "content-length: 4"), "fine"], 200, "fine"],
        [[head("HTTP/1.1 999 Odd", "content-length: 4"), "fine"], 999, "fine"]
      ]
      for (const [says, status, body] of framed) {
        const answer = yield* post((yield* listen(says)).url)

        assert.deepEqual(answer, { status, retryAfter: null, body, truncated: false }, says.join(""))
      }
      const secure = yield* (yield* Wire).listen({ certificate: "OfItsName", says: [[head("HTTP/1.1 100 Continue"), ok]] })
      assert.equal((yield* post(secure.url)).body, "fine")
    })
  },
  {
    title: "takes nothing for an answer that is not a whole one",
    check: Effect.gen(function* () {
      const broken: ReadonlyArray<ReadonlyArray<Said>> = [
        ["<end>"],
        ["<reset>"],
        ["220 mail.example ESMTP\r\n"],
        ["fine\r\n\r\n", "<end>"],
        ["HTTP/1.1 200 OK\r\n", "<end>"],
        [head("HTTP/1.1 103 Early Hints"), "<end>"],
        [head("HTTP/1.1 100 Continue"), "<end>"],
        [head("HTTP/1.1 200 OK", "content-length: 5"), "fine", "<end>"],
        [head("HTTP/1.1 200 OK", "content-length: 5"), "fine", "<reset>"],
        [head("HTTP/1.1 200 OK", "content-length: 4", "content-length: 5"), "fine", "<end>"],
        [head("HTTP/1.1 200 OK", "content-length: -1"), "<end>"],
        [head("HTTP/1.1 200 OK", "content-length: x"), "<end>"],
        [head("HTTP/1.1 200 OK", "transfer-encoding: chunked"), "fine\r\n", "<end>"],
        [head("HTTP/1.1 200 OK", "transfer-encoding: chunked"), "4\r\nfine\r\n", "<end>"],
        [head("HTTP/1.1 200 OK", "transfer-encoding: chunked", "content-length: 4"), "4\r\nfine\r\n0\r\n\r\n"],
        [head("HTTP/1.1 101 Switching Protocols", "connection: upgrade", "upgrade: websocket")],
        [head("HTTP/1.1 200 OK", "a b: c"), "<end>"],
        [head("HTTP/1.1 200 OK", `x: ${"a".repeat(100_000)}`)],
        [head("HTTP/1.1 200 OK", ...Array.from({ length: 5_000 }, (_, index) => `x-${index}: some value`))]
      ]
      for (const says of broken) {
        const listener = yield* listen(says, [ok])

        yield* assertFails(listener.url)
        assert.equal((yield* listener.requests).length, 1, says.join("").slice(0, 80))
        assert.equal((yield* post(listener.url)).body, "fine")
      }
    })
  },
  {
    title: "drops a connection on which more was said than asked for",
    check: Effect.gen(function* () {
      const listener = yield* listen([ok + okWith("of another")], [ok])

      for (let request = 0; request < 3; request++) assert.equal((yield* post(listener.url)).body, "fine")

      assert.equal((yield* listener.reached).length, 2)
    })
  },
  {
    title: "stops reading where it has read enough, and closes the connection",
    check: Effect.gen(function* () {
      const more = "a".repeat(webhookAnswerBytesMax + 1)
      for (const headers of [["content-length: 1000000000"], ["transfer-encoding: chunked"], []]) {
        const start = head("HTTP/1.1 200 OK", ...headers)
        const listener = yield* listen([start, headers[0] === "transfer-encoding: chunked" ? `fffff\r\n${more}` : more])

        for (const ask of [post, get]) {
          const { body, truncated } = yield* ask(listener.url)

          assert.deepEqual([body.length, truncated], [webhookAnswerBytesMax, true])
          yield* untilOpen(listener, 0)
        }
      }
    })
  }
]

const connections: Checks = [
  {
    title: "uses a connection again, and does not insist",
    check: Effect.gen(function* () {
      const listener = yield* listen([ok])
      for (let request = 0; request < 5; request++) yield* post(listener.url)
      assert.equal((yield* listener.reached).length, 1)

      const closing = yield* listen([head("HTTP/1.1 200 OK", "connection: close", "content-length: 4") + "fine", "<end>"])
      for (let request = 0; request < 3; request++) yield* post(closing.url)
      assert.equal((yield* closing.reached).length, 3)
    })
  },
  {
    title: "notices that a connection was closed while it waited",
    check: Effect.gen(function* () {
      const listener = yield* listen([ok, "<end>"])
      for (let request = 0; request < 5; request++) {
        assert.equal((yield* post(listener.url)).body, "fine")
        yield* untilOpen(listener, 0)
      }
      assert.equal((yield* listener.requests).length, 5)
    })
  },
  {
    title: "says that a connection was stale which it had used before, and which ended before a byte of an answer; of no other",
    check: Effect.gen(function* () {
      const endings: ReadonlyArray<readonly [isStale: boolean, ...says: Listening["says"]]> = [
        [true, [ok], ["<end>"]],
        [true, [ok], ["<reset>"]],
        [false, [ok], ["HTTP/1.1 2", "<end>"]],
        [false, [ok], [head("HTTP/1.1 103 Early Hints"), "<end>"]],
        [false, ["<end>"]]
      ]
      for (const [isStale, ...says] of endings) {
        const listener = yield* listen(...says)
        for (const _ of says.slice(1)) yield* post(listener.url)

        const error = yield* Effect.flip(post(listener.url))

        assert.deepEqual([error.reason, error.isStale ?? false], ["network_error", isStale], says.at(-1)?.join(""))
        assert.equal((yield* listener.requests).length, says.length, "it repeats nothing")
      }
    })
  },
  {
    title: "uses a connection again only if the name still leads to where it goes",
    check: Effect.gen(function* () {
      const { addresses, forbidden, lead } = yield* Wire
      const [one, other] = addresses
      const listener = yield* listen([ok])
      yield* lead(listener.host, [one], [other], [other, one], [forbidden], [one, forbidden], [one], ["::1"], [], [other])

      for (let request = 0; request < 3; request++) yield* post(listener.url)
      yield* assertFails(listener.url, "unsafe_url")
      yield* assertFails(listener.url, "unsafe_url")
      yield* post(listener.url)
      yield* assertFails(listener.url, "unsafe_url")
      yield* assertFails(listener.url, "network_error")
      yield* post(listener.url)

      assert.deepEqual(yield* listener.reached, [one, other])
      assert.equal((yield* listener.requests).length, 5)
    })
  },
  {
    title: "shares no connection between names, though they lead to one address",
    check: Effect.gen(function* () {
      const { addresses, lead, listen } = yield* Wire
      for (const certificate of [undefined, "OfItsName"] as const) {
        const listener = yield* listen({ says: [[ok]], ...(certificate === undefined ? {} : { certificate }) })
        const alias = `alias-${listener.host}`
        yield* lead(alias, [addresses[0]])

        yield* post(listener.url)
        yield* post(at(listener.url, alias))

        assert.equal((yield* listener.reached).length, 2)
        const hosts = (yield* listener.requests).map((request) => /^host: (.*)$/m.exec(request)?.[1]?.trim())
        assert.deepEqual(hosts, [listener.host, alias].map((host) => `${host}:${new URL(listener.url).port}`))
      }
    })
  },
  {
    title: "goes on to the next address where one does not answer",
    check: Effect.gen(function* () {
      const { addresses, lead, listen } = yield* Wire
      const [one, other] = addresses
      const listener = yield* listen({ only: other, says: [[ok]] })
      yield* lead(listener.host, [one, other])

      assert.equal((yield* post(listener.url)).body, "fine")
      yield* lead(listener.host, [one])
      yield* assertFails(listener.url)
    })
  },
  {
    title: "closes the connection at once when it is interrupted, wherever it stands",
    check: Effect.gen(function* () {
      const { listen } = yield* Wire
      const standstills: ReadonlyArray<Listening> = [
        { says: [[]] },
        { says: [["HTTP/1.1 200"]] },
        { says: [[head("HTTP/1.1 200 OK", "content-length: 9"), "fine"]] },
        { says: [[head("HTTP/1.1 103 Early Hints")]] },
        { says: [], certificate: "Mute" },
        { says: [["HTTP/1.1 200"]], certificate: "OfItsName" }
      ]
      for (const standstill of standstills) {
        const listener = yield* listen(standstill)
        const posts = yield* Effect.forEach(Array.from({ length: 5 }), () => Effect.forkScoped(post(listener.url)))
        yield* untilOpen(listener, 5)
        if (standstill.certificate !== "Mute") yield* until(listener.requests, ({ length }) => length === 5)

        yield* Fiber.interruptAll(posts)

        yield* untilOpen(listener, 0)
      }
    })
  },
  {
    title: "closes a connection that it has used before, too",
    check: Effect.gen(function* () {
      const listener = yield* listen([ok], [])
      yield* post(listener.url)
      const waiting = yield* Effect.forkScoped(post(listener.url))
      yield* until(listener.requests, ({ length }) => length === 2)
      assert.equal((yield* listener.reached).length, 1)

      yield* Fiber.interrupt(waiting)

      yield* untilOpen(listener, 0)
    })
  },
  {
    title: "posts to an address as to a name",
    check: Effect.gen(function* () {
      const { addresses } = yield* Wire
      const listener = yield* listen([ok])
      const url = at(listener.url, addresses[0])

      assert.equal((yield* post(url)).body, "fine")

      const [request = ""] = yield* listener.requests
      const [line, ...headers] = request.slice(0, request.indexOf("\r\n\r\n")).toLowerCase().split("\r\n")
      assert.equal(line, `post ${new URL(url).pathname} http/1.1`)
      assert.ok(headers.includes(`host: ${new URL(url).host}`), request)
      assert.ok(headers.includes("content-length: 2"), request)
      assert.ok(request.endsWith("\r\n\r\n{}"), request)
    })
  }
]

const certificates: Checks = [
  {
    title: "asks TLS for the name, and takes its certificate",
    check: Effect.gen(function* () {
      const { addresses, listen } = yield* Wire
      const listener = yield* listen({ certificate: "OfItsName", says: [[ok]] })

      assert.equal((yield* post(listener.url)).body, "fine")
      yield* post(listener.url)

      assert.deepEqual(yield* listener.serverNames, [listener.host])
      assert.deepEqual(yield* listener.reached, [addresses[0]])
    })
  },
  {
    title: "takes a certificate of an address for that address, and asks for no name",
    check: Effect.gen(function* () {
      const { addresses, listen } = yield* Wire
      const listener = yield* listen({ certificate: "OfItsAddress", says: [[ok]] })

      assert.equal((yield* post(at(listener.url, addresses[0]))).body, "fine")
      yield* assertFails(at(listener.url, addresses[1]))
      yield* assertFails(listener.url)

      assert.deepEqual(yield* listener.serverNames, [null])
      assert.equal((yield* listener.requests).length, 1)
    })
  },
  ...(["OfAnotherName", "Expired", "NotYetValid", "SelfSigned", "OfUnknownAuthority"] as const).map((certificate) => ({
    title: `says nothing to a receiver whose certificate is ${certificate.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`).trim()}`,
    check: Effect.gen(function* () {
      const { listen } = yield* Wire
      const listener = yield* listen({ certificate, says: [[ok]] })

      for (let time = 0; time < 3; time++) yield* assertFails(listener.url)
      assert.equal((yield* Effect.flip(get(listener.url))).reason, "network_error")

      assert.equal((yield* listener.reached).length, 4)
      assert.deepEqual(yield* listener.requests, [])
      yield* untilOpen(listener, 0)
    })
  })),
  {
    title: "says nothing where TLS is not spoken",
    check: Effect.gen(function* () {
      const listener = yield* listen([ok])

      yield* assertFails(listener.url.replace("http:", "https:"))

      assert.deepEqual((yield* listener.requests).filter((request) => request.includes("HTTP")), [])
    })
  },
  {
    title: "fails when the connection is closed during the handshake",
    check: Effect.gen(function* () {
      const listener = yield* listen(["<end>"])

      yield* assertFails(listener.url.replace("http:", "https:"))
    })
  }
]

export const suite: Suite<WebhookTransport | Wire> = {
  name: "WebhookTransport on the wire",
  checks: [...bytes, ...connections, ...certificates]
}
