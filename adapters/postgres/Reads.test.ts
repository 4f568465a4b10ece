import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as Fixtures from "../../conformance/fixtures.ts"
import * as Law from "../../conformance/StoreLaw.ts"
import type { Address, DomainName } from "../../core/model/Address.ts"
import type { IdempotencyKey } from "../../core/model/IdempotencyKey.ts"
import type { DomainId } from "../../core/model/Ids.ts"
import { jobKinds, leaseMax, type Job } from "../../core/ports/JobQueue.ts"
import type { Change } from "../../core/ports/Store.ts"
import * as CommitBatch from "./CommitBatch.ts"
import { Database } from "./Database.ts"
import * as Forget from "./Forget.ts"
import * as Jobs from "./Jobs.ts"
import * as Reads from "./Reads.ts"
import * as Rows from "./Rows.ts"
import * as TestDatabase from "./TestDatabase.ts"

interface Statement {
  readonly text: string
  readonly parameters: ReadonlyArray<{ readonly oid: number; readonly value: unknown }>
}

const realm = Fixtures.realm()
const id = Fixtures.freshId<never>()
const limit = 10

/** Every read, asked in each way that has a text of its own; `sorts`: what the few that it finds are sorted by. */
const questions: ReadonlyArray<{
  readonly name: string
  readonly ask: (reads: Reads.Reads) => Effect.Effect<unknown, unknown>
  readonly sorts?: string
}> = [
  { name: "keys by public id", ask: ({ credentials }) => credentials.byPublicId(["a"]) },
  { name: "an API key", ask: ({ credentials }) => credentials.apiKey(id, id) },
  { name: "an application", ask: ({ credentials }) => credentials.application(id, id) },
  { name: "a tenant", ask: ({ credentials }) => credentials.tenant(id) },
  { name: "all tenants", ask: ({ credentials }) => credentials.tenants({ after: id, limit }) },
  { name: "a tenant's applications", ask: ({ credentials }) => credentials.applications(id) },
  { name: "a tenant's keys", ask: ({ credentials }) => credentials.apiKeys(id) },
  { name: "the plans", ask: ({ credentials }) => credentials.plans },
  { name: "a mailbox", ask: ({ mailboxes }) => mailboxes.get(id, id) },
  { name: "a tenant's mailboxes", ask: ({ mailboxes }) => mailboxes.list(id) },
  { name: "a page of a tenant's mailboxes", ask: ({ mailboxes }) => mailboxes.page(id, { domainId: null, after: "a" as Address, limit }) }, // any text
  { name: "a page of a domain's mailboxes", ask: ({ mailboxes }) => mailboxes.page(id, { domainId: id, after: null, limit }) },
  { name: "a page of a tenant's domains", ask: ({ domains }) => domains.page(id, { after: null, limit }) },
  { name: "a domain", ask: ({ domains }) => domains.get(id, id) },
  { name: "a tenant's domains", ask: ({ domains }) => domains.list(id), sorts: "domain_id" },
  {
    name: "who mail is for",
    ask: ({ mailboxes }) => mailboxes.addressee({ address: Fixtures.address(), untagged: Fixtures.address(), domain: Fixtures.domainName() })
  },
  { name: "domains by name", ask: ({ domains }) => domains.named([Fixtures.domainName()]) },
  { name: "a message by its id alone", ask: ({ messages }) => messages.anywhere(id) },
  { name: "a message", ask: ({ messages }) => messages.get(realm, id) },
  { name: "a message's content", ask: ({ messages }) => messages.content(realm, id) },
  {
    name: "what accepting asks",
    ask: ({ messages }) =>
      messages.admission({ tenantId: id, mailboxId: id, applicationId: id, idempotencyKey: "key" as IdempotencyKey, at: 5 }) // any text
  },
  { name: "what submitting asks", ask: ({ messages }) => messages.outbound(realm, id) },
  { name: "a page of messages", ask: ({ messages }) => messages.page(realm, { mailboxId: null, before: 5n, limit }) },
  { name: "a page of a mailbox", ask: ({ messages }) => messages.page(realm, { mailboxId: id, before: 5n, limit }) },
  { name: "a submission's message", ask: ({ messages }) => messages.bySubmission(Law.submissionRef()) },
  { name: "messages queued with an attachment", ask: ({ messages }) => messages.queuedWith(realm, id) },
  { name: "an attachment", ask: ({ attachments }) => attachments.get(realm, id) },
  { name: "many attachments", ask: ({ attachments }) => attachments.many(realm, [id]) },
  { name: "expired attachments", ask: ({ attachments }) => attachments.expired(5, limit) },
  { name: "a page of events", ask: ({ events }) => events.page(realm, id, { start: Law.behind({ position: 5n, occurredAt: 5 }), limit }) },
  { name: "a page of events since", ask: ({ events }) => events.page(realm, id, { start: { _tag: "Since", at: 5 }, limit }) },
  { name: "a shard's log", ask: ({ events }) => events.readLog(3, 5n, limit) },
  { name: "the shards behind", ask: ({ relay }) => relay.behind },
  { name: "an endpoint", ask: ({ endpoints }) => endpoints.get(realm, id) },
  { name: "an application's endpoints", ask: ({ endpoints }) => endpoints.list(realm, id) },
  { name: "enabled endpoints", ask: ({ endpoints }) => endpoints.enabled([id]) },
  // One page for each version in use, and these merged.
  { name: "endpoints sealed below", ask: ({ endpoints }) => endpoints.sealedBelow(5, { after: id, limit }), sorts: "id" },
  { name: "a delivery", ask: ({ deliveries }) => deliveries.get(realm, id) },
  { name: "a delivery's body", ask: ({ deliveries }) => deliveries.body(realm, id) },
  { name: "a delivery on its way", ask: ({ deliveries }) => deliveries.outgoing(realm, id) },
  { name: "a page of deliveries", ask: ({ deliveries }) => deliveries.page(realm, { applicationId: id, endpointId: null, limit }) },
  { name: "a page of an endpoint", ask: ({ deliveries }) => deliveries.page(realm, { applicationId: id, endpointId: id, limit }) },
  { name: "dead deliveries", ask: ({ deliveries }) => deliveries.deadSince(realm, id, 5, limit) },
  { name: "a reservation", ask: ({ reservations }) => reservations.get(id, "key" as IdempotencyKey, 5) }, // any text
  { name: "a suppressed address", ask: ({ suppressions }) => suppressions.among(realm, [Fixtures.address()]) },
  { name: "suppressed addresses", ask: ({ suppressions }) => suppressions.among(realm, [Fixtures.address(), Fixtures.address("charles")]) },
  // Of one submission there are a few for each recipient.
  { name: "kept notifications", ask: ({ notifications }) => notifications.kept(Law.submissionRef()), sorts: "kept_ms" },
  { name: "matched notifications", ask: ({ notifications }) => notifications.matched({ after: "5 5", limit }), sorts: "kept_ms" },
  { name: "a page of the audit trail", ask: ({ audit }) => audit.page(id, limit) },
  { name: "a page of requests", ask: ({ audit }) => audit.requests(id, limit) },
  { name: "a page of payloads", ask: ({ audit }) => audit.payloads(null, limit) },
  { name: "a page of a provider's payloads", ask: ({ audit }) => audit.payloads("ses", limit) },
  { name: "referenced blobs", ask: ({ blobs }) => blobs.referenced(id, ["a"]) },
  ...jobKinds.map((kind) => ({
    name: `what is due of ${kind}`,
    ask: ({ due }: Reads.Reads) => due(kind, { dueBefore: 5, after: `3 ${id}`, limit })
  })),
  { name: "the backlog", ask: ({ backlog }) => backlog }
]

/** Reads that note what they ask the server. */
const watched = Effect.gen(function* () {
  const database = yield* Database
  const asked: Array<Statement> = []
  const rows = <Row>(text: string, parameters: ReadonlyArray<unknown> = []) =>
    Effect.suspend(() => {
      asked.push({ text, parameters: parameters as Statement["parameters"] }) // the reads tell their types
      return database.rows<Row>(text, parameters)
    })
  const commit = CommitBatch.make({ ...database, rows }, { jobsOffered: true })
  return { reads: Reads.make({ ...database, rows }, { jobsOffered: true }), commit, asked }
})

/** What writes look up by an id and the realm that it must be of. */
const writes: ReadonlyArray<{ readonly name: string; readonly change: Change }> = [
  { name: "a message's content anew", change: { _tag: "PutContent", realm, messageId: id, content: Fixtures.content(Fixtures.message(realm)) } },
  { name: "a delivery's body", change: { _tag: "PutBody", realm, deliveryId: id, body: "" } }
]

/** What names a row is looked at behind an index, or all that a tenant has in an index is walked along. */
const passesOver = /Filter: .*(\bid = |= ANY|\bprovider\b)|Index Cond: .*tenant_id = .*\bid = |Bitmap/

interface Plan {
  readonly "Actual Rows": number
  readonly "Actual Loops": number
  readonly "Rows Removed by Filter"?: number
  readonly Plans?: ReadonlyArray<Plan>
}

/** The rows that all steps of a plan have come by. */
const seen = (plan: Plan): number =>
  (plan["Actual Rows"] + (plan["Rows Removed by Filter"] ?? 0)) * plan["Actual Loops"] + (plan.Plans ?? []).reduce((sum, one) => sum + seen(one), 0)

/** Two thousand of each for one tenant, and one for five thousand. */
const uneven = [
  `insert into mailroom.domain (id, tenant_id, domain, version, record) select i, t, n, 1, '{}' from skewed`,
  `insert into mailroom.mailbox (id, tenant_id, domain_id, address, folded_address, version, record) select i, t, i, n, n, 1, '{}' from skewed`,
  `insert into mailroom.attachment (id, tenant_id, environment, version, sha256, record) select i, t, 'sandbox', 1, n, '{}' from skewed`,
  `insert into mailroom.message (id, tenant_id, environment, mailbox_id, version, created_us, record)
     select i, t, 'sandbox', i, 1, 0, '{}' from skewed`,
  `insert into mailroom.queued_attachment select i, i from skewed`,
  `insert into mailroom.delivery (id, tenant_id, environment, application_id, endpoint_id, version, created_ms, record)
     select i, t, 'sandbox', t, t, 1, 0, '{}' from skewed`,
  `insert into mailroom.suppression select t, 'sandbox', n, '{}' from skewed`,
  `insert into mailroom.payload (provider, id, received_ms, record) select 'ses', n, 0, '{}' from skewed`
]
const skewed = `with skewed as (
  select gen_random_uuid() as i, case when n > 2000 then gen_random_uuid() else '${realm.tenantId}' end as t, n::text as n from generate_series(1, 7000) n
) `

layer(TestDatabase.layer({ connectionsMax: 1 }))("the reads", (it) => {
  it.effect("ask one statement each", () =>
    Effect.gen(function* () {
      const { reads, asked } = yield* watched
      for (const { name, ask } of questions) {
        asked.length = 0

        yield* ask(reads)

        assert.lengthOf(asked, 1, name)
      }
    })
  )

  it.effect("find their rows by an index, and a page in its order", () =>
    Effect.gen(function* () {
      const { reads, asked } = yield* watched
      const { sql } = yield* Database
      // With these off, the planner passes over a table or sorts only where no index serves, however full the tables are.
      yield* sql`set enable_seqscan = off`
      yield* sql`set enable_sort = off`
      yield* sql`set enable_incremental_sort = off`
      yield* sql`set enable_bitmapscan = off`
      for (const { name, ask, sorts } of questions) {
        asked.length = 0
        yield* ask(reads)
        const { text, parameters } = asked[0]!
        const plan = yield* sql.unsafe<{ "QUERY PLAN": string }>(`explain (costs off) ${text}`, parameters)
        const lines = plan.map((row) => row["QUERY PLAN"])

        const passes = lines.filter((line) => /Seq Scan/.test(line) && !/ on (relay|log_head)\b/.test(line))
        const keys = lines.flatMap((line, index) =>
          /(^|-> +)Sort$/.test(line) ? lines.slice(index).find((detail) => detail.includes("Sort Key:"))! : []
        )
        const sorted = keys.filter((key) => sorts === undefined || !key.includes(sorts))
        assert.deepStrictEqual([passes, sorted], [[], []], `${name}\n${lines.join("\n")}`)
      }
      yield* sql`reset all`
    })
  )

  it.effect("name their tenant in the statement, but for those that are asked of all", () =>
    Effect.gen(function* () {
      const { reads, asked } = yield* watched
      const ofAll: Array<string> = []
      for (const { name, ask } of questions) {
        asked.length = 0
        yield* ask(reads)
        const { text, parameters } = asked[0]!

        const tenant = /tenant_id = (?:\$|asked\.key_)(\d)/.exec(text)?.[1]
        if (tenant === undefined) ofAll.push(name)
        else assert.match(JSON.stringify(parameters[Number(tenant) - 1]!.value), new RegExp(`${id}|${realm.tenantId}`), name)
      }

      assert.deepStrictEqual(ofAll, [
        "keys by public id",
        "a tenant",
        "all tenants",
        "the plans",
        "who mail is for",
        "domains by name",
        "a message by its id alone",
        "a submission's message",
        "expired attachments",
        "a shard's log",
        "the shards behind",
        "enabled endpoints",
        "endpoints sealed below",
        "a reservation",
        "kept notifications",
        "matched notifications",
        "a page of payloads",
        "a page of a provider's payloads",
        ...jobKinds.map((kind) => `what is due of ${kind}`),
        "the backlog"
      ])
    })
  )

  it.effect("are prepared once for each text, whatever they are asked", () =>
    Effect.gen(function* () {
      const { reads, asked } = yield* watched
      const { credentials, messages, attachments, events, deliveries, endpoints, due, blobs } = reads
      const other = Fixtures.freshId<never>()
      const twins: ReadonlyArray<ReadonlyArray<Effect.Effect<unknown, unknown>>> = [
        [credentials.byPublicId(["a"]), credentials.byPublicId(["b"])],
        [credentials.tenants({ after: null, limit: 1 }), credentials.tenants({ after: other, limit: 1e12 })],
        [messages.get(realm, id), messages.get(Fixtures.otherEnvironment(realm), "none" as never)],
        [null, 5n, 1n << 60n].map((before) => messages.page(realm, { mailboxId: null, before, limit })),
        [attachments.many(realm, []), attachments.many(realm, [id, other])],
        [events.page(realm, id, { start: null, limit }), events.page(realm, id, { start: Law.behind({ position: 9n, occurredAt: 9 }), limit: 1 })],
        [endpoints.enabled([]), endpoints.enabled(Law.times(200, () => Fixtures.freshId<never>()))],
        [-1e12, 5, Number.MAX_SAFE_INTEGER, Infinity].map((since) => deliveries.deadSince(realm, id, since, limit)),
        [
          due("deliver", { dueBefore: Infinity, after: null, limit: 1_000 }),
          due("deliver", { dueBefore: -5, after: `-1000000000000 ${id}`, limit: 0 })
        ],
        [blobs.referenced(id, []), blobs.referenced(id, ["a", "a"])]
      ]
      for (const asks of twins) {
        asked.length = 0
        for (const ask of asks) yield* ask

        const prepared = asked.map(({ text, parameters }) => JSON.stringify([text, parameters.map(({ oid }) => oid)]))
        assert.lengthOf(asked, asks.length)
        assert.lengthOf(new Set(prepared), 1)
      }
    })
  )

  it.effect("answer a text that is no identifier as what does not exist", () =>
    Effect.gen(function* () {
      const reads = Reads.make(yield* Database, { jobsOffered: true })
      const none = { ...realm, tenantId: "nobody" as never }
      for (const text of ["", "nobody", "'; drop schema mailroom; --", "a\u0000", "\ud800", realm.tenantId.slice(1)]) {
        const wrong = text as never // whatever the place asks for

        assert.isNull(yield* reads.messages.get(realm, wrong))
        assert.isNull(yield* reads.messages.content(none, wrong))
        assert.isNull(yield* reads.credentials.tenant(wrong))
        assert.isNull(yield* reads.reservations.get(wrong, wrong, 0))
        assert.isNull(yield* reads.messages.bySubmission({ provider: text, providerMessageId: text }))
        assert.isNull(yield* reads.deliveries.body(realm, wrong))
        assert.deepStrictEqual(yield* reads.attachments.many(realm, [wrong, id]), [])
        assert.deepStrictEqual(yield* reads.endpoints.enabled([wrong, id]), [])
        assert.deepStrictEqual(yield* reads.credentials.byPublicId([text, text]), [])
        assert.deepStrictEqual(yield* reads.suppressions.among(none, [wrong]), [])
        assert.deepStrictEqual(yield* reads.notifications.kept({ provider: text, providerMessageId: text }), [])
        assert.deepStrictEqual(yield* reads.blobs.referenced(wrong, [text]), [])
        assert.deepStrictEqual(yield* reads.messages.page(none, { mailboxId: wrong, before: null, limit }), [])
        assert.deepStrictEqual((yield* reads.events.page(none, wrong, { start: null, limit })).events, [])
      }
    })
  )

  it.effect("show a quiet environment, or a late time, without passing over all the rest", () =>
    Effect.gen(function* () {
      const { reads, asked } = yield* watched
      const { sql } = yield* Database
      const busy = Fixtures.realm("production")
      const quiet = Fixtures.otherEnvironment(busy)
      const events = Law.times(5_000, (index) => ({
        ...Fixtures.queuedEvent(Fixtures.message(busy), { occurredAt: index, ...(index % 1_000 === 0 && { environment: null }) }),
        shard: 1,
        position: BigInt(index + 1),
        latestAt: index
      }))
      const { name, columns } = Rows.event
      yield* sql.unsafe(
        `insert into ${name} (${Rows.names(columns)}) select * from ${Rows.given(columns)}`,
        Rows.parameters(columns, events)
      )
      yield* sql`analyze mailroom.event`

      const pagesRead = Effect.fnUntraced(function* () {
        const { text, parameters } = asked.at(-1)!
        const plan = yield* sql.unsafe<{ "QUERY PLAN": string }>(`explain (analyze, buffers, costs off) ${text}`, parameters)
        return Number(/hit=(\d+)/.exec(plan.map((row) => row["QUERY PLAN"]).find((line) => line.includes("Buffers"))!)![1])
      })

      for (const start of [null, Law.behind({ position: 10n, occurredAt: 9 }), { _tag: "Since", at: 10 }] as const) {
        const { events: found } = yield* reads.events.page(quiet, id, { start, limit: 100 })
        assert.deepStrictEqual(
          found.map((event) => [event.environment, event.occurredAt]),
          (start === null ? [0, 1_000, 2_000, 3_000, 4_000] : [1_000, 2_000, 3_000, 4_000]).map((at) => [null, at])
        )
        assert.isBelow(yield* pagesRead(), 40)
      }
      const { events: late } = yield* reads.events.page(busy, id, { start: { _tag: "Since", at: 4_990 }, limit: 100 })
      assert.deepStrictEqual(late.map(({ occurredAt }) => occurredAt), Law.times(10, (index) => 4_990 + index))
      assert.isBelow(yield* pagesRead(), 40)
    })
  )

  it.effect("begin a log behind what was forgotten, and forget on from there, without passing over what an index still has of it", () =>
    Effect.gen(function* () {
      const { reads, commit, asked } = yield* watched
      const { sql } = yield* Database
      const of = Law.realmInShard(5)
      yield* sql`insert into mailroom.event (shard, position, tenant_id, environment, occurred_ms, latest_ms, record)
        select 5, n, ${of.tenantId}::uuid, ${of.environment}, n, n, '{}' from generate_series(1, 20000) n`
      const pagesRead = Effect.fnUntraced(function* ({ text, parameters }: Statement) {
        const plan = yield* sql.unsafe<{ "QUERY PLAN": string }>(`explain (analyze, buffers, costs off) ${text}`, parameters)
        return Number(/hit=(\d+)/.exec(plan.map((row) => row["QUERY PLAN"]).find((line) => line.includes("Buffers"))!)![1])
      })

      const forgetting = Forget.statement({ _tag: "Forget", what: "events", before: 0, limit: 10 })
      assert.isBelow(yield* pagesRead(forgetting), 200, "forgetting none of many")

      yield* commit([{ changes: [Law.forget("events", 19_991, 30_000)], jobs: [], now: 0 }])

      for (const start of [null, Law.behind({ position: 3n, occurredAt: 3 }), { _tag: "Since", at: 3 }] as const) {
        const { events: found, beginning: known } = yield* reads.events.page(of, id, { start, limit: 100 })
        assert.strictEqual(known, start === null ? "whole" : "cut")
        assert.deepStrictEqual(found.map(({ position }) => position), Law.times(10, (index) => BigInt(19_991 + index)))
        const { text, parameters } = asked.at(-1)!
        assert.isBelow(yield* pagesRead({ text, parameters }), 40, start?._tag ?? "from the oldest")
      }
      assert.isBelow(yield* pagesRead(forgetting), 200, "forgetting")

      yield* sql`update mailroom.log_front set occurred_ms = null` // as a version of before leaves it
      const since = reads.events.page(of, id, { start: { _tag: "Since", at: 3 }, limit: 100 })
      assert.strictEqual((yield* since).beginning, "whole")
      yield* commit([{ changes: [Law.forget("events", 19_992, 30_000)], jobs: [], now: 0 }])
      assert.strictEqual((yield* since).beginning, "cut")

      yield* sql`delete from mailroom.event`
      yield* sql.unsafe("vacuum analyze mailroom.event").unprepared
      yield* reads.events.page(of, id, { start: Law.behind({ position: 5n, occurredAt: 5 }), limit })
      const { text, parameters } = asked.at(-1)!
      const plan = yield* sql.unsafe(`explain (costs off) ${text}`, parameters)
      assert.notInclude(JSON.stringify(plan), "event_time", "an event is looked up by its place, also by a plan that was made while there was none")
    })
  )

  it.effect("show a page of mailboxes, or of domains, without passing over those behind it or of others", () =>
    Effect.gen(function* () {
      const { reads, asked } = yield* watched
      const { sql } = yield* Database
      const { tenantId } = Fixtures.realm()
      const idOf = (number: number) => `00000000-0000-7000-8000-${String(number).padStart(12, "0")}` as DomainId // in the form of a UUID
      yield* sql`insert into mailroom.domain (id, tenant_id, domain, version, record)
        select ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, ${tenantId}::uuid, 'page' || n, 1, '{}' from generate_series(1000, 3999) n`
      yield* sql`insert into mailroom.mailbox (id, tenant_id, domain_id, address, folded_address, version, record)
        select gen_random_uuid(), ${tenantId}::uuid,
          ('00000000-0000-7000-8000-' || lpad((case when n % 1000 = 0 then 1000 + n / 1000 else 3999 end)::text, 12, '0'))::uuid,
          'page' || n, 'page' || n, 1, '{}' from generate_series(10000, 29999) n`
      const rowsRead = Effect.fnUntraced(function* () {
        const { text, parameters } = asked.at(-1)!
        const [row] = yield* sql.unsafe<{ "QUERY PLAN": ReadonlyArray<{ readonly Plan: Plan }> }>(`explain (analyze, format json) ${text}`, parameters)
        return seen(row!["QUERY PLAN"][0]!.Plan)
      })

      for (const known of [false, true]) {
        if (known) yield* sql`analyze mailroom.mailbox, mailroom.domain`
        const behind = { after: "page15000" as Address, limit: 10 } // any text
        assert.lengthOf(yield* reads.mailboxes.page(tenantId, { ...behind, domainId: null }), 10)
        assert.isBelow(yield* rowsRead(), 50)
        assert.lengthOf(yield* reads.mailboxes.page(tenantId, { ...behind, domainId: idOf(1020) }), 1)
        assert.isBelow(yield* rowsRead(), 50)
        const found = yield* reads.domains.page(tenantId, { after: "page1009" as DomainName, limit: 10 }) // any text
        assert.deepStrictEqual(found.map(({ mailboxCount }) => mailboxCount), Law.times(10, () => 1))
        assert.isBelow(yield* rowsRead(), 100)
      }
    })
  )

  it.effect("count a tenant's mailboxes without comparing each domain with all the others", () =>
    Effect.gen(function* () {
      const { reads, asked } = yield* watched
      const { sql } = yield* Database
      const { tenantId } = Fixtures.realm()
      yield* sql`insert into mailroom.domain (id, tenant_id, domain, version, record)
        select md5(n::text)::uuid, ${tenantId}::uuid, 'n' || n, 1, '{}' from generate_series(1, 50) n`
      yield* sql`insert into mailroom.mailbox (id, tenant_id, domain_id, address, folded_address, version, record)
        select gen_random_uuid(), ${tenantId}::uuid, md5((1 + n % 40)::text)::uuid, 'n' || n, 'n' || n, 1, '{}' from generate_series(1, 80) n`

      const found = yield* reads.domains.list(tenantId)

      assert.deepStrictEqual([0, 2].map((count) => found.filter(({ mailboxCount }) => mailboxCount === count).length), [10, 40])
      const { text, parameters } = asked[0]!
      const plan = yield* sql.unsafe<{ "QUERY PLAN": string }>(`explain (analyze, costs off) ${text}`, parameters)
      assert.deepStrictEqual(plan.map((row) => row["QUERY PLAN"]).filter((line) => /Rows Removed/.test(line)), [])
    })
  )

  it.effect("name a place behind a page of what is due only where there is more", () =>
    Effect.gen(function* () {
      const reads = Reads.make(yield* Database, { jobsOffered: true })
      const { sql } = yield* Database
      const { name, columns } = Rows.tables.attachment
      const waiting = Law.times(3, (index) => Fixtures.attachment(realm, { nextScanAt: index >> 1 }))
      yield* sql.unsafe(
        `insert into ${name} (${Rows.names(columns)}) select * from ${Rows.given(columns)}`,
        Rows.parameters(columns, waiting)
      )
      const page = (after: string | null, limit: number) => reads.due("scan", { dueBefore: Infinity, after, limit })

      const first = yield* page(null, 2)
      assert.lengthOf(first.jobs, 2)
      assert.isNotNull(first.next)
      const second = yield* page(first.next, 1)
      assert.deepStrictEqual(second.jobs.map(({ subject, dueAt }) => [subject, dueAt]), [[waiting[2]!.id, 1]])
      assert.isNull(second.next)
      assert.isNull((yield* page(null, 3)).next)
    })
  )

  it.effect("pass over what is due and has its job of that kind, where jobs are in the same database", () =>
    Effect.gen(function* () {
      const database = yield* Database
      const { sql } = database
      const { name, columns } = Rows.tables.attachment
      const [held, late, lost, leased, strayed] = Law.times(5, () => Fixtures.attachment(realm, { nextScanAt: -7 }))
      yield* sql.unsafe(
        `insert into ${name} (${Rows.names(columns)}) select * from ${Rows.given(columns)}`,
        Rows.parameters(columns, [held!, late!, lost!, leased!, strayed!])
      )
      const jobOf = (subject: string, dueAt: number): Job => ({ kind: "scan", subject, realm, group: "group", dueAt })
      const inTime = [held!, leased!, strayed!].map((one) => jobOf(one.id, -7))
      const offered = [...inTime, jobOf(late!.id, -6), { ...jobOf(lost!.id, -7), kind: "parse" } as const]
      yield* Jobs.offer((text, parameters) => sql.unsafe(text, parameters), offered, 0)
      // As a clock that was ahead leaves it: nobody would come to it.
      for (const [one, at] of [[leased!, leaseMax], [strayed!, leaseMax + 1]] as const) {
        yield* sql`update mailroom.job set at_ms = ${at} where subject = ${one.id}`
      }
      const found = (jobsOffered: boolean) =>
        Effect.map(Reads.make(database, { jobsOffered }).due("scan", { dueBefore: -7, after: null, limit: 9 }), ({ jobs }) =>
          jobs.map(({ subject }) => subject)
        )

      assert.sameMembers(yield* found(true), [late!.id, lost!.id, strayed!.id])
      assert.sameMembers(yield* found(false), [held!, late!, lost!, leased!, strayed!].map((one) => one.id))
    })
  )

  it.effect("find by an id, or one of many texts, without passing over what else a tenant has, whatever is known of the tables", () =>
    Effect.gen(function* () {
      const { reads, commit, asked } = yield* watched
      const { sql } = yield* Database
      const all = [
        ...questions.map(({ name, ask }) => ({ name, run: ask(reads) })),
        ...writes.map(({ name, change }) => ({ name, run: commit([{ changes: [change], jobs: [], now: 0 }]) }))
      ]
      const passing = Effect.fnUntraced(function* () {
        const found: Array<string> = []
        for (const { name, run } of all) {
          asked.length = 0
          yield* run as Effect.Effect<unknown, unknown>
          const lines = yield* TestDatabase.genericPlan(asked[0]!.text, asked[0]!.parameters)
          found.push(...lines.filter((line) => passesOver.test(line)).map((line) => `${name}: ${line.trim()}`))
        }
        return found
      })

      for (const table of Object.values(Rows.tables)) yield* sql.unsafe(`truncate ${table.name}`)
      const ofEmpty = yield* passing()
      for (const statement of uneven) yield* sql.unsafe(`${skewed} ${statement}`)
      const ofUnknown = yield* passing()
      yield* sql`analyze`
      const ofKnown = yield* passing()

      assert.deepStrictEqual({ ofEmpty, ofUnknown, ofKnown }, { ofEmpty: [], ofUnknown: [], ofKnown: [] })
    })
  )
})
