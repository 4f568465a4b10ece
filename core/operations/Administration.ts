/**
 * What all of management has in common: how it refuses, what an operator may
 * write, how it lists, and the one way in which it writes: each change of a
 * tenant's state in one commit with the audit entry that says who made it.
 */
import { Clock, Data, Effect, Result } from "effect"
import type { DomainName } from "../model/Address.ts"
import { entryOf, type Actor } from "../model/Audit.ts"
import { fit, type Event } from "../model/Event.ts"
import type { ApplicationId, DomainId, Environment, EventId, FreshId, MailboxId, Millis, TenantId } from "../model/Ids.ts"
import { Crypto } from "../ports/Crypto.ts"
import { JobQueue } from "../ports/JobQueue.ts"
import { Store, type Change, type StoreUnavailable } from "../ports/Store.ts"
import { commit, dieOnRejection } from "./Commit.ts"

/** What the call is about does not exist: in this tenant, or, of tenants and plans, at all. */
export class UnknownResource extends Data.TaggedError("UnknownResource")<{ readonly what: string; readonly id: string }> {
  override get message(): string {
    const isOfNoTenant = this.what === "tenant" || this.what === "plan"
    return `There is no ${this.what} ${this.id}${isOfNoTenant ? "" : " in this tenant"}.`
  }
}

/** The name is taken: an address, a domain or an id that must be unique. */
export class NameTaken extends Data.TaggedError("NameTaken")<{ readonly what: string; readonly field: string }> {
  override get message(): string {
    return `${/^[aeiou]/i.test(this.what) ? "An" : "A"} ${this.what} with this ${this.field} exists already.`
  }
}

/** A member of the input is not what it must be; `fault` follows its name in a sentence. */
export class InvalidInput extends Data.TaggedError("InvalidInput")<{ readonly field: string; readonly fault: string }> {
  override get message(): string {
    return `${this.field} ${this.fault}.`
  }
}

/** The record has changed since the version that the change was decided on; nothing is written. */
export class StaleVersion extends Data.TaggedError("StaleVersion")<{
  readonly what: string
  readonly id: string
  readonly version: number
}> {
  override get message(): string {
    return `The ${this.what} ${this.id} has changed meanwhile: it is at version ${this.version}. Look at it again, then decide.`
  }
}

/** Something still needs the record, so it stays; `fault` follows its name in a sentence. */
export class InUse extends Data.TaggedError("InUse")<{ readonly what: string; readonly id: string; readonly fault: string }> {
  override get message(): string {
    return `The ${this.what} ${this.id} ${this.fault}.`
  }
}

/** What any write of management may be refused with. */
export type Refused = UnknownResource | NameTaken | InvalidInput | StoreUnavailable
export type Written<A> = Effect.Effect<A, Refused>
/** Of a record that others may be changing, where the caller can say which version was looked at. */
export type Changed<A> = Effect.Effect<A, Refused | StaleVersion>

/** Of a record that goes for good, once nothing needs it any more: as it was. */
export type Removed<A> = Effect.Effect<A, Refused | StaleVersion | InUse>

/** `version`: the one that the change was decided on. Without it, the change is made to whatever there is. */
export interface Guarded {
  readonly version?: number
}

/** Some of a list: those behind the item of this id (all, without it), so many (100, without it; 1000 at most). */
export interface PageQuery {
  readonly after?: string
  readonly limit?: number
}

/** The id of the last item is the next page's `after`. */
export interface Page<A> {
  readonly items: ReadonlyArray<A>
  readonly hasMore: boolean
}

const day: Millis = 86_400_000

/** For how long a key or a secret that is replaced stays in use at most. */
const overlapDaysMax = 90

/** Characters, as code points, of what an operator writes for people: names, reasons, and who it is that writes. */
const lineLengthMax = 200
const pageLimitMax = 1_000
const pageLimitDefault = 100

/** Also what shows as nothing, or turns the writing round, and would make two names look the same. */
const invisible = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u

/** A line of text for people: of bounded length, without control characters, and not all blank if it may not be empty. */
export const line = (
  field: string,
  text: string,
  { minimum = 1 }: { readonly minimum?: 0 | 1 } = {}
): Result.Result<string, InvalidInput> => {
  const length = [...text].length
  const isBlank = text.trim() === ""
  return length > lineLengthMax || (minimum > 0 && isBlank)
    ? Result.fail(new InvalidInput({ field, fault: `wants ${minimum} to ${lineLengthMax} characters` }))
    : !text.isWellFormed() || invisible.test(text)
      ? Result.fail(new InvalidInput({ field, fault: "holds a control character, or half of a character" }))
      : Result.succeed(text)
}

/** The first and the last millisecond that a date-time of four digits can name. */
export const timeMin: Millis = -62_135_596_800_000
export const timeMax: Millis = 253_402_300_799_999

/** A whole number within bounds. */
export const whole = (
  field: string,
  value: number,
  { minimum, maximum }: { readonly minimum: number; readonly maximum: number }
): Result.Result<number, InvalidInput> =>
  Number.isInteger(value) && value >= minimum && value <= maximum
    ? Result.succeed(value)
    : Result.fail(new InvalidInput({ field, fault: `wants a whole number from ${minimum} to ${maximum}` }))

/** Milliseconds for which a key or a secret that is replaced stays in use. Whoever gives days, as on the command line, is told in days. */
export const overlapOf = ({ overlap }: { readonly overlap: Millis }): Result.Result<Millis, InvalidInput> =>
  overlap > overlapDaysMax * day
    ? Result.fail(new InvalidInput({ field: "overlap", fault: `is longer than ${overlapDaysMax} days` }))
    : whole("overlap", overlap, { minimum: 0, maximum: overlapDaysMax * day })

/** How many items a page is to have; `InvalidInput` if that is not from 1 to 1000. */
export const limitOf = ({ limit }: Pick<PageQuery, "limit">) =>
  Effect.fromResult(whole("limit", limit ?? pageLimitDefault, { minimum: 1, maximum: pageLimitMax }))

/** What is to be gone on behind is nowhere. */
const unlisted = () => new InvalidInput({ field: "after", fault: "names nothing in this list" })

/** A page of a list that the store gives whole. */
export const pageOf = Effect.fnUntraced(function* <A>(
  all: ReadonlyArray<A>,
  query: PageQuery,
  idOf: (item: A) => string
): Effect.fn.Return<Page<A>, InvalidInput> {
  const limit = yield* limitOf(query)
  const { after } = query
  const index = after === undefined ? -1 : all.findIndex((item) => idOf(item) === after)
  if (after !== undefined && index < 0) return yield* unlisted()
  return { items: all.slice(index + 1, index + 1 + limit), hasMore: all.length > index + 1 + limit }
})

/** A page of what the store was asked one more of than the limit. */
export const cutTo = <A>(limit: number, found: ReadonlyArray<A>): Page<A> => ({
  items: found.slice(0, limit),
  hasMore: found.length > limit
})

/** A page that the store reads behind an item; `find` knows the item by its id, if it is in the list. */
export const pageBehind = Effect.fnUntraced(function* <A, B>(
  query: PageQuery,
  find: (id: string) => Effect.Effect<B | null, StoreUnavailable>,
  read: (after: B | null, limit: number) => Effect.Effect<ReadonlyArray<A>, StoreUnavailable>
): Effect.fn.Return<Page<A>, InvalidInput | StoreUnavailable> {
  const limit = yield* limitOf(query)
  const after = query.after === undefined ? null : yield* find(query.after)
  if (query.after !== undefined && after === null) return yield* unlisted()
  return cutTo(limit, yield* read(after, limit + 1))
})

export const make = Effect.gen(function* () {
  const store = yield* Store
  const queue = yield* JobQueue
  const crypto = yield* Crypto

  const uuid = <Id extends string>() => crypto.uuid as Effect.Effect<Id & FreshId> // whichever it is asked for

  /** Lands the changes with an entry for each act; a unique field in use is `NameTaken`. */
  const write = Effect.fnUntraced(function* (
    actor: Actor,
    tenantId: TenantId,
    acts: ReadonlyArray<{ readonly action: string; readonly id: string; readonly environment?: Environment }>,
    changes: ReadonlyArray<Change>
  ) {
    yield* Effect.fromResult(line("actor", actor.id))
    const at = yield* Clock.currentTimeMillis
    const entries = yield* Effect.forEach(acts, ({ action, id, environment = null }) =>
      Effect.map(crypto.uuid, (entryId) => entryOf({ id: entryId, tenantId, environment, at, actor, action }, id))
    )
    const audit = entries.map((entry): Change => ({ _tag: "AppendAudit", entry }))
    yield* commit(store, queue, [...changes, ...audit], []).pipe(
      Effect.catchTag("CommitRejected", (rejected) => {
        const { reason } = rejected
        return Effect.fail(reason._tag === "Duplicate" ? new NameTaken({ what: nameOf(reason.kind), field: reason.field }) : rejected)
      })
    )
  })

  /** The usual write: one act. */
  const writeAct = (actor: Actor, tenantId: TenantId, action: string, id: string, changes: ReadonlyArray<Change>) =>
    write(actor, tenantId, [{ action, id }], changes)

  const requireFound = <A>(what: string, id: string, found: Effect.Effect<A | null, StoreUnavailable>) =>
    Effect.flatMap(found, (record) => (record === null ? Effect.fail(new UnknownResource({ what, id })) : Effect.succeed(record)))

  const tenant = (id: TenantId) => requireFound("tenant", id, store.credentials.tenant(id))

  const application = (tenantId: TenantId, id: ApplicationId) =>
    requireFound("application", id, store.credentials.application(tenantId, id))

  const mailDomain = (tenantId: TenantId, id: DomainId) => requireFound("domain", id, store.domains.get(tenantId, id))

  const mailbox = (tenantId: TenantId, id: MailboxId) => requireFound("mailbox", id, store.mailboxes.get(tenantId, id))

  /** A domain of the tenant; names are unique among all tenants. */
  const domainNamed = Effect.fnUntraced(function* (tenantId: TenantId, name: DomainName) {
    const [found] = yield* store.domains.named([name])
    return found?.tenantId === tenantId ? found : yield* new UnknownResource({ what: "domain", id: name })
  })

  /** The same of what nobody else could have moved: all that it may meet with, once a taken name is told, is a bug. */
  const insert = (...parameters: Parameters<typeof writeAct>) => writeAct(...parameters).pipe(dieOnRejection)

  /** Says something of the tenant as a whole, to all its applications. */
  const tenantEvent = Effect.fnUntraced(function* (
    tenantId: TenantId,
    type: Event["type"],
    resourceType: Event["resourceType"],
    resourceId: string,
    data: Event["data"]
  ) {
    const event: Event = {
      id: yield* uuid<EventId>(),
      tenantId,
      environment: null,
      audience: null,
      type,
      resourceType,
      resourceId,
      data: fit({ ...data }) as unknown as Event["data"], // the same members, shorter texts
      occurredAt: yield* Clock.currentTimeMillis
    }
    return { _tag: "AppendEvent" as const, event }
  })

  return {
    store, queue, crypto, uuid, write, writeAct, insert, requireFound,
    tenant, application, mailDomain, domainNamed, mailbox, tenantEvent
  }
})

export type Administration = Effect.Success<typeof make>

/** Holds a change to the version that it was decided on, if one was given. */
export const requireVersion = (what: string, record: { readonly id: string; readonly version: number }, { version }: Guarded) =>
  version === undefined || version === record.version
    ? Effect.void
    : Effect.fail(new StaleVersion({ what, id: record.id, version: record.version }))

const nameOf = (kind: string): string => (kind === "apiKey" ? "API key" : kind)
