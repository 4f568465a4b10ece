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

      const turns = new AttemptTurns(attempts, begin, untilBegun, untilAnswered)

      const make = Effect.fnUntraced(function* (deliveries: ReadonlyArray<NewDelivery>) {
        const clock = yield* Clock.Clock
        const now = clock.currentTimeMillisUnsafe()
        const open = deliveries.filter(({ attempt, endpoint }) => attempt === null && attempts.inFlightMax(endpoint, now) > 0)
        if (open.length === 0) return
        yield* Effect.callback<void>((resume) => turns.take(clock, open, () => resume(Effect.void)))
      })

      return FirstAttempts.of({
        make,
        begun: (delivery) => unrecorded.get(pairOf(delivery)) ?? null,
        ended: (attempt) =>
          Effect.callback<Ending | null>((resume) => {
            const tell = () => resume(Effect.succeed(attempt.ending))
            if (attempt.isOver) tell()
            else attempt.whenOver = tell
          }),
        forget: (deliveries) => {
          for (const { delivery, attempt } of deliveries) {
            if (attempt !== null) unrecorded.delete(pairOf(delivery))
          }
        }
      })
    })
  )
}

/** Deliveries of one call of `make`, as portions. */
interface Turn {
  /** By the monotonic clock, when its first attempt began. */
  begunAt: bigint | null
  inFlight: number
  /** With so many in flight at an endpoint, of whichever turn, it begins no other there: a share of all, so that those who hang leave room for others. */
  readonly share: number
  readonly portions: Array<Portion>
  /** Portions that have something to send, and send one each in rotation. */
  readonly ready: Array<Portion>
  /** Portions that have, and wait at their endpoint. */
  waiting: number
  deadline: Deadlines.Deadline | null
  readonly over: () => void
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

/**
 * Which attempt begins when: within what the process, an endpoint and a share
 * of the turn may have in flight. It goes on whenever an attempt ends, until no
 * turn is left; it waits for nothing itself.
 *
 *     taken ───────────► its first begins ──────────► + 250 ms ───────────► + 350 ms
 *       waits for room,     begins others as there      begins no others,     is over: who has not
 *       250 ms at most,     is room for them            waits for those       answered is doubted, and
 *       else is over                                    that have begun       recorded by the relay
 *
 * A turn is over before that when none of its attempts is in flight and it has no other to begin.
 */
class AttemptTurns {
  readonly #attempts: WebhookAttempts["Service"]
  readonly #begin: (one: NewDelivery, ended: () => void) => void
  readonly #untilBegun: Deadlines.Deadlines
  readonly #untilAnswered: Deadlines.Deadlines
  readonly #receivers = new Map<EndpointId, Receiver>()
  /** In the order in which they came: a turn goes before those that came after it. */
  readonly #turns = new Set<Turn>()
  #inFlight = 0

  constructor(
    attempts: WebhookAttempts["Service"],
    begin: (one: NewDelivery, ended: () => void) => void,
    untilBegun: Deadlines.Deadlines,
    untilAnswered: Deadlines.Deadlines
  ) {
    this.#attempts = attempts
    this.#begin = begin
    this.#untilBegun = untilBegun
    this.#untilAnswered = untilAnswered
  }

  /** A turn for these; `over` is called when all have ended, or nobody waits for the rest any more. */
  take(clock: Clock.Clock, deliveries: ReadonlyArray<NewDelivery>, over: () => void): void {
    const own = Map.groupBy(deliveries, ({ endpoint }) => endpoint.id)
    const turn: Turn = {
      begunAt: null,
      inFlight: 0,
      share: Math.ceil(requestsMax / own.size),
      portions: [],
      ready: [],
      waiting: 0,
      deadline: null,
      over
    }
    for (const [endpointId, deliveries] of own) {
      const receiver = this.#receivers.get(endpointId) ?? { endpointId, inFlight: 0, waiting: [], turns: 0 }
      this.#receivers.set(endpointId, receiver)
      receiver.turns += 1
      turn.portions.push({ turn, receiver, deliveries, next: 0, inFlight: 0 })
    }
    turn.ready.push(...turn.portions)
    turn.deadline = this.#untilBegun.set(() => this.#endLate(clock, turn))
    this.#turns.add(turn)
    this.#goOn(clock)
  }

  #goOn(clock: Clock.Clock): void {
    for (const turn of this.#turns) {
      const isOpen = turn.begunAt === null || clock.monotonicTimeNanosUnsafe() - turn.begunAt < turnNanos
      if (isOpen) this.#beginSome(clock, turn)
      if (turn.inFlight === 0 && (!isOpen || (turn.ready.length === 0 && turn.waiting === 0))) this.#end(turn)
    }
  }

  #beginSome(clock: Clock.Clock, turn: Turn): void {
    for (let portion = turn.ready[0]; portion !== undefined; portion = turn.ready[0]) {
      if (this.#inFlight >= requestsMax) break
      turn.ready.shift()
      this.#beginNext(clock, portion)
    }
  }

  #beginNext(clock: Clock.Clock, portion: Portion): void {
    const { turn, receiver, deliveries } = portion
    const one = deliveries[portion.next]! // a portion in the turn has one
    const most = Math.min(this.#attempts.inFlightMax(one.endpoint, clock.currentTimeMillisUnsafe()), turn.share)
    if (most === 0) return // what is left of it is claimed
    if (receiver.inFlight >= most) {
      receiver.waiting.push(portion)
      turn.waiting += 1
      return
    }
    if (turn.begunAt === null) {
      turn.begunAt = clock.monotonicTimeNanosUnsafe()
      this.#untilBegun.clear(turn.deadline)
      turn.deadline = this.#untilAnswered.set(() => this.#endLate(clock, turn))
    }
    portion.next += 1
    this.#count(portion, 1)
    if (portion.next < deliveries.length) turn.ready.push(portion)
    this.#begin(one, () => {
      this.#count(portion, -1)
      wake(receiver)
      this.#close(receiver)
      this.#goOn(clock)
    })
  }

  #count(portion: Portion, by: 1 | -1): void {
    portion.inFlight += by
    portion.receiver.inFlight += by
    portion.turn.inFlight += by
    this.#inFlight += by
  }

  /** What it leaves is others' to use. */
  #endLate(clock: Clock.Clock, turn: Turn): void {
    this.#end(turn)
    this.#goOn(clock)
  }

  #end(turn: Turn): void {
    if (!this.#turns.delete(turn)) return
    for (const deadlines of [this.#untilBegun, this.#untilAnswered]) deadlines.clear(turn.deadline)
    for (const { receiver, inFlight, deliveries } of turn.portions) {
      receiver.turns -= 1
      if (inFlight > 0) {
        // Not to be waited for again.
        this.#attempts.doubt(deliveries[0]!.endpoint) // a portion has some
        wake(receiver)
      }
      this.#close(receiver)
    }
    turn.over()
  }

  /** Keeps no receiver that nobody sends to. */
  #close({ endpointId, inFlight, turns }: Receiver): void {
    if (inFlight === 0 && turns === 0) this.#receivers.delete(endpointId)
  }
}

/** Who waits for an attempt at this endpoint to end looks again. */
const wake = (receiver: Receiver): void => {
  for (const portion of receiver.waiting.splice(0)) {
    portion.turn.waiting -= 1
    portion.turn.ready.push(portion)
  }
}

const pairOf = ({ eventId, endpointId }: Delivery): string => `${eventId} ${endpointId}`
