/**
 * Builds and reads MIME objects (RFC 5322, 2045 to 2047, 2231).
 *
 * An adapter
 * - builds the same bytes for the same input, on every machine and in every
 *   run: boundaries, Message-ID and Date derive from the message;
 * - writes the header fields of `Content.headers` and no address that is not
 *   among them, so that bcc recipients appear nowhere;
 * - encodes every value so that none can end a header line or start a field;
 * - reads no file and fetches no URL, whatever the message says.
 */
import { Context, Data, type Effect, type Stream } from "effect"
import type { Attachment } from "../model/Attachment.ts"
import type { Content, Message } from "../model/Message.ts"
import type { Head, ParsedMessage } from "../model/ParsedMessage.ts"

/** The message cannot be written as MIME; trying again would fail again. */
export class MimeFailed extends Data.TaggedError("MimeFailed")<{ readonly cause: unknown }> {
  override readonly message = "the message is not fit for MIME"
}

export class Mime extends Context.Service<
  Mime,
  {
    /** The bytes of an outbound message: CRLF line ends, no line over 998 octets. `E` is whatever reading the attachments may fail with. */
    readonly build: <E>(
      message: Message,
      content: Content,
      attachments: ReadonlyArray<{ readonly attachment: Attachment; readonly bytes: Stream.Stream<Uint8Array, E> }>
    ) => Stream.Stream<Uint8Array, E | MimeFailed>
    /** What the first part of a message says, at most its first 256 KiB. */
    readonly readHead: (start: Uint8Array) => Effect.Effect<Head>
    /** The whole message, whatever it is like, in bounded time and memory, and away from the event loop. */
    readonly parse: <E>(bytes: Stream.Stream<Uint8Array, E>) => Effect.Effect<ParsedMessage, E>
  }
>()("mailroom/core/ports/Mime") {}
