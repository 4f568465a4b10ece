/**
 * A mail provider that delivers nothing and remembers everything: for tests,
 * which look at what arrived and tell it how to answer through its `Recording`.
 * Untold, it accepts every recipient and knows nothing more.
 */
import { Clock, Context, Effect, Layer, Stream } from "effect"
import * as Addresses from "../../core/model/Address.ts"
import type { Address } from "../../core/model/Address.ts"
import type { Millis } from "../../core/model/Ids.ts"
import type { Notification } from "../../core/model/Notification.ts"
import type { Reply } from "../../core/model/Reply.ts"
import {
  MailProviders,
  MailProviderUnavailable,
  SubmissionRefused,
  type MailProvider,
  type SubmitRequest
} from "../../core/ports/MailProvider.ts"

/** A submission that the provider took, whatever its caller was told. */
export interface Recorded extends Omit<SubmitRequest, "mime"> {
  readonly providerMessageId: string
  readonly bytes: Uint8Array
  readonly at: Millis
}

/** How a submission, or a poll, ends. */
export type Ending =
  /** Each recipient gets its reply. */
  | { readonly _tag: "Accepted" }
  /** Refused as a whole, unread. */
  | { readonly _tag: "Refused"; readonly reply: Reply }
  /** Out of reach: nothing is taken. */
  | { readonly _tag: "Unavailable"; readonly cause?: unknown }
  /** Taken, and then the connection is lost. */
  | { readonly _tag: "Lost"; readonly cause?: unknown }
  /** Taken, and then no answer at all. */
  | { readonly _tag: "Hangs" }

export interface Recording {
  readonly submissions: Effect.Effect<ReadonlyArray<Recorded>>
  /** How the next submissions end, one after the other; later ones are accepted. */
  readonly next: (...endings: ReadonlyArray<Ending>) => Effect.Effect<void>
  /** What this recipient (case folded) is answered, one after the other; the last answer stays. */
  readonly reply: (recipient: Address, ...replies: readonly [Reply, ...ReadonlyArray<Reply>]) => Effect.Effect<void>
  /** What polls say from now on, of the submissions that the notifications name. */
  readonly notify: (...notifications: ReadonlyArray<Notification>) => Effect.Effect<void>
  /** After how long it wants to be polled, each time; null, as it begins: never. */
  readonly pollEvery: (wait: Millis | null) => Effect.Effect<void>
  /** So many polls from now on find it out of reach. */
  readonly failPolls: (count: number) => Effect.Effect<void>
}

/** The recordings of both providers of `layer`. */
export class MailRecord extends Context.Service<MailRecord, { readonly sandbox: Recording; readonly production: Recording }>()(
  "mailroom/adapters/memory/MailRecord"
) {}

export const make = (name: string): { readonly provider: MailProvider; readonly recording: Recording } => {
  const submissions: Array<Recorded> = []
  const endings: Array<Ending> = []
  const replies = new Map<string, ReadonlyArray<Reply>>()
  const notifications: Array<Notification> = []
  let wait: Millis | null = null
  let pollsToFail = 0

  const replyTo = (recipient: Address): Reply => {
    const [first = accepted, ...rest] = replies.get(Addresses.foldCase(recipient)) ?? []
    if (rest.length > 0) replies.set(Addresses.foldCase(recipient), rest)
    return first
  }

  const nextPollAt = Effect.map(Clock.currentTimeMillis, (now) => (wait === null ? null : now + wait))

  const submit: MailProvider["submit"] = Effect.fnUntraced(function* ({ mime, ...request }) {
    const ending = endings.shift() ?? { _tag: "Accepted" }
    if (ending._tag === "Refused") return yield* new SubmissionRefused({ reply: ending.reply })
    if (ending._tag === "Unavailable") return yield* new MailProviderUnavailable({ cause: ending.cause })
    const bytes = yield* Stream.mkUint8Array(mime)
    const providerMessageId = `${name}-${submissions.length + 1}`
    submissions.push({ ...request, providerMessageId, bytes, at: yield* Clock.currentTimeMillis })
    if (ending._tag === "Lost") return yield* new MailProviderUnavailable({ cause: ending.cause })
    if (ending._tag === "Hangs") return yield* Effect.never
    return {
      providerMessageId,
      replies: request.envelope.recipients.map((recipient) => ({ recipient, reply: replyTo(recipient) })),
      pollAt: yield* nextPollAt
    }
  })

  const poll: MailProvider["poll"] = Effect.fnUntraced(function* ({ providerMessageId }) {
    if (pollsToFail > 0) {
      pollsToFail -= 1
      return yield* new MailProviderUnavailable({ cause: new Error("scripted") })
    }
    return {
      notifications: notifications.filter((one) => one.provider === name && one.providerMessageId === providerMessageId),
      pollAt: yield* nextPollAt
    }
  })

  const told = (change: () => void): Effect.Effect<void> => Effect.sync(change)
  return {
    provider: { name, submit, poll },
    recording: {
      submissions: Effect.sync(() => [...submissions]),
      next: (...more) => told(() => endings.push(...more)),
      reply: (recipient, ...answers) => told(() => replies.set(Addresses.foldCase(recipient), answers)),
      notify: (...more) => told(() => notifications.push(...more)),
      pollEvery: (every) =>
        told(() => {
          wait = every
        }),
      failPolls: (count) =>
        told(() => {
          pollsToFail = count
        })
    }
  }
}

/** A provider of each environment, and the record of both. */
export const layer: Layer.Layer<MailProviders | MailRecord> = Layer.effectContext(
  Effect.sync(() => {
    const [sandbox, production] = [make("memory-sandbox"), make("memory-production")]
    return Context.make(MailProviders, { sandbox: sandbox.provider, production: production.provider }).pipe(
      Context.add(MailRecord, { sandbox: sandbox.recording, production: production.recording })
    )
  })
)

const accepted: Reply = { smtpCode: 250, enhancedCode: "2.0.0", text: "Ok" }
