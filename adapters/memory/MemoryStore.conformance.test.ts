import { suite } from "../../conformance/Store.ts"
import { agreement } from "../../conformance/StoreModel.ts"
import { conforms } from "../../conformance/vitest.ts"
import * as MemoryStore from "./MemoryStore.ts"

conforms("MemoryStore", suite, MemoryStore.layer)
// Against itself: shows that the comparison holds what two right stores would answer.
conforms("MemoryStore", agreement(MemoryStore.layer), MemoryStore.layer)
