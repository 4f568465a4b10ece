/**
 * What is committed of an attempt at a delivery (Spec 6, Delivery semantics):
 * the attempt, the delivery and its endpoint's counter, in one commit. A
 * success of a healthy endpoint changes nothing of it, and is committed alone.
 * From its first failure on, what has ended at an endpoint stands in a line, and
 * is committed together, in the order in which it ended: ten failures with a
 * success among them must not count as ten in a row.
 */
import { Cause, Context, Effect, Exit, FiberSet, Layer, Option, Random, Result } from "effect"
import { entryOf, system } from "../model/Audit.ts"
import * as Backoff from "../model/Backoff.ts"
import * as Deliveries from "../model/Delivery.ts"
import type { Delivery } from "../model/Delivery.ts"
import * as Endpoints from "../model/Endpoint.ts"
import type { Endpoint } from "../model/Endpoint.ts"
import type { EndpointId, Millis } from "../model/Ids.ts"
import * as Webhook from "../model/Webhook.ts"
import { changeRecord, commit, dieOnRejection, isRejected, unchanged } from "../operations/Commit.ts"
import { deliverJob } from "../operations/Webhooks.ts"
import { Crypto } from "../ports/Crypto.ts"
import { JobQueue, type Job, type Lease } from "../ports/JobQueue.ts"
import { Store, type Change, type StoreUnavailable } from "../ports/Store.ts"
import * as Metrics from "../Metrics.ts"
import { Settings } from "../Settings.ts"
import { aboutDelivery, attemptOf, rememberedMax, WebhookAttempts, type Ending } from "./WebhookAttempts.ts"

/** Endings of one commit. */
const endingsMax = 128

/** An attempt that has ended, and stands in its endpoint's line until it is recorded. */
interface Ended {
  readonly delivery: Delivery
  readonly ending: Ending
  /** Who wants to know; nobody after a commit that failed, until its delivery is claimed again. */
  readonly waiting: Array<(result: Effect.Effect<void, StoreUnavailable>) => void>
}

/** Endings of one endpoint, by attempt. */
interface Line {
  readonly endpointId: EndpointId
  readonly endings: Map<string, Ended>
  isMoving: boolean
}

export class RecordAttempts extends Context.Service<
  RecordAttempts,
  {
    /**
     * Commits an ending on the version of the delivery that the attempt began with; of two who attempted the same, one does.
     * True: the job under this lease has ended.
     */
    readonly record: (delivery: Delivery, endpoint: Endpoint, ending: Ending, lease?: Lease) => Effect.Effect<boolean, StoreUnavailable>
  }
>()("mailroom/core/jobs/RecordAttempts") {
  static readonly layer = Layer.effect(
    RecordAttempts,
    Effect.gen(function* () {
      const store = yield* Store
      const queue = yield* JobQueue
      const crypto = yield* Crypto
      const settings = yield* Settings
      const attempts = yield* WebhookAttempts

      const run = yield* FiberSet.makeRuntime()

      const record = (delivery: Delivery, endpoint: Endpoint, ending: Ending, lease?: Lease) =>
        changesNothing(endpoint, ending) && !attempts.hasFailedLately(endpoint) && !lines.has(endpoint.id)
          ? Effect.flatMap(recordAlone(delivery, endpoint, ending, lease), (done) =>
              done === null ? recordInLine(delivery, endpoint.id, ending) : Effect.succeed(done.leaseEnded)
            )
          : recordInLine(delivery, endpoint.id, ending)

      /** Null if the endpoint has changed since the attempt began, or somebody else has recorded this one. */
      const recordAlone = Effect.fnUntraced(function* (delivery: Delivery, endpoint: Endpoint, ending: Ending, lease?: Lease) {
        const { record, change, jobs } = yield* written(delivery, ending)
        const committed = commit(store, queue, [unchanged("endpoint", endpoint), change], jobs, lease)
        const done = yield* Effect.catchIf(committed, (error) => isRejected(error, "VersionMoved"), () => Effect.succeed(null)).pipe(
          dieOnRejection,
          Effect.tapError(() => Effect.sync(() => void stand(delivery, endpoint.id, ending, [])))
        )
        if (done === null) return null
        attempts.recorded(delivery)
        return yield* Effect.as(countEnded(record), done)
      })

      const lines = new Map<EndpointId, Line>()
      /** In all lines. */
      let endingsInLine = 0

      const stand = (delivery: Delivery, endpointId: EndpointId, ending: Ending, waiting: Ended["waiting"]): Line => {
        const line = lines.get(endpointId) ?? { endpointId, endings: new Map<string, Ended>(), isMoving: false }
        lines.set(endpointId, line)
        const key = attemptOf(delivery)
        const known = line.endings.get(key)
        if (known === undefined) endingsInLine += 1
        // As the delivery was read last.
        line.endings.set(key, { delivery, ending, waiting: [...(known?.waiting ?? []), ...waiting] })
        return line
      }

      const recordInLine = (delivery: Delivery, endpointId: EndpointId, ending: Ending) =>
        Effect.callback<boolean, StoreUnavailable>((resume) => {
          const line = stand(delivery, endpointId, ending, [(result) => resume(Effect.as(result, false))])
          if (line.isMoving) return
          line.isMoving = true
          run(move(line))
        })

      const leave = ({ endpointId, endings }: Line, some: ReadonlyArray<Ended>): void => {
        for (const one of some) {
          const key = attemptOf(one.delivery)
          if (endings.get(key) === one && endings.delete(key)) endingsInLine -= 1
        }
        if (endings.size === 0) lines.delete(endpointId)
      }

      const tell = (some: Iterable<Ended>, result: Effect.Effect<void, StoreUnavailable>): void => {
        for (const one of some) for (const resume of one.waiting.splice(0)) resume(result)
      }

      const notWaitedFor = ({ endings }: Line) => [...endings.values()].filter(({ waiting }) => waiting.length === 0)

      /** They keep their places: what is claimed again is recorded with those that ended before it. */
      const giveUp = ({ endings }: Line, failure: Exit.Exit<void, StoreUnavailable>): void => {
        tell(endings.values(), failure)
        if (endingsInLine > rememberedMax) for (const line of lines.values()) leave(line, notWaitedFor(line))
      }

      /** Goes on for as long as somebody waits. */
      const move = Effect.fnUntraced(function* (line: Line) {
        const { endpointId, endings } = line
        yield* Effect.yieldNow // what ended together comes together
        while ([...endings.values()].some(({ waiting }) => waiting.length > 0)) {
          const first = [...endings.values()].toSorted((one, other) => one.ending.sequence - other.ending.sequence).slice(0, endingsMax)
          const exit = yield* Effect.exit(recordSome(endpointId, first))
          if (Exit.isSuccess(exit)) {
            leave(line, first)
            tell(first, Effect.void)
          } else if (Cause.hasDies(exit.cause)) yield* recordApart(line, first)
          else giveUp(line, exit)
        }
        line.isMoving = false
      })

      /** One of them breaks the commit of all: it breaks its own then. */
      const recordApart = Effect.fnUntraced(function* (line: Line, some: ReadonlyArray<Ended>) {
        for (const one of some) {
          const exit = yield* Effect.exit(recordSome(line.endpointId, [one]))
          if (Exit.isFailure(exit) && !Cause.hasDies(exit.cause)) return giveUp(line, exit)
          leave(line, [one])
          tell([one], exit)
        }
      })

      const recordOnce = Effect.fnUntraced(function* (id: EndpointId, some: ReadonlyArray<Ended>) {
        const [current, held] = yield* Effect.all(
          [
            store.endpoints.get(some[0]!.delivery, id), // somebody waits
            Effect.forEach(some, ({ delivery }) => store.deliveries.get(delivery, delivery.id), { concurrency: "unbounded" })
          ],
          { concurrency: "unbounded" }
        )
        // If it is not as it was, another holder's result stands.
        const versions = new Map(held.flatMap((found) => (found === null ? [] : [[found.id, found.version]])))
        const open = some.filter(({ delivery: { id, version } }) => versions.get(id) === version)
        if (current !== null && open.length > 0) yield* recordTogether(current, open)
        for (const { delivery } of some) attempts.recorded(delivery)
      })
      const recordSome = (id: EndpointId, some: ReadonlyArray<Ended>) => changeRecord(id, recordOnce(id, some))

      /** Endings of one endpoint, in their order, and what has become of it by the last of them. */
      const recordTogether = Effect.fnUntraced(function* (current: Endpoint, endings: ReadonlyArray<Ended>) {
        const changes: Array<Change> = []
        const jobs: Array<Job> = []
        const records: Array<Delivery> = []
        let counted = current
        let disabling: Delivery | null = null
        for (const { delivery, ending } of endings) {
          const one = yield* written(delivery, ending)
          changes.push(one.change)
          jobs.push(...one.jobs)
          records.push(one.record)
          const before = counted
          counted = count(before, ending)
          if (before.enabled && !counted.enabled) disabling = delivery
        }
        counted = yield* heard(current, { ...counted, version: current.version + 1 })
        const isUnchanged = endings.every(({ ending }) => changesNothing(current, ending))
        changes.push(isUnchanged ? unchanged("endpoint", current) : { _tag: "Update", kind: "endpoint", record: counted })
        if (disabling !== null) changes.push(yield* disabledEntry(counted))
        yield* commit(store, queue, changes, jobs)
        yield* Effect.forEach(records, countEnded, { discard: true })
        if (counted.isSlow) yield* throttle(counted.id, 1) // each time: the queue may have lost it
        if (disabling !== null) {
          yield* Metrics.count(Metrics.endpointsDisabled)
          yield* Effect.logWarning("a webhook endpoint was disabled after ten failed attempts in a row").pipe(
            aboutDelivery(disabling),
            Effect.annotateLogs({ tenantId: counted.tenantId })
          )
        }
      })

      const written = (delivery: Delivery, ending: Ending) =>
        Effect.map(Random.next, (random) => {
          const record = settled(delivery, ending, settings.deliveryBackoff, random)
          const change: Change = { _tag: "Update", kind: "delivery", record }
          return { record, change, jobs: record.nextAttemptAt === null ? [] : [deliverJob(record, record.nextAttemptAt)] }
        })

      /** A receiver that does not answer gets one delivery at a time until it does, so that it keeps few places busy. */
      const throttle = (id: EndpointId, inFlightMax: number | null) => Effect.option(queue.throttle("deliver", id, inFlightMax))

      /** An endpoint that answers again counts as slow until the queue has heard of it: else nobody would tell the queue. */
      const heard = Effect.fnUntraced(function* (before: Endpoint, after: Endpoint) {
        if (!before.isSlow || after.isSlow) return after
        return { ...after, isSlow: Option.isNone(yield* throttle(after.id, null)) }
      })

      const disabledEntry = Effect.fnUntraced(function* ({ id, tenantId, environment, disabledAt }: Endpoint) {
        const at = disabledAt! // it has just been
        const entry = entryOf({ id: yield* crypto.uuid, tenantId, environment, at, actor: system, action: "webhook_endpoint.disable" }, id)
        return { _tag: "AppendAudit", entry } satisfies Change
      })

      return RecordAttempts.of({ record })
    })
  )
}

const changesNothing = ({ consecutiveFailures, isSlow }: Endpoint, { outcome }: Ending): boolean =>
  outcome === "success" && consecutiveFailures === 0 && !isSlow

export const countEnded = ({ status }: Delivery): Effect.Effect<void> =>
  status === "pending" ? Effect.void : Metrics.count(Metrics.deliveriesEnded[status])

/** The delivery after an attempt that was a success, one version on. */
export const succeeded = (delivery: Delivery, ending: Ending): Delivery => after(delivery, ending, { _tag: "Succeeded", at: ending.endedAt })

/** The delivery after an attempt, one version on. */
const settled = (delivery: Delivery, ending: Ending, backoff: ReadonlyArray<Millis>, random: number): Delivery => {
  const { outcome, answer, endedAt } = ending
  if (outcome === "success") return succeeded(delivery, ending)
  const wait = Math.max(
    Backoff.delay(backoff, delivery.attemptCount + 1, random),
    answer === null ? 0 : Webhook.retryAfterOf(answer, endedAt)
  )
  return after(delivery, ending, Deliveries.afterFailure(delivery, endedAt, endedAt + wait))
}

const after = (delivery: Delivery, { outcome, answer, startedAt, endedAt }: Ending, input: Deliveries.Input): Delivery => {
  const decision = Result.getOrThrow(Deliveries.decide(delivery, input)) // pending takes success, another try, and the end
  const attempt: Deliveries.Attempt = {
    number: delivery.attemptCount + 1,
    round: delivery.round,
    startedAt,
    durationMs: Math.max(0, endedAt - startedAt),
    outcome,
    responseStatus: answer?.status ?? null
  }
  return {
    ...Deliveries.withAttempt(Deliveries.apply(delivery, decision), attempt),
    version: delivery.version + 1,
    lastError: outcome === "success" ? null : outcome
  }
}

/** The endpoint after an attempt. */
const count = (endpoint: Endpoint, { outcome, answer, endedAt }: Ending): Endpoint => {
  const input: Endpoints.Input =
    outcome === "success" ? { _tag: "Succeeded", at: endedAt } : Endpoints.afterFailure(endpoint, endedAt)
  const decision = Result.getOrThrow(Endpoints.decide(endpoint, input)) // each state takes success and failure
  return {
    ...Endpoints.apply(endpoint, decision),
    isSlow: outcome === "timeout" || (endpoint.isSlow && answer === null)
  }
}
