/** What messages are made of: header fields and a tree of parts (RFC 5322, 2045, 2046). */
import type { AttachmentId } from "./Ids.ts"

/** A header field, unfolded. */
export interface Header {
  readonly name: string
  readonly value: string
}

/** A node of the MIME tree. `partId` as IMAP numbers parts: "1", "1.2"; the root of a multipart is "". */
export interface MimePart {
  readonly partId: string
  readonly mediaType: string
  readonly charset: string | null
  readonly disposition: "attachment" | "inline" | null
  readonly contentId: string | null
  readonly filename: string | null
  /** Decoded bytes; 0 for a multipart. */
  readonly sizeBytes: number
  readonly attachmentId: AttachmentId | null
  readonly parts: ReadonlyArray<MimePart>
}

/** A part of which nothing is known. */
export const emptyPart: MimePart = {
  partId: "",
  mediaType: "",
  charset: null,
  disposition: null,
  contentId: null,
  filename: null,
  sizeBytes: 0,
  attachmentId: null,
  parts: []
}

/** The tree below a part, each node with its number. */
export const numbered = (root: MimePart): MimePart => at(root, "")

const at = (part: MimePart, partId: string): MimePart =>
  part.parts.length === 0
    ? { ...part, partId: partId === "" ? "1" : partId }
    : {
        ...part,
        partId,
        parts: part.parts.map((child, index) => at(child, partId === "" ? String(index + 1) : `${partId}.${index + 1}`))
      }
