/**
 * What a call ends in when it does not succeed: a refusal of the service, or
 * no answer at all. Neither ever holds the API key.
 */
// @effect-diagnostics extendsNativeError:off -- the client has no Effect
import type { ErrorDetails } from "./Contract.ts"

/** A code of the published contract. */
export type KnownCode = keyof ErrorDetails

/**
 * A stable code. Expect codes that are not listed here: the service may add
 * some. `unknown` means that no error of this API came, but a proxy's page, say.
 */
export type ErrorCode = KnownCode | "unknown" | (string & {})

/** What `details` holds under a code. */
export type DetailsOf<Code extends ErrorCode> = [Code] extends [KnownCode]
  ? ErrorDetails[Code]
  : Readonly<Record<string, unknown>>

/** What both kinds of error tell about the call. */
interface About {
  readonly operation: string
  readonly attempts: number
  readonly idempotencyKey: string | null
}

/**
 * The service refused a call, or what stands before it did: every answer that is
 * not 2xx. `message` says for a person what happened and what to do; programs go
 * by `code`, and learn more from `details` once {@link isCode} has named the
 * code.
 *
 * ```ts
 * try {
 *   await mailroom.sendMessage(message)
 * } catch (error) {
 *   if (isCode(error, "invalid_request")) console.error(error.details.issues)
 *   else throw error
 * }
 * ```
 */
export class MailroomError<Code extends ErrorCode = ErrorCode> extends Error {
  /** The HTTP status. */
  readonly status: number
  readonly code: Code
  /** Quote it when you ask for help; null if something else than the service answered. */
  readonly requestId: string | null
  /** An object always; its members depend on `code`. */
  readonly details: DetailsOf<Code>
  /** Seconds to wait before another try, if the service said so. */
  readonly retryAfter: number | null
  /** The operation that was called, such as `sendMessage`. */
  readonly operation: string
  /** Requests that were made, retries included. */
  readonly attempts: number
  /** Of a send: pass it with the same message to try again later, without the danger of sending twice. */
  readonly idempotencyKey: string | null

  static {
    this.prototype.name = "MailroomError"
  }

  constructor(
    message: string,
    fields: About & {
      readonly status: number
      readonly code: Code
      readonly requestId: string | null
      readonly details: DetailsOf<Code>
      readonly retryAfter: number | null
    }
  ) {
    super(message)
    this.status = fields.status
    this.code = fields.code
    this.requestId = fields.requestId
    this.details = fields.details
    this.retryAfter = fields.retryAfter
    this.operation = fields.operation
    this.attempts = fields.attempts
    this.idempotencyKey = fields.idempotencyKey
  }
}

/**
 * No answer that could be understood: whether the service did what was asked
 * is not known. Reads, updates, uploads, and sends with the same
 * Idempotency-Key, are safe to repeat.
 */
export class MailroomConnectionError extends Error {
  /**
   * - `network`: the connection could not be made, or broke. `cause` tells more.
   * - `timeout`: the whole answer did not come within `timeoutMs`.
   * - `invalid_response`: something answered with success, but not with the service's whole JSON: it is not the service, or its answer was cut short.
   */
  readonly reason: "network" | "timeout" | "invalid_response"
  /** The operation that was called, such as `sendMessage`. */
  readonly operation: string
  /** Requests that were made, retries included. */
  readonly attempts: number
  /** Of a send: pass it with the same message to try again later, without the danger of sending twice. */
  readonly idempotencyKey: string | null

  static {
    this.prototype.name = "MailroomConnectionError"
  }

  constructor(
    message: string,
    fields: About & { readonly reason: MailroomConnectionError["reason"]; readonly cause?: unknown }
  ) {
    super(message, fields.cause === undefined ? {} : { cause: fields.cause })
    this.reason = fields.reason
    this.operation = fields.operation
    this.attempts = fields.attempts
    this.idempotencyKey = fields.idempotencyKey
  }
}

/**
 * Whether an error is the service's, with this code; then its `details` have
 * the shape that belongs to the code.
 *
 * ```ts
 * if (isCode(error, "rate_limited")) console.warn(`${error.details.scope} limit: ${error.details.limit}`)
 * ```
 */
export const isCode = <Code extends KnownCode>(error: unknown, code: Code): error is MailroomError<Code> =>
  // By its name, for a bundle or a reload may have loaded this file twice, and then the class is another.
  error instanceof Error && error.name === "MailroomError" && "code" in error && error.code === code
