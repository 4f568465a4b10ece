/**
 * Mail domains as an operator handles them. `Management` is made of this and
 * its neighbours.
 *
 * A domain has a DKIM key made for it, which signs once its record was seen in
 * DNS; a further one takes its place in the same way. What is suspended here
 * neither sends nor receives: new mail from it and to it is refused, and mail
 * from it that was accepted before waits, for as long as a submission may take,
 * until it is in use again. What the provider has taken is not called back.
 */
import { Clock, Effect, Option, Result } from "effect"
import type { DomainName } from "../model/Address.ts"
import { domainChecker, type Actor } from "../model/Audit.ts"
import * as DomainRecords from "../model/DomainRecords.ts"
import type { ExpectedRecord } from "../model/DomainRecords.ts"
import type { Data as EventData } from "../model/Event.ts"
import type { DomainId, MailboxId, Millis, TenantId } from "../model/Ids.ts"
import * as MailDomains from "../model/MailDomain.ts"
import type { SealedDkimKey, MailDomain } from "../model/MailDomain.ts"
import { hex } from "../model/SecretText.ts"
import { Settings } from "../Settings.ts"
import type { Change, CountedDomain, StoreUnavailable } from "../ports/Store.ts"
import {
  InUse,
  InvalidInput,
  pageBehind,
  requireVersion,
  timeMax,
  timeMin,
  UnknownResource,
  whole,
  type Administration,
  type Guarded,
  type Page,
  type PageQuery,
  type Removed,
  type Written
} from "./Administration.ts"
import { changeRecord, commit, unchanged } from "./Commit.ts"

/** A domain, and how many mailboxes it has. */
export type ManagedDomain = CountedDomain

/** A domain, and the DNS records that it should have. */
export interface DomainRecordSet {
  readonly domain: MailDomain
  readonly records: ReadonlyArray<ExpectedRecord>
  /** Of a key that signs as soon as this is seen; null if none waits. */
  readonly next: ExpectedRecord | null
}

export interface DomainManagement {
  /** By name. */
  readonly listDomains: (
    tenantId: TenantId,
    query: PageQuery
  ) => Effect.Effect<Page<ManagedDomain>, UnknownResource | InvalidInput | StoreUnavailable>
  readonly getDomain: (tenantId: TenantId, id: DomainId) => Effect.Effect<MailDomain, UnknownResource | StoreUnavailable>
  readonly domainNamed: (tenantId: TenantId, name: DomainName) => Effect.Effect<MailDomain, UnknownResource | StoreUnavailable>
  /**
   * A domain nobody has claimed. It stays `pending` until its records are checked, which they are from now on. An `id` of
   * your own is a new one, also after a removal: what is remembered and told of a domain is by its id.
   */
  readonly createDomain: (
    actor: Actor,
    input: { readonly id?: DomainId; readonly tenantId: TenantId; readonly domain: DomainName }
  ) => Written<MailDomain>
  /** The DNS records to set. A domain that has no key yet gets one. */
  readonly domainRecords: (actor: Actor, tenantId: TenantId, id: DomainId) => Written<DomainRecordSet>
  /**
   * Makes a new DKIM key, which signs once its record was seen in DNS; until then the former one does. A key that waits
   * to be seen is replaced.
   */
  readonly rotateDkim: (actor: Actor, tenantId: TenantId, id: DomainId) => Written<DomainRecordSet>
  /**
   * Takes in a round of DNS checks that the caller has made; the health follows from them (`MailDomain.assess`). The
   * service's own checks of this domain end with that. `InvalidInput` where one says what cannot be kept, or shown.
   */
  readonly recordChecks: (
    tenantId: TenantId,
    id: DomainId,
    checks: ReadonlyArray<MailDomains.RecordCheck>
  ) => Written<MailDomain>
  /**
   * Takes the domain for the tenant's own, and its DKIM record for published, by an operator's word. Mail can be sent from
   * it until a round of DNS checks finds otherwise, and none is made unless it is asked for. A key that was not seen in DNS
   * does not sign. A suspended domain stays suspended.
   */
  readonly confirmDomain: (actor: Actor, tenantId: TenantId, id: DomainId) => Written<MailDomain>
  /** Suspends a domain by an operator's decision, which no check lifts; or lets the next check decide again. */
  readonly setDomainSuspended: (actor: Actor, tenantId: TenantId, id: DomainId, suspended: boolean) => Written<MailDomain>
  /** Has mail to all other addresses of the domain go to one of its mailboxes; null: refuses it. */
  readonly setCatchAll: (actor: Actor, tenantId: TenantId, id: DomainId, mailboxId: MailboxId | null) => Written<MailDomain>
  /**
   * Removes a suspended domain that has no mailboxes, with its keys: `InUse` says what it still is or has. Its name is free
   * again, for any tenant. The audit trail goes on naming it, and no event tells of it.
   */
  readonly removeDomain: (actor: Actor, tenantId: TenantId, id: DomainId, input: Guarded) => Removed<MailDomain>
}

const confirmed = "confirmed by an operator"

/** Characters of what a DNS check expected, or saw: as many as a record can have bytes (RFC 1035, 3.2.1). */
const checkTextMax = 65_535

/** A check that others have made: it is kept and shown as it is. */
const requireSound = Effect.fnUntraced(function* (field: string, { expected, observed, since }: MailDomains.RecordCheck) {
  for (const [member, text] of [["expected", expected], ["observed", observed ?? ""]] as const) {
    if (text.length <= checkTextMax && text.isWellFormed() && !text.includes("\0")) continue
    return yield* new InvalidInput({ field: `${field}.${member}`, fault: `wants at most ${checkTextMax} characters, and no NUL or half of a character` })
  }
  yield* Effect.fromResult(whole(`${field}.since`, since, { minimum: timeMin, maximum: timeMax }))
})

/** What a change of a domain comes to. */
interface Move {
  readonly before: MailDomain
  /** As it is to be, but for its health and version. */
  readonly domain: MailDomain
  readonly input: MailDomains.Input | null
}

/** The one way in which domains change: their health by its machine, with its event, in one commit with what it follows from. */
export const makeDomainChanges = ({ store, queue, crypto, writeAct, tenantEvent }: Administration) => {
  const healthChanged = (before: MailDomain, after: MailDomain) => {
    const data: EventData<"domain.health_changed"> = {
      object: "domain",
      id: after.id,
      sequence: after.eventSequence,
      domain: after.domain,
      verified: MailDomains.isVerified(after.health),
      health: after.health,
      previousHealth: before.health,
      reasons: after.checks
        .filter(({ state }) => state !== "ok")
        .map(({ record, state, expected, observed }) => ({ record, state, expected, observed }))
    }
    return tenantEvent(after.tenantId, "domain.health_changed", "domain", after.id, data)
  }

  /** The domain one version on, with its health moved if the input moves it, and the changes that make it so. */
  const prepareMove = Effect.fnUntraced(function* ({ before, domain, input }: Move) {
    const decision = input === null ? null : Option.getOrNull(Result.getSuccess(MailDomains.decide(domain, input)))
    if (decision === null) {
      const after = { ...domain, version: before.version + 1 }
      const changes: ReadonlyArray<Change> = [{ _tag: "Update", kind: "domain", record: after }]
      return { after, changes }
    }
    const after = { ...MailDomains.apply(domain, decision), eventSequence: domain.eventSequence + 1 }
    const changes: ReadonlyArray<Change> = [{ _tag: "Update", kind: "domain", record: after }, yield* healthChanged(before, after)]
    return { after, changes }
  })

  /** A key that waits to be seen in DNS. */
  const makeKey = Effect.fnUntraced(function* (domain: Pick<MailDomain, "tenantId" | "id">) {
    const { publicKey, privateKey } = yield* crypto.generateDkimKey
    const random = yield* crypto.randomBytes(4)
    const selector = `mr${hex(random)}`
    return { selector, publicKey, privateKey: yield* crypto.seal(privateKey, MailDomains.sealContext(domain)) } satisfies SealedDkimKey
  })

  return {
    makeKey,

    /** Moves a domain on the record, whatever comes of it. */
    move: Effect.fnUntraced(function* (actor: Actor, action: string, move: Move, premises: ReadonlyArray<Change> = []) {
      const { after, changes } = yield* prepareMove(move)
      yield* writeAct(actor, after.tenantId, action, after.id, [...premises, ...changes])
      return after
    }),

    /** The same without a word in the audit trail: for what happens every hour and changes nothing. */
    moveQuietly: Effect.fnUntraced(function* (move: Move) {
      const { after, changes } = yield* prepareMove(move)
      yield* commit(store, queue, changes, [])
      return after
    }),

    /** The domain with a proof and a key, made now if it lacks them. */
    equip: Effect.fnUntraced(function* (domain: MailDomain) {
      const hasKey = domain.dkim !== null || domain.nextDkim !== null
      if (hasKey && domain.proof !== null) return domain
      // Kept, so that it outlives the sealing key that it is derived from.
      const proof = domain.proof ?? (yield* crypto.mac("domain-ownership", `${domain.tenantId} ${domain.domain}`)).slice(0, 32)
      return { ...domain, proof, nextDkim: hasKey ? domain.nextDkim : yield* makeKey(domain) } satisfies MailDomain
    })
  }
}

export const makeDomainManagement = (administration: Administration): Effect.Effect<DomainManagement> =>
  Effect.gen(function* () {
    const { store, uuid, writeAct, insert, tenant, mailDomain, domainNamed, mailbox } = administration
    const { equip, makeKey, move } = makeDomainChanges(administration)
    const settings = yield* Settings

    const recordsOf = (domain: MailDomain): DomainRecordSet => ({
      domain,
      records: DomainRecords.expected(domain, settings),
      next: DomainRecords.expectedNext(domain)
    })

    /** Checks by somebody else than the checker, which lets the domain be from then on. */
    const vouch = (
      actor: Actor,
      action: string,
      tenantId: TenantId,
      id: DomainId,
      checksOf: (before: MailDomain, now: Millis) => ReadonlyArray<MailDomains.RecordCheck>
    ) =>
      changeRecord(
        id,
        Effect.gen(function* () {
          const before = yield* mailDomain(tenantId, id)
          const now = yield* Clock.currentTimeMillis
          const checks = checksOf(before, now)
          const domain = { ...before, checks, nextCheckAt: null }
          return yield* move(actor, action, { before, domain, input: MailDomains.assess(before, checks, now) })
        })
      )

    return {
      listDomains: Effect.fn("Management.listDomains")(function* (tenantId, query) {
        yield* tenant(tenantId)
        return yield* pageBehind(
          query,
          (id) => Effect.map(store.domains.get(tenantId, id as DomainId), (found) => found?.domain ?? null), // any text: it names nothing then
          (after, limit) => store.domains.page(tenantId, { after, limit })
        )
      }),

      getDomain: mailDomain,

      domainNamed: Effect.fn("Management.domainNamed")(domainNamed),

      createDomain: Effect.fn("Management.createDomain")(function* (actor, { id, tenantId, domain }) {
        yield* tenant(tenantId)
        const now = yield* Clock.currentTimeMillis
        const record: MailDomain = {
          id: id ?? (yield* uuid<DomainId>()),
          tenantId,
          version: 1,
          eventSequence: 0,
          domain,
          health: "pending",
          checks: [],
          proof: null,
          dkim: null,
          nextDkim: null,
          nextCheckAt: now,
          catchAll: null,
          createdAt: now
        }
        yield* insert(actor, tenantId, "domain.create", record.id, [{ _tag: "Insert", kind: "domain", record }])
        return record
      }),

      domainRecords: Effect.fn("Management.domainRecords")(function* (actor, tenantId, id) {
        const domain = yield* changeRecord(
          id,
          Effect.gen(function* () {
            const before = yield* mailDomain(tenantId, id)
            const after = yield* equip(before)
            return after === before ? before : yield* move(actor, "domain.make_key", { before, domain: after, input: null })
          })
        )
        return recordsOf(domain)
      }),

      rotateDkim: Effect.fn("Management.rotateDkim")(function* (actor, tenantId, id) {
        yield* mailDomain(tenantId, id)
        const nextDkim = yield* makeKey({ tenantId, id })
        const domain = yield* changeRecord(
          id,
          Effect.gen(function* () {
            const before = yield* mailDomain(tenantId, id)
            const now = yield* Clock.currentTimeMillis
            const after = { ...(yield* equip({ ...before, nextDkim })), nextCheckAt: before.nextCheckAt === null ? null : now }
            return yield* move(actor, "domain.rotate_dkim", { before, domain: after, input: null })
          })
        )
        return recordsOf(domain)
      }),

      recordChecks: Effect.fn("Management.recordChecks")(function* (tenantId, id, checks) {
        for (const [index, check] of checks.entries()) yield* requireSound(`checks[${index}]`, check)
        return yield* vouch(domainChecker, "domain.check", tenantId, id, () => checks)
      }),

      confirmDomain: Effect.fn("Management.confirmDomain")((actor, tenantId, id) =>
        vouch(actor, "domain.confirm", tenantId, id, (before, since) => [
          ...before.checks.filter((check) => !MailDomains.isEssential(check) && check.state !== "unknown"),
          ...MailDomains.essentialRecords.map(
            (record) => ({ record, state: "ok", expected: confirmed, observed: confirmed, since }) as const
          )
        ])
      ),

      setDomainSuspended: Effect.fn("Management.setDomainSuspended")(function* (actor, tenantId, id, suspended) {
        return yield* changeRecord(
          id,
          Effect.gen(function* () {
            const before = yield* mailDomain(tenantId, id)
            if ((before.health === "suspended") === suspended) return before
            const [input, action, nextCheckAt] = suspended
              ? (["Suspended", "domain.suspend", null] as const)
              : (["Reinstated", "domain.reinstate", yield* Clock.currentTimeMillis] as const)
            return yield* move(actor, action, { before, domain: { ...before, nextCheckAt }, input })
          })
        )
      }),

      setCatchAll: Effect.fn("Management.setCatchAll")(function* (actor, tenantId, id, mailboxId) {
        return yield* changeRecord(
          id,
          Effect.gen(function* () {
            const before = yield* mailDomain(tenantId, id)
            const taker = mailboxId === null ? null : yield* mailbox(tenantId, mailboxId)
            if (taker !== null && taker.domainId !== id) return yield* new UnknownResource({ what: "mailbox", id: taker.id })
            if (before.catchAll === mailboxId) return before
            // Whoever removes the mailbox holds the domain, so one of them comes behind the other and sees it.
            const premises = taker === null ? [] : [unchanged("mailbox", taker)]
            return yield* move(actor, "domain.catch_all", { before, domain: { ...before, catchAll: mailboxId }, input: null }, premises)
          })
        )
      }),

      removeDomain: Effect.fn("Management.removeDomain")(function* (actor, tenantId, id, input) {
        return yield* changeRecord(
          id,
          Effect.gen(function* () {
            const domain = yield* mailDomain(tenantId, id)
            const inUse = (fault: string) => new InUse({ what: "domain", id: domain.domain, fault })
            yield* requireVersion("domain", domain, input)
            // So no mailbox comes while they are looked for.
            if (domain.health !== "suspended") return yield* inUse("is in use; suspend it first")
            const mailboxes = yield* store.mailboxes.page(tenantId, { domainId: id, after: null, limit: 1 })
            if (mailboxes.length > 0) return yield* inUse("has mailboxes; remove them first")
            yield* writeAct(actor, tenantId, "domain.remove", id, [{ _tag: "Remove", kind: "domain", record: domain }])
            return domain
          })
        )
      })
    }
  })
