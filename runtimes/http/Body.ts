/**
 * A body before it is decoded: is it small enough, is it of the one media type
 * we take, and is it JSON that means the same to everybody who reads it?
 */
import { ByteSize, Effect } from "effect"
import { HttpIncomingMessage, type Headers, type HttpServerError, type HttpServerRequest } from "effect/http"
import { isUtf8 } from "node:buffer"
import { escapePointer, type Issue } from "./Issues.ts"
import { JsonScanner } from "./JsonScanner.ts"
import { InvalidRequest, PayloadTooLarge, UnsupportedMediaType } from "./Refusals.ts"

/** Refuses a body by its announced length, before any of it is read. */
export const checkLength = (headers: Headers.Headers, limitBytes: number): Effect.Effect<void, PayloadTooLarge> =>
  Number(headers["content-length"] ?? 0) > limitBytes ? Effect.fail(new PayloadTooLarge({ limitBytes })) : Effect.void

const json = /^application\/json[ \t]*(?:;[ \t]*(?:charset=(?:utf-8|"utf-8")[ \t]*)?)*$/i

/** `application/json`, as it is. A request without a body is let pass, for it is refused as an empty one. */
export const checkMediaType = (headers: Headers.Headers): Effect.Effect<void, UnsupportedMediaType> => {
  const contentType = headers["content-type"]
  const transferEncoding = headers["transfer-encoding"]
  const hasBody = transferEncoding !== undefined || Number(headers["content-length"] ?? 0) > 0
  const isJson = contentType === undefined ? !hasBody : json.test(contentType)
  const isPlain = (headers["content-encoding"] ?? "identity").trim().toLowerCase() === "identity"
  const isWhole = transferEncoding === undefined || transferEncoding.trim().toLowerCase() === "chunked"
  return isJson && isPlain && isWhole ? Effect.void : Effect.fail(new UnsupportedMediaType())
}

/** Reads the whole body and checks it; the text that came. A chunked body is left where it passes the limit. */
export const read = (
  request: HttpServerRequest.HttpServerRequest,
  limitBytes: number
): Effect.Effect<string, PayloadTooLarge | InvalidRequest> => Effect.flatMap(readBytes(request, limitBytes), textOf)

/**
 * Reads the body of an operation that takes none: there is none, or it is empty, or it is `{}`. Clients and proxies
 * make all three of "no body", and an empty one of any media type.
 */
export const readNone = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest, limitBytes: number) {
  const bytes = yield* readBytes(request, limitBytes)
  if (bytes.length === 0) return
  yield* checkMediaType(request.headers)
  const value = JSON.parse(yield* textOf(bytes)) as object // what the scanner lets pass is an object
  const issues = Object.keys(value).map(unknownMember)
  if (issues.length > 0) return yield* new InvalidRequest({ issues })
})

const unknownMember = (name: string): Issue => ({
  path: `/${escapePointer(name)}`,
  code: "unknown_member",
  message: "Expected no such member"
})

/** Reads the whole body, whatever it is. A chunked one is left where it passes the limit. */
export const readBytes = (
  request: HttpServerRequest.HttpServerRequest,
  limitBytes: number
): Effect.Effect<Uint8Array, PayloadTooLarge | InvalidRequest> =>
  request.arrayBuffer.pipe(
    Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.bytes(limitBytes)),
    Effect.mapError((error) => (isTooLarge(error) ? new PayloadTooLarge({ limitBytes }) : brokenOff())),
    Effect.map((buffer) => new Uint8Array(buffer))
  )

const textOf = (bytes: Uint8Array): Effect.Effect<string, InvalidRequest> => {
  const fault = check(bytes)
  return fault === null ? Effect.succeed(utf8.decode(bytes)) : Effect.fail(new InvalidRequest({ issues: [fault] }))
}

/** The client went away, or its bytes stopped making sense, before the body was whole. */
export const brokenOff = (): InvalidRequest =>
  new InvalidRequest({ issues: [{ path: "", code: "malformed_http", message: "Expected the whole body, and it broke off" }] })

const isTooLarge = ({ reason }: HttpServerError.HttpServerError): boolean =>
  reason._tag === "RequestParseError" && reason.reason === "BodyTooLarge"

const utf8 = new TextDecoder()

const check = (bytes: Uint8Array): Issue | null => {
  const scanner = new JsonScanner()
  const fault = scanner.write(bytes) ?? scanner.end()
  return fault ?? (isUtf8(bytes) ? null : { path: "", code: "invalid_text", message: "Expected UTF-8" })
}
