/**
 * What this runtime refuses by itself, before or around the operations, and
 * the union of all refusals there are. A refusal becomes an answer in one
 * place, the table of ErrorBody.ts.
 */
import { Data, Effect } from "effect"
import type { Access } from "../../core/operations/Access.ts"
import type { Attachments, Upload } from "../../core/operations/Attachments.ts"
import type { Events } from "../../core/operations/Events.ts"
import type { Mailboxes } from "../../core/operations/Mailboxes.ts"
import type { Messages } from "../../core/operations/Messages.ts"
import type { Webhooks } from "../../core/operations/Webhooks.ts"
import type { IntakeUnavailable } from "../../core/ports/NotificationIntake.ts"
import type { Issue } from "./Issues.ts"

/** 400. */
export class InvalidRequest extends Data.TaggedError("InvalidRequest")<{ readonly issues: ReadonlyArray<Issue> }> {
  override get message(): string {
    const [first] = this.issues
    const where = first === undefined || first.path === "" ? "" : ` at ${first.path}`
    const more = this.issues.length > 1 ? ` (and ${this.issues.length - 1} more)` : ""
    return first === undefined ? "The request is not valid." : `The request is not valid: ${first.message}${where}${more}.`
  }
}

/** 400. The key is missing, repeated, or of a wrong length. */
export class InvalidIdempotencyKey extends Data.TaggedError("InvalidIdempotencyKey")<{}> {
  override readonly message =
    "Sending needs one Idempotency-Key header of 8 to 255 characters. " +
    "Make one per message, such as a UUID, and repeat it when you retry."
}

/** 404. No operation has this path. */
export class RouteUnknown extends Data.TaggedError("RouteUnknown")<{}> {
  override readonly message = "There is nothing at this path. GET /openapi.yaml lists the operations; GET /docs shows them."
}

/** 401: `/metrics` wants a token of its own. */
export class MetricsUnauthorized extends Data.TaggedError("MetricsUnauthorized")<{}> {
  override readonly message = "Send the metrics token as `Authorization: Bearer <MAILROOM_METRICS_TOKEN>`."
}

/** 405. */
export class MethodNotAllowed extends Data.TaggedError("MethodNotAllowed")<{ readonly allow: ReadonlyArray<string> }> {
  override get message(): string {
    return `This path allows ${this.allow.join(", ")}.`
  }
}

/** 408. */
export class RequestTimeout extends Data.TaggedError("RequestTimeout")<{}> {
  override readonly message = "The request did not arrive in time. Open a new connection and send it again."
}

/** 413, for a body as a whole. */
export class PayloadTooLarge extends Data.TaggedError("PayloadTooLarge")<{ readonly limitBytes: number }> {
  override get message(): string {
    return `The body of this operation has at most ${this.limitBytes} bytes.`
  }
}

/** 415. */
export class UnsupportedMediaType extends Data.TaggedError("UnsupportedMediaType")<{}> {
  override readonly message =
    "Send the body as Content-Type: application/json, in UTF-8 and without Content-Encoding or transfer codings but chunked."
}

/** 431. */
export class HeadersTooLarge extends Data.TaggedError("HeadersTooLarge")<{}> {
  override readonly message = "The request's header section is too large. Send fewer and shorter headers."
}

/** 503. This process is about to end. */
export class ShuttingDown extends Data.TaggedError("ShuttingDown")<{}> {}

/** 503. `/readyz` while the store does not answer. */
export class NotReady extends Data.TaggedError("NotReady")<{}> {}

/** 503. `/readyz` while the store can be read, and takes no writes. */
export class ReadOnly extends Data.TaggedError("ReadOnly")<{}> {
  override readonly message = "The database can be read and takes no writes, as a standby does. Nothing is accepted until it takes them again."
}

/** 503. As many large answers are on their way as are held in memory. */
export class TooManyAnswers extends Data.TaggedError("TooManyAnswers")<{}> {
  override readonly message = "a large answer was refused: those before it are not taken yet"
}

/** 500. A bug, whatever it was; its cause is in the log. */
export class Defect extends Data.TaggedError("Defect")<{}> {}

type Own =
  | InvalidRequest
  | InvalidIdempotencyKey
  | RouteUnknown
  | MetricsUnauthorized
  | MethodNotAllowed
  | RequestTimeout
  | PayloadTooLarge
  | UnsupportedMediaType
  | HeadersTooLarge
  | ShuttingDown
  | NotReady
  | ReadOnly
  | TooManyAnswers
  | Defect

/** Whatever the methods of a service may fail with. */
type RefusalOf<S> = {
  [K in keyof S]: S[K] extends (...args: never) => Effect.Effect<unknown, infer E, unknown> ? E : never
}[keyof S]

/** Every way in which a request can be refused; an error that an operation gains is in here at once. */
export type Refusal =
  | Own
  | RefusalOf<typeof Access.Service>
  | RefusalOf<typeof Mailboxes.Service>
  | RefusalOf<typeof Messages.Service>
  | RefusalOf<Pick<typeof Attachments.Service, "begin" | "download">>
  | RefusalOf<Upload>
  | RefusalOf<typeof Events.Service>
  | RefusalOf<typeof Webhooks.Service>
  | IntakeUnavailable

/** Logs what failed on our side, with its cause. That we stop is no fault, and each request then ends so. */
export const logFault = (refusal: Refusal, status: number): Effect.Effect<void> =>
  status < 500 || refusal._tag === "ShuttingDown"
    ? Effect.void
    : Effect.logWarning(refusal.message, "cause" in refusal ? refusal.cause : refusal._tag)
