/**
 * Gathers the callers of `commit` in this process into batches. Whoever comes
 * while batches are under way goes into the next one. A batch is no caller's
 * fiber: interrupting a caller stops nothing, and withdraws only what no batch
 * has taken yet. Nobody waits longer than the deadline: who was not taken by
 * then is withdrawn, and who was does not know what became of it.
 *
 * One committer alone makes the largest batches. So the first does what it can,
 * and the others help out only where it is stuck, waiting for a row or a disk, or
 * where a crowd waits for it.
 *
 * Callers who ask again as soon as they are answered fall into step: a few come
 * first and are committed at once, all others wait for these and go together, and
 * while the database has that batch this process has nothing to prepare. Such a
 * round has two batches in any case. So the first committer takes half of those
 * who are about (`share`), and the one half prepares while the other is committed.
 */
import { Clock, Effect, Exit, type Scope } from "effect"
import type { Job } from "../../core/ports/JobQueue.ts"
import { StoreUnavailable, type Change, type CommitRejected, type Committed, type Ending } from "../../core/ports/Store.ts"
import { turn } from "./Batches.ts"
import type { Answer, Call, CommitBatch } from "./CommitBatch.ts"

export interface Options {
  readonly commit: CommitBatch
  /** Batches under way at a time, at most. */
  readonly committers: number
  /** Runs what waits for the database on the machine's clock, whatever clock the callers have. */
  readonly onLiveClock: <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

/** The Store's `commit`. */
export type Commit = (
  changes: ReadonlyArray<Change>,
  jobs: ReadonlyArray<Job>,
  lease?: Ending
) => Effect.Effect<Committed, CommitRejected | StoreUnavailable>

/** Callers in one batch, and characters of bodies (or bytes) with which it is full. */
const batchMax = 128
const charactersMax = 4_000_000

/** Callers who wait, from which on another committer is worth its while. */
const crowd = batchMax / 2

/** So few are not divided: a batch costs the database as much as four of its callers. */
const undividedMax = 8

/** A caller is let go at the first tick, of one a second, that is more than so many behind the one it came at. */
const deadlineTicks = 10

/** A committer that is longer at its batch is stuck. */
const patience = "25 millis"

interface Caller extends Call {
  readonly characters: number
  /** The tick at which it came. */
  readonly since: number
  /** The first counts; who was told, or has gone, is told nothing more. */
  readonly answer: (answer: Answer) => void
}

/** Runs committers in this scope. It closes when those who wait are answered, and refuses who comes after. */
export const make = Effect.fnUntraced(function* ({
  commit,
  committers,
  onLiveClock
}: Options): Effect.fn.Return<Commit, never, Scope.Scope> {
  let waiting: Array<Caller> = []
  /**
   * The callers of each committer's batch. No set: the tables that a set leaves behind as it changes hold on to one another,
   * and to all that was in them, until the whole heap is collected.
   */
  const underWay: Array<ReadonlyArray<Caller>> = Array.from({ length: committers }, () => [])
  /** How committers that sleep are woken. */
  const idle = new Map<number, () => void>()
  /** How the one is woken who watches for committers that are stuck; null while it is awake. */
  let watcher: (() => void) | null = null
  let batches = 0
  /** Callers of the first committer's last batch, who may ask again. */
  let answered = 0
  let whenDone: (() => void) | null = null
  /** Batches whose callers are yet to hear of them. */
  let untold = 0
  let isClosed = false
  let ticks = 0

  const isIdle = () => waiting.length === 0 && untold === 0 && underWay.every((callers) => callers.length === 0)

  /** How many the first committer takes: half of those who are about, or all of a few. Who ends a lease goes on with another job, and is not back at once. */
  const share = (): number =>
    waiting.some(({ lease }) => lease !== undefined) ? batchMax : Math.min(batchMax, Math.max(undividedMax, Math.ceil((waiting.length + answered) / 2)))

  const take = (committer: number): ReadonlyArray<Caller> => {
    const max = committer === 0 ? share() : batchMax
    let [count, characters] = [0, 0]
    while (count < waiting.length && count < max && characters < charactersMax) {
      characters += waiting[count]!.characters
      count += 1
    }
    const taken = waiting.slice(0, count)
    waiting = waiting.slice(count)
    batches += 1
    if (committer === 0) answered = count
    underWay[committer] = taken
    return taken
  }

  const wake = (committer: number) => {
    const resume = idle.get(committer)
    idle.delete(committer)
    resume?.()
    return resume !== undefined
  }

  const wakeAnother = () => {
    for (let committer = 1; committer < committers; committer++) if (wake(committer)) return
  }

  /** Somebody has come: wakes who is to see to it. */
  const onArrival = () => {
    if (wake(0)) return
    if (waiting.length >= crowd) wakeAnother()
    watcher?.()
    watcher = null
  }

  const sleepUntilWoken = (committer: number) =>
    Effect.callback<void>((resume) => {
      if (committer === 0 ? waiting.length > 0 : waiting.length >= crowd) resume(Effect.void)
      else idle.set(committer, () => resume(Effect.void))
    })

  const endIfDone = () => {
    if (whenDone !== null && isIdle()) whenDone()
  }

  const tell = (callers: ReadonlyArray<Caller>, exit: Exit.Exit<ReadonlyArray<Answer>>) => {
    untold -= 1
    callers.forEach(({ answer }, index) => answer(Exit.isSuccess(exit) ? exit.value[index]! : Effect.failCause(exit.cause)))
    endIfDone()
  }

  const work = Effect.fnUntraced(function* (committer: number) {
    yield* sleepUntilWoken(committer)
    yield* turn
    for (let goesOn = true; goesOn; ) {
      const callers = take(committer)
      if (callers.length === 0) return
      const exit = yield* Effect.exit(commit(callers))
      underWay[committer] = []
      untold += 1
      // Where a batch is there already it goes first: what callers go on to do takes longer than to send it. A few who wait
      // are joined by those who come with the next turn.
      goesOn = committer === 0 && waiting.length * 2 >= callers.length
      if (goesOn) setImmediate(() => tell(callers, exit))
      else tell(callers, exit)
    }
  })

  const watch = Effect.gen(function* () {
    yield* Effect.callback<void>((resume) => {
      // Whoever came while it looked at the last who waited found nobody to watch.
      if (waiting.length > 0) resume(Effect.void)
      else watcher = () => resume(Effect.void)
    })
    yield* turn // a committer that has just been woken takes its batch
    const before = batches
    yield* Effect.sleep(patience)
    if (batches === before && waiting.length > 0) wakeAnother()
  })

  /** Counts the time, and lets those go who have waited long enough. */
  const tick = Effect.sync(() => {
    ticks += 1
    const isLate = ({ since }: Caller) => ticks - since > deadlineTicks
    if (waiting.some(isLate)) {
      const late = waiting.filter(isLate)
      waiting = waiting.filter((caller) => !isLate(caller))
      for (const { answer } of late) answer(unavailable("no batch took the commit in time"))
      endIfDone()
    }
    for (const caller of underWay.flat()) {
      if (isLate(caller)) caller.answer(unavailable("the database did not answer in time, whatever it did"))
    }
  })

  for (let committer = 0; committer < committers; committer++) yield* Effect.forkScoped(Effect.forever(work(committer)))
  yield* Effect.forkScoped(onLiveClock(Effect.forever(watch)))
  yield* Effect.forkScoped(onLiveClock(Effect.forever(Effect.andThen(Effect.sleep("1 second"), tick))))
  // Those who are here are seen through; the committers end behind this.
  yield* Effect.addFinalizer(() =>
    Effect.callback<void>((resume) => {
      isClosed = true
      if (isIdle()) resume(Effect.void)
      else whenDone = () => resume(Effect.void)
    })
  )

  return (changes, jobs, lease) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      Effect.callback<Committed, CommitRejected | StoreUnavailable>((resume) => {
        if (isClosed) return resume(unavailable("the store is closed"))
        const characters = charactersOf(changes)
        const caller: Caller = { changes, jobs, lease, now, characters, since: ticks, answer: resume }
        waiting.push(caller)
        onArrival()
        return Effect.sync(() => {
          waiting = waiting.filter((one) => one !== caller) // or a batch has it
          endIfDone()
        })
      })
    )
})

/** The characters (or bytes) of all that may be long in changes. */
const charactersOf = (changes: ReadonlyArray<Change>): number => {
  let characters = 0
  for (const change of changes) {
    if (change._tag === "InsertDelivery" || change._tag === "PutBody") characters += change.body?.length ?? 0
    if (change._tag === "PutBlob") characters += change.bytes.length
    if (change._tag !== "InsertMessage" && change._tag !== "PutContent") continue
    characters += (change.content.text?.length ?? 0) + (change.content.html?.length ?? 0)
  }
  return characters
}

const unavailable = (why: string): Answer => Effect.fail(new StoreUnavailable({ cause: new Error(why) }))
