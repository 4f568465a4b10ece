/**
 * An authenticator that says what it is told to: for tests, which reach its
 * script through `MailAuthenticatorScript`. Untold, it finds nothing of anybody.
 */
import { Context, Effect, Layer, Stream } from "effect"
import { createHash } from "node:crypto"
import type { Examined, Peer } from "../../core/model/Reception.ts"
import { MailAuthenticator } from "../../core/ports/MailAuthenticator.ts"

export interface Asked {
  readonly peer: Peer
  readonly returnPath: string | null
  readonly sha256: string
}

export class MailAuthenticatorScript extends Context.Service<
  MailAuthenticatorScript,
  {
    /** What is found of these bytes from now on. */
    readonly answer: (sha256: string, found: Partial<Examined>) => Effect.Effect<void>
    /** What is found of all others from now on. */
    readonly otherwise: (found: Partial<Examined>) => Effect.Effect<void>
    /** What was asked and read to its end, in order. */
    readonly asked: Effect.Effect<ReadonlyArray<Asked>>
  }
>()("mailroom/adapters/memory/MailAuthenticatorScript") {}

const nothing: Examined = { spf: "none", dkim: "none", dmarc: "none", arc: "none", dmarcPolicy: null, author: null }

export const layer: Layer.Layer<MailAuthenticator | MailAuthenticatorScript> = Layer.effectContext(
  Effect.sync(() => {
    const answers = new Map<string, Examined>()
    const asked: Array<Asked> = []
    let other = nothing

    const authenticator = MailAuthenticator.of({
      authenticate: Effect.fnUntraced(function* ({ peer, returnPath, bytes }) {
        const hash = createHash("sha256")
        yield* Stream.runForEach(bytes, (piece) => Effect.sync(() => void hash.update(piece)))
        const sha256 = hash.digest("hex")
        asked.push({ peer, returnPath, sha256 })
        return answers.get(sha256) ?? other
      })
    })
    const script = MailAuthenticatorScript.of({
      answer: (sha256, found) => Effect.sync(() => void answers.set(sha256, { ...nothing, ...found })),
      otherwise: (found) => Effect.sync(() => void (other = { ...nothing, ...found })),
      asked: Effect.sync(() => [...asked])
    })
    return Context.make(MailAuthenticator, authenticator).pipe(Context.add(MailAuthenticatorScript, script))
  })
)
