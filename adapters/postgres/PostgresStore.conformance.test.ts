import { Layer } from "effect"
import { vi } from "vitest"
import { suite } from "../../conformance/Store.ts"
import { agreement } from "../../conformance/StoreModel.ts"
import { conforms } from "../../conformance/vitest.ts"
import * as MemoryStore from "../memory/MemoryStore.ts"
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

const embedded = Layer.provideMerge(Layer.effectDiscard(migrate), Pglite.layerMemory)
const onPglite = PostgresStore.layer.pipe(Layer.provide(JobNews.layerLocal), Layer.provide(embedded), Layer.fresh)
conforms("PostgresStore over PGlite", suite, onPglite)
conforms("PostgresStore over PGlite", model, onPglite)
