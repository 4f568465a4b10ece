import { Layer } from "effect"
import { scenarios } from "../../conformance/Proof.ts"
import { companions } from "../../conformance/sets.ts"
import { plays } from "../../conformance/vitest.ts"
import * as EmptiedDatabase from "./EmptiedDatabase.ts"
import * as Postgres from "./index.ts"
import * as TestDatabase from "./TestDatabase.ts"

const set = Postgres.layer.pipe(
  Layer.provide(Postgres.JobNews.layer),
  Layer.provide(EmptiedDatabase.layer(TestDatabase.layer())),
  Layer.merge(companions)
)

for (const suite of scenarios) plays("{Postgres}", suite, set)
