/**
 * Webhook endpoints and their deliveries, as an application sees them (Spec 4
 * and 6). An endpoint exists once its receiver has echoed a challenge; before
 * that nothing is stored.
 */
import { Clock, Context, Data, Effect, Layer, Redacted, Result, Schema } from "effect"
import * as Deliveries from "../model/Delivery.ts"
import type { Delivery } from "../model/Delivery.ts"
import * as Endpoints from "../model/Endpoint.ts"
import type { Endpoint } from "../model/Endpoint.ts"
import { types, type Type } from "../model/Event.ts"
import { shardOf, type DeliveryId, type EndpointId, type Millis, type Realm } from "../model/Ids.ts"
import * as Limits from "../model/Limits.ts"
import * as Webhook from "../model/Webhook.ts"
import * as WebhookUrl from "../model/WebhookUrl.ts"
import { Crypto } from "../ports/Crypto.ts"
import { jobOf, JobQueue, type Job } from "../ports/JobQueue.ts"
import { Store, type Change, type StoreUnavailable } from "../ports/Store.ts"
import { Settings } from "../Settings.ts"
import * as Tracing from "../Tracing.ts"
import { auditEntry, stillAdmitted, type Principal, type Unauthorized } from "./Access.ts"
import { changeRecord, commit, dieOnRejection, orFound, retryOnVersionMoved } from "./Commit.ts"
import * as Handshakes from "./Handshakes.ts"
import { InvalidWebhookUrl, type HandshakesBusy, type WebhookVerificationFailed } from "./Handshakes.ts"
import { NotFound } from "./Ownership.ts"

/** What `createWebhookEndpoint` takes (Spec 4). Which types and URLs are good is told by errors of their own. */
export const CreateWebhookEndpointInput = Schema.Struct({
  url: Schema.String.annotate({ format: "uri", examples: ["https://hooks.example.com/mailroom"] }),
  description: Schema.NullOr(
    Schema.String.check(
      Schema.isMaxCodePoints(Limits.webhookDescriptionLengthMax, {
        expected: `at most ${Limits.webhookDescriptionLengthMax} characters`
      }),
      Limits.isStorable
    )
  ).pipe(Schema.withDecodingDefaultKey(Effect.succeed(null))),
  eventTypes: Schema.Array(Schema.String).check(
    Schema.isMinLength(1, { expected: "at least 1 event type" }),
    Schema.isMaxLength(Limits.webhookEventTypesMax, { expected: `at most ${Limits.webhookEventTypesMax} event types` })
  )
})
export type CreateWebhookEndpointInput = typeof CreateWebhookEndpointInput.Type

/** 400: types that cannot be subscribed. */
export class UnsupportedEventType extends Data.TaggedError("UnsupportedEventType")<{
  readonly unsupported: ReadonlyArray<string>
  readonly supported: ReadonlyArray<string>
}> {
  override get message(): string {
    const [first = "", ...others] = this.unsupported
    const named = `${JSON.stringify(first.slice(0, 60))}${others.length === 0 ? "" : ` and ${others.length} more`}`
    return `Cannot be subscribed: ${named}; details.unsupported has all. Use the types in details.supported.`
  }
}

/** 409: the application has as many enabled endpoints as it may. */
export class TooManyEndpoints extends Data.TaggedError("TooManyEndpoints")<{ readonly limit: number }> {
  override readonly message = `The application has ${this.limit} enabled webhook endpoints, and may have no more. Subscribe one to more event types in place of several; one whose receiver fails ten times in a row is disabled by itself, and an operator can disable any.`
}

/** 409: what is replayed would not be sent. */
export class EndpointDisabled extends Data.TaggedError("EndpointDisabled")<{}> {
  override readonly message =
    "The webhook endpoint is disabled: by ten failed attempts in a row, or by an operator. Have an operator enable it again, then replay."
}

export class Webhooks extends Context.Service<
  Webhooks,
  {
    /**
     * Verifies a receiver and creates its endpoint, enabled (Spec 4, createWebhookEndpoint). The secret is returned here
     * and never again. Whatever is refused leaves nothing.
     */
    readonly createEndpoint: (
      principal: Principal,
      input: CreateWebhookEndpointInput
    ) => Effect.Effect<
      { readonly endpoint: typeof Endpoints.View.Type; readonly secret: Redacted.Redacted<string> },
      UnsupportedEventType | InvalidWebhookUrl | TooManyEndpoints | WebhookVerificationFailed | HandshakesBusy | Unauthorized | StoreUnavailable
    >
    /** The application's endpoints, oldest first (Spec 4, listWebhookEndpoints). */
    readonly listEndpoints: (
      principal: Principal
    ) => Effect.Effect<{ readonly items: ReadonlyArray<typeof Endpoints.View.Type> }, StoreUnavailable>
    /** The application's deliveries, newest first; of one endpoint, if it is given (Spec 4, listWebhookDeliveries). */
    readonly listDeliveries: (
      principal: Principal,
      query: { readonly limit: number; readonly endpointId: EndpointId | null }
    ) => Effect.Effect<{ readonly items: ReadonlyArray<typeof Deliveries.View.Type> }, NotFound | StoreUnavailable>
    /**
     * Makes a dead or delivered delivery pending again, with a new round of attempts (Spec 4, replayWebhookDelivery); one
     * that is pending stays as it is.
     */
    readonly replay: (
      principal: Principal,
      id: DeliveryId
    ) => Effect.Effect<{ readonly delivery: typeof Deliveries.View.Type }, NotFound | EndpointDisabled | StoreUnavailable>
  }
>()("mailroom/core/operations/Webhooks") {
  static readonly layer = Layer.effect(
    Webhooks,
    Effect.gen(function* () {
      const store = yield* Store
      const queue = yield* JobQueue
      const crypto = yield* Crypto
      const shakeHands = yield* Handshakes.make
      const settings = yield* Settings

      /** Gives a delivery that has none its body, to be kept from now on as that of any other. */
      const putBody = Effect.fnUntraced(function* (realm: Realm, delivery: Delivery, endpoint: Endpoint) {
        if ((yield* store.deliveries.body(realm, delivery.id)) !== null) return []
        const body = yield* bodyAnew(store, delivery, endpoint)
        if (body === null) return yield* new NotFound({ field: null }) // an event is kept for longer than this can be asked for
        return [{ _tag: "PutBody", realm, deliveryId: delivery.id, body }] satisfies ReadonlyArray<Change>
      })

      /** An application may have another endpoint. Its oldest one; null: it has none. */
      const roomFor = Effect.fnUntraced(function* ({ realm, applicationId }: Principal) {
        const limit = Limits.endpointsPerApplicationMax
        const endpoints = yield* store.endpoints.list(realm, applicationId)
        if (endpoints.filter(({ enabled }) => enabled).length >= limit) return yield* new TooManyEndpoints({ limit })
        return endpoints[0] ?? null
      })

      return Webhooks.of({
        createEndpoint: Tracing.fn("Webhooks.createEndpoint")(function* (principal, input) {
          const eventTypes = yield* Effect.fromResult(subscribable(input.eventTypes))
          const target = yield* Effect.fromResult(
            Result.mapError(WebhookUrl.parse(input.url, settings.webhookTargets), (fault) => new InvalidWebhookUrl({ fault }))
          )
          yield* roomFor(principal)
          yield* shakeHands(target, principal)

          const { tenantId, environment } = principal.realm
          const now = yield* Clock.currentTimeMillis
          const id: EndpointId = yield* crypto.uuid
          const secret = Webhook.secretOf(yield* crypto.randomBytes(Webhook.secretBytes))
          const endpoint: Endpoint = {
            ...Endpoints.closed,
            id,
            tenantId,
            environment,
            applicationId: principal.applicationId,
            version: 1,
            url: target.href,
            description: input.description,
            eventTypes,
            apiVersion: Webhook.apiVersion,
            secret: yield* crypto.seal(secret, Endpoints.sealContext({ tenantId, id })),
            nextSecret: null,
            isSlow: false,
            positions: Endpoints.unsetPositions,
            createdAt: now
          }
          const entry = auditEntry(principal, yield* crypto.uuid, now, "webhook_endpoint.create", id)
          const changes: ReadonlyArray<Change> = [
            { _tag: "Insert", kind: "endpoint", record: endpoint },
            { _tag: "AppendAudit", entry }
          ]
          // Others whose receivers were asked at the same time, here or in other processes, may have taken the room. Each
          // moves the version of the oldest endpoint, so what was counted is as it was, or it is counted again.
          const created = Effect.gen(function* () {
            // A receiver may have kept us waiting until its key was revoked, and would be told all that happens from then on.
            const admitted = yield* stillAdmitted(store, principal)
            const oldest = yield* roomFor(principal)
            const counted: ReadonlyArray<Change> =
              oldest === null ? [] : [{ _tag: "Update", kind: "endpoint", record: { ...oldest, version: oldest.version + 1 } }]
            return yield* commit(store, queue, [...admitted, ...counted, ...changes], [])
          })
          yield* orFound(dieOnRejection(retryOnVersionMoved(created)), store.endpoints.get(principal.realm, id))
          return { endpoint: Endpoints.view(endpoint), secret }
        }),

        listEndpoints: Tracing.fn("Webhooks.listEndpoints")(function* ({ realm, applicationId }) {
          return { items: (yield* store.endpoints.list(realm, applicationId)).map(Endpoints.view) }
        }),

        listDeliveries: Tracing.fn("Webhooks.listDeliveries")(function* ({ realm, applicationId }, { limit, endpointId }) {
          if (endpointId !== null) {
            const endpoint = yield* store.endpoints.get(realm, endpointId)
            if (endpoint?.applicationId !== applicationId) return yield* new NotFound({ field: "endpointId" })
          }
          const found = yield* store.deliveries.page(realm, { applicationId, endpointId, limit })
          return { items: found.map(Deliveries.view) }
        }),

        replay: Tracing.fn("Webhooks.replay")(function* (principal, id) {
          return yield* changeRecord(
            id,
            Effect.gen(function* () {
              const { realm, applicationId } = principal
              const delivery = yield* store.deliveries.get(realm, id)
              if (delivery?.applicationId !== applicationId) return yield* new NotFound({ field: null })
              const endpoint = yield* store.endpoints.get(realm, delivery.endpointId)
              if (endpoint?.enabled !== true) return yield* new EndpointDisabled()
              const now = yield* Clock.currentTimeMillis
              const replayed = Deliveries.replay(delivery, now)
              if (replayed === null) return { delivery: Deliveries.view(delivery) }
              const bodies = yield* putBody(realm, delivery, endpoint)
              const entry = auditEntry(principal, yield* crypto.uuid, now, "webhook_delivery.replay", id)
              yield* commit(
                store,
                queue,
                [
                  { _tag: "Update", kind: "delivery", record: replayed },
                  ...bodies,
                  { _tag: "AppendAudit", entry }
                ],
                [deliverJob(replayed, now)]
              )
              return { delivery: Deliveries.view(replayed) }
            })
          )
        })
      })
    })
  )
}

/**
 * The body of a delivery that left it to its event when it succeeded at once, as it was sent; null if the event is forgotten.
 */
export const bodyAnew = Effect.fnUntraced(function* (
  store: Store["Service"],
  { tenantId, eventId, eventPosition }: Delivery,
  { apiVersion }: Endpoint
): Effect.fn.Return<string | null, StoreUnavailable> {
  const [event] = eventPosition === null ? [] : yield* store.events.readLog(shardOf(tenantId), eventPosition - 1n, 1)
  return event?.id === eventId ? Webhook.bodyOf(event, apiVersion) : null
})

/** A look at a delivery when it is due. */
export const deliverJob = (delivery: Delivery, dueAt: Millis): Job => jobOf("deliver", delivery, dueAt)

/** The types to subscribe, each once; all of them must be known. */
const subscribable = (given: ReadonlyArray<string>): Result.Result<ReadonlyArray<Type | "*">, UnsupportedEventType> => {
  const supported: ReadonlyArray<Type | "*"> = [...types, "*"]
  const wanted = new Set(given)
  const unsupported = [...wanted].filter((type) => !supported.some((known) => known === type))
  return unsupported.length === 0
    ? Result.succeed([...wanted] as ReadonlyArray<Type | "*">) // each is supported
    : Result.fail(new UnsupportedEventType({ unsupported, supported }))
}
