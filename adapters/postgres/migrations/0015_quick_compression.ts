/**
 * Long bodies by LZ4, which takes a third of what PostgreSQL's own compression takes. A server that was built without it goes
 * on as before. What is there stays as it is.
 */
export const statements: ReadonlyArray<string> = [
  `do $$ begin
    alter table mailroom.message_content
      alter column record set compression lz4, alter column text set compression lz4, alter column html set compression lz4;
  exception when feature_not_supported then null;
  end $$`
]
