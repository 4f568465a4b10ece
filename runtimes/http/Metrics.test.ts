import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Metric, Redacted } from "effect"
import * as PrometheusMetrics from "effect/observability/PrometheusMetrics"
import * as SandboxMailProvider from "../../adapters/sandbox/SandboxMailProvider.ts"
import { StoreUnavailable } from "../../core/ports/Store.ts"
import * as Harness from "./harness.ts"
import { send, subscribe, upload } from "./parties.ts"
import * as Prometheus from "./prometheus.ts"
import { answered, broken } from "./receivers.ts"

const scrape = (server: Harness.Harness, headers: Readonly<Record<string, string>> = {}) =>
  Effect.map(server.call("GET", "/metrics", { key: null, headers }), (reply) => ({
    ...reply,
    families: reply.status === 200 ? Prometheus.read(reply.text) : new Map()
  }))

const valueOf = (families: ReadonlyMap<string, Prometheus.Family>, series: string) =>
  families.get(series.replace(/\{.*/, ""))?.samples.get(series)

/** All series whose value is not 0, of families whose name begins so. */
const counted = (families: ReadonlyMap<string, Prometheus.Family>, ...prefixes: ReadonlyArray<string>) =>
  Object.fromEntries(
    [...families]
      .filter(([name, { type }]) => type !== "histogram" && prefixes.some((prefix) => name.startsWith(`mailroom_${prefix}`)))
      .flatMap(([, { samples }]) => [...samples])
      .filter(([, value]) => value !== 0)
  )

const counts = (families: ReadonlyMap<string, Prometheus.Family>, name: string) => families.get(name)?.samples.get(`${name}_count`)

describe("/metrics", () => {
  it.live("counts what has happened, exactly", () =>
    Effect.gen(function* () {
      const sandbox = SandboxMailProvider.make({ outcomeAfter: 0, lateBounceAfter: 0 })
      const server = yield* Harness.start({ sandbox, planId: "tiny", ipRequestsPerMinute: 1_000 })
      const rich = yield* server.party({ planId: "dev" })
      const good = server.receivers.open()
      const bad = server.receivers.open(broken)
      yield* subscribe(server, rich, good, { eventTypes: ["message.delivered"] })
      yield* subscribe(server, rich, bad, { eventTypes: ["message.bounced"] })
      yield* send(server, rich, { to: ["delivered@mail.example", "late-bounce@mail.example"] })
      yield* send(server, rich, { to: ["failed@mail.example"] })
      yield* send(server, rich, { to: [] })
      yield* upload(server, rich)
      yield* server.settle
      for (let request = 1; request <= 4; request++) yield* server.call("GET", "/v1/mailboxes")
      yield* server.call("GET", "/v1/mailboxes", { key: "svc_test_nonsense" })
      yield* server.call("GET", "/v1/nothing")
      yield* server.raw("EHLO mail.example\r\n\r\n")

      const { families } = yield* scrape(server)

      assert.deepStrictEqual(counted(families, "messages", "submissions", "recipients", "webhook", "events", "attachment", "rate", "api"), {
        'mailroom_messages_accepted_total{environment="sandbox"}': 2,
        'mailroom_submissions_total{environment="sandbox",outcome="accepted"}': 2,
        'mailroom_recipients_total{environment="sandbox",status="sent"}': 3,
        'mailroom_recipients_total{environment="sandbox",status="delivered"}': 2,
        'mailroom_recipients_total{environment="sandbox",status="bounced"}': 1,
        'mailroom_recipients_total{environment="sandbox",status="failed"}': 1,
        'mailroom_webhook_handshakes_total{result="verified"}': 2,
        'mailroom_webhook_deliveries_made_total': 3,
        'mailroom_webhook_attempts_total{outcome="success"}': 2,
        'mailroom_webhook_attempts_total{outcome="http_error"}': 5,
        'mailroom_webhook_deliveries_ended_total{status="delivered"}': 2,
        'mailroom_webhook_deliveries_ended_total{status="dead"}': 1,
        'mailroom_events_relayed_total': 12,
        'mailroom_attachment_scans_total{verdict="clean"}': 1,
        'mailroom_rate_limited_total{scope="key"}': 1,
        'mailroom_api_key_verifications_total{result="hash"}': 2,
        'mailroom_api_key_verifications_total{result="proof"}': 8,
        'mailroom_api_key_verifications_total{result="refused"}': 1
      })
      assert.deepStrictEqual(counted(families, "http"), {
        'mailroom_http_requests_total{operation="createWebhookEndpoint",status="2xx"}': 2,
        'mailroom_http_requests_total{operation="sendMessage",status="2xx"}': 2,
        'mailroom_http_requests_total{operation="sendMessage",status="4xx"}': 1,
        'mailroom_http_requests_total{operation="uploadAttachment",status="2xx"}': 1,
        'mailroom_http_requests_total{operation="listMailboxes",status="2xx"}': 3,
        'mailroom_http_requests_total{operation="listMailboxes",status="4xx"}': 2,
        'mailroom_http_requests_total{operation="none",status="4xx"}': 2,
        'mailroom_http_refusals_total{code="invalid_request",operation="sendMessage"}': 1,
        'mailroom_http_refusals_total{code="rate_limited",operation="listMailboxes"}': 1,
        'mailroom_http_refusals_total{code="unauthorized",operation="listMailboxes"}': 1,
        'mailroom_http_refusals_total{code="not_found",operation="none"}': 1,
        'mailroom_http_refusals_total{code="invalid_request",operation="none"}': 1
      })
      assert.strictEqual(counts(families, "mailroom_submission_duration_seconds"), 2)
      assert.strictEqual(counts(families, "mailroom_webhook_attempt_duration_seconds"), 7)
      assert.strictEqual(counts(families, "mailroom_attachment_scan_duration_seconds"), 1)
      const durations = families.get("mailroom_http_request_duration_seconds")?.samples
      assert.strictEqual(durations?.get('mailroom_http_request_duration_seconds_count{operation="sendMessage"}'), 3)
      const jobs = counted(families, "jobs")
      for (const kind of ["submit", "poll", "scan", "deliver"]) {
        const claimed = jobs[`mailroom_jobs_claimed_total{kind="${kind}"}`]
        assert.isTrue(claimed! > 0, kind)
        assert.strictEqual(jobs[`mailroom_jobs_ended_total{kind="${kind}",result="completed"}`], claimed, kind)
      }
    })
  )

  it.live("is text that a scraper reads, and has every series from the start", () =>
    Effect.gen(function* () {
      const server = yield* Harness.start()
      const { status, headers, families } = yield* scrape(server)

      assert.strictEqual(status, 200)
      assert.strictEqual(headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8")
      for (const [name, { type, help }] of families) {
        assert.isNotNull(help, name)
        assert.match(name, /^(mailroom|process)_[a-z_]+$/)
        assert.strictEqual(type === "counter", name.endsWith("_total"), name)
      }
      assert.strictEqual(valueOf(families, 'mailroom_submissions_total{environment="production",outcome="permanent"}'), 0)
      assert.strictEqual(counts(families, "mailroom_submission_duration_seconds"), 0)
    })
  )

  it.live("has nothing of what the program around it counts", () =>
    Effect.gen(function* () {
      const foreign = Metric.counter("host_look_ups_total", { description: "Somebody else's.", incremental: true })
      const server = yield* Harness.start({
        store: (store) => ({
          ...store,
          mailboxes: { ...store.mailboxes, list: (tenantId) => Effect.tap(store.mailboxes.list(tenantId), Metric.update(foreign, 1)) }
        })
      })
      yield* server.call("GET", "/v1/mailboxes")
      const { text } = yield* scrape(server)

      assert.include(text, 'mailroom_http_requests_total{operation="listMailboxes"')
      assert.notInclude(text, "host_look_ups")
    })
  )

  it.live("counts a message once, however often its request is repeated", () =>
    Effect.gen(function* () {
      const server = yield* Harness.start()
      const headers = { "idempotency-key": "the-first-key" }
      for (let again = 0; again < 3; again++) assert.strictEqual((yield* server.send({}, { headers })).status, 202)
      const { families } = yield* scrape(server)

      assert.strictEqual(valueOf(families, 'mailroom_messages_accepted_total{environment="sandbox"}'), 1)
    })
  )

  it.live("counts handshakes that failed by what was wrong with them", () =>
    Effect.gen(function* () {
      const server = yield* Harness.start()
      yield* subscribe(server, server, server.receivers.open(() => Effect.succeed(answered(500))))
      for (const url of ["https://absent.hooks.example/", "https://away.hooks.example/"]) yield* subscribe(server, server, server.receivers.open(), { url })
      const { families } = yield* scrape(server)

      assert.deepStrictEqual(counted(families, "webhook_handshakes"), {
        'mailroom_webhook_handshakes_total{result="network_error"}': 2,
        'mailroom_webhook_handshakes_total{result="non_2xx"}': 1
      })
    })
  )

  it.live("counts who asks for a handshake while as many as may be are under way", () =>
    Effect.gen(function* () {
      const server = yield* Harness.start()
      const silent = server.receivers.open(() => Effect.never)
      yield* Effect.forkScoped(subscribe(server, server, silent))
      yield* Harness.eventually(() => silent.posts.length === 1)
      assert.strictEqual((yield* subscribe(server, server, silent)).status, 429)
      const { families } = yield* scrape(server)

      assert.deepStrictEqual(counted(families, "rate"), { 'mailroom_rate_limited_total{scope="handshake"}': 1 })
    })
  )

  it.live("says what waits, by kind, and how far the relay is behind", () =>
    Effect.gen(function* () {
      const since = Date.now() - 90_000
      const server = yield* Harness.start({
        store: (store) => ({
          ...store,
          backlog: Effect.succeed({
            earliestDue: { submit: since, poll: Date.now() + 90_000, scan: null, deliver: since, parse: null },
            unrelayed: 7,
            oldestUnrelayedAt: since
          })
        })
      })
      const { families } = yield* scrape(server)

      const ages = families.get("mailroom_queue_age_seconds")!.samples
      assert.approximately(ages.get('mailroom_queue_age_seconds{kind="submit"}')!, 90, 30)
      assert.approximately(ages.get('mailroom_queue_age_seconds{kind="deliver"}')!, 90, 30)
      assert.strictEqual(ages.get('mailroom_queue_age_seconds{kind="poll"}'), 0)
      assert.strictEqual(ages.get('mailroom_queue_age_seconds{kind="scan"}'), 0)
      assert.strictEqual(families.get("mailroom_relay_lag_events")!.samples.get("mailroom_relay_lag_events"), 7)
      assert.approximately(families.get("mailroom_relay_lag_seconds")!.samples.get("mailroom_relay_lag_seconds")!, 90, 30)
    })
  )

  for (const [how, answer] of [
    ["away", Effect.fail(new StoreUnavailable({ cause: "confidential" }))],
    ["silent", Effect.uninterruptible(Effect.never)]
  ] as const) {
    it.live(`has the process's own numbers while the store is ${how}`, () =>
      Effect.gen(function* () {
        const server = yield* Harness.start({ store: (store) => ({ ...store, backlog: answer }) })
        yield* server.call("GET", "/v1/mailboxes")
        const { status, families, text } = yield* scrape(server)

        assert.strictEqual(status, 200)
        assert.strictEqual(families.get("mailroom_store_up")?.samples.get("mailroom_store_up"), 0)
        assert.isFalse(families.has("mailroom_queue_age_seconds"))
        assert.isFalse(families.has("mailroom_relay_lag_seconds"))
        assert.strictEqual(valueOf(families, 'mailroom_http_requests_total{operation="listMailboxes",status="2xx"}'), 1)
        assert.notInclude(text, "confidential")
      })
    )
  }

  it.live("tells of the process, its clock and its connections in the units that the names say", () =>
    Effect.gen(function* () {
      const server = yield* Harness.start({ pool: { connections: 7, busy: 3, waiting: 2 }, clockOffset: 1_500 })
      const [before, started] = [process.cpuUsage(), Date.now() / 1_000 - process.uptime()]
      const { families } = yield* scrape(server)
      const after = process.cpuUsage()

      assert.deepStrictEqual(Object.fromEntries(families.get("mailroom_store_connections")!.samples), {
        'mailroom_store_connections{state="busy"}': 3,
        'mailroom_store_connections{state="idle"}': 4
      })
      assert.strictEqual(valueOf(families, "mailroom_store_connections_waiting"), 2)
      assert.strictEqual(valueOf(families, "mailroom_clock_offset_seconds"), 1.5)
      assert.closeTo(valueOf(families, "process_start_time_seconds")!, started, 60)
      const seconds = valueOf(families, "process_cpu_seconds_total")!
      const [least, most] = [before, after].map(({ user, system }) => (user + system) / 1e6)
      assert.isTrue(least! <= seconds && seconds <= most!, `${least} ${seconds} ${most}`)
    })
  )

  it.live("calls off what the store does not answer in time: scrapes go on for as long as it is silent", () =>
    Effect.gen(function* () {
      let [asked, calledOff] = [0, 0]
      const silent = Effect.suspend(() => {
        asked += 1
        return Effect.onInterrupt(Effect.never, () => Effect.sync(() => void (calledOff += 1)))
      })
      const server = yield* Harness.start({ store: (store) => ({ ...store, backlog: silent }) })

      yield* scrape(server)

      yield* Harness.eventually(() => asked > 0 && calledOff === asked)
    })
  )

  it.live("asks the store once for all who scrape at about the same time", () =>
    Effect.gen(function* () {
      let asked = 0
      const server = yield* Harness.start({
        store: (store) => ({ ...store, backlog: Effect.andThen(Effect.sync(() => (asked += 1)), store.backlog) })
      })
      yield* Effect.forEach(Array.from({ length: 20 }), () => scrape(server), { concurrency: 20 })

      assert.isBelow(asked, 10) // 1, unless the machine takes seconds over it
    })
  )

  it.live("holds nothing of a tenant's, whatever a tenant does", () =>
    Effect.gen(function* () {
      const server = yield* Harness.start()
      const receiver = server.receivers.open(broken)
      const { json: hook } = yield* subscribe(server, server, receiver)
      const { json } = yield* server.send({ subject: "confidential-subject", to: ["confidential@mail.example"] })
      const { json: file } = yield* upload(server, server, { filename: "confidential.txt" })
      yield* server.call("GET", "/v1/confidential-path?confidential=query")
      yield* server.call("GET", "/v1/messages?cursor=confidential")
      yield* server.call("POST", "/v1/webhook-endpoints", { body: { url: receiver.url, eventTypes: ["confidential.type"] } })
      yield* server.settle
      const { text, families } = yield* scrape(server)

      const ids = [server.tenantId, server.application.id, server.mailbox.id, json.id, file.attachment.id, hook.endpoint.id]
      const others = ["confidential", "mail.example", "hooks.example", "127.0.0.1", server.key]
      for (const told of [...ids, ...others]) assert.notInclude(text, told)
      assert.notMatch(text, /[0-9a-f]{8}-[0-9a-f]{4}/)
      const series = [...families.values()].flatMap(({ samples }) => [...samples.keys()])
      const labels = new Set(series.flatMap((key) => [...key.matchAll(/[{,]([a-z_]+)=/g)].map(([, label]) => label)))
      const known = ["code", "environment", "kind", "le", "log", "operation", "outcome", "result", "scope", "status", "verdict", "version"]
      assert.deepStrictEqual(labels, new Set(known))
    })
  )

  it.live("stands outside all guards", () =>
    Effect.gen(function* () {
      const server = yield* Harness.start({ ipRequestsPerMinute: 1 })
      yield* server.call("GET", "/v1/mailboxes")
      assert.strictEqual((yield* server.call("GET", "/v1/mailboxes")).status, 429)

      for (let again = 1; again <= 3; again++) {
        const { status, headers } = yield* scrape(server)
        assert.strictEqual(status, 200)
        assert.isFalse(headers.has("ratelimit-limit"))
      }
    })
  )

  it.live("is for who has its token, where it has one, and not there for anybody where it has none", () =>
    Effect.gen(function* () {
      const token = "a-token-of-the-scraper"
      const guarded = yield* Harness.start({ metrics: Redacted.make(token) })
      const closed = yield* Harness.start({ metrics: null })

      for (const scheme of ["Bearer", "bearer", "BEARER "]) {
        assert.strictEqual((yield* scrape(guarded, { authorization: `${scheme} ${token}` })).status, 200, scheme)
      }
      for (const authorization of [`Bearer ${token}x`, `Bearer ${guarded.key}`, `Basic ${token}`, token, ""]) {
        const refused = yield* scrape(guarded, { authorization })
        assert.deepStrictEqual([refused.status, refused.json.code, refused.headers.get("www-authenticate")], [401, "unauthorized", "Bearer"])
      }
      const unknown = yield* closed.call("GET", "/v1/nothing", { key: null })
      const { status, json } = yield* scrape(closed, { authorization: `Bearer ${token}` })
      assert.strictEqual(status, 404)
      assert.deepStrictEqual({ ...json, requestId: "" }, { ...unknown.json, requestId: "" })
    })
  )
})

describe("The text format", () => {
  it("escapes what a label or a description may hold", () => {
    const context = Context.make(Metric.MetricRegistry, new Map())
    Metric.counter("odd_total", { description: "a \\ and\na line", attributes: { said: 'a "quote", a \\ and\na line' } }).updateUnsafe(2, context)
    Metric.histogram("wait_seconds", { boundaries: [1e-7, 0.5, 1] }).updateUnsafe(0.7, context)
    const families = Prometheus.read(PrometheusMetrics.formatUnsafe(context))

    assert.deepStrictEqual([...families.get("odd_total")!.samples], [['odd_total{said="a \\"quote\\", a \\\\ and\\na line"}', 2]])
    assert.strictEqual(families.get("odd_total")!.help, "a \\\\ and\\na line")
    assert.deepStrictEqual([...families.get("wait_seconds")!.samples.values()], [0, 0, 1, 1, 0.7, 1])
  })

  for (const [what, text] of [
    ["no line feed at its end", "# TYPE a_total counter\na_total 1"],
    ["a sample without a type", "a_total 1\n"],
    ["a family in two places", "# TYPE a counter\na 1\n# TYPE b gauge\nb 1\na 2\n"],
    ["a series twice", '# TYPE a gauge\na{x="1",y="2"} 1\na{y="2",x="1"} 1\n'],
    ["a quote that is not escaped", '# TYPE a gauge\na{x="1"2"} 1\n'],
    ["buckets that fall", '# TYPE a histogram\na_bucket{le="1"} 2\na_bucket{le="+Inf"} 1\na_sum 1\na_count 1\n'],
    ["buckets without +Inf", '# TYPE a histogram\na_bucket{le="1"} 1\na_sum 1\na_count 1\n'],
    ["a count that is not its last bucket", '# TYPE a histogram\na_bucket{le="+Inf"} 1\na_sum 1\na_count 2\n']
  ] as const) {
    it(`does not allow ${what}`, () => {
      assert.throws(() => Prometheus.read(text))
    })
  }
})
