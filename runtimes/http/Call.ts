/**
 * One request on its way through: what is learned about it step by step, and
 * what its answer, its log line and its entry in the request log are made of.
 */
import { Context } from "effect"
import type { Millis, RequestId } from "../../core/model/Ids.ts"
import type { Standing } from "../../core/model/RateLimit.ts"
import type { Operation, Principal } from "../../core/operations/Access.ts"
import { RateLimited, Unauthorized } from "../../core/operations/Access.ts"
import { HandshakesBusy } from "../../core/operations/Handshakes.ts"
import { answer, handshakeSeconds, type Answer, type Code, type CodeOf } from "./ErrorBody.ts"
import type { Refusal } from "./Refusals.ts"

interface Window {
  readonly limit: number
  readonly remaining: number
  readonly resetSeconds: number
}

export class CallState {
  readonly requestId: RequestId
  readonly clientAddress: string
  readonly method: string
  /** The path's template once it is known; before that the path, without the query. */
  route: string
  readonly startedAt: Millis
  readonly startedNanos: bigint
  operation: Operation | null = null
  principal: Principal | null = null
  code: Code | null = null
  /** Why a credential was refused: for the log, never for the answer. */
  reason: string | null = null
  /** Ids of what it was about, once it is known to be the caller's: for the log and the trace. */
  readonly subjects: { messageId?: string; attachmentId?: string; endpointId?: string; deliveryId?: string } = {}
  /** Headers that the answer is to have. */
  readonly headers: Record<string, string> = {}
  #tightest: Window | null = null

  constructor(of: Pick<CallState, "requestId" | "clientAddress" | "method" | "route" | "startedAt" | "startedNanos">) {
    this.requestId = of.requestId
    this.clientAddress = of.clientAddress
    this.method = of.method
    this.route = of.route
    this.startedAt = of.startedAt
    this.startedNanos = of.startedNanos
  }

  /** Takes in what guards have left; the client is told of the one with the fewest requests remaining. */
  guarded(standings: ReadonlyArray<Standing>): void {
    for (const { guard, remaining, resetMs } of standings) {
      this.#window({ limit: guard.limit, remaining, resetSeconds: Math.ceil(resetMs / 1000) })
    }
  }

  /** The answer to a refusal, and a note of it. */
  refuse<R extends Refusal>(refusal: R): Answer<CodeOf<R>> {
    if (refusal instanceof RateLimited) {
      this.#window({ limit: refusal.limit, remaining: 0, resetSeconds: refusal.retryAfterSeconds })
    }
    if (refusal instanceof HandshakesBusy) this.#window({ limit: refusal.limit, remaining: 0, resetSeconds: handshakeSeconds })
    if (refusal instanceof Unauthorized) this.reason = refusal.reason
    const refused = answer(refusal, this.requestId)
    this.code = refused.body.code
    Object.assign(this.headers, refused.headers)
    return refused
  }

  /** Notes what the request is about, once it is known to be the caller's. */
  about(subjects: CallState["subjects"]): void {
    Object.assign(this.subjects, subjects)
  }

  rateLimitHeaders(): Readonly<Record<string, string>> {
    if (this.#tightest === null) return {}
    const { limit, remaining, resetSeconds } = this.#tightest
    return {
      "ratelimit-limit": String(limit),
      "ratelimit-remaining": String(remaining),
      "ratelimit-reset": String(resetSeconds)
    }
  }

  #window(window: Window): void {
    if (this.#tightest === null || window.remaining <= this.#tightest.remaining) this.#tightest = window
  }
}

/**
 * Whom a host says that a request to its mounted handler comes from. Null: from the host's own process, and nobody outside
 * can have made it, so the IP guard lets it pass. What came in by a server of ours is from its peer.
 */
export const ClientAddress = Context.Reference<string | null>("mailroom/http/ClientAddress", { defaultValue: () => "unknown" })

/** The request that is being answered, for routes that are no operations. The pipeline puts it there for each. */
export const Call = Context.Reference<CallState>("mailroom/http/Call", {
  defaultValue: () => {
    throw new Error("no request is being answered here")
  }
})
