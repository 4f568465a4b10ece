/**
 * The messages that wait and the connections that carry them: never more than
 * so many. A message goes to a connection that rests, else to a new one, else
 * behind the dot of another message, else it waits, and tenants take turns. All
 * are closed with the scope.
 *
 * A connection whose server has fallen silent keeps what it carries, gets
 * nothing more, and does not count, so that a new one may replace it: of both
 * together there are never more than twice as many. Where the server speaks
 * again, connections that are too many go as they come to rest.
 *
 * Some tenant's messages may be what it is silent about. So meanwhile a tenant
 * gets a connection if those that carry its messages are no more than those
 * that are still to be had, and none goes behind the dot of another tenant's.
 */
import { Clock, Duration, Effect, Result, type Scope } from "effect"
import * as Deadlines from "../../core/Deadlines.ts"
import type { TenantId } from "../../core/model/Ids.ts"
import type { SubmitRequest } from "../../core/ports/MailProvider.ts"
import { TenantLine, type Waiter } from "../../core/TenantLine.ts"
import { PipeliningConnection, type Outgoing } from "./PipeliningConnection.ts"
import { failed, wantedNoMore, type Answer, type SmtpFailed } from "./SmtpAnswer.ts"
import { introduce } from "./SmtpIntroduction.ts"
import type { Limits, Settings } from "./SmtpSettings.ts"
import { trust } from "./SmtpWire.ts"

export interface Pool {
  /**
   * Waits for a place; from then on it ends within the time to submit. Wanted no more when its turn comes, or within a
   * second where no turn comes, or when the server asks for its bytes, it fails. Interruption takes the message back.
   */
  readonly submit: (
    message: Omit<Outgoing, "onEnd" | "isWanted">,
    request: Pick<SubmitRequest, "realm" | "isWanted">
  ) => Effect.Effect<Answer, SmtpFailed>
}

interface Submission extends Outgoing, Waiter {
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

/** Whether it carries a message of this tenant, or of anybody. */
const carriesOf =
  (tenantId: TenantId | null) =>
  ({ sponsor, connection }: Carrier): boolean => {
    const isOne = (submission: Submission) => tenantId === null || submission.tenantId === tenantId
    return (sponsor !== null && isOne(sponsor)) || connection.carries(isOne)
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
    const waiting = new TenantLine<Submission>()
    /** Of which a connection was lost before the server had them: they go first. */
    const returned = new TenantLine<Submission>()
    let isClosed = false
    /** When that was last looked at: at most a second ago, while messages wait. */
    let isSomeSilent = false
    /** A server that refuses a replacement, as one that takes no more connections does, is not asked for another before then. */
    let replaceableAt = 0n
    /** While messages wait: behind a server that says nothing no turn comes at which they would be asked. */
    let asking: Deadlines.Deadline | null = null

    /** Of those that wait, and are still wanted. */
    const first = (mayBe?: (tenantId: TenantId) => boolean): Submission | null => returned.next(mayBe) ?? waiting.next(mayBe)

    /** Who is next on this connection, or on a new one. */
    const next = (carrier: Carrier | null): Submission | null => {
      const submission = all.size > limits.connectionsMax || isSomeSilent ? firstInSilence(carrier) : first()
      if (submission === null) return null
      if (!returned.take(submission)) waiting.take(submission)
      submission.deadline ??= toSubmit.set(() => {
        submission.onEnd(Result.fail(failed("DATA", "not submitted within the time")))
        withdraw(submission)
      })
      submission.carrier = carrier
      return submission
    }

    /** Where some may be silent, by the rule at the head of this file. */
    const firstInSilence = (carrier: Carrier | null): Submission | null => {
      const some = answering()
      if (!isSomeSilent) return first()
      const mayHave = (tenantId: TenantId): boolean => {
        const [carrying, others] = [[...all].filter(carriesOf(tenantId)), some.filter((one) => !carriesOf(tenantId)(one))]
        return carrying.length <= 2 * limits.connectionsMax - all.size + others.length
      }
      if (carrier === null || !carriesOf(null)(carrier)) return first(mayHave)
      // Behind a dot: where the connection is to go to another tenant, it must be free first.
      const isCarried = (tenantId: TenantId) => carriesOf(tenantId)(carrier)
      const submission = first((tenantId) => isCarried(tenantId) || mayHave(tenantId))
      return submission !== null && isCarried(submission.tenantId) ? submission : null
    }

    const withdraw = (submission: Submission): void => {
      const { carrier } = submission
      toSubmit.clear(submission.deadline)
      if (waiting.remove(submission) || returned.remove(submission)) return
      if (carrier?.sponsor === submission) {
        carrier.sponsor = null
        carrier.connection.end("nobody waits for it")
      } else carrier?.connection.abandon(submission)
    }

    const answering = (): Array<Carrier> => {
      const at = monotonicNanos()
      const some = [...all].filter(({ connection }) => connection.silence(at) <= silenceMax)
      isSomeSilent = some.length < all.size
      return some
    }

    const areTooMany = (): boolean => all.size > limits.connectionsMax && answering().length > limits.connectionsMax

    const giveBack = (submission: Submission): void => {
      submission.carrier = null
      returned.add(submission)
    }

    const rested = (carrier: Carrier): void => {
      toRest.clear(carrier.deadline)
      const index = idle.indexOf(carrier)
      if (index >= 0) idle.splice(index, 1)
    }

    const open = (sponsor: Submission): void => {
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
      const carrier: Carrier = { connection, sponsor, isReplacement: all.size >= limits.connectionsMax, deadline: null }
      all.add(carrier)
      sponsor.carrier = carrier
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
      while (first() !== null) if (!place()) return askAgain()
    }

    /** Whether one of those that wait was given a connection. */
    const place = (): boolean => {
      // The one used last, so that those not needed expire.
      const rests = idle.at(-1)
      let submission = rests === undefined ? null : next(rests)
      if (rests !== undefined && submission !== null) {
        rested(rests)
        if (!rests.connection.begin(submission)) rests.connection.rest()
        return true
      }
      const some = answering()
      const isReplaceable = some.length < limits.connectionsMax && all.size < 2 * limits.connectionsMax && monotonicNanos() >= replaceableAt
      // Who may not have one that rests may have no new one either.
      if (rests === undefined && (all.size < limits.connectionsMax || isReplaceable)) submission = next(null)
      if (submission !== null) {
        open(submission)
        return true
      }
      // Where there are too many, one must come to rest.
      if (some.length > limits.connectionsMax) return false
      for (const carrier of some) {
        submission = carrier.connection.takesAnother() ? next(carrier) : null
        if (submission === null) continue
        carrier.connection.beginBehind(submission)
        return true
      }
      return false
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
        for (const submission of [...returned.removeAll(), ...waiting.removeAll()]) submission.onEnd(Result.fail(error))
        for (const carrier of all) {
          if (idle.includes(carrier)) carrier.connection.quit()
          else carrier.connection.end("the pool is closed")
        }
        for (const submission of returned.removeAll()) submission.onEnd(Result.fail(error))
      })
    )

    return {
      submit: (message, { realm: { tenantId }, isWanted }) =>
        Effect.callback((resume) => {
          const submission: Submission = {
            ...message,
            tenantId,
            isWanted,
            // Not within whatever goes through the line: who is told may submit another.
            onUnwanted: () => {
              toSubmit.clear(submission.deadline)
              resume(Effect.andThen(Effect.yieldNow, Effect.fail(wantedNoMore())))
            },
            carrier: null,
            deadline: null,
            onEnd: (result) => {
              toSubmit.clear(submission.deadline)
              resume(Effect.fromResult(result))
            }
          }
          if (isClosed) return submission.onEnd(Result.fail(failed("CONN", "the pool is closed")))
          waiting.add(submission)
          dispatch()
          return Effect.sync(() => withdraw(submission))
        })
    }
  })
