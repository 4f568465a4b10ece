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
 * so that only their places and times are their own. The indexes are made at the end, as a restored database's are.
 */
export const fillLog = (url: string, count: number): Promise<void> =>
  connected(url, async (client) => {
    await client.query("create temp table pattern as select *, row_number() over (order by position) - 1 as place from mailroom.event")
    const patterns = (await client.query("select from pattern")).rowCount
    const indexes = (
      await client.query<{ drop: string; make: string }>(
        `select coalesce('alter table mailroom.event drop constraint ' || conname, 'drop index ' || i.indexrelid::regclass) as drop,
           coalesce('alter table mailroom.event add constraint ' || conname || ' ' || pg_get_constraintdef(c.oid), pg_get_indexdef(i.indexrelid)) as make
         from pg_index i left join pg_constraint c on c.conindid = i.indexrelid where i.indrelid = 'mailroom.event'::regclass`
      )
    ).rows
    const stepMs = Math.max(1, Math.floor((10 * 86_400_000) / count))
    await client.query("set maintenance_work_mem = '512MB'")
    await client.query("begin")
    await client.query("truncate mailroom.event")
    for (const { drop } of indexes) await client.query(drop)
    await inParts(count, "events", (from, upto) =>
      client.query(
        `insert into mailroom.event (shard, position, tenant_id, environment, audience, occurred_ms, latest_ms, record)
         select p.shard, n, p.tenant_id, p.environment, p.audience, at, at, p.record
         from generate_series($1::bigint, $2::bigint) n
         cross join lateral (select $3::bigint - ($4::bigint - n) * $5::bigint as at) time
         join pattern p on p.place = n % $6::bigint`,
        [from, upto, Date.now() - 60_000, count, stepMs, patterns]
      )
    )
    for (const { make } of indexes) await client.query(make)
    for (const table of ["log_head", "relay"]) {
      await client.query(`update mailroom.${table} set position = $1 where shard in (select shard from pattern)`, [count])
    }
    await client.query("commit")
    await client.query("vacuum analyze mailroom.event")
  })

/** Queues so many more of a message that waits to be sent: with their bodies and their jobs, and identities that rise. */
export const queueMessages = (url: string, messageId: string, count: number): Promise<void> =>
  connected(url, async (client) => {
    const prefix = Date.now().toString(16).padStart(12, "0").replace(/^.{8}/, "$&-")
    const copies = `(
      select n, ('${prefix}-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid as id from generate_series($1::bigint, $2::bigint) n
    ) made`
    await inParts(count, "messages", async (from, upto) => {
      const write = (text: string) => client.query(text, [from, upto, messageId])
      await client.query("begin")
      await write(
        `insert into mailroom.message
         select made.id, m.tenant_id, m.environment, m.mailbox_id, m.version, m.created_us + made.n, m.next_attempt_ms, m.poll_ms,
           m.mime_sha256, replace(m.record::text, m.id::text, made.id::text)::json
         from ${copies} join mailroom.message m on m.id = $3::uuid`
      )
      await write(
        `insert into mailroom.message_content
         select made.id, replace(c.record::text, c.message_id::text, made.id::text)::json
         from ${copies} join mailroom.message_content c on c.message_id = $3::uuid`
      )
      await write(
        `insert into mailroom.job (kind, subject, tenant_id, environment, group_name, due_ms, ready, at_ms, claims)
         select 'submit', made.id::text, m.tenant_id, m.environment, m.tenant_id::text, m.next_attempt_ms, true, m.next_attempt_ms, 0
         from ${copies} join mailroom.message m on m.id = $3::uuid`
      )
      await client.query("commit")
    })
    await client.query("vacuum analyze mailroom.message, mailroom.message_content, mailroom.job")
  })
