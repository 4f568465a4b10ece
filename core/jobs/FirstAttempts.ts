/**
 * First attempts at deliveries that are not committed yet. An endpoint that
 * answers at once is sent to straight from the log, so that one commit holds
 * an event's delivery and its success: no job is written, claimed and ended,
 * and no delivery written twice.
 *
 * Whoever has these made holds the events against all others, and then commits
 * what has come of them. Only a quick endpoint is sent to, nobody is waited
 * for longer than a moment, and what has not begun by then is left to be claimed.
 */
import { Clock, Context, Duration, Effect, Exit, FiberSet, Layer } from "effect"
import type { Delivery } from "../model/Delivery.ts"
import type { Endpoint } from "../model/Endpoint.ts"
import type { EndpointId } from "../model/Ids.ts"
import * as Deadlines from "../Deadlines.ts"
import { remember } from "../Remember.ts"
import { aboutDelivery, quickMax, rememberedMax, requestsMax, traced, WebhookAttempts, type Ending } from "./WebhookAttempts.ts"

/** How long a turn waits for those before it, and from its first attempt on for how long it goes on to begin others. */
const turnMax = Duration.millis(250)
const turnNanos = Duration.toNanosUnsafe(turnMax)
/** How long a turn waits for answers, from its first attempt on. */
const patience = Duration.sum(turnMax, Duration.millis(quickMax))

/** A delivery that is about to be made. */
export interface NewDelivery {
  readonly delivery: Delivery
  readonly endpoint: Endpoint
  readonly body: string
  /** Null as long as none has begun. */
  attempt: FirstAttempt | null
}

/** An attempt that has begun. */
export interface FirstAttempt {
  /** Null while it is under way, and for good if it could not be made. */
  ending: Ending | null
  isOver: boolean
  /** Told of its end: one may wait for it, whoever records it. */
  whenOver: (() => void) | null
}

/** Deliveries of one endpoint in one turn, in order. */
interface Portion {
  readonly turn: Turn
  readonly receiver: Receiver
  readonly deliveries: ReadonlyArray<NewDelivery>
  next: number
  inFlight: number
}

/** Who answers at an endpoint: attempts in flight, and the portions that wait for one of them to end. */
interface Receiver {
  readonly endpointId: EndpointId
  inFlight: number
  waiting: Array<Portion>
  /** Turns that have a portion of it. */
  turns: number
}

interface Turn {
  /** By the monotonic clock, when its first attempt began. */
  begunAt: bigint | null
  inFlight: number
  /** Attempts of one portion in flight at a time: a share of all, so that those who hang leave room for others. */
  readonly share: number
  /** Portions that have something to send; they take turns. */
  readonly ready: Array<Portion>
  /** Portions that have, and wait at their endpoint. */
  waiting: number
  deadline: Deadlines.Deadline | null
  readonly end: () => void
}

export class FirstAttempts extends Context.Service<
  FirstAttempts,
  {
    /** Attempts those that may be, until all of these have ended or it has waited long enough; sets `attempt` of each that has begun. */
    readonly make: (deliveries: ReadonlyArray<NewDelivery>) => Effect.Effect<void>
    /**
     * The first attempt at a delivery of this event to this endpoint, if this process has made one that has not been
     * committed: a store that takes none must not have receivers called again and again.
     */
    readonly begun: (delivery: Delivery) => FirstAttempt | null
    /** Waits for its end; null if it could not be made. */
    readonly ended: (attempt: FirstAttempt) => Effect.Effect<Ending | null>
    /** They are committed. */
    readonly forget: (deliveries: ReadonlyArray<NewDelivery>) => void
  }
>()("mailroom/core/jobs/FirstAttempts") {
  static readonly layer = Layer.effect(
    FirstAttempts,
    Effect.gen(function* () {
      const attempts = yield* WebhookAttempts
      const [untilBegun, untilAnswered] = [yield* Deadlines.make(turnMax), yield* Deadlines.make(patience)]
      const run = yield* FiberSet.makeRuntime()

      let inFlight = 0
      const receivers = new Map<EndpointId, Receiver>()
      /** In the order in which they came: a turn goes before those that came after it. */
      const turns = new Set<Turn>()

      const goOn = (clock: Clock.Clock): void => {
        for (const turn of turns) {
          const isOpen = turn.begunAt === null || clock.monotonicTimeNanosUnsafe() - turn.begunAt < turnNanos
          if (isOpen) beginSome(clock, turn)
          if (turn.inFlight === 0 && (!isOpen || (turn.ready.length === 0 && turn.waiting === 0))) turn.end()
        }
      }

      /** What it leaves is others' to use. */
      const endLate = (clock: Clock.Clock, turn: Turn): void => {
        turn.end()
        goOn(clock)
      }

      const beginSome = (clock: Clock.Clock, turn: Turn): void => {
        for (let portion = turn.ready[0]; portion !== undefined; portion = turn.ready[0]) {
          if (inFlight >= requestsMax) break
          turn.ready.shift()
          beginNext(clock, portion)
        }
      }

      const beginNext = (clock: Clock.Clock, portion: Portion): void => {
        const { turn, receiver, deliveries } = portion
        const one = deliveries[portion.next]! // a portion in the turn has one
        const most = Math.min(attempts.inFlightMax(one.endpoint, clock.currentTimeMillisUnsafe()), turn.share)
        if (most === 0) return // what is left of it is claimed
        if (receiver.inFlight >= most) {
          receiver.waiting.push(portion)
          turn.waiting += 1
          return
        }
        if (turn.begunAt === null) {
          turn.begunAt = clock.monotonicTimeNanosUnsafe()
          untilBegun.clear(turn.deadline)
          turn.deadline = untilAnswered.set(() => endLate(clock, turn))
        }
        portion.next += 1
        for (const counted of [portion, receiver, turn]) counted.inFlight += 1
        inFlight += 1
        if (portion.next < deliveries.length) turn.ready.push(portion)
        begin(one, () => {
          for (const counted of [portion, receiver, turn]) counted.inFlight -= 1
          inFlight -= 1
          wake(receiver)
          close(receiver)
          goOn(clock)
        })
      }

      const unrecorded = new Map<string, FirstAttempt>()

      /** Calls `ended` when it has an ending, and if it could not be made. */
      const begin = (one: NewDelivery, ended: () => void): void => {
        const { delivery, endpoint, body } = one
        const attempt: FirstAttempt = { ending: null, isOver: false, whenOver: null }
        one.attempt = attempt
        remember(unrecorded, pairOf(delivery), attempt, rememberedMax)
        run(traced("FirstAttempts.begin", delivery)(attempts.attempt(delivery, endpoint, body))).addObserver((exit) => {
          if (Exit.isSuccess(exit)) attempt.ending = exit.value
          else {
            one.attempt = null
            unrecorded.delete(pairOf(delivery))
            attempts.doubt(endpoint)
            run(Effect.logWarning("a first attempt could not be made; the delivery is claimed", exit.cause).pipe(aboutDelivery(delivery)))
          }
          attempt.isOver = true
          attempt.whenOver?.()
          ended()
        })
      }

      const wake = (receiver: Receiver): void => {
        for (const portion of receiver.waiting.splice(0)) {
          portion.turn.waiting -= 1
          portion.turn.ready.push(portion)
        }
      }

      const close = ({ endpointId, inFlight, turns }: Receiver): void => {
        if (inFlight === 0 && turns === 0) receivers.delete(endpointId)
      }

      const make = Effect.fnUntraced(function* (deliveries: ReadonlyArray<NewDelivery>) {
        const clock = yield* Clock.Clock
        const now = clock.currentTimeMillisUnsafe()
        const open = deliveries.filter(({ attempt, endpoint }) => attempt === null && attempts.inFlightMax(endpoint, now) > 0)
        if (open.length === 0) return
        const own = Map.groupBy(open, ({ endpoint }) => endpoint.id)
        yield* Effect.callback<void>((resume) => {
          const portions: Array<Portion> = []
          const turn: Turn = {
            begunAt: null,
            inFlight: 0,
            share: Math.ceil(requestsMax / own.size),
            ready: [],
            waiting: 0,
            deadline: null,
            end: () => {
              if (!turns.delete(turn)) return
              for (const deadlines of [untilBegun, untilAnswered]) deadlines.clear(turn.deadline)
              for (const { receiver, inFlight, deliveries } of portions) {
                receiver.turns -= 1
                if (inFlight > 0) {
                  // Not to be waited for again.
                  attempts.doubt(deliveries[0]!.endpoint) // a portion has some
                  wake(receiver)
                }
                close(receiver)
              }
              resume(Effect.void)
            }
          }
          for (const [endpointId, deliveries] of own) {
            const receiver = receivers.get(endpointId) ?? { endpointId, inFlight: 0, waiting: [], turns: 0 }
            receivers.set(endpointId, receiver)
            receiver.turns += 1
            portions.push({ turn, receiver, deliveries, next: 0, inFlight: 0 })
          }
          turn.ready.push(...portions)
          turn.deadline = untilBegun.set(() => endLate(clock, turn))
          turns.add(turn)
          goOn(clock)
        })
      })

      return FirstAttempts.of({
        make,
        ended: (attempt) =>
          Effect.callback<Ending | null>((resume) => {
            const tell = () => resume(Effect.succeed(attempt.ending))
            if (attempt.isOver) tell()
            else attempt.whenOver = tell
          }),
        begun: (delivery) => unrecorded.get(pairOf(delivery)) ?? null,
        forget: (deliveries) => {
          for (const { delivery, attempt } of deliveries) {
            if (attempt !== null) unrecorded.delete(pairOf(delivery))
          }
        }
      })
    })
  )
}

const pairOf = ({ eventId, endpointId }: Delivery): string => `${eventId} ${endpointId}`
