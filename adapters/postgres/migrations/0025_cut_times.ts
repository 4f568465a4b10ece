/**
 * The latest time at which a forgotten event of the shard occurred, from now on: null until the next is forgotten. By it a reader
 * who begins at a time is told what is gone.
 */
export const statements: ReadonlyArray<string> = [`alter table mailroom.log_front add column occurred_ms bigint`]
