import { Layer } from "effect"
import { createHash } from "node:crypto"
import { suite } from "../../conformance/Scanner.ts"
import { conforms } from "../../conformance/vitest.ts"
import * as MemoryScanner from "./MemoryScanner.ts"

const infected = new TextEncoder().encode("bytes that the script calls infected")

const scripted = Layer.effectDiscard(
  MemoryScanner.ScannerScript.use((script) =>
    script.answer(createHash("sha256").update(infected).digest("hex"), { _tag: "Infected", signature: "Scripted" })
  )
).pipe(Layer.provideMerge(MemoryScanner.layer))

conforms("MemoryScanner", suite({ infected }), scripted)
