/**
 * When a message last used an attachment, to the hour. Versions of before do not say so: what they have, or bring while this step
 * is taken, was last used then, and a week later at most, for that is how long an upload waits for its first message.
 */
export const statements: ReadonlyArray<string> = [
  `alter table mailroom.attachment add column used_ms bigint default (extract(epoch from now()) * 1000)::bigint + 7 * 86400000`
]
