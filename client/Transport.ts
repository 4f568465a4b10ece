/**
 * One call, whatever the operation: requests until one is answered or no
 * further try is worth it. The API key leaves by the Authorization header of
 * requests to `baseUrl` and in no other way: redirects are not followed, and
 * what goes into an error is cleared of it.
 */
import { routes, type Operation, type Operations } from "./Contract.ts"
import { MailroomConnectionError, MailroomError } from "./Errors.ts"
import * as Json from "./Json.ts"
import { sleep, type Platform } from "./Platform.ts"
import * as Retry from "./Retry.ts"

/** What the client needs of `fetch`. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>

export interface Settings {
  /** Without a slash at its end. */
  readonly baseUrl: string
  readonly apiKey: string
  readonly userAgent: string
  readonly fetch: Fetch
  readonly timeoutMs: number
  readonly maxRetries: number
  readonly maxRetryDelayMs: number
  readonly platform: Platform
}

export interface Limits {
  readonly signal: AbortSignal | undefined
  readonly timeoutMs: number
  readonly maxRetries: number
}

/** The names between braces. */
type Names<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}` ? Name | Names<Rest> : never

export interface Call<O extends Operation> {
  readonly operation: O
  readonly params: Readonly<Record<Names<(typeof routes)[O]["path"]>, string>>
  readonly query?: Readonly<Record<string, string | number | null | undefined>>
  readonly body?: unknown
  readonly idempotencyKey?: string
}

export interface Answer<O extends Operation> {
  readonly body: Operations[O]["output"]
  readonly headers: Headers
}

/** Makes the call. Rejects with a MailroomError, a MailroomConnectionError, or the reason of the caller's signal. */
export const call = async <O extends Operation>(
  settings: Settings,
  call: Call<O>,
  limits: Limits
): Promise<Answer<O>> => {
  const { platform, maxRetryDelayMs } = settings
  const url = urlOf(settings.baseUrl, call)
  const init = requestOf(settings, call)
  for (let retries = 0; ; retries++) {
    limits.signal?.throwIfAborted()
    const about = { operation: call.operation, attempts: retries + 1, idempotencyKey: call.idempotencyKey ?? null }
    try {
      return answerOf<O>(settings, about, await exchange(settings, about, url, init, limits))
    } catch (failure) {
      if (!(failure instanceof MailroomError || failure instanceof MailroomConnectionError)) throw failure
      const delayMs = Retry.delayMs(failure, {
        operation: call.operation,
        retries,
        maxRetries: limits.maxRetries,
        maxRetryDelayMs,
        random: platform.random()
      })
      if (delayMs === null) throw failure
      await sleep(platform, delayMs, limits.signal)
    }
  }
}

interface About {
  readonly operation: Operation
  readonly attempts: number
  readonly idempotencyKey: string | null
}

interface Reply {
  readonly response: Response
  readonly text: string
}

const urlOf = <O extends Operation>(baseUrl: string, { operation, params, query = {} }: Call<O>): string => {
  const given: Readonly<Record<string, string>> = params
  const path = routes[operation].path.replace(/\{(\w+)\}/g, (_, name: string) => segment(name, given[name]))
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (!isLeftOut(name, value)) search.set(name, String(value))
  const asked = search.toString()
  return `${baseUrl}${path}${asked === "" ? "" : `?${asked}`}`
}

/** A cursor that is null begins at the beginning. A filter that is null stays, for the service to refuse: without it, all would be read. */
const isLeftOut = (name: string, value: unknown): boolean => value === undefined || (value === null && name === "cursor")

/** An id in the path. None can lead to another path. */
const segment = (name: string, value: unknown): string => {
  if (typeof value !== "string" || value === "" || value === "." || value === ".." || /\p{Cs}/u.test(value)) {
    throw new TypeError(`${name} must be an id, as the API returned it.`)
  }
  return encodeURIComponent(value)
}

const requestOf = (
  { apiKey, userAgent }: Settings,
  { operation, body, idempotencyKey }: Call<Operation>
): RequestInit => ({
  method: routes[operation].method,
  redirect: "manual", // and not "error", which not every runtime has
  headers: {
    accept: "application/json",
    authorization: `Bearer ${apiKey}`,
    "user-agent": userAgent,
    ...(body === undefined ? {} : { "content-type": "application/json" }),
    ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey })
  },
  ...(body === undefined ? {} : { body: JSON.stringify(body) })
})

/** One request and its whole answer, within the time; or the caller's signal, whatever `fetch` makes of it. */
const exchange = async (
  settings: Settings,
  about: About,
  url: string,
  init: RequestInit,
  { signal, timeoutMs }: Limits
): Promise<Reply> => {
  const { fetch, platform, apiKey } = settings
  const controller = new AbortController()
  const abandoned = new Promise<never>((_, reject) => {
    controller.signal.addEventListener("abort", () => reject(controller.signal.reason), { once: true })
  })
  const abort = () => controller.abort(signal?.reason)
  signal?.addEventListener("abort", abort, { once: true })
  let isLate = false
  const cancel = platform.after(timeoutMs, () => {
    isLate = true
    controller.abort()
  })
  const answered = async () => {
    const response = await fetch(url, { ...init, signal: controller.signal })
    return { response, text: await textOf(response) }
  }
  try {
    return await Promise.race([answered(), abandoned])
  } catch (fault) {
    signal?.throwIfAborted()
    const reason = isLate ? "timeout" : "network"
    throw new MailroomConnectionError(whatHappened[reason](timeoutMs, about), {
      ...about,
      reason,
      cause: cleared(fault, apiKey)
    })
  } finally {
    cancel()
    signal?.removeEventListener("abort", abort)
  }
}

/** No answer is longer: the largest is a file that came in by mail, of up to 64 MiB, in Base64. */
const answerBytesMax = 128 * 1024 * 1024

/** The text of an answer; none if it is longer than ours can be, for then it may have no end. */
const textOf = async (response: Response): Promise<string> => {
  const reader = response.body?.getReader?.() // a fetch of other making, as node-fetch, may have streams of another kind, or none
  if (reader === undefined) return response.text()
  const decoder = new TextDecoder()
  let text = ""
  for (let sizeBytes = 0; ; ) {
    const { done, value } = await reader.read()
    if (done) return text + decoder.decode()
    sizeBytes += value.length
    if (sizeBytes > answerBytesMax) {
      void reader.cancel().catch(() => {}) // it is left as it is, whatever becomes of it
      return ""
    }
    text += decoder.decode(value, { stream: true })
  }
}

const whatToDo = ({ operation, idempotencyKey }: About): string => {
  if (idempotencyKey !== null) {
    return "Whether the message was queued is not known: send it again with this error's idempotencyKey, and it is sent once."
  }
  return Retry.isRepeatable[operation]
    ? "Try again."
    : "Whether it was done is not known: look before you repeat it."
}

const whatHappened = {
  network: (_: number, about: About) =>
    `${about.operation}: no connection, or it broke; see \`cause\`. Check baseUrl and the network. ${whatToDo(about)}`,
  timeout: (timeoutMs: number, about: About) =>
    `${about.operation}: no complete answer within ${timeoutMs} ms (timeoutMs). ${whatToDo(about)}`,
  invalid_response: (status: number, about: About) =>
    `${about.operation}: answered ${status}, and not with the service's whole JSON: something else answered, or it was cut short. Check baseUrl, and what stands between. ${whatToDo(about)}`
}

const answerOf = <O extends Operation>(settings: Settings, about: About, { response, text }: Reply): Answer<O> => {
  const json = Json.parse(text)
  if (!response.ok) throw refusalOf(settings, about, response, json)
  if (!Json.isRecord(json) || !isTheServices(about.operation, json)) {
    throw new MailroomConnectionError(whatHappened.invalid_response(response.status, about), {
      ...about,
      reason: "invalid_response"
    })
  }
  return { body: json as unknown as Operations[O]["output"], headers: response.headers } // the contract says what else a success holds
}

/**
 * A member that each answer has, by which it is known for the service's own: where a gateway answers 200 and an object of
 * its own, no message is queued. No more is looked at, so that the service may change what it adds.
 */
const essential: { readonly [O in Operation]: keyof Operations[O]["output"] & string } = {
  listMailboxes: "items",
  listDomains: "items",
  listMessages: "items",
  sendMessage: "id",
  getMessage: "message",
  updateMessage: "id",
  uploadAttachment: "attachment",
  downloadAttachment: "contentBase64",
  listEvents: "items",
  listWebhookEndpoints: "items",
  createWebhookEndpoint: "endpoint",
  listWebhookDeliveries: "items",
  replayWebhookDelivery: "delivery"
}

const isTheServices = (operation: Operation, json: Readonly<Record<string, unknown>>): boolean => {
  const value = json[essential[operation]]
  return essential[operation] === "items" ? Array.isArray(value) : value !== undefined && value !== null
}

const refusalOf = ({ apiKey, platform }: Settings, about: About, response: Response, json: unknown): MailroomError => {
  const body = errorBodyOf(json, apiKey)
  const header = (name: string): string | null => hide(response.headers.get(name) ?? "", apiKey) || null
  return new MailroomError(body?.message ?? strangeAnswer(about, response), {
    ...about,
    status: response.status,
    code: body?.code ?? "unknown",
    requestId: body?.requestId ?? header("x-request-id"),
    details: body?.details ?? {},
    retryAfter: Retry.parseRetryAfter(header("retry-after"), platform.now())
  })
}

interface ErrorBody {
  readonly code: string
  readonly message: string
  readonly requestId: string | null
  readonly details: Readonly<Record<string, unknown>>
}

/** The error envelope of section 7, if it is one; whoever answered, the key is not repeated. */
const errorBodyOf = (json: unknown, apiKey: string): ErrorBody | null => {
  const hidden = withoutKey(json, apiKey)
  if (!Json.isRecord(hidden)) return null
  const { code, message, requestId, details } = hidden
  if (typeof code !== "string" || typeof message !== "string") return null
  return {
    code,
    message,
    requestId: typeof requestId === "string" ? requestId : null,
    details: Json.isRecord(details) ? details : {}
  }
}

/** The same with the key in none of its texts; undefined if it is nested too deep to be looked through. */
const withoutKey = (json: unknown, apiKey: string): unknown => {
  try {
    return Json.parse(hide(JSON.stringify(json) ?? "", apiKey))
  } catch {
    return undefined
  }
}

/** An answer without our error body: what stands between answered, or `baseUrl` points elsewhere. Its text is not repeated. */
const strangeAnswer = (about: About, { status, type }: Response): string =>
  type === "opaqueredirect" || (status >= 300 && status < 400)
    ? `${about.operation}: a redirect, not followed, so that the API key goes nowhere else. Give the service's own address as baseUrl.`
    : `${about.operation}: answered ${status}, not by the service: a proxy stands between, or baseUrl points elsewhere. Check both.${
        status >= 500 ? ` ${whatToDo(about)}` : "" // the service may have got it all the same
      }`

const hide = (text: string, apiKey: string): string => text.replaceAll(apiKey, "svc_…")

/** The same error with nothing in it but its texts, none of which has the key: a `fetch` may throw whatever it likes. */
const cleared = (fault: unknown, apiKey: string, depth = 0): unknown => {
  if (!isError(fault)) return typeof fault === "string" ? hide(fault, apiKey) : undefined
  const { name, message, stack, cause } = fault
  const copy = new Error(hide(message, apiKey))
  const code: unknown = "code" in fault ? fault.code : undefined
  const inner = depth < 5 ? cleared(cause, apiKey, depth + 1) : undefined
  return Object.assign(
    Object.defineProperty(copy, "name", { value: hide(name, apiKey) }),
    stack === undefined ? {} : { stack: hide(stack, apiKey) },
    typeof code === "string" ? { code: hide(code, apiKey) } : {},
    inner === undefined ? {} : { cause: inner }
  )
}

/** Of whatever realm: where tests run in one of their own, as under Jest, the errors of `fetch` are of another. */
const isError = (fault: unknown): fault is Error =>
  fault instanceof Error || /^\[object (?:Error|DOMException)\]$/.test(Object.prototype.toString.call(fault))
