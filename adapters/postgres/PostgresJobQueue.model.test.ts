import { describe, it } from "@effect/vitest"
import { Layer } from "effect"
import { agrees } from "../../conformance/JobQueueModel.ts"
import * as JobNews from "./JobNews.ts"
import * as PostgresJobQueue from "./PostgresJobQueue.ts"
import * as TestDatabase from "./TestDatabase.ts"

const queue = PostgresJobQueue.layer.pipe(
  Layer.provide(JobNews.layerLocal),
  Layer.provide(TestDatabase.emptied(TestDatabase.layer()))
)

describe("PostgresJobQueue", () => {
  it.effect(
    "does what a plain list of jobs would, whatever is asked of it",
    () => agrees(() => Layer.fresh(queue), { numRuns: 100, minLength: 40 }),
    60_000
  )
})
