/**
 * `/metrics` for Prometheus, in text format 0.0.4: what this process has
 * counted, and what waits, asked of the store when somebody scrapes. It stands
 * outside all guards, and answers while the store is away. No label holds
 * anything of a tenant's.
 */
import { Clock, Context, Effect, Layer, Metric, Option, Redacted } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as PrometheusMetrics from "effect/observability/PrometheusMetrics"
import { ClockOffset } from "../../core/ClockOffset.ts"
import * as Core from "../../core/Metrics.ts"
import type { Operation } from "../../core/operations/Access.ts"
import { Crypto } from "../../core/ports/Crypto.ts"
import { jobKinds } from "../../core/ports/JobQueue.ts"
import { Store, type Backlog } from "../../core/ports/Store.ts"
import type { Config } from "../ConfigTable.ts"
import { version } from "../Version.ts"
import { Call } from "./Call.ts"
import type { Code } from "./ErrorBody.ts"
import { lately } from "./Lately.ts"
import { MetricsUnauthorized, RouteUnknown } from "./Refusals.ts"

export const path = "/metrics"

/** Who may read them: everybody, who sends this token, or (null) nobody. */
export type MetricsAccess = "open" | Redacted.Redacted<string> | null

/** As the settings say. */
export const accessOf = ({ metrics, metricsToken }: Pick<Config, "metrics" | "metricsToken">): MetricsAccess =>
  metrics === "open" ? "open" : metricsToken

/** `none`: a request that named no operation. */
type Named = Operation | "none"

/** Series that are made when first needed: most operations never meet with most refusals. */
const lazily = <Label, M>(make: (label: Label) => M) => {
  const made = new Map<Label, M>()
  return (label: Label): M => {
    const known = made.get(label)
    if (known !== undefined) return known
    const fresh = make(label)
    made.set(label, fresh)
    return fresh
  }
}

const requests = lazily((operation: Named) =>
  lazily((hundreds: number) =>
    Metric.counter("mailroom_http_requests_total", {
      description: "Requests answered, by operation and class of status. Probes and scrapes do not count.",
      attributes: { operation, status: `${hundreds}xx` },
      incremental: true
    })
  )
)
const refusals = lazily((operation: Named) =>
  lazily((code: Code) =>
    Metric.counter("mailroom_http_refusals_total", {
      description: "Requests that were not served, by operation and the code of the answer.",
      attributes: { operation, code },
      incremental: true
    })
  )
)
const duration = lazily((operation: Named) =>
  Metric.histogram("mailroom_http_request_duration_seconds", {
    description: "How long requests took, from their headers to their answer, by operation.",
    attributes: { operation },
    boundaries: Core.quick
  })
)

/** Counts a request that has ended. */
export const answered = (
  context: Context.Context<never>,
  operation: Operation | null,
  status: number,
  code: Code | null,
  seconds: number | null
): void => {
  const named = operation ?? "none"
  requests(named)(Math.floor(status / 100)).updateUnsafe(1, context)
  if (code !== null) refusals(named)(code).updateUnsafe(1, context)
  if (seconds !== null) duration(named).updateUnsafe(seconds, context)
}

/** `text` answers a scrape. What only the store can tell is left out while it is away. */
const scraping = Effect.gen(function* () {
  const store = yield* Store
  const clockOffset = yield* ClockOffset
  const pool = yield* Core.PoolGauge
  const context = yield* Effect.context<never>()
  Core.declare(context)
  const backlog = Effect.map(yield* lately(store.backlog), Option.getOrNull)
  const text = Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const gauges = new Gauges()
    const waiting = yield* backlog
    gauges.set("mailroom_store_up", "Whether the store answers: 1 or 0.", waiting === null ? 0 : 1)
    if (waiting !== null) setBacklog(gauges, waiting, now)
    if (pool !== null) setPool(gauges, yield* pool)
    gauges.set("mailroom_clock_offset_seconds", "The store's clock less this process's, as last measured.", clockOffset() / 1000)
    gauges.set("mailroom_build_info", "Always 1; its label says which version runs.", 1, { version })
    setProcess(gauges, now)
    const ours = [...Context.get(context, Metric.MetricRegistry)].filter(([, { id }]) => id.startsWith("mailroom_"))
    return PrometheusMetrics.formatUnsafe(Context.make(Metric.MetricRegistry, new Map([...ours, ...gauges.registry])))
  })
  return { text }
})

/** What is measured by a scrape, and kept by none. */
class Gauges {
  readonly registry: Metric.MetricRegistry = new Map()
  readonly #context = Context.make(Metric.MetricRegistry, this.registry)

  set(name: string, description: string, value: number, attributes: Metric.Metric.AttributeSet = {}): void {
    Metric.gauge(name, { description, attributes }).updateUnsafe(value, this.#context)
  }

  count(name: string, description: string, value: number): void {
    Metric.counter(name, { description, incremental: true }).updateUnsafe(value, this.#context)
  }
}

const ageSeconds = (at: number | null, now: number): number => (at === null ? 0 : Math.max(0, now - at) / 1000)

const setBacklog = (gauges: Gauges, { earliestDue, unrelayed, oldestUnrelayedAt }: Backlog, now: number): void => {
  for (const kind of jobKinds) {
    const about = "For how long the job has been due that has waited longest; 0 if none is due."
    gauges.set("mailroom_queue_age_seconds", about, ageSeconds(earliestDue[kind], now), { kind })
  }
  gauges.set("mailroom_relay_lag_events", "Events that have yet to become deliveries.", unrelayed)
  const about = "Age of the oldest event that has yet to become deliveries; 0 if there is none."
  gauges.set("mailroom_relay_lag_seconds", about, ageSeconds(oldestUnrelayedAt, now))
}

const setPool = (gauges: Gauges, { connections, busy, waiting }: Core.Pool): void => {
  const about = "Connections of this process to its database."
  gauges.set("mailroom_store_connections", about, busy, { state: "busy" })
  gauges.set("mailroom_store_connections", about, Math.max(0, connections - busy), { state: "idle" })
  gauges.set("mailroom_store_connections_waiting", "Who waits for a connection to the database.", waiting)
}

const setProcess = (gauges: Gauges, now: number): void => {
  const { user, system } = process.cpuUsage()
  gauges.count("process_cpu_seconds_total", "Processor time of this process, user and system.", (user + system) / 1e6)
  gauges.set("process_resident_memory_bytes", "Resident memory of this process.", process.memoryUsage.rss())
  const startedAt = Math.round(now - process.uptime() * 1000)
  gauges.set("process_start_time_seconds", "When this process started, in seconds since 1970.", startedAt / 1000)
}

type MetricsRefusal = RouteUnknown | MetricsUnauthorized

/** The route, and what it answers whom it tells nothing. */
const routeLayer = (access: MetricsAccess, refuse: (refusal: MetricsRefusal) => Effect.Effect<HttpServerResponse.HttpServerResponse>) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const crypto = yield* Crypto
      const { text } = yield* scraping

      /** Compared as their MACs, so that the time it takes tells nothing of the token. */
      const isToken = Effect.fnUntraced(function* (given: string | undefined, token: Redacted.Redacted<string>) {
        const bearer = /^Bearer +(\S+) *$/i.exec(given ?? "")
        if (bearer === null) return false
        const expected = yield* crypto.mac("metrics-token", Redacted.value(token))
        return expected === (yield* crypto.mac("metrics-token", bearer[1]!))
      })

      const refusal = Effect.fnUntraced(function* (authorization: string | undefined) {
        if (access === "open") return null
        if (access === null) return new RouteUnknown()
        return (yield* isToken(authorization, access)) ? null : new MetricsUnauthorized()
      })

      return HttpRouter.add(
        "GET",
        path,
        Effect.gen(function* () {
          const request = yield* HttpServerRequest.HttpServerRequest
          const refused = yield* refusal(request.headers["authorization"])
          if (refused !== null) return yield* refuse(refused)
          return HttpServerResponse.text(yield* text, { contentType: "text/plain; version=0.0.4; charset=utf-8" })
        })
      )
    })
  )

/** On the API's port. */
export const metricsLayer = (access: MetricsAccess) =>
  routeLayer(access, (refusal) =>
    Effect.map(Call, (call) => {
      const { status, body } = call.refuse(refusal)
      return HttpServerResponse.jsonUnsafe(body, { status })
    })
  )

/** On a port that has nothing of the API. */
export const plainLayer = (access: MetricsAccess) =>
  routeLayer(access, ({ _tag }) =>
    Effect.succeed(
      _tag === "RouteUnknown"
        ? HttpServerResponse.empty({ status: 404 })
        : HttpServerResponse.empty({ status: 401, headers: { "www-authenticate": "Bearer" } })
    )
  )
