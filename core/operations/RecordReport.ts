/**
 * What a report about mail of ours changes: a delivery status notification or
 * a complaint in, outcomes out. Whoever sends a report is a stranger, so it is
 * believed only about the message that its signed Return-Path names; or, where
 * it came to a mailbox, about a message of that mailbox's tenant whose whole
 * Message-ID it knows. Anything else changes nothing.
 *
 * The end depends on the set of reports, as with a provider's notifications.
 * What one says of a recipient whose submission has not been committed yet is
 * kept beside that recipient, and applied with the commit.
 */
import { Clock, Context, Effect, Layer } from "effect"
import { realmOf, type MessageId, type Millis } from "../model/Ids.ts"
import type { Message } from "../model/Message.ts"
import type { ParsedMessage } from "../model/ParsedMessage.ts"
import * as Reports from "../model/Report.ts"
import type { Report } from "../model/Report.ts"
import { outcomesOf } from "../model/ReportOutcomes.ts"
import { settle } from "../model/Settlement.ts"
import { Crypto } from "../ports/Crypto.ts"
import { JobQueue } from "../ports/JobQueue.ts"
import { Store, type StoreUnavailable } from "../ports/Store.ts"
import * as Metrics from "../Metrics.ts"
import * as Tracing from "../Tracing.ts"
import { changeRecord, commit } from "./Commit.ts"
import * as Outcomes from "./Outcomes.ts"

export class RecordReport extends Context.Service<
  RecordReport,
  {
    /** What came to the signed Return-Path of this message; `sender`: its own Return-Path, null for the null sender. */
    readonly ofReturnPath: (
      id: MessageId,
      sender: string | null,
      parsed: ParsedMessage
    ) => Effect.Effect<void, StoreUnavailable>
    /** What came to a mailbox, if it is a report about mail of its tenant. */
    readonly ofMailbox: (received: Message, parsed: ParsedMessage) => Effect.Effect<void, StoreUnavailable>
  }
>()("mailroom/core/operations/RecordReport") {
  static readonly layer = Layer.effect(
    RecordReport,
    Effect.gen(function* () {
      const store = yield* Store
      const queue = yield* JobQueue
      const crypto = yield* Crypto

      /** Applies a report to a message, read afresh. */
      const record = Effect.fnUntraced(
        function* (id: MessageId, report: Report, date: Millis | null) {
          const message = yield* store.messages.anywhere(id)
          if (message === null || message.direction !== "outbound") return
          const now = yield* Clock.currentTimeMillis
          const outcomes = outcomesOf(message, report, writtenAt(message, date, now))
          const { message: settled, drafts } = settle(message, outcomes, now)
          if (settled === message) return
          yield* commit(
            store,
            queue,
            [
              { _tag: "Update", kind: "message", record: settled },
              ...(yield* Outcomes.changesOf(crypto, message, settled, { outcomes, drafts }, now))
            ],
            []
          )
          yield* Outcomes.count(message, outcomes, drafts)
        },
        (effect, id) =>
          changeRecord(id, effect).pipe(
            Tracing.spanOf(id, "RecordReport.record", { "mailroom.message_id": id }),
            Effect.annotateLogs({ messageId: id })
          )
      )

      return RecordReport.of({
        ofReturnPath: Tracing.fn("RecordReport.ofReturnPath")(function* (id, sender, parsed) {
          const report = Reports.read(parsed, sender)
          yield* Metrics.count(Metrics.reports[report.kind])
          if (report.kind === "none") {
            return yield* Effect.logInfo("what came to a Return-Path is no report; it is dropped").pipe(Effect.annotateLogs({ messageId: id }))
          }
          yield* record(id, report, parsed.date)
        }),

        ofMailbox: Tracing.fn("RecordReport.ofMailbox")(function* (received, parsed) {
          const report = Reports.read(parsed, received.reception?.returnPath)
          const id = report.kind === "none" || isDoubtful(received) ? null : messageIdOf(report.originalMessageId)
          if (id === null) return
          const message = yield* store.messages.get(realmOf(received), id)
          if (message?.internetMessageId.toLowerCase() !== report.originalMessageId?.toLowerCase()) return
          yield* Metrics.count(Metrics.reports[report.kind])
          yield* record(id, report, parsed.date)
        })
      })
    })
  )
}

/** No signed address speaks for it, so what is spam, or not from whom it says, is not believed. */
const isDoubtful = ({ folder, reception }: Message): boolean =>
  folder === "spam" || ["fail", "permerror", "temperror"].includes(reception?.authentication?.dmarc ?? "none")

/** The message that a Message-ID of ours names; null for any other. */
const messageIdOf = (internetMessageId: string | null): MessageId | null => {
  const id = /^<([0-9a-f-]{36})@[^<>@]+>$/i.exec(internetMessageId ?? "")?.[1]?.toLowerCase()
  return id === undefined ? null : (id as MessageId) // looked up before anything is made of it
}

/** As the report says, where that is neither before the message nor in the future. */
const writtenAt = ({ acceptedAt }: Message, date: Millis | null, now: Millis): Millis =>
  Math.max(acceptedAt, Math.min(date ?? now, now))
