/**
 * What reading a message finds (RFC 5322, 2045 to 2047, 2231, 6532). Reading
 * never fails on account of the message: what is wrong with it is a defect in a
 * list, and what cannot be understood is kept whole, as an attachment or text.
 */
import type { Millis } from "./Ids.ts"
import type { Header, MimePart } from "./MimePart.ts"

/** Somebody whom a header names. The address is as written, and may be none that we would send to; decoded names are one line. */
export interface Mentioned {
  readonly address: string
  readonly name: string
}

/**
 * What is wrong with a message, in stable words of lower case and underscores.
 *
 * - `bare_line_ends`: a CR or LF alone ends a line (LF alone may end all of them, as files have it); `long_line`: a line over 998 octets; `nul`: a NUL octet;
 *   `eight_bit_header`: raw octets in the header that are not UTF-8;
 * - `no_header`: it begins with its body; `malformed_header`: a line of the header is no field; `duplicate_header`: a field
 *   that may stand once stands twice; `missing_from`, `missing_date`, `bad_date`, `bad_address`;
 * - `bad_media_type`, `bad_parameter`, `bad_encoded_word`, `unknown_charset`, `bad_charset`: characters or parameters that
 *   do not decode; `unknown_encoding`, `bad_base64`, `bad_quoted_printable`, `bad_uuencode`: so the transfer encoding;
 * - `missing_boundary`: a multipart names no boundary, or one that does not occur, and is text; `unclosed_multipart`,
 *   `empty_multipart`, `encoded_multipart`: other multiparts that are not as they should be;
 * - `truncated_header`, `too_many_headers`, `too_many_parts`, `too_deep`, `too_long`: beyond what we read; the rest is
 *   opaque. `too_costly`: reading was given up, and all but the head is opaque. `unparsed`: it was never read to an end, or
 *   its bytes are gone, so what is shown is of its header alone.
 */
export type Defect = string

/** The header of a message, understood. */
export interface Head {
  /**
   * In order, repeats kept, each on one line and decoded. Lists of addresses are spelled as the core writes them, without
   * comments, unless readers could disagree about whom they name.
   */
  readonly headers: ReadonlyArray<Header>
  /** The first author; null if there is none. */
  readonly from: Mentioned | null
  readonly replyTo: ReadonlyArray<Mentioned>
  readonly to: ReadonlyArray<Mentioned>
  readonly cc: ReadonlyArray<Mentioned>
  /** An empty text if there is none. */
  readonly subject: string
  readonly date: Millis | null
  /** With its angle brackets. */
  readonly messageId: string | null
  readonly inReplyTo: string | null
  /** Oldest first, each with its angle brackets. */
  readonly references: ReadonlyArray<string>
  readonly defects: ReadonlyArray<Defect>
}

export interface ParsedAttachment {
  /** Where it stands in `structure`. */
  readonly partId: string
  readonly filename: string | null
  readonly mediaType: string
  /** Of its media type, each `name=value` as it can be written again; without those that say how it stood in this message. */
  readonly parameters: ReadonlyArray<string>
  readonly disposition: "attachment" | "inline" | null
  readonly contentId: string | null
  /** Decoded. A message within, a signed or encrypted part and TNEF are whole, and byte for byte. */
  readonly bytes: Uint8Array
}

export interface ParsedMessage extends Head {
  /**
   * Of the inline texts, with LF line ends; made from `html` where the sender gave none, or a blank one. Where they have more
   * characters than a message may show (`Limits`), what does not fit is an attachment as well, whole. So it is with `html`.
   */
  readonly text: string | null
  readonly html: string | null
  /** The tree. `attachmentId` is null throughout; who keeps the attachments puts the ids in by `partId`. */
  readonly structure: MimePart
  readonly attachments: ReadonlyArray<ParsedAttachment>
}
