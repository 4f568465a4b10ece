/**
 * Turns of a provider that holds each message whole while it submits it: before it has one, nothing of its message is read.
 * Of large messages so many less have theirs at a time, so that a process's memory does not depend on what waits. They go
 * round the tenants.
 */
import { Effect } from "effect"
import * as Limits from "./model/Limits.ts"
import { MailProviderUnavailable, type SubmitRequest } from "./ports/MailProvider.ts"
import { places } from "./TenantLine.ts"

/** How many submissions at a time, of messages up to `Limits.largeMessageBytes` and beyond. */
export interface TurnsMax {
  readonly small: number
  readonly large: number
}

/** Has each submission wait for its turn, and asks once it has come whether it is wanted still (`SubmitRequest.isWanted`). */
export const make = (most: TurnsMax) => {
  const turns = { small: places(most.small), large: places(most.large) }
  return <A, E, R>(request: SubmitRequest, submit: Effect.Effect<A, E, R>) => {
    const { take, release } = turns[request.sizeBytes > Limits.largeMessageBytes ? "large" : "small"]
    return Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(take(request, restore), (hasTurn): Effect.Effect<A, E | MailProviderUnavailable, R> =>
        hasTurn ? Effect.ensuring(restore(submit), release) : Effect.fail(wantedNoMore())
      )
    )
  }
}

const wantedNoMore = () => new MailProviderUnavailable({ cause: new Error("it was wanted no more while it waited") })
