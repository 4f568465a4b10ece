/** Attachments: up, through the scan, and down again (Spec 3, Attachment; Spec 4, UploadAttachmentInput). */
import { Effect } from "effect"
import { NotApplicable } from "../Suite.ts"
import { codeOf, type Request } from "./Deployment.ts"
import { check, type HttpSuite } from "./HttpCheck.ts"
import { answered, call, equal, holds, refused, refusedInput, status, withoutRequestId } from "./Law.ts"
import * as Shapes from "./Shapes.ts"
import { freshId, type Input, recipient, scanned, Traffic } from "./Traffic.ts"

const sizeMax = 26_214_400

const upload = (json: Input, more: Partial<Request> = {}) =>
  call({
    method: "POST",
    path: "/v1/attachments",
    json: { filename: "note.txt", mediaType: "text/plain", contentBase64: "QUJD", ...json },
    ...more
  })

const download = (id: string) => call({ method: "GET", path: `/v1/attachments/${id}/download` })

const sha256 = (bytes: Uint8Array<ArrayBuffer>) =>
  Effect.promise(() => globalThis.crypto.subtle.digest("SHA-256", bytes)).pipe(
    Effect.map((digest) => Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join(""))
  )

const bytesOf = (base64: string) => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))

/** The EICAR test file, which every scanner takes for malware; in pieces, so that none takes this file for it. */
const eicar = ["X5O!P%@AP[4\\PZX54(P^)7CC)7}$", "EICAR-STANDARD-", "ANTIVIRUS-TEST-FILE!", "$H+H*"]

/** Nobody's mailbox comes last, so that all else of the body is judged before it. */
const uploadFromNobody = (size: number) => {
  const group = btoa("\u0007".repeat(3 * 4_096))
  const whole = Math.floor(size / (3 * 4_096))
  const rest = btoa("\u0007".repeat(size - whole * 3 * 4_096))
  const body = `{"filename":"large.bin","mediaType":"application/octet-stream","contentBase64":"${
    group.repeat(whole)
  }${rest}","mailboxId":"${freshId()}"}`
  return Effect.gen(function* () {
    // An answer that comes before the body is through may be lost with the connection, which HTTP permits.
    return yield* call({ method: "POST", path: "/v1/attachments", body, timeout: "3 minutes" }).pipe(
      Effect.retry({ times: 1 }),
      Effect.catchTag(
        "NoAnswer",
        ({ message }) =>
          new NotApplicable({ reason: `the connection was closed before the answer could be read (${message})` })
      )
    )
  })
}

const faults: ReadonlyArray<readonly [what: string, change: Input, path: string]> = [
  ["an empty file name", { filename: "" }, "/filename"],
  ["a file name of 256 characters", { filename: "x".repeat(256) }, "/filename"],
  ["an empty media type", { mediaType: "" }, "/mediaType"],
  ["a media type of 121 characters", { mediaType: `a/${"x".repeat(119)}` }, "/mediaType"],
  ["content that is no Base64", { contentBase64: "no base64!" }, "/contentBase64"],
  ["no content", { contentBase64: undefined }, "/contentBase64"],
  ["a mailbox id that is no UUID", { mailboxId: "x" }, "/mailboxId"],
  ["a member that there is not", { scanState: "clean" }, "/scanState"]
]

export const suite: HttpSuite = {
  name: "attachments",
  checks: [
    check(
      "Spec 4, uploadAttachment",
      "an upload is answered 201 with its record: its size, its digest, its scan",
      function* () {
        const { mailbox } = yield* Traffic
        const { id: mailboxId } = yield* mailbox
        const contentBase64 = btoa("The engine weaves")
        const reply = yield* upload({ mailboxId, filename: "ü 1.txt", contentBase64 })
        const { attachment } = yield* answered(reply, 201, Shapes.Uploaded)
        const { filename, mediaType, sizeBytes, messageId } = attachment
        yield* equal(reply, "the record", {
          filename,
          mediaType,
          sizeBytes,
          messageId,
          mailboxId: attachment.mailboxId
        }, { filename: "ü 1.txt", mediaType: "text/plain", sizeBytes: 17, messageId: null, mailboxId })
        yield* equal(reply, "sha256 is the content's", attachment.sha256, yield* sha256(bytesOf(contentBase64)))
      }
    ),

    check(
      "Spec 4, downloadAttachment",
      "a clean file comes down as it went up, and until then only its scan state is told",
      function* () {
        const { mailbox } = yield* Traffic
        const { id: mailboxId } = yield* mailbox
        const bytes = globalThis.crypto.getRandomValues(new Uint8Array(10_001))
        const contentBase64 = btoa(String.fromCharCode(...bytes))
        const { attachment } = yield* answered(
          yield* upload({ mailboxId, filename: "random.bin", mediaType: "application/octet-stream", contentBase64 }),
          201,
          Shapes.Uploaded
        )
        const early = yield* download(attachment.id)
        if (early.status !== 200) {
          yield* equal(early, "while it is scanned", yield* refused(early, 409, "attachment_not_clean"), {
            scanState: "pending",
            attachmentId: attachment.id
          })
          yield* holds(early, "a pending scan comes with Retry-After", /^\d+$/.test(early.headers["retry-after"] ?? ""))
        }
        const reply = yield* scanned(attachment.id)
        yield* equal(reply, "the file", yield* answered(reply, 200, Shapes.Downloaded), {
          filename: "random.bin",
          mediaType: "application/octet-stream",
          contentBase64
        })
      }
    ),

    check("Spec 3, Attachment", "an infected file is never given out, and never sent", function* () {
      const { mailbox, send } = yield* Traffic
      const { id: mailboxId } = yield* mailbox
      const { attachment } = yield* answered(
        yield* upload({ mailboxId, filename: "test.txt", contentBase64: btoa(eicar.join("")) }),
        201,
        Shapes.Uploaded
      )
      const reply = yield* scanned(attachment.id)
      if (reply.status === 200) {
        return yield* new NotApplicable({
          reason: "this deployment's scanner does not know the EICAR test file, or nothing is scanned"
        })
      }
      yield* equal(reply, "details", yield* refused(reply, 409, "attachment_not_clean"), {
        scanState: "infected",
        attachmentId: attachment.id
      })
      const sent = yield* send({
        fromMailboxId: mailboxId,
        to: [recipient("delivered", "infected")],
        text: "x",
        attachmentIds: [attachment.id]
      })
      yield* equal(sent, "details", yield* refused(sent, 400, "attachment_infected"), { attachmentId: attachment.id })
    }),

    check(
      "Spec 4, SendMessageInput: attachmentIds",
      "a clean file goes with a message, and is part of its MIME structure",
      function* () {
        const { file, mailbox, send } = yield* Traffic
        const { attachment } = yield* file
        const { id: mailboxId } = yield* mailbox
        const sent = yield* send({
          fromMailboxId: mailboxId,
          to: [recipient("delivered", "file")],
          text: "x",
          attachmentIds: [attachment.id]
        })
        const { id } = yield* answered(sent, 202, Shapes.QueuedMessage)
        const reply = yield* call({ method: "GET", path: `/v1/messages/${id}` })
        const { message } = yield* answered(reply, 200, Shapes.Got)
        yield* equal(reply, "the attachments", message.attachments.map((one) => [one.id, one.sha256]), [[
          attachment.id,
          attachment.sha256
        ]])
        const part = message.mime.parts.find(({ attachmentId }) => attachmentId === attachment.id)
        yield* equal(reply, "its part", [
          message.mime.mediaType,
          part?.mediaType,
          part?.disposition,
          part?.filename,
          part?.sizeBytes
        ], ["multipart/mixed", "text/plain", "attachment", attachment.filename, attachment.sizeBytes])
        yield* holds(reply, "hasAttachments", message.hasAttachments)
      }
    ),

    check("Spec 4, SendMessageInput", "a file of another mailbox is not to be had for a message", function* () {
      const { file, mailbox, send } = yield* Traffic
      const [{ attachment }, { id }] = [yield* file, yield* mailbox]
      const { items } = yield* answered(yield* call({ method: "GET", path: "/v1/mailboxes" }), 200, Shapes.Mailboxes)
      const other = items.find((one) => one.id !== id)
      if (other === undefined) return yield* new NotApplicable({ reason: "the key's tenant has one mailbox only" })
      const reply = yield* send({
        fromMailboxId: other.id,
        to: [recipient("delivered", "file")],
        text: "x",
        attachmentIds: [attachment.id]
      })
      yield* equal(reply, "the member", (yield* refused(reply, 404, "not_found"))["field"], "attachmentIds")
    }),

    ...faults.map(([what, change, path]) =>
      check("Spec 4, UploadAttachmentInput", `${what} is refused, which points at ${path}`, function* () {
        yield* refusedInput(yield* upload({ mailboxId: freshId(), ...change }), path)
      })
    ),

    check(
      "Spec 8, filename / mediaType",
      "a file name of 255 and a media type of 120 characters are taken",
      function* () {
        const reply = yield* upload({
          mailboxId: freshId(),
          filename: "x".repeat(255),
          mediaType: `a/${"x".repeat(118)}`
        })
        yield* equal(reply, "the input is taken; only the mailbox is nobody's", [reply.status, codeOf(reply)], [
          404,
          "not_found"
        ])
      }
    ),

    check(
      "Spec 7, 413",
      "a file of 26,214,401 bytes is answered 413 attachment_too_large, with the limit",
      function* () {
        const reply = yield* uploadFromNobody(sizeMax + 1)
        yield* equal(reply, "details", yield* refused(reply, 413, "attachment_too_large"), { limitBytes: sizeMax })
      }
    ),

    check("Spec 8, attachment decoded size", "a file of 26,214,400 bytes is not too large", function* () {
      const reply = yield* uploadFromNobody(sizeMax)
      yield* equal(reply, "the file is taken; only the mailbox is nobody's", [reply.status, codeOf(reply)], [
        404,
        "not_found"
      ])
    }),

    check(
      "Spec 5, 5",
      "an absent attachment is answered 404, alike for every id, and an id that is no UUID 400",
      function* () {
        const [one, other] = [yield* download(freshId()), yield* download(freshId())]
        yield* refused(one, 404, "not_found")
        yield* equal(other, "the bodies are equal but for requestId", withoutRequestId(other), withoutRequestId(one))
        yield* refusedInput(yield* download("x"), "/attachmentId")
        yield* status(yield* upload({ mailboxId: freshId() }), 404)
      }
    )
  ]
}
