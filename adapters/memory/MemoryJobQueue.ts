/**
 * A job queue in this process's memory; a restart empties it, which the epoch
 * tells. Each kind has a lane, where a job lies in one of three heaps: delayed
 * (by due time), ready (one per group), leased (by expiry). Groups with ready
 * jobs and fewer leases than they are throttled to stand in line by their turn,
 * apart by how many leases they have, so the next one below any cap is found
 * without a look at those at the cap. Each step is O(log n).
 */
import { Clock, Duration, Effect, Latch, Layer, Random } from "effect"
import type { Millis } from "../../core/model/Ids.ts"
import { JobQueue, LeaseLost, jobKinds, leaseMax, throttleLifetime, type Job, type JobKind, type Lease } from "../../core/ports/JobQueue.ts"
import { Heap, type Item } from "./Heap.ts"

export const make = Effect.gen(function* () {
  const epoch = `memory-${(yield* Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER)).toString(36)}`
  let count = 0
  const nextNumber = () => count++
  const lanes = new Map<JobKind, Lane>()
  for (const kind of jobKinds) lanes.set(kind, new Lane(epoch, nextNumber, yield* Latch.make()))
  const laneOf = (kind: JobKind): Lane => lanes.get(kind)! // each kind has one
  const all = [...lanes.values()]
  const lanesOf = (kinds: ReadonlyArray<JobKind>): ReadonlyArray<Lane> => [...new Set(kinds)].map(laneOf)

  /** One step on the jobs as they stand now; whoever waits for work of a lane that moved learns of it afterwards. */
  const step = <A>(run: (now: Millis) => A): Effect.Effect<A> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const before = all.map(({ news }) => news)
      for (const lane of all) lane.advance(now)
      const result = run(now)
      const moved = all.filter(({ news }, index) => news !== before[index])
      return Effect.as(Effect.forEach(moved, (lane) => lane.changed.release, { discard: true }), result)
    })

  const stepHeld = <A>(lease: Lease, run: (lane: Lane, entry: Entry, now: Millis) => A): Effect.Effect<A, LeaseLost> =>
    Effect.flatten(
      step((now): Effect.Effect<A, LeaseLost> => {
        const lane = laneOf(lease.job.kind)
        const entry = lane.held(lease)
        return entry === undefined ? Effect.fail(new LeaseLost({ token: lease.token })) : Effect.succeed(run(lane, entry, now))
      })
    )

  const work = Effect.fnUntraced(function* (lanes: ReadonlyArray<Lane>, atMost: Millis) {
    for (;;) {
      const { untilNext, news } = yield* step((now) => ({
        untilNext: lanes.some((lane) => lane.mayBeClaimed) ? 0 : Math.min(...lanes.map((lane) => lane.nextAt)) - now,
        news: lanes.map(newsAfter)
      }))
      if (untilNext <= 0) return
      yield* Effect.timeoutOption(Effect.raceAllFirst(news), Math.min(atMost, untilNext))
    }
  })

  return JobQueue.of({
    offer: (offered) => step((now) => offered.forEach((job) => laneOf(job.kind).offer(job, now))),
    claim: ({ kinds, limit, visibilityTimeout, inFlightMax }) =>
      step((now) => claim(lanesOf(kinds), limit, now + Duration.toMillis(visibilityTimeout), inFlightMax)),
    complete: (lease) => stepHeld(lease, (lane, entry, now) => lane.complete(entry, now)),
    extend: (lease, visibilityTimeout) =>
      stepHeld(lease, (lane, entry, now) => lane.extend(entry, now + Duration.toMillis(visibilityTimeout))),
    release: (lease, delay) => stepHeld(lease, (lane, entry, now) => lane.release(entry, now, Duration.toMillis(delay))),
    throttle: (kind, group, inFlightMax) => step((now) => laneOf(kind).throttle(group, inFlightMax, now)),
    epoch: Effect.succeed(epoch),
    awaitWork: (kinds, atMost) => Effect.asVoid(Effect.timeoutOption(work(lanesOf(kinds), Duration.toMillis(atMost)), atMost))
  })
})

export const layer: Layer.Layer<JobQueue> = Layer.effect(JobQueue, make)

/** Goes round the groups of all lanes. */
const claim = (lanes: ReadonlyArray<Lane>, limit: number, expiresAt: Millis, inFlightMax: number): ReadonlyArray<Lease> => {
  const leases: Array<Lease> = []
  while (leases.length < limit) {
    let next: { readonly lane: Lane; readonly group: Group } | undefined
    for (const lane of lanes) {
      const group = lane.next(inFlightMax)
      if (group !== undefined && (next === undefined || group.turn < next.group.turn)) next = { lane, group }
    }
    if (next === undefined) {
      for (const lane of lanes) lane.isExhausted = true
      break
    }
    leases.push(next.lane.claim(next.group, expiresAt))
  }
  return leases
}

/** Ends when there is news of a lane that comes after this call. */
const newsAfter = (lane: Lane): Effect.Effect<void> => {
  const { news } = lane
  return Effect.suspend(() => (lane.news === news ? lane.changed.await : Effect.void))
}

interface Entry extends Item {
  job: Job
  /** What is offered while somebody has the token. */
  beside: Job | null
  /** Of the last claim. It is good past its expiry, until the next claim. */
  token: string | null
  claims: number
  heap: Heap<Entry>
  /** When the entry leaves its heap, and the order of offers where that is equal. */
  at: Millis
  readonly order: number
}

interface Group extends Item {
  readonly name: string
  readonly ready: Heap<Entry>
  leases: number
  /** Leases that are above it already finish; looked at whenever one ends, so that lapsing needs no timer. */
  throttle: { readonly inFlightMax: number; readonly until: Millis } | null
  turn: number
  /** It has ready jobs, and keeps its turn. */
  isWaiting: boolean
  /** The line it stands in, by the number of leases; null while it has no ready job, or is at its cap. */
  line: number | null
}

/** The jobs of one kind. */
class Lane {
  /** Moves when something became claimable, or will be earlier than it would have been. */
  news = 0
  /** The last claim left nothing that it was allowed to take, and no job or place has become free since. */
  isExhausted = false
  readonly changed: Latch.Latch
  #now: Millis = 0
  readonly #epoch: string
  readonly #nextNumber: () => number
  readonly #entries = new Map<string, Entry>()
  readonly #groups = new Map<string, Group>()
  readonly #delayed = new Heap<Entry>(isEarlier)
  readonly #leased = new Heap<Entry>(isEarlier)
  /** Groups with ready jobs and below their cap, by how many leases they have. */
  readonly #lines = new Map<number, Heap<Group>>()

  /** Numbers rise over all lanes: they order the turns of a claim of several kinds. */
  constructor(epoch: string, nextNumber: () => number, changed: Latch.Latch) {
    this.#epoch = epoch
    this.#nextNumber = nextNumber
    this.changed = changed
  }

  get mayBeClaimed(): boolean {
    return this.#lines.size > 0 && !this.isExhausted
  }

  /** When a job becomes ready by the mere passing of time. */
  get nextAt(): Millis {
    return Math.min(this.#delayed.first?.at ?? Infinity, this.#leased.first?.at ?? Infinity)
  }

  held({ job, token }: Lease): Entry | undefined {
    const entry = this.#entries.get(job.subject)
    return entry?.token === token ? entry : undefined
  }

  offer(job: Job, now: Millis): void {
    const entry = this.#entries.get(job.subject)
    if (entry === undefined) {
      const fresh: Entry = {
        job,
        beside: null,
        token: null,
        claims: 0,
        heap: this.#delayed,
        at: job.dueAt,
        order: this.#nextNumber(),
        slot: 0
      }
      this.#entries.set(job.subject, fresh)
      this.#wait(fresh, now)
    } else if (entry.token !== null) {
      if (entry.heap === this.#leased && entry.at > now + leaseMax) {
        this.#take(entry)
        entry.at = now
        this.#makeReady(entry)
      }
      if (entry.beside === null || job.dueAt < entry.beside.dueAt) entry.beside = job
    } else if (job.dueAt < entry.job.dueAt) {
      this.#take(entry)
      entry.job = { ...entry.job, dueAt: job.dueAt }
      this.#wait(entry, now)
    }
  }

  /** Of the groups below the cap, the one whose turn is next. There are few numbers of leases, however many groups. */
  next(inFlightMax: number): Group | undefined {
    let next: Group | undefined
    for (const [leases, { first }] of this.#lines) {
      if (leases < inFlightMax && first !== undefined && (next === undefined || first.turn < next.turn)) next = first
    }
    return next
  }

  claim(group: Group, expiresAt: Millis): Lease {
    const entry = group.ready.first! // a group in line has one
    this.#take(entry)
    entry.token = `${this.#epoch}.${this.#nextNumber()}`
    entry.claims += 1
    entry.beside = null // this claim comes after the offer, and sees what the offer was about
    const lease = this.#hold(entry, expiresAt)
    this.#lineUp(entry.job.group, true)
    return lease
  }

  complete(entry: Entry, now: Millis): void {
    this.#take(entry)
    if (entry.beside === null) {
      this.#entries.delete(entry.job.subject)
      return
    }
    entry.job = entry.beside
    entry.beside = null
    entry.token = null
    entry.claims = 0
    this.#wait(entry, now)
  }

  release(entry: Entry, now: Millis, delay: Millis): void {
    this.#take(entry)
    if (delay > 0) {
      // What was offered meanwhile may ask for it sooner.
      const dueAt = Math.min(entry.beside?.dueAt ?? Infinity, Math.max(entry.job.dueAt, now + delay))
      entry.job = { ...entry.job, dueAt }
    }
    entry.beside = null
    entry.token = null
    entry.claims -= 1
    this.#wait(entry, now)
  }

  extend(entry: Entry, expiresAt: Millis): Lease {
    if (entry.heap !== this.#leased) {
      this.#take(entry) // it ran out, and nobody has claimed it since
      return this.#hold(entry, expiresAt)
    }
    this.#leased.remove(entry)
    return this.#lease(entry, expiresAt)
  }

  throttle(name: string, inFlightMax: number | null, now: Millis): void {
    const group = this.#group(name)
    const stoodInLine = group.line !== null
    group.throttle = inFlightMax === null ? null : { inFlightMax, until: now + throttleLifetime }
    this.#lineUp(name)
    if (!stoodInLine) this.#tellOf(group)
  }

  /** Makes ready what became due, and what was held too long. */
  advance(now: Millis): void {
    this.#now = now
    for (const heap of [this.#delayed, this.#leased]) {
      for (let entry = heap.first; entry !== undefined && entry.at <= now; entry = heap.first) {
        this.#take(entry)
        this.#makeReady(entry)
      }
    }
  }

  #wait(entry: Entry, now: Millis): void {
    entry.at = entry.job.dueAt
    if (entry.at <= now) this.#makeReady(entry)
    else this.#put(entry, this.#delayed)
  }

  #makeReady(entry: Entry): void {
    const group = this.#group(entry.job.group)
    this.#put(entry, group.ready)
    this.#lineUp(group.name)
    this.#tellOf(group)
  }

  #hold(entry: Entry, expiresAt: Millis): Lease {
    this.#group(entry.job.group).leases += 1
    this.#lineUp(entry.job.group)
    return this.#lease(entry, expiresAt)
  }

  #lease(entry: Entry, expiresAt: Millis): Lease {
    entry.at = expiresAt
    this.#put(entry, this.#leased)
    return { job: entry.job, token: entry.token!, claims: entry.claims, expiresAt } // only claimed entries are held
  }

  #put(entry: Entry, heap: Heap<Entry>): void {
    entry.heap = heap
    heap.add(entry)
    if (heap.first === entry) this.news += 1
  }

  #take(entry: Entry): void {
    const { heap } = entry
    heap.remove(entry)
    if (heap === this.#delayed) return
    const group = this.#group(entry.job.group)
    if (heap === this.#leased) group.leases -= 1
    this.#lineUp(group.name)
    if (heap === this.#leased) this.#tellOf(group)
  }

  /** A group that stands in line may be claimed from, for all that is known. */
  #tellOf(group: Group): void {
    if (group.line === null) return
    this.isExhausted = false
    this.news += 1
  }

  /** Puts a group where its jobs and leases say; its turn is the last if it is new in the round, or has just had it. */
  #lineUp(name: string, hadItsTurn = false): void {
    const group = this.#group(name)
    if (group.throttle !== null && group.throttle.until <= this.#now) group.throttle = null
    const cap = group.throttle?.inFlightMax ?? Infinity
    if (group.line !== null) {
      const line = this.#lines.get(group.line)! // kept as long as a group stands in it
      line.remove(group)
      if (line.size === 0) this.#lines.delete(group.line)
      group.line = null
    }
    if (group.ready.size > 0) {
      if (hadItsTurn || !group.isWaiting) group.turn = this.#nextNumber()
      if (group.leases < cap) {
        group.line = group.leases
        const line = this.#lines.get(group.leases) ?? new Heap<Group>((left, right) => left.turn < right.turn)
        line.add(group)
        this.#lines.set(group.leases, line)
      }
    } else if (group.leases === 0 && cap === Infinity) this.#groups.delete(name)
    group.isWaiting = group.ready.size > 0
  }

  #group(name: string): Group {
    const known = this.#groups.get(name)
    if (known !== undefined) return known
    const group: Group = {
      name,
      ready: new Heap<Entry>(isEarlier),
      leases: 0,
      throttle: null,
      turn: 0,
      isWaiting: false,
      line: null,
      slot: 0
    }
    this.#groups.set(name, group)
    return group
  }
}

const isEarlier = (left: Entry, right: Entry): boolean =>
  left.at === right.at ? left.order < right.order : left.at < right.at
