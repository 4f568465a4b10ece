/**
 * The Date field (RFC 5322, 3.3 and 4.3), and shapes near it that senders use:
 * any order of month and day, ISO 8601, asctime, clocks of twelve hours.
 * A zone that nobody knows counts as none (4.3), and none as UTC.
 */
import type { Millis } from "../../core/model/Ids.ts"

export interface ReadDate {
  /** Null if it is no date. */
  readonly date: Millis | null
  /** Written as the RFC has it, its obsolete forms included. */
  readonly isProper: boolean
}

/** Characters of a field that are looked at. */
const lengthMax = 256

const months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
const weekday = "(?:mon|tue|wed|thu|fri|sat|sun)"
const time = String.raw`(?<hour>\d{1,2})\s*[:.]\s*(?<minute>\d{1,2})(?:\s*[:.]\s*(?<second>\d{1,2})(?:[.,]\d+)?)?(?:\s*(?<half>[ap])\.?m\b\.?)?`
/** Behind a zone's number some write its name too, and Go the number again where there is no name. The number counts. */
const again = String.raw`(?:\s+(?![ap]m\b)(?:[a-z]{1,5}|[+-]\d{2}(?:\d{2})?))?`
const zone = String.raw`\s*(?:(?<zone>(?:gmt|utc?)?\s*[+-]\s*\d{1,2}:?\d{2})${again}|(?<named>[a-z]{1,5}))?`

const proper = new RegExp(
  String.raw`^(?:${weekday}\s*,)?\s*\d{1,2}\s+(?:${months.join("|")})\s+(?:\d{4}|\d{2,3})\s+\d{2}\s*:\s*\d{2}(?:\s*:\s*\d{2})?\s+(?:[+-]\d{4}|ut|gmt|[ecmp][sd]t|[a-z])$`,
  "i"
)
const shapes = [
  String.raw`^(?:[^\d\s,]+[\s,]+)?(?<day>\d{1,2})(?:\s+|-)(?<month>[a-z]{3})[a-z]*\.?(?:,?\s+|-)(?<year>\d{2,4}),?\s+${time}${zone}\s*$`,
  String.raw`^(?:[^\d\s,]+[\s,]+)?(?<month>[a-z]{3})[a-z]*\.?\s+(?<day>\d{1,2})\s*,\s*(?<year>\d{4}),?\s+(?:at\s+)?${time}${zone}\s*$`,
  String.raw`^(?:${weekday}\s+)?(?<month>[a-z]{3})\s+(?<day>\d{1,2})\s+${time}${zone}\s+(?<year>\d{4})\s*$`,
  String.raw`^(?:${weekday}[a-z]*,?\s+)?(?<year>\d{4})[-/](?<month>\d{1,2})[-/](?<day>\d{1,2})(?:t|\s+)${time}${zone}\s*$`
].map((shape) => new RegExp(shape, "i"))

export const readDate = (value: string): ReadDate => {
  const text = withoutComments(value.slice(0, lengthMax)).replace(/\s+/g, " ").trim()
  for (const shape of shapes) {
    const groups = shape.exec(text)?.groups
    if (groups === undefined) continue
    const date = instantOf(groups)
    return { date, isProper: date !== null && proper.test(text) }
  }
  return { date: null, isProper: false }
}

const instantOf = (groups: Readonly<Record<string, string | undefined>>): Millis | null => {
  const number = (name: string) => Number(groups[name] ?? 0)
  const named = groups["month"]!.toLowerCase()
  const month = /^\d/.test(named) ? Number(named) : months.indexOf(named) + 1
  const year = number("year") + (groups["year"]!.length >= 4 ? 0 : groups["year"]!.length === 2 && number("year") < 50 ? 2000 : 1900)
  const [day, minute, second] = [number("day"), number("minute"), number("second")]
  const half = groups["half"]?.toLowerCase()
  const hour = half === undefined ? number("hour") : (number("hour") % 12) + (half === "p" ? 12 : 0)
  const offset = offsetOf(groups["zone"] ?? groups["named"] ?? "")
  const isDay = month >= 1 && month <= 12 && day >= 1 && day <= daysIn(year, month)
  if (!isDay || hour > 23 || minute > 59 || second > 60 || offset === null) return null
  return (daysBefore(year, month, day) * 24 * 60 + hour * 60 + minute - offset) * 60_000 + second * 1000
}

const american: Readonly<Record<string, number>> = { e: -5, c: -6, m: -7, p: -8 }

/** Minutes east of Greenwich. */
const offsetOf = (zone: string): number | null => {
  const [, sign, hours, minutes] = /([+-])\s*(\d{1,2}):?(\d{2})$/.exec(zone) ?? []
  if (sign !== undefined) {
    const offset = Number(hours) * 60 + Number(minutes)
    return Number(minutes) > 59 || offset >= 24 * 60 ? null : sign === "-" ? -offset : offset
  }
  const [, place, season] = /^([ecmp])([sd])t$/i.exec(zone) ?? []
  return place === undefined ? 0 : (american[place.toLowerCase()]! + (season!.toLowerCase() === "d" ? 1 : 0)) * 60
}

const isLeap = (year: number): boolean => (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0

const daysIn = (year: number, month: number): number => (month === 2 ? (isLeap(year) ? 29 : 28) : [4, 6, 9, 11].includes(month) ? 30 : 31)

/** Days between 1970-01-01 and a day of the Gregorian calendar; years begin in March, so that the leap day ends one. */
const daysBefore = (year: number, month: number, day: number): number => {
  const of = month > 2 ? year : year - 1
  const inYear = Math.floor((153 * ((month + 9) % 12) + 2) / 5) + day - 1
  return of * 365 + Math.floor(of / 4) - Math.floor(of / 100) + Math.floor(of / 400) + inYear - 719_468
}

/** Comments may hold comments; one that never closes is the rest. */
const withoutComments = (text: string): string => {
  let depth = 0
  let kept = ""
  for (let at = 0; at < text.length; at++) {
    const character = text[at]!
    if (character === "\\" && depth > 0) at += 1
    else if (character === "(") depth += 1
    else if (character === ")" && depth > 0) {
      depth -= 1
      kept += " "
    } else if (depth === 0) kept += character
  }
  return kept
}
