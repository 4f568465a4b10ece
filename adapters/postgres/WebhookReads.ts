/** Webhook endpoints and their deliveries. */
import type { DeliveryReads, EndpointReads, Outgoing } from "../../core/ports/Store.ts"
import { positionColumns } from "./EndpointPositions.ts"
import * as Query from "./Query.ts"
import * as Rows from "./Rows.ts"
import type { Row } from "./Rows.ts"

const { endpoint, delivery } = Rows.tables

export const endpoints = ({ list, lookup }: Query.Query): EndpointReads => {
  const endpointBy = lookup(endpoint, Query.ofRealm(endpoint), Query.inRealmTypes)
  return {
    get: (realm, id) => endpointBy([Query.idKey(id), ...Query.realmKeys(realm)]),
    list: (realm, applicationId) => list(endpoint, endpointsOfApplication, [...Query.inRealm(realm), Query.id(applicationId)]),
    enabled: (tenantIds) => list(endpoint, endpointsEnabled, [Query.ids(tenantIds)]),
    sealedBelow: (version, { after, limit }) =>
      list(endpoint, Query.sealedBelow(endpoint), [Query.count(version), Query.idAfter(after), Query.count(limit)])
  }
}

const endpointsOfApplication = `
  select ${endpoint.selected()} from mailroom.endpoint
  where tenant_id = $1 and environment = $2 and application_id = $3
  order by created_ms, id`

const endpointsEnabled = `select ${endpoint.selected()} from mailroom.endpoint where tenant_id = any($1) and enabled`

export const deliveries = ({ list, lookup }: Query.Query): DeliveryReads => {
  const deliveryBy = lookup(delivery, Query.ofRealm(delivery), Query.inRealmTypes)
  const bodyBy = lookup({ decode: (row) => row["body"] as string }, bodyOfDelivery, Query.inRealmTypes) // a text
  const outgoingBy = lookup({ decode: outgoingOf }, outgoing, Query.inRealmTypes)
  return {
    get: (realm, id) => deliveryBy([Query.idKey(id), ...Query.realmKeys(realm)]),
    body: (realm, id) => bodyBy([Query.idKey(id), ...Query.realmKeys(realm)]),
    outgoing: (realm, id) => outgoingBy([Query.idKey(id), ...Query.realmKeys(realm)]),
    page: (realm, { applicationId, endpointId, limit }) => {
      const asked = [...Query.inRealm(realm), Query.id(applicationId), Query.count(limit)]
      return endpointId === null
        ? list(delivery, deliveriesOfApplication, asked)
        : list(delivery, deliveriesOfEndpoint, [...asked, Query.id(endpointId)])
    },
    deadSince: (realm, endpointId, since, limit) =>
      list(delivery, deliveriesDeadSince, [
        ...Query.inRealm(realm),
        Query.id(endpointId),
        Query.millisFrom(since),
        Query.count(limit)
      ])
  }
}

/** Of the row `delivery`, which may have it from another of its event. */
const sentBody = "(select body from mailroom.delivery_body where delivery_id = coalesce(delivery.body_id, delivery.id))"

const bodyOfDelivery = `
  select ${sentBody} as body
  from ${Query.byId("mailroom.delivery", "delivery")}
  where delivery.tenant_id = $2 and delivery.environment = $3`

/** By id, tenant and environment; with the time of its next attempt, which says whether a job is of that attempt. */
export const outgoing = `
  select ${delivery.selected("delivery")},
    ${sentBody} as body,
    endpoint.record::text as endpoint, ${positionColumns.map((name) => `endpoint.${name}`).join(", ")}, delivery.next_attempt_ms
  from ${Query.byId("mailroom.delivery", "delivery")}
  left join lateral (select * from mailroom.endpoint where id = delivery.endpoint_id offset 0) endpoint
    on endpoint.tenant_id = $2 and endpoint.environment = $3
  where delivery.tenant_id = $2 and delivery.environment = $3`

export const outgoingOf = (row: Row): Outgoing => ({
  delivery: delivery.decode(row),
  endpoint: row["endpoint"] === null ? null : endpoint.decode({ ...row, record: row["endpoint"] }),
  body: row["body"] as string | null // a text
})

const deliveriesWhere = (where: string): string => `
  select ${delivery.selected()} from mailroom.delivery
  where tenant_id = $1 and environment = $2 and application_id = $3 ${where}
  order by created_ms desc, id desc limit $4`

const deliveriesOfApplication = deliveriesWhere("")

const deliveriesOfEndpoint = deliveriesWhere("and endpoint_id = $5")

// An endpoint lies in one realm, so it is looked at last: a planner that knows of it sorts what the index has in order.
const deliveriesDeadSince = `
  select ${delivery.selected()} from (
    select * from mailroom.delivery
    where endpoint_id = $3 and dead_ms >= $4
    order by dead_ms, id limit $5
  ) delivery
  where tenant_id = $1 and environment = $2
  order by dead_ms, id`
