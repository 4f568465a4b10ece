/**
 * The client of the API: a method for each operation, under the operation's
 * name; and the same methods by resource, with iteration over pages beside
 * them. Spec 1, point 9.
 */
import * as Base64 from "./Base64.ts"
import { bytesOf } from "./Bytes.ts"
import type { Event, MessageSummary, Operation, Operations, QueuedMessage, UploadAttachmentInput } from "./Contract.ts"
import { MailroomConnectionError } from "./Errors.ts"
import { checkNames } from "./Names.ts"
import { platform as machine, timerMillisMax, unlessAborted, type Platform } from "./Platform.ts"
import * as Transport from "./Transport.ts"

/** The version of this client, as it names itself to the service. */
export const version = "0.1.0"

/** What the service answers to an operation. */
export type OutputOf<O extends Operation> = Operations[O]["output"]

/** What an operation takes in its body. */
export type InputOf<O extends Operation> = Operations[O] extends { readonly input: infer Taken } ? Taken : never

/** What an operation takes in its query. A `cursor` that is null, as one may be that was stored, begins at the beginning. */
export type QueryOf<O extends Operation> = Operations[O] extends { readonly query: infer Taken }
  ? { readonly [Name in keyof Taken]: Name extends "cursor" ? Taken[Name] | null : Taken[Name] }
  : never

/** A query of a list that is read page by page. */
export type PagesOf<O extends "listMessages" | "listEvents"> = QueryOf<O>

export interface MailroomOptions {
  /** Where the service is, such as `https://mail.example.com`; a path before `/v1` is kept. */
  readonly baseUrl: string | URL
  /** `svc_test_…` (sandbox) or `svc_live_…` (production). A secret of your servers. */
  readonly apiKey: string
  /** Used instead of the global `fetch`. It sees every request and answer, so this is the place for logs and traces. */
  readonly fetch?: Transport.Fetch | undefined
  /** Milliseconds that one request and its whole answer may take. Default: 60,000. */
  readonly timeoutMs?: number | undefined
  /** Further requests after one that failed for the moment. Default: 2; 0 for none. */
  readonly maxRetries?: number | undefined
  /**
   * The longest wait before a retry, in milliseconds, a random part aside. When the service asks for more, as it does
   * when a day's limit is used up, the call fails at once and says so in `retryAfter`. Default: 60,000, the window of
   * the limit per minute.
   */
  readonly maxRetryDelayMs?: number | undefined
  /** An API key in a web page is everybody's. Only for what has a `document` and is no page, such as a simulated one. */
  readonly dangerouslyAllowBrowser?: boolean | undefined
  /** Time, chance and timers, for tests. */
  readonly platform?: Partial<Platform> | undefined
}

/** What each call can be given. */
export interface CallOptions {
  /**
   * Ends the call, retries and waiting included, as `AbortSignal.timeout(10_000)` does after ten seconds in all. It then
   * rejects with the signal's reason.
   */
  readonly signal?: AbortSignal | undefined
  /** Instead of the client's. */
  readonly timeoutMs?: number | undefined
  /** Instead of the client's. */
  readonly maxRetries?: number | undefined
}

export interface SendOptions extends CallOptions {
  /**
   * Names this message for 24 hours: whoever sends it again with the same key gets the first answer, and no second
   * message. Give one that you can find again after a crash, such as the id of an order; without one, a random one
   * covers this call and its retries only. 8 to 255 visible ASCII characters.
   */
  readonly idempotencyKey?: string | undefined
}

/** The answer to a send. */
export interface SentMessage extends QueuedMessage {
  /** Whether the key had been accepted before, in an earlier call or an earlier try of this one. */
  readonly replayed: boolean
}

/** A file as bytes, instead of Base64. */
export interface UploadFileInput extends Omit<UploadAttachmentInput, "contentBase64"> {
  /** At most 26,214,400 bytes. A Blob that cannot be read ends the call with its own error, before anything is sent. */
  readonly content: Uint8Array | ArrayBuffer | Blob
  readonly contentBase64?: never
}

/** A file that was downloaded. */
export interface DownloadedFile extends OutputOf<"downloadAttachment"> {
  /** The content, decoded. */
  readonly bytes: () => Uint8Array<ArrayBuffer>
}

/** One page of a list. */
export interface Page<Item> {
  readonly items: ReadonlyArray<Item>
  /** Where the next page begins; null if there is none now. */
  readonly nextCursor: string | null
  /**
   * What to store once the items are durably processed, and to pass as `cursor` after a restart; null: begin at the
   * beginning. After the last page of events it leads to that page again, and to what has come since: drop the ids you
   * know. Of messages, newest first, it leads to older ones alone: what comes later is in front of the first page.
   */
  readonly resumeCursor: string | null
}

/**
 * The email API, for trusted servers.
 *
 * ```ts
 * const mailroom = new Mailroom({ baseUrl: "https://mail.example.com", apiKey: process.env.MAILROOM_API_KEY! })
 *
 * const { id } = await mailroom.sendMessage(
 *   { fromMailboxId, to: ["ada@example.com"], subject: "Your order", text: "It is on its way." },
 *   { idempotencyKey: `order-shipped-${order.id}` }
 * )
 * ```
 *
 * Each operation is a method under its own name. The same methods stand by resource (`mailroom.messages.send`), where
 * lists can also be iterated over.
 *
 * A method rejects with a `MailroomError` for every answer that is not 2xx, with a `MailroomConnectionError` if there is
 * no answer, or none that the service gives, with the reason of your `signal` if you abort it, and with a `TypeError` for
 * arguments that make no request.
 *
 * Failures that pass are retried, twice unless you say otherwise: no connection, timeouts, 408, 429, 5xx other than 501
 * and 505, and 409 `idempotency_pending`; after `Retry-After` plus a random moment, or else 0.5 s, 1 s, 2 s … less a
 * random part. `createWebhookEndpoint` and `replayWebhookDelivery` are retried only after 408 and 429, which come before
 * anything is done, for they are not safe to repeat.
 */
export class Mailroom {
  readonly #settings: Transport.Settings

  constructor(options: MailroomOptions) {
    checkNames("the options of Mailroom", ofClient, options)
    if (options.dangerouslyAllowBrowser !== true && "document" in globalThis) {
      throw new TypeError(
        "An API key does not belong in a web page, where everybody can read it. Call the API from your server."
      )
    }
    const { fetch, timeoutMs = 60_000, maxRetries = 2, maxRetryDelayMs = 60_000, platform } = options
    if (fetch != null && typeof fetch !== "function") throw new TypeError("fetch must be a function, as the global fetch is.")
    this.#settings = {
      baseUrl: baseUrlOf(options.baseUrl),
      apiKey: apiKeyOf(options.apiKey),
      userAgent: `mailroom-client/${version}`,
      fetch: fetch ?? ((url, init) => globalThis.fetch(url, init)), // looked up late: tests put their own in front
      timeoutMs: between("timeoutMs", timeoutMs, 1),
      maxRetries: between("maxRetries", maxRetries, 0),
      maxRetryDelayMs: between("maxRetryDelayMs", maxRetryDelayMs, 0),
      platform: { ...machine, ...platform }
    }
  }

  /** The mailboxes that the tenant can send from. Scope `mailboxes:read`. */
  listMailboxes(options?: CallOptions): Promise<OutputOf<"listMailboxes">> {
    return this.#body({ operation: "listMailboxes", params: {} }, options)
  }

  /** The tenant's mail domains, each with its delivery health. Scope `mailboxes:read`. */
  listDomains(options?: CallOptions): Promise<OutputOf<"listDomains">> {
    return this.#body({ operation: "listDomains", params: {} }, options)
  }

  /** A page of messages, newest first; `messages.all` iterates over all. Scope `messages:read`. */
  listMessages(query: QueryOf<"listMessages"> = {}, options?: CallOptions): Promise<OutputOf<"listMessages">> {
    return this.#body({ operation: "listMessages", params: {}, query }, options)
  }

  /**
   * Queues a message: when this resolves it is durably queued, and not yet delivered. Follow it with `getMessage`,
   * `listEvents` or a webhook. Scope `messages:send`.
   */
  async sendMessage(input: InputOf<"sendMessage">, options: SendOptions = {}): Promise<SentMessage> {
    checkNames("the options of sendMessage", ofSend, options)
    const { idempotencyKey: named, ...others } = options
    const idempotencyKey = named === undefined ? crypto.randomUUID() : idempotencyKeyOf(named)
    const { body, headers } = await this.#answer(
      { operation: "sendMessage", params: {}, body: input, idempotencyKey },
      others
    )
    return { ...body, replayed: headers.get("idempotent-replayed") === "true" }
  }

  /** A message with its MIME structure, its recipients, and what became of each. Scope `messages:read`. */
  getMessage(messageId: string, options?: CallOptions): Promise<OutputOf<"getMessage">> {
    return this.#body({ operation: "getMessage", params: { messageId } }, options)
  }

  /** Sets the flags or the folder of a message. Scope `messages:write`. */
  updateMessage(
    messageId: string,
    input: InputOf<"updateMessage">,
    options?: CallOptions
  ): Promise<OutputOf<"updateMessage">> {
    return this.#body({ operation: "updateMessage", params: { messageId }, body: input }, options)
  }

  /**
   * Stores a file for later messages from the same mailbox: bytes as `content`, or Base64 as `contentBase64`. It is
   * scanned, and goes after 7 days if no message uses it. Scope `attachments:write`.
   *
   * ```ts
   * const content = await readFile("invoice.pdf")
   * const file = { filename: "invoice.pdf", mediaType: "application/pdf", content }
   * const { attachment } = await mailroom.uploadAttachment({ mailboxId, ...file })
   * ```
   */
  async uploadAttachment(
    input: (UploadAttachmentInput & { readonly content?: never }) | UploadFileInput,
    options?: CallOptions
  ): Promise<OutputOf<"uploadAttachment">> {
    if (typeof input !== "object" || input === null) throw new TypeError("uploadAttachment wants { mailboxId, filename, mediaType, content }.")
    const isEncoded = input.content === undefined && (!("content" in input) || "contentBase64" in input)
    const body = isEncoded ? input : await encoded(input as UploadFileInput, options?.signal) // from JavaScript, with whatever content
    return this.#body({ operation: "uploadAttachment", params: {}, body }, options)
  }

  /**
   * A file whose scan is clean. While the scan is pending this fails with `attachment_not_clean`, whose `retryAfter`
   * says when to ask again. Scope `attachments:read`.
   */
  async downloadAttachment(attachmentId: string, options?: CallOptions): Promise<DownloadedFile> {
    const file = await this.#body({ operation: "downloadAttachment", params: { attachmentId } }, options)
    return { ...file, bytes: () => Base64.decode(file.contentBase64) }
  }

  /** A page of events, oldest first; `events.pages` iterates over all. Scope `messages:read`. */
  listEvents(query: QueryOf<"listEvents"> = {}, options?: CallOptions): Promise<OutputOf<"listEvents">> {
    return this.#body({ operation: "listEvents", params: {}, query }, options)
  }

  /** The webhook endpoints of the key's application. Scope `webhooks:read`. */
  listWebhookEndpoints(options?: CallOptions): Promise<OutputOf<"listWebhookEndpoints">> {
    return this.#body({ operation: "listWebhookEndpoints", params: {} }, options)
  }

  /**
   * Registers a URL for events. While this call lasts the URL must answer the verification request, as
   * `webhookChallenge` does. `secret` is for `verifyWebhook`, and is shown this once. Scope `webhooks:write`.
   */
  createWebhookEndpoint(
    input: InputOf<"createWebhookEndpoint">,
    options?: CallOptions
  ): Promise<OutputOf<"createWebhookEndpoint">> {
    return this.#body({ operation: "createWebhookEndpoint", params: {}, body: input }, options)
  }

  /** The latest deliveries to the application's endpoints, with their attempts. Scope `webhooks:read`. */
  listWebhookDeliveries(
    query: QueryOf<"listWebhookDeliveries"> = {},
    options?: CallOptions
  ): Promise<OutputOf<"listWebhookDeliveries">> {
    return this.#body({ operation: "listWebhookDeliveries", params: {}, query }, options)
  }

  /** Delivers an event once more, under the same event id. Scope `webhooks:write`. */
  replayWebhookDelivery(deliveryId: string, options?: CallOptions): Promise<OutputOf<"replayWebhookDelivery">> {
    return this.#body({ operation: "replayWebhookDelivery", params: { deliveryId } }, options)
  }

  /** {@link listMailboxes}, by resource. */
  readonly mailboxes = {
    /** The mailboxes that the tenant can send from: {@link listMailboxes}. */
    list: this.listMailboxes.bind(this)
  }

  /** {@link listDomains}, by resource. */
  readonly domains = {
    /** The tenant's mail domains, each with its delivery health: {@link listDomains}. */
    list: this.listDomains.bind(this)
  }

  /** {@link listMessages}, {@link getMessage}, {@link sendMessage} and {@link updateMessage}, by resource. */
  readonly messages = {
    /** A page of messages, newest first: {@link listMessages}. */
    list: this.listMessages.bind(this),

    /** A message, its recipients, and what became of each: {@link getMessage}. */
    retrieve: this.getMessage.bind(this),

    /** Queues a message, durably, and once for each `idempotencyKey`: {@link sendMessage}. */
    send: this.sendMessage.bind(this),

    /** Sets the flags or the folder of a message: {@link updateMessage}. */
    update: this.updateMessage.bind(this),

    /** All messages, newest first, page by page. */
    pages: (query: PagesOf<"listMessages"> = {}, options?: CallOptions): AsyncGenerator<Page<MessageSummary>, void> =>
      pages("listMessages", query, (cursor) => this.listMessages({ ...query, cursor }, options)),

    /** All messages, newest first, one by one. */
    all: (query: PagesOf<"listMessages"> = {}, options?: CallOptions): AsyncGenerator<MessageSummary, void> =>
      each(this.messages.pages(query, options))
  }

  /** {@link uploadAttachment} and {@link downloadAttachment}, by resource. */
  readonly attachments = {
    /** Stores a file for later messages from the same mailbox: {@link uploadAttachment}. */
    upload: this.uploadAttachment.bind(this),

    /** A file whose scan is clean: {@link downloadAttachment}. */
    download: this.downloadAttachment.bind(this)
  }

  /** {@link listEvents}, by resource. */
  readonly events = {
    /** A page of events, oldest first: {@link listEvents}. */
    list: this.listEvents.bind(this),

    /**
     * All events so far, oldest first, page by page. To lose none, store each page's `resumeCursor` after its events
     * are durably processed, and begin there the next time; to take none twice, drop the ids you know.
     *
     * ```ts
     * for await (const page of mailroom.events.pages({ cursor: await loadCursor() })) {
     *   for (const event of page.items) await processOnce(event)
     *   await storeCursor(page.resumeCursor)
     * }
     * ```
     */
    pages: (query: PagesOf<"listEvents"> = {}, options?: CallOptions): AsyncGenerator<Page<Event>, void> =>
      pages("listEvents", query, (cursor) => this.listEvents({ ...query, cursor }, options)),

    /** All events so far, oldest first, one by one: for a look, as it tells no cursor. */
    all: (query: PagesOf<"listEvents"> = {}, options?: CallOptions): AsyncGenerator<Event, void> =>
      each(this.events.pages(query, options))
  }

  /** {@link listWebhookEndpoints} and {@link createWebhookEndpoint}, by resource. */
  readonly webhookEndpoints = {
    /** The webhook endpoints of the key's application: {@link listWebhookEndpoints}. */
    list: this.listWebhookEndpoints.bind(this),

    /** Registers a URL for events, once it has answered: {@link createWebhookEndpoint}. */
    create: this.createWebhookEndpoint.bind(this)
  }

  /** {@link listWebhookDeliveries} and {@link replayWebhookDelivery}, by resource. */
  readonly webhookDeliveries = {
    /** The latest deliveries, with their attempts: {@link listWebhookDeliveries}. */
    list: this.listWebhookDeliveries.bind(this),

    /** Delivers an event once more: {@link replayWebhookDelivery}. */
    replay: this.replayWebhookDelivery.bind(this)
  }

  async #answer<O extends Operation>(
    call: Transport.Call<O>,
    options: CallOptions = {}
  ): Promise<Transport.Answer<O>> {
    checkNames(`the options of ${call.operation}`, ofCall, options)
    if (call.query !== undefined) checkQuery(call.operation, call.query)
    if ("body" in call) checkInput(call.operation, call.body)
    const { timeoutMs = this.#settings.timeoutMs, maxRetries = this.#settings.maxRetries, signal } = options
    if (signal != null && typeof signal.throwIfAborted !== "function") {
      throw new TypeError("signal must be an AbortSignal, such as the signal of an AbortController.")
    }
    return Transport.call(this.#settings, call, {
      signal,
      timeoutMs: between("timeoutMs", timeoutMs, 1),
      maxRetries: between("maxRetries", maxRetries, 0)
    })
  }

  async #body<O extends Operation>(call: Transport.Call<O>, options?: CallOptions): Promise<OutputOf<O>> {
    return (await this.#answer(call, options)).body
  }
}

async function* pages<Item>(
  operation: Operation,
  query: PagesOf<"listMessages" | "listEvents">,
  list: (cursor: string | undefined) => Promise<Omit<Page<Item>, "resumeCursor">>
): AsyncGenerator<Page<Item>, void> {
  checkQuery(operation, query) // before it is looked into and copied
  for (let cursor = query.cursor ?? undefined; ; ) {
    const page = await list(cursor)
    const nextCursor = page.nextCursor ?? null // a gateway may leave out what is null
    if (nextCursor === cursor) throw circle(operation)
    yield { ...page, nextCursor, resumeCursor: nextCursor ?? cursor ?? null }
    if (nextCursor === null) return
    cursor = nextCursor
  }
}

const circle = (operation: Operation): MailroomConnectionError =>
  new MailroomConnectionError(
    `${operation}: the page at a cursor leads to itself: what stands between drops the query, or answers from a cache. Mend that, and go on from the last resumeCursor.`,
    { operation, attempts: 1, idempotencyKey: null, reason: "invalid_response" }
  )

async function* each<Item>(all: AsyncIterable<Page<Item>>): AsyncGenerator<Item, void> {
  for await (const { items } of all) yield* items
}

const encoded = async (
  { content, ...rest }: UploadFileInput,
  signal: AbortSignal | undefined
): Promise<UploadAttachmentInput> => {
  const given: unknown = content // from JavaScript it may be anything
  const isBlob = typeof given === "object" && given !== null && "arrayBuffer" in given && typeof given.arrayBuffer === "function"
  // A Blob may be a file, and is read for as long as that takes.
  const bytes = bytesOf(isBlob ? await unlessAborted(signal, async () => (content as Blob).arrayBuffer()) : content)
  if (bytes === null) {
    throw new TypeError(
      "content must be bytes or a Blob: await a promise of them, and collect a stream. Base64 goes into contentBase64."
    )
  }
  return { ...rest, contentBase64: Base64.encode(bytes) }
}

const baseUrlOf = (given: string | URL): string => {
  const fault = (what: string) =>
    new TypeError(`baseUrl ${what}; give the address of the service, such as https://mail.example.com`)
  const text = String(given)
  if (!URL.canParse(text)) throw fault("is not a URL")
  const { protocol, username, password, search, hash, origin, pathname } = new URL(text)
  if (protocol !== "https:" && protocol !== "http:") throw fault("is neither https nor http")
  if (username !== "" || password !== "") throw fault("holds credentials")
  if (search !== "" || hash !== "") throw fault("has a query or a fragment")
  const path = pathname.replace(/\/+$/, "")
  if (path.endsWith("/v1")) throw fault("ends with /v1, which the client adds") // all would be 404 not_found, as if nothing were there
  return origin + path
}

/** Never repeats what it was given. */
const apiKeyOf = (given: string): string => {
  if (typeof given !== "string" || !/^svc_(?:test|live)_[\w-]+$/.test(given)) {
    throw new TypeError(
      "apiKey is none: a key begins with svc_test_ or svc_live_, without white space. Is the variable set that holds it?"
    )
  }
  return given
}

const idempotencyKeyOf = (given: string): string => {
  if (typeof given !== "string" || !/^[!-~]{8,255}$/.test(given)) {
    throw new TypeError("idempotencyKey must be of 8 to 255 visible ASCII characters.")
  }
  return given
}

const ofCall: Record<keyof CallOptions, true> = { signal: true, timeoutMs: true, maxRetries: true }
const ofSend: Record<keyof SendOptions, true> = { idempotencyKey: true, ...ofCall }
const ofClient: Record<keyof MailroomOptions, true> = {
  baseUrl: true,
  apiKey: true,
  fetch: true,
  timeoutMs: true,
  maxRetries: true,
  maxRetryDelayMs: true,
  dangerouslyAllowBrowser: true,
  platform: true
}

const ofQuery: Partial<Record<Operation, Readonly<Record<string, true>>>> = {
  listMessages: { limit: true, cursor: true, mailboxId: true },
  listEvents: { limit: true, cursor: true },
  listWebhookDeliveries: { limit: true, endpointId: true }
} satisfies { readonly [O in Operation as [QueryOf<O>] extends [never] ? never : O]: Record<keyof QueryOf<O>, true> }

const checkQuery = (operation: Operation, query: object): void =>
  checkNames(`the query parameters of ${operation}`, ofQuery[operation] ?? {}, query)

/** Without a body the service would be asked for what nobody meant. */
const checkInput = (operation: Operation, input: unknown): void => {
  if (typeof input !== "object" || input === null || Array.isArray(input)) throw new TypeError(`${operation} wants an object as its input.`)
}

const between = (name: string, value: number, least: number): number => {
  if (!Number.isInteger(value) || value < least || value > timerMillisMax) {
    throw new TypeError(`${name} must be a whole number from ${least} to ${timerMillisMax}.`)
  }
  return value
}
