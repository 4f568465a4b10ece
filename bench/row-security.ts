/**
 * What row-level security would cost the reads of a tenant: the product's own reads of a message and of a page of them,
 * beside the same under a policy that knows the tenant from a setting, made in the same statement.
 */
import { Duration, Effect, Exit, Layer, Redacted, Scope } from "effect"
import * as Database from "../adapters/postgres/Database.ts"
import { migrate } from "../adapters/postgres/Migrations.ts"
import * as PrivatePostgres from "../adapters/postgres/PrivatePostgres.ts"
import * as Reads from "../adapters/postgres/Reads.ts"
import * as Rows from "../adapters/postgres/Rows.ts"
import * as Fixtures from "../conformance/fixtures.ts"
import { median, spread } from "./Load.ts"
import { cpuMs } from "./Processor.ts"

const rounds = Number(process.env["BENCH_ROUNDS"] ?? 5)
const durationMs = Number(process.env["BENCH_ROUND_MS"] ?? 3000)
const messageCount = Number(process.env["BENCH_MESSAGES"] ?? 100_000)
const readers = 4
/** Turns that each side has in a round. */
const slices = 10

const realms = Array.from({ length: 100 }, () => Fixtures.realm())
const messages = Array.from({ length: messageCount }, (_, index) =>
  Fixtures.message(realms[index % realms.length]!, { createdAt: BigInt(index), snippet: "The engine weaves algebraic patterns. ".repeat(5) })
)

const scope = Scope.makeUnsafe()
const within = <A, E>(effect: Effect.Effect<A, E, Scope.Scope>): Promise<A> => Effect.runPromise(Effect.provideService(effect, Scope.Scope, scope))
const postgres = await within(PrivatePostgres.open({ settings: ["shared_buffers=512MB"] }))

/** Row-level security leaves out the tables' owner, so the guarded reads have a role of their own. */
const prepare = Effect.gen(function* () {
  const { sql } = yield* Database.Database
  yield* migrate
  const { name, columns } = Rows.tables.message
  for (let begin = 0; begin < messages.length; begin += 5_000) {
    yield* sql.unsafe(
      `insert into ${name} (${Rows.names(columns)}) select * from ${Rows.given(columns)}`,
      Rows.parameters(columns, messages.slice(begin, begin + 5_000))
    )
  }
  yield* sql`alter table mailroom.message enable row level security`
  yield* sql`create policy tenant on mailroom.message using (tenant_id = nullif(current_setting('mailroom.tenant', true), '')::uuid)`
  yield* sql`create role reader login`
  yield* sql`grant usage on schema mailroom to reader`
  yield* sql`grant select on mailroom.message to reader`
  yield* sql`vacuum analyze mailroom.message`
}).pipe(Effect.provideService(Database.StatementDeadline, Duration.minutes(5)))

/** The same statement, with the tenant set for it alone, and read back, so that the one comes before the other. */
const guarded = (text: string): string => {
  const tenant = /tenant_id = (\$\d)/.exec(text)?.[1]
  if (tenant === undefined) return text // of all tenants
  return `
    with asked as materialized (select set_config('mailroom.tenant', ${tenant}::text, true) as tenant)
    select found.* from asked cross join lateral (
      ${text.replace(`tenant_id = ${tenant}`, "tenant_id = asked.tenant::uuid")}
    ) found`
}

const rewritten = (database: Database.Database["Service"]): Database.Database["Service"] => {
  const texts = new Map<string, string>()
  const unsafe = (text: string, parameters?: ReadonlyArray<unknown>) => {
    if (!texts.has(text)) texts.set(text, guarded(text))
    return database.sql.unsafe(texts.get(text)!, parameters)
  }
  // The reads use nothing else of the client.
  return { ...database, sql: { unsafe } as unknown as (typeof database)["sql"] }
}

type Read = (reads: Reads.Reads, index: number) => Effect.Effect<unknown, unknown>

const reads: Readonly<Record<string, Read>> = {
  "messages.get": (reads, index) => {
    const message = messages[(index * 7_919) % messages.length]!
    return Effect.map(reads.messages.get(message, message.id), (found) => {
      if (found === null) throw new Error("void: a message is missing")
    })
  },
  "messages.page": (reads, index) =>
    Effect.map(
      reads.messages.page(realms[index % realms.length]!, { mailboxId: null, before: BigInt(messages.length), limit: 25 }),
      (found) => {
        if (found.length !== 25 || found[0]!.createdAt <= found[24]!.createdAt) throw new Error("void: not a page")
      }
    )
}

interface Side {
  readonly reads: Reads.Reads
  /** The server's processes behind its connections. */
  readonly pids: ReadonlyArray<number>
}

/** So many readers at once for a while: how many reads, how long, and the server's processor time, in milliseconds. */
const slice = (read: Read, { reads, pids }: Side) =>
  Effect.gen(function* () {
    const begun = performance.now()
    const cpuBefore = cpuOf(pids)
    let count = 0
    const reader = Effect.gen(function* () {
      while (performance.now() - begun < durationMs / slices) yield* read(reads, count++)
    })
    yield* Effect.all(Array.from({ length: readers }, () => reader), { concurrency: "unbounded" })
    return { count, ms: performance.now() - begun, cpuMs: cpuOf(pids) - cpuBefore }
  })

const cpuOf = (pids: ReadonlyArray<number>): number => pids.reduce((sum, pid) => sum + cpuMs(pid), 0)

/** A round in short slices by turns, so that both sides meet the same machine. In microseconds for each read. */
const round = (read: Read, sides: readonly [Side, Side]) =>
  Effect.gen(function* () {
    const sums = sides.map(() => ({ count: 0, ms: 0, cpuMs: 0 }))
    for (let turn = 0; turn < 2 * slices; turn++) {
      // 0 1 1 0: neither is always the one that follows the other
      const side = (turn + (turn >> 1)) % 2
      const figures = yield* slice(read, sides[side]!)
      const sum = sums[side]!
      sums[side] = { count: sum.count + figures.count, ms: sum.ms + figures.ms, cpuMs: sum.cpuMs + figures.cpuMs }
    }
    const [plain, policed] = sums.map(({ count, ms, cpuMs }) => ({ elapsed: (ms * 1000) / count, cpu: (cpuMs * 1000) / count }))
    return { plain: plain!, policed: policed! }
  })

try {
  await Effect.runPromise(postgres.started)
  const owner = postgres.url("postgres")
  await Effect.runPromise(Effect.provide(prepare, Database.layer({ url: owner })))
  const open = async (url: Redacted.Redacted<string>, as: (database: Database.Database["Service"]) => Database.Database["Service"]): Promise<Side> => {
    const database = await within(
      Effect.flatMap(Layer.build(Layer.fresh(Database.layer({ url, connectionsMax: readers }))), (context) => Effect.provide(Database.Database, context))
    )
    const pid = database.sql<{ pid: number }>`select pg_backend_pid() as pid, pg_sleep(0.2)`
    const found = await Effect.runPromise(Effect.all(Array.from({ length: readers }, () => pid), { concurrency: "unbounded" }))
    return { reads: Reads.make(as(database), { jobsOffered: true }), pids: [...new Set(found.map(([row]) => row!.pid))] }
  }
  const owned = await open(postgres.url("postgres"), (database) => database)
  const readerUrl = Redacted.make(Redacted.value(owner).replace("//postgres@", "//reader@"))
  const guardedSide = await open(readerUrl, rewritten)

  const [first] = messages
  const unset = await open(readerUrl, (database) => database)
  const lets = await Promise.all([
    Effect.runPromise(unset.reads.messages.get(first!, first!.id)),
    Effect.runPromise(guardedSide.reads.messages.get(realms[1]!, first!.id))
  ])
  if (lets.some((found) => found !== null)) throw new Error("void: the policy lets a row through without its tenant")

  for (const [name, read] of Object.entries(reads)) {
    await Effect.runPromise(round(read, [owned, guardedSide])) // to warm up
    const figures: Array<Effect.Success<ReturnType<typeof round>>> = []
    for (let number = 0; number < rounds; number++) figures.push(await Effect.runPromise(round(read, [owned, guardedSide])))
    const elapsed = figures.map(({ plain, policed }) => policed.elapsed / plain.elapsed)
    const cpu = figures.map(({ plain, policed }) => policed.cpu / plain.cpu)
    const of = (pick: (one: (typeof figures)[number]) => number) => `${median(figures.map(pick)).toFixed(0)} µs`
    console.log(`${name}: ${of(({ plain }) => plain.elapsed)} a read, ${of(({ policed }) => policed.elapsed)} under the policy: × ${spread(elapsed)}`)
    console.log(`  the server's processor time: ${of(({ plain }) => plain.cpu)}, ${of(({ policed }) => policed.cpu)} under the policy: × ${spread(cpu)}`)
    console.log(`  ${Math.max(median(elapsed), median(cpu)) < 1.1 ? "under 10 %" : "OVER 10 %"}`)
  }
} finally {
  await Effect.runPromise(Scope.close(scope, Exit.void))
}
