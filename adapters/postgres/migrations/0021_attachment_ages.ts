/** By their last use, the attachments that have one. A step of its own: in that of the column nobody could read them meanwhile. */
export const statements: ReadonlyArray<string> = [`create index attachment_used on mailroom.attachment (used_ms) where used_ms is not null`]
