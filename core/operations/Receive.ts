/**
 * Takes mail in: what an SMTP or LMTP listener asks of the core. Nothing is
 * acknowledged before its commit, and no mail is ever relayed.
 */
import { Context, Data, type Effect, type Stream } from "effect"
import type { Peer } from "../model/Reception.ts"
import type { BlobUnavailable } from "../ports/BlobStore.ts"
import type { StoreUnavailable } from "../ports/Store.ts"

/** A refusal, as it is said on the wire: code, enhanced status code and text; 4xx where trying again may help. */
export class ReceiveRefused extends Data.TaggedError("ReceiveRefused")<{
  readonly code: number
  readonly enhancedCode: string
  readonly text: string
}> {
  override get message(): string {
    return `${this.code} ${this.enhancedCode} ${this.text}`
  }
}

export class Receive extends Context.Service<
  Receive,
  {
    /**
     * Whether mail to this RCPT TO is taken: a mailbox of a domain that receives, with or without a `+tag`; the domain's
     * catch-all; or the signed Return-Path of a message of ours. Else refused: 550 5.1.1 unknown mailbox, 550 5.7.1 a domain
     * that is not ours (no relay), 550 5.2.1 suspended, 553 5.1.3 not an address that we read.
     */
    readonly recipient: (address: string) => Effect.Effect<void, ReceiveRefused | StoreUnavailable>
    /**
     * Takes a message: stores its bytes as they come, authenticates its sender, and commits a row for each mailbox (one,
     * where several recipients lead to one mailbox). When it succeeds, every recipient has its message; when it fails, nobody
     * has. Refused: 550 5.7.1 by the sender's DMARC policy or as spam, 554 5.4.6 a loop, and what `recipient` refuses.
     */
    readonly accept: <E>(message: {
      readonly peer: Peer
      readonly returnPath: string | null
      /** Each as given in RCPT TO; at least one. */
      readonly recipients: ReadonlyArray<string>
      /** The message with CRLF line ends, transparency undone; read once. */
      readonly bytes: Stream.Stream<Uint8Array, E>
    }) => Effect.Effect<void, E | ReceiveRefused | StoreUnavailable | BlobUnavailable>
  }
>()("mailroom/core/operations/Receive") {}
