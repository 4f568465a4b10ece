/**
 * A scanner that says what it is told to: for tests, which reach its script
 * through `ScannerScript`. Untold, it calls everything clean.
 */
import { Context, Effect, Layer, Stream } from "effect"
import { createHash } from "node:crypto"
import { ScanFailed, Scanner, type Verdict } from "../../core/ports/Scanner.ts"

export type Outcome =
  | Verdict
  | { readonly _tag: "Fails"; readonly reason: string }
  /** The engine never answers. */
  | { readonly _tag: "Hangs" }
  /** The engine breaks. */
  | { readonly _tag: "Dies"; readonly defect: unknown }

export class ScannerScript extends Context.Service<
  ScannerScript,
  {
    /** What each scan of these bytes comes to, from now on. */
    readonly answer: (sha256: string, outcome: Outcome) => Effect.Effect<void>
    /** What the next scans come to, one after the other, of bytes that have no answer of their own. */
    readonly next: (...outcomes: ReadonlyArray<Outcome>) => Effect.Effect<void>
    /** The digests of all that was read to its end, in order. */
    readonly scanned: Effect.Effect<ReadonlyArray<string>>
  }
>()("mailroom/adapters/memory/ScannerScript") {}

export const layer: Layer.Layer<Scanner | ScannerScript> = Layer.effectContext(
  Effect.sync(() => {
    const answers = new Map<string, Outcome>()
    const queue: Array<Outcome> = []
    const scanned: Array<string> = []

    const conclude = (outcome: Outcome): Effect.Effect<Verdict, ScanFailed> => {
      switch (outcome._tag) {
        case "Clean":
        case "Infected":
          return Effect.succeed(outcome)
        case "Fails":
          return Effect.fail(new ScanFailed({ reason: outcome.reason }))
        case "Hangs":
          return Effect.never
        case "Dies":
          return Effect.die(outcome.defect)
      }
    }

    const scanner = Scanner.of({
      scan: Effect.fnUntraced(function* (bytes, sizeBytes) {
        const hash = createHash("sha256")
        let seen = 0
        yield* Stream.runForEach(bytes, (piece) => {
          hash.update(piece)
          seen += piece.length
          return seen > sizeBytes ? Effect.fail(new ScanFailed({ reason: "more bytes than announced" })) : Effect.void
        })
        if (seen < sizeBytes) return yield* new ScanFailed({ reason: "fewer bytes than announced" })
        const sha256 = hash.digest("hex")
        scanned.push(sha256)
        return yield* conclude(answers.get(sha256) ?? queue.shift() ?? { _tag: "Clean" })
      })
    })
    const script = ScannerScript.of({
      answer: (sha256, outcome) => Effect.sync(() => void answers.set(sha256, outcome)),
      next: (...outcomes) => Effect.sync(() => void queue.push(...outcomes)),
      scanned: Effect.sync(() => [...scanned])
    })
    return Context.make(Scanner, scanner).pipe(Context.add(ScannerScript, script))
  })
)
