/**
 * How much of large answers that are on their way is held in memory: so much
 * in all, and so much for one caller. Whoever asks for more before he has
 * taken what he asked for is refused, for what waits would be held as well.
 */
import { Context, Effect, Layer, Stream, type Scope } from "effect"
import { HttpBody, HttpServerResponse } from "effect/http"
import type { TenantId } from "../../core/model/Ids.ts"
import { TooManyAnswers } from "./Refusals.ts"

export interface Room {
  /** Bytes. */
  readonly most: number
  /** Of these for one caller; an answer that is alone may be larger. */
  readonly mostOfCaller: number
  /** An answer of so few is not counted; an answer of more is written in pieces. */
  readonly free: number
  /** What is held at most of one that is written as it is read, however long it is. */
  readonly streamed: number
}

const mebibyte = 1024 * 1024

/**
 * Some of the largest answers at a time for a tenant, or 64 downloads, and as much for three others. From 1 MiB on the server
 * waits until one is taken. A download that nobody reads was seen to hold 832 KiB: a part that was read ahead, in the buffer of
 * 512 KiB in which it came, and the one before it as Base64.
 */
export const forTenants: Room = { most: 256 * mebibyte, mostOfCaller: 64 * mebibyte, free: mebibyte, streamed: mebibyte }

export class AnswerRoom {
  readonly #room: Room
  readonly #held = new Map<TenantId, number>()
  #sum = 0

  constructor(room: Room) {
    this.#room = room
  }

  /** The answer, if there is room for it until the scope of its request closes; of one that is written as it is read, see `begin`. */
  hold(
    caller: TenantId,
    response: HttpServerResponse.HttpServerResponse
  ): Effect.Effect<HttpServerResponse.HttpServerResponse, TooManyAnswers, Scope.Scope> {
    const { body } = response
    if (body._tag !== "Uint8Array" || body.contentLength < this.#room.free) return Effect.succeed(response)
    return Effect.as(this.#take(caller, body.contentLength), HttpServerResponse.setBody(response, inPieces(body)))
  }

  /** Room for an answer of so many bytes that is written as it is read, before any is: what is refused was held by then. */
  begin(caller: TenantId, sizeBytes: number): Effect.Effect<void, TooManyAnswers, Scope.Scope> {
    return sizeBytes < this.#room.free ? Effect.void : this.#take(caller, Math.min(sizeBytes, this.#room.streamed))
  }

  #take(caller: TenantId, size: number): Effect.Effect<void, TooManyAnswers, Scope.Scope> {
    return Effect.suspend(() => {
      const held = this.#held.get(caller) ?? 0
      const fits = held === 0 || held + size <= this.#room.mostOfCaller
      if (!fits || (this.#sum > 0 && this.#sum + size > this.#room.most)) return new TooManyAnswers()
      this.#add(caller, size)
      return Effect.addFinalizer(() => Effect.sync(() => this.#add(caller, -size)))
    })
  }

  #add(caller: TenantId, size: number): void {
    const held = (this.#held.get(caller) ?? 0) + size
    this.#sum += size
    if (held > 0) this.#held.set(caller, held)
    else this.#held.delete(caller)
  }
}

/** The one room of a process's server, or of a handler. */
export class Answers extends Context.Service<Answers, AnswerRoom>()("mailroom/http/Answers") {
  static readonly layer = Layer.sync(Answers, () => new AnswerRoom(forTenants))
}

const pieceBytes = mebibyte / 2

/**
 * The server waits for each piece to be taken, so that it sees how slowly that goes (LeastRate.ts), and for the last one if it
 * is not small. So what is left goes with the last.
 */
const inPieces = ({ body, contentLength, contentType }: HttpBody.Uint8Array): HttpBody.Stream => {
  const last = Math.max(0, Math.floor(contentLength / pieceBytes) - 1)
  const pieces = Stream.fromIterable(Array.from({ length: last + 1 }, (_, piece) => piece), { chunkSize: 1 }).pipe(
    Stream.map((piece) => body.subarray(piece * pieceBytes, piece === last ? contentLength : (piece + 1) * pieceBytes))
  )
  return HttpBody.stream(pieces, contentType, contentLength)
}
