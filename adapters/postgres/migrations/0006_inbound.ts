/** When an inbound message is to be parsed: of few rows, and of none that wait to be sent. */
export const statements: ReadonlyArray<string> = [
  `alter table mailroom.message add column parse_ms bigint`,
  `create index message_parse on mailroom.message (parse_ms, id) where parse_ms is not null`
]
