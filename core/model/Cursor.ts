/**
 * Page cursors (Spec 4, Pagination). A messages cursor is the `createdAt` of
 * the last message shown, to the microsecond; the bound is exclusive.
 *
 * An events cursor is opaque, to be passed back (0041): a place in the log,
 * and the time of the event there, by which its age is known. The log is
 * shared, so a place would tell how much others send. It is masked, and has a
 * tag by which it is good in its realm alone:
 *
 *   e2.<the place, masked: 28 hex digits><its tag: 32>
 *
 * The tag is a mac over the place, and the mask one over the tag, so the same
 * place has the same cursor. An ISO 8601 timestamp is accepted too.
 */
import { Data, Option, Result } from "effect"
import type { Micros, Millis, Realm } from "./Ids.ts"
import { eventCursorLengthMax } from "./Limits.ts"
import * as Timestamp from "./Timestamp.ts"

/** The cursor is none of ours, or points at what is no longer kept. */
export class InvalidCursor extends Data.TaggedError("InvalidCursor")<{ readonly reason: "malformed" | "expired" }> {
  override get message(): string {
    return this.reason === "malformed"
      ? "The cursor is malformed. Pass nextCursor back as it came, or leave the cursor out to start anew."
      : "The cursor is older than events are kept. Leave it out to read from the oldest event, and reconcile with GET /v1/messages."
  }
}

/** Where a page of events starts: behind the event of a position and time, or at the first event of a time or later. */
export type EventStart =
  | ({ readonly _tag: "After" } & EventPlace)
  | { readonly _tag: "Since"; readonly at: Millis }

/** The `createdAt` of the last message shown, as the next page's cursor. */
export const formatMessages = Timestamp.fromMicros

/** The time before which a page of messages begins. */
export const parseMessages = (text: string): Result.Result<Micros, InvalidCursor> =>
  Result.fromOption(Timestamp.toMicros(text), () => new InvalidCursor({ reason: "malformed" }))

/** The place of an event in the log, and when it occurred. */
export interface EventPlace {
  readonly position: bigint
  readonly occurredAt: Millis
}

/** What an events cursor says before its tag was looked at. */
export interface ClaimedPlace {
  readonly _tag: "Claimed"
  readonly masked: string
  readonly tag: string
}

/** What both macs of an events cursor are made for (`Crypto.mac`), over `macInput` of the place's digits, and of the tag. */
export const eventsPurpose = "events-cursor"

/** What a cursor's mac is over. A place's digits and a tag differ in length, so neither is taken for the other. */
export const macInput = ({ tenantId, environment }: Realm, text: string): string => `${tenantId} ${environment} ${text}`

const positionDigits = 16
const placeDigits = 28
const tagDigits = 32

/** The position in 16 hex digits, the time in 12. */
export const digits = ({ position, occurredAt }: EventPlace): string =>
  position.toString(16).padStart(positionDigits, "0") + occurredAt.toString(16).padStart(placeDigits - positionDigits, "0")

/** The tag of a place, of the mac over its digits. */
export const tagOf = (mac: string): string => mac.slice(0, tagDigits)

const masked = (place: string, mac: string): string =>
  (BigInt(`0x${place}`) ^ BigInt(`0x${mac.slice(0, placeDigits)}`)).toString(16).padStart(placeDigits, "0")

/** The cursor of a place; `mask` is the mac over its tag. */
export const formatEvents = (place: EventPlace, tag: string, mask: string): string => `e2.${masked(digits(place), mask)}${tag}`

/** What is claimed under this mask. It is ours if its digits have the claimed tag. */
export const unmask = (claimed: ClaimedPlace, mask: string): EventPlace => {
  const place = masked(claimed.masked, mask)
  return {
    position: BigInt(`0x${place.slice(0, positionDigits)}`),
    occurredAt: Number.parseInt(place.slice(positionDigits), 16)
  }
}

/** What the text of an events cursor says, before it was looked at whether that is so. */
export type ParsedEvents = ClaimedPlace | Extract<EventStart, { readonly _tag: "Since" }>

const opaque = new RegExp(`^e2\\.([0-9a-f]{${placeDigits}})([0-9a-f]{${tagDigits}})$`)

/**
 * `e1.<position>.<millis>`, both in base 36: read until the last that was given is older than events are kept (0041). The time
 * alone counts: anybody can write one, and by trying positions would find those of their own events.
 */
const bare = /^e1\.[0-9a-z]{1,13}\.([0-9a-z]{1,9})$/

/** What an events cursor says; `InvalidCursor` if the text is none. */
export const parseEvents = (text: string): Result.Result<ParsedEvents, InvalidCursor> => {
  const malformed = () => new InvalidCursor({ reason: "malformed" })
  if (text.length > eventCursorLengthMax) return Result.fail(malformed())
  const [, place, tag] = opaque.exec(text) ?? []
  if (place !== undefined && tag !== undefined) return Result.succeed({ _tag: "Claimed", masked: place, tag })
  const [, millis] = bare.exec(text) ?? []
  if (millis !== undefined) return Result.succeed({ _tag: "Since", at: Number.parseInt(millis, 36) })
  return Option.match(Timestamp.toMicros(text), {
    onNone: () => Result.fail(malformed()),
    onSome: (micros) => Result.succeed({ _tag: "Since", at: Number((micros + 999n) / 1000n) })
  })
}
