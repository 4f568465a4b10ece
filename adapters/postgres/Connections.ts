/**
 * Connections to a server, opened when they are needed and kept while they
 * are. Who comes first is served first, with a connection for one statement or
 * for as long as a scope is open. A pool of the driver's does the same with a
 * scope, a fiber or two and a timer for each statement, which costs more than
 * the statement; here one costs little more than its round trip.
 *
 * Each statement and each wait has a deadline, in real time. A connection that
 * missed one, or was interrupted or lost, is not used again. Nor is one that has
 * come of age: the plans of its statements were made for tables as they were then,
 * and behind a name there may be another server by now.
 */
import { PgConnection } from "@effect/sql-pg"
import { Clock, Context, Data, Duration, Effect, Exit, Option, Scope } from "effect"
import { ConnectionError, SqlError } from "effect/sql/SqlError"
import { clearTimeout, setTimeout } from "node:timers"
import * as Deadlines from "../../core/Deadlines.ts"

/** For how long a statement may run. Work that is known to be long, as a migration, provides its own. */
export const StatementDeadline = Context.Reference<Duration.Duration>("mailroom/adapters/postgres/StatementDeadline", {
  defaultValue: () => Duration.seconds(10)
})

/** True when the connection is gone, or was never there: what the statement did is unknown. */
export const isConnectionLost = (error: SqlError): boolean => {
  if (error.reason._tag === "ConnectionError" || error.reason._tag === "AuthenticationError") return true
  // The server's own words on its way out: shutdown (57P01 to 57P05), and no room for us.
  const code = codeOf(error)
  return code.startsWith("57P") || code === noRoom
}

/** PostgreSQL's own words, or the system's. */
export const reasonOf = ({ reason }: SqlError): string => {
  const cause = reason.cause instanceof AggregateError ? reason.cause.errors[0] : reason.cause
  return cause instanceof Error && cause.message !== "" ? cause.message : reason.message
}

export const noRoom = "53300"
/** True when the server has as many connections as it takes. */
export const isNoRoom = (error: SqlError): boolean => codeOf(error) === noRoom

/**
 * Words of a standby, or of a server whose place another has taken, perhaps at the same address: it is read only, or has no
 * table that is unlogged, as the queue is. Whatever else is not supported, no statement of ours asks for.
 */
const takesNoWrites = ["25006", "0A000"]

/** The server's code of an error (SQLSTATE), or the system's; empty where there is none. */
export const codeOf = ({ reason: { cause } }: SqlError): string =>
  typeof cause === "object" && cause !== null && "code" in cause && typeof cause.code === "string" ? cause.code : ""

export const lost = (message: string): SqlError => connectionError(new Error(message))

export const connectionError = (cause: Error, operation: "connect" | "query" = "query"): SqlError =>
  new SqlError({ reason: new ConnectionError({ cause, message: cause.message, operation }) })

/** No connection was to be had in time. */
class NoneFree extends Data.TaggedError("NoneFree")<{ readonly message: string }> {}

/** True when there was none in time: all of ours were busy, or what let us in, as a pooler does, had none to the server left. */
export const isNoneFree = ({ reason }: SqlError): boolean => reason.cause instanceof NoneFree

export const noneFree = (message: string): SqlError => connectionError(new NoneFree({ message }))

/** A connection that somebody has for a while. */
export interface Held {
  readonly connection: PgConnection.PgConnection
  /** Takes it out of use: nobody gets it again. */
  readonly giveUp: () => void
}

export interface Connections {
  /** One statement on any connection. */
  readonly run: <A>(statement: (connection: PgConnection.PgConnection) => Effect.Effect<A, SqlError>) => Effect.Effect<A, SqlError>
  /** A connection of one's own, until the scope closes. */
  readonly hold: Effect.Effect<Held, SqlError, Scope.Scope>
  /** One statement on a connection that is held. */
  readonly bounded: <A>(held: Held, statement: Effect.Effect<A, SqlError>) => Effect.Effect<A, SqlError>
  /** `busy` ones have a statement or a holder; so many wait for one. */
  readonly counts: () => { readonly busy: number; readonly waiting: number }
}

interface Kept extends Held {
  readonly agesAt: number
  isGivenUp: boolean
  expiry: NodeJS.Timeout | null
}

interface Waiter {
  readonly start: (kept: Kept) => void
  readonly fail: (error: SqlError) => void
}

/** Connections age in real time, whatever clock their callers have. */
const clock = Clock.Clock.defaultValue()

/** How long who leaves a statement, or takes it for late, waits for the server to hear of it. */
const cancelTime = Duration.seconds(1)

/** Calls it in real time, whatever clock the callers have, and late as `Deadlines` does; what is returned calls it off. */
const onceDue = (after: Duration.Duration, onDue: () => void): (() => void) => {
  const due = clock.monotonicTimeNanosUnsafe() + Duration.toNanosUnsafe(after)
  const wake = () => {
    if (clock.monotonicTimeNanosUnsafe() - due <= Deadlines.tooLate) return onDue()
    // @effect-diagnostics-next-line globalTimers:off -- deadlines are real
    timer = setTimeout(onDue, Duration.toMillis(Deadlines.moment))
  }
  // @effect-diagnostics-next-line globalTimers:off -- deadlines are real
  let timer = setTimeout(wake, Duration.toMillis(after))
  return () => clearTimeout(timer)
}

/** How long a connection is kept that nobody needs. */
const idleMs = 60_000

/** How long one serves, unless told otherwise: behind its name there may be another server by now. */
export const ageMax = Duration.minutes(30)
/** How long a server may take over a goodbye, before its connection is left behind: one that stands still answers to nothing. */
export const goodbyeMax = Duration.seconds(1)

export interface Options {
  readonly connectionsMax: number
  /** How old one gets that is always needed; some leave up to a quarter sooner, so that they do not all leave at once. */
  readonly ageMax: Duration.Duration
  /** Opens one in the scope; `onEnd` is called once it has ended, by whomever. */
  readonly open: (onEnd: () => void) => Effect.Effect<PgConnection.PgConnection, SqlError, Scope.Scope>
}

/** They are closed with the scope. */
export const make = (options: Options): Effect.Effect<Connections, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(Effect.sync(() => keep(options)), ({ close }) => close),
    ({ connections }) => connections
  )

/** Callbacks and real timers inside: an Effect for each step of a statement would cost more than the statement. */
const keep = ({ ageMax, connectionsMax, open }: Options): { readonly connections: Connections; readonly close: Effect.Effect<void> } => {
  const idle: Array<Kept> = []
  const waiting = new Set<Waiter>()
  const scopes = new Set<Scope.Closeable>()
  /** Being opened, idle or in use. */
  let count = 0
  let busy = 0
  let opened = 0
  let isClosed = false

  const closeAll = Effect.suspend(() => {
    isClosed = true
    for (const { expiry } of idle.splice(0)) if (expiry !== null) clearTimeout(expiry)
    for (const waiter of waiting) waiter.fail(lost("the database is closed"))
    waiting.clear()
    return Effect.forEach(scopes, (scope) => Scope.close(scope, Exit.void), { concurrency: "unbounded", discard: true })
  })

  const next = (): Waiter | undefined => {
    const [waiter] = waiting
    if (waiter !== undefined) waiting.delete(waiter)
    return waiter
  }

  const openOne = () => {
    count += 1
    const scope = Scope.makeUnsafe()
    scopes.add(scope)
    let isCounted = true
    const close = () => {
      if (!isCounted) return
      isCounted = false
      count -= 1
      scopes.delete(scope)
      Effect.runFork(Scope.close(scope, Exit.void))
    }
    let kept: Kept | null = null
    const giveUp = () => {
      if (kept !== null) {
        kept.isGivenUp = true
        if (kept.expiry !== null) clearTimeout(kept.expiry)
        const place = idle.indexOf(kept)
        if (place >= 0) idle.splice(place, 1)
      }
      close()
    }
    Effect.runFork(Scope.provide(open(giveUp), scope)).addObserver((exit) => {
      if (Exit.isSuccess(exit) && isCounted && !isClosed) {
        opened += 1
        const share = 1 - (opened % connectionsMax) / connectionsMax / 4
        const agesAt = clock.currentTimeMillisUnsafe() + Duration.toMillis(ageMax) * share
        kept = { connection: exit.value, agesAt, isGivenUp: false, expiry: null, giveUp }
        return offer(kept)
      }
      giveUp()
      const error = Option.getOrElse(Exit.findErrorOption(exit), () => lost("no connection could be opened"))
      // Where the server has no room for more, those that there are come free.
      if (count === 0 || !isNoRoom(error)) next()?.fail(error)
      if (waiting.size > 0 && count === 0) openOne()
    })
  }

  const take = (waiter: Waiter) => {
    if (isClosed) return waiter.fail(lost("the database is closed"))
    const kept = idle.pop()
    if (kept !== undefined) {
      if (kept.expiry !== null) clearTimeout(kept.expiry)
      busy += 1
      return waiter.start(kept)
    }
    waiting.add(waiter)
    if (count < connectionsMax) openOne()
  }

  const giveBack = (kept: Kept) => {
    busy -= 1
    if (isClosed || kept.isGivenUp || clock.currentTimeMillisUnsafe() >= kept.agesAt) {
      kept.giveUp()
      if (waiting.size > 0 && count < connectionsMax) openOne()
      return
    }
    offer(kept)
  }

  const offer = (kept: Kept) => {
    const waiter = next()
    if (waiter !== undefined) {
      busy += 1
      return waiter.start(kept)
    }
    idle.push(kept)
    // @effect-diagnostics-next-line globalTimers:off -- connections age in real time
    kept.expiry = setTimeout(kept.giveUp, Math.min(idleMs, kept.agesAt - clock.currentTimeMillisUnsafe()))
    kept.expiry.unref()
  }

  /** Ends when the statement has, at the server too. What is returned is for who leaves it: it is cancelled there. */
  const within = <A>(
    held: Held,
    statement: Effect.Effect<A, SqlError>,
    deadline: Duration.Duration,
    ended: (exit: Exit.Exit<A, SqlError>) => void
  ): (() => Effect.Effect<void>) => {
    const fiber = Effect.runFork(statement)
    let isEnded = false
    let isLeft = false
    let callOff = () => {}
    const end = (told: Exit.Exit<A, SqlError>) => {
      if (isEnded) return
      isEnded = true
      callOff()
      const error = Option.getOrNull(Exit.findErrorOption(told))
      const isRefused = error !== null && takesNoWrites.includes(codeOf(error))
      // The server may hear of a cancellation late, and cancel what comes next on that connection: nothing does.
      if (isLeft || isRefused || (error !== null && isConnectionLost(error))) held.giveUp()
      // The others lead there too; each would have to be refused before a server that has taken its place is found.
      if (isRefused) for (const other of idle.splice(0)) other.giveUp()
      ended(told)
    }
    let isLate = false
    const endLate = () => end(Exit.fail(lost(`the database did not answer within ${Duration.format(deadline)}`)))
    callOff = onceDue(deadline, () => {
      isLate = true
      callOff = onceDue(cancelTime, endLate)
      fiber.interruptUnsafe()
    })
    fiber.addObserver((exit) => (isLate ? endLate() : end(Exit.mapError(exit, withoutContents))))
    return () =>
      Effect.callback<void>((resume) => {
        // Only who has the connection yet can cancel what runs on it; a server that stands still is not waited for.
        isLeft = true
        const callOff = onceDue(cancelTime, () => {
          held.giveUp()
          resume(Effect.void)
        })
        fiber.addObserver(() => {
          callOff()
          resume(Effect.void)
        })
        fiber.interruptUnsafe()
      })
  }

  /** Calls `start` with a connection; until then it can be called off. */
  const waitFor = (deadline: Duration.Duration, start: (kept: Kept) => void, fail: (error: SqlError) => void): (() => boolean) => {
    let callOff = () => {}
    const waiter: Waiter = {
      start: (kept) => {
        callOff()
        start(kept)
      },
      fail: (error) => {
        callOff()
        fail(error)
      }
    }
    take(waiter)
    if (waiting.has(waiter)) {
      callOff = onceDue(deadline, () => {
        if (waiting.delete(waiter)) fail(noneFree(`no connection to the database was free within ${Duration.format(deadline)}`))
      })
    }
    return () => {
      callOff()
      return waiting.delete(waiter)
    }
  }

  const connections: Connections = {
    run: <A>(statement: (connection: PgConnection.PgConnection) => Effect.Effect<A, SqlError>) =>
      Effect.flatMap(StatementDeadline, (deadline) =>
        Effect.callback<A, SqlError>((resume) => {
          let cancel: (() => Effect.Effect<void>) | null = null as (() => Effect.Effect<void>) | null // assigned below
          const callOff = waitFor(
            deadline,
            (kept) => {
              cancel = within(kept, statement(kept.connection), deadline, (exit) => {
                giveBack(kept)
                resume(exit)
              })
            },
            (error) => resume(Effect.fail(error))
          )
          return Effect.suspend(() => (callOff() || cancel === null ? Effect.void : cancel()))
        })
      ),
    hold: Effect.flatMap(StatementDeadline, (deadline) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.suspend(() => {
          let taken: Kept | null = null as Kept | null // assigned below
          const wait = Effect.callback<Kept, SqlError>((resume) => {
            const callOff = waitFor(
              deadline,
              (kept) => {
                taken = kept
                resume(Effect.succeed(kept))
              },
              (error) => resume(Effect.fail(error))
            )
            return Effect.sync(callOff)
          })
          // A fiber may stand still, and be interrupted, between any two of its steps: the scope gives back what was taken by then.
          const release = Effect.addFinalizer(() => Effect.sync(() => (taken === null ? undefined : giveBack(taken))))
          return Effect.andThen(release, restore(wait))
        })
      )
    ),
    bounded: <A>(held: Held, statement: Effect.Effect<A, SqlError>) =>
      Effect.flatMap(StatementDeadline, (deadline) =>
        Effect.callback<A, SqlError>((resume) => {
          const cancel = within(held, statement, deadline, resume)
          return Effect.suspend(cancel)
        })
      ),
    counts: () => ({ busy, waiting: waiting.size })
  }
  return { connections, close: closeAll }
}

/** An error as it may be logged: in these fields the server quotes rows, which are the tenants'. */
const withoutContents = (error: SqlError): SqlError => {
  const { cause } = error.reason
  if (cause instanceof Error) for (const field of ["detail", "where", "internalQuery"]) Reflect.deleteProperty(cause, field)
  return error
}
