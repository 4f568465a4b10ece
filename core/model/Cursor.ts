/**
 * Page cursors (Spec 4, Pagination). A messages cursor is the `createdAt` of
 * the last message shown, to the microsecond; the bound is exclusive. An
 * events cursor is opaque: a place in the log, and the time of the event
 * there, by which its age is known. An ISO 8601 timestamp is accepted too.
 */
import { Data, Option, Result } from "effect"
import type { Micros, Millis } from "./Ids.ts"
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

/** Where a page of events starts: behind a position, or at the first event of a time or later. */
export type EventStart =
  | { readonly _tag: "After"; readonly position: bigint }
  | { readonly _tag: "Since"; readonly at: Millis }

/** The `createdAt` of the last message shown, as the next page's cursor. */
export const formatMessages = Timestamp.fromMicros

/** The time before which a page of messages begins. */
export const parseMessages = (text: string): Result.Result<Micros, InvalidCursor> =>
  Result.fromOption(Timestamp.toMicros(text), () => new InvalidCursor({ reason: "malformed" }))

/** `e1.<position>.<millis>`, both in base 36. */
export const formatEvents = (position: bigint, occurredAt: Millis): string =>
  `e1.${position.toString(36)}.${occurredAt.toString(36)}`

const opaque = /^e1\.([0-9a-z]{1,13})\.([0-9a-z]{1,9})$/

/** Where a page of events starts; `InvalidCursor` if the text is no cursor, or that is before `oldest`. */
export const parseEvents = (text: string, oldest: Millis): Result.Result<EventStart, InvalidCursor> => {
  if (text.length > eventCursorLengthMax) return Result.fail(new InvalidCursor({ reason: "malformed" }))
  const match = opaque.exec(text)
  if (match !== null) {
    const position = [...match[1]!].reduce((sum, digit) => sum * 36n + BigInt(Number.parseInt(digit, 36)), 0n)
    return position > 0x7fff_ffff_ffff_ffffn
      ? Result.fail(new InvalidCursor({ reason: "malformed" }))
      : fresh({ _tag: "After", position }, Number.parseInt(match[2]!, 36), oldest)
  }
  return Option.match(Timestamp.toMicros(text), {
    onNone: () => Result.fail(new InvalidCursor({ reason: "malformed" })),
    onSome: (micros) => {
      const at = Number((micros + 999n) / 1000n)
      return fresh({ _tag: "Since", at }, at, oldest)
    }
  })
}

const fresh = (start: EventStart, at: Millis, oldest: Millis): Result.Result<EventStart, InvalidCursor> =>
  at < oldest ? Result.fail(new InvalidCursor({ reason: "expired" })) : Result.succeed(start)
