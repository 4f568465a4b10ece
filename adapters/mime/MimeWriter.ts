/**
 * Writes a message: the fields of `Content.headers`, the tree of
 * `Content.mime`, and nothing else. It guesses no type and no encoding from
 * names, makes no identifier and no date, and opens no file and no URL.
 *
 * Without attachments a message is one chunk, unless its texts are long; with
 * them, each is pulled as it is written, and never held. A message that is a
 * single text ends with a line end.
 */
import { Stream } from "effect"
import { mediaTypeParts, sentContentId, type Attachment } from "../../core/model/Attachment.ts"
import type { Content, Message } from "../../core/model/Message.ts"
import type { MimePart } from "../../core/model/MimePart.ts"
import { MimeFailed } from "../../core/ports/Mime.ts"
import { base64Lines, encodeText } from "./BodyEncoding.ts"
import { oneLine } from "./HeaderField.ts"
import { field, headerField, parameter } from "./HeaderWriter.ts"

interface Source<E> {
  readonly attachment: Attachment
  readonly bytes: Stream.Stream<Uint8Array, E>
}

/** The bytes of a message; they fail before the first one if anything but a source is at fault. */
export const write = <E>(
  message: Message,
  content: Content,
  sources: ReadonlyArray<Source<E>>
): Stream.Stream<Uint8Array, E | MimeFailed> =>
  Stream.suspend((): Stream.Stream<Uint8Array, E | MimeFailed> => {
    try {
      const pieces = arrange(message, content, sources)
      const [first = ""] = pieces
      return pieces.length === 1 ? bytesOf(first) : Stream.flatMap(Stream.fromIterable(pieces), bytesOf)
    } catch (cause) {
      return Stream.fail(new MimeFailed({ cause }))
    }
  })

// The tree

/** A piece of the message, in the order of the wire. A string is ASCII: `field` saw to it, and the encoders of bodies. */
type Piece<E> = string | Stream.Stream<Uint8Array, E>

const bytesOf = <E>(piece: Piece<E>): Stream.Stream<Uint8Array, E> =>
  typeof piece === "string" ? Stream.succeed(Buffer.from(piece, "latin1")) : piece

const arrange = <E>(message: Message, content: Content, sources: ReadonlyArray<Source<E>>): ReadonlyArray<Piece<E>> => {
  const unwritten = new Map(sources.map((source) => [source.attachment.id, source]))
  const pieces: Array<Piece<E>> = []
  let text = ""

  const add = (piece: Piece<E>): void => {
    if (typeof piece === "string") text += piece
    else {
      pieces.push(text, piece)
      text = ""
    }
  }

  const addPart = (part: MimePart): void => {
    if (part.parts.length > 0) addMultipart(part)
    else if (part.attachmentId === null) addText(part)
    else addFile(part, part.attachmentId)
  }

  const addMultipart = (part: MimePart): void => {
    // "=_" stands in no quoted-printable and in no base64, so no body can hold the boundary.
    const boundary = `=_${part.partId === "" ? "0" : part.partId}_${message.id}`
    if (!/^[\w.=-]{1,70}$/.test(boundary)) throw new Error("a boundary is made of the numbers of a part and a message")
    add(`${field("Content-Type", [`${mediaType(part)};`, `boundary="${boundary}"`])}\r\n--${boundary}\r\n`)
    for (const [index, child] of part.parts.entries()) {
      if (index > 0) add(`\r\n--${boundary}\r\n`)
      addPart(child)
    }
    add(`\r\n--${boundary}--\r\n`)
  }

  const addText = (part: MimePart): void => {
    const given = part.mediaType === "text/html" ? content.html : part.mediaType === "text/plain" ? content.text : null
    if (given === null) throw new Error(`there is no body for the part ${part.mediaType}`)
    const { encoding, body, endsLine } = encodeText(given)
    add(`Content-Type: ${part.mediaType}; charset=utf-8\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n`)
    add(body)
    if (part === content.mime && !endsLine) add("\r\n")
  }

  const addFile = (part: MimePart, id: Attachment["id"]): void => {
    const source = unwritten.get(id)
    if (source === undefined) throw new Error(`attachment ${id} is not there, or is there twice`)
    unwritten.delete(id)
    add(fileHead(part, mediaTypeParts(source.attachment.mediaType).parameters))
    add(base64Lines(source.bytes))
  }

  for (const header of content.headers) add(headerField(header))
  addPart(content.mime)
  if (unwritten.size > 0) throw new Error(`attachment ${unwritten.keys().next().value} has no part`)
  if (text !== "") pieces.push(text)
  return pieces
}

/** Base64 for a message/rfc822 too, against RFC 2046: its lines are not ours to know, and readers decode it. */
const fileHead = (part: MimePart, parameters: ReadonlyArray<string>): string => {
  const words = [mediaType(part), ...parameters]
  const type = field("Content-Type", words.map((word, index) => (index < words.length - 1 ? `${word};` : word)))
  const disposition = part.disposition === null ? "" : field("Content-Disposition", dispositionWords(part.disposition, part.filename))
  const id = part.contentId === null ? "" : field("Content-ID", [`<${contentId(part.contentId)}>`])
  return `${type}Content-Transfer-Encoding: base64\r\n${disposition}${id}\r\n`
}

const dispositionWords = (disposition: string, name: string | null): ReadonlyArray<string> => {
  const filename = oneLine(name ?? "")
  return filename === "" ? [disposition] : [`${disposition};`, ...parameter("filename", filename)]
}

const mediaType = ({ mediaType, parts }: MimePart): string => {
  if (!/^[\w!#$%&'*+.^`{|}~-]+\/[\w!#$%&'*+.^`{|}~-]+$/.test(mediaType)) throw new Error("a media type is type/subtype")
  // A leaf of that name would be taken apart by whoever reads it.
  if (/^multipart\//i.test(mediaType) !== parts.length > 0) throw new Error(`${mediaType} is not the type of this part`)
  return mediaType
}

const contentId = (id: string): string => {
  if (sentContentId(id) === null) throw new Error("a content id is printable ASCII without spaces and angle brackets")
  return id
}
