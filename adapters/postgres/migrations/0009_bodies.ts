/**
 * Bodies that fit a page stay in it as they are: to compress some kilobytes takes longer than to write them, and was a
 * tenth of what accepting a message costs the server. Larger ones are compressed, as ever; so are those that are there.
 */
export const statements: ReadonlyArray<string> = [`alter table mailroom.message_content set (toast_tuple_target = 8160)`]
