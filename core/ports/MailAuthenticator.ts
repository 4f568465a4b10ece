/**
 * Finds out whether a message comes from whom it says: SPF, DKIM, DMARC, ARC.
 *
 * An adapter
 * - reports what it finds and judges nothing: what a result means for the
 *   message is the core's to say;
 * - says whose domain it asked about: the core lets nobody pass but the author
 *   whom the message shows;
 * - answers within 10 s whatever the DNS does (`temperror` where it cannot
 *   tell), and looks up a bounded number of names for one message;
 * - reads the bytes as they come, and holds up the event loop for no longer than
 *   50 ms at a time. The core waits for 30 s, and then does without.
 */
import { Context, type Effect, type Stream } from "effect"
import type { Examined, Peer } from "../model/Reception.ts"

export class MailAuthenticator extends Context.Service<
  MailAuthenticator,
  {
    /** `returnPath` is null for the empty reverse-path (`<>`). Fails only as the bytes do, if they cannot be read. */
    readonly authenticate: <E>(message: {
      readonly peer: Peer
      readonly returnPath: string | null
      readonly bytes: Stream.Stream<Uint8Array, E>
    }) => Effect.Effect<Examined, E>
  }
>()("mailroom/core/ports/MailAuthenticator") {}
