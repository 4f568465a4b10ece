/**
 * Looks for malware in bytes.
 *
 * An adapter answers `Clean` only when it has seen every byte and its engine
 * said so; over a limit, out of time, an unclear answer, an archive it could
 * not open: each is `ScanFailed`.
 */
import { Context, Data, type Effect, type Stream } from "effect"

export type Verdict = { readonly _tag: "Clean" } | { readonly _tag: "Infected"; readonly signature: string }

/** No verdict. `reason` is for the operator's log. */
export class ScanFailed extends Data.TaggedError("ScanFailed")<{ readonly reason: string; readonly cause?: unknown }> {
  override get message(): string {
    return `no scan verdict: ${this.reason}`
  }
}

export class Scanner extends Context.Service<
  Scanner,
  {
    /** Fails as the bytes do, if they cannot be read. `sizeBytes`: how many they are. */
    readonly scan: <E>(bytes: Stream.Stream<Uint8Array, E>, sizeBytes: number) => Effect.Effect<Verdict, E | ScanFailed>
  }
>()("mailroom/core/ports/Scanner") {}
