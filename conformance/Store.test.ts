/** What authors get wrong about the log: each flaw is put into a store that is right, and a law names it, in the order of the whole suite. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import * as MemoryStore from "../adapters/memory/MemoryStore.ts"
import type { LogPage } from "../core/model/Event.ts"
import type { EventReads } from "../core/ports/Store.ts"
import { Store } from "../core/ports/Store.ts"
import { conforms, prove } from "./Proof.ts"
import { suite } from "./Store.ts"

type Service = Store["Service"]
type Asked = Parameters<EventReads["page"]>

const paging = (change: (store: Service, page: Effect.Effect<LogPage, never>, asked: Asked) => Effect.Effect<LogPage, never>) => (store: Service): Service => ({
  ...store,
  events: { ...store.events, page: (...asked) => change(store, Effect.orDie(store.events.page(...asked)), asked) }
})

const places = "knows the place of an event that a page begins behind, by its position, tenant and time"
const cuts = "says of a page whether some of what was behind its beginning is forgotten"
const moments = "reads a page and what is known of its beginning at one moment, also while events are forgotten"
const begins = "begins a relay at 0, held by nobody, and keeps its place and the endpoints' when events are forgotten"

const fronts = "forgets events from the front of the log, and numbers on as before"
const olderFirst = "forgets of the fronts of the shards the older one first, whichever shard it is in"

const flaws: ReadonlyArray<readonly [flaw: string, laws: ReadonlyArray<string>, make: (store: Service) => Service]> = [
  ["pages that are always whole", [cuts, places], paging((_, page) => Effect.map(page, (found) => ({ ...found, beginning: "whole" })))],
  [
    "a place ahead of a log that is empty, taken for its end",
    [cuts],
    paging((store, page) =>
      Effect.flatMap(page, (found) =>
        found.beginning === "unknown"
          ? Effect.map(Effect.orDie(store.events.readLog(6, 0n, 1)), ({ length }) => (length === 0 ? { ...found, beginning: "whole" as const } : found))
          : Effect.succeed(found)
      )
    )
  ],
  [
    "a place that is not looked at beyond what the reader is shown",
    [places],
    paging((store, page, [realm, applicationId, { start }]) =>
      start?._tag !== "After"
        ? page
        : Effect.flatMap(page, (found) =>
            Effect.map(Effect.orDie(store.events.page(realm, applicationId, { start: { ...start, position: start.position - 1n }, limit: 1 })), ({ events: [seen] }) =>
              found.beginning === "whole" && seen?.position !== start.position ? { ...found, beginning: "unknown" as const } : found
            )
          )
    )
  ],
  [
    "a page in two looks",
    [moments],
    paging((store, page, asked) =>
      Effect.gen(function* () {
        const { beginning } = yield* page
        for (let turns = 0; turns < 10; turns++) yield* Effect.yieldNow
        const { events } = yield* Effect.orDie(store.events.page(...asked))
        return { events, beginning }
      })
    )
  ],
  [
    "a backlog of what was forgotten",
    [begins],
    (store) => {
      let forgotten = 0
      return {
        ...store,
        commit: (changes, jobs) =>
          Effect.tap(store.commit(changes, jobs), (landed) =>
            Effect.sync(() => {
              if (changes.some((change) => change._tag === "Forget" && change.what === "events")) forgotten += landed.forgotten
            })
          ),
        backlog: Effect.map(store.backlog, (backlog) => ({ ...backlog, unrelayed: backlog.unrelayed + forgotten }))
      }
    }
  ]
]

describe("the suite of Store", { concurrent: true }, () => {
  for (const [flaw, laws, make] of flaws) {
    it.live(`refuses ${flaw}`, () =>
      Effect.gen(function* () {
        const flawed = Layer.effect(Store, Effect.map(Store, make)).pipe(Layer.provide(MemoryStore.layer))

        const { checks } = yield* prove([conforms("flawed", suite, flawed)], { filter: [], timeout: "30 seconds", onResult: () => Effect.void })

        const failed = checks.filter(({ outcome }) => outcome === "failed").map(({ title }) => title)
        for (const law of laws) assert.include(failed, law)
      }), 60_000)
  }

  it.live("says of a store that has other work behind it which laws it cannot be held to", () =>
    Effect.gen(function* () {
      const used = Layer.succeed(Store, yield* Effect.provide(Store, MemoryStore.layer))
      const options = { filter: [], timeout: "30 seconds", onResult: () => Effect.void } as const
      yield* prove([conforms("new", suite, used)], options)

      const { checks, failed } = yield* prove([conforms("used", suite, used)], options)

      assert.strictEqual(failed, 0)
      const left = checks.filter(({ outcome }) => outcome === "not_applicable")
      assert.sameMembers(left.map(({ title }) => title), [begins, cuts, moments, fronts, olderFirst])
      for (const { reason } of left) assert.match(reason ?? "", /^the store was used before, .*: give the suite an empty store$/)
    }), 60_000)
})
