/** What a line of dev's output says of each event. */
import { assert, describe, it } from "@effect/vitest"
import { Console, Effect } from "effect"
import { TestClock } from "effect/testing"
import * as Fixtures from "../../conformance/fixtures.ts"
import * as Events from "../../core/model/Event.ts"
import * as EventSample from "../../core/model/EventSample.ts"
import type { ApplicationId, EventId, MailboxId, MessageId } from "../../core/model/Ids.ts"
import { Store, StoreUnavailable } from "../../core/ports/Store.ts"
import { follow, format } from "./Timeline.ts"

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

describe("the timeline", () => {
  it.effect("waits for a store that is away, and prints then what happened meanwhile", () =>
    Effect.gen(function* () {
      const { tenantId } = Fixtures.realm()
      const ids = { event: Fixtures.freshId<EventId>(), resource: Fixtures.freshId<MessageId>(), mailbox: Fixtures.freshId<MailboxId>() }
      const event = EventSample.make("message.sent", { tenantId, applicationId: Fixtures.freshId<ApplicationId>() }, ids, 45_000)
      const log = { ...event, shard: 0, position: 1n }
      let [isAway, hasHappened] = [false, false]
      const readLog = (_: number, after: bigint) =>
        Effect.suspend(() => (isAway ? Effect.fail(new StoreUnavailable({ cause: "restarting" })) : Effect.succeed(hasHappened && after < 1n ? [log] : [])))
      const store = { events: { readLog } } as unknown as Store["Service"] // all that is asked of it
      const lines: Array<unknown> = []
      const noted: Console.Console = Object.assign(Object.create(globalThis.console), { log: (line: unknown) => void lines.push(line) })
      const following = yield* follow(tenantId, []).pipe(
        Effect.provideService(Store, store),
        Effect.provideService(Console.Console, noted),
        Effect.forkChild({ startImmediately: true })
      )

      yield* TestClock.adjust("1 second")
      ;[isAway, hasHappened] = [true, true]
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual([following.pollUnsafe(), lines], [undefined, []])
      isAway = false
      yield* TestClock.adjust("1 second")

      assert.strictEqual(lines.length, 1)
      assert.include(String(lines[0]), "message.sent")
    })
  )
})
