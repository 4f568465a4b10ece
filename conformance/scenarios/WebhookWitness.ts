/**
 * The part of the witness that looks at webhooks: every commit that lands is
 * held against the two machines, and against what ties them together.
 *
 * - A delivery is made once for an event and an endpoint that may have it, new
 *   or with a first attempt that was a success; it moves along its machine, one version at a time; attempts are only added,
 *   at most five in a round.
 * - An endpoint's counter is the failed attempts since the last success, in
 *   the order of its versions, and within a commit in that of its changes, which
 *   is that in which the attempts ended. Each attempt is in the commit that
 *   counts it; a success that leaves the counter alone requires that it be 0.
 * - The commit that counts ten disables, and is audited; enabling is audited.
 *   No attempt begins on an endpoint that was disabled before.
 *
 * Commits may be told in another order than they landed in, so versions are
 * compared as soon as both neighbours are known.
 */
import * as Deliveries from "../../core/model/Delivery.ts"
import type { Attempt, Delivery } from "../../core/model/Delivery.ts"
import type { Breaker, Endpoint } from "../../core/model/Endpoint.ts"
import type { Event } from "../../core/model/Event.ts"
import * as Limits from "../../core/model/Limits.ts"
import type { Change } from "../../core/ports/Store.ts"

type Commit = ReadonlyArray<Change>

/** The versions of a record, with the commit that wrote each. */
type History<A> = Map<string, Map<number, { readonly record: A; readonly commit: Commit }>>

export class WebhookWitness {
  readonly #note: (violation: string) => void
  readonly #events = new Map<string, Event>()
  readonly #pairs = new Set<string>()
  readonly #deliveries: History<Delivery> = new Map()
  readonly #endpoints: History<Endpoint> = new Map()
  /** Deliveries that have left their bodies to their events. */
  readonly #bodiless = new Set<string>()

  constructor(note: (violation: string) => void) {
    this.#note = note
  }

  check(commit: Commit): void {
    for (const change of commit) {
      if (change._tag === "AppendEvent") this.#events.set(change.event.id, change.event)
      if (change._tag === "Insert" && change.kind === "endpoint") this.#created(change.record, commit)
      if (change._tag === "InsertDelivery") this.#made(change.delivery, change.body, commit)
      if (change._tag === "Update" && change.kind === "delivery") {
        this.#write(this.#deliveries, change.record, commit, (before, after) => this.#moved(before, after, commit))
      }
      if (change._tag === "Update" && change.kind === "endpoint") {
        this.#write(this.#endpoints, change.record, commit, (before, after, by) => this.#counted(before, after, by))
      }
    }
  }

  #write<A extends { readonly id: string; readonly version: number }>(
    histories: History<A>,
    record: A,
    commit: Commit,
    compare: (before: A, after: A, by: Commit) => void
  ): void {
    const history = histories.get(record.id) ?? new Map<number, { readonly record: A; readonly commit: Commit }>()
    histories.set(record.id, history)
    if (history.has(record.version)) this.#note(`${record.id}: version ${record.version} twice`)
    history.set(record.version, { record, commit })
    const [before, after] = [history.get(record.version - 1), history.get(record.version + 1)]
    if (before !== undefined) compare(before.record, record, commit)
    if (after !== undefined) compare(record, after.record, after.commit)
  }

  #created(endpoint: Endpoint, commit: Commit): void {
    this.#write(this.#endpoints, endpoint, commit, () => {})
    if (endpoint.version !== 1 || !endpoint.enabled || endpoint.consecutiveFailures !== 0) this.#note(`${endpoint.id}: not created new`)
    if (!isAudited(commit, "webhook_endpoint.create", endpoint.id)) this.#note(`${endpoint.id}: created without audit`)
  }

  /** A delivery as it is fanned out. */
  #made(delivery: Delivery, body: string | null, commit: Commit): void {
    const { id, eventId, endpointId, version, round } = delivery
    this.#write(this.#deliveries, delivery, commit, () => {})
    const pair = `${eventId} to ${endpointId}`
    if (this.#pairs.has(pair)) this.#note(`a second delivery of ${pair}`)
    this.#pairs.add(pair)
    if (!commit.some(({ _tag }) => _tag === "MoveRelay")) this.#note(`delivery ${id} came without the relay's move`)
    if (version !== 1 || round !== 1 || !(isUntried(delivery) || isDeliveredAtOnce(delivery))) this.#note(`delivery ${id}: not made new`)
    for (const attempt of delivery.attempts) this.#attempted(delivery, attempt, commit)
    if (body !== null) this.#isOf(delivery, body)
    else if (isDeliveredAtOnce(delivery)) this.#bodiless.add(id)
    else this.#note(`delivery ${id}: no body`)
    const event = this.#events.get(eventId)
    const isForgottenFirst = event !== undefined && delivery.createdAt - event.occurredAt >= Limits.eventGrace
    if (body === null && isForgottenFirst) this.#note(`delivery ${id}: its event is forgotten first`)
    const endpoint = this.#endpoints.get(endpointId)?.get(1)?.record
    if (event === undefined || endpoint === undefined) return
    const isItsOwn =
      event.tenantId === endpoint.tenantId &&
      delivery.tenantId === endpoint.tenantId &&
      delivery.environment === endpoint.environment &&
      delivery.applicationId === endpoint.applicationId &&
      (event.environment === null || event.environment === endpoint.environment) &&
      (event.audience === null || event.audience === endpoint.applicationId) &&
      delivery.demo === (event.data.demo === true)
    if (!isItsOwn) this.#note(`${pair}: not its own`)
    if (!endpoint.eventTypes.some((type) => type === "*" || type === event.type)) this.#note(`${pair}: not subscribed`)
  }

  #isOf({ id, eventId }: Delivery, body: string): void {
    if ((JSON.parse(body) as { readonly id: unknown }).id !== eventId) this.#note(`delivery ${id}: body of another event`)
  }

  #moved(before: Delivery, after: Delivery, commit: Commit): void {
    const { id } = after
    const put = commit.find((change) => change._tag === "PutBody" && change.deliveryId === id)
    if (put?._tag === "PutBody") this.#isOf(after, put.body)
    if (this.#bodiless.delete(id) !== (put !== undefined)) this.#note(`delivery ${id}: ${put === undefined ? "no" : "another"} body`)
    if (before.status !== after.status || before.round !== after.round) {
      const legal: ReadonlyArray<{ readonly to: string }> = Object.values(Deliveries.transitions[before.status])
      if (!legal.some(({ to }) => to === after.status)) this.#note(`delivery ${id}: ${before.status} to ${after.status}`)
    }
    const isReplay = after.round !== before.round
    if (isReplay && (after.round !== before.round + 1 || before.status === "pending" || after.status !== "pending")) {
      this.#note(`delivery ${id}: round ${before.round} to ${after.round} from ${before.status}`)
    }
    const added = addedTo(before.attempts, after.attempts)
    if (added === null) return this.#note(`delivery ${id}: attempts were changed`)
    if (added.length > (isReplay ? 0 : 1)) this.#note(`delivery ${id}: ${added.length} attempts in one commit`)
    const ofRound = after.attempts.filter(({ round }) => round === after.round)
    if (ofRound.length > Limits.deliveryAttemptsMax) this.#note(`delivery ${id}: ${ofRound.length} attempts in a round`)
    if (ofRound.some(({ number }, index) => number !== index + 1)) this.#note(`delivery ${id}: attempts are not numbered from 1`)
    if (after.attemptCount !== ofRound.length) this.#note(`delivery ${id}: counts ${after.attemptCount} of ${ofRound.length} attempts`)
    if ((after.nextAttemptAt !== null) !== (after.status === "pending")) this.#note(`delivery ${id}: ${after.status}, and due`)
    for (const attempt of added) this.#attempted(after, attempt, commit)
  }

  /** An attempt is in one commit with what it does to the endpoint. */
  #attempted({ id, endpointId, status }: Delivery, { outcome }: Attempt, commit: Commit): void {
    if ((outcome === "success") !== (status === "delivered")) this.#note(`delivery ${id}: ${status} by ${outcome}`)
    if (commit.some((change) => change._tag === "Update" && change.kind === "endpoint" && change.record.id === endpointId)) return
    const required = commit.find((change) => change._tag === "Require" && change.kind === "endpoint" && change.id === endpointId)
    if (outcome !== "success" || required?._tag !== "Require") return this.#note(`delivery ${id}: an attempt that nobody counted`)
    const held = this.#endpoints.get(endpointId)?.get(required.version)?.record
    if (held !== undefined && held.consecutiveFailures !== 0) this.#note(`delivery ${id}: a success that did not reset`)
  }

  #counted(before: Endpoint, after: Endpoint, commit: Commit): void {
    const { id } = after
    const shown = breakerOf(after)
    const attempts = this.#attemptsIn(commit, id)
    if (attempts.length === 0) {
      const isEnabled = !before.enabled && shown === "[true,0,null]" && isAudited(commit, "webhook_endpoint.enable", id)
      const isDisabled =
        before.enabled &&
        after.disabledAt !== null &&
        shown === breakerOf({ ...before, enabled: false, disabledAt: after.disabledAt }) &&
        isAudited(commit, "webhook_endpoint.disable", id)
      const isRotated = shown === breakerOf(before) && isAudited(commit, "webhook_endpoint.rotate_secret", id)
      // A creation moves the version of another endpoint, and nothing else of it.
      const isCounted = shown === breakerOf(before) && commit.some((change) => change._tag === "Insert" && change.kind === "endpoint")
      if (!isEnabled && !isDisabled && !isRotated && !isCounted) this.#note(`endpoint ${id}: changed to ${shown} without an attempt`)
      return
    }
    let { enabled, consecutiveFailures, disabledAt } = before
    for (const { outcome, startedAt } of attempts) {
      consecutiveFailures = outcome === "success" ? 0 : consecutiveFailures + 1
      if (enabled && consecutiveFailures >= Limits.consecutiveFailuresMax) [enabled, disabledAt] = [false, after.disabledAt]
      if (before.disabledAt !== null && startedAt > before.disabledAt) this.#note(`endpoint ${id}: an attempt began while it was disabled`)
    }
    const ends = attempts.map(({ startedAt, durationMs }) => startedAt + durationMs)
    if (ends.some((end, index) => index > 0 && end < ends[index - 1]!)) this.#note(`endpoint ${id}: counted in another order than they ended: ${ends.join(", ")}`)
    if (shown !== breakerOf({ enabled, consecutiveFailures, disabledAt })) {
      const outcomes = attempts.map(({ outcome }) => outcome).join(", ")
      this.#note(`endpoint ${id}: ${shown} after ${outcomes} on ${before.consecutiveFailures}`)
    }
    const isDisabled = before.enabled && !enabled
    if (isDisabled && after.disabledAt === null) this.#note(`endpoint ${id}: disabled at no time`)
    if (isDisabled !== isAudited(commit, "webhook_endpoint.disable", id)) this.#note(`endpoint ${id}: audit of disabling`)
  }

  /** In the order in which they count. */
  #attemptsIn(commit: Commit, endpointId: string): ReadonlyArray<Attempt> {
    return commit.flatMap((change) => {
      if (change._tag !== "Update" || change.kind !== "delivery" || change.record.endpointId !== endpointId) return []
      const before = this.#deliveries.get(change.record.id)?.get(change.record.version - 1)?.record
      return before === undefined ? [] : (addedTo(before.attempts, change.record.attempts) ?? [])
    })
  }
}

const isUntried = ({ status, attemptCount, attempts, nextAttemptAt }: Delivery): boolean =>
  status === "pending" && attemptCount === 0 && attempts.length === 0 && nextAttemptAt !== null

const isDeliveredAtOnce = ({ status, attemptCount, attempts, nextAttemptAt, deliveredAt }: Delivery): boolean =>
  status === "delivered" && attemptCount === 1 && attempts.length === 1 && attempts[0]!.number === 1 && nextAttemptAt === null && deliveredAt !== null

/** What was added at the end of a list from whose front the oldest may be gone; null if it is another list. */
const addedTo = (before: ReadonlyArray<Attempt>, after: ReadonlyArray<Attempt>): ReadonlyArray<Attempt> | null => {
  const isCut = after.length === Limits.deliveryAttemptsKept && after.length === before.length && !isSame(before[0]!, after[0]!)
  const kept = before.slice(isCut ? 1 : 0)
  return kept.every((attempt, index) => after[index] !== undefined && isSame(attempt, after[index])) ? after.slice(kept.length) : null
}

const isSame = (left: Attempt, right: Attempt): boolean =>
  left === right || attemptFields.every((field) => left[field] === right[field])

const attemptFields = ["number", "round", "startedAt", "durationMs", "outcome", "responseStatus"] as const satisfies ReadonlyArray<keyof Attempt>

const breakerOf = ({ enabled, consecutiveFailures, disabledAt }: Breaker): string => JSON.stringify([enabled, consecutiveFailures, disabledAt])

const isAudited = (commit: Commit, action: string, id: string): boolean =>
  commit.some((change) => change._tag === "AppendAudit" && change.entry.action === action && change.entry.subject.id === id)
