import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { connect } from "node:net"
import { realm } from "../../conformance/fixtures.ts"
import { arrivals, endOf, mail, type Conversation, type Script } from "../../conformance/MailServerScript.ts"
import type { Realm } from "../../core/model/Ids.ts"
import * as PipeliningSmtpMailProvider from "./PipeliningSmtpMailProvider.ts"
import * as ScriptedServer from "./ScriptedServer.ts"

/** The end of each message to `slow` is answered when the server is told to go on. */
const slowly = (): Script => {
  const slow = new Set<number>()
  return ({ place, argument, connection }) => {
    if (place === "MAIL") slow.delete(connection)
    if (place === "RCPT" && argument.includes("slow")) slow.add(connection)
    return place === "message" && slow.has(connection) ? { say: "250 2.0.0 queued\r\n", goesOn: true, waits: true } : null
  }
}

const against = Effect.fnUntraced(function* (connectionsMax: number) {
  const server = yield* ScriptedServer.start(slowly())
  const provider = yield* PipeliningSmtpMailProvider.make({ host: "127.0.0.1", port: server.port, tls: "none", connectionsMax })
  const submit = (of: Realm, to: "slow" | "quick", count: number) =>
    Effect.forEach(Array(count).fill(null), () => Effect.forkScoped(endOf(provider, { ...mail([to]), realm: of }), { startImmediately: true }))
  /** On how many connections something was said. What was to be said before has been by then. */
  const used = Effect.gen(function* () {
    const before = (yield* server.conversations).length
    yield* Effect.acquireRelease(Effect.sync(() => connect(server.port, "127.0.0.1")), (socket) => Effect.sync(() => socket.destroy()))
    yield* server.until((all) => all.length > before)
    return usedOf(yield* server.conversations).length
  })
  const usedIs = (count: number) => server.until((all) => usedOf(all).filter(hasMessage).length === count)
  return { provider, server, submit, used, usedIs }
})

const usedOf = (all: ReadonlyArray<Conversation>) => all.filter(({ commands }) => commands.length > 0)

const hasMessage = ({ messages }: Conversation) => messages.length > 0

const isPending = (fiber: Fiber.Fiber<string>) => fiber.pollUnsafe() === undefined

describe("tenants, where the server has fallen silent,", () => {
  it.effect("do not get all connections, however much of theirs waits", () =>
    Effect.gen(function* () {
      const { provider, submit, used, usedIs } = yield* against(5)
      const [first, second] = [realm("production"), realm("production")]
      const silent = yield* submit(first, "slow", 64)
      yield* usedIs(5)
      yield* TestClock.adjust("17 seconds")
      yield* usedIs(6)
      for (const _ of Array(5)) yield* TestClock.adjust("17 seconds")
      assert.strictEqual(yield* used, 6)

      silent.push(...yield* submit(second, "slow", 64))
      yield* usedIs(9)
      for (const _ of Array(5)) yield* TestClock.adjust("17 seconds")
      assert.strictEqual(yield* used, 9)

      for (const _ of Array(3)) assert.strictEqual(yield* endOf(provider, mail(["quick"])), "250")
      assert.strictEqual(yield* used, 10)
      assert.isTrue(silent.every(isPending))
    })
  )

  it.effect("that are alone go on over one more connection at a time", () =>
    Effect.gen(function* () {
      const { submit, used, usedIs } = yield* against(5)
      const only = realm("production")
      yield* submit(only, "slow", 10)
      yield* usedIs(5)
      const quick = yield* submit(only, "quick", 20)
      yield* TestClock.adjust("17 seconds")

      assert.deepStrictEqual(new Set(yield* Effect.forEach(quick, Fiber.join)), new Set(["250"]))
      assert.strictEqual(yield* used, 6)
    })
  )

  it.effect("have nothing put behind the dot of another's message", () =>
    Effect.gen(function* () {
      const { provider, server, submit, used, usedIs } = yield* against(2)
      const [first, second] = [realm("production"), realm("production")]
      const ends = yield* submit(first, "slow", 4)
      yield* usedIs(2)
      yield* TestClock.adjust("17 seconds")
      ends.push(...yield* submit(first, "slow", 1), ...yield* submit(second, "slow", 1))
      yield* usedIs(4)

      const request = mail(["quick"])
      ends.push(yield* Effect.forkScoped(endOf(provider, request), { startImmediately: true }))
      // Nor behind its own: the connection is to go to the other, whose turn it is.
      ends.push(...yield* submit(second, "slow", 1))
      assert.strictEqual(yield* used, 4)

      const pendings = (yield* server.conversations).slice(2).map(({ pending }) => pending)
      assert.deepStrictEqual(pendings, ["", "", ""])
      while (ends.some(isPending)) {
        yield* server.goOn
        yield* Effect.yieldNow
      }
      assert.deepStrictEqual(new Set(yield* Effect.forEach(ends, Fiber.join)), new Set(["250"]))
      assert.lengthOf(yield* arrivals(server, request), 1)
    })
  )

  it.effect("have nothing put there either while the server takes no more connections", () =>
    Effect.gen(function* () {
      const slow = slowly()
      const server = yield* ScriptedServer.start((moment) =>
        moment.connection === 3 && moment.place === "greeting" ? { say: "421 4.7.0 too many connections\r\n", drops: true } : slow(moment)
      )
      const provider = yield* PipeliningSmtpMailProvider.make({ host: "127.0.0.1", port: server.port, tls: "none", connectionsMax: 2 })
      const submit = (request: ReturnType<typeof mail>) => Effect.forkScoped(endOf(provider, request), { startImmediately: true })
      const tenant = realm("production")
      yield* submit({ ...mail(["slow"]), realm: tenant })
      yield* server.until((all) => all.some(hasMessage))
      yield* TestClock.adjust("10 seconds")
      yield* submit({ ...mail(["slow"]), realm: tenant })
      yield* server.until((all) => all.filter(hasMessage).length === 2)
      yield* TestClock.adjust("7 seconds")

      const waiting = yield* submit(mail(["quick"]))
      yield* server.until((all) => all[2]?.isClosed === true)
      yield* TestClock.adjust("2 seconds")

      assert.isTrue(isPending(waiting))
      assert.deepStrictEqual((yield* server.conversations).map(({ pending }) => pending), ["", "", ""])
    })
  )
})
