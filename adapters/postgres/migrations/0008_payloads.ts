/** What providers post, as it came, for the operator. */

export const statements: ReadonlyArray<string> = [
  `create table mailroom.payload (
    provider text collate "C" not null, id text collate "C" not null, number bigint generated always as identity,
    received_ms bigint not null, record json not null, primary key (provider, id)
  )`,
  `create index payload_age on mailroom.payload (received_ms)`,
  `create unique index payload_number on mailroom.payload (number)`,
  `create unique index payload_of on mailroom.payload (provider, number)`
]
