/**
 * A transport without a network: for tests, which direct receivers and names,
 * and look at what was posted, through its `WebhookScript`. Untold, every name
 * leads to a public address, and every receiver echoes challenges and answers
 * 200 to all else.
 */
import { Clock, Context, Effect, Layer } from "effect"
import { verificationType } from "../../core/model/Event.ts"
import type { Millis } from "../../core/model/Ids.ts"
import { webhookAnswerBytesMax } from "../../core/model/Limits.ts"
import type { Answer } from "../../core/model/Webhook.ts"
import * as PublicAddress from "../../core/model/PublicAddress.ts"
import { WebhookTransport, WebhookUnanswered, type WebhookRequest } from "../../core/ports/WebhookTransport.ts"

export interface Posted {
  readonly method: "POST" | "GET"
  readonly url: string
  /** Where the name led. */
  readonly address: string
  /** With `host`, and `content-length` if it has a body. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  readonly at: Millis
}

/** How a post ends. */
export type Ending =
  | { readonly _tag: "Answers"; readonly status: number; readonly retryAfter?: string; readonly body?: Uint8Array }
  | { readonly _tag: "Fails"; readonly reason: WebhookUnanswered["reason"]; readonly cause?: unknown }
  /** No answer comes. */
  | { readonly _tag: "Hangs" }

export class WebhookScript extends Context.Service<
  WebhookScript,
  {
    /** What was posted, in order, whatever came of it; what found no safe address was not. */
    readonly posts: Effect.Effect<ReadonlyArray<Posted>>
    /** Posts that hang, and were not interrupted. */
    readonly waiting: Effect.Effect<ReadonlyArray<Posted>>
    /** What comes of each post to this URL, as targets spell it, from now on. */
    readonly receive: (url: string, receiver: (posted: Posted) => Ending) => Effect.Effect<void>
    /** What comes of the next posts, to URLs that have no receiver of their own. */
    readonly next: (...endings: ReadonlyArray<Ending>) => Effect.Effect<void>
    /** Where a name leads: the first post finds the first addresses, and so on; the last stay. None: there is no such name. */
    readonly lead: (host: string, ...answers: ReadonlyArray<ReadonlyArray<string>>) => Effect.Effect<void>
  }
>()("mailroom/adapters/memory/WebhookScript") {}

export const layer: Layer.Layer<WebhookTransport | WebhookScript> = Layer.effectContext(
  Effect.sync(() => {
    const posts: Array<Posted> = []
    const waiting = new Set<Posted>()
    const receivers = new Map<string, (posted: Posted) => Ending>()
    const endings: Array<Ending> = []
    const names = new Map<string, ReadonlyArray<ReadonlyArray<string>>>()

    const lookUp = (host: string): ReadonlyArray<string> => {
      const [first = [somewherePublic], ...rest] = names.get(host) ?? []
      if (rest.length > 0) names.set(host, rest)
      return first
    }

    const conclude = (posted: Posted, ending: Ending): Effect.Effect<Answer, WebhookUnanswered> => {
      switch (ending._tag) {
        case "Answers":
          return Effect.succeed({
            status: ending.status,
            retryAfter: ending.retryAfter ?? null,
            body: (ending.body ?? new Uint8Array()).slice(0, webhookAnswerBytesMax),
            truncated: (ending.body?.length ?? 0) > webhookAnswerBytesMax
          })
        case "Fails":
          return Effect.fail(new WebhookUnanswered({ reason: ending.reason, cause: ending.cause }))
        case "Hangs":
          waiting.add(posted)
          return Effect.onInterrupt(Effect.never, () => Effect.sync(() => waiting.delete(posted)))
      }
    }

    const send = Effect.fnUntraced(function* (method: Posted["method"], { target, headers }: Omit<WebhookRequest, "body">, body: Uint8Array) {
      const addresses = target.isAddress ? [target.host] : lookUp(target.host)
      if (!addresses.every((address) => PublicAddress.isAllowed(address, target.policy.allowedBlocks))) {
        return yield* new WebhookUnanswered({ reason: "unsafe_url" })
      }
      const [address] = addresses
      if (address === undefined) return yield* new WebhookUnanswered({ reason: "network_error" })
      const posted: Posted = {
        method,
        url: target.href,
        address,
        headers: {
          ...headers,
          host: new URL(target.href).host,
          ...(method === "GET" ? {} : { "content-length": String(body.length) })
        },
        body,
        at: yield* Clock.currentTimeMillis
      }
      posts.push(posted)
      return yield* conclude(posted, receivers.get(target.href)?.(posted) ?? endings.shift() ?? welcoming(posted))
    })
    const transport = WebhookTransport.of({
      post: (request) => send("POST", request, request.body),
      get: (request) => send("GET", request, new Uint8Array())
    })
    const script = WebhookScript.of({
      posts: Effect.sync(() => [...posts]),
      waiting: Effect.sync(() => [...waiting]),
      receive: (url, receiver) => Effect.sync(() => void receivers.set(url, receiver)),
      next: (...more) => Effect.sync(() => void endings.push(...more)),
      lead: (host, ...answers) => Effect.sync(() => void names.set(host, answers))
    })
    return Context.make(WebhookTransport, transport).pipe(Context.add(WebhookScript, script))
  })
)

const somewherePublic = "93.184.215.14"

interface Handshake {
  readonly type?: unknown
  readonly data?: { readonly challenge?: unknown }
}

const welcoming = ({ body, method }: Posted): Ending => {
  if (method === "GET") return { _tag: "Answers", status: 200 }
  const { type, data } = JSON.parse(new TextDecoder().decode(body)) as Handshake // or another body of the core's
  return type === verificationType
    ? { _tag: "Answers", status: 200, body: new TextEncoder().encode(JSON.stringify({ challenge: data?.challenge })) }
    : { _tag: "Answers", status: 200 }
}
