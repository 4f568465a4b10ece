/** `/healthz` (the process lives) and `/readyz` (it can serve). They stand outside all guards. */
import { Effect, Exit, Fiber, Layer, Option } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { TenantId } from "../../core/model/Ids.ts"
import { Store } from "../../core/ports/Store.ts"
import { Call } from "./Call.ts"
import { Drain } from "./Drain.ts"
import { path as metrics } from "./Metrics.ts"
import { NotReady, ShuttingDown } from "./Refusals.ts"

export const paths = ["/healthz", "/readyz"] as const

/** What is not a client's, and stands outside all guards. */
export const isProbe = (path: string): boolean => path === "/healthz" || path === "/readyz" || path === metrics

/** How long the store may take to answer. */
const patience = "1 second"
/** Probes come often and from many; this often the store is asked. */
const freshness = "1 second"

const nobody = TenantId.make("00000000-0000-0000-0000-000000000000")

/** Whether the store answers, as far as one has asked lately. */
export const storeAnswers = Effect.gen(function* () {
  const store = yield* Store
  return yield* store.credentials.tenant(nobody).pipe(
    Effect.tapError((error) => Effect.logWarning(error.message, error.cause)),
    Effect.forkDetach,
    // No longer, however long it takes to be interrupted.
    Effect.flatMap((asked) =>
      Effect.timeoutOption(Fiber.await(asked), patience).pipe(Effect.ensuring(Effect.forkDetach(Fiber.interrupt(asked))))
    ),
    Effect.map((answer) => Option.isSome(answer) && Exit.isSuccess(answer.value)),
    Effect.cachedWithTTL(freshness)
  )
})

export const probesLayer = Layer.unwrap(
  Effect.gen(function* () {
    const drain = yield* Drain
    const isStoreThere = yield* storeAnswers
    const ready = Effect.gen(function* () {
      const call = yield* Call
      const refusal = drain.isDraining ? new ShuttingDown() : (yield* isStoreThere) ? null : new NotReady()
      if (refusal === null) return HttpServerResponse.jsonUnsafe({ status: "ready" })
      const { status, body } = call.refuse(refusal)
      return HttpServerResponse.jsonUnsafe(body, { status })
    })
    return Layer.mergeAll(
      HttpRouter.add("GET", paths[0], HttpServerResponse.jsonUnsafe({ status: "alive" })),
      HttpRouter.add("GET", paths[1], ready)
    )
  })
)
