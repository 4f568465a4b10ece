/** The operations of the contract, each handed to the core. Errors of the core become answers in `refuse`. */
import { Effect, Layer, Schema, Stream } from "effect"
import type { HttpServerRequest } from "effect/http"
import { HttpApiBuilder, HttpApiSchema } from "effect/http-api"
import * as Limits from "../../core/model/Limits.ts"
import { Attachments, type AttachmentTooLarge } from "../../core/operations/Attachments.ts"
import { Events } from "../../core/operations/Events.ts"
import { Mailboxes } from "../../core/operations/Mailboxes.ts"
import { Messages } from "../../core/operations/Messages.ts"
import { Webhooks } from "../../core/operations/Webhooks.ts"
import type { Principal } from "../../core/operations/Access.ts"
import type { BlobUnavailable } from "../../core/ports/BlobStore.ts"
import { Api, Caller, UploadAttachmentInput } from "./Api.ts"
import { brokenOff } from "./Body.ts"
import { about } from "./Call.ts"
import * as Download from "./Download.ts"
import { refuse } from "./Guard.ts"
import * as Issues from "./Issues.ts"
import { InvalidRequest, PayloadTooLarge, type Refusal } from "./Refusals.ts"
import { UploadBody } from "./UploadBody.ts"

/** Runs an operation for the caller; what it refuses becomes the body of the answer. */
const call = <A, E extends Refusal, R = never>(operation: (principal: Principal) => Effect.Effect<A, E, R>) =>
  Effect.flatMap(Caller, (principal) => Effect.catch(operation(principal), refuse))

const mailboxes = HttpApiBuilder.group(Api, "mailboxes", (handlers) =>
  Effect.map(Mailboxes, (mailboxes) =>
    handlers.handleAll({
      listMailboxes: () => call(mailboxes.list),
      listDomains: () => call(mailboxes.listDomains)
    })
  )
)

const messages = HttpApiBuilder.group(Api, "messages", (handlers) =>
  Effect.map(Messages, (messages) =>
    handlers.handleAll({
      listMessages: ({ query: { limit, cursor = null, mailboxId = null } }) =>
        call((principal) => messages.list(principal, { limit, cursor, mailboxId })),
      sendMessage: ({ headers, payload }) =>
        call((principal) => messages.send(principal, headers["idempotency-key"], payload)).pipe(
          Effect.tap(({ message }) => about({ messageId: message.id })),
          Effect.map(({ message, replayed }) =>
            HttpApiSchema.withHeaders({
              body: message,
              headers: replayed ? { "idempotent-replayed": "true" as const } : {}
            })
          )
        ),
      getMessage: ({ params: { messageId } }) =>
        Effect.tap(call((principal) => messages.get(principal, messageId)), () => about({ messageId })),
      updateMessage: ({ params: { messageId }, payload }) =>
        Effect.tap(call((principal) => messages.update(principal, messageId, payload)), () => about({ messageId }))
    })
  )
)

const attachments = HttpApiBuilder.group(Api, "attachments", (handlers) =>
  Effect.map(Attachments, (attachments) =>
    handlers
      .handleRaw("uploadAttachment", ({ request }) =>
        Effect.tap(call((principal) => upload(attachments, principal, request)), ({ attachment: { id } }) => about({ attachmentId: id }))
      )
      .handle("downloadAttachment", ({ params: { attachmentId } }) =>
        Effect.tap(
          call((principal) => Effect.flatMap(attachments.download(principal, attachmentId), Download.respond)),
          () => about({ attachmentId })
        )
      )
  )
)

const events = HttpApiBuilder.group(Api, "events", (handlers) =>
  Effect.map(Events, (events) =>
    handlers.handleAll({
      listEvents: ({ query: { limit, cursor = null } }) => call((principal) => events.list(principal, { limit, cursor }))
    })
  )
)

const webhooks = HttpApiBuilder.group(Api, "webhooks", (handlers) =>
  Effect.map(Webhooks, (webhooks) =>
    handlers.handleAll({
      listWebhookEndpoints: () => call(webhooks.listEndpoints),
      createWebhookEndpoint: ({ payload }) =>
        Effect.tap(call((principal) => webhooks.createEndpoint(principal, payload)), ({ endpoint: { id } }) => about({ endpointId: id })),
      listWebhookDeliveries: ({ query: { limit, endpointId = null } }) =>
        call((principal) => webhooks.listDeliveries(principal, { limit, endpointId })),
      replayWebhookDelivery: ({ params: { deliveryId } }) =>
        Effect.tap(call((principal) => webhooks.replay(principal, deliveryId)), () => about({ deliveryId }))
    })
  )
)

type UploadRefusal = InvalidRequest | PayloadTooLarge | AttachmentTooLarge | BlobUnavailable

/** Reads the body as it arrives and stores its content on the way. Whatever fails leaves nothing behind. */
const upload = (
  attachments: typeof Attachments.Service,
  principal: Principal,
  request: HttpServerRequest.HttpServerRequest
) =>
  Effect.scoped(
    Effect.gen(function* () {
      const upload = yield* attachments.begin(principal)
      const body = new UploadBody()
      const limitBytes = Limits.uploadBodyBytesMax
      let received = 0
      const take = (chunk: Uint8Array): Effect.Effect<void, UploadRefusal> => {
        received += chunk.length
        if (received > limitBytes) return Effect.fail(new PayloadTooLarge({ limitBytes }))
        const taken = body.write(chunk)
        if ("fault" in taken) return invalid([taken.fault])
        return taken.content.length === 0 ? Effect.void : upload.append(taken.content)
      }
      yield* Stream.runForEach(Stream.mapError(request.stream, brokenOff), take)
      const read = body.end()
      if ("fault" in read) return yield* invalid([read.fault])
      const { mailboxId, filename, mediaType } = yield* decodeUpload(read.members).pipe(
        Effect.catchTag("SchemaError", (error) => invalid(Issues.fromSchema(error.issue)))
      )
      return { attachment: yield* upload.finish({ mailboxId, filename, mediaType }) }
    })
  )

const decodeUpload = Schema.decodeUnknownEffect(UploadAttachmentInput, { onExcessProperty: "error", errors: "all" })

const invalid = (issues: ReadonlyArray<Issues.Issue>) => Effect.fail(new InvalidRequest({ issues }))

export const handlersLayer = Layer.mergeAll(mailboxes, messages, attachments, events, webhooks)
