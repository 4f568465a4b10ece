/**
 * Randomness, digests and secrets: all that the core cannot do in plain
 * language. Secrets come and go as `Redacted`, so that no log prints them.
 *
 * An adapter
 * - draws every byte and id from a cryptographic source (or, where it says so,
 *   from a seeded one, for simulations);
 * - runs at most as many Argon2id hashes at a time as there are processors,
 *   queues a bounded number more, and fails with `CryptoBusy` beyond that;
 * - seals with AES-256-GCM under a fresh 96-bit IV and the newest key of its
 *   ring, and opens what any key of the ring sealed;
 * - opens with `SealBroken` where its keys lie elsewhere and cannot be asked:
 *   jobs wait for them, while a defect counts against the job.
 */
import { Context, Data, type Effect, type Redacted } from "effect"
import type { FreshId } from "../model/Ids.ts"
import type { SealedSecret } from "../model/SealedSecret.ts"

/** A key pair. */
export interface GeneratedKey {
  /** SubjectPublicKeyInfo, DER in base64. */
  readonly publicKey: string
  /** PKCS #8 in PEM. */
  readonly privateKey: Redacted.Redacted<string>
}

/** Too many hashes wait already. */
export class CryptoBusy extends Data.TaggedError("CryptoBusy")<{}> {
  override readonly message = "too many key verifications are under way"
}

/**
 * The sealed secret was altered, moved to another row, or sealed by a key that is not in the ring, or cannot be asked.
 * `version` is the one that it says it was sealed by, for whoever looks for that key.
 */
export class SealBroken extends Data.TaggedError("SealBroken")<{ readonly version: number }> {
  override get message(): string {
    return `the secret that key ${this.version} sealed cannot be opened`
  }
}

export class Crypto extends Context.Service<
  Crypto,
  {
    /** A UUID, version 7: sorted by time, and strictly rising within a process. */
    readonly uuid: Effect.Effect<FreshId>
    readonly randomBytes: (count: number) => Effect.Effect<Uint8Array>
    /** SHA-256 of a text's UTF-8 bytes, 64 lower-case hex digits. */
    readonly digest: (text: string) => Effect.Effect<string>
    /** Argon2id (19 MiB, t = 2, p = 1), in PHC string format. */
    readonly hashSecret: (secret: Redacted.Redacted<string>) => Effect.Effect<string, CryptoBusy>
    readonly verifySecret: (secret: Redacted.Redacted<string>, hash: string) => Effect.Effect<boolean, CryptoBusy>
    /** A short text that stands for (secret, hash) within this process: the keyed hash by which a verified secret is known again. */
    readonly proof: (secret: Redacted.Redacted<string>, hash: string) => Effect.Effect<string>
    /** Binds the secret to `context` (tenant and endpoint, tenant and domain): opened elsewhere, it fails. */
    readonly seal: (secret: Redacted.Redacted<string>, context: string) => Effect.Effect<SealedSecret>
    readonly open: (sealed: SealedSecret, context: string) => Effect.Effect<Redacted.Redacted<string>, SealBroken>
    /** HMAC-SHA256 under the secret's UTF-8 bytes, 64 lower-case hex digits (Spec 6, Signature). */
    readonly sign: (secret: Redacted.Redacted<string>, bytes: Uint8Array) => Effect.Effect<string>
    /** HMAC-SHA256 under a key derived for a purpose from the oldest key of the ring, in hex: for addresses and cursors that must find their way back to us. */
    readonly mac: (purpose: string, text: string) => Effect.Effect<string>
    /** A fresh RSA key of 2048 bits, made while others go on: what DKIM verifiers all know (RFC 8301). */
    readonly generateDkimKey: Effect.Effect<GeneratedKey>
  }
>()("mailroom/core/ports/Crypto") {}
