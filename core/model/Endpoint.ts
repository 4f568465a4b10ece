/**
 * A webhook endpoint and its breaker (Spec 3, Webhook endpoint): the breaker
 * counts failed attempts since the last success, and the one that makes ten
 * disables the endpoint. A success that arrives after that resets the counter only.
 * An operator may disable one too, and only an operator enables it again.
 */
import { Result, Schema } from "effect"
import type { LoggedEvent, Type } from "./Event.ts"
import { ApplicationId, EndpointId, type Environment, type Millis, type TenantId } from "./Ids.ts"
import { consecutiveFailuresMax } from "./Limits.ts"
import { next, type IllegalTransition, type Table } from "./Machine.ts"
import type { SealedSecret } from "./SealedSecret.ts"
import * as Timestamp from "./Timestamp.ts"

export type State = "enabled" | "disabled"

export type Input =
  | { readonly _tag: "Succeeded"; readonly at: Millis }
  | { readonly _tag: "Failed"; readonly at: Millis }
  | { readonly _tag: "FailedOften"; readonly at: Millis }
  | { readonly _tag: "Disabled"; readonly at: Millis }
  | { readonly _tag: "Enabled"; readonly at: Millis }

export const transitions = {
  enabled: {
    Succeeded: { to: "enabled" },
    Failed: { to: "enabled" },
    FailedOften: { to: "disabled" },
    Disabled: { to: "disabled" }
  },
  disabled: {
    Succeeded: { to: "disabled" }, // an attempt that was in flight
    Failed: { to: "disabled" },
    Enabled: { to: "enabled" }
  }
} as const satisfies Table<State, Input["_tag"]>

/** Where an endpoint's turns stand in its shard's log: each time the last position before it. The store sets them. */
export interface Positions<Position = bigint> {
  readonly createdAfter: Position
  /** Where it was disabled last; as `createdAfter` if it never was. */
  readonly disabledAfter: Position
  /** Where it was enabled last, or created. */
  readonly enabledAfter: Position
}

/** What the machine itself needs to know of an endpoint. */
export interface Breaker {
  readonly enabled: boolean
  readonly consecutiveFailures: number
  readonly disabledAt: Millis | null
}

export interface Endpoint extends Breaker {
  readonly id: EndpointId
  readonly tenantId: TenantId
  readonly environment: Environment
  readonly applicationId: ApplicationId
  readonly version: number
  /** As the WHATWG parser serialises it. */
  readonly url: string
  readonly description: string | null
  /** `*` stands for all types, also those to come. */
  readonly eventTypes: ReadonlyArray<Type | "*">
  /** Of the bodies it gets. */
  readonly apiVersion: string
  /** Signs its deliveries; opened in the worker's memory only. */
  readonly secret: SealedSecret
  /** Signs them instead from this time on: it was told before, so that the receiver knows it by then. Null: none was made. */
  readonly nextSecret: { readonly secret: SealedSecret; readonly from: Millis } | null
  /** An attempt ended in a timeout, and it has not answered since: one delivery at a time. */
  readonly isSlow: boolean
  readonly positions: Positions
  readonly createdAt: Millis
}

export interface Decision {
  readonly from: State
  readonly to: State
  readonly input: Input
}

/** The breaker of an endpoint that has failed at nothing. Closed as a circuit is: deliveries pass. */
export const closed: Breaker = { enabled: true, consecutiveFailures: 0, disabledAt: null }

/** The machine's state of a breaker. */
export const state = (breaker: Breaker): State => (breaker.enabled ? "enabled" : "disabled")

/** What a secret is sealed to: opened for another tenant or endpoint, it fails. */
export const sealContext = ({ tenantId, id }: Pick<Endpoint, "tenantId" | "id">): string => `webhook-endpoint ${tenantId} ${id}`

/** The secret that signs what is sent at this time. */
export const signingSecret = ({ secret, nextSecret }: Pick<Endpoint, "secret" | "nextSecret">, at: Millis): SealedSecret =>
  nextSecret !== null && nextSecret.from <= at ? nextSecret.secret : secret

/** Its secret replaced, from this time on, by the one given. One that was to come, and has not, never will. */
export const rotated = (endpoint: Endpoint, secret: SealedSecret, now: Millis, from: Millis): Endpoint => ({
  ...endpoint,
  version: endpoint.version + 1,
  ...(from <= now ? { secret, nextSecret: null } : { secret: signingSecret(endpoint, now), nextSecret: { secret, from } })
})

/** All that it has. */
export const secretsOf = ({ secret, nextSecret }: Pick<Endpoint, "secret" | "nextSecret">): ReadonlyArray<SealedSecret> =>
  nextSecret === null ? [secret] : [secret, nextSecret.secret]

/** The oldest sealing key that one of its secrets needs. */
export const sealVersion = (endpoint: Pick<Endpoint, "secret" | "nextSecret">): number =>
  Math.min(...secretsOf(endpoint).map(({ version }) => version))

/** Of an endpoint that no store has set them of. */
export const unsetPositions: Positions = { createdAfter: 0n, disabledAfter: 0n, enabledAfter: 0n }

/**
 * Its positions once a store has written it where its shard's log ends at `end`; `before` is what it was, null for an insert.
 * Only where it turns from enabled to disabled, or back, does an update move one of them.
 */
export const positionsAt = <Position>(
  before: { readonly enabled: boolean; readonly positions: Positions<Position> } | null,
  { enabled }: Pick<Endpoint, "enabled">,
  end: () => Position
): Positions<Position> => {
  if (before === null) {
    const here = end()
    return { createdAfter: here, disabledAfter: here, enabledAfter: here }
  }
  if (enabled === before.enabled) return before.positions
  return { ...before.positions, [enabled ? "enabledAfter" : "disabledAfter"]: end() }
}

/**
 * Whether an endpoint that is enabled was so, and there, when the event at this position was appended. It knows where it was
 * disabled last alone: what happened while it was disabled before that, and is fanned out only now, passes for its own.
 */
const wasEnabledAt = (position: bigint, { createdAfter, disabledAfter, enabledAfter }: Positions): boolean =>
  position > createdAfter && (position <= disabledAfter || position > enabledAfter)

/** Whether an event is this endpoint's to get, when it is fanned out (docs/decisions/0013). */
export const subscribes = (endpoint: Endpoint, event: LoggedEvent): boolean =>
  endpoint.enabled &&
  endpoint.tenantId === event.tenantId &&
  wasEnabledAt(event.position, endpoint.positions) &&
  (event.environment === null || event.environment === endpoint.environment) &&
  (event.audience === null || event.audience === endpoint.applicationId) &&
  endpoint.eventTypes.some((type) => type === "*" || type === event.type)

/** The Webhook endpoint resource (Spec 2; closed). The secret is no member of it. */
export const View = Schema.Struct({
  id: EndpointId,
  appId: ApplicationId,
  url: Schema.String.annotate({ format: "uri" }),
  description: Schema.NullOr(Schema.String),
  eventTypes: Schema.Array(Schema.String),
  enabled: Schema.Boolean,
  consecutiveFailures: Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)),
  disabledAt: Schema.NullOr(Schema.String.annotate({ format: "date-time" })),
  createdAt: Schema.String.annotate({ format: "date-time" })
})

/** An endpoint as the API shows it. */
export const view = (endpoint: Endpoint): typeof View.Type => ({
  id: endpoint.id,
  appId: endpoint.applicationId,
  url: endpoint.url,
  description: endpoint.description,
  eventTypes: endpoint.eventTypes,
  enabled: endpoint.enabled,
  consecutiveFailures: endpoint.consecutiveFailures,
  disabledAt: Timestamp.fromMillisOrNull(endpoint.disabledAt),
  createdAt: Timestamp.fromMillis(endpoint.createdAt)
})

/** The input that a failed attempt amounts to. */
export const afterFailure = (breaker: Breaker, at: Millis): Input =>
  breaker.enabled && breaker.consecutiveFailures + 1 >= consecutiveFailuresMax
    ? { _tag: "FailedOften", at }
    : { _tag: "Failed", at }

/** What this input would do to this endpoint. Changes nothing. */
export const decide = (breaker: Breaker, input: Input): Result.Result<Decision, IllegalTransition> =>
  Result.map(next<State, Input["_tag"], never>("endpoint", transitions, state(breaker), input._tag), (cell) => ({
    from: state(breaker),
    to: cell.to,
    input
  }))

/** The breaker after a decision. */
export const apply = <B extends Breaker>(breaker: B, decision: Decision): B => {
  switch (decision.input._tag) {
    case "Succeeded":
      return { ...breaker, consecutiveFailures: 0 }
    case "Failed":
      return { ...breaker, consecutiveFailures: breaker.consecutiveFailures + 1 }
    case "FailedOften":
      return { ...breaker, enabled: false, consecutiveFailures: breaker.consecutiveFailures + 1, disabledAt: decision.input.at }
    case "Disabled":
      return { ...breaker, enabled: false, disabledAt: decision.input.at }
    case "Enabled":
      return { ...breaker, enabled: true, consecutiveFailures: 0, disabledAt: null }
  }
}
