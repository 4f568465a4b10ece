/**
 * An attachment and its scan machine (Spec 3, Attachment). Only `clean` is
 * ever downloaded or mailed; `infected` is final; `error` says nothing about
 * the bytes and may be scanned again.
 */
import { Result, Schema } from "effect"
import type { BlobRef } from "./Blob.ts"
import { AttachmentId, MailboxId, MessageId, type Environment, type Millis, type TenantId } from "./Ids.ts"
import * as Limits from "./Limits.ts"
import { next, type IllegalTransition, type Table } from "./Machine.ts"

export const State = Schema.Literals(["pending", "clean", "infected", "error"])
export type State = typeof State.Type

export type Input =
  | { readonly _tag: "Clean"; readonly at: Millis }
  | { readonly _tag: "Infected"; readonly at: Millis }
  | { readonly _tag: "Errored"; readonly at: Millis; readonly nextScanAt: Millis | null }
  | { readonly _tag: "Rescan"; readonly at: Millis }

export const transitions = {
  pending: { Clean: { to: "clean" }, Infected: { to: "infected" }, Errored: { to: "error" } },
  clean: {},
  infected: {},
  error: { Rescan: { to: "pending" } }
} as const satisfies Table<State, Input["_tag"]>

export interface Attachment {
  readonly id: AttachmentId
  readonly tenantId: TenantId
  readonly environment: Environment
  readonly version: number
  readonly mailboxId: MailboxId
  /** The message that used it first. */
  readonly messageId: MessageId | null
  readonly filename: string
  readonly mediaType: string
  readonly blob: BlobRef
  readonly disposition: "attachment" | "inline"
  readonly contentId: string | null
  readonly scanState: State
  /** How many scans ended in an error since the upload. */
  readonly scanErrors: number
  /** When the scan job is due; null once a verdict is final, or after the last scan that we try. */
  readonly nextScanAt: Millis | null
  readonly scannedAt: Millis | null
  readonly createdAt: Millis
  /** When an upload that no message used is removed; null once used. */
  readonly expiresAt: Millis | null
  /** When a message last used it, as far as `useGrain` tells; null before the first. */
  readonly usedAt: Millis | null
}

/** Milliseconds within which a second use leaves no trace, so that many messages can use one file at a time: 1 hour. */
export const useGrain = 60 * 60 * 1000

export interface Decision {
  readonly from: State
  readonly to: State
  readonly input: Input
}

/** What this verdict would do to this attachment. Changes nothing. */
export const decide = (attachment: Attachment, input: Input): Result.Result<Decision, IllegalTransition> =>
  Result.map(next<State, Input["_tag"], never>("attachment", transitions, attachment.scanState, input._tag), (cell) => ({
    from: attachment.scanState,
    to: cell.to,
    input
  }))

/** The attachment after a decision, one version on. */
export const apply = (attachment: Attachment, decision: Decision): Attachment => {
  const { input } = decision
  return {
    ...attachment,
    version: attachment.version + 1,
    scanState: decision.to,
    scannedAt: input._tag === "Rescan" ? attachment.scannedAt : input.at,
    scanErrors: attachment.scanErrors + (input._tag === "Errored" ? 1 : 0),
    nextScanAt: input._tag === "Errored" ? input.nextScanAt : input._tag === "Rescan" ? input.at : null
  }
}

/** The attachment as used by a message, one version on; unchanged if one used it within the hour before. */
export const use = (attachment: Attachment, messageId: MessageId, at: Millis): Attachment => {
  const { messageId: first, usedAt, version } = attachment
  if (usedAt !== null && at < usedAt + useGrain) return attachment
  return { ...attachment, version: version + 1, messageId: first ?? messageId, expiresAt: null, usedAt: at }
}

/** A file name as a header and a file system may hold it: characters, no path, nothing invisible. */
export const Filename = Schema.String.check(
  Schema.isBetweenCodePoints(1, Limits.filenameLengthMax, { expected: `1 to ${Limits.filenameLengthMax} characters` }),
  Schema.makeFilter((name: string) => fileNameFault(name) ?? true)
)

/** `type/subtype` of RFC 2045 tokens, with parameters if there are some: `text/calendar; method=REQUEST`. */
export const MediaType = Schema.String.check(
  Schema.isBetweenCodePoints(1, Limits.mediaTypeLengthMax, { expected: `1 to ${Limits.mediaTypeLengthMax} characters` }),
  Schema.isPattern(/^[\w!#$%&'*+.^`{|}~-]+\/[\w!#$%&'*+.^`{|}~-]+(?: *; *[\w!#$&+.^`{|}~-]+=(?:[\w!#$%&'*+.^`{|}~-]+|"[ !#-[\]-~]*"))*$/, {
    expected: 'a media type: type/subtype, and parameters such as `; charset=utf-8`'
  }),
  Schema.makeFilter((mediaType: string) => mediaTypeFault(mediaType) ?? true)
)

const mediaTypeFault = (mediaType: string): string | null => {
  const { type, parameters } = mediaTypeParts(mediaType)
  // Neither may be encoded as a file must be (RFC 2045 6.4), so they would arrive broken.
  if (/^(multipart|message)\//.test(type)) return "multipart/* and message/* cannot be files: attach a mail as application/octet-stream"
  const names = parameters.map((parameter) => parameter.slice(0, parameter.indexOf("=")).toLowerCase())
  if (new Set(names).size < names.length) return "a media type has each parameter once"
  if (names.some((name) => name === "name" || name === "filename")) return "a media type has no name: the file's is `filename`"
  if (names.includes("boundary")) return "a file has no parts, and so no boundary"
  return /=\?/.test(mediaType) ? "a media type holds nothing that looks like an encoded-word" : null
}

/** A media type in lower case, and its parameters as they are written, each `name=value`. */
export const mediaTypeParts = (mediaType: string): { readonly type: string; readonly parameters: ReadonlyArray<string> } => {
  const [type = "", ...parameters] = mediaType.match(/(?:[^;"]|"[^"]*")+/g) ?? []
  return { type: type.trim().toLowerCase(), parameters: parameters.map((parameter) => parameter.trim()) }
}

const fileNameFault = (name: string): string | null => {
  if (/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/.test(name)) return "a file name holds no control characters"
  if (/\p{Bidi_Control}/u.test(name)) return "a file name holds no characters that turn the writing direction"
  if (!name.isWellFormed()) return "a file name holds no half of a character"
  // Some readers decode it wherever it stands, to whatever was hidden in it (RFC 2047 5 forbids them to).
  if (/=\?[^?\s]*\?[bq]\?/i.test(name)) return "a file name holds nothing that looks like an encoded-word"
  if (/[/\\]/.test(name) || name === "." || name === "..") return "a file name is not a path"
  // Mail has none of it at either end, and would come without a name.
  if (name !== "" && name.trim() === "") return "a file name is more than white space"
  return null
}

/** The name under which a received part is kept: as its sender has it, where that is a file's name; made fit, where it can be. */
export const receivedName = (filename: string | null, number: number): string => {
  const name = (filename ?? "")
    .normalize("NFC")
    .toWellFormed()
    .replace(/^.*[/\\]/s, "")
    .replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\p{Bidi_Control}]/gu, "")
    .replaceAll("=?", "=_")
    .trim()
  const fit = shortened(name)
  return fit === "" || fileNameFault(fit) !== null ? `attachment-${number}` : fit
}

/** At most so many characters as a name may have; what is cut comes before the extension. */
const shortened = (name: string): string => {
  const characters = Array.from(name)
  if (characters.length <= Limits.filenameLengthMax) return name
  const extension = /\.[A-Za-z0-9]{1,16}$/.exec(name)?.[0] ?? ""
  return characters.slice(0, Limits.filenameLengthMax - extension.length).join("") + extension
}

/**
 * The media type under which a received part is kept, with those parameters that an upload's could have: without its method a
 * calendar is no invitation, and without its charset a text cannot be read. What is none, or parts that were not taken apart,
 * are bytes; a mail has no parameters.
 */
export const receivedMediaType = (mediaType: string, parameters: ReadonlyArray<string>): string => {
  const type = mediaType.toLowerCase()
  if (/^message\/[\w.+-]{1,80}$/.test(type)) return type
  if (!isMediaType(type)) return opaqueType
  let kept = type
  for (const parameter of parameters) {
    const longer = `${kept}; ${parameter}`
    if (isMediaType(longer)) kept = longer
  }
  return kept
}

const isMediaType = Schema.is(MediaType)

/** The media type under which a file is sent; a mail that came in as bytes, for it may not be encoded as a file must be (RFC 2045 6.4). */
export const sentMediaType = ({ mediaType }: Pick<Attachment, "mediaType">): string => {
  const { type } = mediaTypeParts(mediaType)
  return type.startsWith("message/") ? opaqueType : type
}

const opaqueType = "application/octet-stream"

/** The Content-ID under which a file is sent on; null for one that no header can hold, since a stranger may have written it. */
export const sentContentId = (contentId: string | null): string | null =>
  contentId !== null && /^[!-;=?-~]{1,900}$/.test(contentId) ? contentId : null

/** The attachment record of the API (Spec 2, resources only partly described). */
export const View = Schema.Struct({
  id: AttachmentId,
  object: Schema.Literal("attachment"),
  mailboxId: MailboxId,
  messageId: Schema.NullOr(MessageId),
  filename: Schema.String,
  mediaType: Schema.String,
  sizeBytes: Schema.Int,
  sha256: Schema.String,
  disposition: Schema.Literals(["attachment", "inline"]),
  contentId: Schema.NullOr(Schema.String),
  scanState: State,
  scannedAt: Schema.NullOr(Schema.String),
  createdAt: Schema.String,
  expiresAt: Schema.NullOr(Schema.String)
})
