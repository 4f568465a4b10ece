/** By age, the messages that wait for nothing: what is cut, where messages have a time. One that is accepted has no entry. */
export const statements: ReadonlyArray<string> = [
  `create index message_age on mailroom.message (created_us) where next_attempt_ms is null and poll_ms is null and parse_ms is null`
]
