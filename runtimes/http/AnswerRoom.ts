/**
 * How much of large answers that are on their way is held in memory: so much
 * in all, and so much for one caller. Whoever asks for more before he has
 * taken what he asked for is refused, for what waits would be held as well.
 */
import { Effect, type Scope } from "effect"
import type { HttpServerResponse } from "effect/http"
import type { TenantId } from "../../core/model/Ids.ts"
import { TooManyAnswers } from "./Refusals.ts"

export interface Room {
  /** Bytes. */
  readonly most: number
  /** Of these for one caller; an answer that is alone may be larger. */
  readonly mostOfCaller: number
  /** An answer of so few is not counted. */
  readonly free: number
}

const mebibyte = 1024 * 1024

/** Some of the largest answers at a time for a tenant, and as much for three others. From 1 MiB on the server waits until one is taken. */
export const forTenants: Room = { most: 256 * mebibyte, mostOfCaller: 64 * mebibyte, free: mebibyte }

export class AnswerRoom {
  readonly #room: Room
  readonly #held = new Map<TenantId, number>()
  #sum = 0

  constructor(room: Room) {
    this.#room = room
  }

  /** The answer, if there is room for it until the scope of its request closes. */
  hold(
    caller: TenantId,
    response: HttpServerResponse.HttpServerResponse
  ): Effect.Effect<HttpServerResponse.HttpServerResponse, TooManyAnswers, Scope.Scope> {
    const { body } = response
    if (body._tag !== "Uint8Array" || body.contentLength < this.#room.free) return Effect.succeed(response)
    const size = body.contentLength
    return Effect.suspend(() => {
      const held = this.#held.get(caller) ?? 0
      const fits = held === 0 || held + size <= this.#room.mostOfCaller
      if (!fits || (this.#sum > 0 && this.#sum + size > this.#room.most)) return new TooManyAnswers()
      this.#add(caller, size)
      return Effect.as(
        Effect.addFinalizer(() => Effect.sync(() => this.#add(caller, -size))),
        response
      )
    })
  }

  #add(caller: TenantId, size: number): void {
    const held = (this.#held.get(caller) ?? 0) + size
    this.#sum += size
    if (held > 0) this.#held.set(caller, held)
    else this.#held.delete(caller)
  }
}
