import { conforms } from "../../conformance/vitest.ts"
import { suite } from "../../conformance/JobQueue.ts"
import * as MemoryJobQueue from "./MemoryJobQueue.ts"

conforms("MemoryJobQueue", suite, MemoryJobQueue.layer)
