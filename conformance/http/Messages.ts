/** Reading, paging and flagging messages (Spec 2, Spec 3, Spec 4). */
import { DateTime, Effect } from "effect"
import { Deployment } from "./Deployment.ts"
import { eventsSince } from "./Events.ts"
import { check, type HttpSuite } from "./HttpCheck.ts"
import { answered, call, equal, eventually, holds, refused, refusedInput, status, withoutRequestId } from "./Law.ts"
import * as Shapes from "./Shapes.ts"
import { freshId, recipient, Traffic } from "./Traffic.ts"

const list = (query = "") => call({ method: "GET", path: `/v1/messages${query === "" ? "" : `?${query}`}` })

const get = (id: string) => call({ method: "GET", path: `/v1/messages/${id}` })

const patch = (id: string, json: unknown) => call({ method: "PATCH", path: `/v1/messages/${id}`, json })

/** Pages of a run are few; a deployment that never comes to an end is broken. */
const pagesMax = 60

/** Every page until the messages are older than `since`. */
const pagesBackTo = (since: string, query: string) =>
  Effect.gen(function* () {
    const items: Array<(typeof Shapes.MessagePage.Type)["items"][number]> = []
    let cursor = ""
    for (let pages = 0; pages < pagesMax; pages++) {
      const reply = yield* list(`${query}${cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`}`)
      const page = yield* answered(reply, 200, Shapes.MessagePage)
      items.push(...page.items)
      const last = page.items.at(-1)
      if (page.nextCursor === null || last === undefined || last.createdAt < since) return { items, reply }
      yield* holds(reply, "a cursor leads on", page.nextCursor !== cursor)
      cursor = page.nextCursor
    }
    return { items, reply: null }
  })

const flags = [{ isRead: false }, { isStarred: true }, { folder: "archive" }, {
  isRead: true,
  isStarred: false,
  folder: "sent"
}] as const

export const suite: HttpSuite = {
  name: "messages",
  checks: [
    check("Spec 2, Message page", "a page has items, each a summary, and nextCursor", function* () {
      const { environment } = yield* Deployment
      if (environment === "sandbox") yield* (yield* Traffic).messages
      yield* answered(yield* list("limit=5"), 200, Shapes.MessagePage)
    }),

    check("Spec 4, limit", "a page has at most 25 items unless another limit from 1 to 100 is asked for", function* () {
      const usual = yield* list()
      const { items } = yield* answered(usual, 200, Shapes.MessagePage)
      yield* holds(usual, `at most 25 items, got ${items.length}`, items.length <= 25)
      const small = yield* list("limit=1")
      yield* equal(
        small,
        "limit=1",
        (yield* answered(small, 200, Shapes.MessagePage)).items.length,
        Math.min(1, items.length)
      )
      yield* status(yield* list("limit=100"), 200)
    }),

    ...["0", "101", "-1", "x", "1.5"].map((limit) =>
      check("Spec 4, limit", `limit=${limit} is refused`, function* () {
        yield* refusedInput(yield* list(`limit=${limit}`), "/limit")
      })
    ),

    check("Spec 4, cursor (messages)", "a cursor that is no date-time is answered 400 invalid_cursor", function* () {
      const reply = yield* list("cursor=yesterday")
      yield* equal(reply, "details", yield* refused(reply, 400, "invalid_cursor"), { reason: "malformed" })
    }),

    check(
      "Spec 4, Pagination",
      "paging by two shows every message once, newest first, and each page's cursor is the next one's",
      function* () {
        const traffic = yield* Traffic
        const sent = yield* traffic.messages
        const { items, reply } = yield* pagesBackTo(yield* traffic.since, "limit=2")
        const times = items.map(({ createdAt }) => createdAt)
        yield* equal(reply, "createdAt falls strictly", times, [...new Set(times)].toSorted().toReversed())
        const ours = new Set(sent.map(({ id }) => id))
        yield* equal(
          reply,
          "the messages of this run are there, once each, in the order of their acceptance",
          items.map(({ id }) => id).filter((id) => ours.has(id)),
          sent.map(({ id }) => id).toReversed()
        )
      }
    ),

    check(
      "Spec 4, Pagination",
      "a cursor is an exclusive bound: what is newer or equal is not behind it",
      function* () {
        yield* (yield* Traffic).messages
        const first = yield* list("limit=2")
        const { nextCursor, items } = yield* answered(first, 200, Shapes.MessagePage)
        yield* holds(first, "nextCursor leads on after two of five", nextCursor !== null)
        const second = yield* list(`limit=2&cursor=${encodeURIComponent(nextCursor ?? "")}`)
        const { items: behind } = yield* answered(second, 200, Shapes.MessagePage)
        const oldest = items.at(-1)!.createdAt
        for (const { createdAt } of behind) {
          yield* holds(
            second,
            `${createdAt} is older than ${oldest}`,
            createdAt < oldest
          )
        }
      }
    ),

    check("Spec 4, listMessages", "a mailbox's messages can be had alone", function* () {
      const traffic = yield* Traffic
      const [{ id }, sent] = [yield* traffic.mailbox, yield* traffic.messages]
      const reply = yield* list(`limit=100&mailboxId=${id}`)
      const { items } = yield* answered(reply, 200, Shapes.MessagePage)
      yield* equal(reply, "all are of the mailbox", [...new Set(items.map(({ mailboxId }) => mailboxId))], [id])
      yield* holds(reply, "the newest message is there", items.some((item) => item.id === sent.at(-1)!.id))
    }),

    check(
      "Spec 4, listMessages",
      "a mailbox filter that is nobody's is answered 404, and one that is no UUID 400",
      function* () {
        const absent = yield* list(`mailboxId=${freshId()}`)
        yield* equal(absent, "details", yield* refused(absent, 404, "not_found"), { field: "mailboxId" })
        yield* refusedInput(yield* list("mailboxId=x"), "/mailboxId")
      }
    ),

    check("Spec 2, Message detail", "a message is shown as it was sent, with its MIME structure", function* () {
      const traffic = yield* Traffic
      const { id: mailboxId, address } = yield* traffic.mailbox
      const to = [recipient("delivered", "to")]
      const input = {
        fromMailboxId: mailboxId,
        to,
        cc: [recipient("delivered", "cc")],
        bcc: [recipient("delivered", "bcc")],
        subject: "Note G ✓",
        text: "The engine\nweaves",
        html: "<p>The engine weaves</p>"
      }
      const accepted = yield* traffic.send(input)
      const { id } = yield* answered(accepted, 202, Shapes.QueuedMessage)
      const reply = yield* get(id)
      const { message } = yield* answered(reply, 200, Shapes.Got)
      const { subject, text, html, direction, folder, requestId } = message
      yield* equal(reply, "what was sent", {
        subject,
        text,
        html,
        direction,
        folder,
        from: message.from.address,
        mailboxId: message.mailboxId
      }, {
        subject: input.subject,
        text: input.text,
        html: input.html,
        direction: "outbound",
        folder: "sent",
        from: address,
        mailboxId
      })
      yield* equal(reply, "requestId is the accepting request's", requestId, accepted.headers["x-request-id"])
      yield* equal(
        reply,
        "recipients and their roles",
        message.recipients.map((one) => `${one.role} ${one.address}`).toSorted(),
        [`bcc ${input.bcc[0]}`, `cc ${input.cc[0]}`, `to ${to[0]}`]
      )
      yield* equal(
        reply,
        "to, cc, bcc",
        [message.to, message.cc, message.bcc].map((list) => list.map((one) => one.address)),
        [to, input.cc, input.bcc]
      )
      yield* equal(reply, "text and HTML are alternatives", [
        message.mime.mediaType,
        ...message.mime.parts.map(({ mediaType }) => mediaType)
      ], ["multipart/alternative", "text/plain", "text/html"])
      yield* holds(
        reply,
        "no header tells of the hidden recipient",
        !JSON.stringify(message.headers).includes(input.bcc[0]!)
      )
    }),

    check(
      "Spec 5, 5",
      "an absent message is answered 404, alike for every id, and an id that is no UUID 400",
      function* () {
        const [one, other] = [yield* get(freshId()), yield* get(freshId())]
        yield* refused(one, 404, "not_found")
        yield* equal(other, "the bodies are equal but for requestId", withoutRequestId(other), withoutRequestId(one))
        yield* refusedInput(yield* get("x"), "/messageId")
      }
    ),

    ...flags.map((change) =>
      check(
        "Spec 4, updateMessage",
        `${Object.keys(change).join(", ")} can be set, and message.updated says so`,
        function* () {
          const traffic = yield* Traffic
          const [{ id: mailboxId }, sent] = [yield* traffic.mailbox, yield* traffic.messages]
          const { id } = sent[0]!
          const reply = yield* patch(id, { mailboxId, ...change })
          yield* equal(reply, "the answer", yield* answered(reply, 200, Shapes.Updated), { id, updated: true })
          const read = yield* get(id)
          const { message } = yield* answered(read, 200, Shapes.Got)
          const { isRead, isStarred, folder, updatedAt } = message
          for (const [name, value] of Object.entries(change)) {
            yield* equal(read, name, { isRead, isStarred, folder }[name], value)
          }
          const since = DateTime.formatIso(DateTime.subtract(DateTime.makeUnsafe(updatedAt), { seconds: 5 }))
          const event = yield* eventually(
            "message.updated is listed",
            "15 seconds",
            Effect.map(eventsSince(since, 100), ({ events }) =>
              events.findLast((one) => one.type === "message.updated" && one.resourceId === id))
          )
          const told = {
            isRead: event.data["isRead"],
            isStarred: event.data["isStarred"],
            folder: event.data["folder"]
          }
          yield* equal(null, "the last message.updated tells the flags", told, { isRead, isStarred, folder })
        }
      )
    ),

    ...([
      ["nothing to set", {}, ""],
      ["a folder that there is not", { folder: "outbox" }, "/folder"],
      ["a flag that is no boolean", { isRead: "true" }, "/isRead"],
      ["a missing mailbox", { mailboxId: undefined, isRead: true }, "/mailboxId"],
      ["a member that there is not", { isRead: true, status: "sent" }, "/status"]
    ] as const).map(([what, change, path]) =>
      check("Spec 4, UpdateMessageInput", `an update with ${what} is refused`, function* () {
        yield* refusedInput(yield* patch(freshId(), { mailboxId: freshId(), ...change }), path)
      })
    ),

    check(
      "Spec 5, 5",
      "an update of an absent message, or from a mailbox that is nobody's, is answered 404",
      function* () {
        const traffic = yield* Traffic
        const { id: mailboxId } = yield* traffic.mailbox
        yield* refused(yield* patch(freshId(), { mailboxId, isRead: true }), 404, "not_found")
        const reply = yield* patch((yield* traffic.messages)[0]!.id, { mailboxId: freshId(), isRead: true })
        yield* equal(reply, "details", yield* refused(reply, 404, "not_found"), { field: "mailboxId" })
      }
    )
  ]
}
