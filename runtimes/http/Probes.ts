/** `/healthz` (the process lives) and `/readyz` (it can serve). They stand outside all guards. */
import { Effect, Layer } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { TenantId } from "../../core/model/Ids.ts"
import { Store } from "../../core/ports/Store.ts"
import { Call } from "./Call.ts"
import { Drain } from "./Drain.ts"
import { NotReady, ShuttingDown } from "./Refusals.ts"

export const paths = ["/healthz", "/readyz"] as const

export const isProbe = (path: string): boolean => path === "/healthz" || path === "/readyz"

/** How long the store may take to answer. */
const patience = "1 second"
/** Probes come often and from many; this often the store is asked. */
const freshness = "1 second"

const nobody = TenantId.make("00000000-0000-0000-0000-000000000000")

export const probesLayer = Layer.unwrap(
  Effect.gen(function* () {
    const store = yield* Store
    const drain = yield* Drain
    const storeAnswers = yield* store.credentials.tenant(nobody).pipe(
      Effect.tapError((error) => Effect.logWarning(error.message, error.cause)),
      Effect.timeoutOption(patience),
      Effect.flatMap(Effect.fromOption),
      Effect.isSuccess,
      Effect.cachedWithTTL(freshness)
    )
    const ready = Effect.gen(function* () {
      const call = yield* Call
      const refusal = drain.isDraining ? new ShuttingDown() : (yield* storeAnswers) ? null : new NotReady()
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
