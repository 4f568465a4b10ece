/**
 * What providers post to us: verified by the provider's adapter, kept for the
 * operator, and recorded, in this order. Whoever is answered may forget it, for
 * all of it is committed; whoever is not sends it again, which changes nothing.
 */
import { Clock, Context, Data, Effect, Layer } from "effect"
import * as Metrics from "../Metrics.ts"
import { payloadBytesMax, type ProviderPayload } from "../model/ProviderPayload.ts"
import { Crypto } from "../ports/Crypto.ts"
import { JobQueue } from "../ports/JobQueue.ts"
import {
  intakeIdLengthMax,
  intakeKindLengthMax,
  NotificationIntakes,
  type IntakeRefused,
  type IntakeRequest,
  type IntakeUnavailable,
  type NotificationIntake
} from "../ports/NotificationIntake.ts"
import { Store, type StoreUnavailable } from "../ports/Store.ts"
import { commit, dieOnRejection } from "./Commit.ts"
import { RecordNotification } from "./RecordNotification.ts"

/** No intake of this process has that name. */
export class ProviderUnknown extends Data.TaggedError("ProviderUnknown")<{}> {
  override readonly message = "there is no such provider"
}

export class Notifications extends Context.Service<
  Notifications,
  {
    /** Whether an intake of this process has that name. */
    readonly knows: (provider: string) => boolean
    /** Takes in one request for the provider of this name. Succeeds once all that it says is committed. */
    readonly receive: (
      provider: string,
      request: IntakeRequest
    ) => Effect.Effect<void, ProviderUnknown | IntakeRefused | IntakeUnavailable | StoreUnavailable>
  }
>()("mailroom/core/operations/Notifications") {
  static readonly layer = Layer.effect(
    Notifications,
    Effect.gen(function* () {
      const store = yield* Store
      const queue = yield* JobQueue
      const crypto = yield* Crypto
      const { record } = yield* RecordNotification
      const intakes = new Map((yield* NotificationIntakes).map((intake) => [intake.name, intake]))

      const keep = Effect.fnUntraced(function* (of: Omit<ProviderPayload, "receivedAt" | "digest" | "text">, body: Uint8Array) {
        const receivedAt = yield* Clock.currentTimeMillis
        const digest = yield* crypto.digest(new TextDecoder().decode(body))
        const text = new TextDecoder().decode(body.subarray(0, payloadBytesMax))
        yield* commit(store, queue, [{ _tag: "KeepPayload", payload: { ...of, receivedAt, digest, text } }], []).pipe(dieOnRejection)
      })

      /** Only the provider itself speaks of its submissions: what an adapter says of another's is left out. */
      const taken = Effect.fnUntraced(function* ({ name, receive }: NotificationIntake, request: IntakeRequest) {
        const { id, kind, notifications: told } = yield* receive(request)
        const notifications = told.filter(({ provider }) => provider === name)
        const named = { id: id.slice(0, intakeIdLengthMax), kind: kind.slice(0, intakeKindLengthMax) }
        const of = { ...named, provider: name, notifications: notifications.length }
        yield* keep(of, request.body)
        if (notifications.length > 0) yield* record(notifications)
        yield* Effect.logInfo("a provider's notification is recorded").pipe(
          Effect.annotateLogs({ provider: name, payloadId: of.id, kind: of.kind, notifications: of.notifications })
        )
      })

      return Notifications.of({
        knows: (provider) => intakes.has(provider),
        receive: Effect.fn("Notifications.receive")(function* (provider, request) {
          const intake = intakes.get(provider)
          if (intake === undefined) return yield* new ProviderUnknown()
          yield* taken(intake, request).pipe(
            Effect.tap(() => Metrics.count(Metrics.intakes.recorded)),
            Effect.tapError((error) => Metrics.count(Metrics.intakes[error._tag === "IntakeRefused" ? "refused" : "unavailable"]))
          )
        })
      })
    })
  )
}
