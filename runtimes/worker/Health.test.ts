import { assert, it } from "@effect/vitest"
import { Effect, Layer, Logger } from "effect"
import { aroundEach } from "../../conformance/scenarios/Faults.ts"
import { ClockOffset, clockOffsetMax } from "../../core/ClockOffset.ts"
import { Store, StoreUnavailable } from "../../core/ports/Store.ts"
import * as Config from "../Config.ts"
import * as Harness from "../http/harness.ts"
import * as Health from "./Health.ts"

const away = Effect.fail(new StoreUnavailable({ cause: "away" }))

/** Where it is told how a worker is. */
const listening = Effect.fnUntraced(function* (failing: string | null, offset: number, variables: Config.Variables = {}) {
  const lines: Array<string> = []
  const store = Layer.effect(
    Store,
    Effect.map(Store, (real) =>
      aroundEach(real, "Store", (call, effect) => (failing !== null && call.startsWith(failing) ? away : effect))
    )
  )
  yield* Layer.build(
    Health.layer(yield* Config.load(variables), 0, "the test's").pipe(
      Layer.provide(store.pipe(Layer.provideMerge(Harness.adapters))),
      Layer.provide(Layer.succeed(ClockOffset, () => offset)),
      Layer.provide(Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))]))
    )
  )
  return /the test's health is at (http:\S+)/.exec(lines.join("\n"))![1]!
})

/** What is told where the calls of the store whose names begin like this fail, and the clock is so many milliseconds off. */
const told = (failing: string | null, offset: number) =>
  Effect.gen(function* () {
    const origin = yield* listening(failing, offset)
    return yield* Effect.forEach(["/healthz", "/readyz"], (path) =>
      Effect.promise(async () => {
        const response = await fetch(`${origin}${path}`)
        return [response.status, await response.json()] as const
      })
    )
  }).pipe(Effect.scoped)

const rows: ReadonlyArray<readonly [what: string, failing: string | null, offset: number, reason: string | null]> = [
  ["all is well", null, 0, null],
  ["its clock is as far off as it may be", null, -clockOffsetMax, null],
  ["its clock is further off", null, clockOffsetMax + 1, "clock"],
  ["the database is away", "Store.", 0, "database"],
  ["the database takes no writes", "Store.commit", 0, "read_only"],
  ["the database takes no writes, and the clock is off", "Store.commit", clockOffsetMax + 1, "read_only"]
]

for (const [what, failing, offset, reason] of rows) {
  it.live(`A worker lives, and is ${reason === null ? "ready" : `unready for reason of ${reason}`}, where ${what}`, () =>
    Effect.gen(function* () {
      const ready = reason === null ? [200, { status: "ready" }] : [503, { status: "unready", reason }]

      assert.deepStrictEqual<unknown>(yield* told(failing, offset), [[200, { status: "alive" }], ready])
    })
  )
}

it.live("A worker shows its metrics to who has the token, to everybody where they are open, and to nobody where neither is set", () =>
  Effect.gen(function* () {
    const token = { MAILROOM_METRICS_TOKEN: "a-token-of-the-scraper" }
    const statuses = Effect.fnUntraced(function* (variables: Config.Variables) {
      const origin = yield* listening(null, 0, variables)
      const asked = [{}, { authorization: `Bearer ${token.MAILROOM_METRICS_TOKEN}` }]
      return yield* Effect.forEach(asked, (headers) =>
        Effect.promise(async () => {
          const { status, headers: told } = await fetch(`${origin}/metrics`, { headers })
          assert.strictEqual(told.get("www-authenticate"), status === 401 ? "Bearer" : null)
          return status
        })
      )
    })

    assert.deepStrictEqual(yield* statuses({}), [404, 404])
    assert.deepStrictEqual(yield* statuses(token), [401, 200])
    assert.deepStrictEqual(yield* statuses({ ...token, MAILROOM_METRICS: "open" }), [200, 200])
  })
)
