/**
 * Parts of blobs by LZ4, which costs next to nothing for what cannot be made smaller. Without it they stay as they are: what
 * the server has instead would take too long. A step of its own, for a commit locks this table and that of contents.
 */
export const statements: ReadonlyArray<string> = [
  `do $$ begin
    alter table mailroom.blob_part alter column bytes set compression lz4, alter column bytes set storage extended;
  exception when feature_not_supported then null;
  end $$`
]
