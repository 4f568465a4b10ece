/**
 * Judges inbound mail. `spam` goes to that folder; `refuse` is not taken at all.
 *
 * An adapter answers within 10 s, and says `SpamFilterUnavailable` when it
 * cannot tell: the mail is then taken as if there were no filter. The core
 * waits for 30 s, and then does without.
 */
import { Context, Data, type Effect, type Stream } from "effect"
import type { Peer } from "../model/Reception.ts"

/** There is no verdict. */
export class SpamFilterUnavailable extends Data.TaggedError("SpamFilterUnavailable")<{ readonly cause: unknown }> {
  override readonly message = "the spam filter is unavailable"
}

export class SpamFilter extends Context.Service<
  SpamFilter,
  {
    /** `returnPath` is null for the empty reverse-path (`<>`). Fails as the bytes do, if they cannot be read. */
    readonly judge: <E>(message: {
      readonly peer: Peer
      readonly returnPath: string | null
      readonly recipients: ReadonlyArray<string>
      readonly bytes: Stream.Stream<Uint8Array, E>
    }) => Effect.Effect<"ham" | "spam" | "refuse", E | SpamFilterUnavailable>
  }
>()("mailroom/core/ports/SpamFilter") {}
