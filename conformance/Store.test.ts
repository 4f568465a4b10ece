/** What authors get wrong about the log: each flaw is put into a store that is right, and a law names it, in the order of the whole suite. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import * as MemoryBlobStore from "../adapters/memory/MemoryBlobStore.ts"
import * as MemoryJobQueue from "../adapters/memory/MemoryJobQueue.ts"
import * as MemoryRateLimiter from "../adapters/memory/MemoryRateLimiter.ts"
import * as MemoryStore from "../adapters/memory/MemoryStore.ts"
import type { LogPage } from "../core/model/Event.ts"
import type { Change, EventReads, StoreUnavailable } from "../core/ports/Store.ts"
import { Store } from "../core/ports/Store.ts"
import { conforms, plays, prove } from "./Proof.ts"
import { suite as crashes } from "./scenarios/crashes.ts"
import { companions } from "./sets.ts"
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

const olderThan = ["reservations", "notifications", "requests", "deliveries", "payloads", "messages", "attachments"].map(
  (what) => `forgets what is older than a time (${what}), oldest first and no more than the limit`
)
const counts = [...olderThan, "forgets the quotas of days that are over, and of no other day", fronts, olderFirst]
const whole = "gives back texts to their ends: blanks, line feeds, and nothing at all, which is a text too"
const ordered = "gives back an event as it was put, the members of its data in their order, from which a webhook is made anew"

/** Says of a commit that forgets that it has dropped so many rows. */
const forgetting = (count: (forget: Extract<Change, { readonly _tag: "Forget" }>, forgotten: number) => number) => (store: Service): Service => ({
  ...store,
  commit: (changes, jobs) =>
    Effect.map(store.commit(changes, jobs), (landed) => {
      const forget = changes.find((change) => change._tag === "Forget")
      return forget === undefined ? landed : { ...landed, forgotten: count(forget, landed.forgotten) }
    })
})

/** Writes other changes than it is given. */
const writing = (alter: (change: Change) => Change) => (store: Service): Service => ({
  ...store,
  commit: (changes, jobs) => store.commit(changes.map(alter), jobs)
})

/** Pages what is sealed by an older key as it was inserted. */
const asInserted = (kind: "domain" | "endpoint") => (store: Service): Service => {
  const inserted: Array<string> = []
  const paged = <A extends { readonly id: string }>(all: Effect.Effect<ReadonlyArray<A>, StoreUnavailable>, after: string | null, limit: number) =>
    Effect.map(all, (found) =>
      found
        .filter(({ id }) => after === null || id > after)
        .toSorted((left, right) => inserted.indexOf(left.id) - inserted.indexOf(right.id))
        .slice(0, limit)
    )
  const { domains, endpoints } = store
  return {
    ...store,
    commit: (changes, jobs) =>
      Effect.tap(store.commit(changes, jobs), () =>
        Effect.sync(() => inserted.push(...changes.flatMap((change) => (change._tag === "Insert" && change.kind === kind ? change.record.id : []))))
      ),
    ...(kind === "domain"
      ? { domains: { ...domains, sealedBelow: (version, { after, limit }) => paged(domains.sealedBelow(version, { after: null, limit: 1_000_000 }), after, limit) } }
      : { endpoints: { ...endpoints, sealedBelow: (version, { after, limit }) => paged(endpoints.sealedBelow(version, { after: null, limit: 1_000_000 }), after, limit) } })
  }
}

/** The members of the members of an object, in the order of their names. */
const sortedWithin = (value: unknown, depth = 0): unknown => {
  if (Array.isArray(value)) return value.map((one) => sortedWithin(one, depth + 1))
  if (typeof value !== "object" || value === null) return value
  const members = Object.entries(value).map(([name, member]) => [name, sortedWithin(member, depth + 1)] as const)
  return Object.fromEntries(depth === 0 ? members : members.toSorted(([left], [right]) => (left < right ? -1 : 1)))
}

const rewritten = (edit: (text: string) => string | null) =>
  writing((change) => {
    if (change._tag !== "InsertMessage" && change._tag !== "PutContent") return change
    const { text, html } = change.content
    return { ...change, content: { ...change.content, text: text === null ? null : edit(text), html: html === null ? null : edit(html) } }
  })

const flaws: ReadonlyArray<readonly [flaw: string, laws: ReadonlyArray<string>, make: (store: Service) => Service]> = [
  ["a count of what is forgotten that is the limit", counts, forgetting(({ limit }) => limit)],
  ["a count of what is forgotten that stays at 0", counts, forgetting(() => 0)],
  ["a count of what is forgotten that is one more", counts, forgetting((_, forgotten) => forgotten + 1)],
  ["domains in the order of their insertion", ["lists the domains of all tenants that hold a key sealed by an older one, by id, page by page"], asInserted("domain")],
  ["endpoints in the order of their insertion", ["lists the endpoints of all tenants whose secret is sealed by an older key, by id, page by page"], asInserted("endpoint")],
  ["texts that lose the line feed at their end", [whole], rewritten((text) => text.replace(/\n$/, ""))],
  ["texts that lose the blanks at their ends", [whole], rewritten((text) => text.replace(/^ +| +$/g, ""))],
  ["empty texts that are none", [whole], rewritten((text) => (text === "" ? null : text))],
  [
    "members of an event's data that are sorted below the first depth",
    [ordered],
    writing((change) => (change._tag === "AppendEvent" ? { ...change, event: { ...change.event, data: sortedWithin(change.event.data) as typeof change.event.data } } : change))
  ],
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

  it.live("leaves a store that says that it has offered the jobs to the scenarios, which have a queue to look into", () =>
    Effect.gen(function* () {
      const title = "a job that a commit both ends and offers is there behind its end, for the earliest time that it was offered for"
      const set = (store: Layer.Layer<Store>) =>
        plays("a set", Layer.mergeAll(store, MemoryJobQueue.layer, MemoryBlobStore.layer, MemoryRateLimiter.layer, companions), [crashes])
      const saying = Layer.effect(Store, Effect.map(Store, (store) => ({
        ...store,
        commit: (changes, jobs) => Effect.map(store.commit(changes, jobs), (landed) => ({ ...landed, jobsOffered: true }))
      } satisfies Service))).pipe(Layer.provide(MemoryStore.layer))

      const { checks } = yield* prove([...set(MemoryStore.layer), ...set(saying)], { filter: [title], timeout: "30 seconds", onResult: () => Effect.void })

      assert.deepStrictEqual(checks.map(({ outcome }) => outcome), ["passed", "failed"])
    }), 60_000)

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
