/**
 * Long bodies and the parts of blobs by LZ4, which takes a third of what PostgreSQL's own compression takes, and next to
 * nothing for what cannot be made smaller. A server that was built without it goes on as before: bodies by its own, and parts
 * as they are, for which its own would take too long. What is there stays as it is.
 */
export const statements: ReadonlyArray<string> = [
  `do $$ begin
    alter table mailroom.message_content
      alter column record set compression lz4, alter column text set compression lz4, alter column html set compression lz4;
    alter table mailroom.blob_part alter column bytes set compression lz4, alter column bytes set storage extended;
  exception when feature_not_supported then null;
  end $$`
]
