import { suite } from "../../conformance/RateLimiter.ts"
import { conforms } from "../../conformance/vitest.ts"
import * as MemoryRateLimiter from "./MemoryRateLimiter.ts"

conforms("MemoryRateLimiter", suite, MemoryRateLimiter.layer)
