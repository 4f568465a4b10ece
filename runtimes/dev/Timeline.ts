/** Prints each event of the log as one line a person can read, as it is committed. */
import { Console, Effect } from "effect"
import type { LoggedEvent } from "../../core/model/Event.ts"
import { shardOf, type TenantId } from "../../core/model/Ids.ts"
import * as Timestamp from "../../core/model/Timestamp.ts"
import { Store } from "../../core/ports/Store.ts"

/** `09:30:00.123  message.delivered   0199…a1b2  to ada@example.com` */
export const format = (event: LoggedEvent): string =>
  `${Timestamp.fromMillis(event.occurredAt).slice(11, 23)}  ${event.type.padEnd(22)}${event.resourceId}  ${about(event)}`

const about = ({ data }: LoggedEvent): string => {
  if ("bounce" in data) return `${data.recipient}: ${data.bounce.class}, ${data.bounce.diagnostic ?? "no reason given"}`
  if ("failure" in data) return `${data.recipient ?? "all recipients"}: ${data.failure.message}`
  if ("recipient" in data) return `to ${data.recipient}`
  if ("provider" in data) return `by ${data.provider}, to ${data.recipients.join(", ")}`
  if ("requestId" in data) return `${data.from} → ${[...data.to, ...data.cc].join(", ")}: ${data.subject}`
  if ("changed" in data) return data.changed.length === 0 ? "nothing changed" : `changed ${data.changed.join(", ")}`
  if ("domain" in data) return `${data.domain}: ${data.previousHealth} → ${data.health}`
  return "address" in data ? data.address : ""
}

/** Follows a tenant's log from its end. */
export const follow = Effect.fnUntraced(function* (tenantId: TenantId) {
  const store = yield* Store
  const shard = shardOf(tenantId)
  let position = 0n
  let print = false
  const read = Effect.gen(function* () {
    const events = yield* store.events.readLog(shard, position, 500)
    for (const event of events) {
      position = event.position
      if (print && event.tenantId === tenantId) yield* Console.log(format(event))
    }
    return events.length
  })
  yield* Effect.repeat(read, { until: (count) => count === 0 })
  print = true
  return yield* Effect.forever(Effect.andThen(Effect.sleep("100 millis"), read))
})
