/** What becomes of a message: the recipients of the sandbox bring about each outcome (Spec 3, Outbound message). */
import { Effect } from "effect"
import { eventsSince } from "./Events.ts"
import { check, type HttpSuite } from "./HttpCheck.ts"
import { answered, call, equal, eventually, fits } from "./Law.ts"
import * as Shapes from "./Shapes.ts"
import { type Outcome, recipient, Traffic } from "./Traffic.ts"

const message = (id: string) =>
  Effect.gen(function* () {
    const reply = yield* call({ method: "GET", path: `/v1/messages/${id}` })
    return { reply, ...(yield* answered(reply, 200, Shapes.Got)) }
  })

/** The message once it has come to a status. */
const becomes = (id: string, status: string, within: "30 seconds" | "60 seconds" = "30 seconds") =>
  eventually(
    `the message is ${status}`,
    within,
    Effect.map(message(id), (read) => (read.message.status === status ? read : undefined))
  )

const eventsOf = (id: string) =>
  Effect.gen(function* () {
    const { events } = yield* eventsSince(yield* (yield* Traffic).since, 100)
    return events.filter(({ resourceId, type }) => resourceId === id && type !== "message.updated")
  })

/** An event is listed with the commit that makes its transition; the waiting is for deployments of several processes. */
const tells = (id: string, types: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    yield* eventually(
      `${types.at(-1)} is listed`,
      "15 seconds",
      Effect.map(eventsOf(id), (events) => events.length >= types.length ? true : undefined)
    )
    const events = yield* eventsOf(id)
    yield* equal(null, "the events of the message", events.map(({ type }) => type), types)
    const sequence = events.map(({ data }) => Number(data["sequence"]))
    yield* equal(null, "their sequence rises", sequence, sequence.toSorted((left, right) => left - right))
    return events
  })

interface Row {
  readonly outcome: Outcome
  readonly status: string
  readonly types: ReadonlyArray<string>
  readonly bounceClass?: string
  readonly failureStage?: string
  readonly within?: "60 seconds"
}

const rows: ReadonlyArray<Row> = [
  { outcome: "delivered", status: "delivered", types: ["queued", "sent", "delivered"] },
  { outcome: "bounced", status: "bounced", types: ["queued", "sent", "bounced"], bounceClass: "permanent" },
  { outcome: "bounced-soft", status: "bounced", types: ["queued", "sent", "bounced"], bounceClass: "transient" },
  { outcome: "failed", status: "failed", types: ["queued", "sent", "failed"], failureStage: "provider" },
  { outcome: "duplicate", status: "delivered", types: ["queued", "sent", "delivered"] },
  {
    outcome: "late-bounce",
    status: "bounced",
    types: ["queued", "sent", "delivered", "bounced"],
    bounceClass: "permanent",
    within: "60 seconds"
  },
  { outcome: "delayed", status: "delivered", types: ["queued", "sent", "delivered"], within: "60 seconds" }
]

const Bounce = Shapes.open({ bounce: Shapes.open({ class: Shapes.Text }) })
const Failure = Shapes.open({ failure: Shapes.open({ stage: Shapes.Text, code: Shapes.Text, message: Shapes.Text }) })

export const suite: HttpSuite = {
  name: "outcomes",
  checks: [
    ...rows.map(({ outcome, status, types, bounceClass, failureStage, within }) =>
      check("Spec 3, Outbound message", `mail to ${outcome}@ becomes ${status}: ${types.join(", ")}`, function* () {
        const { id } = (yield* (yield* Traffic).outcomes)[outcome]
        const { reply, message } = yield* becomes(id, status, within)
        yield* equal(reply, "the recipient's status", message.recipients.map((one) => one.status), [status])
        yield* equal(reply, "the recipient's bounceClass", message.recipients[0]?.bounceClass, bounceClass ?? null)
        const events = yield* tells(id, types.map((type) => `message.${type}`))
        const last = events.at(-1)
        if (bounceClass !== undefined) {
          yield* equal(
            null,
            "message.bounced tells the class",
            (yield* fits(null, last?.data, Bounce)).bounce.class,
            bounceClass
          )
        }
        if (failureStage !== undefined) {
          yield* equal(
            null,
            "message.failed tells the stage",
            (yield* fits(null, last?.data, Failure)).failure.stage,
            failureStage
          )
        }
      })
    ),

    check(
      "Spec 3 (decided), Outbound message",
      "the worst outcome of its recipients is the message's, and each has an event of its own",
      function* () {
        const traffic = yield* Traffic
        const to = ["delivered", "bounced"].map((outcome) => recipient(outcome, `${traffic.mark}-both`))
        const sent = yield* traffic.send({ fromMailboxId: (yield* traffic.mailbox).id, to, text: "x" })
        const { id } = yield* answered(sent, 202, Shapes.QueuedMessage)
        const read = yield* eventually(
          "both recipients have an outcome",
          "30 seconds",
          Effect.map(
            message(id),
            (read) =>
              read.message.recipients.every((one) => ["delivered", "bounced"].includes(one.status)) ? read : undefined
          )
        )
        yield* equal(read.reply, "the recipients", read.message.recipients.map((one) => [one.address, one.status]), [[
          to[0],
          "delivered"
        ], [to[1], "bounced"]])
        yield* equal(read.reply, "the message", read.message.status, "bounced")
        const events = yield* eventually(
          "both events are listed",
          "15 seconds",
          Effect.map(eventsOf(id), (events) => (events.length >= 4 ? events : undefined))
        )
        const told = events.slice(2).map(({ type, data }) => `${type} ${String(data["recipient"])}`)
        yield* equal(null, "an event for each recipient", told.toSorted(), [
          `message.bounced ${to[1]}`,
          `message.delivered ${to[0]}`
        ])
      }
    )
  ]
}
