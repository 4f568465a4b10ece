/** Binds a suite to an adapter under Vitest: one test per check, on a virtual clock, the layer shared by all. */
import { layer } from "@effect/vitest"
import type { Layer } from "effect"
import type { Suite } from "./Suite.ts"

export const conforms = <R, E>(adapter: string, suite: Suite<R>, adapterLayer: Layer.Layer<R, E>): void => {
  layer(adapterLayer)(`${adapter} conforms to ${suite.name}`, (it) => {
    for (const { title, check } of suite.checks) it.effect(title, () => check)
  })
}
