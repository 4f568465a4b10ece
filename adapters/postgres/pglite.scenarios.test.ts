import { Layer } from "effect"
import { scenarios } from "../../conformance/Proof.ts"
import { companions } from "../../conformance/sets.ts"
import { plays } from "../../conformance/vitest.ts"
import * as Postgres from "./index.ts"
import * as TestDatabase from "./TestDatabase.ts"

const embedded = Layer.provideMerge(Layer.effectDiscard(Postgres.Migrations.migrate), Postgres.Pglite.layerMemory)

const set = Postgres.layer.pipe(
  Layer.provide(Postgres.JobNews.layerLocal),
  Layer.provide(TestDatabase.emptied(embedded)),
  Layer.merge(companions)
)

for (const suite of scenarios) plays("{PGlite}", suite, set)
