/**
 * A delivery that succeeded at once may have no body: it is made anew of its event, which is found by its position.
 * Null: an older version made the delivery, and its body is there.
 */
export const statements: ReadonlyArray<string> = [`alter table mailroom.delivery add column event_position bigint`]
