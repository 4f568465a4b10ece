/** Asks a provider that does not push what became of a submission, and records what it says. */
import { Clock, Context, Duration, Effect, Layer } from "effect"
import type { MessageId, Millis } from "../model/Ids.ts"
import { claimsMax, notificationRetention } from "../model/Limits.ts"
import * as Message from "../model/Message.ts"
import { offer } from "../operations/Commit.ts"
import { pollJob, RecordNotification } from "../operations/RecordNotification.ts"
import { JobQueue, type Lease } from "../ports/JobQueue.ts"
import { MailProviderUnavailable, MailProviders, type MailProvider } from "../ports/MailProvider.ts"
import * as Tracing from "../Tracing.ts"
import { Store, type StoreUnavailable } from "../ports/Store.ts"
import { asPort, pollTime, portBroken } from "./SubmissionAttempt.ts"

const pollTimeout = Duration.minutes(1)

/**
 * When to ask again a provider that did not answer, is not there, or names a
 * time that is not ahead: ever less often, and not at all once the submission
 * is 48 h old.
 */
const retryAt = (submittedAt: Millis, now: Millis): Millis | null =>
  now - submittedAt >= notificationRetention ? null : now + Math.max(60_000, Math.floor((now - submittedAt) / 4))

type Polled = Effect.Success<ReturnType<MailProvider["poll"]>>

/** What a provider has answered, as it can be kept: without a time to ask again, it is not asked again. */
const understood = (polled: Polled): Effect.Effect<Polled> => {
  const { notifications, pollAt }: { readonly [M in keyof Polled]?: unknown } = polled ?? {}
  const sound: Polled = { notifications: Array.isArray(notifications) ? notifications : [], pollAt: pollTime(pollAt) }
  const isSound = sound.notifications === notifications && sound.pollAt === pollAt
  return isSound ? Effect.succeed(polled) : Effect.as(Effect.logWarning(portBroken), sound)
}

export class PollProvider extends Context.Service<
  PollProvider,
  {
    /** Polls what is due of the job's message. Fails only if the store does; a provider that is away is asked again. */
    readonly handle: (lease: Lease) => Effect.Effect<void, StoreUnavailable>
  }
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
        const now = yield* Clock.currentTimeMillis
        const again = { notifications: [], pollAt: retryAt(submission.submittedAt, now) }
        // A poll that breaks every worker is given up: what the provider knows stays unknown, and nobody else suffers.
        if (claims >= claimsMax) return yield* notifications.recordPoll(message, submission, [], null)
        // Another process may have the provider that took it; here it is asked later.
        if (provider === null || provider.name !== submission.provider) {
          return yield* notifications.recordPoll(message, submission, [], again.pollAt)
        }
        const polled = yield* asPort(() => provider.poll(submission)).pipe(
          Effect.timeoutOrElse({
            duration: pollTimeout,
            orElse: () => Effect.fail(new MailProviderUnavailable({ cause: "no answer in time" }))
          }),
          Tracing.span("MailProvider.poll", "client", { "mailroom.provider": provider.name }),
          Effect.flatMap(understood),
          Effect.catch((error) => Effect.as(Effect.logWarning("the provider did not answer a poll", error.cause), again))
        )
        // Else it would be asked as fast as it answers, and for ever.
        const pollAt = polled.pollAt !== null && polled.pollAt <= now ? again.pollAt : polled.pollAt
        yield* notifications.recordPoll(message, submission, polled.notifications, pollAt)
      })

      return PollProvider.of({
        handle: Tracing.fn("PollProvider.handle")(function* ({ job, claims }) {
          const message = yield* store.messages.get(job.realm, job.subject as MessageId) // by its kind
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
