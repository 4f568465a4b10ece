/** What a line of dev's output says of each event. */
import { assert, describe, it } from "@effect/vitest"
import * as Fixtures from "../../conformance/fixtures.ts"
import * as Events from "../../core/model/Event.ts"
import * as EventSample from "../../core/model/EventSample.ts"
import type { ApplicationId, EventId, MailboxId, MessageId } from "../../core/model/Ids.ts"
import { format } from "./Timeline.ts"

const lineOf = (type: Events.Type, over: object = {}): string => {
  const ids = { event: Fixtures.freshId<EventId>(), resource: Fixtures.freshId<MessageId>(), mailbox: Fixtures.freshId<MailboxId>() }
  const of = { tenantId: Fixtures.realm().tenantId, applicationId: Fixtures.freshId<ApplicationId>() }
  const event = EventSample.make(type, of, ids, 45_000)
  return format({ ...event, data: { ...event.data, ...over }, shard: 0, position: 1n })
}

describe("a line of the timeline", () => {
  it("says when, what, of whom, and what of it, whatever the event is", () => {
    for (const type of Events.types) {
      assert.match(lineOf(type), new RegExp(`^00:00:45\\.000  ${type.replace(".", "\\.")} +[0-9a-f-]{36}  \\S`))
    }
  })

  it("is one line, and has nothing that a terminal would obey, whatever a stranger has written", () => {
    const line = lineOf("message.received", { subject: "A\u001b[2J\nB\u009b31m \u202egnp.exe" })

    assert.include(line, String.raw`: A\u001b[2J B\u009b31m \u202egnp.exe`)
  })

  it("says from whom to whom mail goes and comes, and what about", () => {
    assert.match(lineOf("message.queued"), /  ada@example\.com → charles@example\.com: A test event$/)
    assert.match(lineOf("message.received"), /  charles@example\.com → ada@example\.com: A test event$/)
  })
})
