/** Who is let in, and what is answered to requests that reach no operation (Spec 5, Spec 7). */
import { Effect, Redacted } from "effect"
import { NotApplicable } from "../Suite.ts"
import { Deployment, type Request } from "./Deployment.ts"
import { check, type HttpSuite } from "./HttpCheck.ts"
import { answered, call, equal, holds, refused, refusedInput, status, withoutRequestId } from "./Law.ts"
import * as Shapes from "./Shapes.ts"
import { freshId } from "./Traffic.ts"

const mailboxes: Request = { method: "GET", path: "/v1/mailboxes" }

/** Requests whose credential is no good, by what is wrong with it. */
const credentials: ReadonlyArray<readonly [what: string, make: (key: string) => Partial<Request>]> = [
  ["no credential", () => ({})],
  ["a key without a scheme", (key) => ({ headers: { authorization: key } })],
  ["an empty Bearer token", () => ({ headers: { authorization: "Bearer " } })],
  ["Basic authentication", (key) => ({ headers: { authorization: `Basic ${btoa(`${key}:`)}` } })],
  ["a token that is no key", () => ({ headers: { authorization: "Bearer conformance" } })],
  ["a mistyped key", (key) => ({ headers: { authorization: `Bearer ${mistyped(key)}` } })],
  [
    "a key under the other environment's prefix",
    (key) => ({ headers: { authorization: `Bearer ${otherPrefix(key)}` } })
  ],
  ["two keys", (key) => ({ headers: { authorization: `Bearer ${key} ${key}` } })]
]

const mistyped = (key: string): string => `${key.slice(0, -1)}${key.endsWith("0") ? "1" : "0"}`

const otherPrefix = (key: string): string =>
  key.startsWith("svc_live_") ? key.replace("svc_live_", "svc_test_") : key.replace("svc_test_", "svc_live_")

const asNobody = (make: (key: string) => Partial<Request>) =>
  Effect.gen(function* () {
    const { target } = yield* Deployment
    return yield* call({ ...mailboxes, as: null, ...make(Redacted.value(target.key)) })
  })

const nowhere = "/v1/nothing-of-the-kind"

export const suite: HttpSuite = {
  name: "access",
  checks: [
    check("Spec 5, 1", "a key as Bearer token is let in", function* () {
      yield* status(yield* call(mailboxes), 200)
    }),

    ...credentials.map(([what, make]) =>
      check("Spec 5, 5", `${what} is answered 401 unauthorized`, function* () {
        const reply = yield* asNobody(make)
        yield* refused(reply, 401, "unauthorized")
        const challenge = reply.headers["www-authenticate"] ?? ""
        yield* holds(reply, "a 401 names the scheme: WWW-Authenticate: Bearer", /^bearer\b/i.test(challenge))
      })
    ),

    check("Spec 5, 1", "a key in the URL is not read", function* () {
      // Not a real key: URLs are in logs.
      const key = "svc_test_0000000000000000"
      yield* refused(
        yield* call({ ...mailboxes, as: null, path: `/v1/mailboxes?api_key=${key}&access_token=${key}` }),
        401,
        "unauthorized"
      )
    }),

    check("Spec 5, 5", "every 401 has the same body, whatever was wrong", function* () {
      const replies = yield* Effect.forEach(
        credentials.slice(0, 1).concat(credentials.slice(4, 7)),
        ([, make]) => asNobody(make)
      )
      for (const reply of replies) {
        yield* Effect.andThen(
          status(reply, 401),
          equal(
            reply,
            "the bodies of two 401s are equal but for requestId",
            withoutRequestId(reply),
            withoutRequestId(replies[0]!)
          )
        )
      }
    }),

    check(
      "Spec 5, 3",
      "a key without the scope is answered 403 insufficient_scope, with what is missing",
      function* () {
        const { target } = yield* Deployment
        if (target.narrowKey === null) {
          return yield* new NotApplicable({
            reason: "it takes a key without messages:send; pass one with --narrow-key-file"
          })
        }
        const reply = yield* call({
          method: "POST",
          path: "/v1/messages",
          as: "narrowKey",
          headers: { "idempotency-key": freshId() },
          json: {}
        })
        const details = yield* refused(reply, 403, "insufficient_scope")
        yield* equal(reply, "details name the scopes", details, {
          required: ["messages:send"],
          missing: ["messages:send"]
        })
      }
    ),

    check(
      "Spec 1, 1",
      "a tenant in the request changes nothing: it is ignored in a query, and refused in a body",
      function* () {
        const plain = yield* answered(yield* call(mailboxes), 200, Shapes.Mailboxes)
        const reply = yield* call({
          ...mailboxes,
          path: `/v1/mailboxes?tenantId=${freshId()}`,
          headers: { "x-tenant-id": freshId() }
        })
        yield* equal(reply, "the list is the same", yield* answered(reply, 200, Shapes.Mailboxes), plain)
        const json = { mailboxId: freshId(), isRead: true, tenantId: freshId() }
        yield* refusedInput(yield* call({ method: "PATCH", path: `/v1/messages/${freshId()}`, json }), "/tenantId")
      }
    ),

    check("Spec 7, 404", "a path that does not exist is answered 404 not_found, with or without a key", function* () {
      yield* refused(yield* call({ method: "GET", path: nowhere }), 404, "not_found")
      yield* refused(yield* call({ method: "POST", path: nowhere, as: null, json: {} }), 404, "not_found")
    }),

    ...([
      ["DELETE", "/v1/messages", ["GET", "POST"]],
      ["PUT", `/v1/messages/${freshId()}`, ["GET", "PATCH"]],
      ["POST", "/v1/mailboxes", ["GET"]],
      ["DELETE", "/v1/events", ["GET"]],
      ["GET", `/v1/webhook-deliveries/${freshId()}/replay`, ["POST"]]
    ] as const).map(([method, path, allowed]) =>
      check(
        "Spec 7 (decided), 405",
        `${method} ${path.replace(Shapes.uuidIn, "{id}")} is answered 405, and Allow names ${allowed.join(" and ")}`,
        function* () {
          const reply = yield* call({ method, path })
          yield* refused(reply, 405, "method_not_allowed")
          const allow = (reply.headers["allow"] ?? "").split(",").map((name) => name.trim())
          yield* equal(
            reply,
            "Allow names the methods",
            allow.filter((name) => name !== "HEAD" && name !== "OPTIONS").toSorted(),
            [...allowed]
          )
        }
      )
    ),

    check("Spec 4 (decided), 415", "a body that is not JSON by its media type is answered 415", function* () {
      const headers = { "content-type": "text/plain", "idempotency-key": freshId() }
      for (const path of ["/v1/messages", "/v1/attachments", "/v1/webhook-endpoints"]) {
        yield* refused(yield* call({ method: "POST", path, headers, body: "{}" }), 415, "unsupported_media_type")
      }
    }),

    check("Spec 4", "application/json with charset=utf-8 is JSON", function* () {
      const headers = { "content-type": "application/json; charset=utf-8" }
      const reply = yield* call({ method: "PATCH", path: `/v1/messages/${freshId()}`, headers, body: "{}" })
      yield* refused(reply, 400, "invalid_request")
    }),

    ...([["malformed JSON", '{"to":'], ["an empty body", ""], ["a list", "[]"]] as const).map(([what, body]) =>
      check("Spec 7, 400", `${what} is answered 400 invalid_request`, function* () {
        const reply = yield* call({
          method: "POST",
          path: "/v1/messages",
          headers: { "idempotency-key": freshId() },
          body
        })
        yield* refused(reply, 400, "invalid_request")
      })
    ),

    check(
      "Spec 7 (decided), 413",
      "a body larger than the operation takes is answered 413 payload_too_large",
      function* () {
        const reply = yield* call({
          method: "PATCH",
          path: `/v1/messages/${freshId()}`,
          json: { mailboxId: "x".repeat(70_000) }
        })
        yield* refused(reply, 413, "payload_too_large")
      }
    ),

    check(
      "Spec 7 (decided), order of refusal",
      "a bad credential goes before a bad body, and a bad body before an absent resource",
      function* () {
        const bad = {
          method: "PATCH",
          path: `/v1/messages/${freshId()}`,
          headers: { "content-type": "text/plain" },
          body: "x"
        }
        yield* refused(yield* call({ ...bad, as: null }), 401, "unauthorized")
        yield* refusedInput(
          yield* call({ ...bad, headers: {}, body: JSON.stringify({ mailboxId: freshId(), isRead: 1 }) }),
          "/isRead"
        )
      }
    ),

    check(
      "Spec 7 (decided), X-Request-Id",
      "a request id is the service's own, whatever the client sends",
      function* () {
        const given = freshId()
        const reply = yield* call({ ...mailboxes, headers: { "x-request-id": given } })
        yield* holds(
          reply,
          "X-Request-Id is there, and not the client's",
          ![undefined, given].includes(reply.headers["x-request-id"])
        )
      }
    )
  ]
}
