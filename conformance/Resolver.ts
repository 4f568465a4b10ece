/** What every Resolver does, over a DNS that says what it is told to. */
import assert from "node:assert/strict"
import { Context, Effect, Fiber } from "effect"
import { Resolver, type ResolutionFailed } from "../core/ports/Resolver.ts"
import type { Suite } from "./Suite.ts"

/** What the DNS says of one family of a name's addresses. */
export type Records = ReadonlyArray<string> | "NoSuchName" | "Failure" | "Silence"

export interface Said {
  readonly ipv4: Records
  readonly ipv6: Records
}

/** What the DNS says of a name's other records; of those that are not given, that there are none. */
export interface SaidBeside {
  /** Each as its strings, of at most 255 bytes. */
  readonly txt?: ReadonlyArray<ReadonlyArray<string>> | Exclude<Records, ReadonlyArray<string>>
  /** Each as its preference and exchange; `""` is the root. */
  readonly mx?: ReadonlyArray<readonly [preference: number, exchange: string]> | Exclude<Records, ReadonlyArray<string>>
  readonly cname?: Records
}

/** The DNS that the adapter asks. It has never heard of a name that nobody told it of. */
export class Zone extends Context.Service<
  Zone,
  {
    readonly say: (host: string, said: Said) => Effect.Effect<void>
    readonly sayBeside: (name: string, said: SaidBeside) => Effect.Effect<void>
    /** How often a name was asked for, either family counted. */
    readonly questions: (host: string) => Effect.Effect<number>
  }
>()("mailroom/conformance/Zone") {}

const look = (host: string) => Resolver.use((resolver) => resolver.addresses(host))

const freshHost = (): string => `h${globalThis.crypto.randomUUID()}.example`

const named = Effect.fnUntraced(function* (said: Said) {
  const host = freshHost()
  yield* Zone.use((zone) => zone.say(host, said))
  return host
})

const assertAddresses = Effect.fnUntraced(function* (said: Said, ...expected: ReadonlyArray<string>) {
  const addresses = yield* look(yield* named(said))
  assert.deepEqual([...addresses].toSorted(), expected.toSorted())
})

const assertFails = Effect.fnUntraced(function* (host: string, reason: "not_found" | "unavailable") {
  const error = yield* Effect.flip(look(host))
  assert.equal(error._tag, "ResolutionFailed")
  assert.equal(error.reason, reason)
})

/** Until the name has been asked for, in real time: the DNS has no other. */
const untilAsked = (host: string, times: number) =>
  Zone.use((zone) => zone.questions(host)).pipe(
    Effect.tap(() => Effect.yieldNow),
    Effect.repeat({ until: (count) => count >= times })
  )

const checks: Suite<Resolver | Zone>["checks"] = [
  {
    title: "gives all addresses of both families",
    check: Effect.gen(function* () {
      const ipv4 = Array.from({ length: 20 }, (_, index) => `192.0.2.${index}`)
      const ipv6 = Array.from({ length: 20 }, (_, index) => `2001:db8::${index + 1}`)

      yield* assertAddresses({ ipv4, ipv6 }, ...ipv4, ...ipv6)
    })
  },
  {
    title: "gives the addresses of one family if there are no others, or nobody says",
    check: Effect.gen(function* () {
      const nothing: ReadonlyArray<Records> = [[], "NoSuchName", "Failure", "Silence"]
      yield* Effect.forEach(
        nothing,
        (none) =>
          Effect.all(
            [
              assertAddresses({ ipv4: ["192.0.2.1"], ipv6: none }, "192.0.2.1"),
              assertAddresses({ ipv4: none, ipv6: ["2001:db8::1"] }, "2001:db8::1")
            ],
            { concurrency: "unbounded" }
          ),
        { concurrency: "unbounded" }
      )
    })
  },
  {
    title: "judges no address",
    check: assertAddresses({ ipv4: ["127.0.0.1", "10.0.0.1"], ipv6: ["::1", "fe80::1"] }, "127.0.0.1", "10.0.0.1", "::1", "fe80::1")
  },
  {
    title: "finds nothing where there is no such name, or a name without addresses",
    check: Effect.gen(function* () {
      yield* assertFails(freshHost(), "not_found")
      yield* assertFails(yield* named({ ipv4: [], ipv6: [] }), "not_found")
      yield* assertFails(yield* named({ ipv4: [], ipv6: "NoSuchName" }), "not_found")
      yield* assertFails(`${"a".repeat(64)}.example`, "not_found")
    })
  },
  {
    title: "is unavailable if nobody says that there is none",
    check: Effect.gen(function* () {
      yield* assertFails(yield* named({ ipv4: "Failure", ipv6: "Failure" }), "unavailable")
      yield* assertFails(yield* named({ ipv4: "Failure", ipv6: [] }), "unavailable")
      yield* assertFails(yield* named({ ipv4: "NoSuchName", ipv6: "Failure" }), "unavailable")
      yield* assertFails(yield* named({ ipv4: "Silence", ipv6: "Silence" }), "unavailable")
    })
  },
  {
    title: "asks again each time, since these records live no time at all",
    check: Effect.gen(function* () {
      const { say } = yield* Zone
      const host = yield* named({ ipv4: ["192.0.2.1"], ipv6: [] })
      assert.deepEqual(yield* look(host), ["192.0.2.1"])

      yield* say(host, { ipv4: ["192.0.2.2"], ipv6: [] })
      assert.deepEqual(yield* look(host), ["192.0.2.2"])

      yield* say(host, { ipv4: "NoSuchName", ipv6: "NoSuchName" })
      yield* assertFails(host, "not_found")
    })
  },
  {
    title: "takes localhost and the names under it for this machine, and asks nobody",
    check: Effect.gen(function* () {
      const { questions, say } = yield* Zone
      for (const host of ["localhost", "hooks.localhost", "a.b.localhost"]) {
        yield* say(host, { ipv4: ["192.0.2.1"], ipv6: [] })

        assert.deepEqual([...(yield* look(host))].toSorted(), ["127.0.0.1", "::1"])
        assert.equal(yield* questions(host), 0)
      }
    })
  },
  {
    title: "answers many at a time, each with its own",
    check: Effect.gen(function* () {
      const hosts = yield* Effect.forEach(Array.from({ length: 50 }), (_, index) => named({ ipv4: [`192.0.2.${index}`], ipv6: [] }))

      const answers = yield* Effect.forEach(hosts, look, { concurrency: "unbounded" })

      assert.deepEqual(answers, hosts.map((_, index) => [`192.0.2.${index}`]))
    })
  },
  {
    title: "answers others while a name hangs, and asks no more when it is interrupted",
    check: Effect.gen(function* () {
      const silent = yield* named({ ipv4: "Silence", ipv6: "Silence" })
      const waiting = yield* Effect.forEach(Array.from({ length: 20 }), () => Effect.forkScoped(look(silent)))
      yield* untilAsked(silent, 40)

      yield* assertAddresses({ ipv4: ["192.0.2.1"], ipv6: [] }, "192.0.2.1")
      yield* Fiber.interruptAll(waiting)
      const { questions } = yield* Zone
      const asked = yield* questions(silent)
      // As long as whoever goes on asking takes to ask again.
      yield* assertFails(yield* named({ ipv4: "Silence", ipv6: "Silence" }), "unavailable")

      assert.equal(yield* questions(silent), asked)
    })
  }
]

// Other records

const besides = Effect.fnUntraced(function* (said: SaidBeside) {
  const name = `_r.${freshHost()}`
  yield* Zone.use((zone) => zone.sayBeside(name, said))
  return name
})

const txt = (name: string) => Resolver.use((resolver) => resolver.txt(name))
const mx = (name: string) => Resolver.use((resolver) => resolver.mx(name))
const cname = (name: string) => Resolver.use((resolver) => resolver.cname(name))
/** Asked for nothing but why there is none. */
const kinds: Readonly<Record<"txt" | "mx" | "cname", (name: string) => Effect.Effect<unknown, ResolutionFailed, Resolver>>> = { txt, mx, cname }

const recordChecks: Suite<Resolver | Zone>["checks"] = [
  {
    title: "gives every TXT record, its strings joined as they are",
    check: Effect.gen(function* () {
      const key = "A".repeat(255)
      const name = yield* besides({ txt: [["v=spf1 ", "-all"], ["v=DKIM1; p=", key, "B"], [""], ["a", "", "b"]] })

      assert.deepEqual([...(yield* txt(name))].toSorted(), ["", "ab", `v=DKIM1; p=${key}B`, "v=spf1 -all"])
    })
  },
  {
    title: "gives all TXT records, also when they do not fit one datagram",
    check: Effect.gen(function* () {
      const records = Array.from({ length: 60 }, (_, index) => [`${index} `.padEnd(255, "x")])

      assert.deepEqual([...(yield* txt(yield* besides({ txt: records })))].toSorted(), records.flat().toSorted())
    })
  },
  {
    title: "gives MX records with their preferences, and a null MX as one of no name",
    check: Effect.gen(function* () {
      const name = yield* besides({ mx: [[20, "backup.example.com"], [0, "in.example.com"]] })
      const found = (yield* mx(name)).toSorted((one, other) => one.preference - other.preference)

      assert.deepEqual(found, [
        { preference: 0, exchange: "in.example.com" },
        { preference: 20, exchange: "backup.example.com" }
      ])
      assert.deepEqual(yield* mx(yield* besides({ mx: [[0, ""]] })), [{ preference: 0, exchange: "" }])
    })
  },
  {
    title: "says what a name is an alias of",
    check: Effect.gen(function* () {
      assert.equal(yield* cname(yield* besides({ cname: ["bounces.example.net"] })), "bounces.example.net")
    })
  },
  {
    title: "tells records that are not there from records that nobody could look up",
    check: Effect.gen(function* () {
      const reasonOf = (kind: keyof typeof kinds, said: SaidBeside) =>
        Effect.flatMap(besides(said), (name) => Effect.map(Effect.flip(kinds[kind](name)), (error) => error.reason))
      yield* Effect.forEach(
        ["txt", "mx", "cname"] as const,
        Effect.fnUntraced(function* (kind) {
          assert.equal(yield* reasonOf(kind, {}), "not_found", kind)
          assert.equal(yield* reasonOf(kind, { [kind]: [] }), "not_found", kind)
          assert.equal(yield* reasonOf(kind, { [kind]: "NoSuchName" }), "not_found", kind)
          assert.equal(yield* reasonOf(kind, { [kind]: "Failure" }), "unavailable", kind)
          assert.equal(yield* reasonOf(kind, { [kind]: "Silence" }), "unavailable", kind)
        }),
        { concurrency: "unbounded" }
      )
      assert.equal((yield* Effect.flip(txt(`${"a".repeat(64)}.example`))).reason, "not_found")
    })
  },
  {
    title: "asks for each record again each time",
    check: Effect.gen(function* () {
      const { sayBeside } = yield* Zone
      const name = yield* besides({ txt: [["one"]] })
      assert.deepEqual(yield* txt(name), ["one"])

      yield* sayBeside(name, { txt: [["two"]] })

      assert.deepEqual(yield* txt(name), ["two"])
    })
  }
]

/** What every Resolver does. The layer that is held to it provides the `Zone` that its adapter asks, beside the adapter. */
export const suite: Suite<Resolver | Zone> = { name: "Resolver", checks: [...checks, ...recordChecks] }
