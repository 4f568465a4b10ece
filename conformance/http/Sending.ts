/** Sending: what is accepted, what is refused, and what a repeat does (Spec 4, SendMessageInput and Idempotency on send). */
import { Effect } from "effect"
import { codeOf } from "./Deployment.ts"
import { check, type HttpSuite } from "./HttpCheck.ts"
import { answered, call, equal, holds, refused, refusedInput, status } from "./Law.ts"
import * as Shapes from "./Shapes.ts"
import { freshId, type Input, recipient, Traffic } from "./Traffic.ts"

const one = recipient("delivered", "limits")
const times = <A>(count: number, value: A): ReadonlyArray<A> => Array.from({ length: count }, () => value)
const ids = (count: number): ReadonlyArray<string> => Array.from({ length: count }, freshId)

/** Inputs that break a rule, with where. */
const faults: ReadonlyArray<readonly [law: string, what: string, change: Input, path: string]> = [
  ["to", "no recipients", { to: [] }, "/to"],
  ["to", "a missing `to`", { to: undefined }, "/to"],
  ["to", "51 recipients in `to`", { to: times(51, one) }, "/to"],
  ["cc", "51 recipients in `cc`", { cc: times(51, one) }, "/cc"],
  ["bcc", "51 recipients in `bcc`", { bcc: times(51, one) }, "/bcc"],
  ["subject", "a subject of 999 characters", { subject: "x".repeat(999) }, "/subject"],
  ["subject", "a subject with a line break", { subject: "x\r\nBcc: eve@mail.example" }, "/subject"],
  ["text", "a text of 1,000,001 characters", { text: "x".repeat(1_000_001) }, "/text"],
  ["html", "an HTML text of 2,000,001 characters", { text: null, html: "x".repeat(2_000_001) }, "/html"],
  ["text", "neither text nor HTML", { text: undefined }, "/text"],
  ["text", "text and HTML that are null", { text: null, html: null }, "/text"],
  ["attachmentIds", "21 attachments", { attachmentIds: ids(21) }, "/attachmentIds"],
  ["attachmentIds", "an attachment id that is no UUID", { attachmentIds: ["x"] }, "/attachmentIds/0"],
  ["fromMailboxId", "a mailbox id that is no UUID", { fromMailboxId: "x" }, "/fromMailboxId"],
  ["fromMailboxId", "a missing mailbox", { fromMailboxId: undefined }, "/fromMailboxId"],
  ["no additional properties", "a member that there is not", { tenantId: freshId() }, "/tenantId"]
]

/** What is no bare address. */
const notAddresses = [
  "ada",
  "ada@",
  "@mail.example",
  "a da@mail.example",
  "Ada <ada@mail.example>",
  "ada@[127.0.0.1]",
  '"a b"@mail.example',
  "ada@mail.example\r\nBcc: eve@mail.example",
  `${"a".repeat(65)}@mail.example`
]

/** Inputs that go just as far as they may. */
const limits: ReadonlyArray<readonly [what: string, change: Input]> = [
  ["50 recipients in each of `to`, `cc` and `bcc`", { to: times(50, one), cc: times(50, one), bcc: times(50, one) }],
  ["a subject of 998 characters", { subject: "é".repeat(998) }],
  ["a text of 1,000,000 characters", { text: "x".repeat(1_000_000) }],
  ["an HTML text of 2,000,000 characters without a text", { text: null, html: "x".repeat(2_000_000) }],
  ["20 attachments", { attachmentIds: ids(20) }]
]

const message = (traffic: Traffic["Service"]) =>
  Effect.map(
    traffic.mailbox,
    ({ id }) => ({ fromMailboxId: id, to: [recipient("delivered", traffic.mark)], text: "The engine weaves" })
  )

export const suite: HttpSuite = {
  name: "sending",
  checks: [
    check(
      "Spec 2, Queued message",
      "an accepted send is answered 202 with id, object and status, and nothing else",
      function* () {
        const traffic = yield* Traffic
        const reply = yield* traffic.send(yield* message(traffic))
        yield* answered(reply, 202, Shapes.QueuedMessage)
        yield* holds(reply, "a first request is no replay", reply.headers["idempotent-replayed"] === undefined)
      }
    ),

    check(
      "Spec 4, Idempotency on send 2 and 3",
      "the same request under the same key is answered as the first, with Idempotent-Replayed: true",
      function* () {
        const traffic = yield* Traffic
        const [input, key] = [yield* message(traffic), freshId()]
        const first = yield* traffic.send(input, key)
        const { id } = yield* answered(first, 202, Shapes.QueuedMessage)
        // Logically the same: other order of members, and defaults spelled out.
        const again = yield* traffic.send({
          attachmentIds: [],
          html: null,
          cc: [],
          subject: "",
          ...Object.fromEntries(Object.entries(input).reverse())
        }, key)
        yield* status(again, 202)
        yield* equal(again, "the object is the first one's", again.json, { id, object: "message", status: "queued" })
        yield* equal(again, "Idempotent-Replayed", again.headers["idempotent-replayed"], "true")
      }
    ),

    check(
      "Spec 4, Idempotency on send 4",
      "a different request under the same key is answered 409 idempotency_conflict",
      function* () {
        const traffic = yield* Traffic
        const [input, key] = [yield* message(traffic), freshId()]
        yield* status(yield* traffic.send(input, key), 202)
        yield* refused(yield* traffic.send({ ...input, text: "The engine rests" }, key), 409, "idempotency_conflict")
      }
    ),

    check(
      "Spec 4, Idempotency on send 5",
      "twins sent at once make one message; whoever comes too early is told idempotency_pending",
      function* () {
        const traffic = yield* Traffic
        const [input, key] = [yield* message(traffic), freshId()]
        const replies = yield* Effect.forEach([1, 2, 3, 4], () => traffic.send(input, key), {
          concurrency: "unbounded"
        })
        const accepted = replies.filter((reply) => reply.status === 202)
        const made = yield* Effect.forEach(accepted, (reply) => answered(reply, 202, Shapes.QueuedMessage))
        yield* equal(accepted[0] ?? null, "one message was made", new Set(made.map(({ id }) => id)).size, 1)
        const firsts = accepted.filter(({ headers }) => headers["idempotent-replayed"] === undefined)
        yield* equal(accepted[0] ?? null, "one of the answers is no replay", firsts.length, 1)
        for (const reply of replies.filter((one) => one.status !== 202)) {
          yield* refused(reply, 409, "idempotency_pending")
          yield* holds(
            reply,
            "idempotency_pending comes with Retry-After",
            /^\d+$/.test(reply.headers["retry-after"] ?? "")
          )
        }
      }
    ),

    check("Spec 4 (decided), Idempotency", "a refused request leaves its key free", function* () {
      const traffic = yield* Traffic
      const [input, key] = [yield* message(traffic), freshId()]
      yield* refusedInput(yield* traffic.send({ ...input, to: [] }, key), "/to")
      const reply = yield* traffic.send(input, key)
      yield* status(reply, 202)
      yield* holds(reply, "it is no replay", reply.headers["idempotent-replayed"] === undefined)
    }),

    ...([7, 256] as const).map((length) =>
      check("Spec 4, Idempotency-Key", `an Idempotency-Key of ${length} characters is refused`, function* () {
        const { sendFromNobody } = yield* Traffic
        yield* refused(yield* sendFromNobody({}, "k".repeat(length)), 400, "invalid_idempotency_key")
      })
    ),

    ...([8, 255] as const).map((length) =>
      check("Spec 4, Idempotency-Key", `an Idempotency-Key of ${length} characters is taken`, function* () {
        const { sendFromNobody } = yield* Traffic
        yield* refused(yield* sendFromNobody({}, freshId().slice(0, 8).padEnd(length, "k")), 404, "not_found")
      })
    ),

    check("Spec 4, Idempotency-Key", "a send without an Idempotency-Key is refused", function* () {
      const json = { fromMailboxId: freshId(), to: [one], text: "x" }
      yield* refused(yield* call({ method: "POST", path: "/v1/messages", json }), 400, "invalid_idempotency_key")
    }),

    ...faults.map(([member, what, change, path]) =>
      check(
        `Spec 4, SendMessageInput: ${member}`,
        `${what} is answered 400 invalid_request, which points at ${path}`,
        function* () {
          const { sendFromNobody } = yield* Traffic
          yield* refusedInput(yield* sendFromNobody(change), path)
        }
      )
    ),

    check(
      "Spec 4, SendMessageInput: array of email",
      "what is no bare address is refused, wherever it stands",
      function* () {
        const { sendFromNobody } = yield* Traffic
        yield* refusedInput(
          yield* sendFromNobody({ to: [one, ...notAddresses] }),
          ...notAddresses.map((_, index) => `/to/${index + 1}`)
        )
        yield* refusedInput(yield* sendFromNobody({ cc: ["ada"], bcc: ["ada"] }), "/cc/0", "/bcc/0")
      }
    ),

    ...limits.map(([what, change]) =>
      check("Spec 8, send", `the limits let pass ${what}`, function* () {
        const { sendFromNobody } = yield* Traffic
        const reply = yield* sendFromNobody(change)
        // Nobody's mailbox is all that is wrong with it.
        yield* equal(reply, "the input is taken; only the mailbox is nobody's", [reply.status, codeOf(reply)], [
          404,
          "not_found"
        ])
      })
    ),

    check("Spec 4, SendMessageInput", "a message as large as its headers may be is accepted", function* () {
      const traffic = yield* Traffic
      const input = {
        ...(yield* message(traffic)),
        to: times(50, one),
        cc: times(50, one),
        bcc: times(50, one),
        subject: "x".repeat(998)
      }
      yield* answered(yield* traffic.send(input), 202, Shapes.QueuedMessage)
    }),

    check(
      "Spec 5, 5",
      "a mailbox that is not the tenant's is answered 404 not_found, which names the member",
      function* () {
        const { sendFromNobody } = yield* Traffic
        const reply = yield* sendFromNobody({})
        yield* equal(reply, "details name the member", yield* refused(reply, 404, "not_found"), {
          field: "fromMailboxId"
        })
      }
    ),

    check(
      "Spec 4, SendMessageInput",
      "an attachment that is not the tenant's is answered 404 not_found, which names the member",
      function* () {
        const traffic = yield* Traffic
        const reply = yield* traffic.send({ ...(yield* message(traffic)), attachmentIds: [freshId()] })
        const details = yield* refused(reply, 404, "not_found")
        yield* equal(reply, "details name the member", details["field"], "attachmentIds")
      }
    )
  ]
}
