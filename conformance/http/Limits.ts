/** The limits of a minute (Spec 8), which a run uses up only if it is told to. */
import { NotApplicable } from "../Suite.ts"
import { Deployment, type Reply } from "./Deployment.ts"
import { check, type HttpSuite } from "./HttpCheck.ts"
import { call, equal, holds, refused } from "./Law.ts"

/** More requests than this in a minute are not made to prove a limit. */
const requestsMax = 200

export const suite: HttpSuite = {
  name: "limits",
  checks: [
    check(
      "Spec 8, requests per minute",
      "requests beyond a minute's limit are answered 429 rate_limited, with when to come back",
      function* () {
        const { target } = yield* Deployment
        if (!target.mayExhaustLimits) {
          return yield* new NotApplicable({
            reason: "it would use up the key's requests of a minute; pass --exhaust-limits to let it"
          })
        }
        const request = { method: "GET", path: "/v1/mailboxes", takes429: true }
        const first = yield* call(request)
        const limit = Number(first.headers["ratelimit-limit"])
        if (limit > requestsMax) {
          return yield* new NotApplicable({
            reason: `the limit is ${limit} a minute; ${requestsMax} requests are made at most`
          })
        }
        let reply: Reply = first
        for (let count = 0; count <= limit && reply.status !== 429; count++) reply = yield* call(request)
        const details = yield* refused(reply, 429, "rate_limited")
        const seconds = Number(reply.headers["retry-after"])
        yield* holds(
          reply,
          "Retry-After is from 1 to 60 seconds",
          Number.isInteger(seconds) && seconds >= 1 && seconds <= 60
        )
        yield* equal(reply, "details.retryAfterSeconds is Retry-After", details["retryAfterSeconds"], seconds)
        yield* equal(reply, "details.windowSeconds", details["windowSeconds"], 60)
        yield* holds(reply, "details.scope says which guard", details["scope"] === "key" || details["scope"] === "ip")
      }
    )
  ]
}
