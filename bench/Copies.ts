/**
 * Millions of rows within minutes: what the product wrote for one message is
 * copied in its database, row for row as the adapter would have written it,
 * each copy with an identity and a place of its own.
 */
import { Client } from "pg"

/**
 * Settings of a server that takes many rows: what is written into a table that was emptied in the same transaction need
 * not go through the log first. Commits wait for the disk all the same.
 */
export const settings = ["wal_level=minimal", "max_wal_senders=0", "checkpoint_timeout=30min"]

export const connected = async <A>(url: string, use: (client: Client) => Promise<A>): Promise<A> => {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.end()
  }
}

/** Settings of a server that runs; its processes take them before their next statement. */
export const configure = (url: string, settings: Readonly<Record<string, string>>): Promise<void> =>
  connected(url, async (client) => {
    for (const [name, value] of Object.entries(settings)) await client.query(`alter system set ${name} = '${value}'`)
    await client.query("select pg_reload_conf()")
  })

const perStatement = 250_000

/** Makes so many in statements of some seconds each, and tells how far it is. */
const inParts = async (count: number, what: string, part: (from: number, upto: number) => Promise<unknown>): Promise<void> => {
  const begun = performance.now()
  for (let done = 0; done < count; ) {
    const upto = Math.min(count, done + perStatement)
    await part(done + 1, upto)
    done = upto
    process.stderr.write(`${done} of ${count} ${what}, ${((performance.now() - begun) / 1000).toFixed(0)} s\n`)
  }
}

/**
 * Makes the log of a tenant that many events long, spread over the last ten days: copies of what it holds, word for word,
 * so that only their places and times are their own, and in the order of their places, as they are appended. The indexes
 * are made at the end, as a restored database's are. Gives the time at which the event of a place occurred.
 */
export const fillLog = (url: string, count: number): Promise<(position: number) => number> =>
  connected(url, async (client) => {
    await client.query("create temporary table pattern as select *, row_number() over (order by position) - 1 as number from mailroom.event")
    const { rows } = await client.query<{ shard: number }>("select shard from pattern")
    const stepMs = Math.max(1, Math.floor((10 * 86_400_000) / count))
    const firstAt = Date.now() - 60_000 - count * stepMs
    const { rows: indexes } = await client.query<{ constrains: boolean; drop: string; make: string }>(
      `select c.oid is not null as constrains,
         coalesce('alter table mailroom.event drop constraint ' || conname, 'drop index ' || i.indexrelid::regclass) as drop,
         coalesce('alter table mailroom.event add constraint ' || conname || ' ' || pg_get_constraintdef(c.oid), pg_get_indexdef(i.indexrelid)) as make
       from pg_index i left join pg_constraint c on c.conindid = i.indexrelid where i.indrelid = 'mailroom.event'::regclass`
    )
    await client.query("begin")
    await client.query("truncate mailroom.event")
    for (const { drop } of indexes) await client.query(drop)
    // The limit keeps the server from a hash of these, in whose order it would write them.
    await inParts(count, "events", (from, upto) =>
      client.query(
        `insert into mailroom.event (shard, position, tenant_id, environment, audience, occurred_ms, latest_ms, record)
         select p.shard, n, p.tenant_id, p.environment, p.audience, ${firstAt} + n * ${stepMs}, ${firstAt} + n * ${stepMs}, p.record
         from generate_series($1::bigint, $2::bigint) n cross join lateral (select * from pattern where number = n % ${rows.length} limit 1) p`,
        [from, upto]
      )
    )
    for (const table of ["log_head", "relay"]) {
      await client.query(`update mailroom.${table} set position = $1 where shard = any($2)`, [count, rows.map(({ shard }) => shard)])
    }
    await client.query("commit")
    await client.query("vacuum (freeze, analyze) mailroom.event")
    const make = (statement: string) =>
      connected(url, async (client) => {
        await client.query("set maintenance_work_mem = '512MB'")
        await client.query("set max_parallel_maintenance_workers = 0") // which hardly help with what is in order, and two are made at once
        await client.query(statement)
      })
    for (const { make: statement } of indexes.filter(({ constrains }) => constrains)) await make(statement) // has the table to itself
    await Promise.all(indexes.filter(({ constrains }) => !constrains).map(({ make: statement }) => make(statement)))
    await client.query("checkpoint") // not while something is measured
    return (position) => firstAt + position * stepMs
  })

/** Keeps a message that waits to be sent as a pattern for copies, whatever becomes of itself. */
export const keepPattern = (url: string, messageId: string): Promise<void> =>
  connected(url, async (client) => {
    for (const [table, id] of [["message", "id"], ["message_content", "message_id"]]) {
      await client.query(`create table if not exists public.pattern_${table} as select * from mailroom.${table} limit 0`)
      await client.query(`insert into public.pattern_${table} select * from mailroom.${table} where ${id} = $1`, [messageId])
    }
  })

/** Queues so many copies of every pattern: with their bodies and their jobs, and identities that rise. */
export const queueMessages = (url: string, count: number): Promise<void> =>
  connected(url, async (client) => {
    const now = Date.now()
    const prefix = now.toString(16).padStart(12, "0").replace(/^.{8}/, "$&-")
    const copies = `(
      select n, m.id as pattern, ('${prefix}-7000-8000-' || lpad(to_hex(n * 64 + row_number() over (partition by n)), 12, '0'))::uuid as id
      from generate_series($1::bigint, $2::bigint) n cross join (select id from public.pattern_message order by id) m
    ) made`
    await inParts(count, "messages", async (from, upto) => {
      const write = (text: string) => client.query(text, [from, upto])
      await client.query("begin")
      await write(
        `insert into mailroom.message
         select made.id, m.tenant_id, m.environment, m.mailbox_id, m.version, ${now}000 + made.n, ${now}, m.poll_ms, m.mime_sha256,
           replace(m.record::text, m.id::text, made.id::text)::json
         from ${copies} join public.pattern_message m on m.id = made.pattern`
      )
      await write(
        `insert into mailroom.message_content
         select made.id, c.record, c.text, c.html
         from ${copies} join public.pattern_message_content c on c.message_id = made.pattern`
      )
      await write(
        `insert into mailroom.job (kind, subject, tenant_id, environment, group_name, due_ms, ready, at_ms, claims)
         select 'submit', made.id::text, m.tenant_id, m.environment, m.tenant_id::text, ${now}, true, ${now}, 0
         from ${copies} join public.pattern_message m on m.id = made.pattern`
      )
      await client.query("commit")
    })
    if (count < 10_000) return
    await client.query("vacuum analyze mailroom.message, mailroom.message_content, mailroom.job")
    await client.query("checkpoint") // not while something is measured
  })

/** Throws unless every message that went out was sent, if it is no longer queued. */
export const checkSent = (url: string): Promise<void> =>
  connected(url, async (client) => {
    const { rows } = await client.query<{ record: string }>(
      "select record::text from mailroom.message where next_attempt_ms is null and record->>'status' not in ('received', 'sent', 'delivered') limit 1"
    )
    if (rows.length > 0) throw new Error(`void: a message was not sent: ${rows[0]!.record}`)
  })
