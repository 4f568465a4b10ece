/**
 * The published document (Spec 9), and what is true of every answer (Spec 7):
 * these checks come last, and judge all that was answered to the others.
 */
import { Effect, Redacted } from "effect"
import { NotApplicable } from "../Suite.ts"
import { Deployment, type Reply } from "./Deployment.ts"
import { faultsOf, type Resolve } from "./JsonSchema.ts"
import { check, type HttpSuite } from "./HttpCheck.ts"
import { type Broken, equal, fits, holds } from "./Law.ts"
import * as Shapes from "./Shapes.ts"
import { Traffic } from "./Traffic.ts"

/** Where each operation of the specification is. */
const operations = {
  listMailboxes: ["get", "/v1/mailboxes"],
  listDomains: ["get", "/v1/domains"],
  listMessages: ["get", "/v1/messages"],
  sendMessage: ["post", "/v1/messages"],
  getMessage: ["get", "/v1/messages/{messageId}"],
  updateMessage: ["patch", "/v1/messages/{messageId}"],
  uploadAttachment: ["post", "/v1/attachments"],
  downloadAttachment: ["get", "/v1/attachments/{attachmentId}/download"],
  listEvents: ["get", "/v1/events"],
  listWebhookEndpoints: ["get", "/v1/webhook-endpoints"],
  createWebhookEndpoint: ["post", "/v1/webhook-endpoints"],
  listWebhookDeliveries: ["get", "/v1/webhook-deliveries"],
  replayWebhookDelivery: ["post", "/v1/webhook-deliveries/{deliveryId}/replay"]
} as const

const member = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null && Object.hasOwn(value, name) ?
    (value as Readonly<Record<string, unknown>>)[name] // it has it
     :
    undefined

const at = (value: unknown, ...path: ReadonlyArray<string>): unknown => path.reduce(member, value)

const published = Effect.flatMap(Traffic, ({ document }) => document)

/** Answers of the operations, by the document's paths. */
const answers = (replies: ReadonlyArray<Reply>) => {
  const routes = Object.values(operations).map(([method, path]) => ({
    method,
    path,
    pattern: new RegExp(`^${path.replace(/\{[^}]+\}/g, "[^/]+")}$`)
  }))
  return replies.flatMap((reply) => {
    const path = reply.request.path.split("?")[0]!
    const route = routes.find((one) => one.method === reply.request.method.toLowerCase() && one.pattern.test(path))
    return route === undefined ? [] : [{ reply, route }]
  })
}

/** All answers so far; a run that has none has nothing to judge. */
const all = Effect.gen(function* () {
  const { replies } = yield* Deployment
  // The first one is the run's own look at the deployment.
  if (replies.length <= 1) {
    return yield* new NotApplicable({ reason: "nothing was answered before; run it with the other checks" })
  }
  return replies
})

const isError = (reply: Reply): boolean => reply.status >= 400

/** Every answer of a kind keeps a law; the first that does not is shown. */
const every = (isMeant: (reply: Reply) => boolean, judge: (reply: Reply) => Effect.Effect<unknown, Broken>) =>
  function* () {
    const meant = (yield* all).filter(isMeant)
    if (meant.length === 0) return yield* new NotApplicable({ reason: "no answer was of this kind" })
    for (const reply of meant) yield* judge(reply)
  }

export const suite: HttpSuite = {
  name: "contract",
  checks: [
    check(
      "Spec 9, 1",
      "the contract is published at /openapi.yaml, without a key: OpenAPI 3.1, version 1.0.0, all paths under /v1",
      function* () {
        const { document, reply } = yield* published
        yield* holds(
          reply,
          `openapi is 3.1, got ${String(at(document, "openapi"))}`,
          String(at(document, "openapi")).startsWith("3.1.")
        )
        yield* equal(reply, "info.version", at(document, "info", "version"), "1.0.0")
        yield* equal(
          reply,
          "paths outside of /v1",
          Object.keys(at(document, "paths") ?? {}).filter((path) => !path.startsWith("/v1/")),
          []
        )
      }
    ),

    check("Spec 4, Operations", "the contract has every operation at its place", function* () {
      const { document, reply } = yield* published
      for (const [operation, [method, path]] of Object.entries(operations)) {
        yield* equal(reply, `${method} ${path}`, at(document, "paths", path, method, "operationId"), operation)
      }
    }),

    check("Spec 9, 1", "every answer of this run fits the published schema of its operation and status", function* () {
      const { document } = yield* published
      const resolve: Resolve = (reference) =>
        reference.startsWith("#/") ?
          at(
            document,
            ...reference.slice(2).split("/").map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~"))
          ) :
          undefined
      const judged = answers(yield* all)
      if (judged.length === 0) return yield* new NotApplicable({ reason: "no operation was asked" })
      for (const { reply, route } of judged) {
        const responses = at(document, "paths", route.path, route.method, "responses")
        const response = member(responses, String(reply.status)) ?? member(responses, "default")
        yield* holds(reply, `${route.method} ${route.path} documents ${reply.status}`, response !== undefined)
        const schema = at(response, "content", "application/json", "schema")
        if (schema === undefined) continue
        const faults = faultsOf(schema, reply.json, resolve)
        yield* holds(reply, `the answer fits the document: ${faults.slice(0, 5).join("; ")}`, faults.length === 0)
      }
    }),

    check(
      "Spec 7, Envelope",
      "every error of this run is the envelope: code, message, requestId, error and details, and nothing else",
      every(isError, (reply) => fits(reply, reply.json, Shapes.ErrorBody))
    ),

    check(
      "Spec 7, Envelope",
      "every answer of this run carries X-Request-Id, which an error repeats as requestId",
      every(
        ({ request }) => request.path.startsWith("/v1/"),
        (reply) => {
          const id = reply.headers["x-request-id"]
          const isThere = holds(reply, "X-Request-Id is there", id !== undefined && id !== "")
          return isError(reply) ?
            Effect.andThen(isThere, equal(reply, "requestId is X-Request-Id", member(reply.json, "requestId"), id)) :
            isThere
        }
      )
    ),

    check("Spec 7, Envelope", "no two answers of this run have the same X-Request-Id", function* () {
      const seen = new Set<string>()
      for (const reply of yield* all) {
        const id = reply.headers["x-request-id"]
        if (id === undefined) continue
        yield* holds(reply, `X-Request-Id ${id} was there before`, !seen.has(id))
        seen.add(id)
      }
    }),

    check(
      "Spec 4",
      "every answer of this run to a request under /v1 is JSON, and says so",
      every(
        ({ request }) => request.path.startsWith("/v1/"),
        (reply) =>
          Effect.andThen(
            holds(
              reply,
              "Content-Type is application/json",
              /^application\/json *(;|$)/i.test(reply.headers["content-type"] ?? "")
            ),
            holds(reply, "the body is JSON", reply.json !== undefined)
          )
      )
    ),

    check(
      "Spec 7, 429",
      "every 429 of this run says when to come back: Retry-After, in seconds",
      every(
        ({ status }) => status === 429,
        (reply) =>
          holds(reply, "Retry-After is a number of seconds", /^[1-9]\d*$/.test(reply.headers["retry-after"] ?? ""))
      )
    ),

    check(
      "Spec 8 (decided)",
      "every success of this run tells the tightest limit: RateLimit-Limit, -Remaining and -Reset",
      every(
        ({ request, status }) => request.path.startsWith("/v1/") && status < 300,
        (reply) => {
          const [limit, remaining, reset] = ["limit", "remaining", "reset"].map((name) =>
            reply.headers[`ratelimit-${name}`]
          )
          const isCount = (text: string | undefined) => /^\d+$/.test(text ?? "")
          return holds(
            reply,
            "the three are whole numbers, and Remaining is within Limit",
            [limit, remaining, reset].every(isCount) && Number(remaining) <= Number(limit)
          )
        }
      )
    ),

    check("Spec 5, 1", "no answer of this run repeats a key", function* () {
      const { target } = yield* Deployment
      const keys = [target.key, target.otherKey, target.narrowKey].flatMap((
        key
      ) => (key === null ? [] : [Redacted.value(key)]))
      for (const reply of yield* all) {
        const text = `${reply.text} ${JSON.stringify(reply.headers)}`
        yield* holds(reply, "neither body nor headers hold the key", !keys.some((key) => text.includes(key)))
      }
    }),

    check("Spec 7", "no request of this run was answered with 500", function* () {
      for (const reply of yield* all) {
        yield* holds(reply, `a fault of the service, ${reply.status}`, reply.status < 500 || reply.status === 503)
      }
    })
  ]
}
