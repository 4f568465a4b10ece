/**
 * Webhook receivers as tests direct them, each at a host of its own; they may
 * take their time, which the memory adapter's cannot. Any other host is out of reach.
 */
import { Effect, Layer } from "effect"
import type { Answer } from "../../core/model/Webhook.ts"
import { WebhookTransport, WebhookUnanswered } from "../../core/ports/WebhookTransport.ts"

/** A request as a receiver got it. */
export interface Posted {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
  /** The body, parsed. */
  // oxlint-disable-next-line typescript/no-explicit-any -- a test reads the members it is about, and declares no shapes
  readonly json: any
}

export type Behaviour = (posted: Posted) => Effect.Effect<Answer, WebhookUnanswered>

export interface Receiver {
  readonly url: string
  /** What it got, handshakes included. */
  readonly posts: Array<Posted>
  /** Assign it to change what the receiver does. */
  behave: Behaviour
}

/** An answer with a body, which is sent as JSON unless it is text. */
export const answered = (status: number, body: unknown = "", more: Partial<Answer> = {}): Answer => ({
  status,
  retryAfter: null,
  body: new TextEncoder().encode(typeof body === "string" ? body : JSON.stringify(body)),
  truncated: false,
  ...more
})

export const isHandshake = ({ json }: Posted): boolean => json.type === "webhook.endpoint_verification"

/** Echoes a challenge; answers 204 to all else. */
export const welcoming: Behaviour = (posted) =>
  Effect.succeed(isHandshake(posted) ? answered(200, { challenge: posted.json.data.challenge }) : answered(204))

/** Echoes a challenge; answers 500 to all else. */
export const broken: Behaviour = (posted) => (isHandshake(posted) ? welcoming(posted) : Effect.succeed(answered(500)))

export class Receivers {
  readonly #hosts = new Map<string, Receiver>()

  /** A receiver at a fresh host, and at all its ports and paths. */
  open(behave: Behaviour = welcoming): Receiver {
    const host = `r${globalThis.crypto.randomUUID()}.hooks.example`
    const receiver: Receiver = { url: `https://${host}/mailroom`, posts: [], behave }
    this.#hosts.set(host, receiver)
    return receiver
  }

  /** How many requests all of them got. */
  get posts(): number {
    return [...this.#hosts.values()].reduce((sum, { posts }) => sum + posts.length, 0)
  }

  readonly layer = Layer.succeed(WebhookTransport, {
    get: () => Effect.die(new Error("nothing is fetched")),
    post: ({ target, headers, body }) =>
      Effect.suspend(() => {
        const receiver = this.#hosts.get(target.host)
        if (receiver === undefined) return Effect.fail(new WebhookUnanswered({ reason: "network_error" }))
        const text = new TextDecoder().decode(body)
        const posted: Posted = { url: target.href, headers, text, json: JSON.parse(text) }
        receiver.posts.push(posted)
        return receiver.behave(posted)
      })
  })
}
