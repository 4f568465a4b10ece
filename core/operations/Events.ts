/** Reading the canonical events (Spec 4, listEvents): ascending, in commit order, until the cursor is null. */
import { Clock, Context, Effect, Layer, Schema } from "effect"
import * as Cursor from "../model/Cursor.ts"
import * as Event from "../model/Event.ts"
import { Store, type StoreUnavailable } from "../ports/Store.ts"
import { Settings } from "../Settings.ts"
import * as Tracing from "../Tracing.ts"
import type { Principal } from "./Access.ts"

/** A page of events, ascending (Spec 4, listEvents). */
export const EventPage = Schema.Struct({
  items: Schema.Array(Event.View),
  nextCursor: Schema.NullOr(Schema.String)
})

export class Events extends Context.Service<
  Events,
  {
    /** A page behind `cursor`, or from the oldest that is kept; `InvalidCursor` for one that is none of ours, or too old. */
    readonly list: (
      principal: Principal,
      query: { readonly limit: number; readonly cursor: string | null }
    ) => Effect.Effect<typeof EventPage.Type, Cursor.InvalidCursor | StoreUnavailable>
  }
>()("mailroom/core/operations/Events") {
  static readonly layer = Layer.effect(
    Events,
    Effect.gen(function* () {
      const store = yield* Store
      const settings = yield* Settings

      return Events.of({
        list: Tracing.fn("Events.list")(function* (principal, { limit, cursor }) {
          const oldest = (yield* Clock.currentTimeMillis) - settings.eventRetention
          // Without a cursor from the oldest that a cursor may point at, whether or not older ones are still there.
          const start: Cursor.EventStart =
            cursor === null ? { _tag: "Since", at: oldest } : yield* Effect.fromResult(Cursor.parseEvents(cursor, oldest))
          const found = yield* store.events.page(principal.realm, principal.applicationId, { start, limit: limit + 1 })
          const shown = found.slice(0, limit)
          const last = shown[limit - 1]
          return {
            items: shown.map(Event.view),
            nextCursor: found.length > limit && last !== undefined ? Cursor.formatEvents(last.position, last.occurredAt) : null
          }
        })
      })
    })
  )
}
