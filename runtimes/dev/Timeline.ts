/** Prints each event of the log, and each attempt at a webhook, as one line a person can read, as it is committed. */
import { Console, Effect } from "effect"
import type { Attempt, Delivery } from "../../core/model/Delivery.ts"
import type { Endpoint } from "../../core/model/Endpoint.ts"
import type { LoggedEvent } from "../../core/model/Event.ts"
import { shardOf, type ApplicationId, type DeliveryId, type EndpointId, type Environment, type Realm, type TenantId } from "../../core/model/Ids.ts"
import { deliveryAttemptsMax } from "../../core/model/Limits.ts"
import * as Timestamp from "../../core/model/Timestamp.ts"
import { Store } from "../../core/ports/Store.ts"
import { oneLine } from "../TerminalText.ts"

/** `09:30:00.123  message.delivered   0199…a1b2  to ada@example.com` */
export const format = (event: LoggedEvent): string =>
  `${Timestamp.fromMillis(event.occurredAt).slice(11, 23)}  ${event.type.padEnd(22)}${event.resourceId}  ${oneLine(about(event))}`

const about = ({ data }: LoggedEvent): string => {
  if ("bounce" in data) return `${data.recipient}: ${data.bounce.class}, ${data.bounce.diagnostic ?? "no reason given"}`
  if ("failure" in data) return `${data.recipient ?? "all recipients"}: ${data.failure.message}`
  if ("recipient" in data) return `to ${data.recipient}`
  if ("provider" in data) return `by ${data.provider}, to ${data.recipients.join(", ")}`
  if ("requestId" in data) return `${data.from} → ${[...data.to, ...data.cc].join(", ")}: ${data.subject}`
  if ("receivedAt" in data) return `${data.from} → ${data.to.join(", ")}: ${data.subject}`
  if ("changed" in data) return data.changed.length === 0 ? "nothing changed" : `changed ${data.changed.join(", ")}`
  if ("domain" in data) return `${data.domain}: ${data.previousHealth} → ${data.health}`
  return "address" in data ? data.address : ""
}

/** `09:30:00.123  webhook 200            message.sent  http://127.0.0.1:8080/  attempt 1 of 5` */
const formatAttempt = (delivery: Delivery, attempt: Attempt, endpoint: Endpoint | null): string => {
  const result = attempt.responseStatus ?? attempt.outcome.replace("_", " ")
  const end = delivery.attempts.at(-1) === attempt && delivery.status === "dead" ? ", the last: dead" : ""
  const of = `attempt ${attempt.number} of ${deliveryAttemptsMax}${attempt.round > 1 ? `, replay ${attempt.round - 1}` : ""}${end}`
  const at = Timestamp.fromMillis(attempt.startedAt).slice(11, 23)
  return `${at}  ${`webhook ${result}`.padEnd(22)}${delivery.eventType}  ${endpoint?.url ?? delivery.endpointId}  ${of}`
}

const formatDisabled = ({ url, consecutiveFailures, disabledAt }: Endpoint): string =>
  `${Timestamp.fromMillis(disabledAt ?? 0).slice(11, 23)}  ${"endpoint disabled".padEnd(22)}${url}  after ${consecutiveFailures} failed attempts in a row`

/** Deliveries that are looked at: older ones are not what a person waits for. */
const deliveriesMax = 100

/** Prints the attempts at an application's newest deliveries, each once; none of those that it finds at first. */
const followAttempts = (store: Store["Service"], realm: Realm, applicationId: ApplicationId) => {
  const printed = new Map<DeliveryId, Attempt | undefined>()
  const disabled = new Set<EndpointId>()
  let isFirst = true
  const say = (line: string) => (isFirst ? Effect.void : Console.log(line))
  return Effect.gen(function* () {
    const page = yield* store.deliveries.page(realm, { applicationId, endpointId: null, limit: deliveriesMax })
    for (const delivery of page.toReversed()) {
      // A record's attempts are added to, so the last one seen tells what is new.
      const last = printed.get(delivery.id)
      const fresh = delivery.attempts.slice(delivery.attempts.findIndex((one) => isSame(one, last)) + 1)
      if (fresh.length === 0) continue
      const endpoint = yield* store.endpoints.get(realm, delivery.endpointId)
      for (const attempt of fresh) yield* say(formatAttempt(delivery, attempt, endpoint))
      printed.set(delivery.id, fresh.at(-1))
    }
    for (const endpoint of yield* store.endpoints.list(realm, applicationId)) {
      if (endpoint.enabled) disabled.delete(endpoint.id)
      else if (!disabled.has(endpoint.id)) {
        disabled.add(endpoint.id)
        yield* say(formatDisabled(endpoint))
      }
    }
    const shown = new Set(page.map(({ id }) => id))
    for (const id of printed.keys()) if (!shown.has(id)) printed.delete(id)
    isFirst = false
  })
}

const isSame = (left: Attempt, right: Attempt | undefined): boolean =>
  left.round === right?.round && left.number === right.number

/** Follows a tenant's log from its end, and the webhooks of its applications. */
export const follow = Effect.fnUntraced(function* (
  tenantId: TenantId,
  applications: ReadonlyArray<{ readonly id: ApplicationId; readonly environment: Environment }>
) {
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
  const attempts = applications.map(({ id, environment }) => followAttempts(store, { tenantId, environment }, id))
  yield* Effect.repeat(read, { until: (count) => count === 0 })
  yield* Effect.all(attempts)
  print = true
  const look = Effect.andThen(read, Effect.all(attempts))
  return yield* Effect.sleep("200 millis").pipe(
    // Whatever needs the store says that it is away; what happened meanwhile is printed when it is back.
    Effect.andThen(Effect.catchTag(look, "StoreUnavailable", () => Effect.void)),
    Effect.forever
  )
})
