/**
 * The messages that wait and the connections that carry them: never more than
 * so many. A message goes to a connection that rests, else to a new one, else
 * behind the dot of another message, else it waits. All are closed with the
 * scope.
 *
 * A connection whose server has fallen silent keeps what it carries, gets
 * nothing more, and does not count, so that a new one may replace it: of both
 * together there are never more than twice as many. Where the server speaks
 * again, connections that are too many go as they come to rest.
 */
import { Clock, Duration, Effect, Result, type Scope } from "effect"
import * as Deadlines from "../../core/Deadlines.ts"
import { PipeliningConnection, type Outgoing } from "./PipeliningConnection.ts"
import { failed, wantedNoMore, type Answer, type SmtpFailed } from "./SmtpAnswer.ts"
import { introduce } from "./SmtpIntroduction.ts"
import type { Limits, Settings } from "./SmtpSettings.ts"
import { trust } from "./SmtpWire.ts"

export interface Pool {
  /**
   * Waits for a place; from then on it ends within the time to submit. Wanted no more when its turn comes, or within a
   * second where no turn comes, it fails. Interruption takes the message back.
   */
  readonly submit: (message: Omit<Outgoing, "onEnd">, isWanted: () => boolean) => Effect.Effect<Answer, SmtpFailed>
}

interface Submission extends Outgoing {
  readonly isWanted: () => boolean
  carrier: Carrier | null
  deadline: Deadlines.Deadline | null
}

interface Carrier {
  readonly connection: PipeliningConnection<Submission>
  /** For whom it is being opened. */
  sponsor: Submission | null
  /** Opened in place of one that has fallen silent. */
  readonly isReplacement: boolean
  /** To be connected, or to rest. */
  deadline: Deadlines.Deadline | null
}

/** After which a server that owes something counts as silent: longer than most take to look into a message. */
const silenceMax = Duration.toNanosUnsafe(Duration.seconds(15))

export const make = (settings: Settings, limits: Limits): Effect.Effect<Pool, never, Scope.Scope> =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const monotonicNanos = () => clock.monotonicTimeNanosUnsafe()
    const toSubmit = yield* Deadlines.make(limits.submitTimeout)
    const toRest = yield* Deadlines.make(limits.idleTimeout)
    const toConnect = yield* Deadlines.make(settings.connectTimeout)
    const toAskAgain = yield* Deadlines.make(Duration.seconds(1))
    const context = trust(settings)
    const all = new Set<Carrier>()
    const idle: Array<Carrier> = []
    const waiting: Array<Submission> = []
    /** Of which a connection was lost before the server had them: they go first. */
    const returned: Array<Submission> = []
    let isClosed = false
    /** A server that refuses a replacement, as one that takes no more connections does, is not asked for another before then. */
    let replaceableAt = 0n
    /** While messages wait: behind a server that says nothing no turn comes at which they would be asked. */
    let asking: Deadlines.Deadline | null = null

    /** Whether a message waits that is still wanted. */
    const isAnyWaiting = (): boolean => {
      for (const queue of [returned, waiting]) {
        while (queue.length > 0 && !queue[0]!.isWanted()) queue.shift()!.onEnd(Result.fail(wantedNoMore())) // there is one
      }
      return returned.length + waiting.length > 0
    }

    const next = (carrier: Carrier): Submission | null => {
      if (!isAnyWaiting()) return null
      const submission = (returned.shift() ?? waiting.shift())! // one waits
      submission.carrier = carrier
      submission.deadline ??= toSubmit.set(() => {
        submission.onEnd(Result.fail(failed("DATA", "not submitted within the time")))
        withdraw(submission)
      })
      return submission
    }

    const withdraw = (submission: Submission): void => {
      const { carrier } = submission
      toSubmit.clear(submission.deadline)
      for (const queue of [waiting, returned]) {
        const index = queue.indexOf(submission)
        if (index < 0) continue
        queue.splice(index, 1)
        return
      }
      if (carrier?.sponsor === submission) {
        carrier.sponsor = null
        carrier.connection.end("nobody waits for it")
      } else carrier?.connection.abandon(submission)
    }

    const answering = (): Array<Carrier> => {
      const at = monotonicNanos()
      return [...all].filter(({ connection }) => connection.silence(at) <= silenceMax)
    }

    const areTooMany = (): boolean => all.size > limits.connectionsMax && answering().length > limits.connectionsMax

    const giveBack = (submission: Submission): void => {
      submission.carrier = null
      returned.push(submission)
    }

    const rested = (carrier: Carrier): void => {
      toRest.clear(carrier.deadline)
      const index = idle.indexOf(carrier)
      if (index >= 0) idle.splice(index, 1)
    }

    const open = (): void => {
      const connection: PipeliningConnection<Submission> = new PipeliningConnection(settings, limits.messagesPerConnectionMax, {
        next: () => (areTooMany() ? null : next(carrier)),
        giveBack,
        onIdle: () => {
          if (areTooMany()) return connection.quit()
          idle.push(carrier)
          carrier.deadline = toRest.set(() => connection.quit())
          dispatch()
        },
        onEnd: (why) => {
          const { sponsor } = carrier
          all.delete(carrier)
          rested(carrier)
          toConnect.clear(carrier.deadline)
          carrier.sponsor = null
          if (sponsor !== null && carrier.isReplacement) {
            replaceableAt = monotonicNanos() + silenceMax
            giveBack(sponsor)
          } else sponsor?.onEnd(Result.fail(why))
          dispatch()
        },
        within: (onDue) => {
          const deadline = toConnect.set(onDue)
          return () => toConnect.clear(deadline)
        },
        monotonicNanos
      })
      const carrier: Carrier = { connection, sponsor: null, isReplacement: all.size >= limits.connectionsMax, deadline: null }
      all.add(carrier)
      carrier.sponsor = next(carrier)
      carrier.deadline = toConnect.set(() => connection.end("not connected and signed in within the time"))
      try {
        connection.attach(
          introduce(settings, context, connection, (extensions) => {
            const { sponsor } = carrier
            toConnect.clear(carrier.deadline)
            carrier.sponsor = null
            connection.ready(extensions)
            if (sponsor === null || !connection.begin(sponsor)) connection.rest()
          })
        )
      } catch (error) {
        connection.end(String(error))
      }
    }

    const dispatch = (): void => {
      if (isClosed) return
      while (isAnyWaiting()) {
        // The one used last, so that those not needed expire.
        const carrier = idle.at(-1)
        if (carrier !== undefined) {
          rested(carrier)
          if (!carrier.connection.begin(next(carrier)!)) carrier.connection.rest() // there is one
        } else if (all.size < limits.connectionsMax) open()
        else {
          const some = answering()
          if (some.length < limits.connectionsMax && all.size < 2 * limits.connectionsMax && monotonicNanos() >= replaceableAt) open()
          else {
            // Where there are too many, one must come to rest.
            const busy = some.length > limits.connectionsMax ? undefined : some.find(({ connection }) => connection.takesAnother())
            if (busy === undefined) return askAgain()
            busy.connection.beginBehind(next(busy)!) // one waits
          }
        }
      }
    }

    const askAgain = (): void => {
      asking ??= toAskAgain.set(() => {
        asking = null
        dispatch()
      })
    }

    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        isClosed = true
        const error = failed("CONN", "the pool is closed")
        for (const submission of [...returned.splice(0), ...waiting.splice(0)]) submission.onEnd(Result.fail(error))
        for (const carrier of all) {
          if (idle.includes(carrier)) carrier.connection.quit()
          else carrier.connection.end("the pool is closed")
        }
        for (const submission of returned.splice(0)) submission.onEnd(Result.fail(error))
      })
    )

    return {
      submit: (message, isWanted) =>
        Effect.callback((resume) => {
          const submission: Submission = {
            ...message,
            isWanted,
            carrier: null,
            deadline: null,
            onEnd: (result) => {
              toSubmit.clear(submission.deadline)
              resume(Effect.fromResult(result))
            }
          }
          if (isClosed) return submission.onEnd(Result.fail(failed("CONN", "the pool is closed")))
          waiting.push(submission)
          dispatch()
          return Effect.sync(() => withdraw(submission))
        })
    }
  })
