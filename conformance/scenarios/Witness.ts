/**
 * Stands at the store's door: each commit that lands is checked against what
 * must always hold, and each violation noted.
 *
 * - Versions rise by one; a recipient moves along its machine, and a message
 *   along the published graph; nothing is undone.
 * - A commit appends exactly one event for each transition that has one, and
 *   none without, but for demos; `sequence` has no gaps; `data` fits its schema.
 * - An outbound message comes with its reservation, audit entry and `message.queued`; an inbound one is announced by the
 *   commit that parses it, once.
 * - Deliveries and endpoints: see `WebhookWitness`.
 */
import { Effect, Result, Schema } from "effect"
import * as Attachment from "../../core/model/Attachment.ts"
import * as Events from "../../core/model/Event.ts"
import type { Event } from "../../core/model/Event.ts"
import * as Inbound from "../../core/model/Inbound.ts"
import * as Messages from "../../core/model/Message.ts"
import type { Message } from "../../core/model/Message.ts"
import * as Recipients from "../../core/model/Recipient.ts"
import type { Store, Change } from "../../core/ports/Store.ts"
import { WebhookWitness } from "./WebhookWitness.ts"

export class Witness {
  readonly violations: Array<string> = []
  readonly #messages = new Map<string, Message>()
  readonly #attachments = new Map<string, Attachment.Attachment>()
  readonly #sequences = new Map<string, number>()
  readonly #eventIds = new Set<string>()
  readonly #outcomes = new Set<string>()
  readonly #webhooks = new WebhookWitness((violation) => this.violations.push(violation))

  /** The store as a process sees it. */
  watch(store: typeof Store.Service): typeof Store.Service {
    return {
      ...store,
      // Nothing comes between a commit and its record here, not even an interruption.
      commit: (changes, jobs, lease) =>
        Effect.uninterruptible(Effect.tap(store.commit(changes, jobs, lease), () => Effect.sync(() => this.#check(changes))))
    }
  }

  #check(changes: ReadonlyArray<Change>): void {
    const events = changes.flatMap((change) => (change._tag === "AppendEvent" ? [change.event] : []))
    const expected: Array<string> = []
    for (const change of changes) {
      if (change._tag === "InsertMessage") expected.push(...this.#inserted(change.message, changes))
      if (change._tag === "Update" && change.kind === "message") expected.push(...this.#moved(change.record, events))
      if (change._tag === "Insert" && change.kind === "attachment") this.#attachments.set(change.record.id, change.record)
      if (change._tag === "Update" && change.kind === "attachment") this.#scanned(change.record)
    }
    const made = events.filter(({ resourceType, data }) => resourceType === "message" && data.demo !== true).map(labelOf)
    if (made.toSorted().join() !== expected.toSorted().join()) {
      this.violations.push(`events of a commit: made [${made.join(" ")}], the transitions are [${expected.join(" ")}]`)
    }
    for (const event of events) this.#appended(event)
    this.#webhooks.check(changes)
  }

  #inserted(message: Message, changes: ReadonlyArray<Change>): ReadonlyArray<string> {
    this.#messages.set(message.id, message)
    if (message.direction === "inbound") {
      if (message.status !== "received") this.violations.push(`message ${message.id} came in ${message.status}`)
      if (!Inbound.isUnparsed(message)) this.violations.push(`message ${message.id} came in without a parse to come`)
      return []
    }
    for (const tag of ["Reserve", "AppendAudit", "AppendEvent", "TakeQuota"] as const) {
      if (!changes.some((change) => change._tag === tag)) this.violations.push(`message ${message.id} came without ${tag}`)
    }
    return [`message.queued ${message.id}`]
  }

  /** Checks a message's move; the events that it must have made. */
  #moved(after: Message, events: ReadonlyArray<Event>): ReadonlyArray<string> {
    const before = this.#messages.get(after.id)
    this.#messages.set(after.id, after)
    if (before === undefined) return []
    if (after.version !== before.version + 1) this.violations.push(`${after.id}: version ${before.version} to ${after.version}`)
    const patched = events.filter(({ type, resourceId }) => type === "message.updated" && resourceId === after.id)
    // A flag's event follows each PATCH, also one that changes nothing, and nothing else shows that it was one.
    const flagged = patched.length === 1 ? [`message.updated ${after.id}`] : []
    if (after.direction === "inbound") {
      if (after.status !== "received" || after.recipients.length > 0) this.violations.push(`${after.id}: ${after.status}`)
      if (!Inbound.isUnparsed(before) && Inbound.isUnparsed(after)) this.violations.push(`${after.id}: to be parsed again`)
      return [...flagged, ...(Inbound.isUnparsed(before) && !Inbound.isUnparsed(after) ? [`message.received ${after.id}`] : [])]
    }
    const [from, to] = [Messages.fold(before.recipients), Messages.fold(after.recipients)]
    if (after.status !== to) this.violations.push(`${after.id}: shows ${after.status}, its recipients say ${to}`)
    if (from !== to && !Messages.successors[from].includes(to)) this.violations.push(`${after.id}: ${from} to ${to}`)
    const expected: Array<string> = []
    after.recipients.forEach((recipient, index) => {
      const was = before.recipients[index]
      if (was === undefined || was.address !== recipient.address) return this.violations.push(`${after.id}: recipients changed`)
      const made = events.filter((event) => event.resourceId === after.id && recipientOf(event) === recipient.address)
      if (!leadsTo(was, recipient, made)) {
        this.violations.push(
          `${after.id} ${recipient.address}: ${was.status} to ${recipient.status} with [${made.map(({ type }) => type).join(" ")}]`
        )
      }
      expected.push(...made.map(labelOf))
      return
    })
    if (before.sentAt === null && after.sentAt !== null) expected.push(`message.sent ${after.id}`)
    return [...expected, ...flagged]
  }

  #scanned(after: Attachment.Attachment): void {
    const before = this.#attachments.get(after.id)
    this.#attachments.set(after.id, after)
    if (before === undefined) return
    if (after.version !== before.version + 1) this.violations.push(`attachment ${after.id}: version ${after.version}`)
    if (after.blob.sha256 !== before.blob.sha256) this.violations.push(`attachment ${after.id}: other bytes`)
    const legal = Object.values(Attachment.transitions[before.scanState]).map((cell: { readonly to: string }) => cell.to)
    if (before.scanState !== after.scanState && !legal.includes(after.scanState)) {
      this.violations.push(`attachment ${after.id}: ${before.scanState} to ${after.scanState}`)
    }
  }

  #appended(event: Event): void {
    if (this.#eventIds.has(event.id)) this.violations.push(`event ${event.id} twice`)
    this.#eventIds.add(event.id)
    const last = this.#sequences.get(event.resourceId)
    if (last !== undefined && event.data.sequence !== last + 1) {
      this.violations.push(`${event.type} of ${event.resourceId}: sequence ${event.data.sequence} after ${last}`)
    }
    this.#sequences.set(event.resourceId, event.data.sequence)
    const label = labelOf(event)
    if (label.split(" ").length === 3) {
      if (this.#outcomes.has(label)) this.violations.push(`twice: ${label}`)
      this.#outcomes.add(label)
    }
    if ((event.data.demo === true) !== (event.audience !== null) || (event.data.demo === true && event.environment !== "sandbox")) {
      this.violations.push(`event ${event.id}: a demo has one application of the sandbox as its audience, and no other event has one`)
    }
    const valid = Schema.decodeUnknownResult(Events.data[event.type] as Schema.Codec<unknown>, { onExcessProperty: "error" })(event.data)
    if (Result.isFailure(valid)) this.violations.push(`${event.type} does not fit its schema: ${String(valid.failure)}`)
  }
}

/** Type, resource, and the recipient where the event names one. */
const labelOf = (event: Event): string => {
  const recipient = recipientOf(event)
  return [event.type, event.resourceId, ...(recipient === null ? [] : [recipient])].join(" ")
}

const recipientOf = ({ data }: Event): string | null => ("recipient" in data ? data.recipient : null)

/** Whether the machine comes from one to the other by just these events; being accepted has none. */
const leadsTo = (was: Recipients.Recipient, is: Recipients.Recipient, made: ReadonlyArray<Event>): boolean => {
  let state: Recipients.State = was.submission === null && is.submission !== null && was.status === "queued" ? "sent" : was.status
  for (const { type } of made) {
    const row: ReadonlyArray<{ readonly to: Recipients.State; readonly emits?: string }> = Object.values(Recipients.transitions[state])
    const cell = row.find(({ emits }) => emits === type)
    if (cell === undefined) return false
    state = cell.to
  }
  return state === is.status
}
