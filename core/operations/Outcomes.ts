/**
 * What outcomes bring with the message that they settle, whoever tells of them:
 * a submission, a provider's notification, a report about mail of ours.
 */
import { Effect } from "effect"
import * as Events from "../model/Event.ts"
import type { EventId, Millis } from "../model/Ids.ts"
import type { Message } from "../model/Message.ts"
import { suppressed, type Draft, type Outcome } from "../model/Settlement.ts"
import type { Crypto } from "../ports/Crypto.ts"
import type { Change } from "../ports/Store.ts"
import * as Metrics from "../Metrics.ts"

/** To be committed with the message as they settled it: its events, and the addresses that they take off our list. */
export const changesOf = Effect.fnUntraced(function* (
  crypto: typeof Crypto.Service,
  before: Message,
  settled: Message,
  { outcomes, drafts }: { readonly outcomes: ReadonlyArray<Outcome>; readonly drafts: ReadonlyArray<Draft> },
  at: Millis
) {
  const changes: Array<Change> = []
  for (const { type, sequence, fields } of drafts) {
    const id: EventId = yield* crypto.uuid
    changes.push({ _tag: "AppendEvent", event: Events.ofMessage(settled, sequence, type, id, at, fields) })
  }
  const { tenantId, environment, id: messageId } = before
  for (const { address, reason } of suppressed(before, outcomes)) {
    changes.push({ _tag: "Suppress", suppression: { tenantId, environment, address, reason, messageId, createdAt: at } })
  }
  return changes
})

/** Counts, once they are committed, the recipients that have come to another status; each is told of in an event, but for acceptance. */
export const count = ({ environment }: Message, outcomes: ReadonlyArray<Outcome>, drafts: ReadonlyArray<Draft>): Effect.Effect<void> => {
  const { sent, delivered, bounced, failed } = Metrics.recipients[environment]
  const accepted = outcomes.filter((one) => "input" in one && one.input._tag === "Accepted").length
  const of = (type: Draft["type"]) => drafts.filter((draft) => draft.type === type).length
  return Metrics.add(sent, accepted).pipe(
    Effect.andThen(Metrics.add(delivered, of("message.delivered"))),
    Effect.andThen(Metrics.add(bounced, of("message.bounced"))),
    Effect.andThen(Metrics.add(failed, of("message.failed")))
  )
}
