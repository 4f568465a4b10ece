/**
 * Hands a finished message to whoever delivers it, and can be asked what
 * became of it.
 *
 * An adapter
 * - submits the bytes as they come, to the recipients of the envelope and to
 *   nobody else, and reads nothing of the recipients from the headers;
 * - does not retry, and does not judge: it reports each reply, and the core
 *   decides what is transient (`Reply.classify`);
 * - reports a refusal of the whole submission as `SubmissionRefused`, and
 *   anything that leaves the outcome unknown (a lost connection, a timeout) as
 *   `MailProviderUnavailable`;
 * - asks `isWanted` where a message waits for its turn, before it says anything
 *   of it to anybody, and over SMTP again before its first byte;
 * - has tenants take turns where messages wait, each one's in their order: a
 *   tenant's thousand do not go before another's one;
 * - ends at once when it is interrupted, and sends no bytes to their end that
 *   it has not read to their end;
 * - may be called concurrently, and twice for one message after a crash, with
 *   the same Message-ID and bytes;
 * - keeps its own deadlines, which are shorter than the core's: a submission
 *   that has not answered after ten minutes, or a poll after one, is
 *   interrupted and counts as `MailProviderUnavailable`. What does not listen
 *   to interruption is waited for, and holds up its message.
 */
import { Context, Data, type Effect, type Redacted, type Stream } from "effect"
import type { Address, DomainName } from "../model/Address.ts"
import type { Envelope } from "../model/Envelope.ts"
import type { MessageId, Millis, Realm } from "../model/Ids.ts"
import type { Submission } from "../model/Message.ts"
import type { Notification } from "../model/Notification.ts"
import type { Reply } from "../model/Reply.ts"
import type { BlobCorrupt, BlobMissing, BlobUnavailable } from "./BlobStore.ts"

/** Nobody's mail was taken, with this reply. */
export class SubmissionRefused extends Data.TaggedError("SubmissionRefused")<{ readonly reply: Reply }> {
  override readonly message = "the provider refused the submission"
}

/** It is not known whether anybody's mail was taken. */
export class MailProviderUnavailable extends Data.TaggedError("MailProviderUnavailable")<{ readonly cause: unknown }> {
  override readonly message = "the mail provider is unavailable"
}

/** A DKIM key, opened. */
export interface DkimKey {
  readonly domain: DomainName
  readonly selector: string
  /** RSA, PKCS #8 in PEM. */
  readonly privateKey: Redacted.Redacted<string>
}

export interface SubmitRequest {
  readonly realm: Realm
  readonly messageId: MessageId
  readonly envelope: Envelope
  readonly sizeBytes: number
  /**
   * The key that signs mail of this sender's domain, for whoever signs it himself; null where none was seen in DNS. The
   * same object for as long as the key is the same, so that what is made of it may be kept beside it.
   */
  readonly dkim: DkimKey | null
  /** The whole message; may be read more than once, the same bytes each time. */
  readonly mime: Stream.Stream<Uint8Array, BlobUnavailable | BlobMissing | BlobCorrupt>
  /**
   * Asked once a message's turn has come, by whoever lets it wait for one. False: its process is about to end, and would not
   * hear what became of it, or another may have it by now. Then it ends as `MailProviderUnavailable`, and nothing of it is said
   * to anybody. Who makes several calls of one submission asks before each, and tells those whom the next would have mailed to
   * come again. Over SMTP it is asked once more when the server asks for the bytes, and of one that is wanted no more none go out.
   */
  readonly isWanted: () => boolean
}

export interface SubmitResult {
  /** Short: at most `providerMessageIdMax` characters. What is said later of a longer name is passed over. */
  readonly providerMessageId: string
  /** One reply for each recipient of the envelope: who has none is mailed again. No list at all counts as everybody being taken. */
  readonly replies: ReadonlyArray<{ readonly recipient: Address; readonly reply: Reply }>
  /** When to ask for outcomes; null for a provider that notifies by itself. */
  readonly pollAt: Millis | null
}

export interface MailProvider {
  /** Short and stable: stored with each submission, shown in `message.sent`. */
  readonly name: string
  /** One try, with a reply for each recipient. Fails as a blob does if the bytes cannot be read, and then has sent none to their end. */
  readonly submit: (
    request: SubmitRequest
  ) => Effect.Effect<SubmitResult, SubmissionRefused | MailProviderUnavailable | BlobUnavailable | BlobMissing | BlobCorrupt>
  /**
   * All that is known of a submission by now, said as often as it is asked, and when to ask next (null: never). A time that
   * was past when it was asked is none: it is asked as if it had not answered, ever less often and for 48 hours.
   */
  readonly poll: (
    submission: Submission
  ) => Effect.Effect<
    { readonly notifications: ReadonlyArray<Notification>; readonly pollAt: Millis | null },
    MailProviderUnavailable
  >
}

/** The provider of each environment. Sandbox mail goes to the sandbox's and never to the other; null: production mail waits. */
export class MailProviders extends Context.Service<
  MailProviders,
  { readonly sandbox: MailProvider; readonly production: MailProvider | null }
>()("mailroom/core/ports/MailProviders") {}
