/**
 * Claims, and waits for work. The groups that have ready jobs lie in a ring, by
 * kind and name; each process has a place in it, for each set of kinds that it
 * claims, and goes on from there. So a claim costs what it takes and the groups
 * it passes, however many jobs and groups there are.
 */
import { PgTypes } from "@effect/sql-pg"
import { Clock, Duration, Effect, Option, Random, Semaphore } from "effect"
import type { Environment, Millis, TenantId } from "../../core/model/Ids.ts"
import { jobKinds, type JobKind, type JobQueue, type Lease, type QueueUnavailable } from "../../core/ports/JobQueue.ts"
import type { JobNews } from "./JobNews.ts"
import { array, toBigint, type Row } from "./Rows.ts"

/**
 * Groups that a statement looks at, and statements of a claim. A group at its cap has a lease, so there are no more of
 * them than the workers of all processes have places.
 */
const groupsMax = 256
const statementsMax = 8
/** Groups that a statement takes from. It holds a lock for each, of which the server has some thousands. */
const turnsMax = 64
/** How long to wait for what no news tells of: a lease in another process that ended, and freed a place below a cap. */
const fullPause: Millis = 250
/** How long to wait when there are groups that were not looked at, or jobs that another claimer holds. */
const restPause: Millis = 20
/** How long to believe that nothing falls due earlier: another process may take a lease, and die. */
const lookPause: Millis = 15_000
/**
 * While somebody holds an old snapshot of the database, as a backup does for hours, each claim wades through all that
 * was completed since. When two in a row took the server so long for nothing, none is made for ten times as long: until
 * then claims leave alone, unread, what has been ready for more than a minute. How long the answer took to reach us says
 * nothing about that, for this process may have been busy, or suspended; and one slow claim may be a server that was.
 */
const slowClaim: Millis = 100
const restFactor = 10
const recent: Millis = 60_000

export type Rows = (text: string, parameters?: ReadonlyArray<unknown>) => Effect.Effect<ReadonlyArray<Row>, QueueUnavailable>

type ClaimOptions = Parameters<JobQueue["Service"]["claim"]>[0]

export type JobClaims = Pick<JobQueue["Service"], "claim" | "awaitWork">

export const make = (rows: Rows, news: JobNews["Service"]): JobClaims => {
  const rings = new Map<string, Ring>()
  // The last claim of this kind left groups at their caps: a place that becomes free is news.
  news.whoWaitsForPlaces((kind) => [...rings.values()].some((ring) => ring.isFull && ring.kinds.includes(kind)))
  const ringOf = (kinds: ReadonlyArray<JobKind>): Ring => {
    const ofKinds = jobKinds.filter((kind) => kinds.includes(kind))
    const name = ofKinds.join(" ")
    const known = rings.get(name)
    if (known !== undefined) return known
    const claiming = Semaphore.makeUnsafe(1)
    const ring = { kinds: ofKinds, place: null, quiet: null, isFull: false, wasSlow: false, restUntil: 0, claiming }
    rings.set(name, ring)
    return ring
  }

  return {
    claim: (options) => {
      const ring = ringOf(options.kinds)
      if (ring.kinds.length === 0 || options.limit <= 0) return Effect.succeed([])
      return ring.claiming.withPermits(1)(restingly(ring, (since) => claim(rows, news, ring, options, since)))
    },
    awaitWork: (kinds, atMost) => {
      const ring = ringOf(kinds)
      const work = ring.kinds.length === 0 ? Effect.never : wait(rows, news, ring, Duration.toMillis(atMost))
      // Nobody learns here that the database is away: the next claim does.
      const away = Effect.sleep(Math.min(1_000, Duration.toMillis(atMost)))
      return Effect.asVoid(Effect.timeoutOption(Effect.catch(work, () => away), atMost))
    }
  }
}

/** The claims of one set of kinds. */
interface Ring {
  readonly kinds: ReadonlyArray<JobKind>
  /** Where the last turn was. */
  place: Place | null
  /** Set by a claim that left nothing to take, until somebody waits by it. */
  quiet: Quiet | null
  /** The last claim left nothing to take, and there may be groups at their caps. */
  isFull: boolean
  /** The last claim of everything took too long for nothing. */
  wasSlow: boolean
  /** Until when claims are for what is recent, by the clock that never jumps. */
  restUntil: Millis
  readonly claiming: Semaphore.Semaphore
}

interface Place {
  readonly kind: JobKind
  readonly group: string
}

/** What a claim, or a look, found out when there was nothing to take. */
interface Quiet {
  /** Ends at the first news since. */
  readonly heard: Effect.Effect<boolean>
  /** When a job becomes ready by the mere passing of time. */
  readonly nextAt: Millis
  /** How long to wait, at most, where there are ready jobs of groups at their caps; null: there are none. */
  readonly pause: Millis | null
}

interface Claimed {
  readonly leases: ReadonlyArray<Lease>
  /** How long the server was at it. */
  readonly took: Millis
}

/** Claims everything, or what is recent if that took too long for nothing. */
const restingly = Effect.fnUntraced(function* (ring: Ring, claim: (since: Millis) => Effect.Effect<Claimed, QueueUnavailable>) {
  const since = yield* sinceOf(ring)
  const { leases, took } = yield* claim(since)
  if (since > -Infinity) return leases
  const now = yield* Clock.currentTimeMillis
  const isSlow = took > slowClaim && !leases.some(({ job }) => job.dueAt < now - recent)
  if (isSlow && ring.wasSlow) ring.restUntil = (yield* steadyMillis) + restFactor * took
  ring.wasSlow = isSlow
  return leases
})

const sinceOf = Effect.fnUntraced(function* (ring: Ring) {
  return (yield* steadyMillis) < ring.restUntil ? (yield* Clock.currentTimeMillis) - recent : -Infinity
})

const steadyMillis = Effect.map(Clock.monotonicTimeNanos, (nanos): Millis => Number(nanos / 1_000_000n))

/** Goes on along the ring until it has found something, or has been round. */
const claim = Effect.fnUntraced(function* (
  rows: Rows,
  news: JobNews["Service"],
  ring: Ring,
  options: ClaimOptions,
  since: Millis
): Effect.fn.Return<Claimed, QueueUnavailable> {
  ring.quiet = null
  ring.isFull = false
  const heard = yield* news.listen(ring.kinds)
  ring.place ??= yield* anyPlace(ring.kinds)
  let arcs = roundFrom(ring.place, ring.kinds)
  let passed = 0
  let took = 0
  for (let statement = 0; statement < statementsMax; statement++) {
    const found = yield* claimAlong(rows, arcs, options, since)
    took += found.took
    const last = found.leases.at(-1)?.job
    if (last !== undefined && found.leases.length === options.limit) ring.place = { kind: last.kind, group: last.group }
    else if (!found.isRound) ring.place = { kind: arcs[found.arc]!.kind, group: found.lastGroup } // it stopped in one of them
    ring.quiet = null
    if (found.leases.length > 0 && (found.leases.length === options.limit || !found.isRound)) {
      ring.isFull = false
      return { leases: found.leases, took }
    }
    passed += found.passed
    ring.isFull ||= found.looked > 0
    // Where another claimer was at, there may be work in a moment.
    const isBeside = !found.isRound || (found.wasReady && !ring.isFull)
    const pause = isBeside ? restPause : ring.isFull || since > -Infinity ? fullPause : null
    if (passed === 0) ring.quiet = { heard, nextAt: found.nextAt, pause }
    if (found.isRound) return { leases: found.leases, took }
    arcs = [{ ...arcs[found.arc]!, after: found.lastGroup }, ...arcs.slice(found.arc + 1)]
  }
  return { leases: [], took }
})

const claimAlong = Effect.fnUntraced(function* (rows: Rows, arcs: ReadonlyArray<Arc>, options: ClaimOptions, since: Millis) {
  const now = yield* Clock.currentTimeMillis
  const expiresAt = now + Duration.toMillis(options.visibilityTimeout)
  const [row] = yield* rows(claimStatement, [
    array("text", arcs.map(({ kind }) => kind)),
    array("text", arcs.map(({ after }) => after)),
    array("text", arcs.map(({ upto }) => upto)),
    PgTypes.int4(options.limit),
    PgTypes.int4(Math.min(options.limit, turnsMax)),
    PgTypes.int4(groupsMax),
    PgTypes.int4(Math.min(options.inFlightMax, int4Max)),
    PgTypes.int8(toBigint(now)),
    PgTypes.int8(toBigint(expiresAt)),
    PgTypes.int8(toBigint(since))
  ])
  return decode(row!, expiresAt) // the function gives one row
})

const wait = Effect.fnUntraced(function* (rows: Rows, news: JobNews["Service"], ring: Ring, atMost: Millis) {
  const until = (yield* steadyMillis) + atMost
  let quiet = ring.quiet
  ring.quiet = null
  for (;;) {
    quiet ??= yield* look(rows, news, ring)
    if (quiet === null) return
    const left = quiet.nextAt - (yield* Clock.currentTimeMillis)
    if (left <= 0) return
    const rest = until - (yield* steadyMillis)
    const pause = Math.min(left, quiet.pause ?? lookPause)
    const heard = yield* Effect.timeoutOption(quiet.heard, Math.min(pause, rest))
    // Of what a free place is good for, a claim tells as much as a look. And a look at the end of the wait would be called
    // off, and its connection with it.
    if (Option.isSome(heard) ? heard.value : quiet.pause !== null || rest <= pause) return
    quiet = null
  }
})

/** Null: there is work. */
const look = Effect.fnUntraced(function* (
  rows: Rows,
  news: JobNews["Service"],
  ring: Ring
): Effect.fn.Return<Quiet | null, QueueUnavailable> {
  const heard = yield* news.listen(ring.kinds)
  const since = yield* sinceOf(ring)
  const [row] = yield* rows(lookStatement, [
    array("text", ring.kinds),
    PgTypes.int8(toBigint(since)),
    PgTypes.int8(toBigint(yield* Clock.currentTimeMillis))
  ])
  if (row!["is_ready"] === true) return null // one row of two scalars
  return { heard, nextAt: toNextAt(row!["next_ms"]), pause: since === -Infinity ? null : fullPause }
})

/** Processes begin anywhere, so that they do not all go along with one another. */
const anyPlace = Effect.fnUntraced(function* (kinds: ReadonlyArray<JobKind>): Effect.fn.Return<Place> {
  const kind = kinds[yield* Random.nextIntBetween(0, kinds.length, { halfOpen: true })]! // there is one
  const number = yield* Random.nextIntBetween(0, 0x1_0000_0000, { halfOpen: true })
  return { kind, group: number.toString(16).padStart(8, "0") }
})

/** A part of the ring: the groups of a kind behind `after`, up to and with `upto`. */
interface Arc {
  readonly kind: JobKind
  readonly after: string
  readonly upto: string | null
}

const roundFrom = (place: Place, kinds: ReadonlyArray<JobKind>): ReadonlyArray<Arc> => {
  const index = kinds.indexOf(place.kind)
  const others = [...kinds.slice(index + 1), ...kinds.slice(0, index)]
  return [
    { kind: place.kind, after: place.group, upto: null },
    ...others.map((kind) => ({ kind, after: "", upto: null })),
    { kind: place.kind, after: "", upto: place.group }
  ]
}

interface Found {
  readonly leases: ReadonlyArray<Lease>
  /** Where it stopped: in which arc, and behind which group. */
  readonly arc: number
  readonly lastGroup: string
  readonly isRound: boolean
  /** Groups with ready jobs, and those of them that another claimer was at. */
  readonly looked: number
  readonly passed: number
  readonly nextAt: Millis
  /** There was a job to take when it began, of which it saw none: another claimer is at it, or was. */
  readonly wasReady: boolean
  /** How long the server was at it. */
  readonly took: Millis
}

const decode = (row: Row, expiresAt: Millis): Found => {
  const column = (name: string) => (row[name] ?? []) as ReadonlyArray<unknown> // null where nothing was taken
  const leases = column("subjects").map((subject, index) => {
    const value = (name: string) => column(name)[index]
    return {
      // As they were offered.
      job: {
        kind: value("kinds") as JobKind,
        subject: subject as string,
        realm: { tenantId: value("tenant_ids") as TenantId, environment: value("environments") as Environment },
        group: value("group_names") as string,
        dueAt: Number(value("dues_ms"))
      },
      token: value("tokens") as string,
      claims: Number(value("claim_counts")),
      expiresAt
    }
  })
  return {
    leases,
    arc: Number(row["arc"]) - 1,
    lastGroup: String(row["last_group"]),
    isRound: row["is_round"] === true,
    looked: Number(row["looked"]),
    passed: Number(row["passed"]),
    nextAt: toNextAt(row["next_ms"]),
    wasReady: row["was_ready"] === true,
    took: Number(row["took_ms"])
  }
}

const toNextAt = (value: unknown): Millis => (value === null ? Infinity : Number(value))

const int4Max = 2_147_483_647

/**
 * Whoever makes jobs ready, takes some and leaves the others holds all of them until its statement is over, and no news tells
 * of that. Claimers come together, for each waits until the next job falls due. What was there is asked as of the beginning.
 */
const claimStatement = `
  select *, (extract(epoch from clock_timestamp() - statement_timestamp()) * 1000)::bigint as took_ms,
    case when looked = 0 then mailroom.has_ready_job($1, $10, $8) end as was_ready
  from mailroom.claim_jobs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`
const lookStatement = "select mailroom.has_ready_job($1, $2, $3) as is_ready, mailroom.next_job_ms($1, $3) as next_ms"
