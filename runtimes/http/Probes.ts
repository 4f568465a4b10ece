/** `/healthz` (the process lives) and `/readyz` (it can serve). They stand outside all guards. */
import { Effect, Layer, Option, Result } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { ApiKeyId, TenantId } from "../../core/model/Ids.ts"
import { Store, type Change } from "../../core/ports/Store.ts"
import { Call } from "./Call.ts"
import { Drain } from "./Drain.ts"
import { lately } from "./Lately.ts"
import { path as metrics } from "./Metrics.ts"
import { NotReady, ReadOnly, ShuttingDown } from "./Refusals.ts"

export const paths = ["/healthz", "/readyz"] as const

/** What is not a client's, and stands outside all guards. */
export const isProbe = (path: string): boolean => path === paths[0] || path === paths[1] || path === metrics

const nobody = "00000000-0000-0000-0000-000000000000"

/** Asks a store whether it takes writes, and writes nothing. */
const nothing: Change = { _tag: "TouchApiKeys", used: [{ id: ApiKeyId.make(nobody), at: 0 }] }

/** What keeps the store from serving, as far as one has asked lately: it does not answer, or takes no writes. Null: nothing. */
export const storeFault = Effect.gen(function* () {
  const store = yield* Store
  const answer = yield* lately(
    Effect.tapError(store.credentials.tenant(TenantId.make(nobody)), (error) => Effect.logWarning(error.message, error.cause))
  )
  const commit = yield* lately(
    Effect.result(Effect.tapError(store.commit([nothing], []), (error) => Effect.logWarning("the store takes no writes", error)))
  )
  const fault = Effect.gen(function* () {
    if (Option.isNone(yield* answer)) return "database"
    // One that is late has not been refused: behind many others, or a slow disk, it may yet land, as they may.
    const committed = yield* commit
    return Option.isSome(committed) && Result.isFailure(committed.value) ? "read_only" : null
  })
  return { fault }
})

const refusals = { database: () => new NotReady(), read_only: () => new ReadOnly() }

export const probesLayer = Layer.unwrap(
  Effect.gen(function* () {
    const drain = yield* Drain
    const { fault } = yield* storeFault
    const ready = Effect.gen(function* () {
      const call = yield* Call
      const found = drain.isDraining ? null : yield* fault
      if (!drain.isDraining && found === null) return HttpServerResponse.jsonUnsafe({ status: "ready" })
      const { status, body } = call.refuse(found === null ? new ShuttingDown() : refusals[found]())
      return HttpServerResponse.jsonUnsafe(body, { status })
    })
    return Layer.mergeAll(
      HttpRouter.add("GET", paths[0], HttpServerResponse.jsonUnsafe({ status: "alive" })),
      HttpRouter.add("GET", paths[1], ready)
    )
  })
)
