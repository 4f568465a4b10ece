/**
 * Takes in what a provider posts to us about its submissions, over HTTP.
 *
 * An adapter
 * - finds out first whether the request comes from the provider and speaks of
 *   the operator's account, and looks deeper only then; what fails is refused,
 *   and leaves no trace but the refusal;
 * - translates, and decides nothing: what a notification changes is the core's
 *   to say, and saying it again changes nothing;
 * - names each request by what the provider names it by, so that one that is
 *   sent again is known again;
 * - takes a kind that it does not know for one that says nothing, because
 *   providers invent kinds, and repeat what is refused;
 * - reaches nothing but through a transport that vets where it goes, and names
 *   no secret and no payload in its errors;
 * - may be called concurrently.
 */
import { Context, Data, type Effect } from "effect"
import type { Notification } from "../model/Notification.ts"

/** Bytes of a body that are taken: 256 KiB. */
export const intakeBytesMax = 256 * 1024
/** Characters of what a provider names a request by, and of the kind that it says it is. */
export const intakeIdLengthMax = 200
export const intakeKindLengthMax = 64

export interface IntakeRequest {
  /** Names in lower case; of a repeated one, the values joined by commas. */
  readonly headers: Readonly<Record<string, string | undefined>>
  /** At most `intakeBytesMax` bytes. */
  readonly body: Uint8Array
}

/** What an authentic request says. */
export interface Intake {
  /** At most `intakeIdLengthMax` characters. */
  readonly id: string
  /** In the provider's words, at most `intakeKindLengthMax` characters. */
  readonly kind: string
  /** None, if it says nothing about a submission. */
  readonly notifications: ReadonlyArray<Notification>
}

/**
 * The request is not believed. `bad_signature`: it does not prove who sent it. `wrong_account`: it speaks of an account
 * that is not the operator's. `stale`: it is authentic, and older than anything that still matters. `malformed`: it is
 * nothing that the provider sends.
 */
export class IntakeRefused extends Data.TaggedError("IntakeRefused")<{
  readonly reason: "bad_signature" | "wrong_account" | "malformed" | "stale"
}> {
  override get message(): string {
    return `the notification is refused: ${this.reason}`
  }
}

/** Whether it is authentic cannot be told now; the provider may send it again. */
export class IntakeUnavailable extends Data.TaggedError("IntakeUnavailable")<{ readonly cause: unknown }> {
  override readonly message = "the notification cannot be verified now"
}

export interface NotificationIntake {
  /** As in `MailProvider`; part of the path at which it is reached. */
  readonly name: string
  /** What a request says, once it is believed. */
  readonly receive: (request: IntakeRequest) => Effect.Effect<Intake, IntakeRefused | IntakeUnavailable>
}

/** The intakes of this process; none, unless it is given some. */
export const NotificationIntakes = Context.Reference<ReadonlyArray<NotificationIntake>>("mailroom/core/ports/NotificationIntakes", {
  defaultValue: () => []
})
