/**
 * Measures how far this process's clock is from the database's, at start and every ten seconds; the core takes no work while it
 * is too far. A clock that is set in between is seen at once, by the monotonic one, which nobody sets. Only where both stood
 * still, as of a virtual machine that was suspended, it takes a measurement to tell.
 */
import { Clock, Effect, Layer } from "effect"
import { Database } from "../adapters/postgres/Database.ts"
import { ClockOffset, isClockTrusted } from "../core/ClockOffset.ts"
import { every } from "../core/Loops.ts"
import * as SeldomLog from "../core/SeldomLog.ts"

/** A slow answer looks like a clock that is off: of so many, the nearest is believed. */
const measurementsMax = 3

export const layer = Layer.effect(
  ClockOffset,
  Effect.gen(function* () {
    const database = yield* Database
    const clock = yield* Clock.Clock
    const seldom = SeldomLog.make()
    /** Moves when our clock is set. */
    const lead = () => clock.currentTimeMillisUnsafe() - Number(clock.monotonicTimeNanosUnsafe() / 1_000_000n)
    let [offset, leadThen] = [0, lead()]
    const get = () => {
      const step = lead() - leadThen
      return Math.abs(step) > 1 ? offset - step : offset // they are read one after the other, in whole milliseconds
    }

    const measured = Effect.gen(function* () {
      let nearest = Infinity
      for (let tries = 0; tries < measurementsMax; tries++) {
        const found = yield* database.clockOffset
        if (Math.abs(found) < Math.abs(nearest)) nearest = found
        if (isClockTrusted(() => nearest)) break
      }
      return nearest
    })

    const watch = Effect.gen(function* () {
      const wasTrusted = isClockTrusted(get)
      const found = yield* measured
      ;[offset, leadThen] = [found, lead()]
      const far = `this process's clock is ${Math.abs(offset) / 1000} s ${offset < 0 ? "ahead of" : "behind"} the database's`
      const waits = offset < 0 ? ", and mail that it accepts until then is sent as much later" : ""
      if (!isClockTrusted(get)) yield* seldom(Effect.logError(`${far}: it takes no work until it is set right${waits}`))
      else if (!wasTrusted) yield* Effect.logInfo("this process's clock agrees with the database's again")
      // While the database is away there is no work to take.
    }).pipe(Effect.catch((error) => Effect.logDebug("the clock could not be compared with the database's", error)))

    yield* watch
    yield* every("10 seconds", "the clock watch", watch)
    return get
  })
)
