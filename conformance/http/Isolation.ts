/** What another key sees (Spec 1, point 1; Spec 5, point 5): nothing, and nobody tells it that there is anything. */
import { Effect, Redacted } from "effect"
import { NotApplicable } from "../Suite.ts"
import { Deployment, type Reply, type Request } from "./Deployment.ts"
import { check, type HttpSuite } from "./HttpCheck.ts"
import { answered, call, equal, holds, status, withoutRequestId } from "./Law.ts"
import * as Shapes from "./Shapes.ts"
import { freshId, Traffic } from "./Traffic.ts"

/** How the other key relates to the first, by what both are shown. */
const relation = Effect.gen(function* () {
  const { environment, target } = yield* Deployment
  if (target.otherKey === null) {
    return yield* new NotApplicable({
      reason: "it takes a key of another tenant, environment or application; pass one with --other-key-file"
    })
  }
  const own = yield* answered(yield* call({ method: "GET", path: "/v1/mailboxes" }), 200, Shapes.Mailboxes)
  const theirs = yield* answered(
    yield* call({ method: "GET", path: "/v1/mailboxes", as: "otherKey" }),
    200,
    Shapes.Mailboxes
  )
  const ids = new Set(own.items.map(({ id }) => id))
  const isSameTenant = theirs.items.some(({ id }) => ids.has(id))
  const isSameEnvironment = Redacted.value(target.otherKey).startsWith(
    environment === "sandbox" ? "svc_test_" : "svc_live_"
  )
  return { isSameTenant, isStranger: !isSameTenant || !isSameEnvironment }
})

const strangers = Effect.gen(function* () {
  const found = yield* relation
  if (!found.isStranger) {
    return yield* new NotApplicable({
      reason: "the other key is of the same tenant and environment, which share messages"
    })
  }
  return found
})

/** Ours under another key is answered as what is not there. */
const alike = (ours: Request, absent: Request) =>
  Effect.gen(function* () {
    const asOther = (request: Request): Request => ({ ...request, as: "otherKey" })
    const [reply, nothing] = [yield* call(asOther(ours)), yield* call(asOther(absent))]
    yield* status(reply, 404)
    yield* equal(
      reply,
      "the body is that of an absent one, but for requestId",
      withoutRequestId(reply),
      withoutRequestId(nothing)
    )
  })

const lists = (reply: Reply, ids: ReadonlyArray<string>, where: string) =>
  holds(reply, `${where} of another key hold nothing of this run`, !ids.some((id) => reply.text.includes(id)))

export const suite: HttpSuite = {
  name: "isolation",
  checks: [
    check(
      "Spec 1, 1",
      "another tenant's or environment's key lists none of the messages, events and endpoints",
      function* () {
        yield* strangers
        const ids = (yield* (yield* Traffic).messages).map(({ id }) => id)
        for (
          const path of [
            "/v1/messages?limit=100",
            "/v1/events?limit=100",
            "/v1/webhook-endpoints",
            "/v1/webhook-deliveries?limit=100"
          ]
        ) {
          const reply = yield* call({ method: "GET", path, as: "otherKey" })
          yield* status(reply, 200)
          yield* lists(reply, ids, path)
        }
      }
    ),

    check(
      "Spec 5, 5",
      "another tenant's or environment's key gets the same 404 for a message as for none",
      function* () {
        yield* strangers
        const { id } = (yield* (yield* Traffic).messages)[0]!
        const get = (of: string): Request => ({ method: "GET", path: `/v1/messages/${of}` })
        yield* alike(get(id), get(freshId()))
      }
    ),

    check("Spec 5, 5", "another tenant's or environment's key changes no message", function* () {
      const { isSameTenant } = yield* strangers
      const traffic = yield* Traffic
      const [{ id: mailboxId }, messages] = [yield* traffic.mailbox, yield* traffic.messages]
      const { id } = messages[0]!
      const read = Effect.flatMap(
        call({ method: "GET", path: `/v1/messages/${id}` }),
        (reply) => answered(reply, 200, Shapes.Got)
      )
      const before = yield* read
      const patch = (of: string): Request => ({
        method: "PATCH",
        path: `/v1/messages/${of}`,
        json: { mailboxId: isSameTenant ? mailboxId : freshId(), folder: "trash" }
      })
      yield* alike(patch(id), patch(freshId()))
      yield* equal(null, "the message is as it was", (yield* read).message.folder, before.message.folder)
    }),

    check("Spec 5, 5", "another tenant's or environment's key gets the same 404 for a file as for none", function* () {
      yield* strangers
      const { attachment } = yield* (yield* Traffic).file
      const get = (of: string): Request => ({ method: "GET", path: `/v1/attachments/${of}/download` })
      yield* alike(get(attachment.id), get(freshId()))
    }),

    check("Spec 1, 1", "another tenant's key sends from none of the mailboxes, and lists none", function* () {
      const { isSameTenant } = yield* relation
      if (isSameTenant) {
        return yield* new NotApplicable({ reason: "the other key is of the same tenant, which shares its mailboxes" })
      }
      const { id } = yield* (yield* Traffic).mailbox
      const send = (from: string): Request => ({
        method: "POST",
        path: "/v1/messages",
        headers: { "idempotency-key": freshId() },
        json: { fromMailboxId: from, to: ["delivered@mail.example"], text: "x" }
      })
      yield* alike(send(id), send(freshId()))
    }),

    check(
      "Spec 4, listWebhookEndpoints",
      "another application's key sees and replays nothing of the endpoint",
      function* () {
        yield* relation
        const { endpoint } = yield* (yield* Traffic).hook
        const listed = yield* call({ method: "GET", path: "/v1/webhook-endpoints", as: "otherKey" })
        yield* holds(
          listed,
          "its list does not hold the endpoint (is the other key of the same application?)",
          !listed.text.includes(endpoint.id)
        )
        const filter = (of: string): Request => ({ method: "GET", path: `/v1/webhook-deliveries?endpointId=${of}` })
        yield* alike(filter(endpoint.id), filter(freshId()))
        const { items } = yield* answered(
          yield* call({ method: "GET", path: `/v1/webhook-deliveries?endpointId=${endpoint.id}` }),
          200,
          Shapes.WebhookDeliveries
        )
        const [one] = items
        if (one === undefined) return
        const replay = (of: string): Request => ({ method: "POST", path: `/v1/webhook-deliveries/${of}/replay` })
        yield* alike(replay(one.id), replay(freshId()))
      }
    )
  ]
}
