/**
 * Where each shard's log begins: behind `position`. That is the last event which was forgotten, or an earlier one, for a version
 * of before does not write it. Until a vacuum the index still has what is gone, and who begins at its start walks through all that.
 */
export const statements: ReadonlyArray<string> = [
  `create table mailroom.log_front (shard smallint primary key, position bigint not null)`,
  `insert into mailroom.log_front
   select shard.shard, first.position - 1
   from generate_series(0, 15) as shard cross join lateral (
     select position from mailroom.event where event.shard = shard.shard order by position limit 1
   ) as first`
]
