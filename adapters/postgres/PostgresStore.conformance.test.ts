import { Context, Effect, Layer } from "effect"
import { vi } from "vitest"
import { suite } from "../../conformance/Store.ts"
import { concurrency } from "../../conformance/StoreConcurrency.ts"
import { agreement } from "../../conformance/StoreModel.ts"
import { relaying } from "../../conformance/StoreRelay.ts"
import { conforms } from "../../conformance/vitest.ts"
import { Store } from "../../core/ports/Store.ts"
import * as MemoryStore from "../memory/MemoryStore.ts"
import * as Database from "./Database.ts"
import * as JobNews from "./JobNews.ts"
import { migrate } from "./Migrations.ts"
import * as Pglite from "./Pglite.ts"
import * as PostgresStore from "./PostgresStore.ts"
import * as TestDatabase from "./TestDatabase.ts"

// The model is asked for everything, over and over: thousands of round trips for each seed.
vi.setConfig({ testTimeout: 90_000 })

const model = agreement(MemoryStore.layer)

const onServer = PostgresStore.layer.pipe(Layer.provide(JobNews.layer), Layer.provide(TestDatabase.layer()), Layer.fresh)
conforms("PostgresStore", suite, onServer)
conforms("PostgresStore", model, onServer)

/** One commits here, the next one there. */
const inTwoProcesses = Layer.effect(
  Store,
  Effect.gen(function* () {
    const url = yield* TestDatabase.url()
    const process = PostgresStore.layerWithoutJobs.pipe(Layer.provide(Database.layer({ url })), Layer.fresh)
    const [one, other] = [Context.get(yield* Layer.build(process), Store), Context.get(yield* Layer.build(process), Store)]
    let turn = 0
    return Store.of({ ...one, commit: (changes, jobs) => (turn++ % 2 === 0 ? one : other).commit(changes, jobs) })
  })
)
conforms("PostgresStore in two processes", { name: "Store, where many commit", checks: [...concurrency, ...relaying] }, inTwoProcesses)

const embedded = Layer.provideMerge(Layer.effectDiscard(migrate), Pglite.layerMemory)
const onPglite = PostgresStore.layer.pipe(Layer.provide(JobNews.layerLocal), Layer.provide(embedded), Layer.fresh)
conforms("PostgresStore over PGlite", suite, onPglite)
conforms("PostgresStore over PGlite", model, onPglite)
