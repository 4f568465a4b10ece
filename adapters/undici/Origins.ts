/**
 * A lane per receiver (scheme, host and port): so many requests at a time, and
 * the connections that wait for the next one. A lane is there for as long as
 * somebody is in it or a connection waits, and no longer.
 */
import { Effect, Semaphore } from "effect"
import type { Connection } from "./Connection.ts"

export interface Bounds {
  /** Requests at a time, and so connections, to one receiver. */
  readonly connectionsPerHost: number
  /** Connections that wait for a next request, to all receivers together. */
  readonly idleConnectionsMax: number
}

interface Lane {
  readonly turns: Semaphore.Semaphore
  readonly idle: Array<Connection>
  users: number
}

export class Lanes {
  readonly #bounds: Bounds
  readonly #lanes = new Map<string, Lane>()
  /** Of all lanes, the one that has waited longest first. */
  readonly #idle = new Map<Connection, string>()
  #isClosed = false

  constructor(bounds: Bounds) {
    this.#bounds = bounds
  }

  /** How many lanes there are, and connections that wait in them. */
  get size(): { readonly lanes: number; readonly idle: number } {
    return { lanes: this.#lanes.size, idle: this.#idle.size }
  }

  /** Waits for its turn. */
  within<A, E, R>(origin: string, work: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.acquireUseRelease(
      Effect.sync(() => {
        const { connectionsPerHost } = this.#bounds
        const lane = this.#lanes.get(origin) ?? { turns: Semaphore.makeUnsafe(connectionsPerHost), idle: [], users: 0 }
        this.#lanes.set(origin, lane)
        lane.users += 1
        return lane
      }),
      (lane) => lane.turns.withPermit(work),
      (lane) =>
        Effect.sync(() => {
          lane.users -= 1
          this.#forget(origin, lane)
        })
    )
  }

  /** A connection that waits, to one of these addresses; it waits no more. */
  take(origin: string, addresses: ReadonlyArray<string>): Connection | undefined {
    const found = this.#lanes.get(origin)?.idle.findLast(({ address }) => addresses.includes(address))
    if (found !== undefined) this.#remove(found)
    return found
  }

  /** Lets a connection wait for the next request, if it can. */
  keep(origin: string, connection: Connection): void {
    const lane = this.#lanes.get(origin)
    const { idleConnectionsMax } = this.#bounds
    if (this.#isClosed || lane === undefined || !connection.isOpen || idleConnectionsMax === 0) return connection.destroy()
    const [longest] = this.#idle.keys()
    if (longest !== undefined && this.#idle.size >= idleConnectionsMax) this.#close(longest)
    lane.idle.push(connection)
    this.#idle.set(connection, origin)
    connection.whenClosed(() => this.#close(connection))
  }

  close(): void {
    this.#isClosed = true
    for (const connection of this.#idle.keys()) this.#close(connection)
  }

  #close(connection: Connection): void {
    if (this.#remove(connection)) connection.destroy()
  }

  /** False if it does not wait. */
  #remove(connection: Connection): boolean {
    const origin = this.#idle.get(connection)
    const lane = origin === undefined ? undefined : this.#lanes.get(origin)
    if (origin === undefined || lane === undefined) return false
    this.#idle.delete(connection)
    lane.idle.splice(lane.idle.indexOf(connection), 1)
    this.#forget(origin, lane)
    return true
  }

  #forget(origin: string, lane: Lane): void {
    if (lane.users === 0 && lane.idle.length === 0) this.#lanes.delete(origin)
  }
}
