/**
 * An inbound message: what is made of it when it is taken, and what parsing
 * makes of that. A row holds what lists show, cut to a bounded size; the
 * header is whole in the content, and the message in its object.
 */
import type { Attachment } from "./Attachment.ts"
import * as Attachments from "./Attachment.ts"
import type { BlobRef } from "./Blob.ts"
import type { Fields } from "./Event.ts"
import type { AttachmentId, Environment, MessageId, Millis, RequestId } from "./Ids.ts"
import * as Limits from "./Limits.ts"
import type { Mailbox } from "./Mailbox.ts"
import { shownMessageId, snippet, type Content, type Folder, type Message } from "./Message.ts"
import { emptyPart, type MimePart } from "./MimePart.ts"
import type { Defect, Head, Mentioned, ParsedAttachment, ParsedMessage } from "./ParsedMessage.ts"
import type { Reception } from "./Reception.ts"
import * as Timestamp from "./Timestamp.ts"

/** What a listener and those whom we ask say of a message, before anybody has parsed it. */
export interface Taken extends Pick<Reception, "peer" | "returnPath" | "recipient" | "receivedAt" | "authentication"> {
  readonly id: MessageId
  readonly requestId: RequestId
  readonly environment: Environment
  readonly mailbox: Pick<Mailbox, "id" | "tenantId">
  readonly folder: Extract<Folder, "inbox" | "spam">
  readonly blob: BlobRef
  readonly head: Head
}

/** The message as it is taken, due to be parsed; its content says no more than its head does. */
export const take = (taken: Taken): { readonly message: Message; readonly content: Content } => {
  const { peer, returnPath, recipient, receivedAt, authentication, head } = taken
  const message: Message = {
    id: taken.id,
    tenantId: taken.mailbox.tenantId,
    environment: taken.environment,
    version: 1,
    eventSequence: 0,
    applicationId: null,
    requestId: taken.requestId,
    mailboxId: taken.mailbox.id,
    direction: "inbound",
    createdAt: BigInt(receivedAt) * 1000n,
    acceptedAt: receivedAt,
    updatedAt: receivedAt,
    folder: taken.folder,
    isRead: false,
    isStarred: false,
    ...ofHead(head),
    snippet: "",
    sizeBytes: taken.blob.sizeBytes,
    attachmentIds: [],
    recipients: [],
    status: "received",
    failure: null,
    sentAt: null,
    attempts: 0,
    nextAttemptAt: null,
    submissions: [],
    mime: taken.blob,
    reception: {
      peer,
      returnPath,
      recipient,
      receivedAt,
      ...mentionedIn(head),
      authentication,
      nextParseAt: receivedAt,
      defects: head.defects
    }
  }
  return { message, content: { text: null, html: null, headers: head.headers, mime: opaque(taken.blob) } }
}

/** What of the header stands in the row. */
const ofHead = (head: Head) => ({
  from: head.from === null ? nobody : mentioned(head.from),
  replyTo: head.replyTo.slice(0, Limits.mentionedMax).map(mentioned),
  subject: cut(head.subject, Limits.subjectLengthMax),
  internetMessageId: cut(head.messageId ?? "", Limits.subjectLengthMax),
  inReplyTo: head.inReplyTo === null ? null : cut(head.inReplyTo, Limits.subjectLengthMax),
  // The last ones are nearest to it.
  references: head.references.slice(-Limits.referencesMax).map((id) => cut(id, Limits.subjectLengthMax))
})

const mentionedIn = ({ to, cc }: Head): Pick<Reception, "to" | "cc"> => ({
  to: to.slice(0, Limits.mentionedMax).map(mentioned),
  cc: cc.slice(0, Limits.mentionedMax).map(mentioned)
})

const nobody: Mentioned = { address: "", name: "" }

const mentioned = ({ address, name }: Mentioned): Mentioned => ({
  address: cut(address, Limits.mentionedAddressLengthMax),
  name: cut(name, Limits.mentionedNameLengthMax)
})

/** At most so many characters, and no half of one. */
const cut = (text: string, lengthMax: number): string =>
  text.length <= lengthMax ? text : Array.from(text.slice(0, 2 * lengthMax)).slice(0, lengthMax).join("").toWellFormed()

/** The tree of a message of which nothing is known yet. */
const opaque = ({ sizeBytes }: BlobRef): MimePart => ({
  ...emptyPart,
  partId: "1",
  mediaType: "application/octet-stream",
  sizeBytes
})

/** An attachment of a parsed message, its bytes stored. */
export interface StoredAttachment {
  readonly id: AttachmentId
  readonly blob: BlobRef
  readonly part: ParsedAttachment
}

/** A message that came in: it has a reception. */
export type InboundMessage = Message & { readonly reception: Reception }

/** Whether it waits for its parse. */
export const isUnparsed = (message: Message): message is InboundMessage =>
  message.reception !== null && message.reception.nextParseAt !== null

/** The message with what parsing found, one version and one event on; its content, and its attachments, due to be scanned. */
export const parse = (
  message: InboundMessage,
  parsed: ParsedMessage,
  stored: ReadonlyArray<StoredAttachment>,
  at: Millis
): { readonly message: InboundMessage; readonly content: Content; readonly attachments: ReadonlyArray<Attachment> } => {
  const { text, html } = parsed
  const kept = { text: text === null ? null : cut(text, Limits.textLengthMax), html: html === null ? null : cut(html, Limits.htmlLengthMax) }
  const isTooLong = kept.text !== text || kept.html !== html
  const ids = new Map(stored.map(({ id, part }) => [part.partId, id]))
  return {
    message: {
      ...message,
      version: message.version + 1,
      eventSequence: message.eventSequence + 1,
      updatedAt: at,
      ...ofHead(parsed),
      snippet: snippet(text, html),
      attachmentIds: stored.map(({ id }) => id),
      reception: {
        ...message.reception,
        ...mentionedIn(parsed),
        nextParseAt: null,
        defects: [...new Set([...parsed.defects, ...(isTooLong ? ["too_long"] : [])])]
      }
    },
    content: {
      ...kept,
      headers: parsed.headers,
      mime: withIds(parsed.structure, ids)
    },
    attachments: stored.map(({ id, blob, part }, index) => ({
      id,
      tenantId: message.tenantId,
      environment: message.environment,
      version: 1,
      mailboxId: message.mailboxId,
      messageId: message.id,
      filename: Attachments.receivedName(part.filename, index + 1),
      mediaType: Attachments.receivedMediaType(part.mediaType, part.parameters),
      blob,
      disposition: part.disposition ?? "attachment",
      contentId: part.contentId === null ? null : cut(part.contentId, Limits.subjectLengthMax),
      scanState: "pending",
      scanErrors: 0,
      nextScanAt: at,
      scannedAt: null,
      createdAt: at,
      expiresAt: null,
      usedAt: Number(message.createdAt / 1000n) // it came with the message, however late that is read
    }))
  }
}

const withIds = (part: MimePart, ids: ReadonlyMap<string, AttachmentId>): MimePart => ({
  ...part,
  attachmentId: ids.get(part.partId) ?? null,
  parts: part.parts.map((child) => withIds(child, ids))
})

/** A message that cannot be parsed, shown by its head alone: one version and one event on, and with a defect that says so. */
export const park = (message: InboundMessage, at: Millis): InboundMessage => ({
  ...message,
  version: message.version + 1,
  eventSequence: message.eventSequence + 1,
  updatedAt: at,
  reception: { ...message.reception, nextParseAt: null, defects: [...message.reception.defects, "unparsed" satisfies Defect] }
})

/** What `message.received` says of it, once it is parsed. */
export const receivedFields = (message: InboundMessage): Fields<"message.received"> => ({
  internetMessageId: shownMessageId(message),
  from: message.from.address,
  to: message.reception.to.map(({ address }) => address),
  subject: message.subject,
  receivedAt: Timestamp.fromMillis(message.reception.receivedAt),
  folder: message.folder,
  attachments: message.attachmentIds,
  authentication: shownAuthentication(message.reception),
  sizeBytes: message.sizeBytes
})

/** The results that are shown of a reception; null where nobody looked. */
export const shownAuthentication = ({ authentication }: Reception) =>
  authentication === null ? null : { spf: authentication.spf, dkim: authentication.dkim, dmarc: authentication.dmarc }
