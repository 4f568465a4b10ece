import { Layer } from "effect"
import { scenarios } from "../../conformance/Proof.ts"
import { companions } from "../../conformance/sets.ts"
import { plays } from "../../conformance/vitest.ts"
import * as Postgres from "./index.ts"
import * as TestDatabase from "./TestDatabase.ts"

const set = Postgres.layer.pipe(
  Layer.provide(Postgres.JobNews.layer),
  Layer.provide(TestDatabase.emptied(TestDatabase.layer())),
  Layer.merge(companions)
)

for (const suite of scenarios) plays("{Postgres}", suite, set)
