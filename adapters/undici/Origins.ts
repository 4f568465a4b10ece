/**
 * Receivers by their origin (scheme, host and port): each has so many requests
 * at a time, and connections that wait for the next one. One is known for as
 * long as a request is under way or a connection waits, and no longer.
 */
import { Effect, Semaphore } from "effect"
import type { Connection } from "./Connection.ts"

export interface Bounds {
  /** Requests at a time, and so connections, to one receiver. */
  readonly connectionsPerHost: number
  /** Connections that wait for a next request, to all receivers together. */
  readonly idleConnectionsMax: number
}

interface Receiver {
  readonly turns: Semaphore.Semaphore
  readonly idle: Array<Connection>
  users: number
}

export class Origins {
  readonly #bounds: Bounds
  readonly #receivers = new Map<string, Receiver>()
  /** Of all receivers, the one that has waited longest first. */
  readonly #idle = new Map<Connection, string>()
  #isClosed = false

  constructor(bounds: Bounds) {
    this.#bounds = bounds
  }

  /** How many are known, and how many connections wait. */
  get size(): { readonly receivers: number; readonly idle: number } {
    return { receivers: this.#receivers.size, idle: this.#idle.size }
  }

  /** Waits for its turn. */
  within<A, E, R>(origin: string, work: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.acquireUseRelease(
      Effect.sync(() => {
        const { connectionsPerHost } = this.#bounds
        const receiver = this.#receivers.get(origin) ?? { turns: Semaphore.makeUnsafe(connectionsPerHost), idle: [], users: 0 }
        this.#receivers.set(origin, receiver)
        receiver.users += 1
        return receiver
      }),
      (receiver) => receiver.turns.withPermit(work),
      (receiver) =>
        Effect.sync(() => {
          receiver.users -= 1
          this.#forget(origin, receiver)
        })
    )
  }

  /** A connection that waits, to one of these addresses; it waits no more. */
  take(origin: string, addresses: ReadonlyArray<string>): Connection | undefined {
    const found = this.#receivers.get(origin)?.idle.findLast(({ address }) => addresses.includes(address))
    if (found !== undefined) this.#remove(found)
    return found
  }

  /** Lets a connection wait for the next request, if it can. */
  keep(origin: string, connection: Connection): void {
    const receiver = this.#receivers.get(origin)
    const { idleConnectionsMax } = this.#bounds
    if (this.#isClosed || receiver === undefined || !connection.isOpen || idleConnectionsMax === 0) return connection.destroy()
    const [longest] = this.#idle.keys()
    if (longest !== undefined && this.#idle.size >= idleConnectionsMax) this.#close(longest)
    receiver.idle.push(connection)
    this.#idle.set(connection, origin)
    connection.whenClosed(() => this.#close(connection))
  }

  /** Closes what waits at a receiver that has left one: it may have left the others, and they have yet to hear of it. */
  leave(origin: string): void {
    const waiting = this.#receivers.get(origin)?.idle.slice() ?? [] // who is closed leaves the list
    for (const connection of waiting) this.#close(connection)
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
    const receiver = origin === undefined ? undefined : this.#receivers.get(origin)
    if (origin === undefined || receiver === undefined) return false
    this.#idle.delete(connection)
    receiver.idle.splice(receiver.idle.indexOf(connection), 1)
    this.#forget(origin, receiver)
    return true
  }

  #forget(origin: string, receiver: Receiver): void {
    if (receiver.users === 0 && receiver.idle.length === 0) this.#receivers.delete(origin)
  }
}
