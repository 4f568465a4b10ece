/** For tests of providers that hold each message whole: what waits is not read, what is wanted no more is not submitted, and tenants take turns. */
import assert from "node:assert/strict"
import { Effect, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import type { MailProvider, SubmitRequest } from "../core/ports/MailProvider.ts"
import type { TurnsMax } from "../core/SubmissionTurns.ts"

export interface Held {
  readonly provider: MailProvider
  readonly request: () => SubmitRequest
  /** Submissions that the other end has, and gives no answer to; the provider gives them up within a minute. */
  readonly waiting: () => number
  readonly most: TurnsMax
}

export const assertTurns = Effect.fnUntraced(function* ({ provider, request, waiting, most }: Held) {
  let [read, isWanted] = [0, true]
  const submitted = (sizeBytes: number, count: number) =>
    Effect.forEach(Array.from({ length: count }), () => {
      const one = request()
      const mime = Stream.suspend(() => ((read += 1), one.mime))
      return Effect.forkScoped(provider.submit({ ...one, sizeBytes, mime, isWanted: () => isWanted }))
    })

  const large = yield* submitted(2_000_000, most.large + 6)
  yield* Effect.repeat(Effect.yieldNow, { until: () => waiting() === most.large })
  assert.equal(read, most.large)
  const small = yield* submitted(1_000, most.small + 10)
  yield* Effect.repeat(Effect.yieldNow, { until: () => waiting() === most.large + most.small })
  assert.equal(read, most.large + most.small)

  isWanted = false
  yield* TestClock.adjust("60 seconds")
  for (const one of [...large, ...small]) assert.equal((yield* Effect.flip(Fiber.join(one)))._tag, "MailProviderUnavailable")
  assert.equal(read, most.large + most.small)
})

/** Of small messages and of large ones: a tenant's many do not go before another's one. */
export const assertTenantsTakeTurns = Effect.fnUntraced(function* ({ provider, request, waiting, most }: Held) {
  for (const [sizeBytes, turns] of [[1_000, most.small], [2_000_000, most.large]] as const) {
    const read: Array<string> = []
    const submitted = (name: string, count: number) => {
      const { realm } = request()
      return Effect.forEach(Array.from({ length: count }), () => {
        const one = request()
        const mime = Stream.suspend(() => (read.push(name), one.mime))
        return Effect.forkScoped(provider.submit({ ...one, realm, sizeBytes, mime }), { startImmediately: true })
      })
    }
    const all = [...yield* submitted("many", 2 * turns + 5), ...yield* submitted("one", 1)]
    yield* Effect.repeat(Effect.yieldNow, { until: () => waiting() === turns })

    yield* TestClock.adjust("60 seconds")
    yield* Effect.repeat(Effect.yieldNow, { until: () => read.length === 2 * turns })

    assert.equal(read.indexOf("one"), turns + 1)
    yield* Fiber.interruptAll(all)
    yield* Effect.repeat(Effect.yieldNow, { until: () => waiting() === 0 })
  }
})
