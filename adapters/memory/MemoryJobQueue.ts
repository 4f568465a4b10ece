/**
 * A job queue in this process's memory; a restart empties it, which the epoch
 * tells. A job lies in one of three heaps: delayed (by due time), ready (one
 * per group), leased (by expiry). Groups with ready jobs stand in line by their
 * turn, apart by how many leases they have, so the next one below any cap is
 * found without a look at those at the cap. Each step is O(log n).
 */
import { Clock, Duration, Effect, Latch, Layer, Random } from "effect"
import type { Millis } from "../../core/model/Ids.ts"
import { JobQueue, LeaseLost, type Job, type Lease } from "../../core/ports/JobQueue.ts"
import { Heap, type Item } from "./Heap.ts"

export const make = Effect.gen(function* () {
  const epoch = `memory-${(yield* Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER)).toString(36)}`
  const jobs = new Jobs(epoch)
  const changed = yield* Latch.make()

  /** One step on the jobs as they stand now; whoever waits for work learns of it afterwards. */
  const step = <A>(run: (now: Millis) => A): Effect.Effect<A> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const { news } = jobs
      jobs.advance(now)
      const result = run(now)
      return jobs.news === news ? Effect.succeed(result) : Effect.as(changed.release, result)
    })

  const stepHeld = <A>(lease: Lease, run: (entry: Entry, now: Millis) => A): Effect.Effect<A, LeaseLost> =>
    Effect.flatten(
      step((now): Effect.Effect<A, LeaseLost> => {
        const entry = jobs.held(lease)
        return entry === undefined ? Effect.fail(new LeaseLost({ token: lease.token })) : Effect.succeed(run(entry, now))
      })
    )

  const work = Effect.fnUntraced(function* (atMost: Millis) {
    for (;;) {
      const { untilNext, news } = yield* step((now) => ({
        untilNext: jobs.mayBeClaimed ? 0 : jobs.nextAt - now,
        news: jobs.news
      }))
      if (untilNext <= 0) return
      yield* Effect.suspend(() => (jobs.news === news ? changed.await : Effect.void)).pipe(
        Effect.timeoutOption(Math.min(atMost, untilNext))
      )
    }
  })

  return JobQueue.of({
    offer: (offered) => step((now) => offered.forEach((job) => jobs.offer(job, now))),
    claim: ({ limit, visibilityTimeout, inFlightMax }) =>
      step((now) => jobs.claim(limit, now + Duration.toMillis(visibilityTimeout), inFlightMax)),
    complete: (lease) => stepHeld(lease, (entry, now) => jobs.complete(entry, now)),
    extend: (lease, visibilityTimeout) =>
      stepHeld(lease, (entry, now) => jobs.extend(entry, now + Duration.toMillis(visibilityTimeout))),
    release: (lease) => stepHeld(lease, (entry, now) => jobs.release(entry, now)),
    epoch: Effect.succeed(epoch),
    awaitWork: (atMost) => Effect.asVoid(Effect.timeoutOption(work(Duration.toMillis(atMost)), atMost))
  })
})

export const layer: Layer.Layer<JobQueue> = Layer.effect(JobQueue, make)

interface Entry extends Item {
  readonly name: string
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
  turn: number
  /** The line it stands in, by the number of leases; null while it has no ready job. */
  line: number | null
}

class Jobs {
  /** Moves when something became claimable, or will be earlier than it would have been. */
  news = 0
  readonly #epoch: string
  readonly #entries = new Map<string, Entry>()
  readonly #groups = new Map<string, Group>()
  readonly #delayed = new Heap<Entry>(isEarlier)
  readonly #leased = new Heap<Entry>(isEarlier)
  /** Groups with ready jobs, by how many leases they have. */
  readonly #lines = new Map<number, Heap<Group>>()
  /** The last claim left nothing that it was allowed to take, and no job or place has become free since. */
  #isExhausted = false
  #count = 0

  constructor(epoch: string) {
    this.#epoch = epoch
  }

  get mayBeClaimed(): boolean {
    return this.#lines.size > 0 && !this.#isExhausted
  }

  /** When a job becomes ready by the mere passing of time. */
  get nextAt(): Millis {
    return Math.min(this.#delayed.first?.at ?? Infinity, this.#leased.first?.at ?? Infinity)
  }

  held({ job, token }: Lease): Entry | undefined {
    const entry = this.#entries.get(nameOf(job))
    return entry?.token === token ? entry : undefined
  }

  offer(job: Job, now: Millis): void {
    const name = nameOf(job)
    const entry = this.#entries.get(name)
    if (entry === undefined) {
      const fresh: Entry = {
        name,
        job,
        beside: null,
        token: null,
        claims: 0,
        heap: this.#delayed,
        at: job.dueAt,
        order: this.#count++,
        slot: 0
      }
      this.#entries.set(name, fresh)
      this.#wait(fresh, now)
    } else if (entry.token !== null) {
      if (entry.beside === null || job.dueAt < entry.beside.dueAt) entry.beside = job
    } else if (job.dueAt < entry.job.dueAt) {
      this.#take(entry)
      entry.job = { ...entry.job, dueAt: job.dueAt }
      this.#wait(entry, now)
    }
  }

  claim(limit: number, expiresAt: Millis, inFlightMax: number): ReadonlyArray<Lease> {
    const leases: Array<Lease> = []
    while (leases.length < limit) {
      const group = this.#next(inFlightMax)
      if (group === undefined) {
        this.#isExhausted = true
        break
      }
      const entry = group.ready.first! // a group in line has one
      this.#take(entry)
      entry.token = `${this.#epoch}.${this.#count++}`
      entry.claims += 1
      entry.beside = null // this claim comes after the offer, and sees what the offer was about
      leases.push(this.#hold(entry, expiresAt))
      this.#lineUp(entry.job.group, true)
    }
    return leases
  }

  complete(entry: Entry, now: Millis): void {
    this.#take(entry)
    if (entry.beside === null) {
      this.#entries.delete(entry.name)
      return
    }
    entry.job = entry.beside
    entry.beside = null
    entry.token = null
    entry.claims = 0
    this.#wait(entry, now)
  }

  release(entry: Entry, now: Millis): void {
    this.#take(entry)
    entry.beside = null // the job is still to be done, and sooner than any offer could ask for
    entry.token = null
    entry.claims -= 1
    this.#wait(entry, now)
  }

  extend(entry: Entry, expiresAt: Millis): Lease {
    this.#take(entry)
    return this.#hold(entry, expiresAt)
  }

  /** Makes ready what became due, and what was held too long. */
  advance(now: Millis): void {
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
    this.#put(entry, this.#group(entry.job.group).ready)
    this.#lineUp(entry.job.group)
    this.#isExhausted = false
    this.news += 1
  }

  #hold(entry: Entry, expiresAt: Millis): Lease {
    this.#group(entry.job.group).leases += 1
    this.#lineUp(entry.job.group)
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
    if (heap === this.#leased) {
      group.leases -= 1
      this.#isExhausted = false
      this.news += 1
    }
    this.#lineUp(group.name)
  }

  /** Puts a group where its jobs and leases say; at the end of the line if it is new there, or has just had its turn. */
  #lineUp(name: string, hadItsTurn = false): void {
    const group = this.#group(name)
    const wasInLine = group.line !== null
    if (group.line !== null) {
      const line = this.#lines.get(group.line)! // kept as long as a group stands in it
      line.remove(group)
      if (line.size === 0) this.#lines.delete(group.line)
      group.line = null
    }
    if (group.ready.size > 0) {
      if (hadItsTurn || !wasInLine) group.turn = this.#count++
      group.line = group.leases
      const line = this.#lines.get(group.leases) ?? new Heap<Group>((left, right) => left.turn < right.turn)
      line.add(group)
      this.#lines.set(group.leases, line)
    } else if (group.leases === 0) this.#groups.delete(name)
  }

  #group(name: string): Group {
    const known = this.#groups.get(name)
    if (known !== undefined) return known
    const group: Group = { name, ready: new Heap<Entry>(isEarlier), leases: 0, turn: 0, line: null, slot: 0 }
    this.#groups.set(name, group)
    return group
  }

  /** Of the groups below the cap, the one whose turn is next. There are few numbers of leases, however many groups. */
  #next(inFlightMax: number): Group | undefined {
    let next: Group | undefined
    for (const [leases, { first }] of this.#lines) {
      if (leases < inFlightMax && first !== undefined && (next === undefined || first.turn < next.turn)) next = first
    }
    return next
  }
}

const nameOf = ({ kind, subject }: Job): string => `${kind} ${subject}`

const isEarlier = (left: Entry, right: Entry): boolean =>
  left.at === right.at ? left.order < right.order : left.at < right.at
