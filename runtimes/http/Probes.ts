/** `/healthz` (the process lives) and `/readyz` (it can serve). They stand outside all guards. */
import { Effect, Layer, Option } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { TenantId } from "../../core/model/Ids.ts"
import { Store } from "../../core/ports/Store.ts"
import { Call } from "./Call.ts"
import { Drain } from "./Drain.ts"
import { lately } from "./Lately.ts"
import { path as metrics } from "./Metrics.ts"
import { NotReady, ShuttingDown } from "./Refusals.ts"

export const paths = ["/healthz", "/readyz"] as const

/** What is not a client's, and stands outside all guards. */
export const isProbe = (path: string): boolean => path === paths[0] || path === paths[1] || path === metrics

const nobody = TenantId.make("00000000-0000-0000-0000-000000000000")

/** Whether the store answers, as far as one has asked lately. */
export const storeAnswers = Effect.flatMap(Store, (store) =>
  store.credentials.tenant(nobody).pipe(
    Effect.tapError((error) => Effect.logWarning(error.message, error.cause)),
    lately,
    Effect.map(Effect.map(Option.isSome))
  )
)

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
