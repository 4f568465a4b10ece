/**
 * The part of the hostile suite that is about replies to several commands at
 * once, and about what is said behind a message before its reply (RFC 2920):
 * whatever becomes of one message, the one beside it has its own outcome, and
 * arrives once if it is accepted.
 */
import assert from "node:assert/strict"
import { Effect, Fiber } from "effect"
import {
  arrivals,
  assertGoesOn,
  endOf,
  heard,
  large,
  mail,
  once,
  type Checks,
  type Moment,
  type Options,
  type Place,
  type Script,
  type Step
} from "./MailServerScript.ts"

export const pipelines = <R>(options: Options<R>): Checks<R> => [
  ...groups(options),
  ...(options.isPipelining === true ? pairs(options) : [])
]

const groups = <R>({ against }: Options<R>): Checks<R> => [
  {
    title: "says a command at a time to a server that does not offer PIPELINING",
    check: Effect.gen(function* () {
      const { provider, server } = yield* against(({ place }) => (place === "EHLO" ? { say: "250 mail.example\r\n" } : null))
      const requests = Array.from({ length: 6 }, (_, index) => mail([`a${index}`, `b${index}`]))

      const ends = yield* Effect.forEach(requests, (request) => endOf(provider, request), { concurrency: "unbounded" })

      assert.deepEqual(new Set(ends), new Set(["250 250"]))
      for (const { overruns } of yield* server.conversations) assert.equal(overruns, 0)
    })
  },
  {
    title: "sends nothing of a message whose recipients are all refused, though the server asks for it",
    check: Effect.gen(function* () {
      for (const said of ["554 5.5.1 no valid recipients", "250 2.0.0 whatever", "451 4.3.0 later"]) {
        const { provider, server } = yield* against(({ place, connection, message }) => {
          if (connection > 1 || message > 1) return null
          if (place === "RCPT") return { say: "550 5.1.1 unknown\r\n" }
          if (place === "DATA") return { say: "354 go on\r\n", goesOn: true }
          return place === "message" ? { say: `${said}\r\n` } : null
        })
        const request = mail(["charles", "mary"])

        assert.equal(yield* endOf(provider, request), "550 550")

        yield* assertGoesOn(provider, server)
        assert.equal((yield* arrivals(server, request)).length, 0)
        const all = (yield* server.conversations).flatMap(({ messages }) => messages)
        assert.deepEqual(all.filter((message) => message !== "").length, 1)
      }
    })
  },
  {
    title: "sends no dot to a server that has refused the sender, though it asks for a message",
    check: Effect.gen(function* () {
      const { provider, server } = yield* against(({ place, connection, message }) => {
        if (connection > 1 || message > 1) return null
        if (place === "MAIL") return { say: "451 4.1.8 later\r\n" }
        if (place === "RCPT") return { say: "250 ok\r\n" }
        return place === "DATA" ? { say: "354 go on\r\n", goesOn: true } : null
      })

      assert.equal(yield* endOf(provider, mail()), "refused 451")

      yield* assertGoesOn(provider, server)
      assert.equal((yield* server.conversations).flatMap(({ messages }) => messages).length, 1)
    })
  },
  ...["250 2.0.0 queued", "550 5.7.1 spam", "354 go on", "junk"].map((more) => ({
    title: `takes no word that came with the demand for the message for the answer to it: ${more}`,
    check: Effect.gen(function* () {
      for (const drops of [false, true]) {
        const step = { say: `354 go on\r\n${more}\r\n`, isWhole: true, goesOn: true, drops }
        const { provider, server } = yield* against(once("DATA", step))
        const request = mail()

        const end = yield* endOf(provider, request)

        // Who says no before a byte of it may be believed, if he gets none.
        const times = (yield* arrivals(server, request)).length
        assert.ok(end === "unavailable" || (end === "refused 550" && more.startsWith("550") && times === 0), end)
        yield* assertGoesOn(provider, server)
        assert.equal((yield* server.conversations).length, 2)
      }
    })
  })),
  {
    title: "sends no byte of a message to a server that does not ask for it with 354",
    check: Effect.gen(function* () {
      for (const said of ["250 2.0.0 ok", "220 ready", "334 ", "399 more"]) {
        for (const sized of [mail(), large(mail())]) {
          const { provider, server } = yield* against(once("DATA", { say: `${said}\r\n` }))

          assert.equal(yield* endOf(provider, sized), "unavailable", said)

          yield* assertGoesOn(provider, server)
          const [first] = yield* server.conversations
          assert.deepEqual(first!.commands.map((command) => command.split(" ")[0]), ["EHLO", "MAIL", "RCPT", "DATA"])
        }
      }
    })
  },
  {
    title: "takes no yes to a recipient for a yes to the message, whatever else was said with it",
    check: Effect.gen(function* () {
      const odd = { say: "250-perhaps\r\n550 5.1.1 or not\r\n" }
      const replies = [
        { charles: { say: "550 5.1.1 unknown\r\n" }, mary: odd, dot: null },
        { charles: odd, mary: null, dot: { say: "451 4.3.0 later\r\n" } },
        { charles: odd, mary: odd, dot: { say: "451 4.3.0 later\r\n" } }
      ]
      for (const { charles, mary, dot } of replies) {
        const { provider, server } = yield* against(({ place, argument, connection, message }) => {
          if (connection > 1 || message > 1) return null
          if (place === "RCPT") return argument.includes("charles") ? charles : mary
          return place === "message" ? dot : null
        })
        const request = mail(["charles", "mary"])

        const end = yield* endOf(provider, request)

        const isTaken = dot === null && (yield* arrivals(server, request)).length === 1
        assert.equal(end.includes("250"), isTaken, end)
        yield* assertGoesOn(provider, server)
      }
    })
  },
  {
    title: "takes lines of several codes for no reply",
    check: Effect.gen(function* () {
      const { provider, server } = yield* against(({ place, connection, message }) =>
        place === "DATA" && connection === 1 && message === 1 ? { say: "354-go on\r\n550 5.7.1 or not\r\n" } : null
      )
      const request = mail()

      const end = yield* endOf(provider, request)

      assert.notEqual(end, "250")
      assert.equal((yield* arrivals(server, request)).length, 0)
      yield* assertGoesOn(provider, server)
    })
  }
]

const bye = "421 4.3.2 closing\r\n"

const pairs = <R>({ against }: Options<R>): Checks<R> => {
  /** Two messages, and the server answers the first when it has the envelope of the second. */
  const pair = Effect.fnUntraced(function* (script: Script, isImpatient = false) {
    const { provider, server } = yield* against(
      (moment) => {
        const step = script(moment)
        const isHeld = moment.connection === 1 && moment.message === 1 && moment.place === "message"
        return isHeld ? { ...(step ?? { say: "250 2.0.0 queued\r\n" }), waits: true } : step
      },
      { isImpatient }
    )
    const [first, second] = [mail(["charles", "mary"], "first\r\n"), mail(["george", "luigi"], "second\r\n")]
    const sendingFirst = yield* Effect.forkScoped(endOf(provider, first))
    const sendingSecond = yield* Effect.forkScoped(endOf(provider, second))
    yield* server.until(([only]) => only?.messages.length === 1 && only.pending.endsWith("DATA\r\n"))
    const [only] = yield* server.conversations
    assert.deepEqual(
      only!.pending.split("\r\n").map((command) => command.split(":")[0]),
      ["MAIL FROM", "RCPT TO", "RCPT TO", "DATA", ""]
    )
    const ends = Effect.all([Fiber.join(sendingFirst), Fiber.join(sendingSecond)])
    const times = Effect.map(Effect.all([arrivals(server, first), arrivals(server, second)]), (both) => both.map(({ length }) => length))
    return { provider, server, sendingFirst, sendingSecond, ends, times }
  })

  const at = (message: number, place: Place, step: Step, isIt: (moment: Moment) => boolean = () => true): Script => (moment) =>
    moment.connection === 1 && moment.message === message && moment.place === place && isIt(moment) ? step : null
  const toLuigi = ({ argument }: Moment) => argument.includes("luigi")
  const toGeorge = ({ argument }: Moment) => argument.includes("george")

  const outcomes: ReadonlyArray<{
    readonly title: string
    readonly script: Script
    readonly ends: readonly [string, string]
    /** How often each arrives, refused or not. */
    readonly times: readonly [number, number]
    readonly connections: number
  }> = [
    { title: "both are accepted", script: () => null, ends: ["250 250", "250 250"], times: [1, 1], connections: 1 },
    ...(
      [
        ["MAIL", "451 4.3.0 later", "refused 451"],
        ["DATA", "451 4.3.0 later", "refused 451"],
        ["RCPT", "550 5.1.1 unknown", "550 550"]
      ] as const
    ).map(([place, said, end]) => ({
      title: `the second is refused at ${place}`,
      script: at(2, place, { say: `${said}\r\n` }),
      ends: ["250 250", end] as const,
      times: [1, 0] as const,
      connections: 1
    })),
    {
      title: "one recipient of the second is refused",
      script: at(2, "RCPT", { say: "550 5.1.1 unknown\r\n" }, toGeorge),
      ends: ["250 250", "550 250"],
      times: [1, 1],
      connections: 1
    },
    {
      title: "the first is refused at its dot",
      script: at(1, "message", { say: "554 5.6.0 never\r\n" }),
      ends: ["refused 554", "250 250"],
      times: [1, 1],
      connections: 1
    },
    {
      title: "both are refused at their dots",
      script: ({ place, message }) => (place === "message" && message < 3 ? { say: "452 4.3.1 full\r\n" } : null),
      ends: ["refused 452", "refused 452"],
      times: [1, 1],
      connections: 1
    },
    {
      title: "the first is answered with 421 at its dot",
      script: at(1, "message", { say: bye, drops: true }),
      ends: ["refused 421", "250 250"],
      times: [1, 1],
      connections: 2
    },
    {
      title: "the connection is dropped behind the first dot",
      script: at(1, "message", { drops: true }),
      ends: ["unavailable", "250 250"],
      times: [1, 1],
      connections: 2
    },
    {
      title: "the first dot is answered with nonsense",
      script: at(1, "message", { say: "354 go on\r\n" }),
      ends: ["unavailable", "250 250"],
      times: [1, 1],
      connections: 2
    },
    ...[{ say: bye }, { say: bye, drops: true }, { drops: true }].flatMap((step) =>
      (
        [
          ["MAIL", undefined],
          ["RCPT", toLuigi],
          ["DATA", undefined]
        ] as const
      ).map(([place, isIt]) => ({
        title: `the second meets ${JSON.stringify(step)} at ${place}`,
        script: at(2, place, step, isIt),
        ends: ["250 250", "250 250"] as const,
        times: [1, 1] as const,
        connections: 2
      }))
    ),
    {
      title: "the connection is dropped in the bytes of the second",
      script: at(2, "bytes", { drops: true }),
      ends: ["250 250", "unavailable"],
      times: [1, 0],
      connections: 1
    },
    {
      title: "the connection is dropped behind the second dot",
      script: at(2, "message", { drops: true }),
      ends: ["250 250", "unavailable"],
      times: [1, 1],
      connections: 1
    }
  ]

  return [
    ...outcomes.map(({ title, script, ends, times, connections }) => ({
      title: `gives each of two messages its own outcome, one behind the other, when ${title}`,
      check: Effect.gen(function* () {
        const both = yield* pair(script)

        yield* both.server.goOn

        assert.deepEqual(yield* both.ends, ends)
        assert.equal((yield* both.server.conversations).length, connections)
        // What was dropped may have come whole.
        const [first, second] = yield* both.times
        assert.equal(first, times[0])
        assert.ok(second === times[1] || (second === 1 && ends[1] === "unavailable"), `the second arrived ${second} times`)
        yield* assertGoesOn(both.provider, both.server)
      })
    })),
    {
      title: "goes on with the second message over another connection when the server falls silent behind the first",
      check: Effect.gen(function* () {
        const { server, ends, times, provider } = yield* pair(at(1, "message", {}), true)

        assert.deepEqual(yield* ends, ["unavailable", "250 250"])
        assert.deepEqual(yield* times, [1, 1])
        yield* assertGoesOn(provider, server)
      })
    },
    {
      title: "hears the answer to the first message though the second is interrupted behind it",
      check: Effect.gen(function* () {
        const { server, sendingFirst, sendingSecond, times, provider } = yield* pair(() => null)

        yield* Fiber.interrupt(sendingSecond)
        yield* server.goOn

        assert.equal(yield* Fiber.join(sendingFirst), "250 250")
        yield* assertGoesOn(provider, server)
        assert.deepEqual(yield* times, [1, 0])
        assert.equal((yield* server.conversations).length, 2)
      })
    },
    {
      title: "submits the second message once though the first is interrupted before its answer",
      check: Effect.gen(function* () {
        const { server, sendingFirst, sendingSecond, times, provider } = yield* pair(() => null)

        yield* Fiber.interrupt(sendingFirst)

        assert.equal(yield* Fiber.join(sendingSecond), "250 250")
        assert.deepEqual(yield* times, [1, 1])
        yield* assertGoesOn(provider, server)
      })
    },
    {
      title: "submits many messages in a row, each once, whatever is refused among them",
      check: Effect.gen(function* () {
        const { provider, server } = yield* against(({ place, argument }) => {
          if (place === "MAIL" && argument.includes("never")) return { say: "550 5.1.0 never\r\n" }
          return place === "RCPT" && argument.includes("nobody") ? { say: "550 5.1.1 unknown\r\n" } : null
        })
        const requests = Array.from({ length: 40 }, (_, index) => mail([index % 3 === 0 ? "nobody" : "charles", index % 6 === 0 ? "nobody2" : "mary"]))

        const ends = yield* Effect.forEach(requests, (request) => endOf(provider, request), { concurrency: 8 })

        assert.deepEqual(
          ends,
          requests.map((_, index) => (index % 6 === 0 ? "550 550" : index % 3 === 0 ? "550 250" : "250 250"))
        )
        for (const [index, request] of requests.entries()) {
          assert.equal((yield* arrivals(server, request)).length, index % 6 === 0 ? 0 : 1)
        }
        assert.equal((yield* server.conversations).length, 1)
        assert.ok(heard(yield* server.conversations, "RSET") <= 7)
      })
    }
  ]
}
