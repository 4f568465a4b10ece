import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { freshId, realm } from "../conformance/fixtures.ts"
import type { TenantId } from "./model/Ids.ts"
import { TenantLine, places } from "./TenantLine.ts"

interface Named {
  readonly name: string
  readonly tenantId: TenantId
  readonly isWanted: () => boolean
  readonly onUnwanted: () => void
}

const lineOf = (words: string, isWanted: (name: string) => boolean = () => true) => {
  const line = new TenantLine<Named>()
  const tenants = new Map<string, TenantId>()
  const left: Array<string> = []
  const idOf = (letter: string) => {
    if (!tenants.has(letter)) tenants.set(letter, freshId<TenantId>())
    return tenants.get(letter)! // it is set
  }
  const add = (name: string) => {
    const waiter = { name, tenantId: idOf(name[0]!), isWanted: () => isWanted(name), onUnwanted: () => void left.push(name) } // no empty word
    line.add(waiter)
    return waiter
  }
  const waiters = words.split(" ").map(add)
  const take = (letters = "abc") => {
    const mayBe = new Set([...letters].map(idOf))
    const waiter = line.next((tenantId) => mayBe.has(tenantId))
    if (waiter !== null) assert.isTrue(line.take(waiter))
    return waiter?.name ?? null
  }
  const rest = () => {
    const all: Array<string> = []
    for (let name = take(); name !== null; name = take()) all.push(name)
    return all.join(" ")
  }
  return { line, add, waiters, take, rest, left }
}

describe("a line", () => {
  it("is gone through by tenants in turn, and each one's in their order", () => {
    assert.strictEqual(lineOf("a1 a2 a3 b1 a4 c1 b2").rest(), "a1 b1 c1 a2 b2 a3 a4")
  })

  it("has who comes anew behind all who wait", () => {
    const { add, take, rest } = lineOf("a1 a2 b1 b2")
    assert.strictEqual(take(), "a1")
    add("c1")

    assert.strictEqual(rest(), "b1 a2 c1 b2")
  })

  it("gives the turn of a tenant that may not have it to the next that may, and keeps that one's place", () => {
    const { take, rest } = lineOf("a1 b1 b2 c1")
    assert.strictEqual(take("bc"), "b1")
    assert.strictEqual(take("b"), "b2")

    assert.strictEqual(rest(), "a1 c1")
  })

  it("is left by all in a row who are wanted no more, and asks nobody behind them", () => {
    const asked: Array<string> = []
    const { take, rest, left } = lineOf("a1 a2 b1 c1 c2", (name) => {
      asked.push(name)
      return name === "c1"
    })

    assert.strictEqual(take(), "c1")
    assert.deepStrictEqual(left, ["a1", "a2", "b1"])
    assert.deepStrictEqual(asked, ["a1", "a2", "b1", "c1"])
    assert.strictEqual(rest(), "")
    assert.deepStrictEqual(left, ["a1", "a2", "b1", "c2"])
  })

  it("can be left from within, once", () => {
    const { line, waiters, rest } = lineOf("a1 a2 b1")
    assert.isTrue(line.remove(waiters[1]!))
    assert.isFalse(line.remove(waiters[1]!))
    assert.isFalse(line.take(waiters[1]!))

    assert.strictEqual(rest(), "a1 b1")
  })
})

describe("places", () => {
  it.effect("pass to whoever is next, and none is lost by those who are interrupted or wanted no more", () =>
    Effect.gen(function* () {
      const { take, release } = places(1)
      const done: Array<string> = []
      const [a, b] = [realm(), realm()]
      const working = (name: string, of: typeof a, isWanted = () => true, work: Effect.Effect<void> = Effect.void) =>
        Effect.forkScoped(
          Effect.uninterruptibleMask((restore) =>
            Effect.flatMap(take({ realm: of, isWanted }, restore), (hasPlace) => {
              done.push(hasPlace ? name : `not ${name}`)
              return hasPlace ? Effect.ensuring(restore(work), release) : Effect.void
            })
          ),
          { startImmediately: true }
        )
      const first = yield* working("a1", a, undefined, Effect.never)
      const gone = yield* working("a2", a)
      const others = [yield* working("a3", a), yield* working("b1", b, () => false), yield* working("b2", b), yield* working("a4", a)]

      yield* Fiber.interrupt(gone)
      yield* Fiber.interrupt(first)

      yield* Effect.forEach(others, Fiber.join)
      assert.deepStrictEqual(done, ["a1", "a3", "not b1", "b2", "a4"])
      yield* Fiber.join(yield* working("last", b))
      assert.strictEqual(done.at(-1), "last")
    })
  )

  it.effect("are not lost where who was given one is interrupted before it goes on", () =>
    Effect.gen(function* () {
      const { take, release } = places(1)
      const held = (work: Effect.Effect<void>) =>
        Effect.uninterruptibleMask((restore) =>
          Effect.andThen(take({ realm: realm(), isWanted: () => true }, restore), Effect.ensuring(restore(work), release))
        )
      const first = yield* Effect.forkScoped(held(Effect.never), { startImmediately: true })
      const second = yield* Effect.forkScoped(held(Effect.die("it was interrupted")), { startImmediately: true })

      first.interruptUnsafe()
      second.interruptUnsafe()

      yield* Fiber.await(second)
      yield* held(Effect.void)
    })
  )
})
