/** What a line of dev's output says of each event. */
import { assert, describe, it } from "@effect/vitest"
import * as Fixtures from "../../conformance/fixtures.ts"
import * as Events from "../../core/model/Event.ts"
import * as EventSample from "../../core/model/EventSample.ts"
import type { ApplicationId, EventId, MailboxId, MessageId } from "../../core/model/Ids.ts"
import { format } from "./Timeline.ts"

const lineOf = (type: Events.Type): string => {
  const ids = { event: Fixtures.freshId<EventId>(), resource: Fixtures.freshId<MessageId>(), mailbox: Fixtures.freshId<MailboxId>() }
  const of = { tenantId: Fixtures.realm().tenantId, applicationId: Fixtures.freshId<ApplicationId>() }
  return format({ ...EventSample.make(type, of, ids, 45_000), shard: 0, position: 1n })
}

describe("a line of the timeline", () => {
  it("says when, what, of whom, and what of it, whatever the event is", () => {
    for (const type of Events.types) {
      assert.match(lineOf(type), new RegExp(`^00:00:45\\.000  ${type.replace(".", "\\.")} +[0-9a-f-]{36}  \\S`))
    }
  })

  it("says from whom to whom mail goes and comes, and what about", () => {
    assert.match(lineOf("message.queued"), /  ada@example\.com → charles@example\.com: A test event$/)
    assert.match(lineOf("message.received"), /  charles@example\.com → ada@example\.com: A test event$/)
  })
})
