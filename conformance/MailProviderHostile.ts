/**
 * What a MailProvider that speaks SMTP does when the server on the other end
 * refuses, falls silent, says too much, or drops the connection. The server
 * follows a script; starting it, and a provider that submits to it, is the
 * adapter's part.
 */
import assert from "node:assert/strict"
import { Effect, Fiber, Schedule, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as Replies from "../core/model/Reply.ts"
import { pipelines } from "./MailProviderPipelines.ts"
import { sessions } from "./MailProviderSessions.ts"
import {
  arrivals,
  assertGoesOn,
  circumstancesOf,
  endOf,
  heard,
  large,
  mail,
  once,
  type Checks,
  type Conversation,
  type Options,
  type Place
} from "./MailServerScript.ts"
import type { Suite } from "./Suite.ts"

export const suite = <R>(options: Options<R>): Suite<R> => ({
  name: "MailProvider, against a hostile server",
  checks: [...refusals(options), ...unknowns(options), ...sessions(options), ...pipelines(options)]
})

/** Before a message is spoken of. */
const introductions: ReadonlyArray<Place> = ["greeting", "EHLO", "STARTTLS", "AUTH"]
const commands: ReadonlyArray<Place> = [...introductions, "MAIL", "RCPT", "DATA", "message"]

const refusals = <R>({ against }: Options<R>): Checks<R> => [
  ...introductions.flatMap((place): Checks<R> =>
    ["421 4.3.2 closing", "450 4.7.0 later", "554 5.7.1 go away"].map((said) => ({
      title: `is unavailable, submits nothing and bounces nobody when ${place} is answered with ${said}`,
      check: Effect.gen(function* () {
        const { provider, server } = yield* against(once(place, { say: `${said}\r\n` }), circumstancesOf(place))

        assert.equal(yield* endOf(provider, mail()), "unavailable")

        const conversations = yield* server.conversations
        assert.equal(conversations.length, 1)
        assert.equal(heard(conversations, "MAIL"), 0)
        yield* assertGoesOn(provider, server)
      })
    }))
  ),
  ...(["MAIL", "DATA", "message"] as const).flatMap((place): Checks<R> =>
    ["421 4.3.2 closing", "451 4.3.0 later", "554 5.6.0 never"].map((said) => ({
      title: `reports a message refused as a whole when ${place} is answered with ${said}`,
      check: Effect.gen(function* () {
        const { provider, server } = yield* against(once(place, { say: `${said}\r\n` }))

        const outcome = yield* Effect.flip(provider.submit(mail(["charles", "mary"])))

        assert.ok(outcome._tag === "SubmissionRefused")
        const [code, enhancedCode, text] = said.split(" ")
        assert.deepEqual(outcome.reply, { smtpCode: Number(code), enhancedCode, text })
        assert.equal((yield* server.conversations).length, 1)
        yield* assertGoesOn(provider, server)
      })
    }))
  ),
  ...(["MAIL", "RCPT"] as const).flatMap((place): Checks<R> =>
    [
      "554 5.7.1 relay access denied",
      "550 5.7.54 unable to relay recipient in non-accepted domain",
      "553 5.7.1 sender address rejected: not owned by user",
      "550 5.1.8 sender address rejected: domain not found",
      "550 relaying denied",
      "553 sorry, that domain isn't in my list of allowed rcpthosts"
    ].map((said) => ({
      title: `is unavailable, and bounces nobody, when ${place} is refused to all for who we are: ${said}`,
      check: Effect.gen(function* () {
        const { provider } = yield* against(({ place: at }) => (at === place ? { say: `${said}\r\n` } : null))

        assert.equal(yield* endOf(provider, mail(["charles", "mary"])), "unavailable")
      })
    }))
  ),
  {
    title: "reports the reply of each recipient, and submits to those who are left",
    check: Effect.gen(function* () {
      const refused = new Map([
        ["mary", "550 5.1.1 no such user"],
        ["george", "451 4.7.1 greylisted"],
        ["ada", "552 5.2.2 full"]
      ])
      const { provider, server } = yield* against(({ place, argument, message }) => {
        const said = refused.get(/<(\w+)@/.exec(argument)?.[1] ?? "")
        return place === "RCPT" && message === 1 && said !== undefined ? { say: `${said}\r\n` } : null
      })
      const request = mail(["charles", "mary", "george", "luigi", "ada"])

      const { replies } = yield* provider.submit(request)

      assert.deepEqual(
        replies.map(({ reply }) => [Replies.classify(reply), reply.smtpCode, reply.enhancedCode, reply.text]),
        [
          ["accepted", 250, "2.0.0", "queued"],
          ["permanent", 550, "5.1.1", "no such user"],
          ["transient", 451, "4.7.1", "greylisted"],
          ["accepted", 250, "2.0.0", "queued"],
          ["permanent", 552, "5.2.2", "full"]
        ]
      )
      assert.equal((yield* arrivals(server, request)).length, 1)
      yield* assertGoesOn(provider, server)
    })
  },
  ...[
    ["550 5.1.1 unknown", "550 5.1.1 unknown", "550 550"],
    ["550 5.1.1 unknown", "450 4.2.1 later", "550 450"],
    ["450 4.2.1 later", "450 4.2.1 later", "450 450"],
    ["550", "452", "550 452"]
  ].map(([charles, mary, end]) => ({
    title: `reports the reply of each recipient when all are refused: ${end}`,
    check: Effect.gen(function* () {
      const { provider, server } = yield* against(({ place, argument, connection, message }) =>
        place === "RCPT" && connection === 1 && message === 1
          ? { say: `${argument.includes("charles") ? charles : mary}\r\n` }
          : null
      )
      const request = mail(["charles", "mary"])

      assert.equal(yield* endOf(provider, request), end)

      assert.equal((yield* arrivals(server, request)).length, 0)
      yield* assertGoesOn(provider, server)
    })
  })),
  {
    title: "keeps what a recipient was refused with when the message is put off for the others",
    check: Effect.gen(function* () {
      for (const place of ["DATA", "message"]) {
        const { provider } = yield* against((moment) => {
          if (moment.place === "RCPT" && moment.argument.includes("charles")) return { say: "550 5.1.1 unknown\r\n" }
          return moment.place === place ? { say: "451 4.3.0 disk full\r\n" } : null
        })

        assert.equal(yield* endOf(provider, mail(["charles", "mary"])), "550 451")
      }
    })
  },
  {
    title: "reports a message refused for good as refused for all, whatever single recipients were told",
    check: Effect.gen(function* () {
      const { provider } = yield* against(({ place, argument }) => {
        if (place === "RCPT" && argument.includes("charles")) return { say: "451 4.7.1 greylisted\r\n" }
        return place === "message" ? { say: "554 5.7.1 spam\r\n" } : null
      })

      assert.equal(yield* endOf(provider, mail(["charles", "mary"])), "refused 554")
    })
  },
  {
    title: "takes a refused sender for no refusal of the recipients",
    check: Effect.gen(function* () {
      const { provider } = yield* against(({ place }) => {
        if (place === "MAIL") return { say: "451 4.1.8 sender later\r\n" }
        return place === "RCPT" || place === "DATA" ? { say: "503 5.5.1 need MAIL\r\n" } : null
      })

      assert.equal(yield* endOf(provider, mail(["charles", "mary"])), "refused 451")
    })
  },
  ...(["MAIL", "RCPT", "DATA", "message"] as const).flatMap((place): Checks<R> =>
    ["451 4.3.0 later", "554 5.6.0 never"].map((said) => ({
      title: `reports what it was told to its end, though the connection is dropped behind it: ${place}, ${said}`,
      check: Effect.gen(function* () {
        const { provider, server } = yield* against(once(place, { say: `${said}\r\n`, drops: true }))
        const request = mail()

        const [code] = said.split(" ")
        assert.equal(yield* endOf(provider, request), place === "RCPT" ? code : `refused ${code}`)

        assert.equal((yield* server.conversations).length, 1)
        yield* assertGoesOn(provider, server)
      })
    }))
  ),
  {
    title: "defers a recipient who was told to leave with the connection",
    check: Effect.gen(function* () {
      const { provider, server } = yield* against(once("RCPT", { say: "421 4.3.2 closing\r\n", drops: true }))

      const end = yield* endOf(provider, mail(["charles", "mary"]))

      assert.ok(end === "421 421" || end === "refused 421", end)
      yield* assertGoesOn(provider, server)
    })
  },
  ...(["MAIL", "RCPT", "DATA"] as const).flatMap((place): Checks<R> =>
    [
      "530 5.7.0 must issue a STARTTLS command first",
      "530 5.7.0 authentication required",
      "535 5.7.8 no such credentials",
      "538 5.7.11 encryption required",
      "503 5.5.1 out of sequence"
    ].map((said) => ({
      title: `is unavailable when the server finds fault with the session, not the message: ${place}, ${said}`,
      check: Effect.gen(function* () {
        const { provider, server } = yield* against(once(place, { say: `${said}\r\n` }))

        assert.equal(yield* endOf(provider, mail()), "unavailable")
        yield* assertGoesOn(provider, server)
      })
    }))
  )
]

const unknowns = <R>({ against }: Options<R>): Checks<R> => [
  ...[...commands, "bytes" as const].map((place) => ({
    title: `is unavailable, and does not try again by itself, when the connection is dropped at ${place}`,
    check: Effect.gen(function* () {
      for (const say of ["", "25", "550", "550 5.1.1 unknown", "250-half\r\n", "550-half\r\n"]) {
        const { provider, server } = yield* against(once(place, { say, drops: true }), circumstancesOf(place))

        assert.equal(yield* endOf(provider, mail()), "unavailable", `after ${JSON.stringify(say)}`)

        assert.equal((yield* server.conversations).length, 1)
        yield* assertGoesOn(provider, server)
      }
    })
  })),
  ...commands.map((place) => ({
    title: `is unavailable when the server says nothing at ${place}, and lets go of the connection`,
    check: Effect.gen(function* () {
      const { provider, server } = yield* against(once(place, {}), { ...circumstancesOf(place), isImpatient: true })

      assert.equal(yield* endOf(provider, mail()), "unavailable")

      yield* server.until(([first]) => first!.isClosed)
      yield* assertGoesOn(provider, server)
    })
  })),
  {
    title: "is unavailable when the server reads no more of the message",
    check: Effect.gen(function* () {
      const { provider, server } = yield* against(once("bytes", { stalls: true }), { isImpatient: true })
      const chunk = new Uint8Array(65_536).fill(10)
      const endless = Stream.repeat(Stream.make(chunk), Schedule.forever)

      assert.equal(yield* endOf(provider, { ...large(mail()), mime: endless }), "unavailable")
      yield* assertGoesOn(provider, server)
    })
  },
  ...commands.map((place) => ({
    title: `is unavailable when the server's words at ${place} never end, and lets go of the connection`,
    check: Effect.gen(function* () {
      const { provider, server } = yield* against(once(place, { say: "250-wait\r\n", trickles: true }), circumstancesOf(place))
      const ending = yield* Effect.forkScoped(endOf(provider, mail()))

      yield* server.until((all) => isAt(all, place) && all[0]!.saidBytes > 300)
      yield* TestClock.adjust("1 hour")

      assert.equal(yield* Fiber.join(ending), "unavailable")
      yield* server.until(([first]) => first!.isClosed)
      yield* assertGoesOn(provider, server)
    })
  })),
  {
    title: "sends no byte of a message that is wanted no more by the time that the server asks for it",
    check: Effect.gen(function* () {
      for (const request of [mail(), large(mail())]) {
        const { provider, server } = yield* against(once("DATA", { say: "354 go on\r\n", goesOn: true, waits: true }))
        let isWanted = true
        const submitting = yield* Effect.forkScoped(endOf(provider, { ...request, isWanted: () => isWanted }))
        yield* server.until((all) => isAt(all, "DATA"))

        isWanted = false
        yield* server.goOn

        assert.equal(yield* Fiber.join(submitting), "unavailable")
        yield* server.until(([first]) => first!.isClosed)
        const [first] = yield* server.conversations
        assert.deepEqual([first!.messages, first!.partial], [[], ""])
        yield* assertGoesOn(provider, server)
      }
    })
  },
  ...[...commands, "bytes" as const].map((place) => ({
    title: `closes the connection and frees its place when it is interrupted at ${place}`,
    check: Effect.gen(function* () {
      const { provider, server } = yield* against(once(place, {}), circumstancesOf(place))
      const request = mail()
      const endless = { ...large(request), mime: Stream.concat(request.mime, Stream.never) }
      const submitting = yield* Effect.forkScoped(provider.submit(place === "bytes" ? endless : request))
      yield* server.until((all) => isAt(all, place))

      yield* Fiber.interrupt(submitting)

      yield* server.until(([first]) => first!.isClosed)
      assert.equal((yield* arrivals(server, request)).length, place === "message" ? 1 : 0)
      yield* assertGoesOn(provider, server)
    })
  }))
]

/** Whether the first conversation has come to this place. */
const isAt = ([first]: ReadonlyArray<Conversation>, place: Place): boolean => {
  if (first === undefined || place === "greeting") return first !== undefined
  if (place === "bytes") return first.partial !== ""
  if (place === "message") return first.messages.length > 0
  return heard([first], place) > 0
}
