/**
 * Looks at the DNS records of mail domains: of each when it is due, and of any
 * at once for an operator who asks. What is found decides the domain's health
 * (`MailDomain.assess`), which sending and receiving obey; what could not be
 * looked up changes nothing.
 *
 * Every worker runs it. Who takes a domain moves its next check on, and its
 * version with that: nobody else checks it meanwhile, and if this process ends
 * the domain is due again. A round that ends on a domain which somebody has
 * changed in between is dropped, and made again.
 */
import { Clock, Context, Effect, Layer, Random, Result } from "effect"
import { ClockOffset, isClockTrusted } from "../ClockOffset.ts"
import { domainChecker, type Actor } from "../model/Audit.ts"
import * as DomainRecords from "../model/DomainRecords.ts"
import type { Answer, Answers, ExpectedRecord, Question } from "../model/DomainRecords.ts"
import type { DomainId, Millis, TenantId } from "../model/Ids.ts"
import { domainCheckIntervals, domainCheckRetry } from "../model/Limits.ts"
import * as MailDomains from "../model/MailDomain.ts"
import type { MailDomain, RecordCheck } from "../model/MailDomain.ts"
import * as Administration from "../operations/Administration.ts"
import type { Written } from "../operations/Administration.ts"
import { commit, dieOnRejection, isRejected, retryOnVersionMoved } from "../operations/Commit.ts"
import { makeDomainChanges } from "../operations/DomainManagement.ts"
import { Resolver, type ResolutionFailed } from "../ports/Resolver.ts"
import * as SeldomLog from "../SeldomLog.ts"
import { Settings } from "../Settings.ts"

/** Domains of one round, and of them at a time: name servers answer when they like. */
const batchSize = 100
const concurrency = 10

/** A record that a domain should have, and what was found of it. */
export interface CheckedRecord {
  readonly expected: ExpectedRecord
  readonly check: RecordCheck
  /** What is the matter, and what to do; null if it is in order. */
  readonly advice: string | null
}

/** A round of checks. */
export interface CheckedDomain {
  readonly domain: MailDomain
  readonly records: ReadonlyArray<CheckedRecord>
  /** Of the key that waited to be seen beside the one that signs; null if none did. In order: it signs from now on. */
  readonly next: CheckedRecord | null
}

export class CheckDomains extends Context.Service<
  CheckDomains,
  {
    /** Checks what is due, up to a batch; how many domains that was. */
    readonly tick: Effect.Effect<number>
    /** Checks a domain at once, and from now on when it is due. */
    readonly check: (actor: Actor, tenantId: TenantId, id: DomainId) => Written<CheckedDomain>
  }
>()("mailroom/core/jobs/CheckDomains") {
  static readonly layer = Layer.effect(
    CheckDomains,
    Effect.gen(function* () {
      const administration = yield* Administration.make
      const resolver = yield* Resolver
      const settings = yield* Settings
      const clockOffset = yield* ClockOffset
      const seldom = SeldomLog.make()
      const { store, queue, requireFound } = administration
      const { equip, move, moveQuietly } = makeDomainChanges(administration)

      const ask = ({ type, name }: Question): Effect.Effect<Answer> => {
        const asked: Effect.Effect<ReadonlyArray<string>, ResolutionFailed> =
          type === "TXT"
            ? resolver.txt(name)
            : type === "CNAME"
              ? Effect.map(resolver.cname(name), (target) => [target])
              : Effect.map(resolver.mx(name), (found) =>
                  found.map(({ preference, exchange }) => `${preference} ${exchange === "" ? "." : exchange}`)
                )
        return Effect.catch(asked, ({ reason }) => Effect.succeed(reason === "not_found" ? [] : ("unavailable" as const)))
      }

      const lookUp = Effect.fnUntraced(function* (domain: MailDomain): Effect.fn.Return<Answers> {
        const next = DomainRecords.expectedNext(domain)
        const wanted = [...DomainRecords.expected(domain, settings), ...(next === null ? [] : [next])]
        const questions = new Map(wanted.flatMap(DomainRecords.questionsOf).map((one) => [DomainRecords.keyOf(one), one]))
        const answers = yield* Effect.forEach(
          questions,
          ([key, question]) => Effect.map(ask(question), (answer) => [key, answer] as const),
          { concurrency: "unbounded" }
        )
        return new Map(answers)
      })

      /** Takes in what DNS said of a domain as it was read; on that version, or not at all. */
      const conclude = Effect.fnUntraced(function* (actor: Actor, before: MailDomain, domain: MailDomain, answers: Answers) {
        const now = yield* Clock.currentTimeMillis
        const { input, records, next, after } = judge(domain, answers, now)
        const suspended = domain.health === "suspended"
        const nextCheckAt = suspended ? null : now + (yield* waitAfter(after, input, records, now))
        const change = { before, domain: { ...after, nextCheckAt }, input }
        const isAsked = actor !== domainChecker
        const checked = yield* isAsked || isNews(domain, after, input) ? move(actor, "domain.check", change) : moveQuietly(change)
        if (checked.health !== before.health) {
          yield* Effect.logInfo("the health of a domain has changed").pipe(
            Effect.annotateLogs({ domainId: checked.id, domain: checked.domain, health: checked.health, previousHealth: before.health })
          )
        }
        return { domain: checked, records, next } satisfies CheckedDomain
      })

      const judge = (domain: MailDomain, answers: Answers, now: Millis) => {
        const former = (record: RecordCheck["record"]) => domain.checks.find((one) => one.record === record)
        const looked = (expected: ExpectedRecord, before: RecordCheck | undefined): CheckedRecord => {
          const check = DomainRecords.check(expected, answers, before, now)
          return { expected, check, advice: DomainRecords.advice(expected, check) }
        }
        const wanted = DomainRecords.expected(domain, settings)
        const records = wanted.map((expected) => looked(expected, former(expected.record)))
        const waiting = DomainRecords.expectedNext(domain)
        const next = waiting === null ? null : looked(waiting, undefined)
        // A key signs once its record was seen; that record is the one that counts from then on.
        const dkim = next?.check.state === "ok" ? looked(next.expected, former("dkim")).check : null
        const isSeen = dkim !== null || (domain.dkim === null && records.some(({ check }) => check.record === "dkim" && check.state === "ok"))
        const keys = isSeen ? { dkim: domain.nextDkim, nextDkim: null } : {}
        const found = records.map(({ check }) => (check.record === "dkim" ? (dkim ?? check) : check))
        const { checks, kept } = DomainRecords.counted(wanted, found, domain.checks, now)
        return { input: MailDomains.assess(domain, checks, now), records, next, after: { ...domain, ...keys, checks: kept } }
      }

      const handle = Effect.fnUntraced(
        function* (due: MailDomain) {
          const now = yield* Clock.currentTimeMillis
          const taken = { ...due, version: due.version + 1, nextCheckAt: now + domainCheckRetry }
          yield* commit(store, queue, [{ _tag: "Update", kind: "domain", record: taken }], [])
          const domain = yield* equip(taken)
          yield* conclude(domainChecker, taken, domain, yield* lookUp(domain))
          return 1
        },
        (effect, { id }) =>
          effect.pipe(
            // Another worker has it, or somebody changed it meanwhile.
            Effect.catchIf((error) => isRejected(error, "VersionMoved"), () => Effect.succeed(0)),
            dieOnRejection,
            Effect.catch((error) => Effect.as(Effect.logWarning("the records of a domain could not be checked", error), 0)),
            Effect.annotateLogs({ domainId: id })
          )
      )

      return CheckDomains.of({
        tick: Effect.gen(function* () {
          if (!isClockTrusted(clockOffset)) return 0
          const due = yield* store.domains.due(yield* Clock.currentTimeMillis, batchSize)
          const done = yield* Effect.forEach(due, handle, { concurrency })
          return done.reduce((sum, one) => sum + one, 0)
        }).pipe(Effect.catch((error) => Effect.as(seldom(Effect.logWarning("the domain checker could not read the store", error)), 0))),

        check: Effect.fn("CheckDomains.check")((actor, tenantId, id) =>
          retryOnVersionMoved(
            Effect.gen(function* () {
              const before = yield* requireFound("domain", id, store.domains.get(tenantId, id))
              const domain = yield* equip(before)
              return yield* conclude(actor, before, domain, yield* lookUp(domain))
            })
          ).pipe(dieOnRejection)
        )
      })
    })
  )
}

const hour: Millis = 3_600_000
const day = 24 * hour

/** How long until the next round: not all domains at one time, and soon where something could not be looked up. */
const waitAfter = Effect.fnUntraced(function* (
  domain: MailDomain,
  input: MailDomains.Input | null,
  records: ReadonlyArray<CheckedRecord>,
  now: Millis
) {
  const { fresh, recent, settled } = domainCheckIntervals
  const isWaiting = domain.health === "pending" && input === null
  const age = now - domain.createdAt
  const interval = !isWaiting || age >= day ? settled : age < hour ? fresh : recent
  const isUnknown = records.some(({ check }) => check.state === "unknown")
  const wait = isUnknown ? Math.min(interval, domainCheckRetry) : interval
  return Math.round(wait * (0.9 + 0.2 * (yield* Random.next)))
})

/** Whether the audit trail has to say something of a round: most change nothing. */
const isNews = (before: MailDomain, after: MailDomain, input: MailDomains.Input | null): boolean => {
  const statesOf = ({ checks }: MailDomain) => checks.map(({ record, state }) => `${record} ${state}`).join()
  const keysOf = ({ dkim, nextDkim }: MailDomain) => `${dkim?.selector} ${nextDkim?.selector}`
  return statesOf(before) !== statesOf(after) || keysOf(before) !== keysOf(after) || moves(before, input)
}

const moves = (domain: MailDomain, input: MailDomains.Input | null): boolean =>
  input !== null && Result.isSuccess(MailDomains.decide(domain, input))
