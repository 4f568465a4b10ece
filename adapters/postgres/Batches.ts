/**
 * Gathers concurrent calls into one statement: those that one turn of the
 * event loop brings, and those that come while a batch is under way. A call
 * that is interrupted is carried out all the same.
 */
import { Deferred, Effect, Exit, type Scope } from "effect"

/** Calls of one statement. */
const sizeMax = 256

export interface Options<In, Out, E> {
  /** Two calls with one key never go in one batch. */
  readonly keyOf: (item: In) => string
  /** Gives an answer for each, in order. */
  readonly run: (items: ReadonlyArray<In>) => Effect.Effect<ReadonlyArray<Out>, E>
}

/** The batches run in this scope, and on its clock: a call that needs the time brings it. */
export const make = Effect.fnUntraced(function* <In, Out, E>({
  keyOf,
  run
}: Options<In, Out, E>): Effect.fn.Return<(item: In) => Effect.Effect<Out, E>, never, Scope.Scope> {
  const scope = yield* Effect.scope
  let waiting: Array<Call<In, Out, E>> = []
  let isUnderWay = false
  let isClosed = false
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      isClosed = true
      for (const { answer } of waiting.splice(0)) Deferred.doneUnsafe(answer, Exit.interrupt())
    })
  )

  const next = (): ReadonlyArray<Call<In, Out, E>> => {
    const keys = new Set<string>()
    const batch: Array<Call<In, Out, E>> = []
    waiting = waiting.filter((call) => {
      const key = keyOf(call.item)
      if (batch.length === sizeMax || keys.has(key)) return true
      keys.add(key)
      batch.push(call)
      return false
    })
    return batch
  }

  const drain: Effect.Effect<void> = Effect.suspend(() => {
    const batch = next()
    if (batch.length === 0) {
      isUnderWay = false
      return Effect.void
    }
    return run(batch.map(({ item }) => item)).pipe(
      Effect.onExit((exit) =>
        Effect.sync(() =>
          batch.forEach(({ answer }, index) => {
            Deferred.doneUnsafe(answer, Exit.map(exit, (answers) => answers[index]!)) // one each
          })
        )
      ),
      Effect.ignoreCause,
      Effect.andThen(drain)
    )
  })

  return (item) =>
    // A fiber may stand still, and be interrupted, between any two of its steps: whoever says that it sends has it sent.
    Effect.uninterruptibleMask((restore) => {
      if (isClosed) return Effect.interrupt
      const answer = Deferred.makeUnsafe<Out, E>()
      waiting.push({ item, answer })
      const answered = restore(Deferred.await(answer))
      if (isUnderWay) return answered
      isUnderWay = true
      return Effect.andThen(Effect.forkIn(Effect.andThen(turn, drain), scope), answered)
    })
})

/** Until all that this turn of the event loop brings is there. */
export const turn = Effect.callback<void>((resume) => {
  const immediate = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(immediate))
})

interface Call<In, Out, E> {
  readonly item: In
  readonly answer: Deferred.Deferred<Out, E>
}
