/** What a client is told of the limits that its request has passed, or has not. */
import { assert, it } from "@effect/vitest"
import { RateLimited } from "../../core/operations/Access.ts"
import { HandshakesBusy } from "../../core/operations/Handshakes.ts"
import type { RequestId } from "../../core/model/Ids.ts"
import type { Standing } from "../../core/model/RateLimit.ts"
import { CallState } from "./Call.ts"

const callOf = () =>
  new CallState({ requestId: "r" as RequestId, clientAddress: "192.0.2.1", method: "GET", route: "/v1/mailboxes", startedAt: 0, startedNanos: 0n })

const standing = (scope: Standing["guard"]["scope"], limit: number, remaining: number, resetMs: number) =>
  ({ guard: { scope, limit }, remaining, resetMs }) as Standing // the call looks at no more of a guard

for (const [what, standings, refusal, told] of [
  ["nothing of limits before one was asked", [], null, undefined],
  ["of the guard with the fewest requests remaining", [standing("ip", 60, 5, 9_000), standing("key", 10, 2, 3_000), standing("tenant_day", 99, 3, 7_000)], null, "10 2 3"],
  ["of the later of two that are alike", [standing("ip", 60, 2, 9_000), standing("key", 10, 2, 3_000)], null, "10 2 3"],
  ["of a second that has begun as of a whole one", [standing("key", 10, 2, 3_001)], null, "10 2 4"],
  [
    "of the guard that refuses, whatever another has left",
    [standing("ip", 60, 0, 1_000)],
    new RateLimited({ scope: "tenant_day", limit: 99, windowSeconds: 86_400, retryAfterSeconds: 3_600 }),
    "99 0 3600"
  ],
  ["of the verifications under way that refuse one more", [standing("key", 10, 2, 3_000)], new HandshakesBusy({ limit: 5 }), "5 0 5"]
] as ReadonlyArray<readonly [what: string, standings: ReadonlyArray<Standing>, refusal: RateLimited | HandshakesBusy | null, told: string | undefined]>) {
  it(`A client is told ${what}`, () => {
    const call = callOf()
    call.guarded(standings)
    if (refusal !== null) call.refuse(refusal)

    const headers = call.rateLimitHeaders()
    assert.strictEqual(Object.keys(headers).length === 0 ? undefined : ["limit", "remaining", "reset"].map((name) => headers[`ratelimit-${name}`]).join(" "), told)
  })
}
