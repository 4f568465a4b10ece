/**
 * What was accepted. A record is kept as its JSON text, beside the columns that it is found, ordered or fenced by. What
 * only the columns say, `Rows.ts` has. Times are milliseconds since the Unix epoch (`_ms`) or microseconds (`_us`).
 */
export const statements: ReadonlyArray<string> = [
  `create table mailroom.plan (id text collate "C" primary key, record json not null)`,

  `create table mailroom.tenant (id uuid primary key, version integer not null, record json not null)`,
  `create table mailroom.application (
    id uuid primary key, tenant_id uuid not null, version integer not null, created_ms bigint not null, record json not null
  )`,
  `create index application_list on mailroom.application (tenant_id, created_ms, id)`,
  `create table mailroom.api_key (
    id uuid primary key, tenant_id uuid not null, application_id uuid not null, public_id text collate "C" not null unique,
    version integer not null, created_ms bigint not null, last_used_ms bigint, record json not null
  )`,
  `create index api_key_list on mailroom.api_key (tenant_id, created_ms, id)`,
  `create table mailroom.domain (
    id uuid primary key, tenant_id uuid not null, domain text collate "C" not null unique, version integer not null, record json not null
  )`,
  `create index domain_list on mailroom.domain (tenant_id, domain)`,
  `create table mailroom.mailbox (
    id uuid primary key, tenant_id uuid not null, domain_id uuid not null, address text collate "C" not null,
    folded_address text collate "C" not null unique, version integer not null, record json not null
  )`,
  `create index mailbox_list on mailroom.mailbox (tenant_id, address)`,

  `create table mailroom.attachment (
    id uuid primary key, tenant_id uuid not null, environment text not null, version integer not null, sha256 text collate "C" not null,
    next_scan_ms bigint, unused_until_ms bigint, record json not null
  )`,
  `create index attachment_blob on mailroom.attachment (tenant_id, sha256)`,
  `create index attachment_scan on mailroom.attachment (next_scan_ms, id) where next_scan_ms is not null`,
  `create index attachment_unused on mailroom.attachment (unused_until_ms, id) where unused_until_ms is not null`,

  `create table mailroom.message (
    id uuid primary key, tenant_id uuid not null, environment text not null, mailbox_id uuid not null, version integer not null,
    created_us bigint not null, next_attempt_ms bigint, poll_ms bigint, mime_sha256 text collate "C", record json not null
  )`,
  `create index message_page on mailroom.message (tenant_id, environment, created_us)`,
  `create index message_mailbox_page on mailroom.message (tenant_id, environment, mailbox_id, created_us)`,
  `create index message_blob on mailroom.message (tenant_id, mime_sha256) where mime_sha256 is not null`,
  `create index message_submit on mailroom.message (next_attempt_ms, id) where next_attempt_ms is not null`,
  `create index message_poll on mailroom.message (poll_ms, id) where poll_ms is not null`,
  // The bodies, away from the rows that are listed and updated.
  `create table mailroom.message_content (message_id uuid primary key, record json not null)`,
  `create table mailroom.submission (
    provider text collate "C" not null, provider_message_id text collate "C" not null, message_id uuid not null,
    primary key (provider, provider_message_id)
  )`,
  // Messages with a queued recipient, by the attachments that they use.
  `create table mailroom.queued_attachment (attachment_id uuid not null, message_id uuid not null, primary key (attachment_id, message_id))`,
  `create index queued_attachment_message on mailroom.queued_attachment (message_id)`,

  // The end of each shard's log. The last that a transaction locks, in order of the shard: so positions follow commits.
  `create table mailroom.log_head (shard smallint primary key, position bigint not null) with (fillfactor = 50)`,
  `insert into mailroom.log_head select shard, 0 from generate_series(0, 15) shard`,
  // What must rise per tenant: its last message's created_us, and the latest occurred_ms of its events; the least bigint
  // if there are none. previous_: the same before the transaction that wrote the row last, so that one statement both
  // takes a place and learns where it begins. messages: how many the tenant has had.
  `create table mailroom.tenant_log (
    tenant_id uuid primary key, messages bigint not null,
    last_created_us bigint not null, previous_created_us bigint not null,
    latest_occurred_ms bigint not null, previous_occurred_ms bigint not null
  ) with (fillfactor = 70)`,
  // latest_ms: the latest occurred_ms of the tenant's events up to this one. It rises with the position, so a time finds its place.
  `create table mailroom.event (
    shard smallint not null, position bigint not null, tenant_id uuid not null, environment text not null, audience uuid,
    occurred_ms bigint not null, latest_ms bigint not null, record json not null,
    primary key (shard, position)
  )`,
  // By environment, so that one who reads a quiet environment does not pass over all that happens in the other. An event of
  // the tenant as a whole has an empty one: an index is not in the order of what comes behind a null.
  `create index event_page on mailroom.event (tenant_id, environment, position)`,
  `create index event_time on mailroom.event (tenant_id, environment, latest_ms, position)`,
  `create table mailroom.relay (
    shard smallint primary key, position bigint not null, holder text not null, held_until_ms bigint not null
  ) with (fillfactor = 50)`,
  `insert into mailroom.relay select shard, 0, '', 0 from generate_series(0, 15) shard`,

  `create table mailroom.endpoint (
    id uuid primary key, tenant_id uuid not null, environment text not null, application_id uuid not null, version integer not null,
    enabled boolean not null, enabled_after bigint not null, seal_version integer not null, created_ms bigint not null, record json not null
  )`,
  `create index endpoint_list on mailroom.endpoint (tenant_id, environment, application_id, created_ms, id)`,
  `create index endpoint_enabled on mailroom.endpoint (tenant_id) where enabled`,
  `create index endpoint_seal on mailroom.endpoint (seal_version, id)`,
  `create table mailroom.delivery (
    id uuid primary key, tenant_id uuid not null, environment text not null, application_id uuid not null, endpoint_id uuid not null,
    version integer not null, created_ms bigint not null, next_attempt_ms bigint, dead_ms bigint, ended_ms bigint, record json not null
  )`,
  `create index delivery_page on mailroom.delivery (tenant_id, environment, application_id, created_ms, id)`,
  `create index delivery_endpoint_page on mailroom.delivery (tenant_id, environment, application_id, endpoint_id, created_ms, id)`,
  `create index delivery_due on mailroom.delivery (next_attempt_ms, id) where next_attempt_ms is not null`,
  `create index delivery_dead on mailroom.delivery (endpoint_id, dead_ms, id) where dead_ms is not null`,
  `create index delivery_ended on mailroom.delivery (ended_ms, id) where ended_ms is not null`,
  `create table mailroom.delivery_body (delivery_id uuid primary key, body text not null)`,

  `create table mailroom.reservation (
    application_id uuid not null, idempotency_key text collate "C" not null, expires_ms bigint not null, record json not null,
    primary key (application_id, idempotency_key)
  )`,
  `create index reservation_expiry on mailroom.reservation (expires_ms)`,
  // allowed: what its last taker would have let it come to. So a taker need not look first.
  `create table mailroom.quota (
    tenant_id uuid not null, day text collate "C" not null, used bigint not null, allowed bigint not null,
    primary key (tenant_id, day), constraint quota_kept check (used <= allowed)
  ) with (fillfactor = 70)`,
  `create index quota_day on mailroom.quota (day)`,
  `create table mailroom.suppression (
    tenant_id uuid not null, environment text not null, folded_address text collate "C" not null, record json not null,
    primary key (tenant_id, environment, folded_address)
  )`,
  // hash: SHA-256 of Notification.keyOf.
  `create table mailroom.notification (
    hash text collate "C" primary key, number bigint generated always as identity, provider text collate "C" not null,
    provider_message_id text collate "C" not null, kept_ms bigint not null, record json not null
  )`,
  `create index notification_ref on mailroom.notification (provider, provider_message_id)`,
  `create index notification_kept on mailroom.notification (kept_ms, number)`,

  // No key by the number alone: a page of a quiet tenant would be looked for in it, past all that the others did since.
  `create table mailroom.audit (
    tenant_id uuid not null, number bigint generated always as identity, record json not null, primary key (tenant_id, number)
  )`,
  `create table mailroom.request (
    tenant_id uuid not null, number bigint generated always as identity, at_ms bigint not null, record json not null,
    primary key (tenant_id, number)
  )`,
  `create index request_age on mailroom.request (at_ms)`
]
