/** When a domain's records are checked next, and the oldest sealing key that its DKIM keys need. */
export const statements: ReadonlyArray<string> = [
  `alter table mailroom.domain add column next_check_ms bigint, add column seal_version integer`,
  `create index domain_check on mailroom.domain (next_check_ms, id) where next_check_ms is not null`,
  `create index domain_seal on mailroom.domain (seal_version, id) where seal_version is not null`
]
