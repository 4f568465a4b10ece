/**
 * Where an endpoint was created and was disabled last, in its shard's log, beside where it was enabled last: so that it gets what
 * happened before it was disabled, if that is fanned out after it was enabled again. Versions of before know of the last alone.
 */
export const statements: ReadonlyArray<string> = [
  `alter table mailroom.endpoint add column created_after bigint, add column disabled_after bigint`,
  `update mailroom.endpoint set created_after = enabled_after, disabled_after = enabled_after`
]
