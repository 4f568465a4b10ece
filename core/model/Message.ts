/**
 * A message: what its row holds, the fold that makes its status of its
 * recipients, its flags, and what it is built as (Spec 2 and 3, Outbound
 * message). What the API shows of it is in MessageView.ts.
 *
 * Everything that the MIME object is built from is fixed at acceptance, so the
 * same message always builds the same bytes.
 */
import { Schema } from "effect"
import type { Address } from "./Address.ts"
import * as Addresses from "./Address.ts"
import { sentContentId, sentMediaType, type Attachment } from "./Attachment.ts"
import type { BlobRef } from "./Blob.ts"
import {
  AttachmentId,
  MailboxId,
  MessageId,
  type ApplicationId,
  type Environment,
  type Micros,
  type Millis,
  type RequestId,
  type TenantId
} from "./Ids.ts"
import { textOfHtml } from "./MailText.ts"
import { emptyPart, numbered, type Header, type MimePart } from "./MimePart.ts"
import type { Mentioned } from "./ParsedMessage.ts"
import type { Reception } from "./Reception.ts"
import { State as RecipientState, type Failure, type Recipient, type SubmissionRef } from "./Recipient.ts"
import * as Timestamp from "./Timestamp.ts"

export const Status = Schema.Literals([...RecipientState.literals, "received"])
export type Status = typeof Status.Type

export const Folder = Schema.Literals(["inbox", "sent", "archive", "spam", "trash"])
export type Folder = typeof Folder.Type

/** A hand-over that a provider accepted. `pollAt`: when to ask the provider for outcomes it does not push. */
export interface Submission extends SubmissionRef {
  readonly submittedAt: Millis
  readonly recipients: ReadonlyArray<Address>
  readonly pollAt: Millis | null
}

/** The row of a message; its bodies live apart, in `Content`. */
export interface Message {
  readonly id: MessageId
  readonly tenantId: TenantId
  readonly environment: Environment
  /** One more with each commit that changes the row. */
  readonly version: number
  /** The `sequence` of the last event about this message. */
  readonly eventSequence: number
  /** Who sent it; null for inbound mail. */
  readonly applicationId: ApplicationId | null
  /** Of the call that accepted it; of inbound mail, what our trace field names it by. */
  readonly requestId: RequestId
  readonly mailboxId: MailboxId
  readonly direction: "inbound" | "outbound"
  /** Set by the store: rises strictly per tenant in commit order. */
  readonly createdAt: Micros
  readonly acceptedAt: Millis
  readonly updatedAt: Millis
  readonly folder: Folder
  readonly isRead: boolean
  readonly isStarred: boolean
  /** Of outbound mail, the mailbox. Of inbound mail, whom the header names: its address may be none, or empty. */
  readonly from: Mentioned
  readonly replyTo: ReadonlyArray<Mentioned>
  readonly subject: string
  readonly snippet: string
  readonly sizeBytes: number
  readonly attachmentIds: ReadonlyArray<AttachmentId>
  /** With its angle brackets; an empty text for inbound mail that has none. */
  readonly internetMessageId: string
  readonly inReplyTo: string | null
  readonly references: ReadonlyArray<string>
  readonly recipients: ReadonlyArray<Recipient>
  /** The status as committed: `fold(recipients)`, or `received`. Kept, so that lists need no fold. */
  readonly status: Status
  readonly failure: Failure | null
  readonly sentAt: Millis | null
  /** Submissions tried; what its operator holds up is not. */
  readonly attempts: number
  /** When the submission job is due; null when no recipient is queued. */
  readonly nextAttemptAt: Millis | null
  readonly submissions: ReadonlyArray<Submission>
  /** The MIME object, once stored. */
  readonly mime: BlobRef | null
  /** How it came; null for outbound mail. */
  readonly reception: Reception | null
}

/** The heavy part of a message. */
export interface Content {
  readonly text: string | null
  readonly html: string | null
  readonly headers: ReadonlyArray<Header>
  readonly mime: MimePart
}

/**
 * What is kept of it: of inbound mail all, written once more when it is parsed. Of outbound mail the header follows from the
 * message, and the tree from the bodies unless there are attachments, so they are not kept; what earlier versions wrote has them.
 */
export type KeptContent = Pick<Content, "text" | "html"> & Partial<Content>

/** What a message's kept content stands for. */
export const contentOf = (message: Message, { text, html, headers, mime }: KeptContent): Content => ({
  text,
  html,
  headers: headers ?? outboundHeaders(message),
  mime: mime ?? outboundStructure(text, html, [])
})

/**
 * The status of an outbound message: queued while any recipient is queued;
 * then failed if any failed, else bounced if any bounced, else delivered if
 * all are delivered, else sent.
 */
export const fold = (recipients: ReadonlyArray<Pick<Recipient, "status">>): RecipientState => {
  const has = (status: RecipientState) => recipients.some((recipient) => recipient.status === status)
  if (has("queued")) return "queued"
  if (has("failed")) return "failed"
  if (has("bounced")) return "bounced"
  return recipients.every((recipient) => recipient.status === "delivered") ? "delivered" : "sent"
}

/** Where the fold can lead; the published graph of message states. */
export const successors: Readonly<Record<RecipientState, ReadonlyArray<RecipientState>>> = {
  queued: ["sent", "delivered", "bounced", "failed"],
  sent: ["delivered", "bounced", "failed"],
  delivered: ["bounced", "failed"],
  bounced: ["failed"],
  failed: []
}

/** Characters that a snippet is looked for in; what is longer is white space or markup. */
const snippetSourceMax = 20_000

/** The first 200 characters of what a person would read, white space folded: of the HTML where the text is missing, or blank. */
export const snippet = (text: string | null, html: string | null): string => {
  const given = (text ?? "").trimStart()
  const shown = given === "" ? textOfHtml(html ?? "", snippetSourceMax).trimStart() : given
  // 400 code units hold 200 characters, whatever they are; mostly the first page has as many.
  const first = singleSpaced(shown.slice(0, 1_000))
  const enough = first.length > 400 ? first : singleSpaced(shown.slice(0, snippetSourceMax))
  const [beginning] = /^.{0,200}/su.exec(enough)! // it matches whatever there is
  return beginning.toWellFormed().trimEnd()
}

/** Mostly nothing is to be folded, and looking costs much less than replacing each space. */
const singleSpaced = (text: string): string => (text.includes("  ") || /[^\S ]/.test(text) ? text.replace(/\s+/g, " ") : text).trim()

/** The `Message-ID` of a message of ours: its id at the sender's domain. */
export const internetMessageId = (id: MessageId, from: Address): string => `<${id}@${Addresses.domainOf(from)}>`

/** As it is shown: null for inbound mail that has none. */
export const shownMessageId = ({ internetMessageId }: Pick<Message, "internetMessageId">): string | null =>
  internetMessageId === "" ? null : internetMessageId

/** The header fields of an outbound message, decoded, in the order they are written. Bcc is never among them. */
export const outboundHeaders = (
  message: Pick<Message, "from" | "subject" | "internetMessageId" | "acceptedAt" | "recipients">
): ReadonlyArray<Header> => {
  const listed = (role: "to" | "cc") =>
    message.recipients.filter((recipient) => recipient.role === role).map((recipient) => recipient.address).join(", ")
  const cc = listed("cc")
  return [
    { name: "From", value: formatParty(message.from) },
    { name: "To", value: listed("to") },
    ...(cc === "" ? [] : [{ name: "Cc", value: cc }]),
    { name: "Subject", value: message.subject },
    { name: "Message-ID", value: message.internetMessageId },
    { name: "Date", value: Timestamp.toMailDate(message.acceptedAt) },
    { name: "MIME-Version", value: "1.0" }
  ]
}

const formatParty = (party: Mentioned): string =>
  party.name === "" ? party.address : `"${party.name.replace(/["\\]/g, "\\$&")}" <${party.address}>`

/** The MIME tree that an outbound message is built as. */
export const outboundStructure = (
  text: string | null,
  html: string | null,
  attachments: ReadonlyArray<Attachment>
): MimePart => {
  const leaf = (mediaType: string, body: string): MimePart => ({
    ...emptyPart,
    mediaType,
    charset: "utf-8",
    sizeBytes: utf8Length(body)
  })
  const bodies = [...(text === null ? [] : [leaf("text/plain", text)]), ...(html === null ? [] : [leaf("text/html", html)])]
  const body = bodies.length === 1 ? bodies[0]! : { ...emptyPart, mediaType: "multipart/alternative", parts: bodies }
  if (attachments.length === 0) return numbered(body)
  const files = attachments.map((attachment): MimePart => ({
    ...emptyPart,
    mediaType: sentMediaType(attachment),
    disposition: attachment.disposition,
    contentId: sentContentId(attachment.contentId),
    filename: attachment.filename,
    sizeBytes: attachment.blob.sizeBytes,
    attachmentId: attachment.id
  }))
  return numbered({ ...emptyPart, mediaType: "multipart/mixed", parts: [body, ...files] })
}

/** Decoded bytes of a message of these parts. */
export const sizeOf = (text: string | null, html: string | null, attachments: ReadonlyArray<Attachment>): number =>
  attachments.reduce((sum, { blob }) => sum + blob.sizeBytes, utf8Length(text ?? "") + utf8Length(html ?? ""))

/** Bytes of a text in UTF-8, where a lone surrogate is U+FFFD. */
export const utf8Length = (text: string): number => {
  // A pattern runs over plain ASCII several times as fast as a loop.
  if (!/[^\0-\x7f]/.test(text)) return text.length
  let bytes = 0
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index)
    if (unit < 0x80) bytes += 1
    else if (unit < 0x800) bytes += 2
    else if (unit >= 0xd800 && unit < 0xdc00 && (text.charCodeAt(index + 1) & 0xfc00) === 0xdc00) {
      bytes += 4
      index += 1
    } else bytes += 3
  }
  return bytes
}

/** What a PATCH would make of the flags: the message one version and one event on, and which members changed. */
export const flag = (
  message: Message,
  flags: { readonly isRead?: boolean; readonly isStarred?: boolean; readonly folder?: Folder },
  at: Millis
): { readonly updated: Message; readonly changed: ReadonlyArray<"isRead" | "isStarred" | "folder"> } => ({
  changed: (["isRead", "isStarred", "folder"] as const).filter(
    (member) => flags[member] !== undefined && flags[member] !== message[member]
  ),
  updated: {
    ...message,
    version: message.version + 1,
    eventSequence: message.eventSequence + 1,
    updatedAt: at,
    isRead: flags.isRead ?? message.isRead,
    isStarred: flags.isStarred ?? message.isStarred,
    folder: flags.folder ?? message.folder
  }
})

/** Unfinished work of this message: the recipients a submission would go to. */
export const queuedRecipients = (message: Message): ReadonlyArray<Recipient> =>
  message.recipients.filter((recipient) => recipient.status === "queued")

/** When the provider is next to be asked for outcomes; null if never. */
export const nextPollAt = (message: Message): Millis | null =>
  message.submissions.reduce<Millis | null>(
    (soonest, { pollAt }) => (pollAt === null ? soonest : soonest === null ? pollAt : Math.min(soonest, pollAt)),
    null
  )
