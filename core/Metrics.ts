/**
 * What the core counts and measures, in Prometheus' conventions. Every series
 * is named here with all its label values: none comes from a caller, so none
 * holds a tenant, an address, an id or a URL, and their number is bounded.
 *
 * Where they are kept is Effect's `Metric.MetricRegistry`; who reads them is a
 * runtime's business.
 */
import { Clock, Context, Effect, Exit, Metric } from "effect"
import { Outcome } from "./model/Delivery.ts"
import { Environment } from "./model/Ids.ts"
import { handshakeFaults } from "./model/Webhook.ts"
import { jobKinds } from "./ports/JobQueue.ts"
import type { Forgettable } from "./ports/Store.ts"

/** One series for each value of a label. */
export const each = <const K extends string, A>(values: ReadonlyArray<K>, make: (value: K) => A): { readonly [P in K]: A } =>
  Object.fromEntries(values.map((value) => [value, make(value)])) as { readonly [P in K]: A } // one for each

const series: Array<Metric.Metric<number, unknown>> = []

const counter = (name: string, description: string, attributes: Metric.Metric.AttributeSet = {}): Metric.Counter<number> => {
  const made = Metric.counter(`mailroom_${name}_total`, { description, attributes, incremental: true })
  series.push(made)
  return made
}

const histogram = (name: string, description: string, boundaries: ReadonlyArray<number>): Metric.Histogram<number> => {
  const made = Metric.histogram(`mailroom_${name}_seconds`, { description, boundaries })
  series.push(made)
  return made
}

/** Seconds, for what answers within a request. */
export const quick = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]
/** Seconds, for what waits for others on the network. */
export const slow = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120]

export const messagesAccepted = each(Environment.literals, (environment) =>
  counter("messages_accepted", "Messages answered with 202 and committed. Replays of a request do not count.", { environment })
)

export const messagesReceived = each(Environment.literals, (environment) =>
  counter("messages_received", "Inbound messages taken and committed, one for each mailbox.", { environment })
)

/** `unavailable`: the provider was not reached, or the message's bytes were not. */
export const submissionOutcomes = ["accepted", "transient", "permanent", "unavailable"] as const
export const submissions = each(Environment.literals, (environment) =>
  each(submissionOutcomes, (outcome) =>
    counter("submissions", "Submissions to a mail provider by outcome; accepted, if it took any recipient.", { environment, outcome })
  )
)
export const submissionDuration = histogram("submission_duration", "How long mail providers took to answer a submission.", slow)

export const recipients = each(Environment.literals, (environment) =>
  each(["sent", "delivered", "bounced", "failed"], (status) =>
    counter("recipients", "Recipients that have come to a status; a late bounce counts twice.", { environment, status })
  )
)

export const webhookAttempts = each(Outcome.literals, (outcome) =>
  counter("webhook_attempts", "Attempts at webhook deliveries by outcome.", { outcome })
)
export const webhookAttemptDuration = histogram("webhook_attempt_duration", "How long attempts at webhook deliveries took.", slow)
export const deliveriesEnded = each(["delivered", "dead"], (status) =>
  counter("webhook_deliveries_ended", "Webhook deliveries that have ended. A replayed one ends again.", { status })
)
export const deliveriesMade = counter("webhook_deliveries_made", "Webhook deliveries made of events by the relay.")
export const eventsRelayed = counter("events_relayed", "Events that the relay has turned into deliveries, or into none.")
export const endpointsDisabled = counter("webhook_endpoints_disabled", "Webhook endpoints disabled after ten failed attempts in a row.")
export const handshakes = each(["verified", ...handshakeFaults], (result) =>
  counter("webhook_handshakes", "Verifications of webhook receivers by result.", { result })
)

export const reports = each(["bounce", "delay", "delivered", "complaint", "none"], (kind) =>
  counter("reports", "Reports about mail of ours that came by mail; none: what came to a Return-Path and is no report.", { kind })
)

export const inboundConnections = each(["accepted", "refused"], (result) =>
  counter("inbound_connections", "Connections of those who bring mail; refused, if there were too many.", { result })
)
/** `taken`: answered with 250 and committed. `unavailable`: to be tried again. `broken`: its end never came. */
export const inboundMessages = each(["taken", "refused", "unavailable", "broken"], (outcome) =>
  counter("inbound_messages", "Messages that were brought, by outcome.", { outcome })
)

export const scans = each(["clean", "infected", "error"], (verdict) =>
  counter("attachment_scans", "Scans of attachments by verdict.", { verdict })
)
export const scanDuration = histogram("attachment_scan_duration", "How long scans of attachments took.", slow)

export const rateLimited = each(["ip", "key", "tenant_day", "handshake", "mailbox"], (scope) =>
  counter("rate_limited", "Requests refused by a limit, by the limit's scope.", { scope })
)
/** `hash`: by an Argon2id hash. `proof`: known again without one. */
export const keyVerifications = each(["hash", "proof", "refused"], (result) =>
  counter("api_key_verifications", "Credentials looked at: verified by a hash, known again by a proof, or refused.", { result })
)

export const claimsUnavailable = counter("job_claims_unavailable", "Claims of jobs that the queue did not answer.")
export const jobsClaimed = each(jobKinds, (kind) => counter("jobs_claimed", "Jobs that the queue handed to this process.", { kind }))
/** `postponed`: the store, the blobs, the queue or a key could not serve it. `lost`: another worker has its lease by now. `broken`: left to its lease. */
export const jobResults = ["completed", "postponed", "lost", "broken"] as const
export const jobsEnded = each(jobKinds, (kind) =>
  each(jobResults, (result) => counter("jobs_ended", "Jobs that this process has done with, by result.", { kind, result }))
)
export const jobsOffered = each(jobKinds, (kind) =>
  counter("jobs_offered_again", "Jobs that the sweep offered, because the queue may have lost them.", { kind })
)

/** `reason` of a rejection, in lower case, or how it ended else. */
export const commitResults = ["committed", "version_moved", "key_taken", "quota_exceeded", "duplicate", "unavailable"] as const
export const commits = each(commitResults, (result) => counter("store_commits", "Commits by result.", { result }))
export const commitDuration = histogram("store_commit_duration", "How long commits took.", quick)

const retained = ["events", "reservations", "notifications", "requests", "quotas", "deliveries", "payloads", "messages", "attachments"] as const satisfies ReadonlyArray<Forgettable>
export const retentionRemoved = each([...retained, "blobs"], (log) =>
  counter("retention_removed", "Rows and blobs that had had their time and were removed.", { log })
)

/** `refused`: not authentic, or not for this account. `unavailable`: it could not be verified or committed, and is to come again. */
export const intakeResults = ["recorded", "refused", "unavailable"] as const
export const intakes = each(intakeResults, (result) =>
  counter("provider_notifications", "Requests of providers that notify, by result.", { result })
)

/** Makes every series known to a registry, so that each is there from the start, at 0. */
export const declare = (context: Context.Context<never>): void => {
  for (const one of series) one.valueUnsafe(context)
}

/** Counts one. */
export const count = (metric: Metric.Counter<number>): Effect.Effect<void> => add(metric, 1)

/** Counts so many. */
export const add = (metric: Metric.Counter<number>, amount: number): Effect.Effect<void> =>
  Effect.withFiber((fiber) => {
    metric.updateUnsafe(amount, fiber.context)
    return Effect.void
  })

/** Measures how long an effect takes, however it ends, unless it is interrupted; and counts it, by how it ends. */
export const timed =
  <A, E>(metric: Metric.Histogram<number>, counterOf?: (exit: Exit.Exit<A, E>) => Metric.Counter<number>) =>
  <R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.withFiber((fiber) => {
      const clock = fiber.getRef(Clock.Clock)
      const begun = clock.monotonicTimeNanosUnsafe()
      return Effect.onExit(self, (exit) => {
        if (!Exit.hasInterrupts(exit)) {
          metric.updateUnsafe(Number(clock.monotonicTimeNanosUnsafe() - begun) / 1e9, fiber.context)
          counterOf?.(exit).updateUnsafe(1, fiber.context)
        }
        return Effect.void
      })
    })

/** What a pool of connections does now. */
export interface Pool {
  readonly connections: number
  readonly busy: number
  /** Who waits for a connection. */
  readonly waiting: number
}

/** The pool of the store's connections; null where it has none. A composition root fills it. */
export const PoolGauge = Context.Reference<Effect.Effect<Pool> | null>("mailroom/core/PoolGauge", { defaultValue: () => null })
