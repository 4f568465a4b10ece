/**
 * The published contract (`/openapi.yaml`, version 1.0.0) as types, and where each operation is.
 * Written by `npm run docs`; not edited by hand.
 */

/** A UUID. */
export type Uuid = string

/** A moment, ISO 8601. */
export type DateTime = string

/** The values known today. Expect others: answers may come to hold more. */
export type Open<Known extends string> = Known | (string & {})

export interface Attachment {
  readonly id: Uuid
  readonly object: "attachment"
  readonly mailboxId: Uuid
  /** The message that used it first. */
  readonly messageId: Uuid | null
  readonly filename: string
  /** `type/subtype`, with the parameters that say what is in it, as in `text/calendar; method=REQUEST`. */
  readonly mediaType: string
  readonly sizeBytes: number
  readonly sha256: string
  readonly disposition: Open<"attachment" | "inline">
  readonly contentId: string | null
  /** Only `clean` downloads. `infected` is final; `error` is scanned again. */
  readonly scanState: Open<"pending" | "clean" | "infected" | "error">
  readonly scannedAt: DateTime | null
  readonly createdAt: DateTime
  /** When an upload that no message uses is removed. */
  readonly expiresAt: DateTime | null
}

export interface CreateWebhookEndpointInput {
  /** https, of a public host, on port 443, or on one from 1024 up that is not known for another service; without user name, password and fragment. At most 2,048 characters. */
  readonly url: string
  /** A note for people, without NUL and halves of characters; null if it is missing. At most 255 characters. */
  readonly description?: string | null | undefined
  /** The types to subscribe to, or `*` for all, also those to come. Repeats count once. 1 to 20 items. */
  readonly eventTypes: ReadonlyArray<"message.queued" | "message.sent" | "message.delivered" | "message.bounced" | "message.failed" | "message.received" | "message.updated" | "mailbox.created" | "mailbox.updated" | "mailbox.suspended" | "domain.health_changed" | "*">
}

export interface Domain {
  readonly id: Uuid
  readonly domain: string
  /** Whether mail may be sent from it: true for `healthy` and `degraded`. */
  readonly verified: boolean
  /** `pending`: never verified. `healthy`. `degraded`: a record drifted, and sending goes on. `failing`: ownership or DKIM gone for over 24 hours. `suspended`: by an operator. */
  readonly health: Open<"pending" | "healthy" | "degraded" | "failing" | "suspended">
  readonly mailboxCount: number
}

export interface DownloadedAttachment {
  readonly filename: string
  readonly mediaType: string
  readonly contentBase64: string
}

export interface Mailbox {
  readonly id: Uuid
  readonly address: string
  readonly displayName: string
}

export interface Message {
  readonly id: Uuid
  readonly object: "message"
  readonly mailboxId: Uuid
  readonly direction: Open<"inbound" | "outbound">
  /** Of an outbound message what became of its recipients: `queued`, `sent`, `delivered`, `bounced` or `failed`. Of an inbound one `received`. */
  readonly status: Open<"queued" | "sent" | "delivered" | "bounced" | "failed" | "received">
  readonly folder: Open<"inbox" | "sent" | "archive" | "spam" | "trash">
  readonly isRead: boolean
  readonly isStarred: boolean
  readonly from: {
    readonly address: string
    readonly name: string
  }
  readonly to: ReadonlyArray<{
    readonly address: string
    readonly name: string
  }>
  readonly subject: string
  /** The first 200 characters of the text, or of the HTML's where there is none; white space as single spaces. */
  readonly snippet: string
  readonly hasAttachments: boolean
  /** Of the message as mail, once it is made; before that, of its text, HTML and files. */
  readonly sizeBytes: number
  /** To the microsecond; no two messages of a tenant share one. */
  readonly createdAt: DateTime
  readonly updatedAt: DateTime
  readonly cc: ReadonlyArray<{
    readonly address: string
    readonly name: string
  }>
  readonly bcc: ReadonlyArray<{
    readonly address: string
    readonly name: string
  }>
  readonly replyTo: ReadonlyArray<{
    readonly address: string
    readonly name: string
  }>
  readonly internetMessageId: string | null
  readonly inReplyTo: string | null
  readonly references: ReadonlyArray<string>
  /** In their order. Of a message that came in as they came, but on one line each and with encoded words decoded (RFC 2047); addresses are spelled `"Name" <address>` or `address`, without comments, unless readers could disagree about whom they name. Of one that is sent those that say what it is, without those of its form, such as `Content-Type`. */
  readonly headers: ReadonlyArray<{
    readonly name: string
    readonly value: string
  }>
  readonly text: string | null
  readonly html: string | null
  readonly mime: MimePart
  readonly attachments: ReadonlyArray<Attachment>
  /** Each recipient once, with what became of it. `smtpCode` and `diagnostic` are those of its end, and while it is queued of the last try. */
  readonly recipients: ReadonlyArray<{
    readonly address: string
    readonly role: Open<"to" | "cc" | "bcc">
    readonly status: Open<"queued" | "sent" | "delivered" | "bounced" | "failed">
    readonly bounceClass: Open<"permanent" | "transient" | "undetermined" | "suppressed"> | null
    readonly smtpCode: number | null
    readonly enhancedCode: string | null
    readonly diagnostic: string | null
    readonly complainedAt: DateTime | null
    readonly updatedAt: DateTime
  }>
  /** Why the message failed, and at which stage. */
  readonly failure: {
    readonly stage: Open<"scan" | "build" | "store" | "submit" | "provider">
    readonly code: string
    readonly message: string
  } | null
  readonly authentication: {
    readonly spf: string | null
    readonly dkim: string | null
    readonly dmarc: string | null
  } | null
  /** What was wrong with the bytes of a message that came in, such as `missing_date`. It was read all the same. */
  readonly defects: ReadonlyArray<string>
  readonly receivedAt: DateTime | null
  readonly sentAt: DateTime | null
  /** When it is tried next, while a recipient is queued. */
  readonly nextAttemptAt: DateTime | null
  /** The request id of the call that sent it; of a message that came in, the id in the `Received` field that it got here. */
  readonly requestId: string
}

export interface MessageSummary {
  readonly id: Uuid
  readonly object: "message"
  readonly mailboxId: Uuid
  readonly direction: Open<"inbound" | "outbound">
  /** Of an outbound message what became of its recipients: `queued`, `sent`, `delivered`, `bounced` or `failed`. Of an inbound one `received`. */
  readonly status: Open<"queued" | "sent" | "delivered" | "bounced" | "failed" | "received">
  readonly folder: Open<"inbox" | "sent" | "archive" | "spam" | "trash">
  readonly isRead: boolean
  readonly isStarred: boolean
  readonly from: {
    readonly address: string
    readonly name: string
  }
  readonly to: ReadonlyArray<{
    readonly address: string
    readonly name: string
  }>
  readonly subject: string
  /** The first 200 characters of the text, or of the HTML's where there is none; white space as single spaces. */
  readonly snippet: string
  readonly hasAttachments: boolean
  /** Of the message as mail, once it is made; before that, of its text, HTML and files. */
  readonly sizeBytes: number
  /** To the microsecond; no two messages of a tenant share one. */
  readonly createdAt: DateTime
  readonly updatedAt: DateTime
}

export interface MimePart {
  readonly partId: string
  readonly mediaType: string
  readonly charset: string | null
  readonly disposition: Open<"attachment" | "inline"> | null
  readonly contentId: string | null
  readonly filename: string | null
  readonly sizeBytes: number
  readonly attachmentId: Uuid | null
  readonly parts: ReadonlyArray<MimePart>
}

export interface QueuedMessage {
  readonly id: Uuid
  readonly object: "message"
  readonly status: "queued"
}

export type SendMessageInput = {
  /** The mailbox to send from; one of the tenant's. */
  readonly fromMailboxId: Uuid
  /** Bare addresses, `local@domain`. An address that is given twice is mailed once. 1 to 50 items. */
  readonly to: ReadonlyArray<string>
  /** None if it is missing. At most 50 items. */
  readonly cc?: ReadonlyArray<string> | undefined
  /** Recipients that nobody else sees. None if it is missing. At most 50 items. */
  readonly bcc?: ReadonlyArray<string> | undefined
  /** One line, without control characters. Empty if it is missing. At most 998 characters. */
  readonly subject?: string | undefined
  /** The plain text, without NUL and halves of characters; null is as missing. At least one of `text` and `html` must be given. At most 1,000,000 characters. */
  readonly text?: string | null | undefined
  /** The HTML text, without NUL and halves of characters; null is as missing. At least one of `text` and `html` must be given. At most 2,000,000 characters. */
  readonly html?: string | null | undefined
  /** Uploads of the same mailbox; none if it is missing. A message waits for scans that are pending. At most 20 items. */
  readonly attachmentIds?: ReadonlyArray<Uuid> | undefined
} & ({ readonly text: string } | { readonly html: string })

export type UpdateMessageInput = {
  /** The mailbox that the message is in. */
  readonly mailboxId: Uuid
  readonly isRead?: boolean | undefined
  readonly isStarred?: boolean | undefined
  readonly folder?: "inbox" | "sent" | "archive" | "spam" | "trash" | undefined
} & ({ readonly isRead: boolean } | { readonly isStarred: boolean } | { readonly folder: "inbox" | "sent" | "archive" | "spam" | "trash" })

export interface UploadAttachmentInput {
  /** The mailbox that messages with this file will be sent from. */
  readonly mailboxId: Uuid
  /** A name, not a path: without `/`, `\`, control characters and what turns the writing direction, and more than white space. 1 to 255 characters. */
  readonly filename: string
  /** `type/subtype`, with parameters if there are some, as in `text/calendar; method=REQUEST`; `filename` is its name. Not `multipart/*` or `message/*`, which may not be encoded as a file must be: attach a mail as `application/octet-stream`. 1 to 120 characters. */
  readonly mediaType: string
  /** The file in Base64 (RFC 4648, section 4): padded, without white space. At most 26,214,400 bytes when decoded. */
  readonly contentBase64: string
}

export interface WebhookDelivery {
  readonly id: Uuid
  readonly object: "webhook_delivery"
  readonly endpointId: Uuid
  /** The event's id in listEvents, and `Service-Webhook-Id` of each request. */
  readonly eventId: Uuid
  readonly eventType: string
  /** `pending`: an attempt is due or under way. `delivered`. `dead`: given up. The last two can be replayed. */
  readonly status: Open<"pending" | "delivered" | "dead">
  /** What made it: the event, a replay, or a test event from the dashboard. */
  readonly trigger: Open<"event" | "replay" | "test">
  /** True for a synthetic event. */
  readonly demo: boolean
  /** Attempts of the current round. */
  readonly attemptCount: number
  readonly maxAttempts: number
  /** When the next attempt is due, while it is pending. */
  readonly nextAttemptAt: DateTime | null
  readonly lastAttemptAt: DateTime | null
  readonly lastResponseStatus: number | null
  /** Why it is not delivered: the outcome of the last attempt, `endpoint_disabled`, or `internal_error`; null if nothing is wrong. */
  readonly lastError: string | null
  readonly createdAt: DateTime
  readonly deliveredAt: DateTime | null
  readonly deadAt: DateTime | null
  /** Oldest first. A replay begins a new round and erases none. */
  readonly attempts: ReadonlyArray<{
    readonly number: number
    readonly round: number
    readonly startedAt: DateTime
    readonly durationMs: number
    readonly outcome: Open<"success" | "timeout" | "unsafe_url" | "redirect" | "network_error" | "http_error">
    readonly responseStatus: number | null
  }>
}

export interface WebhookEndpoint {
  readonly id: Uuid
  /** The application whose endpoint it is: its keys list it, and its deliveries. */
  readonly appId: Uuid
  /** As it is called. */
  readonly url: string
  readonly description: string | null
  /** The types it subscribes to; `*` stands for all, also those to come. */
  readonly eventTypes: ReadonlyArray<string>
  /** Whether it gets events. Ten failed attempts in a row disable it; an operator can enable it again. */
  readonly enabled: boolean
  /** Failed attempts since the last success. */
  readonly consecutiveFailures: number
  readonly disabledAt: DateTime | null
  readonly createdAt: DateTime
}

/** The handshake of a new endpoint. */
export interface WebhookVerification {
  /** Names this request, and no event. */
  readonly id: Uuid
  readonly type: "webhook.endpoint_verification"
  readonly apiVersion: string
  readonly occurredAt: DateTime
  /** What is to come back. */
  readonly data: {
    readonly challenge: string
  }
}

/** `data` of an event of type `domain.health_changed`. */
export interface DomainHealthChangedData {
  readonly object: "domain"
  readonly id: Uuid
  readonly sequence: number
  readonly demo?: boolean
  readonly truncated?: boolean
  readonly domain: string
  readonly verified: boolean
  readonly health: Open<"pending" | "healthy" | "degraded" | "failing" | "suspended">
  readonly previousHealth: Open<"pending" | "healthy" | "degraded" | "failing" | "suspended">
  readonly reasons: ReadonlyArray<{
    readonly record: string
    readonly state: string
    readonly expected: string
    readonly observed: string | null
  }>
}

/** `data` of an event of type `mailbox.created`. */
export interface MailboxCreatedData {
  readonly object: "mailbox"
  readonly id: Uuid
  readonly sequence: number
  readonly demo?: boolean
  readonly truncated?: boolean
  readonly address: string
  readonly displayName: string
  readonly status: Open<"active" | "suspended">
  readonly reason: string | null
}

/** `data` of an event of type `mailbox.suspended`. */
export interface MailboxSuspendedData {
  readonly object: "mailbox"
  readonly id: Uuid
  readonly sequence: number
  readonly demo?: boolean
  readonly truncated?: boolean
  readonly address: string
  readonly displayName: string
  readonly status: Open<"active" | "suspended">
  readonly reason: string | null
}

/** `data` of an event of type `mailbox.updated`. */
export interface MailboxUpdatedData {
  readonly object: "mailbox"
  readonly id: Uuid
  readonly sequence: number
  readonly demo?: boolean
  readonly truncated?: boolean
  readonly address: string
  readonly displayName: string
  readonly status: Open<"active" | "suspended">
  readonly reason: string | null
}

/** `data` of an event of type `message.bounced`. */
export interface MessageBouncedData {
  readonly object: "message"
  readonly id: Uuid
  readonly sequence: number
  readonly demo?: boolean
  readonly truncated?: boolean
  readonly mailboxId: Uuid
  readonly recipient: string
  readonly bounce: {
    readonly class: Open<"permanent" | "transient" | "undetermined" | "suppressed">
    readonly smtpCode: number | null
    readonly enhancedCode: string | null
    readonly diagnostic: string | null
  }
  readonly messageStatus: Open<"queued" | "sent" | "delivered" | "bounced" | "failed" | "received">
}

/** `data` of an event of type `message.delivered`. */
export interface MessageDeliveredData {
  readonly object: "message"
  readonly id: Uuid
  readonly sequence: number
  readonly demo?: boolean
  readonly truncated?: boolean
  readonly mailboxId: Uuid
  readonly recipient: string
  readonly smtpResponse: string | null
  readonly deliveredAt: DateTime
  readonly messageStatus: Open<"queued" | "sent" | "delivered" | "bounced" | "failed" | "received">
}

/** `data` of an event of type `message.failed`. */
export interface MessageFailedData {
  readonly object: "message"
  readonly id: Uuid
  readonly sequence: number
  readonly demo?: boolean
  readonly truncated?: boolean
  readonly mailboxId: Uuid
  readonly recipient: string | null
  readonly failure: {
    readonly stage: Open<"scan" | "build" | "store" | "submit" | "provider">
    readonly code: string
    readonly message: string
  }
  readonly messageStatus: Open<"queued" | "sent" | "delivered" | "bounced" | "failed" | "received">
}

/** `data` of an event of type `message.queued`. */
export interface MessageQueuedData {
  readonly object: "message"
  readonly id: Uuid
  readonly sequence: number
  readonly demo?: boolean
  readonly truncated?: boolean
  readonly mailboxId: Uuid
  readonly from: string
  readonly to: ReadonlyArray<string>
  readonly cc: ReadonlyArray<string>
  readonly subject: string
  readonly attachmentIds: ReadonlyArray<Uuid>
  readonly requestId: string
}

/** `data` of an event of type `message.received`. */
export interface MessageReceivedData {
  readonly object: "message"
  readonly id: Uuid
  readonly sequence: number
  readonly demo?: boolean
  readonly truncated?: boolean
  readonly mailboxId: Uuid
  readonly internetMessageId: string | null
  readonly from: string
  readonly to: ReadonlyArray<string>
  readonly subject: string
  readonly receivedAt: DateTime
  readonly folder: Open<"inbox" | "sent" | "archive" | "spam" | "trash">
  readonly attachments: ReadonlyArray<Uuid>
  readonly authentication: {
    readonly spf: string | null
    readonly dkim: string | null
    readonly dmarc: string | null
  } | null
  readonly sizeBytes: number
}

/** `data` of an event of type `message.sent`. */
export interface MessageSentData {
  readonly object: "message"
  readonly id: Uuid
  readonly sequence: number
  readonly demo?: boolean
  readonly truncated?: boolean
  readonly mailboxId: Uuid
  readonly internetMessageId: string
  readonly provider: string
  readonly providerMessageId: string
  readonly recipients: ReadonlyArray<string>
  readonly sentAt: DateTime
}

/** `data` of an event of type `message.updated`. */
export interface MessageUpdatedData {
  readonly object: "message"
  readonly id: Uuid
  readonly sequence: number
  readonly demo?: boolean
  readonly truncated?: boolean
  readonly mailboxId: Uuid
  readonly isRead: boolean
  readonly isStarred: boolean
  readonly folder: Open<"inbox" | "sent" | "archive" | "spam" | "trash">
  readonly changed: ReadonlyArray<Open<"isRead" | "isStarred" | "folder">>
  readonly actor: {
    readonly type: string
    readonly id: string
  }
}

/** `data` of each type of event. */
export interface EventData {
  readonly "domain.health_changed": DomainHealthChangedData
  readonly "mailbox.created": MailboxCreatedData
  readonly "mailbox.suspended": MailboxSuspendedData
  readonly "mailbox.updated": MailboxUpdatedData
  readonly "message.bounced": MessageBouncedData
  readonly "message.delivered": MessageDeliveredData
  readonly "message.failed": MessageFailedData
  readonly "message.queued": MessageQueuedData
  readonly "message.received": MessageReceivedData
  readonly "message.sent": MessageSentData
  readonly "message.updated": MessageUpdatedData
}

declare const other: unique symbol

/** A type of event that this version of the client does not know. Compare and print it as the string that it is. */
export type OtherEventType = `${string}.${string}` & { readonly [other]: true }

/** One {@link Event}, with data of one type. */
export interface EventOf<Type extends string, Data> {
  readonly id: Uuid
  readonly type: Type
  readonly resourceType: string
  readonly resourceId: Uuid
  readonly data: Data
  readonly occurredAt: DateTime
}

/** An event. Told apart by `type`; let types that you do not know pass. */
export type Event =
  | { [Type in keyof EventData]: EventOf<Type, EventData[Type]> }[keyof EventData]
  | EventOf<OtherEventType, Readonly<Record<string, unknown>>>

/** One {@link WebhookPayload}, with data of one type. */
export interface WebhookPayloadOf<Type extends string, Data> {
  /** The event's id. Take each once. */
  readonly id: Uuid
  readonly type: Type
  /** The same for as long as the endpoint exists. */
  readonly apiVersion: string
  readonly occurredAt: DateTime
  readonly data: Data
}

/** An event, as it is posted to an endpoint. Told apart by `type`; let types that you do not know pass. */
export type WebhookPayload =
  | { [Type in keyof EventData]: WebhookPayloadOf<Type, EventData[Type]> }[keyof EventData]
  | WebhookPayloadOf<OtherEventType, Readonly<Record<string, unknown>>>

/** `details` of an error, by its `code`. */
export interface ErrorDetails {
  /** 400: Malware was found in an attachment of the message. */
  readonly attachment_infected: {
    readonly attachmentId: string
  }
  /** 409: The attachment has no clean scan: it is still scanned, its scan failed, or malware was found. */
  readonly attachment_not_clean: {
    readonly scanState: Open<"pending" | "clean" | "infected" | "error">
    readonly attachmentId: string
  }
  /** 413: The attachment is larger than 25 MB (26,214,400 bytes) when decoded. */
  readonly attachment_too_large: {
    readonly limitBytes: number
  }
  /** 409: The sending mailbox's domain is not verified, failing or suspended. */
  readonly domain_not_sendable: {
    readonly health: Open<"pending" | "healthy" | "degraded" | "failing" | "suspended">
  }
  /** 409: The delivery's webhook endpoint is disabled: ten attempts in a row have failed, or an operator has disabled it. */
  readonly endpoint_disabled: Readonly<Record<string, unknown>>
  /** 431: The request's header section is larger than 16 KiB; the connection is closed. */
  readonly headers_too_large: Readonly<Record<string, unknown>>
  /** 409: The Idempotency-Key stands for a different request. */
  readonly idempotency_conflict: Readonly<Record<string, unknown>>
  /** 409: The first request with this Idempotency-Key is still running. */
  readonly idempotency_pending: Readonly<Record<string, unknown>>
  /** 403: The API key lacks a scope that the operation requires. */
  readonly insufficient_scope: {
    readonly required: ReadonlyArray<Open<"mailboxes:read" | "messages:read" | "messages:write" | "messages:send" | "attachments:write" | "attachments:read" | "webhooks:read" | "webhooks:write">>
    readonly missing: ReadonlyArray<Open<"mailboxes:read" | "messages:read" | "messages:write" | "messages:send" | "attachments:write" | "attachments:read" | "webhooks:read" | "webhooks:write">>
  }
  /** 500: A fault on our side. */
  readonly internal_error: Readonly<Record<string, unknown>>
  /** 400: The cursor is none of ours, or points at events that are no longer kept. */
  readonly invalid_cursor: {
    readonly reason: Open<"malformed" | "expired">
  }
  /** 400: The Idempotency-Key header is missing, repeated, or not of 8 to 255 characters. */
  readonly invalid_idempotency_key: Readonly<Record<string, unknown>>
  /** 400: The request is malformed or does not fit its schema; `issues` names each fault. */
  readonly invalid_request: {
    readonly issues: ReadonlyArray<{
      /** A JSON Pointer (RFC 6901) to the faulty member, or a slash and the name of a parameter; empty for the whole. */
      readonly path: string
      /** The kind of fault. Expect more kinds. */
      readonly code: Open<"required" | "unknown_member" | "duplicate_member" | "wrong_type" | "invalid_value" | "invalid_text" | "too_many" | "too_deep" | "empty_body" | "malformed_json" | "malformed_http">
      readonly message: string
    }>
  }
  /** 400: The URL may not be called (`unsafe_url`): by its form, or because its host leads to an address that is not public. */
  readonly invalid_webhook_url: {
    readonly reason: Open<"timeout" | "non_2xx" | "redirect" | "invalid_json" | "challenge_mismatch" | "unsafe_url" | "network_error">
  }
  /** 409: The sending mailbox is suspended. */
  readonly mailbox_suspended: Readonly<Record<string, unknown>>
  /** The path exists, and has no such method. */
  readonly method_not_allowed: Readonly<Record<string, unknown>>
  /** 404: The resource is absent, or belongs to another tenant or environment, or (of webhooks) to another application; `field` names the input that points at it, and `index` the place in a list. */
  readonly not_found: {
    readonly field?: string
    readonly index?: number
  }
  /** 413: The request's body is larger than the operation takes. */
  readonly payload_too_large: {
    readonly limitBytes: number
  }
  /** 429: The plan's recipients of this UTC day do not suffice for the message. */
  readonly quota_exceeded: {
    readonly limit: number
    readonly used: number
    readonly requested: number
    readonly retryAfterSeconds: number
  }
  /** 429: Too many requests from the network address (`ip`), with the key, or of the tenant in this UTC day; or (`handshake`) as many endpoint verifications as may run at a time in a process of the server, of the application or to the host. */
  readonly rate_limited: {
    readonly scope: Open<"ip" | "key" | "tenant_day" | "handshake">
    readonly limit: number
    readonly windowSeconds: number
    readonly retryAfterSeconds: number
  }
  /** 408: The request did not arrive in time; the connection is closed. */
  readonly request_timeout: Readonly<Record<string, unknown>>
  /** 409: The application has as many enabled webhook endpoints as it may. */
  readonly too_many_endpoints: {
    readonly limit: number
  }
  /** 401: The API key is missing, malformed, expired or revoked. */
  readonly unauthorized: Readonly<Record<string, unknown>>
  /** 503: The service cannot take the request now. */
  readonly unavailable: Readonly<Record<string, unknown>>
  /** 400: `eventTypes` holds what cannot be subscribed: no event has that type. */
  readonly unsupported_event_type: {
    readonly unsupported: ReadonlyArray<string>
    readonly supported: ReadonlyArray<string>
  }
  /** 415: The body is not plain application/json in UTF-8. */
  readonly unsupported_media_type: Readonly<Record<string, unknown>>
  /** 400: The receiver did not echo the challenge in time, so no endpoint was created; `reason` says how it failed. */
  readonly webhook_verification_failed: {
    readonly reason: Open<"timeout" | "non_2xx" | "redirect" | "invalid_json" | "challenge_mismatch" | "unsafe_url" | "network_error">
  }
}

/** What every operation can be refused with. */
export type CommonCode =
  | "invalid_request"
  | "unauthorized"
  | "insufficient_scope"
  | "request_timeout"
  | "payload_too_large"
  | "rate_limited"
  | "headers_too_large"
  | "internal_error"
  | "unavailable"
  | "method_not_allowed"

/** What each operation takes, what it answers, and the codes that it can be refused with. */
export interface Operations {
  /**
   * List mailboxes.
   *
   * The mailboxes that the tenant can send from, by address.
   *
   * Scope: `mailboxes:read`.
   */
  readonly listMailboxes: {
    readonly output: {
      readonly items: ReadonlyArray<Mailbox>
    }
    readonly code: CommonCode
  }
  /**
   * List domains.
   *
   * The tenant's mail domains, by name, each with its delivery health.
   *
   * Scope: `mailboxes:read`.
   */
  readonly listDomains: {
    readonly output: {
      readonly items: ReadonlyArray<Domain>
    }
    readonly code: CommonCode
  }
  /**
   * List messages.
   *
   * Newest first. Pass `nextCursor` back as `cursor` until it is null. Nothing is lost or repeated, whatever arrives meanwhile. A cursor is a time to the microsecond: hand it back as it came, for what makes a `Date` of it may cut it to the millisecond, and lose messages that share it.
   *
   * Scope: `messages:read`.
   */
  readonly listMessages: {
    readonly query: {
      /** The size of a page. 1 to 100. Default: `25`. */
      readonly limit?: number | undefined
      /** `nextCursor` of the page before. Leave it out to start at the newest message. */
      readonly cursor?: DateTime | undefined
      /** Only messages of this mailbox. */
      readonly mailboxId?: Uuid | undefined
    }
    readonly output: {
      readonly items: ReadonlyArray<MessageSummary>
      readonly nextCursor: DateTime | null
    }
    readonly code: CommonCode | "invalid_cursor" | "not_found"
  }
  /**
   * Send a message.
   *
   * Queues a message. 202 means that it is durably queued, not delivered: follow it with getMessage or listEvents.
   *
   * The Idempotency-Key is kept for 24 hours. A retry with an equal input answers what the first call did, with
   * `Idempotent-Replayed: true`; the order of members, white space and explicit defaults make no difference.
   *
   * Scope: `messages:send`.
   */
  readonly sendMessage: {
    readonly input: SendMessageInput
    readonly output: QueuedMessage
    readonly code: CommonCode | "invalid_idempotency_key" | "attachment_infected" | "not_found" | "idempotency_conflict" | "idempotency_pending" | "attachment_not_clean" | "mailbox_suspended" | "domain_not_sendable" | "unsupported_media_type" | "quota_exceeded"
  }
  /**
   * Retrieve a message.
   *
   * A message with its MIME structure, its recipients, and what became of each. Messages are kept for good, unless the
   * operator of the server has set a time: one that is past it is not found. An attachment goes with the last message that used it.
   *
   * Scope: `messages:read`.
   */
  readonly getMessage: {
    readonly output: {
      readonly message: Message
    }
    readonly code: CommonCode | "not_found"
  }
  /**
   * Update a message.
   *
   * Changes the flags or the folder of a message in the given mailbox, and emits `message.updated`.
   *
   * Scope: `messages:write`.
   */
  readonly updateMessage: {
    readonly input: UpdateMessageInput
    readonly output: {
      readonly id: Uuid
      readonly updated: true
    }
    readonly code: CommonCode | "not_found" | "unsupported_media_type"
  }
  /**
   * Upload an attachment.
   *
   * Stores a file for later messages from the same mailbox. It is scanned at once, and can be downloaded once its
   * `scanState` is `clean`. An upload that no message uses is removed after 7 days.
   *
   * Scope: `attachments:write`.
   */
  readonly uploadAttachment: {
    readonly input: UploadAttachmentInput
    readonly output: {
      readonly attachment: Attachment
    }
    readonly code: CommonCode | "not_found" | "attachment_too_large" | "unsupported_media_type"
  }
  /**
   * Download an attachment.
   *
   * The file in Base64, if its scan is clean.
   *
   * Scope: `attachments:read`.
   */
  readonly downloadAttachment: {
    readonly output: DownloadedAttachment
    readonly code: CommonCode | "not_found" | "attachment_not_clean"
  }
  /**
   * List events.
   *
   * Oldest first, in commit order. Store `nextCursor` once the page is processed, and go on until it is null; later resume
   * from the last cursor that was not null, and drop the ids you know. Events are kept for 30 days, unless the operator of the
   * server has set another time; a cursor that is older is refused as `expired`: begin again without one.
   *
   * Scope: `messages:read`.
   */
  readonly listEvents: {
    readonly query: {
      /** The size of a page. 1 to 100. Default: `25`. */
      readonly limit?: number | undefined
      /** `nextCursor` of an earlier page, or an ISO 8601 timestamp: the first event at or after it. Without it: from the oldest. 1 to 512 characters. */
      readonly cursor?: string | undefined
    }
    readonly output: {
      readonly items: ReadonlyArray<Event>
      readonly nextCursor: string | null
    }
    readonly code: CommonCode | "invalid_cursor"
  }
  /**
   * List webhook endpoints.
   *
   * The endpoints of the key's application, oldest first, the disabled ones too. Their secrets are not shown.
   *
   * Scope: `webhooks:read`.
   */
  readonly listWebhookEndpoints: {
    readonly output: {
      readonly items: ReadonlyArray<WebhookEndpoint>
    }
    readonly code: CommonCode
  }
  /**
   * Create a webhook endpoint.
   *
   * Verifies a receiver, and posts to it from then on. Before anything is stored, the URL gets one request of
   * type `webhook.endpoint_verification`, and must answer it within 5 seconds with 2xx and its challenge; so this call lasts as
   * long as the receiver takes. Whatever is refused leaves nothing.
   *
   * `secret` signs the deliveries and is shown this once. At a time, 5 verifications of an application and 1 to a host may
   * run in each process of the server.
   *
   * Scope: `webhooks:write`.
   */
  readonly createWebhookEndpoint: {
    readonly input: CreateWebhookEndpointInput
    readonly output: {
      readonly endpoint: WebhookEndpoint
      /** `whsec_…`: the key that deliveries are signed with. It is shown this once. */
      readonly secret: string
    }
    readonly code: CommonCode | "unsupported_event_type" | "invalid_webhook_url" | "webhook_verification_failed" | "too_many_endpoints" | "unsupported_media_type"
  }
  /**
   * List webhook deliveries.
   *
   * The latest deliveries to the endpoints of the key's application, newest first, each with its attempts.
   * There is no page behind: what happened earlier is in listEvents.
   *
   * Scope: `webhooks:read`.
   */
  readonly listWebhookDeliveries: {
    readonly query: {
      /** The size of a page. 1 to 100. Default: `25`. */
      readonly limit?: number | undefined
      /** Only deliveries to this endpoint. */
      readonly endpointId?: Uuid | undefined
    }
    readonly output: {
      readonly items: ReadonlyArray<WebhookDelivery>
    }
    readonly code: CommonCode | "not_found"
  }
  /**
   * Replay a webhook delivery.
   *
   * Makes a dead or delivered delivery pending again, with a new round of five attempts, the same event id and the
   * same body; what was attempted before stays listed. A pending one stays as it is. The request has no body.
   *
   * Scope: `webhooks:write`.
   */
  readonly replayWebhookDelivery: {
    readonly output: {
      readonly delivery: WebhookDelivery
    }
    readonly code: CommonCode | "not_found" | "endpoint_disabled" | "unsupported_media_type"
  }
}

/** The name of an operation. */
export type Operation = keyof Operations

/** Where each operation is. */
export const routes = {
  listMailboxes: { method: "GET", path: "/v1/mailboxes" },
  listDomains: { method: "GET", path: "/v1/domains" },
  listMessages: { method: "GET", path: "/v1/messages" },
  sendMessage: { method: "POST", path: "/v1/messages" },
  getMessage: { method: "GET", path: "/v1/messages/{messageId}" },
  updateMessage: { method: "PATCH", path: "/v1/messages/{messageId}" },
  uploadAttachment: { method: "POST", path: "/v1/attachments" },
  downloadAttachment: { method: "GET", path: "/v1/attachments/{attachmentId}/download" },
  listEvents: { method: "GET", path: "/v1/events" },
  listWebhookEndpoints: { method: "GET", path: "/v1/webhook-endpoints" },
  createWebhookEndpoint: { method: "POST", path: "/v1/webhook-endpoints" },
  listWebhookDeliveries: { method: "GET", path: "/v1/webhook-deliveries" },
  replayWebhookDelivery: { method: "POST", path: "/v1/webhook-deliveries/{deliveryId}/replay" }
} as const satisfies Readonly<Record<Operation, { readonly method: string; readonly path: string }>>
