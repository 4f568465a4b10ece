import { Layer } from "effect"
import { suite } from "../../conformance/JobQueue.ts"
import { suite as reopened } from "../../conformance/JobQueueReopened.ts"
import { conforms } from "../../conformance/vitest.ts"
import * as JobNews from "./JobNews.ts"
import { migrate } from "./Migrations.ts"
import * as Pglite from "./Pglite.ts"
import * as PostgresJobQueue from "./PostgresJobQueue.ts"
import * as TestDatabase from "./TestDatabase.ts"

const pglite = Layer.effectDiscard(migrate).pipe(Layer.provideMerge(Pglite.layerMemory))

conforms(
  "PostgresJobQueue",
  suite,
  PostgresJobQueue.layer.pipe(Layer.provide(JobNews.layer), Layer.provide(TestDatabase.layer()))
)
conforms(
  "PostgresJobQueue over PGlite",
  suite,
  PostgresJobQueue.layer.pipe(Layer.provide(JobNews.layerLocal), Layer.provide(pglite))
)
conforms("PostgresJobQueue", reopened(Layer.provide(PostgresJobQueue.layer, JobNews.layer)), TestDatabase.layer())
conforms("PostgresJobQueue over PGlite", reopened(Layer.provide(PostgresJobQueue.layer, JobNews.layerLocal)), pglite)
