/** The operations of the contract, each handed to the core. What it refuses becomes an answer in the pipeline. */
import { Clock, Context, Effect, Layer, Schema, Stream } from "effect"
import type { HttpServerRequest } from "effect/http"
import { HttpApiSchema } from "effect/http-api"
import * as Limits from "../../core/model/Limits.ts"
import { Attachments, type AttachmentTooLarge } from "../../core/operations/Attachments.ts"
import { Events } from "../../core/operations/Events.ts"
import { Mailboxes } from "../../core/operations/Mailboxes.ts"
import { Messages } from "../../core/operations/Messages.ts"
import { Webhooks } from "../../core/operations/Webhooks.ts"
import { Access, type Principal } from "../../core/operations/Access.ts"
import type { BlobUnavailable } from "../../core/ports/BlobStore.ts"
import { Answers } from "./AnswerRoom.ts"
import { UploadAttachmentInput } from "./Api.ts"
import * as Body from "./Body.ts"
import type { CallState } from "./Call.ts"
import * as Download from "./Download.ts"
import * as Issues from "./Issues.ts"
import type { Handlers as HandlersOf } from "./Operations.ts"
import { InvalidRequest, PayloadTooLarge } from "./Refusals.ts"
import { UploadBody } from "./UploadBody.ts"

/** A handler for each operation of the contract, made once over the operations of the core. */
export class Handlers extends Context.Service<Handlers, HandlersOf>()("mailroom/http/Handlers") {
  static readonly layer = Layer.effect(
    Handlers,
    Effect.gen(function* () {
      const mailboxes = yield* Mailboxes
      const messages = yield* Messages
      const access = yield* Access
      const attachments = yield* Attachments
      const events = yield* Events
      const webhooks = yield* Webhooks
      const room = yield* Answers
      return Handlers.of({
        listMailboxes: mailboxes.list,
        listDomains: mailboxes.listDomains,
        listMessages: (caller, { query: { limit, cursor = null, mailboxId = null } }) =>
          messages.list(caller, { limit, cursor, mailboxId }),
        sendMessage: (caller, { headers, payload }, call) =>
          Effect.map(messages.send(caller, headers["idempotency-key"], payload), ({ message, replayed }) => {
            call.about({ messageId: message.id })
            return HttpApiSchema.withHeaders({
              body: message,
              headers: replayed ? { "idempotent-replayed": "true" as const } : {}
            })
          }),
        getMessage: (caller, { params: { messageId } }, call) =>
          noting(messages.get(caller, messageId), call, () => ({ messageId })),
        updateMessage: (caller, { params: { messageId }, payload }, call) =>
          noting(messages.update(caller, messageId, payload), call, () => ({ messageId })),
        uploadAttachment: (caller, { request }, call) =>
          noting(upload(access, attachments, caller, request), call, ({ attachment: { id } }) => ({ attachmentId: id })),
        downloadAttachment: (caller, { params: { attachmentId } }, call) =>
          noting(Effect.flatMap(attachments.download(caller, attachmentId), (found) => Download.respond(found, room, caller.realm.tenantId)), call, () => ({ attachmentId })),
        listEvents: (caller, { query: { limit, cursor = null } }) => events.list(caller, { limit, cursor }),
        listWebhookEndpoints: webhooks.listEndpoints,
        createWebhookEndpoint: (caller, { payload }, call) =>
          noting(webhooks.createEndpoint(caller, payload), call, ({ endpoint: { id } }) => ({ endpointId: id })),
        listWebhookDeliveries: (caller, { query: { limit, endpointId = null } }) => webhooks.listDeliveries(caller, { limit, endpointId }),
        replayWebhookDelivery: (caller, { params: { deliveryId } }, call) =>
          noting(webhooks.replay(caller, deliveryId), call, () => ({ deliveryId }))
      })
    })
  )
}

/** Notes what a request was about, once that has turned out to be the caller's. */
const noting = <A, E, R>(self: Effect.Effect<A, E, R>, call: CallState, subjects: (value: A) => CallState["subjects"]) =>
  Effect.map(self, (value) => {
    call.about(subjects(value))
    return value
  })

type UploadRefusal = InvalidRequest | PayloadTooLarge | AttachmentTooLarge | BlobUnavailable

/** Reads the body as it arrives and stores its content on the way. Whatever fails leaves nothing behind. */
const upload = Effect.fnUntraced(function* (
  access: typeof Access.Service,
  attachments: typeof Attachments.Service,
  principal: Principal,
  request: HttpServerRequest.HttpServerRequest
) {
  const since = yield* Clock.monotonicTimeNanos
  const content = yield* attachments.begin(principal)
  const body = new UploadBody()
  const limitBytes = Limits.uploadBodyBytesMax
  let received = 0
  const take = (chunk: Uint8Array): Effect.Effect<void, UploadRefusal> => {
    received += chunk.length
    if (received > limitBytes) return Effect.fail(new PayloadTooLarge({ limitBytes }))
    const taken = body.write(chunk)
    if ("fault" in taken) return invalid([taken.fault])
    return content.append(taken.content)
  }
  yield* Stream.runForEach(Body.streamOf(request), take)
  yield* access.readmit(request.headers["authorization"], since)
  const absent = Body.faultOfAbsence(request.headers, received)
  if (absent !== null) return yield* absent
  const read = body.end()
  if ("fault" in read) return yield* invalid([read.fault])
  const { mailboxId, filename, mediaType } = yield* decodeUpload(read.members).pipe(
    Effect.catchTag("SchemaError", (error) => invalid(Issues.fromSchema(error.issue)))
  )
  return { attachment: yield* content.finish({ mailboxId, filename, mediaType }) }
}, Effect.scoped)

const decodeUpload = Schema.decodeUnknownEffect(UploadAttachmentInput, { onExcessProperty: "error", errors: "all" })

const invalid = (issues: ReadonlyArray<Issues.Issue>) => Effect.fail(new InvalidRequest({ issues }))
