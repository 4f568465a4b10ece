/**
 * A body once for all deliveries of an event that have it. `id` is that of the first of them, and `deliveries` how many there
 * are; `body_id` of a delivery says whose body it has (null: its own, as those of before do).
 */
export const statements: ReadonlyArray<string> = [
  `alter table mailroom.delivery add column body_id uuid`,
  `alter table mailroom.delivery_body rename column delivery_id to id`,
  `alter table mailroom.delivery_body add column deliveries integer not null default 1`
]
