/**
 * Ids in the order of a time: what is due, expires, or is listed by its creation. Keyset pages go through
 * it, so a place outlives the id that stood there.
 */
import type { Millis } from "../../core/model/Ids.ts"

/** A place in a timeline. */
export interface Place {
  readonly at: Millis
  readonly id: string
}

/** Ids in the order of a time, then of the id. */
export class Timeline {
  private readonly places: Array<Place> = []

  add(place: Place): void {
    this.places.splice(this.seek(place), 0, place)
  }

  remove(place: Place): void {
    this.places.splice(this.seek(place), 1)
  }

  /** Those behind a place, up to and with a time. */
  page(after: Place | null, until: Millis, limit: number): ReadonlyArray<Place> {
    const begin = after === null ? 0 : firstIndex(this.places, (place) => comparePlaces(place, after) > 0)
    const end = firstIndex(this.places, (place) => place.at > until)
    return this.places.slice(begin, Math.min(end, begin + limit))
  }

  /** The last ones, the last first. */
  last(limit: number): ReadonlyArray<Place> {
    return this.places.slice(Math.max(0, this.places.length - limit)).toReversed()
  }

  private seek(place: Place): number {
    return firstIndex(this.places, (held) => comparePlaces(held, place) >= 0)
  }
}

export const textOf = ({ at, id }: Place): string => `${at} ${id}`

export const placeOf = (text: string): Place => {
  const space = text.indexOf(" ")
  return { at: Number(text.slice(0, space)), id: text.slice(space + 1) }
}

/** The first index where a claim holds that, once true, stays true; the length if it never does. */
export const firstIndex = <A>(list: ReadonlyArray<A>, claim: (item: A) => boolean): number => {
  let [low, high] = [0, list.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (claim(list[middle]!)) high = middle
    else low = middle + 1
  }
  return low
}

export const compare = (left: string, right: string): number => (left < right ? -1 : left > right ? 1 : 0)

const comparePlaces = (left: Place, right: Place): number => left.at - right.at || compare(left.id, right.id)
