/**
 * The receiver's side of webhooks (Spec 6): is a request from the service, and
 * what does it say? Over the raw bytes, before anything is parsed.
 */
// @effect-diagnostics extendsNativeError:off -- the client has no Effect
import { bytesOf } from "./Bytes.ts"
import type { WebhookPayload, WebhookVerification } from "./Contract.ts"
import * as Json from "./Json.ts"
import { checkNames } from "./Names.ts"
import { platform } from "./Platform.ts"

/** Headers as a `Headers` object, as Node's `request.headers`, or as any record, whatever the case of its names. */
export type WebhookHeaders =
  | { readonly get: (name: string) => string | null }
  | Readonly<Record<string, string | ReadonlyArray<string> | undefined>>

export interface WebhookRequest {
  /** The endpoint's `whsec_…` secret; while it is being replaced, the old and the new one. */
  readonly secret: string | ReadonlyArray<string>
  readonly headers: WebhookHeaders
  /** The body as it came, before any parser. A string stands for its UTF-8 bytes. */
  readonly body: Uint8Array | ArrayBuffer | string
  /** The receiver's clock. Default: now. */
  readonly now?: Date | undefined
  /** Seconds by which the timestamp may differ from the receiver's clock. Default: 300. */
  readonly toleranceSeconds?: number | undefined
}

/** Why a request is not taken for the service's. */
export type WebhookVerificationReason =
  | "missing_header"
  | "repeated_header"
  | "malformed_timestamp"
  | "timestamp_out_of_tolerance"
  | "malformed_signature"
  | "signature_mismatch"
  | "invalid_body"

/** The request is not the service's, or too old. Answer 400, and do nothing of what it says. */
export class WebhookVerificationError extends Error {
  readonly reason: WebhookVerificationReason

  static {
    this.prototype.name = "WebhookVerificationError"
  }

  constructor(reason: WebhookVerificationReason) {
    super(meanings[reason])
    this.reason = reason
  }
}

const meanings: Readonly<Record<WebhookVerificationReason, string>> = {
  missing_header: "Service-Webhook-Id, -Timestamp or -Signature is missing. Does something between take headers away?",
  repeated_header: "Service-Webhook-Id, -Timestamp or -Signature is there more than once.",
  malformed_timestamp: "Service-Webhook-Timestamp is not a number of seconds.",
  timestamp_out_of_tolerance:
    "Service-Webhook-Timestamp is too far from this machine's clock. Is the clock right? If so, it is an old request.",
  malformed_signature: "Service-Webhook-Signature is not v1= and 64 lower-case hex digits.",
  signature_mismatch:
    "The signature does not fit. Is it this endpoint's secret, and is the body as it came, byte for byte?",
  invalid_body: "The signature fits, and the body is not an event."
}

/**
 * Resolves with the event if the request is the service's; else rejects with a
 * `WebhookVerificationError`, whose `reason` says why. Wrong use, such as a
 * body that has been parsed, is a `TypeError`.
 *
 * ```ts
 * export const POST = async (request: Request) => {
 *   const event = await verifyWebhook({ secret, headers: request.headers, body: await request.arrayBuffer() })
 *   if (event.type === "message.bounced") await markUndeliverable(event.id, event.data.recipient)
 *   return new Response(null, { status: 204 }) // only now: until a 2xx it is delivered again
 * }
 * ```
 */
export const verifyWebhook = async (request: WebhookRequest): Promise<WebhookPayload> => {
  // From JavaScript it may be anything.
  if (typeof request !== "object" || request === null) throw new TypeError("verifyWebhook wants { secret, headers, body }.")
  checkNames("the options of verifyWebhook", ofRequest, request)
  const { secret, headers, body, now, toleranceSeconds = 300 } = request
  const secrets = secretsOf(secret)
  const bytes = bodyOf(body)
  if (typeof headers !== "object" || headers === null || isPromise(headers) || isList(headers)) throw noHeaders()
  if (typeof toleranceSeconds !== "number" || !(toleranceSeconds >= 0)) throw new TypeError("toleranceSeconds must be a number, 0 or more.")
  if (now !== undefined && !(now instanceof Date)) throw new TypeError("now must be a Date; leave it out for the machine's clock.")
  const id = header(headers, "service-webhook-id")
  const timestamp = header(headers, "service-webhook-timestamp")
  const signature = header(headers, "service-webhook-signature")

  if (!/^[0-9]+$/.test(timestamp)) throw new WebhookVerificationError("malformed_timestamp")
  const distanceSeconds = Math.abs((now?.getTime() ?? platform.now()) / 1000 - Number(timestamp))
  if (!(distanceSeconds <= toleranceSeconds)) throw new WebhookVerificationError("timestamp_out_of_tolerance")
  if (!/^v1=[0-9a-f]{64}$/.test(signature)) throw new WebhookVerificationError("malformed_signature")

  const head = utf8.encode(`${id}.${timestamp}.`)
  const signed = concatenated(head, bytes)
  const pairs = signature.slice("v1=".length).match(/../g) ?? []
  const claimed = Uint8Array.from(pairs, (digits) => Number.parseInt(digits, 16))
  const fits = await Promise.all(secrets.map((one) => isSignedWith(one, claimed, signed)))
  if (!fits.includes(true)) throw new WebhookVerificationError("signature_mismatch")
  return eventOf(signed.subarray(head.length)) // what was verified, whatever became of `body` meanwhile
}

/**
 * The answer to the verification request that the service makes while
 * `createWebhookEndpoint` lasts, to be returned as JSON; null if the body is
 * something else. That request is not signed, for you have no secret yet: look
 * for it only while you expect one.
 *
 * ```ts
 * const challenge = webhookChallenge(body)
 * if (challenge !== null) return Response.json(challenge)
 * ```
 */
export const webhookChallenge = (body: WebhookRequest["body"]): WebhookVerification["data"] | null => {
  const json = parsed(bodyOf(body))
  if (!Json.isRecord(json) || json["type"] !== "webhook.endpoint_verification" || !Json.isRecord(json["data"])) return null
  const { challenge } = json["data"]
  return typeof challenge === "string" ? { challenge } : null
}

const utf8 = new TextEncoder()

const ofRequest: Record<keyof WebhookRequest, true> = { secret: true, headers: true, body: true, now: true, toleranceSeconds: true }

const secretsOf = (secret: WebhookRequest["secret"]): ReadonlyArray<string> => {
  const secrets = typeof secret === "string" ? [secret] : secret
  if (
    !Array.isArray(secrets) ||
    secrets.length === 0 ||
    !secrets.every((one) => typeof one === "string" && /^whsec_\S+$/.test(one))
  ) {
    throw new TypeError(
      "secret must be the whsec_… text of createWebhookEndpoint, without white space, or a list of such. Is the variable set that holds it?"
    )
  }
  return secrets
}

const bodyOf = (body: WebhookRequest["body"]): Uint8Array => {
  const bytes = typeof body === "string" ? utf8.encode(body) : bytesOf(body)
  if (bytes !== null) return bytes
  throw new TypeError(
    "body must be as it came: a Uint8Array, an ArrayBuffer or a string. What a parser made of it cannot be verified."
  )
}

/** The one value of a header. None of ours has a comma in it, which is how `Headers` and Node join repeated ones. */
const header = (headers: WebhookHeaders, name: string): string => {
  const values = valuesOf(headers, name).filter((value) => value !== "")
  if (!values.every((value) => typeof value === "string")) throw noHeaders()
  if (values.length === 0) throw new WebhookVerificationError("missing_header")
  if (values.length > 1 || values[0]!.includes(",")) throw new WebhookVerificationError("repeated_header")
  return values[0]!
}

const valuesOf = (headers: WebhookHeaders, name: string): ReadonlyArray<string> => {
  if (isHeaders(headers)) return [headers.get(name) ?? ""]
  return Object.entries(headers).flatMap(([key, value]) => (key.toLowerCase() === name ? (value ?? []) : []))
}

const noHeaders = (): TypeError =>
  new TypeError("headers must be the request's, as a Headers object or a record whose values are texts. Where they are a promise, await it.")

const isPromise = (headers: object): boolean => "then" in headers && typeof headers.then === "function" // a header may be called so

/** A list, of pairs or as Node's `rawHeaders`, has none under its name, and would seem a request without them. */
const isList = (headers: WebhookHeaders): boolean => Symbol.iterator in headers && !isHeaders(headers)

const isHeaders = (headers: WebhookHeaders): headers is { readonly get: (name: string) => string | null } =>
  typeof headers["get"] === "function"

const concatenated = (first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> => {
  const whole = new Uint8Array(first.length + second.length)
  whole.set(first)
  whole.set(second, first.length)
  return whole
}

/** WebCrypto compares in constant time. */
const isSignedWith = async (
  secret: string,
  signature: Uint8Array<ArrayBuffer>,
  bytes: Uint8Array<ArrayBuffer>
): Promise<boolean> => {
  const algorithm = { name: "HMAC", hash: "SHA-256" }
  const hmacKey = await crypto.subtle.importKey("raw", utf8.encode(secret), algorithm, false, ["verify"])
  return crypto.subtle.verify(algorithm, hmacKey, signature, bytes)
}

const eventOf = (bytes: Uint8Array): WebhookPayload => {
  const json = parsed(bytes)
  const isEvent =
    Json.isRecord(json) &&
    Json.isRecord(json["data"]) &&
    ["id", "type", "apiVersion", "occurredAt"].every((member) => typeof json[member] === "string")
  if (!isEvent) throw new WebhookVerificationError("invalid_body")
  return json as unknown as WebhookPayload // the members were looked at; of `data`, the signature vouches for its shape
}

const parsed = (bytes: Uint8Array): unknown => {
  try {
    return Json.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes))
  } catch {
    return undefined // not text
  }
}
