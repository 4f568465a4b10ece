import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { listen } from "./Receiver.ts"

it.live("A receiver answers at the paths that it was told of, whatever stands before or behind them, and keeps what came", () =>
  Effect.gen(function* () {
    const receiver = yield* listen({ host: "127.0.0.1", port: 0, publicUrl: null })
    receiver.answer("/hook", (body) => ({ status: 202, headers: { "x-said": "yes" }, body: body.toUpperCase() }))
    const origin = new URL(receiver.urlOf("/")).origin
    const posted = (path: string, body: string) =>
      Effect.promise(async () => {
        const response = await fetch(`${origin}${path}`, { method: "POST", body, headers: { "x-given": "a" } })
        return [response.status, response.headers.get("x-said"), await response.text()]
      })

    assert.deepStrictEqual(yield* posted("/prefix/hook?token=1", "ping"), [202, "yes", "PING"])
    assert.deepStrictEqual(yield* posted("/hook", "x".repeat(1024 * 1024 + 1)), [404, null, ""])
    assert.deepStrictEqual(yield* posted("/other", "ping"), [404, null, ""])

    const [first, ...more] = receiver.received("/hook")
    assert.deepStrictEqual([first?.method, first?.headers["x-given"], Buffer.from(first!.body).toString(), more], ["POST", "a", "ping", []])
    assert.isFalse(receiver.isGiven)
  }).pipe(Effect.scoped)
)

it.live("A receiver is called where it was said that it can be", () =>
  Effect.gen(function* () {
    const receiver = yield* listen({ host: "127.0.0.1", port: 0, publicUrl: "https://hooks.example.com/prefix//" })

    assert.deepStrictEqual([receiver.urlOf("/hook"), receiver.isGiven], ["https://hooks.example.com/prefix/hook", true])
  }).pipe(Effect.scoped)
)
