/**
 * The contract (Spec 4), declared once: what each operation takes, answers and
 * refuses. Requests are decoded by it, answers encoded; the OpenAPI document,
 * the docs page and the client's types come from it. A refusal that an
 * operation can make and does not declare here does not type-check.
 */
import { Context, Effect, Schema, SchemaGetter } from "effect"
import {
  HttpApi,
  HttpApiEndpoint,
  HttpApiGroup,
  HttpApiMiddleware,
  HttpApiSchema,
  HttpApiSecurity,
  OpenApi
} from "effect/http-api"
import * as AttachmentModel from "../../core/model/Attachment.ts"
import * as DeliveryModel from "../../core/model/Delivery.ts"
import * as EndpointModel from "../../core/model/Endpoint.ts"
import * as EventModel from "../../core/model/Event.ts"
import { IdempotencyKey } from "../../core/model/IdempotencyKey.ts"
import { AttachmentId, DeliveryId, EndpointId, MailboxId, MessageId } from "../../core/model/Ids.ts"
import * as Limits from "../../core/model/Limits.ts"
import * as MailboxModel from "../../core/model/Mailbox.ts"
import * as MailDomainModel from "../../core/model/MailDomain.ts"
import * as MessageView from "../../core/model/MessageView.ts"
import type { Operation } from "../../core/operations/Access.ts"
import { UploadFields } from "../../core/operations/Attachments.ts"
import * as Messages from "../../core/operations/Messages.ts"
import * as Sending from "../../core/operations/Sending.ts"
import * as Webhooks from "../../core/operations/Webhooks.ts"
import { catalogue, type Code } from "./ErrorBody.ts"

export const Mailbox = MailboxModel.View.annotate({ identifier: "Mailbox" })
export const Domain = MailDomainModel.View.annotate({ identifier: "Domain" })
export const MessageSummary = MessageView.Summary.annotate({ identifier: "MessageSummary" })
export const Attachment = AttachmentModel.View.annotate({ identifier: "Attachment" })
export const Message = Schema.Struct({ ...MessageView.Detail.fields, attachments: Schema.Array(Attachment) }).annotate({
  identifier: "Message"
})
export const QueuedMessage = Sending.QueuedMessage.annotate({ identifier: "QueuedMessage" })
export const Event = EventModel.View.annotate({ identifier: "Event" })
export const SendMessageInput = Sending.SendMessageInput.annotate({ identifier: "SendMessageInput" })
export const UpdateMessageInput = Messages.UpdateMessageInput.annotate({ identifier: "UpdateMessageInput" })
export const WebhookEndpoint = EndpointModel.View.annotate({ identifier: "WebhookEndpoint" })
export const WebhookDelivery = DeliveryModel.View.annotate({ identifier: "WebhookDelivery" })
export const CreateWebhookEndpointInput = Webhooks.CreateWebhookEndpointInput.annotate({
  identifier: "CreateWebhookEndpointInput"
})

/** The one answer that holds a secret. It is unwrapped where the answer is written, and nowhere else. */
export const CreatedWebhookEndpoint = Schema.Struct({
  endpoint: WebhookEndpoint,
  secret: Schema.RedactedFromValue(
    Schema.String.annotate({ description: "`whsec_…`: the key that deliveries are signed with. It is shown this once." })
  )
})

/** Never decoded as a whole: the body is read as it arrives (UploadBody.ts), the content apart from the rest. */
export const UploadAttachmentInput = Schema.Struct({
  ...UploadFields.fields,
  contentBase64: Schema.String.annotate({
    contentEncoding: "base64",
    description: "The file in Base64 (RFC 4648, section 4): padded, without white space. At most 26,214,400 bytes when decoded."
  })
}).annotate({ identifier: "UploadAttachmentInput" })

export const DownloadedAttachment = Schema.Struct({
  filename: Schema.String,
  mediaType: Schema.String,
  contentBase64: Schema.String.annotate({ contentEncoding: "base64" })
}).annotate({ identifier: "DownloadedAttachment" })

/** Digits only: no sign, fraction or exponent, which `Number` would take. */
const limit = Schema.String.check(
  Schema.isPattern(/^[0-9]{1,9}$/, { expected: `a whole number from 1 to ${Limits.pageSizeMax}` })
).pipe(
  Schema.decodeTo(Limits.PageSize, {
    decode: SchemaGetter.transform((digits: string) => Number(digits)),
    encode: SchemaGetter.transform((size: number) => String(size))
  }),
  Schema.withDecodingDefaultKey(Effect.succeed(String(Limits.pageSizeDefault)))
)

/** What a cursor may be is for the core to say, which tells a malformed one from an expired one. */
const cursor = Schema.optionalKey(Schema.String)

/** Bytes that the body of an operation may have. */
export const BodyBytesMax = Context.Reference<number>("mailroom/http/BodyBytesMax", {
  defaultValue: () => Limits.bodyBytesMax
})

/** Whether the guard reads the body, or the handler does, as it arrives. */
export const ReadsBody = Context.Reference<"guard" | "handler">("mailroom/http/ReadsBody", {
  defaultValue: () => "guard"
})

const errors = <const C extends ReadonlyArray<Code>>(...codes: C) =>
  codes.map((code) => catalogue[code].body) as unknown as { [K in keyof C]: (typeof catalogue)[C[K]]["body"] } // one for one

/** What any operation may refuse with, whatever it does. */
const guardCodes = [
  "payload_too_large",
  "unauthorized",
  "rate_limited",
  "insufficient_scope",
  "unsupported_media_type",
  "invalid_request",
  "invalid_idempotency_key",
  "method_not_allowed",
  "request_timeout",
  "headers_too_large",
  "internal_error",
  "unavailable"
] as const satisfies ReadonlyArray<Code>
export type GuardCode = (typeof guardCodes)[number]

/** All that comes between the route and the input (Guard.ts): length, credential, limits, scope, media type. Declared for the document. */
export class Guard extends HttpApiMiddleware.Service<Guard>()("mailroom/http/Guard", {
  security: {
    apiKey: HttpApiSecurity.bearer.pipe(
      HttpApiSecurity.annotate(
        OpenApi.Description,
        "An API key, `svc_test_…` (sandbox) or `svc_live_…` (production). Keep it on your servers."
      ),
      HttpApiSecurity.annotate(OpenApi.Format, "API key")
    )
  },
  error: errors(...guardCodes)
}) {}

export class MailboxesGroup extends HttpApiGroup.make("mailboxes", { topLevel: true })
  .add(
    HttpApiEndpoint.get("listMailboxes", "/v1/mailboxes", { success: Schema.Struct({ items: Schema.Array(Mailbox) }) }),
    HttpApiEndpoint.get("listDomains", "/v1/domains", { success: Schema.Struct({ items: Schema.Array(Domain) }) })
  ) {}

export class MessagesGroup extends HttpApiGroup.make("messages", { topLevel: true })
  .add(
    HttpApiEndpoint.get("listMessages", "/v1/messages", {
      query: { limit, cursor, mailboxId: Schema.optionalKey(MailboxId) },
      success: Schema.Struct({ items: Schema.Array(MessageSummary), nextCursor: Messages.MessagePage.fields.nextCursor }),
      error: errors("invalid_cursor", "not_found")
    }),
    HttpApiEndpoint.post("sendMessage", "/v1/messages", {
      headers: { "idempotency-key": IdempotencyKey },
      payload: SendMessageInput,
      success: HttpApiSchema.WithHeaders(QueuedMessage.pipe(HttpApiSchema.status(202)), {
        "idempotent-replayed": Schema.optionalKey(Schema.Literal("true"))
      }),
      error: errors(
        "idempotency_conflict",
        "idempotency_pending",
        "not_found",
        "mailbox_suspended",
        "domain_not_sendable",
        "attachment_infected",
        "attachment_not_clean",
        "quota_exceeded"
      )
    }).annotate(BodyBytesMax, Limits.sendBodyBytesMax),
    HttpApiEndpoint.get("getMessage", "/v1/messages/:messageId", {
      params: { messageId: MessageId },
      success: Schema.Struct({ message: Message }),
      error: errors("not_found")
    }),
    HttpApiEndpoint.patch("updateMessage", "/v1/messages/:messageId", {
      params: { messageId: MessageId },
      payload: UpdateMessageInput,
      success: Schema.Struct({ id: MessageId, updated: Schema.Literal(true) }),
      error: errors("not_found")
    })
  ) {}

export class AttachmentsGroup extends HttpApiGroup.make("attachments", { topLevel: true })
  .add(
    HttpApiEndpoint.post("uploadAttachment", "/v1/attachments", {
      payload: UploadAttachmentInput,
      success: Schema.Struct({ attachment: Attachment }).pipe(HttpApiSchema.status(201)),
      error: errors("attachment_too_large", "not_found")
    })
      .annotate(BodyBytesMax, Limits.uploadBodyBytesMax)
      .annotate(ReadsBody, "handler"),
    HttpApiEndpoint.get("downloadAttachment", "/v1/attachments/:attachmentId/download", {
      params: { attachmentId: AttachmentId },
      success: DownloadedAttachment,
      error: errors("not_found", "attachment_not_clean")
    })
  ) {}

export class EventsGroup extends HttpApiGroup.make("events", { topLevel: true })
  .add(
    HttpApiEndpoint.get("listEvents", "/v1/events", {
      query: { limit, cursor },
      success: Schema.Struct({ items: Schema.Array(Event), nextCursor: Schema.NullOr(Schema.String) }),
      error: errors("invalid_cursor")
    })
  ) {}

export class WebhooksGroup extends HttpApiGroup.make("webhooks", { topLevel: true })
  .add(
    HttpApiEndpoint.get("listWebhookEndpoints", "/v1/webhook-endpoints", {
      success: Schema.Struct({ items: Schema.Array(WebhookEndpoint) })
    }),
    HttpApiEndpoint.post("createWebhookEndpoint", "/v1/webhook-endpoints", {
      payload: CreateWebhookEndpointInput,
      success: CreatedWebhookEndpoint.pipe(HttpApiSchema.status(201)),
      error: errors("unsupported_event_type", "invalid_webhook_url", "too_many_endpoints", "webhook_verification_failed")
    }),
    HttpApiEndpoint.get("listWebhookDeliveries", "/v1/webhook-deliveries", {
      query: { limit, endpointId: Schema.optionalKey(EndpointId) },
      success: Schema.Struct({ items: Schema.Array(WebhookDelivery) }),
      error: errors("not_found")
    }),
    HttpApiEndpoint.post("replayWebhookDelivery", "/v1/webhook-deliveries/:deliveryId/replay", {
      params: { deliveryId: DeliveryId },
      success: Schema.Struct({ delivery: WebhookDelivery }).pipe(HttpApiSchema.status(202)),
      error: errors("not_found", "endpoint_disabled")
    })
  ) {}

export class Api extends HttpApi.make("mailroom")
  .add(MailboxesGroup, MessagesGroup, AttachmentsGroup, EventsGroup, WebhooksGroup)
  .middleware(Guard)
  .annotate(HttpApi.PayloadParseOptions, { onExcessProperty: "error", errors: "all" })
  .annotate(HttpApi.QueryParseOptions, { errors: "all" })
  .annotate(HttpApi.ParamsParseOptions, { errors: "all" }) {}

export type Endpoints = HttpApiGroup.Endpoints<
  typeof MailboxesGroup | typeof MessagesGroup | typeof AttachmentsGroup | typeof EventsGroup | typeof WebhooksGroup
>

/** The operation behind an endpoint of this API. */
export const operationOf = (endpoint: { readonly identifier: string }): Operation =>
  endpoint.identifier as Endpoints["identifier"] // endpoints of this API have no other
