/**
 * What the API shows of a message: the summary in lists, the detail by id
 * (Spec 2). Both stay open for additions.
 */
import { Schema } from "effect"
import * as Attachments from "./Attachment.ts"
import type { Attachment } from "./Attachment.ts"
import { AttachmentId, MailboxId, MessageId } from "./Ids.ts"
import { shownAuthentication } from "./Inbound.ts"
import { Folder, shownMessageId, Status, type Content, type Message } from "./Message.ts"
import type { MimePart } from "./MimePart.ts"
import { BounceClass, FailureStage, Role, State, type Recipient } from "./Recipient.ts"
import * as Timestamp from "./Timestamp.ts"

const dateTime = Schema.String.annotate({ format: "date-time" })
const text = Schema.NullOr(Schema.String)
const party = Schema.Struct({ address: Schema.String, name: Schema.String })

const summaryFields = {
  id: MessageId,
  object: Schema.Literal("message"),
  mailboxId: MailboxId,
  direction: Schema.Literals(["inbound", "outbound"]),
  status: Status,
  folder: Folder,
  isRead: Schema.Boolean,
  isStarred: Schema.Boolean,
  from: party,
  to: Schema.Array(party),
  subject: Schema.String,
  snippet: Schema.String,
  hasAttachments: Schema.Boolean,
  sizeBytes: Schema.Int,
  createdAt: dateTime,
  updatedAt: dateTime
}

/** The message summary of the API. */
export const Summary = Schema.Struct(summaryFields)

/** A part as it is on the wire, where an identifier is any string. */
export interface WirePart extends Omit<MimePart, "attachmentId" | "parts"> {
  readonly attachmentId: string | null
  readonly parts: ReadonlyArray<WirePart>
}

const Part: Schema.Codec<MimePart, WirePart> = Schema.Struct({
  partId: Schema.String,
  mediaType: Schema.String,
  charset: text,
  disposition: Schema.NullOr(Schema.Literals(["attachment", "inline"])),
  contentId: text,
  filename: text,
  sizeBytes: Schema.Int,
  attachmentId: Schema.NullOr(AttachmentId),
  parts: Schema.Array(Schema.suspend((): Schema.Codec<MimePart, WirePart> => Part))
}).annotate({ identifier: "MimePart" })

/** The message detail of the API: the summary, and more. */
export const Detail = Schema.Struct({
  ...summaryFields,
  cc: Schema.Array(party),
  bcc: Schema.Array(party),
  replyTo: Schema.Array(party),
  internetMessageId: text,
  inReplyTo: text,
  references: Schema.Array(Schema.String),
  headers: Schema.Array(Schema.Struct({ name: Schema.String, value: Schema.String })),
  text,
  html: text,
  mime: Part,
  attachments: Schema.Array(Attachments.View),
  recipients: Schema.Array(
    Schema.Struct({
      address: Schema.String,
      role: Role,
      status: State,
      bounceClass: Schema.NullOr(BounceClass),
      smtpCode: Schema.NullOr(Schema.Int),
      enhancedCode: text,
      diagnostic: text,
      complainedAt: Schema.NullOr(dateTime),
      updatedAt: dateTime
    })
  ),
  failure: Schema.NullOr(
    Schema.Struct({
      stage: FailureStage,
      code: Schema.String,
      message: Schema.String
    })
  ),
  authentication: Schema.NullOr(Schema.Struct({ spf: text, dkim: text, dmarc: text })),
  defects: Schema.Array(Schema.String),
  receivedAt: Schema.NullOr(dateTime),
  sentAt: Schema.NullOr(dateTime),
  nextAttemptAt: Schema.NullOr(dateTime),
  requestId: Schema.String
})

/** A message as a list shows it. */
export const summary = (message: Message): typeof Summary.Type => ({
  id: message.id,
  object: "message",
  mailboxId: message.mailboxId,
  direction: message.direction,
  status: message.status,
  folder: message.folder,
  isRead: message.isRead,
  isStarred: message.isStarred,
  from: message.from,
  to: message.reception?.to ?? inRole(message, "to"),
  subject: message.subject,
  snippet: message.snippet,
  hasAttachments: message.attachmentIds.length > 0,
  sizeBytes: message.sizeBytes,
  createdAt: Timestamp.fromMicros(message.createdAt),
  updatedAt: Timestamp.fromMillis(message.updatedAt)
})

/** A message as it is shown by its id, with its attachments. */
export const detail = (
  message: Message,
  content: Content,
  attachments: ReadonlyArray<Attachment>
): typeof Detail.Type => ({
  ...summary(message),
  cc: message.reception?.cc ?? inRole(message, "cc"),
  bcc: message.direction === "outbound" ? inRole(message, "bcc") : [],
  replyTo: message.replyTo,
  internetMessageId: shownMessageId(message),
  inReplyTo: message.inReplyTo,
  references: message.references,
  headers: content.headers,
  text: content.text,
  html: content.html,
  mime: content.mime,
  attachments: attachments.map(attachment),
  recipients: message.recipients.map(recipient),
  failure: message.failure,
  authentication: message.reception === null ? null : shownAuthentication(message.reception),
  defects: message.reception?.defects ?? [],
  receivedAt: Timestamp.fromMillisOrNull(message.reception?.receivedAt ?? null),
  sentAt: Timestamp.fromMillisOrNull(message.sentAt),
  // Due since it was accepted: nobody has looked at it yet.
  nextAttemptAt: Timestamp.fromMillisOrNull(message.nextAttemptAt === message.acceptedAt ? null : message.nextAttemptAt),
  requestId: message.requestId
})

/** The attachment record of the API. */
export const attachment = (of: Attachment): typeof Attachments.View.Type => ({
  id: of.id,
  object: "attachment",
  mailboxId: of.mailboxId,
  messageId: of.messageId,
  filename: of.filename,
  mediaType: of.mediaType,
  sizeBytes: of.blob.sizeBytes,
  sha256: of.blob.sha256,
  disposition: of.disposition,
  contentId: of.contentId,
  scanState: of.scanState,
  scannedAt: Timestamp.fromMillisOrNull(of.scannedAt),
  createdAt: Timestamp.fromMillis(of.createdAt),
  expiresAt: Timestamp.fromMillisOrNull(of.expiresAt)
})

const recipient = (of: Recipient): (typeof Detail.Type)["recipients"][number] => {
  const bounce = of.status === "bounced" ? (of.evidence.bounced?.bounce ?? null) : null
  const failure = of.status === "failed" ? (of.evidence.failed?.failure ?? null) : null
  const deferral = of.status === "queued" ? (of.deferral ?? null) : null
  const said = bounce ?? deferral ?? failure?.reply
  return {
    address: of.address,
    role: of.role,
    status: of.status,
    bounceClass: bounce?.class ?? null,
    smtpCode: said?.smtpCode ?? null,
    enhancedCode: said?.enhancedCode ?? null,
    diagnostic: (bounce ?? deferral)?.diagnostic ?? failure?.message ?? null,
    complainedAt: Timestamp.fromMillisOrNull(of.complainedAt),
    updatedAt: Timestamp.fromMillis(of.updatedAt)
  }
}

const inRole = (message: Message, role: Role) =>
  message.recipients.filter((one) => one.role === role).map(({ address }) => ({ address, name: "" }))
