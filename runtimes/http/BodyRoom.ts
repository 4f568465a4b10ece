/**
 * How much of bodies that are still on their way is held in memory: so much in
 * all, and so much for one caller, whose slow bodies hold up nobody else's. For
 * whom there is no room, waits with his bytes in his own connection; the server
 * ends a request that takes too long.
 */
import { Duration, Effect, Semaphore } from "effect"
import { RequestTimeout } from "./Refusals.ts"

export interface Room {
  /** Bytes. */
  readonly most: number
  /** Of these for one caller; no body is larger. */
  readonly mostOfCaller: number
  /** A body of so many takes none: it is not to wait behind its own caller's large ones. */
  readonly free: number
  /** How long a body may take for what is left of it, from when there is room for it; null: as long as the server lets it. */
  readonly patience: Duration.Duration | null
}

const mebibyte = 1024 * 1024

/** Two of the largest bodies at a time for a tenant, and as much for three others. */
export const forTenants: Room = { most: 128 * mebibyte, mostOfCaller: 32 * mebibyte, free: mebibyte / 16, patience: null }
/**
 * For those of whom nobody knows yet who they are, by their address. Four of these can fill it, and providers have little to
 * say and good lines.
 */
export const forStrangers: Room = { most: 16 * mebibyte, mostOfCaller: 4 * mebibyte, free: 0, patience: Duration.seconds(10) }

interface Caller {
  readonly places: Semaphore.Semaphore
  /** With a body that is held, or waits. */
  bodies: number
}

/** What permits are counted in: a body takes room for each KiB that has begun. */
const unit = 1024

export class BodyRoom {
  readonly #room: Room
  readonly #places: Semaphore.Semaphore
  readonly #callers = new Map<string, Caller>()

  constructor(room: Room) {
    this.#room = room
    this.#places = Semaphore.makeUnsafe(room.most / unit)
  }

  /** Reads a body of so many bytes at most, once there is room for them. */
  within<A, E, R>(name: string, sizeBytes: number, read: Effect.Effect<A, E, R>): Effect.Effect<A, E | RequestTimeout, R> {
    if (sizeBytes <= this.#room.free) return read
    const { patience } = this.#room
    const inTime = patience === null ? read : Effect.timeoutOrElse(read, { duration: patience, orElse: () => Effect.fail(new RequestTimeout()) })
    return Effect.uninterruptibleMask((restore) => {
      const caller = this.#callers.get(name) ?? { places: Semaphore.makeUnsafe(this.#room.mostOfCaller / unit), bodies: 0 }
      this.#callers.set(name, caller)
      caller.bodies += 1
      const places = Math.ceil(sizeBytes / unit)
      // The caller's first: whoever waits for himself holds nothing of what others wait for.
      return restore(caller.places.withPermits(places)(this.#places.withPermits(places)(inTime))).pipe(
        Effect.ensuring(
          Effect.sync(() => {
            caller.bodies -= 1
            if (caller.bodies === 0) this.#callers.delete(name)
          })
        )
      )
    })
  }
}
