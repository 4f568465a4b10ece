/** Reading the canonical events (Spec 4, listEvents): ascending, in commit order, until the cursor is null. */
import { Clock, Context, Effect, Layer, Schema } from "effect"
import * as Cursor from "../model/Cursor.ts"
import * as Event from "../model/Event.ts"
import type { Millis, Realm } from "../model/Ids.ts"
import * as Limits from "../model/Limits.ts"
import { Crypto } from "../ports/Crypto.ts"
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
      const crypto = yield* Crypto
      const settings = yield* Settings

      return Events.of({
        list: Tracing.fn("Events.list")(function* (principal, { limit, cursor }) {
          const { realm } = principal
          const oldest = (yield* Clock.currentTimeMillis) - settings.eventRetention
          const pageFrom = Effect.fnUntraced(function* (start: Cursor.EventStart) {
            const page = yield* store.events.page(realm, principal.applicationId, { start, limit: limit + 1 })
            // Removed by a process that keeps events for less time than this one, or while they were kept for less.
            if (cursor !== null && page.beginning === "cut") return yield* new Cursor.InvalidCursor({ reason: "expired" })
            return page
          })
          // Without a cursor from the oldest that a cursor may point at, whether or not older ones are still there.
          const start: Cursor.EventStart =
            cursor === null ? { _tag: "Since", at: oldest } : yield* startOf(crypto, realm, cursor, oldest)
          const page = yield* pageFrom(start)
          const { events: found } =
            start._tag === "After" && page.beginning === "unknown"
              ? // The log that the cursor is of was lost, and went on otherwise. What both had was read, so the rest goes by time.
                yield* pageFrom({ _tag: "Since", at: Math.max(oldest, start.occurredAt - Limits.lostLogOverlap) })
              : page
          const shown = found.slice(0, limit)
          const last = shown[limit - 1]
          return {
            items: shown.map(Event.view),
            nextCursor: found.length > limit && last !== undefined ? yield* cursorAt(crypto, realm, last) : null
          }
        })
      })
    })
  )
}

const mac = (crypto: typeof Crypto.Service, realm: Realm, text: string): Effect.Effect<string> =>
  crypto.mac(Cursor.eventsPurpose, Cursor.macInput(realm, text))

const tagAt = (crypto: typeof Crypto.Service, realm: Realm, place: Cursor.EventPlace): Effect.Effect<string> =>
  Effect.map(mac(crypto, realm, Cursor.digits(place)), Cursor.tagOf)

/** The cursor that leads a realm's readers behind this place of the log (0041). */
export const cursorAt = Effect.fnUntraced(function* (crypto: typeof Crypto.Service, realm: Realm, place: Cursor.EventPlace) {
  const tag = yield* tagAt(crypto, realm, place)
  return Cursor.formatEvents(place, tag, yield* mac(crypto, realm, tag))
})

/** The place that a cursor claims; `InvalidCursor` if none of ours does, in this realm. */
const verified = Effect.fnUntraced(function* (crypto: typeof Crypto.Service, realm: Realm, claimed: Cursor.ClaimedPlace) {
  const place = Cursor.unmask(claimed, yield* mac(crypto, realm, claimed.tag))
  // Not in constant time: whoever guessed a tag would read events of their own.
  return (yield* tagAt(crypto, realm, place)) === claimed.tag ? place : yield* new Cursor.InvalidCursor({ reason: "malformed" })
})

/** Where the page behind a cursor starts; `InvalidCursor` if it is none of ours, or that is before `oldest`. */
const startOf = Effect.fnUntraced(function* (crypto: typeof Crypto.Service, realm: Realm, text: string, oldest: Millis) {
  const parsed = yield* Effect.fromResult(Cursor.parseEvents(text))
  const found = parsed._tag === "Claimed" ? yield* verified(crypto, realm, parsed) : parsed
  const [start, at]: readonly [Cursor.EventStart, Millis] =
    "position" in found ? [{ _tag: "After", ...found }, found.occurredAt] : [found, found.at]
  return at < oldest ? yield* new Cursor.InvalidCursor({ reason: "expired" }) : start
})
