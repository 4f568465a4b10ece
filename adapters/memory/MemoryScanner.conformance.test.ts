import { Layer } from "effect"
import { suite } from "../../conformance/Scanner.ts"
import { conforms } from "../../conformance/vitest.ts"
import * as MemoryScanner from "./MemoryScanner.ts"
import { Sha256 } from "./Sha256.ts"

const infected = new TextEncoder().encode("bytes that the script calls infected")

const scripted = Layer.effectDiscard(
  MemoryScanner.ScannerScript.use((script) =>
    script.answer(new Sha256().update(infected).digest(), { _tag: "Infected", signature: "Scripted" })
  )
).pipe(Layer.provideMerge(MemoryScanner.layer))

conforms("MemoryScanner", suite({ infected }), scripted)
