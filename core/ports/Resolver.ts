/**
 * Looks names up in DNS.
 *
 * An adapter
 * - answers with what the DNS says, every time: it caches nothing beyond a
 *   record's life, and judges no address;
 * - can be interrupted, and leaves no thread waiting.
 */
import { Context, Data, type Effect } from "effect"

/** The name has nothing of what was asked for, or nobody could say. */
export class ResolutionFailed extends Data.TaggedError("ResolutionFailed")<{
  readonly reason: "not_found" | "unavailable"
  readonly cause?: unknown
}> {
  override get message(): string {
    return this.reason === "not_found" ? "the name has no such record" : "the name could not be looked up"
  }
}

export class Resolver extends Context.Service<
  Resolver,
  {
    /** All IPv4 and IPv6 addresses of a host name in A-label form, at least one; IPv6 without a zone. */
    readonly addresses: (host: string) => Effect.Effect<ReadonlyArray<string>, ResolutionFailed>
    /** The TXT records of a name, at least one, in no order; the strings of each joined. Labels may begin with an underscore. */
    readonly txt: (name: string) => Effect.Effect<ReadonlyArray<string>, ResolutionFailed>
    /** The MX records of a name, at least one, in no order. The exchange of a null MX is the empty text. */
    readonly mx: (
      name: string
    ) => Effect.Effect<ReadonlyArray<{ readonly preference: number; readonly exchange: string }>, ResolutionFailed>
    /** What a name is an alias of. */
    readonly cname: (name: string) => Effect.Effect<string, ResolutionFailed>
  }
>()("mailroom/core/ports/Resolver") {}
