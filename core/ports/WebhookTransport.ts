/**
 * Posts to a receiver whom a stranger has named, and gets what a stranger
 * points at, without becoming the stranger's tool.
 *
 * An adapter
 * - looks the name up itself, each time it connects; every address must be
 *   allowed (`PublicAddress.isAllowed`), or nothing is connected to;
 * - connects to an address that it has vetted and to no other, with the
 *   target's host in TLS and in `Host`;
 * - verifies certificates, follows no redirect, keeps no cookie, decompresses
 *   nothing, and reads at most `webhookAnswerBytesMax` bytes of the answer;
 * - sends the body's bytes as they are, once: it retries nothing (`postAnew`);
 * - bears answers that only go before the answer (100, 102, 103), asked for or
 *   not, and bounds them;
 * - knows no deadline: the caller interrupts it, and then nothing of the
 *   request stays open;
 * - lets no receiver hold up the requests to another.
 */
import { Clock, Context, Data, Duration, Effect } from "effect"
import type { Answer } from "../model/Webhook.ts"
import type { WebhookTarget } from "../model/WebhookUrl.ts"

/**
 * No answer. `unsafe_url`: the name leads where no webhook may go, and nothing was sent. `cause` is for the operator's log.
 * `isStale`: the request went over a connection that had been used before, and that ended before a byte of an answer. A
 * receiver may close what waits while a request is on its way there, so this says nothing of how a new one would end.
 */
export class WebhookUnanswered extends Data.TaggedError("WebhookUnanswered")<{
  readonly reason: "unsafe_url" | "network_error"
  readonly cause?: unknown
  readonly isStale?: boolean
}> {
  override get message(): string {
    return this.reason === "unsafe_url" ? "the name leads to an address that is not public" : "the receiver could not be reached"
  }
}

export interface WebhookRequest {
  readonly target: WebhookTarget
  /** Names in lower case. The adapter adds `host` and, to what has a body, `content-length`. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
}

export class WebhookTransport extends Context.Service<
  WebhookTransport,
  {
    readonly post: (request: WebhookRequest) => Effect.Effect<Answer, WebhookUnanswered>
    /** As `post`, with a GET and without a body: for what a provider's notification refers to. */
    readonly get: (request: Omit<WebhookRequest, "body">) => Effect.Effect<Answer, WebhookUnanswered>
  }
>()("mailroom/core/ports/WebhookTransport") {}

/** Whoever takes longer to end a connection may have worked on the request meanwhile, and would be given it again. */
const staleWithin = Duration.toNanosUnsafe(Duration.seconds(1))

/**
 * Posts, and once more where the connection soon turned out to be stale: a proxy that is reloaded closes all that wait at once,
 * and ten failures in a row disable. Who has had the request drops the repeat, by its id.
 */
export const postAnew = (transport: WebhookTransport["Service"], request: WebhookRequest): Effect.Effect<Answer, WebhookUnanswered> =>
  Clock.clockWith((clock) => {
    const begun = clock.monotonicTimeNanosUnsafe()
    return Effect.catch(transport.post(request), (error) =>
      error.isStale === true && clock.monotonicTimeNanosUnsafe() - begun < staleWithin ? transport.post(request) : Effect.fail(error)
    )
  })
