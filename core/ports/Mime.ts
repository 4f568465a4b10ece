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
import type { Content, Header, Message } from "../model/Message.ts"

/** The message cannot be written, or read, as MIME; trying again would fail again. */
export class MimeFailed extends Data.TaggedError("MimeFailed")<{ readonly cause: unknown }> {
  override readonly message = "the message is not fit for MIME"
}

export interface ParsedAttachment {
  readonly filename: string | null
  readonly mediaType: string
  readonly disposition: "attachment" | "inline" | null
  readonly contentId: string | null
  readonly bytes: Uint8Array
}

export interface Parsed {
  /** In order, repeats kept, decoded. */
  readonly headers: ReadonlyArray<Header>
  readonly text: string | null
  readonly html: string | null
  readonly attachments: ReadonlyArray<ParsedAttachment>
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
    readonly parse: <E>(bytes: Stream.Stream<Uint8Array, E>) => Effect.Effect<Parsed, E | MimeFailed>
  }
>()("mailroom/core/ports/Mime") {}
