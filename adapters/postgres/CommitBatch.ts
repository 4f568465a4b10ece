/**
 * Commits the changes of several callers in one transaction. Each gets its own
 * answer: who cannot have its changes leaves nothing, and harms nobody else.
 *
 * Changes that bring what is new, or write over a version that they name, are
 * written without a look, in one statement; the database's constraints, and the
 * statement itself, tell if something else was there after all, and then the
 * batch is played again on what it has.
 */
import { Effect } from "effect"
import type { SqlError } from "effect/sql/SqlError"
import type { Millis } from "../../core/model/Ids.ts"
import type { Job, JobKind } from "../../core/ports/JobQueue.ts"
import { CommitRejected, StoreUnavailable, type Change, type Committed, type Ending, type Next, type Rejection } from "../../core/ports/Store.ts"
import { isConnectionLost, type Database } from "./Database.ts"
import * as Forget from "./Forget.ts"
import * as Jobs from "./Jobs.ts"
import { load } from "./Load.ts"
import { assumed, canBeAssumed, nothingLoaded, Overlay, unsure, type Loaded } from "./Overlay.ts"
import { premiseFailed } from "./Parts.ts"
import { freesName, keyOfQuota, mustLook, touchedBy } from "./Touched.ts"
import type { Row } from "./Rows.ts"
import * as Write from "./Write.ts"

/** What one caller commits. */
export interface Call {
  readonly changes: ReadonlyArray<Change>
  readonly jobs: ReadonlyArray<Job>
  /** Ends with the changes, where the jobs are offered with them. */
  readonly lease?: Ending | undefined
  /** On the caller's clock: which of its jobs are due. */
  readonly now: Millis
}

/** What its caller is told. */
export type Answer = Effect.Effect<Committed, CommitRejected | StoreUnavailable>

/** An answer for each call, in order. */
export type CommitBatch = (calls: ReadonlyArray<Call>) => Effect.Effect<ReadonlyArray<Answer>>

type Run = (text: string, parameters: ReadonlyArray<unknown>) => Effect.Effect<ReadonlyArray<Row>, SqlError>

/** How often a batch that others were in the way of is played again before its callers are committed one by one. */
const roundsMax = 3

/** What is looked up before a batch is played: nothing, where its changes say what there is; what they change; or what they bring, too. */
type LookUp = "nothing" | "changed" | "everything"

/** One of the times that a batch is played. `round`: how often others were in the way so far. */
interface Try {
  readonly lookUp: LookUp
  readonly round: number
}

const firstTry: Try = { lookUp: "nothing", round: 0 }

/** Why nothing of a batch was written. */
type Failure =
  /** What its changes come to depends on what was not looked up. */
  | "not looked up"
  /** Something is not as its change says, and was not looked up. */
  | "not as said"
  /** Others were in the way, and by now it can be seen what they did. */
  | "in the way"
  /** Something of one caller is not taken. */
  | "not taken"
  /** The server takes nothing from anybody, or it is not known what it did. */
  | "lost"

/** How all are tried together once more; null if that would bring nothing. */
const nextTry = (failure: Failure, { lookUp, round }: Try): Try | null => {
  switch (failure) {
    case "not looked up":
      return lookUp === "everything" ? null : { lookUp: "everything", round }
    case "not as said":
      return lookUp === "nothing" ? { lookUp: "changed", round } : null
    case "in the way":
      return round < roundsMax ? { lookUp: "everything", round: round + 1 } : null
    case "not taken":
    case "lost":
      return null
  }
}

/** How a batch is written. `isFinal`: it has landed when it answers, where what is in a transaction may yet come to nothing. */
interface Writing {
  readonly run: Run
  readonly isFinal: boolean
}

export interface Options {
  /** The database holds the job queue too, and jobs and ends of leases are written along. */
  readonly jobsOffered: boolean
  /** Tells who waits that jobs of these kinds, which were offered meanwhile, began anew as their leases ended. Never fails. */
  readonly tellRenewed?: (kinds: ReadonlyArray<JobKind>) => Effect.Effect<void>
}

/** Commits batches to this database. */
export const make = ({ sql, rows }: Database["Service"], { jobsOffered, tellRenewed = () => Effect.void }: Options): CommitBatch => {
  const tight = makeTight()
  /** Answers of a database that takes nothing from anybody, or has not said what it did. */
  const lost = new WeakSet<Answer>()

  const byItself: Writing = { run: rows<Row>, isFinal: true }
  const inTransaction: Writing = { run: (text, parameters) => sql.unsafe(text, parameters), isFinal: false }

  /** Plays the calls on what was loaded and writes what they leave, and says what it came to for each. */
  const playAndWrite = Effect.fnUntraced(function* (calls: ReadonlyArray<Call>, loaded: Loaded, { run, isFinal }: Writing) {
    const overlay = new Overlay(loaded)
    const reasons: Array<Rejection | null> = []
    const jobs: Array<Job> = []
    const leases: Array<Ending> = []
    let now = Number.NEGATIVE_INFINITY
    for (const call of calls) {
      const reason = overlay.play(call.changes)
      if (reason === unsure) return yield* Effect.fail("not looked up" as const)
      if (reason !== null && loaded.isAssumed) return yield* Effect.fail("not as said" as const)
      if (reason?._tag === "QuotaExceeded") tight.add(call.changes)
      reasons.push(reason)
      if (reason !== null) continue
      jobs.push(...call.jobs)
      if (call.lease !== undefined) leases.push(call.lease)
      now = Math.max(now, call.now)
    }
    // A lease passes to another job by what has landed, and by nothing else.
    const written = Write.statement(overlay, jobsOffered ? Jobs.parts(jobs, leases, now, isFinal) : [])
    if (written === null) return { outcomes: outcomesOf(calls, reasons, []), renewed: [] }
    const [row] = yield* run(written.text, written.parameters)
    return { outcomes: outcomesOf(calls, reasons, isFinal ? Jobs.nextOf(row) : []), renewed: Jobs.renewedOf(row) }
  })

  const lookAndPlay = (calls: ReadonlyArray<Call>, everything: boolean) =>
    sql.withTransaction(
      Effect.flatMap(load(sql, touchedBy(calls.map(({ changes }) => changes), everything), everything), (loaded) =>
        playAndWrite(calls, loaded, inTransaction)
      )
    )

  const committed = ({ lease }: Call, forgotten: number, next: ReadonlyArray<Next>): Committed => ({
    jobsOffered,
    leaseEnded: jobsOffered && lease !== undefined,
    forgotten,
    next
  })

  /** A caller who forgets has a transaction of its own; what it forgets follows from the changes before it in its list. */
  const forgetting = Effect.fnUntraced(function* (call: Call) {
    let forgotten = 0
    const renewed: Array<JobKind> = []
    const forget = Effect.fnUntraced(function* (change: Extract<Change, { readonly _tag: "Forget" }>) {
      const { text, parameters } = Forget.statement(change)
      const [row] = yield* sql.unsafe(text, parameters).values
      forgotten += Number(row![0])
    })
    const play = Effect.fnUntraced(function* (changes: ReadonlyArray<Change>, jobs: ReadonlyArray<Job>) {
      const loaded = yield* load(sql, touchedBy([changes], true), true)
      const played = yield* playAndWrite([{ ...call, changes, jobs }], loaded, inTransaction)
      renewed.push(...played.renewed)
      const reason = played.outcomes[0]?.reason
      if (reason != null) return yield* new CommitRejected({ reason })
    })
    const [only] = call.changes
    const isAll = call.changes.length === 1 && call.jobs.length === 0 && call.lease === undefined
    if (only?._tag === "Forget" && isAll) yield* forget(only)
    else {
      yield* sql.withTransaction(
        Effect.gen(function* () {
          let changes: Array<Change> = []
          for (const change of call.changes) {
            if (change._tag !== "Forget") {
              changes.push(change)
              continue
            }
            yield* play(changes, [])
            yield* forget(change)
            changes = []
          }
          yield* play(changes, call.jobs)
        })
      )
    }
    yield* tellRenewed(renewed)
    return [Effect.succeed(committed(call, forgotten, []))] satisfies ReadonlyArray<Answer>
  }, Effect.catchIf((error) => error instanceof CommitRejected, (rejected) => Effect.succeed([Effect.fail(rejected)])))

  const answerOf = (call: Call, { reason, next }: Outcome): Answer =>
    reason === null ? Effect.succeed(committed(call, 0, next)) : Effect.fail(new CommitRejected({ reason }))

  /** What the calls can be played on without a look; null if there must be one. */
  const withoutLook = (calls: ReadonlyArray<Call>, lookUp: LookUp): Loaded | null => {
    // A quota that is nearly used up is looked at before anything is written in vain.
    if (lookUp === "everything" || some(calls, tight.has)) return null
    if (!some(calls, mustLook)) return nothingLoaded
    return lookUp === "nothing" && !some(calls, (change) => !canBeAssumed(change)) ? assumed(calls.map(({ changes }) => changes)) : null
  }

  const playOnce = (calls: ReadonlyArray<Call>, lookUp: LookUp) => {
    if (calls.length === 1 && forgets(calls[0]!)) return forgetting(calls[0]!)
    const loaded = withoutLook(calls, lookUp)
    const played =
      loaded === null
        ? lookAndPlay(calls, lookUp === "everything" || some(calls, (change) => tight.has(change) || freesName(change)))
        : playAndWrite(calls, loaded, byItself)
    return Effect.flatMap(played, ({ outcomes, renewed }) =>
      Effect.as(tellRenewed(renewed), outcomes.map((outcome, index) => answerOf(calls[index]!, outcome)))
    )
  }

  /** Once the database does not answer, those who are left are not tried any more. */
  const oneByOne = Effect.fnUntraced(function* (calls: ReadonlyArray<Call>) {
    const answers: Array<Answer> = []
    for (const call of calls) {
      const last = answers.at(-1)
      answers.push(last !== undefined && lost.has(last) ? last : (yield* commitTogether([call], firstTry))[0]!)
    }
    return answers
  })

  const commitTogether = (calls: ReadonlyArray<Call>, how: Try): Effect.Effect<ReadonlyArray<Answer>> =>
    Effect.suspend(() => playOnce(calls, how.lookUp)).pipe(
      Effect.catch((error) => {
        const failure = typeof error === "string" ? error : failureOf(error)
        const next = nextTry(failure, how)
        if (next !== null) return commitTogether(calls, next)
        if (failure !== "lost" && calls.length > 1) return oneByOne(calls)
        const answer: Answer = Effect.fail(new StoreUnavailable({ cause: typeof error === "string" ? new Error(error) : loggable(error) }))
        if (failure === "lost") lost.add(answer)
        return Effect.succeed(calls.map(() => answer))
      }),
      // Changes that no code of ours can have meant: nothing of them was written.
      Effect.catchDefect((defect) => (calls.length > 1 ? oneByOne(calls) : Effect.succeed([Effect.die(defect)])))
    )

  return (calls) => {
    const [batched, alone] = [calls.filter((call) => !forgets(call)), calls.filter(forgets)]
    if (alone.length === 0) return commitTogether(calls, firstTry)
    return Effect.gen(function* () {
      const answers = new Map<Call, Answer>()
      const together = batched.length === 0 ? [] : yield* commitTogether(batched, firstTry)
      batched.forEach((call, index) => answers.set(call, together[index]!))
      for (const call of alone) answers.set(call, (yield* commitTogether([call], firstTry))[0]!)
      return calls.map((call) => answers.get(call)!)
    })
  }
}

/** What became of a call. */
interface Outcome {
  readonly reason: Rejection | null
  readonly next: ReadonlyArray<Next>
}

/** Deals out the leases that took others' places, among those who wait for one of that group: one to each, and then more. */
const outcomesOf = (
  calls: ReadonlyArray<Call>,
  reasons: ReadonlyArray<Rejection | null>,
  taken: ReadonlyArray<Next>
): ReadonlyArray<Outcome> => {
  const left = [...taken]
  const nexts = calls.map((): Array<Next> => [])
  const jobsMax = Math.max(0, ...calls.map(({ lease }) => lease?.holdNext?.jobsMax ?? 0))
  for (let number = 1; number <= jobsMax && left.length > 0; number++) {
    calls.forEach(({ lease }, index) => {
      if (reasons[index] !== null || lease?.holdNext === undefined || lease.holdNext.jobsMax < number) return
      const place = left.findIndex(({ job }) => job.kind === lease.job.kind && job.group === lease.job.group)
      if (place >= 0) nexts[index]!.push(...left.splice(place, 1)) // one each
    })
  }
  return calls.map((_, index) => ({ reason: reasons[index]!, next: nexts[index]! })) // the same
}

const some = (calls: ReadonlyArray<Call>, is: (change: Change) => boolean): boolean =>
  calls.some(({ changes }) => changes.some(is))

const forgets = ({ changes }: Call): boolean => changes.some(({ _tag }) => _tag === "Forget")

/** What a statement's error says. */
const failureOf = (error: SqlError): Failure => {
  if (isConnectionLost(error)) return "lost"
  switch (error.reason._tag) {
    case "UniqueViolation":
    case "ConstraintError":
    case "DeadlockError":
    case "SerializationError":
    case "LockTimeoutError":
      return "in the way"
    default:
      // Words of the server, or of the driver about what it was given: nothing of it is committed.
      if (!hasCode(error.reason.cause)) return /encode/.test(error.reason.message ?? "") ? "not taken" : "lost"
      if (error.reason.cause.code === premiseFailed) return "not as said"
      return serverTrouble.test(error.reason.cause.code) ? "lost" : "not taken"
  }
}

/** A standby, read only, without tables, rights, resources or time, on its way out. */
const serverTrouble = /^(0A|25|42|53|55|57|58|F0|XX)/

/** What may be logged of an error: the server's details quote the rows, which are the tenants'. */
const loggable = ({ reason }: SqlError): Error => {
  const { cause } = reason
  return new Error(hasCode(cause) ? `${reason._tag}: ${cause.message} (${cause.code})` : `${reason._tag}: ${reason.message}`)
}

/** Whether these are the server's own words, and so the end of the transaction. */
const hasCode = (cause: unknown): cause is Error & { readonly code: string } =>
  cause instanceof Error && "code" in cause && typeof cause.code === "string" && /^[0-9A-Z]{5}$/.test(cause.code)

/** Quotas that were found used up of late; a hint, and bounded. */
const makeTight = () => {
  const keys = new Set<string>()
  const keyOf = (change: Change): string | null =>
    change._tag === "TakeQuota" ? keyOfQuota(change.tenantId, change.day) : null
  return {
    add: (changes: ReadonlyArray<Change>): void => {
      if (keys.size > 10_000) keys.clear()
      for (const change of changes) {
        const key = keyOf(change)
        if (key !== null) keys.add(key)
      }
    },
    has: (change: Change): boolean => {
      const key = keyOf(change)
      return key !== null && keys.has(key)
    }
  }
}
