/**
 * Bodies that fit a page are compressed as well, where that is by LZ4: it takes no longer than to write what it saves, and leaves
 * a third of them. A server without it keeps them as they are (0009).
 */
export const statements: ReadonlyArray<string> = [
  `do $$ begin
    if exists (select from pg_attribute where attrelid = 'mailroom.message_content'::regclass and attname = 'text' and attcompression = 'l') then
      alter table mailroom.message_content reset (toast_tuple_target);
    end if;
  end $$`
]
