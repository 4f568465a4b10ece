/**
 * A spam filter that says what it is told to: for tests, which reach its
 * script through `SpamFilterScript`. Untold, it calls everything ham.
 */
import { Context, Effect, Layer, Stream } from "effect"
import { createHash } from "node:crypto"
import type { Peer } from "../../core/model/Reception.ts"
import { SpamFilter, SpamFilterUnavailable } from "../../core/ports/SpamFilter.ts"

export type Verdict = "ham" | "spam" | "refuse" | "unavailable"

export interface Judged {
  readonly peer: Peer
  readonly returnPath: string | null
  readonly recipients: ReadonlyArray<string>
  readonly sha256: string
}

export class SpamFilterScript extends Context.Service<
  SpamFilterScript,
  {
    /** What is said of these bytes from now on. */
    readonly answer: (sha256: string, verdict: Verdict) => Effect.Effect<void>
    /** What is said of all others from now on. */
    readonly otherwise: (verdict: Verdict) => Effect.Effect<void>
    /** What was read to its end, in order. */
    readonly judged: Effect.Effect<ReadonlyArray<Judged>>
  }
>()("mailroom/adapters/memory/SpamFilterScript") {}

export const layer: Layer.Layer<SpamFilter | SpamFilterScript> = Layer.effectContext(
  Effect.sync(() => {
    const answers = new Map<string, Verdict>()
    const judged: Array<Judged> = []
    let other: Verdict = "ham"

    const filter = SpamFilter.of({
      judge: Effect.fnUntraced(function* ({ peer, returnPath, recipients, bytes }) {
        const hash = createHash("sha256")
        yield* Stream.runForEach(bytes, (piece) => Effect.sync(() => void hash.update(piece)))
        const sha256 = hash.digest("hex")
        judged.push({ peer, returnPath, recipients, sha256 })
        const verdict = answers.get(sha256) ?? other
        return verdict === "unavailable" ? yield* new SpamFilterUnavailable({ cause: "as told" }) : verdict
      })
    })
    const script = SpamFilterScript.of({
      answer: (sha256, verdict) => Effect.sync(() => void answers.set(sha256, verdict)),
      otherwise: (verdict) => Effect.sync(() => void (other = verdict)),
      judged: Effect.sync(() => [...judged])
    })
    return Context.make(SpamFilter, filter).pipe(Context.add(SpamFilterScript, script))
  })
)
