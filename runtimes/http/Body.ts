/**
 * A body before it is decoded: is it small enough, is it of the one media type
 * we take, and is it JSON that means the same to everybody who reads it?
 */
import { Effect, Stream } from "effect"
import type { Headers, HttpServerRequest } from "effect/http"
import { isUtf8 } from "node:buffer"
import { IncomingMessage } from "node:http"
import type { BodyRoom } from "./BodyRoom.ts"
import type { DrainState } from "./Drain.ts"
import { escapePointer, type Issue } from "./Issues.ts"
import { JsonScanner } from "./JsonScanner.ts"
import { InvalidRequest, PayloadTooLarge, UnsupportedMediaType, type RequestTimeout, type ShuttingDown } from "./Refusals.ts"

/** What is wrong with a body by its announced length, before any of it is read. */
export const faultOfLength = (headers: Headers.Headers, limitBytes: number): PayloadTooLarge | null =>
  Number(headers["content-length"] ?? 0) > limitBytes ? new PayloadTooLarge({ limitBytes }) : null

/** What other parameters say changes nothing: JSON has none of its own (RFC 8259, 11). */
const json = /^application\/json[ \t]*(?:;[ \t]*(?:(?:charset=(?:utf-8|"utf-8")|(?!charset=)[\w!#$%&'*+.^`|~-]+=(?:[\w!#$%&'*+.^`|~-]+|"(?:[^"\\]|\\.)*"))[ \t]*)?)*$/i

/**
 * It must be `application/json`, neither compressed nor otherwise encoded. A request that has no body and names no type is
 * let pass, for it is refused as an empty one.
 */
export const faultOfMediaType = ({ headers, source }: HttpServerRequest.HttpServerRequest): UnsupportedMediaType | null => {
  const contentType = headers["content-type"]
  const transferEncoding = headers["transfer-encoding"]
  const isAnnounced = transferEncoding !== undefined || Number(headers["content-length"] ?? 0) > 0
  const hasBody = isAnnounced || (source instanceof globalThis.Request && source.body !== null) // which announces nothing
  const isJson = contentType === undefined ? !hasBody : json.test(contentType)
  const isPlain = (headers["content-encoding"] ?? "identity").toLowerCase() === "identity"
  const isWhole = transferEncoding === undefined || transferEncoding.toLowerCase() === "chunked"
  return isJson && isPlain && isWhole ? null : new UnsupportedMediaType()
}

/** What a body that is still on its way waits for, and what it may wait no longer than. */
export interface Waiting {
  readonly drain: DrainState
  readonly room: BodyRoom
  /** Whose room it takes. */
  readonly caller: string
}

/** Reads the whole body and checks it; the text that came. A chunked body is left where it passes the limit. */
export const read = (
  request: HttpServerRequest.HttpServerRequest,
  limitBytes: number,
  waiting: Waiting
): Effect.Effect<string, BodyFault> =>
  Effect.flatMap(readBytes(request, limitBytes, waiting), (bytes) => {
    const fault = faultOfAbsence(request.headers, bytes.length)
    return fault === null ? textOf(bytes) : Effect.fail(fault)
  })

/**
 * Reads the body of an operation that takes none: there is none, or it is empty, or it is `{}`. Clients and proxies
 * make all three of "no body", and an empty one of any media type.
 */
export const readNone = Effect.fnUntraced(function* (
  request: HttpServerRequest.HttpServerRequest,
  limitBytes: number,
  waiting: Waiting
) {
  const bytes = yield* readBytes(request, limitBytes, waiting)
  if (bytes.length === 0) return
  const fault = faultOfMediaType(request)
  if (fault !== null) return yield* fault
  const value = JSON.parse(yield* textOf(bytes)) as object // what the scanner lets pass is an object
  const issues = Object.keys(value).map(unknownMember)
  if (issues.length > 0) return yield* new InvalidRequest({ issues })
})

const unknownMember = (name: string): Issue => ({
  path: `/${escapePointer(name)}`,
  code: "unknown_member",
  message: "Expected no such member"
})

type BodyFault = PayloadTooLarge | InvalidRequest | RequestTimeout | ShuttingDown

/**
 * Reads the whole body, whatever it is; who calls has looked at its announced length (`faultOfLength`). A chunked one is
 * left where it passes the limit, and any is when the time to finish runs out: only a body can keep a request waiting for
 * its client.
 */
export const readBytes = (
  request: HttpServerRequest.HttpServerRequest,
  limitBytes: number,
  { drain, room, caller }: Waiting
): Effect.Effect<Uint8Array, BodyFault> =>
  Effect.suspend(() => {
    const whole = wholeOf(request)
    if (whole !== null) return Effect.succeed(whole)
    const announced = request.headers["transfer-encoding"] === undefined ? request.headers["content-length"] : undefined
    if (announced !== undefined && !/^\d+$/.test(announced)) return Effect.fail(new InvalidRequest({ issues: [noLength] }))
    const roomBytes = announced === undefined ? limitBytes : Number(announced)
    return drain.unlessExpired(room.within(caller, roomBytes, gathered(request, limitBytes, roomBytes)))
  })

/** Node refuses such a request by itself; a host's may have it. */
const noLength: Issue = { path: "", code: "malformed_http", message: "Expected a Content-Length that is one number" }

/** Node waits for what is announced. A host's parser may have read it, and the caller has made no mistake. */
const takenBefore: Issue = {
  path: "",
  code: "empty_body",
  message: "Expected the body that Content-Length announces, and nothing of it is left: what stands before this service in its process has read it. Mount the service before body parsers"
}

/** What is wrong with a body that has come to its end with so many bytes, where some are announced. */
export const faultOfAbsence = (headers: Headers.Headers, sizeBytes: number): InvalidRequest | null =>
  sizeBytes === 0 && Number(headers["content-length"] ?? 0) > 0 ? new InvalidRequest({ issues: [takenBefore] }) : null

/** Node ends a body where its length says. A host may not: one that took out the compression, say, and left the length. */
const beyondLength: Issue = { path: "", code: "malformed_http", message: "Expected a body that is no longer than its Content-Length" }

/** A body that has arrived by now, as most have; null if more is to come, or if it is not known how much. */
const wholeOf = (request: HttpServerRequest.HttpServerRequest): Uint8Array | null => {
  if (!hasArrived(request)) return null
  const source = request.source as IncomingMessage // or nothing would have arrived
  // Told how much: since Node 26, `read()` gives the first piece alone.
  return source.readableLength === 0 ? new Uint8Array(0) : (source.read(source.readableLength) as Uint8Array | null) // no encoding is set
}

/** Whether the body is there, so that nobody waits for it. */
export const hasArrived = ({ source, headers }: HttpServerRequest.HttpServerRequest): boolean =>
  source instanceof IncomingMessage &&
  source.readableLength === (headers["transfer-encoding"] === undefined ? Number(headers["content-length"] ?? 0) : Number.NaN)

/** Copied together as they come: a client may send a byte at a time, and each piece takes more than a hundred by itself. */
const gathered = (request: HttpServerRequest.HttpServerRequest, limitBytes: number, roomBytes: number): Effect.Effect<Uint8Array, BodyFault> =>
  Effect.suspend(() => {
    let held = new Uint8Array(0)
    let length = 0
    const take = (piece: Uint8Array): Effect.Effect<void, BodyFault> => {
      const after = length + piece.length
      if (after > limitBytes) return Effect.fail(new PayloadTooLarge({ limitBytes }))
      if (after > roomBytes) return Effect.fail(new InvalidRequest({ issues: [beyondLength] }))
      if (after > held.length) {
        const larger = new Uint8Array(Math.max(after, Math.min(2 * after, roomBytes)))
        larger.set(held.subarray(0, length))
        held = larger
      }
      held.set(piece, length)
      length = after
      return Effect.void
    }
    return Effect.map(Stream.runForEach(streamOf(request), take), () => held.subarray(0, length))
  })

const textOf = (bytes: Uint8Array): Effect.Effect<string, InvalidRequest> => {
  const fault = check(bytes)
  return fault === null ? Effect.succeed(utf8.decode(bytes)) : Effect.fail(new InvalidRequest({ issues: [fault] }))
}

/**
 * A body as it comes; of a web request that has none the platform makes one that broke off. The rest of one that is refused is
 * the host's, as all of one that is refused unread: cancelled, a body that Node's `Readable.toWeb` has made destroys its
 * request, whose answer is under way, and may throw in what it goes on to read, where nobody catches it.
 */
export const streamOf = ({ source, stream }: HttpServerRequest.HttpServerRequest): Stream.Stream<Uint8Array, InvalidRequest> => {
  if (!(source instanceof globalThis.Request)) return Stream.mapError(stream, brokenOff)
  const { body } = source
  return body === null ? Stream.empty : Stream.fromReadableStream({ evaluate: () => body, onError: brokenOff, releaseLockOnEnd: true })
}

/** The client went away, or its bytes stopped making sense, before the body was whole. */
const brokenOff = (): InvalidRequest =>
  new InvalidRequest({ issues: [{ path: "", code: "malformed_http", message: "Expected the whole body, and it broke off" }] })

const utf8 = new TextDecoder()

const check = (bytes: Uint8Array): Issue | null => {
  const scanner = new JsonScanner()
  const fault = scanner.write(bytes) ?? scanner.end()
  return fault ?? (isUtf8(bytes) ? null : { path: "", code: "invalid_text", message: "Expected UTF-8" })
}
