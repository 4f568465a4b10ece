/**
 * What the surrounding product does with webhooks (Spec 1, point 2; Spec 6,
 * Delivery semantics): shows endpoints, replaces their secrets, disables and
 * enables them, replays what died there, and sends test events. Never reachable
 * with an API key. Endpoints are made by applications, over the API, for their
 * receivers must answer.
 */
import { Clock, Context, Data, Effect, Layer, Option, type Redacted, Result } from "effect"
import { entryOf, type Actor } from "../model/Audit.ts"
import * as Deliveries from "../model/Delivery.ts"
import type { Delivery } from "../model/Delivery.ts"
import * as Endpoints from "../model/Endpoint.ts"
import type { Endpoint } from "../model/Endpoint.ts"
import { types, type Event, type Type } from "../model/Event.ts"
import * as EventSample from "../model/EventSample.ts"
import { Environment, realmOf, type ApplicationId, type DeliveryId, type EndpointId, type EventId, type MailboxId, type MessageId, type Millis, type Realm, type TenantId } from "../model/Ids.ts"
import type { Application } from "../model/Tenant.ts"
import * as Webhook from "../model/Webhook.ts"
import { Crypto } from "../ports/Crypto.ts"
import { JobQueue } from "../ports/JobQueue.ts"
import { Store, type Change, type StoreUnavailable } from "../ports/Store.ts"
import { InvalidInput, line, overlapOf, pageOf, UnknownResource, type Page, type PageQuery } from "./Administration.ts"
import { changeRecord, commit, dieOnRejection, orFound, unchanged } from "./Commit.ts"
import { deliverJob, EndpointDisabled } from "./Webhooks.ts"

/** Test events are for sandbox applications. */
export class NotSandbox extends Data.TaggedError("NotSandbox")<{ readonly applicationId: ApplicationId }> {
  override get message(): string {
    return `The application ${this.applicationId} is a production application. Choose a sandbox application for test events.`
  }
}

/** An endpoint as it is shown to those who manage it: without its sealed secrets, of which only the oldest sealing key's version is told. */
export interface ManagedEndpoint extends Omit<Endpoint, "secret" | "nextSecret" | "positions"> {
  readonly sealVersion: number
  /** When the secret that was made last begins to sign; null if it does. */
  readonly nextSecretFrom: Millis | null
}

/** Deliveries that one commit makes pending again. */
const replaysPerCommit = 500

const nothing = { changes: [], jobs: [], ids: [] }

export class WebhookManagement extends Context.Service<
  WebhookManagement,
  {
    /** Of the tenant, or of one application: application by application, oldest first. */
    readonly listEndpoints: (
      tenantId: TenantId,
      query: PageQuery & { readonly applicationId?: ApplicationId }
    ) => Effect.Effect<Page<ManagedEndpoint>, UnknownResource | InvalidInput | StoreUnavailable>
    /** In whichever environment of the tenant it is. */
    readonly getEndpoint: (tenantId: TenantId, id: EndpointId) => Effect.Effect<ManagedEndpoint, UnknownResource | StoreUnavailable>
    /**
     * Makes a new signing secret, which is told here and never again. It begins to sign after the overlap (milliseconds, 90
     * days at most; 0: at once), so that by then the receiver can take it as well as the one that signs until then. One that
     * was made before, and has not begun to, never will.
     */
    readonly rotateSecret: (
      actor: Actor,
      tenantId: TenantId,
      id: EndpointId,
      input: { readonly overlap: Millis }
    ) => Effect.Effect<
      { readonly endpoint: ManagedEndpoint; readonly secret: Redacted.Redacted<string> },
      UnknownResource | InvalidInput | StoreUnavailable
    >
    /**
     * Sends nothing more to an endpoint until it is enabled again: no delivery is made of what happens from now on, and
     * what is pending becomes dead when it is due. An attempt that is under way ends. Changes nothing of one that is disabled.
     */
    readonly disableEndpoint: (
      actor: Actor,
      tenantId: TenantId,
      id: EndpointId
    ) => Effect.Effect<ManagedEndpoint, UnknownResource | InvalidInput | StoreUnavailable>
    /**
     * Takes a disabled endpoint into use again, its counter at 0; with `replayDead`, what died since it was disabled
     * becomes pending again. Events that happened meanwhile stay without a delivery.
     */
    readonly enableEndpoint: (
      actor: Actor,
      tenantId: TenantId,
      id: EndpointId,
      options: { readonly replayDead: boolean }
    ) => Effect.Effect<
      { readonly endpoint: ManagedEndpoint; readonly replayed: number },
      UnknownResource | InvalidInput | StoreUnavailable
    >
    /**
     * Makes pending again what died at this endpoint since then, each once; how many that were. `EndpointDisabled`
     * while it is disabled; it ends where it becomes so. Safe to repeat, as after `StoreUnavailable`: what is pending
     * already stays as it is.
     */
    readonly replayDead: (
      actor: Actor,
      tenantId: TenantId,
      id: EndpointId,
      since: Millis
    ) => Effect.Effect<number, UnknownResource | InvalidInput | EndpointDisabled | StoreUnavailable>
    /**
     * Appends a synthetic event with `demo: true`, which only this application's endpoints and event list see. It is
     * delivered, retried and replayed as any other.
     */
    readonly sendTestEvent: (
      actor: Actor,
      input: { readonly tenantId: TenantId; readonly applicationId: ApplicationId; readonly type: Type }
    ) => Effect.Effect<Event, UnknownResource | InvalidInput | NotSandbox | StoreUnavailable>
    /**
     * The same for a look at one endpoint: of a type that it gets (the first of its subscription, if none is given), and
     * not while it is disabled. Other endpoints of the application that get the type get the event too.
     */
    readonly testEndpoint: (
      actor: Actor,
      tenantId: TenantId,
      id: EndpointId,
      type?: string
    ) => Effect.Effect<Event, UnknownResource | InvalidInput | NotSandbox | EndpointDisabled | StoreUnavailable>
  }
>()("mailroom/core/operations/WebhookManagement") {
  static readonly layer = Layer.effect(
    WebhookManagement,
    Effect.gen(function* () {
      const store = yield* Store
      const queue = yield* JobQueue
      const crypto = yield* Crypto

      const audit = Effect.fnUntraced(function* (actor: Actor, realm: Realm, action: string, id: string, at: Millis) {
        yield* Effect.fromResult(line("actor", actor.id))
        const entry = entryOf({
          ...realm,
          id: yield* crypto.uuid,
          at,
          actor,
          action
        }, id)
        return { _tag: "AppendAudit", entry } satisfies Change
      })

      const found = Effect.fnUntraced(function* (tenantId: TenantId, id: EndpointId) {
        for (const environment of Environment.literals) {
          const endpoint = yield* store.endpoints.get({ tenantId, environment }, id)
          if (endpoint !== null) return endpoint
        }
        return yield* new UnknownResource({ what: "webhook endpoint", id })
      })

      /** One batch of what died since then and was not replayed before, with its audit entry: nothing if there is none. */
      const batchOf = Effect.fnUntraced(function* (
        actor: Actor,
        realm: Realm,
        id: EndpointId,
        since: Millis,
        replayed: ReadonlySet<DeliveryId>,
        at: Millis
      ) {
        const dead = yield* deadBut(replayed, (limit) => store.deliveries.deadSince(realm, id, since, limit))
        const records = dead.flatMap((delivery) => Deliveries.replay(delivery, at) ?? [])
        const changes = records.map((record): Change => ({ _tag: "Update", kind: "delivery", record }))
        return {
          changes: changes.length === 0 ? [] : [...changes, yield* audit(actor, realm, "webhook_endpoint.replay", id, at)],
          jobs: records.map((record) => deliverJob(record, at)),
          ids: records.map((record) => record.id)
        }
      })

      /** All that died since then, each once: it may die again before this ends, and by whatever clock. */
      const replayAll = Effect.fnUntraced(function* (actor: Actor, realm: Realm, id: EndpointId, since: Millis, before: ReadonlyArray<DeliveryId>) {
        const replayed = new Set(before)
        let ids: ReadonlyArray<DeliveryId>
        do {
          ids = yield* changeRecord(
            id,
            Effect.gen(function* () {
              const endpoint = yield* store.endpoints.get(realm, id)
              if (endpoint?.enabled !== true) return []
              const batch = yield* batchOf(actor, realm, id, since, replayed, yield* Clock.currentTimeMillis)
              if (batch.ids.length > 0) yield* commit(store, queue, [unchanged("endpoint", endpoint), ...batch.changes], batch.jobs)
              return batch.ids
            })
          )
          for (const one of ids) replayed.add(one)
        } while (ids.length > 0)
        return replayed.size
      })

      /** The first batch of replays lands with the enabling, so that a crash does not part them. */
      const enable = (actor: Actor, tenantId: TenantId, id: EndpointId, options: { readonly replayDead: boolean }) =>
        changeRecord(
          id,
          Effect.gen(function* () {
            const before = yield* found(tenantId, id)
            const realm = realmOf(before)
            const at = yield* Clock.currentTimeMillis
            const decided = Endpoints.decide(before, { _tag: "Enabled", at })
            if (Result.isFailure(decided)) return { endpoint: before, since: null, ids: [] }
            // It stays slow in name until the queue has heard that it is not held back any more.
            const isHeldBack = Option.isNone(yield* Effect.option(queue.throttle("deliver", id, null)))
            const isSlow = before.isSlow && isHeldBack
            const record = { ...Endpoints.apply(before, decided.success), version: before.version + 1, isSlow }
            const enabling: ReadonlyArray<Change> = [
              { _tag: "Update", kind: "endpoint", record },
              yield* audit(actor, realm, "webhook_endpoint.enable", id, at)
            ]
            const since = options.replayDead ? before.disabledAt : null
            const batch = since === null ? nothing : yield* batchOf(actor, realm, id, since, new Set(), at)
            yield* commit(store, queue, [...enabling, ...batch.changes], batch.jobs)
            return { endpoint: record, since, ids: batch.ids }
          })
        )

      const application = Effect.fnUntraced(function* (tenantId: TenantId, id: ApplicationId) {
        return (yield* store.credentials.application(tenantId, id)) ?? (yield* new UnknownResource({ what: "application", id }))
      })

      const applications = Effect.fnUntraced(function* (tenantId: TenantId, id: ApplicationId | undefined) {
        if ((yield* store.credentials.tenant(tenantId)) === null) return yield* new UnknownResource({ what: "tenant", id: tenantId })
        return id === undefined ? yield* store.credentials.applications(tenantId) : [yield* application(tenantId, id)]
      })

      const endpointsOf = ({ id, tenantId, environment }: Application) => store.endpoints.list({ tenantId, environment }, id)

      const sendTestEvent = Effect.fn("WebhookManagement.sendTestEvent")(function* (
        actor: Actor,
        { tenantId, applicationId, type }: { readonly tenantId: TenantId; readonly applicationId: ApplicationId; readonly type: Type }
      ) {
        const { environment } = yield* application(tenantId, applicationId)
        if (!types.includes(type)) return yield* new InvalidInput({ field: "type", fault: `is no type of event; there are ${types.join(", ")}` })
        if (environment !== "sandbox") return yield* new NotSandbox({ applicationId })
        const at = yield* Clock.currentTimeMillis
        const ids = {
          event: (yield* crypto.uuid) as EventId, // a UUID is any of the three
          resource: (yield* crypto.uuid) as MessageId,
          mailbox: (yield* crypto.uuid) as MailboxId
        }
        const event: Event = EventSample.make(type, { tenantId, applicationId }, ids, at)
        const realm: Realm = { tenantId, environment }
        yield* commit(
          store,
          queue,
          [{ _tag: "AppendEvent", event }, yield* audit(actor, realm, "event.test", event.id, at)],
          []
        ).pipe(dieOnRejection)
        return event
      })

      return WebhookManagement.of({
        listEndpoints: Effect.fn("WebhookManagement.listEndpoints")(function* (tenantId, query) {
          const lists = yield* Effect.forEach(yield* applications(tenantId, query.applicationId), endpointsOf)
          const { items, hasMore } = yield* pageOf(lists.flat(), query, ({ id }) => id)
          return { items: yield* Effect.forEach(items, managed), hasMore }
        }),

        getEndpoint: Effect.fn("WebhookManagement.getEndpoint")((tenantId, id) => Effect.flatMap(found(tenantId, id), managed)),

        rotateSecret: Effect.fn("WebhookManagement.rotateSecret")(function* (actor, tenantId, id, input) {
          const overlap = yield* Effect.fromResult(overlapOf(input))
          const secret = Webhook.secretOf(yield* crypto.randomBytes(Webhook.secretBytes))
          const sealed = yield* crypto.seal(secret, Endpoints.sealContext({ tenantId, id }))
          const rotating = changeRecord(
            id,
            Effect.gen(function* () {
              const before = yield* found(tenantId, id)
              const at = yield* Clock.currentTimeMillis
              const record = Endpoints.rotated(before, sealed, at, at + overlap)
              const entry = yield* audit(actor, realmOf(before), "webhook_endpoint.rotate_secret", id, at)
              yield* commit(store, queue, [{ _tag: "Update", kind: "endpoint", record }, entry], [])
              return record
            })
          )
          const rotated = Effect.map(found(tenantId, id), (endpoint) =>
            Endpoints.secretsOf(endpoint).some(({ tag }) => tag === sealed.tag) ? endpoint : null
          )
          const endpoint = yield* orFound(rotating, rotated)
          return { endpoint: yield* managed(endpoint), secret }
        }),

        disableEndpoint: Effect.fn("WebhookManagement.disableEndpoint")(function* (actor, tenantId, id) {
          const disabling = changeRecord(
            id,
            Effect.gen(function* () {
              const before = yield* found(tenantId, id)
              const at = yield* Clock.currentTimeMillis
              const decided = Endpoints.decide(before, { _tag: "Disabled", at })
              if (Result.isFailure(decided)) return before
              const record = { ...Endpoints.apply(before, decided.success), version: before.version + 1 }
              const entry = yield* audit(actor, realmOf(before), "webhook_endpoint.disable", id, at)
              yield* commit(store, queue, [{ _tag: "Update", kind: "endpoint", record }, entry], [])
              return record
            })
          )
          return yield* managed(yield* disabling)
        }),

        replayDead: Effect.fn("WebhookManagement.replayDead")(function* (actor, tenantId, id, since) {
          const endpoint = yield* found(tenantId, id)
          if (!endpoint.enabled) return yield* new EndpointDisabled()
          return yield* replayAll(actor, realmOf(endpoint), id, since, [])
        }),

        enableEndpoint: Effect.fn("WebhookManagement.enableEndpoint")(function* (actor, tenantId, id, options) {
          const { endpoint, since, ids } = yield* enable(actor, tenantId, id, options)
          const replayed = since === null || ids.length === 0 ? 0 : yield* replayAll(actor, realmOf(endpoint), id, since, ids)
          return { endpoint: yield* managed(endpoint), replayed }
        }),

        sendTestEvent,

        testEndpoint: Effect.fn("WebhookManagement.testEndpoint")(function* (actor, tenantId, id, given) {
          const { applicationId, enabled, eventTypes } = yield* found(tenantId, id)
          const subscribed = types.filter((type) => eventTypes.includes("*") || eventTypes.includes(type))
          const type = given === undefined ? subscribed[0] : subscribed.find((one) => one === given)
          if (type === undefined) {
            return yield* new InvalidInput({ field: "type", fault: `is none that this endpoint gets; it gets ${subscribed.join(", ")}` })
          }
          if (!enabled) return yield* new EndpointDisabled()
          return yield* sendTestEvent(actor, { tenantId, applicationId, type })
        })
      })
    })
  )
}

/** Up to a commit's worth of what is dead. What was replayed and has died again may stand before the rest: then more is read. */
const deadBut = (
  replayed: ReadonlySet<DeliveryId>,
  read: (limit: number) => Effect.Effect<ReadonlyArray<Delivery>, StoreUnavailable>,
  limit = replaysPerCommit
): Effect.Effect<ReadonlyArray<Delivery>, StoreUnavailable> =>
  Effect.flatMap(read(limit), (found) => {
    const dead = found.filter(({ id }) => !replayed.has(id))
    return dead.length === 0 && found.length === limit ? deadBut(replayed, read, 2 * limit) : Effect.succeed(dead.slice(0, replaysPerCommit))
  })

const managed = (endpoint: Endpoint): Effect.Effect<ManagedEndpoint> =>
  Effect.map(Clock.currentTimeMillis, (now) => {
    const { secret: _, nextSecret, positions: __, ...shown } = endpoint
    const nextSecretFrom = nextSecret === null || nextSecret.from <= now ? null : nextSecret.from
    return { ...shown, sealVersion: Endpoints.sealVersion(endpoint), nextSecretFrom }
  })
