/**
 * What a worker knows of its places: which jobs share them, when one passes
 * from a job to the next of its group, for how long a job is its own, and whose
 * suspect is under way. Nothing here waits or asks; `Worker` does.
 */
import { Cause, Duration, type Clock } from "effect"
import type { Place } from "../operations/Commit.ts"
import type { JobKind, Lease } from "../ports/JobQueue.ts"
import type { Hold, Next } from "../ports/Store.ts"
import { requestsMax } from "./WebhookAttempts.ts"

/** How long a job is held before others may have it; work that takes longer extends its lease. */
export const visibilityTimeout = Duration.seconds(60)
/** How often such work extends it. */
export const extendEvery = Duration.seconds(20)

/** Nothing that a port knows of: a defect, or that it interrupts whoever calls it. Of its own interruption a fiber is not asked, so that is none of those. */
export const isBroken = <E>(cause: Cause.Cause<E>): boolean => !Cause.hasFails(cause)

/** Jobs that share the places of one process, so that slow mail servers hold up no webhooks and no scans, nor slow receivers mail. */
export interface Lane {
  readonly kinds: ReadonlyArray<JobKind>
  /** Jobs under way at a time in one process. */
  readonly placesMax: number
  /** Leases of one group at a time, over all workers, so that a big one leaves room for the others. */
  readonly inFlightMax: number
  /**
   * While fewer than this are under way and nobody else waits, a job that ends well within a moment brings two of its group
   * in its place: one that is quick has as many in flight as it answers quickly. 0: none ever brings more than one.
   */
  readonly growsTo: number
  /**
   * How long a lane that has work under way lets places become free before it claims again: one claim costs the queue as
   * much for one job as for many, and so do the steps that jobs claimed together take together.
   */
  readonly claimPause: Duration.Duration
}

export const lanes: ReadonlyArray<Lane> = [
  // A tenant whose recipients hang has its places for minutes: four of them, before others wait.
  { kinds: ["submit", "poll"], placesMax: 256, inFlightMax: 64, growsTo: 0, claimPause: Duration.millis(10) },
  // One receiver has few at a time, until it is known to be quick. Beside the requests in flight, some are being recorded.
  { kinds: ["deliver"], placesMax: requestsMax + 64, inFlightMax: 8, growsTo: requestsMax / 2, claimPause: Duration.zero },
  // Each holds a whole message in memory.
  { kinds: ["parse"], placesMax: 8, inFlightMax: 4, growsTo: 0, claimPause: Duration.millis(10) },
  // A scanner takes few at a time, and up to a minute for each: one tenant's files leave it room for another's.
  { kinds: ["scan"], placesMax: 8, inFlightMax: 3, growsTo: 4, claimPause: Duration.millis(10) }
]

/** Jobs that follow each other in one place, before it is given back for a claim to see who has waited longest. */
const passesMax = 50
/**
 * How long jobs of one group follow each other in a place for which others wait: a claim costs the queue as much for each
 * group as a handful of its jobs cost, and so long nobody minds.
 */
const slice = Duration.toNanosUnsafe(Duration.millis(100))
/** In lanes that grow: a job shorter than `quick` lets its group have more in flight, one of `slow` or longer gives back its place. */
const [quick, slow] = [Duration.toNanosUnsafe(Duration.millis(100)), Duration.toNanosUnsafe(Duration.seconds(1))]

/** The places of a lane that are taken, or promised to jobs that a commit is asked for. */
export class LanePlaces {
  readonly lane: Lane
  taken = 0
  /** The last claim left no job that was not at its group's cap, so nobody else waits for a place. */
  isSpare = false

  constructor(lane: Lane) {
    this.lane = lane
  }

  /** How many jobs to claim, of whoever has found one to be free. */
  get free(): number {
    return Math.max(1, this.lane.placesMax - this.taken)
  }

  /** How many jobs of its group a job that ends brings: two, one, or none, which leaves its place to a claim. */
  nextAfter(job: { readonly passes: number; readonly sinceClaim: bigint; readonly took: bigint }): 0 | 1 | 2 {
    const { lane, taken } = this
    const isWaitedFor = !this.isSpare || taken >= lane.placesMax
    if (job.passes >= passesMax) return 0
    if (isWaitedFor && job.sinceClaim >= slice) return 0
    if (lane.growsTo > 0 && job.took >= slow) return 0
    return !isWaitedFor && taken < lane.growsTo && job.took < quick ? 2 : 1
  }
}

/** A place from the claim that fills it to the claim that it is left to, with the jobs of one group in it one after the other. */
export class PlaceInLane implements Place {
  readonly #places: LanePlaces
  readonly #clock: Clock.Clock
  readonly #isStopping: () => boolean
  readonly #claimedAt: bigint
  #startedAt: bigint
  #passes = 0
  /** Promised beside the one that there is, until it is known what for. */
  #more = 0
  #next: ReadonlyArray<Next> = []

  constructor(places: LanePlaces, clock: Clock.Clock, isStopping: () => boolean) {
    this.#places = places
    this.#clock = clock
    this.#isStopping = isStopping
    this.#claimedAt = this.#startedAt = clock.monotonicTimeNanosUnsafe()
  }

  /** May be asked again by a job whose commit has to be made anew. */
  holdNext(): Hold | null {
    this.#promise(0)
    const now = this.#clock.monotonicTimeNanosUnsafe()
    const jobsMax = this.#places.nextAfter({ passes: this.#passes, sinceClaim: now - this.#claimedAt, took: now - this.#startedAt })
    if (jobsMax === 0 || this.#isStopping()) return null
    this.#promise(jobsMax - 1)
    return { jobsMax, visibilityTimeout }
  }

  take(next: ReadonlyArray<Next>): void {
    this.#next = next
  }

  isStopping(): boolean {
    return this.#isStopping()
  }

  /** The job has come to its end, or to none. What follows it here: whoever has more of them than one starts the others elsewhere. */
  ended(): ReadonlyArray<Next> {
    this.#promise(0)
    const next = this.#next
    this.#next = []
    this.#passes += 1
    this.#startedAt = this.#clock.monotonicTimeNanosUnsafe()
    return next
  }

  #promise(more: number): void {
    this.#places.taken += more - this.#more
    this.#more = more
  }
}

/** A lease for as long as it is known to be ours. */
export class HeldLease {
  readonly #clock: Clock.Clock
  #expiresAt = 0
  #expiresNanos = 0n
  #isLost = false

  constructor(lease: Lease, clock: Clock.Clock) {
    this.#clock = clock
    this.extended(lease)
  }

  extended({ expiresAt }: Lease): void {
    const left = Math.max(0, expiresAt - this.#clock.currentTimeMillisUnsafe())
    this.#expiresAt = expiresAt
    this.#expiresNanos = this.#clock.monotonicTimeNanosUnsafe() + Duration.toNanosUnsafe(Duration.millis(left))
  }

  lost(): void {
    this.#isLost = true
  }

  /** False where another may have the job by now. Either clock may have stood still, with the process or the machine, or been set. */
  isOurs(): boolean {
    const isOver = this.#clock.currentTimeMillisUnsafe() >= this.#expiresAt || this.#clock.monotonicTimeNanosUnsafe() >= this.#expiresNanos
    return !isOver && !this.#isLost
  }
}

/** Whose suspect is under way: one at a time in a process, and lanes take turns. */
export class SuspectTurn {
  #testing: Lane | null = null
  /** The one that has waited longest. */
  #testsNext: Lane | null = null

  /** Whether a lane that has found suspects may work one now. */
  begin(lane: Lane): boolean {
    const may = this.#testing === null && (this.#testsNext === null || this.#testsNext === lane)
    if (may) [this.#testing, this.#testsNext] = [lane, null]
    else if (this.#testing !== lane) this.#testsNext ??= lane
    return may
  }

  /** A lane has found none: it waits for no turn. */
  pass(lane: Lane): void {
    if (this.#testsNext === lane) this.#testsNext = null
  }

  end(lane: Lane): void {
    if (this.#testing === lane) this.#testing = null
    this.pass(lane)
  }
}
