/**
 * An attachment as a JSON object whose long Base64 text is written as the blob
 * is read. The length is known before the first byte. A blob that fails on the
 * way breaks the connection off, so that no part passes for the whole.
 */
import { Effect, Pull, Stream } from "effect"
import { HttpServerResponse } from "effect/http"
import type { TenantId } from "../../core/model/Ids.ts"
import type { Download } from "../../core/operations/Attachments.ts"
import type { AnswerRoom } from "./AnswerRoom.ts"
import { Base64Encoder, encodedLength } from "./Base64.ts"

const utf8 = new TextEncoder()

export const respond = Effect.fnUntraced(function* ({ filename, mediaType, sizeBytes, bytes }: Download, room: AnswerRoom, caller: TenantId) {
  const head = utf8.encode(`${JSON.stringify({ filename, mediaType }).slice(0, -1)},"contentBase64":"`)
  const tail = utf8.encode(`"}`)
  const contentLength = head.length + encodedLength(sizeBytes) + tail.length
  yield* room.begin(caller, contentLength)
  const encoder = new Base64Encoder()
  const encoded = Stream.concat(
    Stream.map(bytes, (chunk) => encoder.write(chunk)),
    Stream.suspend(() => Stream.make(encoder.end()))
  )
  // The first piece is read before the answer begins: a blob store that is away can still be told.
  const pull = yield* Stream.toPull(encoded)
  const first = yield* pull.pipe(
    Effect.catchTag(["BlobMissing", "BlobCorrupt"], (error) => Effect.die(error)),
    Pull.catchDone(() => Effect.succeed([]))
  )
  // Let go once it is handed on: the answer lasts for as long as its reader takes.
  let begun: ReadonlyArray<Uint8Array> = [head, ...first]
  const begin = Stream.suspend(() => {
    const pieces = begun
    begun = []
    return Stream.fromIterable(pieces, { chunkSize: 1 })
  })
  const content = Stream.concat(begin, Stream.fromPull(Effect.succeed(pull)))
  return HttpServerResponse.stream(Stream.concat(content, Stream.make(tail)), {
    contentType: "application/json",
    contentLength
  })
})
