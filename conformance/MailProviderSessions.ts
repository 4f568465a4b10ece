/**
 * The part of the hostile suite that is about what is said on a connection and
 * carried over it: odd replies, TLS, the bytes of a message, and connections
 * that are used again.
 */
import assert from "node:assert/strict"
import { Effect, Fiber, Stream } from "effect"
import * as Replies from "../core/model/Reply.ts"
import { realm } from "./fixtures.ts"
import {
  arrivals,
  assertGoesOn,
  endOf,
  heard,
  large,
  mail,
  once,
  secret,
  type Checks,
  type Options,
  type Script
} from "./MailServerScript.ts"

export const sessions = <R>(options: Options<R>): Checks<R> => [
  ...words(options),
  ...encryption(options),
  ...bytes(options),
  ...reuse(options)
]

const words = <R>({ against }: Options<R>): Checks<R> => [
  ...[
    ["250-2.0.0 first\r\n250-2.0.0 second\r\n250 2.0.0 third\r\n", "2.0.0", "first second third"],
    ["250 2.0.0 Grüße ✓\r\n", "2.0.0", "Grüße ✓"],
    ["250 2.0.0\r\n", "2.0.0", null],
    ["250\r\n", null, null],
    ["250 \r\n", null, null],
    ["250 ok 5.7.1 in the text\r\n", null, "ok 5.7.1 in the text"],
    ["250 5.7.1 accepted, whatever this says\r\n", null, "accepted, whatever this says"],
    ["250 2.0.0 line feed alone\n", "2.0.0", "line feed alone"],
    ["\r\n\r\n250 2.0.0 after empty lines\r\n", "2.0.0", "after empty lines"]
  ].map(([say, enhancedCode, text]) => ({
    title: `understands ${JSON.stringify(say)}`,
    check: Effect.gen(function* () {
      const { provider, server } = yield* against(once("message", { say: say! }))

      const { replies } = yield* provider.submit(mail())

      assert.deepEqual(replies[0]!.reply, { smtpCode: 250, enhancedCode, text })
      assert.equal(Replies.classify(replies[0]!.reply), "accepted")
      yield* assertGoesOn(provider, server)
    })
  })),
  ...["354 go on", "100 hold", "600 what", "2 short", "25 short", "2500 long", "ok", "\u0000\u0001"].map((said) => ({
    title: `takes ${JSON.stringify(said)} for no answer to a message`,
    check: Effect.gen(function* () {
      const { provider, server } = yield* against(once("message", { say: `${said}\r\n` }))

      assert.equal(yield* endOf(provider, mail()), "unavailable")

      yield* server.until(([first]) => first!.isClosed)
      yield* assertGoesOn(provider, server)
    })
  })),
  {
    title: "asks again for a recipient who got no sensible answer, and submits to the others",
    check: Effect.gen(function* () {
      const { provider } = yield* against(({ place, argument }) => {
        if (place !== "RCPT" || argument.includes("charles")) return null
        return argument.includes("mary") ? { say: "399 perhaps\r\n" } : { say: "550 5.1.1 unknown\r\n" }
      })
      const repliesTo = (...recipients: ReadonlyArray<string>) =>
        Effect.map(provider.submit(mail(recipients)), ({ replies }) => replies.map(({ reply }) => Replies.classify(reply)))

      assert.deepEqual(yield* repliesTo("charles", "mary"), ["accepted", "transient"])
      assert.deepEqual(yield* repliesTo("mary", "george"), ["transient", "permanent"])
      assert.deepEqual(yield* repliesTo("mary"), ["transient"])
    })
  },
  {
    title: "keeps a bounded part of a long reply",
    check: Effect.gen(function* () {
      for (const say of [`550 5.1.1 ${"x".repeat(60_000)}\r\n`, `${"550-5.1.1 x\r\n".repeat(4_000)}550 5.1.1 x\r\n`]) {
        const { provider, server } = yield* against(once("RCPT", { say }))

        const { replies } = yield* provider.submit(mail())

        const { smtpCode, enhancedCode, text } = replies[0]!.reply
        assert.deepEqual([smtpCode, enhancedCode], [550, "5.1.1"])
        assert.ok(text!.length > 0 && text!.length <= 4_000)
        yield* assertGoesOn(provider, server)
      }
    })
  },
  {
    title: "gives a server up whose reply has no end, without keeping it all",
    check: Effect.gen(function* () {
      for (const place of ["greeting", "EHLO", "MAIL", "message"] as const) {
        for (const say of ["2".repeat(8_000_000), "250-again\r\n".repeat(800_000)]) {
          const { provider, server } = yield* against(once(place, { say }))

          assert.equal(yield* endOf(provider, mail()), "unavailable")
          yield* server.until(([first]) => first!.isClosed)
          yield* assertGoesOn(provider, server)
        }
      }
    })
  },
  ...(["greeting", "EHLO", "message"] as const).map((place) => ({
    title: `lets no word that was not asked for answer a later message: ${place}`,
    check: Effect.gen(function* () {
      const good = { greeting: "220 mail.example ESMTP\r\n", EHLO: "250 mail.example\r\n", message: "250 2.0.0 queued\r\n" }
      for (const junk of ["250 ok\r\n", "550 no\r\n", "354 go on\r\n", "junk\r\n"]) {
        const { provider, server } = yield* against(once(place, { say: good[place] + junk.repeat(5) }))
        const first = mail()

        const end = yield* endOf(provider, first)

        assert.equal(end, place === "message" ? "250" : "unavailable")
        assert.equal((yield* arrivals(server, first)).length, place === "message" ? 1 : 0)
        yield* assertGoesOn(provider, server)
        assert.equal((yield* server.conversations).length, 2)
      }
    })
  }))
]

const encryption = <R>({ against }: Options<R>): Checks<R> => [
  {
    title: "says nothing of a message or of credentials before it is encrypted, where it has to be",
    check: Effect.gen(function* () {
      const { provider, server } = yield* against(() => null, secret)

      assert.equal(yield* endOf(provider, mail()), "250")

      const [only] = yield* server.conversations
      const [before, after] = splitAt(only!.commands, "STARTTLS")
      assert.deepEqual(before.map((command) => command.split(" ")[0]), ["EHLO", "STARTTLS"])
      assert.deepEqual(after.map((command) => command.split(" ")[0]!.toUpperCase()), ["EHLO", "AUTH", "MAIL", "RCPT", "DATA"])
      assert.ok(only!.isEncrypted)
    })
  },
  ...(["STARTTLS is not offered", "STARTTLS is refused", "EHLO is refused"] as const).map((title) => ({
    title: `submits nothing, and no credentials, when ${title}`,
    check: Effect.gen(function* () {
      const scripts: Record<typeof title, Script> = {
        "STARTTLS is not offered": ({ place }) => {
          if (place === "EHLO") return { say: "250-mail.example\r\n250 AUTH PLAIN LOGIN\r\n" }
          return place === "STARTTLS" ? { say: "502 5.5.1 no\r\n" } : null
        },
        "STARTTLS is refused": ({ place }) => (place === "STARTTLS" ? { say: "454 4.7.0 not now\r\n" } : null),
        "EHLO is refused": ({ place }) => (place === "EHLO" ? { say: "502 5.5.1 no\r\n" } : null)
      }
      const { provider, server } = yield* against(scripts[title], secret)

      assert.equal(yield* endOf(provider, mail()), "unavailable")

      const conversations = yield* server.conversations
      assert.equal(heard(conversations, "AUTH") + heard(conversations, "MAIL"), 0)
      assert.ok(conversations.every(({ isEncrypted }) => !isEncrypted))
    })
  })),
  {
    title: "heeds nothing that came with the answer to STARTTLS, before the encryption",
    check: Effect.gen(function* () {
      const lines = ["250 injected\r\n", "250-injected\r\n250 SIZE 1\r\n", "235 2.7.0 signed in\r\n", "421 bye\r\n", "\r\n"]
      for (const injected of [...lines, "250-half", "2"]) {
        const step = { say: `220 2.0.0 go ahead\r\n${injected}`, goesOn: true }
        const { provider, server } = yield* against(once("STARTTLS", step), secret)

        const end = yield* endOf(provider, mail())

        // It is forgotten, or the server is given up for it.
        assert.ok(end === "250" || end === "unavailable", end)
        const [first] = yield* server.conversations
        assert.deepEqual(
          splitAt(first!.commands, "STARTTLS")[1].map((command) => command.split(" ")[0]!.toUpperCase()),
          end === "250" ? ["EHLO", "AUTH", "MAIL", "RCPT", "DATA"] : []
        )
        yield* assertGoesOn(provider, server)
      }
    })
  },
  {
    title: "submits nothing to a server that takes no credentials, where it has some",
    check: Effect.gen(function* () {
      const { provider, server } = yield* against(
        ({ place, isEncrypted }) => (place === "EHLO" && isEncrypted ? { say: "250 mail.example\r\n" } : null),
        secret
      )

      assert.equal(yield* endOf(provider, mail()), "unavailable")
      assert.equal(heard(yield* server.conversations, "MAIL"), 0)
    })
  },
  {
    title: "never quotes the credentials, though the server does",
    check: Effect.gen(function* () {
      const { user, password } = secret.credentials!
      const forms = [password, btoa(password), btoa(`\0${user}\0${password}`)]
      for (const form of forms) {
        for (const place of ["AUTH", "MAIL", "DATA", "message"] as const) {
          const { provider } = yield* against(once(place, { say: `535 5.7.8 bad: ${form}\r\n` }), secret)

          const error = yield* Effect.flip(provider.submit(mail()))

          assert.equal(error._tag, "MailProviderUnavailable")
          const shown = shownOf(error)
          for (const hidden of forms) assert.ok(!shown.includes(hidden), shown)
        }
      }
    })
  },
  {
    title: "never quotes the credentials in a reply, though the server does, and tells what it means",
    check: Effect.gen(function* () {
      const { user, password } = secret.credentials!
      const words = (code: string) => `${code} ${"because of ".repeat(44)}${btoa(`\0${user}\0${password}`)} ${password}\r\n`
      const places = [["MAIL", "550 5.1.1"], ["RCPT", "550 5.1.1"], ["RCPT", "450 4.2.1"], ["DATA", "554 5.6.0"], ["message", "250 2.0.0"]] as const
      for (const [place, code] of places) {
        const { provider } = yield* against(once(place, { say: words(code) }), secret)

        const ending = yield* Effect.result(provider.submit(mail(["charles", "grace"])))

        const shown = shownOf(ending)
        assert.ok(shown.includes(code.slice(4)), shown)
        for (const hidden of [password, btoa(password), btoa(user)]) assert.ok(!shown.includes(hidden.slice(0, 6)), shown)
      }
    })
  }
]

/** All that a log could show of it. */
const shownOf = (error: unknown): string => {
  const seen = new Set<unknown>()
  const visit = (value: unknown): string => {
    if (typeof value !== "object" || value === null || seen.has(value)) return String(value)
    seen.add(value)
    return Reflect.ownKeys(value)
      .map((key) => `${String(key)}: ${visit(Reflect.get(value, key))}`)
      .join("\n")
  }
  return visit(error)
}

const splitAt = (commands: ReadonlyArray<string>, verb: string): readonly [ReadonlyArray<string>, ReadonlyArray<string>] => {
  const index = commands.findIndex((command) => command.toUpperCase().startsWith(verb)) + 1
  return [commands.slice(0, index), commands.slice(index)]
}

/** What ends a message for some servers, or would if it were let through. */
const smugglers: ReadonlyArray<string> = ["\n", "\r", "\r\n", "\r\r\n", "\r\n\0", "\n\n", "\r\r"].flatMap((before) =>
  ["\n", "\r", "\r\n", "\r\r\n", "\0\r\n", "\n\r"].map((after) => `${before}.${after}`)
)

const bytes = <R>({ against }: Options<R>): Checks<R> => [
  {
    title: "ends a message at its end alone, whatever line ends and dots are in it",
    check: Effect.gen(function* () {
      const envelope = "MAIL FROM:<mallory@example.com>\r\nRCPT TO:<victim@example.com>\r\n"
      const smuggled = `${envelope}DATA\r\nSubject: smuggled\r\n\r\n.\r\n`
      const { provider, server } = yield* against(() => null)
      for (const smuggler of smugglers) {
        const request = mail(["charles"], `before${smuggler}${smuggled}`)

        assert.equal(yield* endOf(provider, request), "250")

        const [wire, ...more] = yield* arrivals(server, request)
        assert.equal(more.length, 0)
        assert.ok(!/\r(?!\n)|(?<!\r)\n/.test(wire!), `a line of the wire ends in CRLF: ${JSON.stringify(smuggler)}`)
        assert.ok(!/(?:^|\r\n)\.\r\n/.test(wire!), "no line of the wire is a dot")
        assert.ok(wire!.includes("smuggled"))
      }
      const all = yield* server.conversations
      const messages = smugglers.length
      assert.deepEqual([heard(all, "MAIL"), heard(all, "RCPT"), heard(all, "DATA")], [messages, messages, messages])
      assert.equal(heard(all, "MAIL FROM:<MALLORY"), 0)
    })
  },
  {
    title: "sends each line as it came, with a dot before a dot",
    check: Effect.gen(function* () {
      const lines = [".", "..", ".hidden", "a.", "", " .", "\t", "x".repeat(990), "", ""]
      const { provider, server } = yield* against(() => null)
      const body = `${lines.join("\r\n")}\r\n`
      for (const size of [1, 2, 3, 7, 64, 100_000]) {
        const request = mail(["charles"], body)
        const whole = yield* Stream.mkUint8Array(request.mime)
        const pieces = Array.from({ length: Math.ceil(whole.length / size) }, (_, index) =>
          whole.subarray(index * size, (index + 1) * size)
        )

        assert.equal(yield* endOf(provider, { ...request, mime: Stream.fromIterable(pieces) }), "250")

        const [wire] = yield* arrivals(server, request)
        const sent = String.fromCharCode(...whole)
        assert.equal(wire, sent.replace(/(^|\r\n)\./g, "$1.."))
      }
    })
  },
  {
    title: "cuts a message off without its end when it cannot be read to its end",
    check: Effect.gen(function* () {
      const { provider, server } = yield* against(() => null)
      const request = mail()
      const mime = Stream.concat(request.mime, Stream.die("test"))
      yield* Effect.exit(provider.submit({ ...large(request), mime }))

      yield* server.until(([first]) => first!.isClosed)

      const [first] = yield* server.conversations
      assert.equal(first!.messages.length, 0)
      yield* assertGoesOn(provider, server)
    })
  },
  {
    title: "submits 8-bit lines to a server that takes them, and is refused by one that does not",
    check: Effect.gen(function* () {
      const plain = once("EHLO", { say: "250 mail.example\r\n" })
      for (const [script, end] of [[() => null, "250"], [plain, "refused 554"]] as ReadonlyArray<readonly [Script, string]>) {
        const { provider, server } = yield* against(script)
        const request = mail(["charles"], "Gr\u00c3\u00bc\u00c3\u009fe\r\n")

        assert.equal(yield* endOf(provider, request), end)

        const arrived = yield* arrivals(server, request)
        assert.equal(arrived.length, end === "250" ? 1 : 0)
        if (end === "250") {
          assert.ok(arrived[0]!.includes("Gr\u00c3\u00bc\u00c3\u009fe"))
          assert.equal(heard(yield* server.conversations, "MAIL FROM:<BOUNCES@EXAMPLE.COM> BODY=8BITMIME"), 1)
        }
        yield* assertGoesOn(provider, server)
      }
    })
  },
  {
    title: "submits nothing that is larger than the server takes, and says so",
    check: Effect.gen(function* () {
      const { provider, server } = yield* against(({ place }) =>
        place === "EHLO" ? { say: "250-mail.example\r\n250 SIZE 1000\r\n" } : null
      )
      const large = mail(["charles"], "x\r\n".repeat(1_000))

      assert.equal(yield* endOf(provider, large), "refused 552")

      assert.equal(heard(yield* server.conversations, "MAIL"), 0)
      const small = mail()
      assert.equal(yield* endOf(provider, small), "250")
      assert.equal(heard(yield* server.conversations, `MAIL FROM:<BOUNCES@EXAMPLE.COM> SIZE=${small.sizeBytes}`), 1)
    })
  },
  ...[
    ["250", "unavailable"],
    ["552 5.3.4 too large", "refused 552"],
    ["451 4.3.1 disk full", "refused 451"]
  ].map(([said, end]) => ({
    title: `does not use a connection again on which ${said} came in the midst of the message`,
    check: Effect.gen(function* () {
      const { provider, server } = yield* against(once("bytes", { say: `${said}\r\n` }))
      const first = mail()

      assert.equal(yield* endOf(provider, { ...large(first), mime: Stream.concat(first.mime, Stream.never) }), end)

      assert.equal((yield* arrivals(server, first)).length, 0)
      yield* assertGoesOn(provider, server)
      assert.equal((yield* server.conversations).length, 2)
    })
  }))
]

const reuse = <R>({ against }: Options<R>): Checks<R> => [
  {
    title: "submits one message after the other over one connection",
    check: Effect.gen(function* () {
      const { provider, server } = yield* against(() => null)

      for (let count = 0; count < 5; count++) yield* assertGoesOn(provider, server)

      assert.equal((yield* server.conversations).length, 1)
    })
  },
  ...(["dropped", "ended with 421"] as const).map((how) => ({
    title: `replaces a connection that was ${how} while it was idle, and fails no message`,
    check: Effect.gen(function* () {
      const { provider, server } = yield* against(() => null)
      for (let round = 1; round <= 3; round++) {
        yield* assertGoesOn(provider, server)

        yield* how === "dropped" ? server.dropAll : server.say("421 4.4.2 idle for too long\r\n")
        yield* server.until((all) => all.every(({ isClosed }) => isClosed))
      }
      yield* assertGoesOn(provider, server)

      assert.equal((yield* server.conversations).length, 4)
    })
  })),
  ...[
    { drops: true },
    { say: "421 4.4.2 idle for too long\r\n", drops: true },
    { say: "421 4.4.2 idle for too long\r\n" }
  ].map((step) => ({
    title: `replaces a connection that ends as it is used again, and fails no message: ${JSON.stringify(step)}`,
    check: Effect.gen(function* () {
      const { provider, server } = yield* against(({ place, connection, message }) =>
        place === "MAIL" && connection < 3 && message === 2 ? step : null
      )

      for (let count = 0; count < 4; count++) yield* assertGoesOn(provider, server)

      assert.equal((yield* server.conversations).length, 3)
    })
  })),
  {
    title: "replaces a connection on which the server has fallen silent, and fails no message",
    check: Effect.gen(function* () {
      const { provider, server } = yield* against(({ place, message }) => (place === "MAIL" && message === 2 ? {} : null), {
        isImpatient: true
      })
      yield* assertGoesOn(provider, server)
      yield* assertGoesOn(provider, server)

      assert.equal((yield* server.conversations).length, 2)
    })
  },
  {
    title: "submits no message again of which the server may have the bytes, though the connection was used before",
    check: Effect.gen(function* () {
      for (const place of ["bytes", "message"] as const) {
        const { provider, server } = yield* against((moment) =>
          moment.place === place && moment.connection === 1 && moment.message === 2 ? { drops: true } : null
        )
        yield* assertGoesOn(provider, server)

        assert.equal(yield* endOf(provider, mail()), "unavailable")

        assert.equal((yield* server.conversations).length, 1)
        yield* assertGoesOn(provider, server)
      }
    })
  },
  {
    title: "says nothing of a message that is wanted no more when its turn comes",
    check: Effect.gen(function* () {
      const { provider, server } = yield* against(once("message", { say: "250 2.0.0 queued\r\n", waits: true }))
      let isWanted = true
      const waiting = [mail(), large(mail())].map((request) => ({ ...request, isWanted: () => isWanted }))
      // One may have its turn behind the dot of the other already.
      const begun = yield* Effect.forEach([mail(), mail()], (request) => Effect.forkScoped(endOf(provider, request)))
      yield* server.until(([only]) => only?.messages.length === 1)
      const ends = yield* Effect.forEach(waiting, (request) => Effect.forkScoped(endOf(provider, request)))
      yield* Effect.yieldNow

      isWanted = false
      yield* server.goOn

      assert.deepEqual(yield* Effect.forEach([...begun, ...ends], Fiber.join), ["250", "250", "unavailable", "unavailable"])
      assert.equal(heard(yield* server.conversations, "MAIL"), 2)
      yield* assertGoesOn(provider, server)
    })
  },
  {
    title: "has tenants take turns where messages wait, and each one's go in their order",
    check: Effect.gen(function* () {
      const { provider, server } = yield* against(once("message", { say: "250 2.0.0 queued\r\n", goesOn: true, waits: true }))
      const [many, one] = [realm("production"), realm("production")]
      const requests = [...Array(8).fill(many), one].map((realm) => ({ ...mail(), realm }))
      const ends = yield* Effect.forEach(requests, (request) => Effect.forkScoped(endOf(provider, request), { startImmediately: true }))
      yield* server.until(([only]) => only?.messages.length === 1)

      yield* server.goOn

      assert.deepEqual(new Set(yield* Effect.forEach(ends, Fiber.join)), new Set(["250"]))
      const arrived = (yield* server.conversations).flatMap(({ messages }) => messages)
      const order = arrived.map((message) => requests.findIndex(({ messageId }) => message.includes(messageId)))
      const other = order.indexOf(8)
      assert.ok(other > 0 && other <= 3, `the other tenant's message goes out after ${other} of the first one's, which has 8`)
      assert.deepEqual(order.toSpliced(other, 1), [0, 1, 2, 3, 4, 5, 6, 7])
    })
  },
  {
    title: "goes on after a refusal over a session that was reset, or over another connection",
    check: Effect.gen(function* () {
      for (const step of [null, { say: "500 no\r\n" }, { drops: true }, {}]) {
        const script: Script = ({ place, connection, message }) => {
          if (connection > 1) return null
          return place === "RCPT" && message === 1 ? { say: "550 5.1.1 unknown\r\n" } : place === "RSET" ? step : null
        }
        const { provider, server } = yield* against(script, { isImpatient: true })

        assert.equal(yield* endOf(provider, mail()), "550")
        yield* assertGoesOn(provider, server)

        assert.equal((yield* server.conversations).length, step === null ? 1 : 2)
        assert.equal(heard(yield* server.conversations, "RSET"), 1)
      }
    })
  }
]
