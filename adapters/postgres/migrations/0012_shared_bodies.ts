/**
 * A body once for all deliveries of an event that have it: `delivery_id` is the first of them, and `deliveries` how many there
 * are. `body_id` of a delivery is that first one; null: it has a body of its own, as those of before do.
 */
export const statements: ReadonlyArray<string> = [
  `alter table mailroom.delivery add column body_id uuid`,
  `alter table mailroom.delivery_body add column deliveries integer not null default 1`
]
