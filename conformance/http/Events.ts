/** The canonical events, page by page (Spec 2, Event; Spec 4, Pagination; Spec 6). */
import { DateTime, Effect } from "effect"
import { check, type HttpSuite } from "./HttpCheck.ts"
import { answered, call, equal, eventually, holds, refused, refusedInput } from "./Law.ts"
import * as Shapes from "./Shapes.ts"
import { Traffic } from "./Traffic.ts"

const list = (query = "") => call({ method: "GET", path: `/v1/events${query === "" ? "" : `?${query}`}` })

/** Pages of a run are few; a deployment that never comes to an end is broken. */
const pagesMax = 100

/** Every event from a cursor to null, and the last cursor that was not null. */
export const eventsSince = (start: string, limit: number) =>
  Effect.gen(function* () {
    const events: Array<Shapes.Event> = []
    let cursor = start
    for (let pages = 1;; pages++) {
      const reply = yield* list(`limit=${limit}&cursor=${encodeURIComponent(cursor)}`)
      const page = yield* answered(reply, 200, Shapes.EventPage)
      events.push(...page.items)
      yield* holds(reply, `a page has at most ${limit} items, got ${page.items.length}`, page.items.length <= limit)
      if (page.nextCursor === null) return { events, reply, resume: cursor }
      yield* holds(reply, "a cursor leads on", page.nextCursor !== cursor && page.items.length > 0)
      yield* holds(reply, `the end comes within ${pagesMax} pages`, pages < pagesMax)
      cursor = page.nextCursor
    }
  })

/** The time of the first event of this run's messages: what happened just before may be more than pages of two should hold. */
const firstOfRun = Effect.gen(function* () {
  const traffic = yield* Traffic
  const sent = yield* traffic.messages
  const { events, reply } = yield* eventsSince(yield* traffic.since, 100)
  const first = events.find(({ resourceId }) => sent.some(({ id }) => id === resourceId))
  yield* holds(reply, "the messages of this run have events", first !== undefined)
  return first!.occurredAt // there is one
})

const types = [
  "message.received",
  "message.queued",
  "message.sent",
  "message.delivered",
  "message.bounced",
  "message.failed",
  "message.updated",
  "mailbox.created",
  "mailbox.updated",
  "mailbox.suspended",
  "domain.health_changed"
]

export const suite: HttpSuite = {
  name: "events",
  checks: [
    check("Spec 2, Event", "events have six members, and data say the object and its id", function* () {
      const reply = yield* list("limit=100")
      const { items } = yield* answered(reply, 200, Shapes.EventPage)
      for (const { type, resourceType, resourceId, data } of items) {
        yield* equal(reply, `${type} is about the resource that its data name`, [data.object, data.id], [
          resourceType,
          resourceId
        ])
      }
    }),

    check(
      "Spec 6, Event types",
      "the types are those of the specification; the handshake's is none of them",
      function* () {
        const reply = yield* list("limit=100")
        const { items } = yield* answered(reply, 200, Shapes.EventPage)
        // Of later versions there may be more, but not of these resources.
        const strange = items.filter(({ type }) =>
          /^(message|mailbox|domain|webhook)\./.test(type) && !types.includes(type)
        )
        yield* equal(reply, "no other types", strange.map(({ type }) => type), [])
      }
    ),

    check(
      "Spec 6, Delivery semantics 8",
      "paging by two to null shows every event since a moment once, those of a message in their order",
      function* () {
        const traffic = yield* Traffic
        const [sent, since] = [yield* traffic.messages, yield* traffic.since]
        const wanted = sent.flatMap(({ id }) =>
          ["message.queued", "message.sent", "message.delivered"].map((type) => `${id} ${type}`)
        )
        const named = (events: ReadonlyArray<Shapes.Event>) => {
          const all = events.map(({ resourceId, type }) => `${resourceId} ${type}`).filter((name) =>
            wanted.includes(name)
          )
          return all.toSorted((left, right) =>
            wanted.findIndex((name) => name.startsWith(left.slice(0, 36))) -
            wanted.findIndex((name) => name.startsWith(right.slice(0, 36)))
          )
        }
        yield* eventually(
          "the messages of this run are delivered",
          "60 seconds",
          Effect.map(
            eventsSince(since, 100),
            ({ events }) => new Set(named(events)).size === wanted.length ? true : undefined
          )
        )
        const { events, reply } = yield* eventsSince(yield* firstOfRun, 2)
        yield* equal(reply, "no event is listed twice", new Set(events.map(({ id }) => id)).size, events.length)
        yield* equal(reply, "each message was queued, sent and delivered, in this order", named(events), wanted)
      }
    ),

    check("Spec 4, Pagination", "pages of two hold what one large page holds, in the same order", function* () {
      const since = yield* firstOfRun
      const { events: large } = yield* eventsSince(since, 100)
      const { events: small, reply } = yield* eventsSince(since, 2)
      const ids = small.map(({ id }) => id)
      yield* equal(
        reply,
        "the events that were there, in the same order",
        ids.slice(0, large.length),
        large.map(({ id }) => id)
      )
    }),

    check("Spec 4, Pagination", "the last cursor that was not null leads to what came since", function* () {
      const traffic = yield* Traffic
      const before = yield* eventsSince(yield* firstOfRun, 2)
      const { id: mailboxId } = yield* traffic.mailbox
      const reply = yield* traffic.send({ fromMailboxId: mailboxId, to: ["delivered@mail.example"], text: "later" })
      const { id } = yield* answered(reply, 202, Shapes.QueuedMessage)
      yield* eventually(
        "message.queued is listed behind the cursor",
        "15 seconds",
        Effect.map(
          eventsSince(before.resume, 100),
          ({ events }) => events.find(({ type, resourceId }) => type === "message.queued" && resourceId === id)
        )
      )
    }),

    check("Spec 4, cursor (events)", "an ISO 8601 timestamp is a cursor: events at that time or later", function* () {
      const traffic = yield* Traffic
      yield* traffic.messages
      const { events } = yield* eventsSince(yield* traffic.since, 100)
      const at = events[Math.floor(events.length / 2)]!.occurredAt
      const reply = yield* list(`limit=100&cursor=${encodeURIComponent(at)}`)
      const { items } = yield* answered(reply, 200, Shapes.EventPage)
      yield* holds(reply, `an event of ${at} is there`, items.some(({ occurredAt }) => occurredAt === at))
      const early = items.filter(({ occurredAt }) =>
        DateTime.toEpochMillis(DateTime.makeUnsafe(occurredAt)) < DateTime.toEpochMillis(DateTime.makeUnsafe(at))
      )
      yield* equal(reply, `none is from before ${at}`, early.map(({ occurredAt }) => occurredAt), [])
    }),

    check(
      "Spec 4, cursor (events)",
      "a timestamp in the future has nothing behind it, and nextCursor is null",
      function* () {
        const reply = yield* list(`cursor=${encodeURIComponent("2999-01-01T00:00:00+02:00")}`)
        yield* equal(reply, "the page", yield* answered(reply, 200, Shapes.EventPage), { items: [], nextCursor: null })
      }
    ),

    check(
      "Spec 4 (decided), cursor (events)",
      "a timestamp from before the retention is answered 400 invalid_cursor, expired",
      function* () {
        const reply = yield* list("cursor=2001-01-01T00:00:00Z")
        yield* equal(reply, "details", yield* refused(reply, 400, "invalid_cursor"), { reason: "expired" })
      }
    ),

    ...([["an empty cursor", ""], ["a cursor of 513 characters", "e".repeat(513)], [
      "a cursor that is none",
      "conformance"
    ]] as const).map(([what, cursor]) =>
      check("Spec 8, event cursor", `${what} is answered 400 invalid_cursor`, function* () {
        const reply = yield* list(`cursor=${cursor}`)
        yield* equal(reply, "details", yield* refused(reply, 400, "invalid_cursor"), { reason: "malformed" })
      })
    ),

    check("Spec 4, limit", "a page has at most 25 items unless another limit from 1 to 100 is asked for", function* () {
      const usual = yield* list()
      yield* holds(usual, "at most 25 items", (yield* answered(usual, 200, Shapes.EventPage)).items.length <= 25)
      yield* refusedInput(yield* list("limit=0"), "/limit")
      yield* refusedInput(yield* list("limit=101"), "/limit")
    })
  ]
}
