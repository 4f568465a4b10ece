/**
 * The connections to the mail server: never more than so many, kept for a while
 * after their message, and replaced when they are lost or worn. Tenants take
 * turns at them. All are closed with the scope.
 */
import { Effect, type Fiber, type Scope } from "effect"
import type { SubmitRequest } from "../../core/ports/MailProvider.ts"
import * as TenantLine from "../../core/TenantLine.ts"
import { failed, SmtpFailed, wantedNoMore } from "./SmtpAnswer.ts"
import { open, type Connection } from "./SmtpConnection.ts"
import type { Limits, Settings } from "./SmtpSettings.ts"

export interface Pool {
  /** Waits for a place; from then on it ends within the time to submit, unless it is wanted no more. Interruption closes the connection. */
  readonly use: <A, E>(
    work: (connection: Connection) => Effect.Effect<A, E | SmtpFailed>,
    request: Pick<SubmitRequest, "realm" | "isWanted">
  ) => Effect.Effect<A, E | SmtpFailed>
}

export const make = (settings: Settings, limits: Limits): Effect.Effect<Pool, never, Scope.Scope> =>
  Effect.gen(function* () {
    const scope = yield* Effect.scope
    const places = TenantLine.places(limits.connectionsMax)
    const all = new Set<Connection>()
    const idle: Array<Kept> = []
    let isClosed = false

    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => {
        isClosed = true
        const kept = new Set(idle.splice(0).map(({ connection }) => connection))
        const leave = (connection: Connection) => (kept.has(connection) ? connection.quit : connection.close)
        return Effect.forEach(all, leave, { discard: true })
      })
    )

    const discard = (connection: Connection, leave: Effect.Effect<void>) =>
      Effect.suspend(() => {
        all.delete(connection)
        return leave
      })

    /** The one used last, so that those not needed expire. */
    const takeIdle = (): Connection | null => {
      for (let kept = idle.pop(); kept !== undefined; kept = idle.pop()) {
        kept.expiry?.interruptUnsafe()
        if (kept.connection.isOpen()) return kept.connection
        all.delete(kept.connection)
      }
      return null
    }

    const keep = Effect.fnUntraced(function* (connection: Connection) {
      const isWorn = connection.messageCount() >= limits.messagesPerConnectionMax
      if (!(yield* connection.settle)) return yield* discard(connection, connection.close)
      if (isClosed || isWorn) return yield* discard(connection, connection.quit)
      const kept: Kept = { connection, expiry: null }
      idle.push(kept)
      kept.expiry = yield* Effect.sleep(limits.idleTimeout).pipe(
        Effect.andThen(
          Effect.suspend(() => {
            const index = idle.indexOf(kept)
            return index < 0 ? Effect.void : discard(idle.splice(index, 1)[0]!.connection, connection.quit)
          })
        ),
        Effect.forkIn(scope)
      )
    })

    const attempt = <A, E>(
      work: (connection: Connection) => Effect.Effect<A, E | SmtpFailed>,
      held: { connection: Connection | null }
    ): Effect.Effect<A, E | SmtpFailed> => {
      const hold = (connection: Connection): Connection => {
        all.add(connection)
        held.connection = connection
        return connection
      }
      const connect = Effect.uninterruptibleMask((restore) => Effect.map(restore(open(settings)), hold))
      return Effect.suspend(() => {
        if (isClosed) return Effect.fail(failed("CONN", "the pool is closed"))
        const kept = takeIdle()
        return Effect.flatMap(kept === null ? connect : Effect.succeed(hold(kept)), work)
      }).pipe(
        Effect.catchIf(
          (error) => error instanceof SmtpFailed && error.isStale,
          () => Effect.andThen(letGo(held), attempt(work, held))
        )
      )
    }

    const letGo = (held: { connection: Connection | null }) =>
      Effect.suspend(() => {
        const { connection } = held
        held.connection = null
        return connection === null ? Effect.void : discard(connection, connection.close)
      })

    return {
      use: (work, request) =>
        Effect.uninterruptibleMask((restore) =>
          Effect.gen(function* () {
            const held: { connection: Connection | null } = { connection: null }
            if (!(yield* places.take(request, restore))) return yield* wantedNoMore()
            const answer = yield* restore(
              attempt(work, held).pipe(
                Effect.timeoutOrElse({
                  duration: limits.submitTimeout,
                  orElse: () => Effect.fail(failed("DATA", "not submitted within the time"))
                })
              )
            ).pipe(Effect.onError(() => Effect.andThen(letGo(held), places.release)))
            // The answer is known, and waits for no further word of the server; the place does.
            const kept = Effect.ensuring(keep(held.connection!), places.release) // an answer came over a connection
            yield* held.connection!.isSettled() ? kept : Effect.forkIn(kept, scope)
            return answer
          })
        )
    }
  })

interface Kept {
  readonly connection: Connection
  expiry: Fiber.Fiber<void> | null
}
