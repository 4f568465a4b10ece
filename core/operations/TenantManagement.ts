/**
 * Tenants, the plans they are on, their applications, and what was done to
 * them. `Management` is made of this and its neighbours.
 *
 * Suspending a tenant refuses all its keys from the next request on, and mail
 * to its mailboxes; suspending an application refuses its own keys. It stops
 * nothing else: mail that was accepted is still sent, and events are still
 * delivered to webhooks. To hold accepted mail back, suspend the mailbox or the
 * domain that it is from.
 */
import { Clock, Effect } from "effect"
import { system, type Actor, type AuditEntry, type Numbered, type RequestEntry } from "../model/Audit.ts"
import type { ApplicationId, Environment, TenantId } from "../model/Ids.ts"
import * as Limits from "../model/Limits.ts"
import type { Plan } from "../model/Limits.ts"
import type { ProviderPayload } from "../model/ProviderPayload.ts"
import type { Application, Tenant } from "../model/Tenant.ts"
import type { StoreUnavailable } from "../ports/Store.ts"
import {
  cutTo,
  InvalidInput,
  limitOf,
  line,
  NameTaken,
  pageBehind,
  pageOf,
  requireVersion,
  whole,
  type Administration,
  type Changed,
  type Guarded,
  type Page,
  type PageQuery,
  type UnknownResource,
  type Written
} from "./Administration.ts"
import { changeRecord } from "./Commit.ts"

/**
 * Stands in audit entries for the installation as a whole, where what was
 * written is no tenant's: a plan. `listAudit` of it lists those entries.
 */
export const installation = "00000000-0000-0000-0000-000000000000" as TenantId // the nil UUID, which no tenant gets

export interface TenantManagement {
  /** By id. */
  readonly listPlans: Effect.Effect<ReadonlyArray<Plan>, StoreUnavailable>
  readonly getPlan: (id: string) => Effect.Effect<Plan, UnknownResource | StoreUnavailable>
  /**
   * Writes a plan over the one of its id, if it differs; in force at each tenant's next request. For programs that bring
   * their plans with them and write them at each start; an operator's choice is `createPlan` or `updatePlan`.
   */
  readonly putPlan: (plan: Plan) => Effect.Effect<void, InvalidInput | StoreUnavailable>
  /** Numbers that are left out are those of the specification's plan of this id, if it has one. */
  readonly createPlan: (actor: Actor, plan: { readonly id: string } & Partial<PlanNumbers>) => Written<Plan>
  /**
   * In force at each tenant's next request. A plan has no version: of two operators who change one at the same moment, the
   * last one's numbers stand, all of them. Both are in the audit trail of the `installation`.
   */
  readonly updatePlan: (actor: Actor, id: string, numbers: Partial<PlanNumbers>) => Written<Plan>

  /** By id, which is the order in which they were made. */
  readonly listTenants: (query: PageQuery) => Effect.Effect<Page<Tenant>, InvalidInput | StoreUnavailable>
  readonly getTenant: (id: TenantId) => Effect.Effect<Tenant, UnknownResource | StoreUnavailable>
  /** `id` restores a tenant that a store forgot. An id that is in use is `NameTaken`, a plan that is none `UnknownResource`. */
  readonly createTenant: (
    actor: Actor,
    input: { readonly id?: TenantId; readonly name: string; readonly planId: string }
  ) => Written<Tenant>
  /** Renames a tenant, or moves it to another plan, whose limits are in force at the next request. */
  readonly updateTenant: (
    actor: Actor,
    id: TenantId,
    input: Guarded & { readonly name?: string; readonly planId?: string }
  ) => Changed<Tenant>
  /** Suspends a tenant: its keys, and mail to its mailboxes, are refused at once; or takes it into use again. */
  readonly setTenantStatus: (actor: Actor, id: TenantId, status: Tenant["status"]) => Written<Tenant>

  /** Oldest first. */
  readonly listApplications: (
    tenantId: TenantId,
    query: PageQuery
  ) => Effect.Effect<Page<Application>, UnknownResource | InvalidInput | StoreUnavailable>
  readonly getApplication: (
    tenantId: TenantId,
    id: ApplicationId
  ) => Effect.Effect<Application, UnknownResource | StoreUnavailable>
  /** An application of one environment, for good; `UnknownResource` if there is no such tenant. */
  readonly createApplication: (
    actor: Actor,
    input: { readonly id?: ApplicationId; readonly tenantId: TenantId; readonly environment: Environment; readonly name: string }
  ) => Written<Application>
  readonly updateApplication: (
    actor: Actor,
    tenantId: TenantId,
    id: ApplicationId,
    input: Guarded & { readonly name: string }
  ) => Changed<Application>
  /** Suspends an application, and with it all its keys at once; or takes it into use again. */
  readonly setApplicationStatus: (
    actor: Actor,
    tenantId: TenantId,
    id: ApplicationId,
    status: Application["status"]
  ) => Written<Application>

  /** Who wrote what, newest first; `after` is the `number` of the last item of the page before. Of a tenant, or of the `installation`. */
  readonly listAudit: (
    tenantId: TenantId,
    query: PageQuery
  ) => Effect.Effect<Page<Numbered<AuditEntry>>, UnknownResource | InvalidInput | StoreUnavailable>
  /** The tenant's requests as they ended, newest first, in the same way. The last seconds may not be written yet. */
  readonly listRequests: (
    tenantId: TenantId,
    query: PageQuery
  ) => Effect.Effect<Page<Numbered<RequestEntry>>, UnknownResource | InvalidInput | StoreUnavailable>
  /** What providers posted, newest first, in the same way, kept for 30 days; of one, or of all. It is no tenant's, and for the operator's eyes. */
  readonly listPayloads: (
    query: PageQuery & { readonly provider?: string }
  ) => Effect.Effect<Page<Numbered<ProviderPayload>>, InvalidInput | StoreUnavailable>
}

type Read<A> = Effect.Effect<ReadonlyArray<A>, StoreUnavailable>

export type PlanNumbers = Omit<Plan, "id">

const planNumberMax = 1_000_000_000_000

const planNumbers = ["keyRequestsPerMinute", "tenantRequestsPerDay", "recipientsPerDay"] as const satisfies ReadonlyArray<
  keyof PlanNumbers
>

const checkedPlan = Effect.fnUntraced(function* (plan: Plan) {
  if (!/^[a-z0-9][a-z0-9._-]{0,62}$/i.test(plan.id)) {
    return yield* new InvalidInput({ field: "id", fault: "wants 1 to 63 letters, digits, dots, hyphens or underscores" })
  }
  for (const name of planNumbers) yield* Effect.fromResult(whole(name, plan[name], { minimum: 1, maximum: planNumberMax }))
  return plan
})

export const makeTenantManagement = (administration: Administration): TenantManagement => {
  const { store, uuid, writeAct, insert, requireFound, tenant, application } = administration

  const plan = (id: string) =>
    requireFound("plan", id, Effect.map(store.credentials.plans, (plans) => plans.find((one) => one.id === id) ?? null))

  const writePlan = (actor: Actor, action: "plan.create" | "plan.update", written: Plan) =>
    insert(actor, installation, action, written.id, [{ _tag: "PutPlan", plan: written }])

  /** What the newest come first of, behind the number of an item that a page before has shown. */
  const newest = Effect.fnUntraced(function* <A>({ after, ...query }: PageQuery, read: (limit: number, before?: number) => Read<A>) {
    const limit = yield* limitOf(query)
    if (after !== undefined && !/^\d{1,15}$/.test(after)) {
      return yield* new InvalidInput({ field: "after", fault: "is the number of no item; a page with more behind it says how to go on" })
    }
    return cutTo(limit, yield* read(limit + 1, after === undefined ? undefined : Number(after)))
  })

  const newestOf = <A>(tenantId: TenantId, query: PageQuery, read: (limit: number, before?: number) => Read<A>) =>
    Effect.andThen(tenantId === installation ? Effect.void : tenant(tenantId), newest(query, read))

  return {
    listPlans: store.credentials.plans,

    getPlan: plan,

    putPlan: Effect.fn("Management.putPlan")(function* (given) {
      const written = yield* checkedPlan({ ...pickNumbers(given), id: given.id })
      const before = (yield* store.credentials.plans).find(({ id }) => id === written.id)
      if (before !== undefined && planNumbers.every((name) => before[name] === written[name])) return
      // Nothing in it is unique, so no name can be taken.
      yield* writePlan(system, before === undefined ? "plan.create" : "plan.update", written).pipe(
        Effect.catchTag("NameTaken", (error) => Effect.die(error))
      )
    }),

    createPlan: Effect.fn("Management.createPlan")(function* (actor, { id, ...given }) {
      const known = Limits.plans.find((one) => one.id === id)
      const missing = planNumbers.find((name) => given[name] === undefined && known === undefined)
      if (missing !== undefined) {
        return yield* new InvalidInput({ field: missing, fault: "is missing; only the plans of the specification have numbers of their own" })
      }
      // Each is given, or there is a known plan.
      const written = yield* checkedPlan({ ...(known as Plan), ...pickNumbers(given), id })
      if ((yield* store.credentials.plans).some((one) => one.id === id)) return yield* new NameTaken({ what: "plan", field: "id" })
      yield* writePlan(actor, "plan.create", written)
      return written
    }),

    updatePlan: Effect.fn("Management.updatePlan")(function* (actor, id, numbers) {
      const before = yield* plan(id)
      const written = yield* checkedPlan({ ...before, ...pickNumbers(numbers) })
      yield* writePlan(actor, "plan.update", written)
      return written
    }),

    listTenants: Effect.fn("Management.listTenants")((query) =>
      pageBehind(
        query,
        (id) => Effect.map(store.credentials.tenant(id as TenantId), (found) => found?.id ?? null), // any text: it names nothing then
        (after, limit) => store.credentials.tenants({ after, limit })
      )
    ),

    getTenant: tenant,

    createTenant: Effect.fn("Management.createTenant")(function* (actor, { id, name, planId }) {
      if (id === installation) return yield* new InvalidInput({ field: "id", fault: "is the nil UUID, which is no tenant's" })
      const record: Tenant = {
        id: id ?? (yield* uuid<TenantId>()),
        version: 1,
        name: yield* Effect.fromResult(line("name", name)),
        planId: (yield* plan(planId)).id,
        status: "active",
        createdAt: yield* Clock.currentTimeMillis
      }
      yield* insert(actor, record.id, "tenant.create", record.id, [{ _tag: "Insert", kind: "tenant", record }])
      return record
    }),

    updateTenant: Effect.fn("Management.updateTenant")(function* (actor, id, input) {
      return yield* changeRecord(
        id,
        Effect.gen(function* () {
          const before = yield* tenant(id)
          yield* requireVersion("tenant", before, input)
          const name = yield* Effect.fromResult(line("name", input.name ?? before.name))
          const planId = input.planId === undefined ? before.planId : (yield* plan(input.planId)).id
          if (name === before.name && planId === before.planId) return before
          const record = { ...before, version: before.version + 1, name, planId }
          yield* writeAct(actor, id, "tenant.update", id, [{ _tag: "Update", kind: "tenant", record }])
          return record
        })
      )
    }),

    setTenantStatus: Effect.fn("Management.setTenantStatus")(function* (actor, id, status) {
      return yield* changeRecord(
        id,
        Effect.gen(function* () {
          const before = yield* tenant(id)
          if (before.status === status) return before
          const record = { ...before, version: before.version + 1, status }
          const action = status === "active" ? "tenant.reinstate" : "tenant.suspend"
          yield* writeAct(actor, id, action, id, [{ _tag: "Update", kind: "tenant", record }])
          return record
        })
      )
    }),

    listApplications: Effect.fn("Management.listApplications")(function* (tenantId, query) {
      yield* tenant(tenantId)
      return yield* pageOf(yield* store.credentials.applications(tenantId), query, ({ id }) => id)
    }),

    getApplication: application,

    createApplication: Effect.fn("Management.createApplication")(function* (actor, input) {
      yield* tenant(input.tenantId)
      const record: Application = {
        id: input.id ?? (yield* uuid<ApplicationId>()),
        tenantId: input.tenantId,
        version: 1,
        environment: input.environment,
        name: yield* Effect.fromResult(line("name", input.name)),
        status: "active",
        createdAt: yield* Clock.currentTimeMillis
      }
      yield* insert(actor, record.tenantId, "application.create", record.id, [{ _tag: "Insert", kind: "application", record }])
      return record
    }),

    updateApplication: Effect.fn("Management.updateApplication")(function* (actor, tenantId, id, input) {
      return yield* changeRecord(
        id,
        Effect.gen(function* () {
          const before = yield* application(tenantId, id)
          yield* requireVersion("application", before, input)
          const name = yield* Effect.fromResult(line("name", input.name))
          if (name === before.name) return before
          const record = { ...before, version: before.version + 1, name }
          yield* writeAct(actor, tenantId, "application.update", id, [{ _tag: "Update", kind: "application", record }])
          return record
        })
      )
    }),

    setApplicationStatus: Effect.fn("Management.setApplicationStatus")(function* (actor, tenantId, id, status) {
      return yield* changeRecord(
        id,
        Effect.gen(function* () {
          const before = yield* application(tenantId, id)
          if (before.status === status) return before
          const record = { ...before, version: before.version + 1, status }
          const action = status === "active" ? "application.reinstate" : "application.suspend"
          yield* writeAct(actor, tenantId, action, id, [{ _tag: "Update", kind: "application", record }])
          return record
        })
      )
    }),

    listAudit: Effect.fn("Management.listAudit")((tenantId, query) =>
      newestOf(tenantId, query, (limit, before) => store.audit.page(tenantId, limit, before))
    ),

    listRequests: Effect.fn("Management.listRequests")((tenantId, query) =>
      newestOf(tenantId, query, (limit, before) => store.audit.requests(tenantId, limit, before))
    ),

    listPayloads: Effect.fn("Management.listPayloads")(({ provider, ...query }) =>
      newest(query, (limit, before) => store.audit.payloads(provider ?? null, limit, before))
    )
  }
}

/** The numbers that are there, and nothing else. */
const pickNumbers = <P extends Partial<PlanNumbers>>(given: P): Pick<P, keyof PlanNumbers> =>
  Object.fromEntries(planNumbers.flatMap((name) => (given[name] === undefined ? [] : [[name, given[name]]]))) as Pick<
    P,
    keyof PlanNumbers
  > // by name, and only those that are there
