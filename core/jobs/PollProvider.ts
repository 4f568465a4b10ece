/** Asks a provider that does not push what became of a submission, and records what it says. */
import { Clock, Context, Effect, Layer } from "effect"
import type { MessageId } from "../model/Ids.ts"
import * as Message from "../model/Message.ts"
import { offer } from "../operations/Commit.ts"
import { JobQueue, type Lease } from "../ports/JobQueue.ts"
import { MailProviders } from "../ports/MailProvider.ts"
import { Store, type StoreUnavailable } from "../ports/Store.ts"
import { pollJob, RecordNotification } from "./RecordNotification.ts"
import { claimsMax } from "./SubmitMessage.ts"

/** Until the next question, when a provider does not answer. */
const pollRetry = 60_000

export class PollProvider extends Context.Service<
  PollProvider,
  { readonly handle: (lease: Lease) => Effect.Effect<void, StoreUnavailable> }
>()("mailroom/core/jobs/PollProvider") {
  static readonly layer = Layer.effect(
    PollProvider,
    Effect.gen(function* () {
      const store = yield* Store
      const queue = yield* JobQueue
      const providers = yield* MailProviders
      const notifications = yield* RecordNotification

      const ask = Effect.fnUntraced(function* (message: Message.Message, submission: Message.Submission, claims: number) {
        const provider = providers[message.environment]
        // A poll that never ends is given up: what the provider knows stays unknown, and nothing else suffers.
        if (provider === null || provider.name !== submission.provider || claims >= claimsMax) {
          return yield* notifications.recordPoll(submission, [], null)
        }
        const now = yield* Clock.currentTimeMillis
        const polled = yield* provider.poll(submission).pipe(
          Effect.catch((error) =>
            Effect.as(Effect.logWarning("the provider did not answer a poll", error.cause), {
              notifications: [],
              pollAt: now + pollRetry
            })
          )
        )
        yield* notifications.recordPoll(submission, polled.notifications, polled.pollAt)
      })

      return PollProvider.of({
        handle: Effect.fn("PollProvider.handle")(function* ({ job, claims }) {
          const message = yield* store.messages.get(job.realm, job.subject as MessageId)
          if (message === null) return
          const now = yield* Clock.currentTimeMillis
          for (const submission of message.submissions) {
            if (submission.pollAt !== null && submission.pollAt <= now) yield* ask(message, submission, claims)
          }
          const after = yield* store.messages.get(job.realm, message.id)
          const nextAt = after === null ? null : Message.nextPollAt(after)
          if (after !== null && nextAt !== null) yield* offer(queue, [pollJob(after, nextAt)])
        })
      })
    })
  )
}
