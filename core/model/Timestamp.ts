/** Instants as text: ISO 8601 in UTC, with milliseconds, or with microseconds where order depends on them. */
import { DateTime, Option } from "effect"
import type { Micros, Millis } from "./Ids.ts"

/** The last instant that has a date (ECMAScript, Time Values); the first is as far before 1970. */
export const dateMax: Millis = 8.64e15

/** `2026-12-01T09:30:00.123Z` */
export const fromMillis = (at: Millis): string => DateTime.formatIso(DateTime.makeUnsafe(at))

/** The same; null stays null. */
export const fromMillisOrNull = (at: Millis | null): string | null => (at === null ? null : fromMillis(at))

/** `2026-12-01T09:30:00.123456Z` */
export const fromMicros = (at: Micros): string =>
  `${fromMillis(Number(at / 1000n)).slice(0, -1)}${String(at % 1000n).padStart(3, "0")}Z`

const isoDateTime = /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:\.(\d+))?(Z|[+-]\d{2}:\d{2})$/

/** Reads a date-time (RFC 3339 5.6); digits beyond microseconds are dropped. */
export const toMicros = (text: string): Option.Option<Micros> => {
  const match = isoDateTime.exec(text.toUpperCase())
  if (match === null || !isInCalendar(match[1]!)) return Option.none()
  return Option.map(
    DateTime.make(`${match[1]}${match[3]}`),
    (whole) => BigInt(DateTime.toEpochMillis(whole)) * 1000n + BigInt((match[2] ?? "").slice(0, 6).padEnd(6, "0"))
  )
}

/** A date parser takes the 30th of February for the 2nd of March, and 24:00 for the next day; a date-time is neither. */
const isInCalendar = (local: string): boolean =>
  Option.exists(DateTime.make(`${local}Z`), (at) => DateTime.formatIso(at).startsWith(local))

const weekdays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

/** A mail header's date (RFC 5322 3.3), in UTC: `Tue, 01 Dec 2026 09:30:00 +0000` */
export const toMailDate = (at: Millis): string => {
  const parts = DateTime.toPartsUtc(DateTime.makeUnsafe(at))
  const two = (value: number) => String(value).padStart(2, "0")
  return `${weekdays[parts.weekDay]}, ${two(parts.day)} ${months[parts.month - 1]} ${parts.year} ${two(parts.hour)}:${two(parts.minute)}:${two(parts.second)} +0000`
}

/** The UTC day of an instant: `2026-12-01` */
export const utcDay = (at: Millis): string => {
  const number = Math.floor(at / day)
  if (number !== lastDay.number) lastDay = { number, text: fromMillis(at).slice(0, 10) }
  return lastDay.text
}

/** Mostly the same day is asked for again. */
let lastDay = { number: Number.NaN, text: "" }

const day = 86_400_000

/** Milliseconds until the next UTC day begins: more than none, and a day at most. */
export const untilNextDay = (at: Millis): Millis => day - (at % day)

/** The same in whole seconds, at least 1. */
export const secondsToNextDay = (at: Millis): number => Math.ceil(untilNextDay(at) / 1000)
