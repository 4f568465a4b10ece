import { Layer } from "effect"
import { suite } from "../../conformance/JobQueue.ts"
import { suite as reopened } from "../../conformance/JobQueueReopened.ts"
import { conforms } from "../../conformance/vitest.ts"
import * as MemoryJobQueue from "./MemoryJobQueue.ts"

conforms("MemoryJobQueue", suite, MemoryJobQueue.layer)
conforms("MemoryJobQueue", reopened(MemoryJobQueue.layer), Layer.empty)
