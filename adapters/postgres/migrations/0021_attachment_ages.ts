/**
 * By their last use, the attachments that have one. A step of its own: in that of the column nobody could read them meanwhile.
 * Some databases have it already, from that one.
 */
export const statements: ReadonlyArray<string> = [`create index if not exists attachment_used on mailroom.attachment (used_ms) where used_ms is not null`]
