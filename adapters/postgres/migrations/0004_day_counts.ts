/**
 * What was counted on each UTC day, for limits that all processes share: `used` holds whole blocks, which a process takes
 * and then counts by itself. granted: how much the last one got.
 */
export const statements: ReadonlyArray<string> = [
  `create table mailroom.day_count (
    scope text collate "C" not null, bucket text collate "C" not null, day integer not null, used bigint not null,
    granted bigint not null, primary key (scope, bucket, day)
  ) with (fillfactor = 70)`,
  `create index day_count_day on mailroom.day_count (day)`
]
