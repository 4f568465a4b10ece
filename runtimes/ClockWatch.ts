/** Measures how far this process's clock is from the database's, at start and each minute; the core takes no work while it is too far. */
import { Effect, Layer } from "effect"
import { Database } from "../adapters/postgres/Database.ts"
import { ClockOffset, isClockTrusted } from "../core/ClockOffset.ts"
import { every } from "../core/Loops.ts"

/** A slow answer looks like a clock that is off: of so many, the nearest is believed. */
const measurementsMax = 3

export const layer = Layer.effect(
  ClockOffset,
  Effect.gen(function* () {
    const database = yield* Database
    let offset = 0
    const get = () => offset

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
      offset = yield* measured
      const far = `this process's clock is ${Math.abs(offset) / 1000} s ${offset < 0 ? "ahead of" : "behind"} the database's`
      const waits = offset < 0 ? ", and mail that it accepts until then is sent as much later" : ""
      if (!isClockTrusted(get)) yield* Effect.logError(`${far}: it takes no work until it is set right${waits}`)
      else if (!wasTrusted) yield* Effect.logInfo("this process's clock agrees with the database's again")
      // While the database is away there is no work to take.
    }).pipe(Effect.catch((error) => Effect.logDebug("the clock could not be compared with the database's", error)))

    yield* watch
    yield* every("1 minute", "the clock watch", watch)
    return get
  })
)
