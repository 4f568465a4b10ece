/** Binds suites to adapters under Vitest: one test per check, on a virtual clock. */
import { describe, it, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import type { Suite } from "./Suite.ts"

/** Of a scenario on servers: they are waited for, and there may be other tests beside. */
const timeout = 60_000

/** The clock stands still while a scenario waits for its ports, which is no mistake of the scenario's. */
const patientClock = TestClock.layer({ warningDelay: timeout })

/** A port's suite: the adapter is made once and shared by all checks. */
export const conforms = <R, E>(adapter: string, suite: Suite<R>, adapterLayer: Layer.Layer<R, E>): void => {
  layer(adapterLayer)(`${adapter} conforms to ${suite.name}`, (it) => {
    for (const { title, check } of suite.checks) it.effect(title, () => check)
  })
}

/** Scenarios: each is played on a set of its own, for a worker takes whatever jobs its queue holds. */
export const plays = <R, E>(set: string, suite: Suite<R>, setLayer: Layer.Layer<R, E>): void => {
  describe(`${set} plays ${suite.name}`, () => {
    for (const { title, check } of suite.checks) {
      it.effect(title, () => Effect.provide(check, Layer.provideMerge(Layer.fresh(setLayer), patientClock)), timeout)
    }
  })
}
