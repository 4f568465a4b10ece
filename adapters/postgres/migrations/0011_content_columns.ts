/**
 * Bodies as they are, for nobody looks into them as JSON: the server checked each again when it was written, and the process
 * escaped and read it. `record` has what is left, if anything is; contents of before have all of it there.
 */
export const statements: ReadonlyArray<string> = [
  `alter table mailroom.message_content add column text text, add column html text, alter column record drop not null`
]
