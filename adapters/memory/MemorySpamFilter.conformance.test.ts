import { Effect, Layer } from "effect"
import { createHash } from "node:crypto"
import { suite, type Case } from "../../conformance/SpamFilter.ts"
import { conforms } from "../../conformance/vitest.ts"
import * as MemorySpamFilter from "./MemorySpamFilter.ts"

const cases: ReadonlyArray<Case> = (["ham", "spam", "refuse", "unavailable"] as const).map((expected) => ({
  title: `says ${expected} where it is told to`,
  message: new TextEncoder().encode(`From: ada@client.test\r\n\r\n${expected}\r\n`),
  expected
}))

const scripted = Layer.effectDiscard(
  MemorySpamFilter.SpamFilterScript.use((script) =>
    Effect.forEach(cases, ({ message, expected }) => script.answer(createHash("sha256").update(message).digest("hex"), expected))
  )
).pipe(Layer.provideMerge(MemorySpamFilter.layer))

conforms("MemorySpamFilter", suite({ cases }), scripted)
