import { suite } from "../../conformance/BlobStore.ts"
import { conforms } from "../../conformance/vitest.ts"
import * as MemoryBlobStore from "./MemoryBlobStore.ts"

conforms("MemoryBlobStore", suite(), MemoryBlobStore.layer)
