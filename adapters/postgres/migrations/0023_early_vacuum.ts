/**
 * Of these tables what is due, or what is oldest, is asked for from the start of an index, where all lies that has had its time.
 * It goes with the next vacuum, for which PostgreSQL waits until a fifth of the table is dead: here, a twentieth.
 */
const tables = ["event", "message", "delivery", "attachment", "reservation", "notification", "request", "payload"]

export const statements: ReadonlyArray<string> = tables.map(
  (table) => `alter table mailroom.${table} set (autovacuum_vacuum_scale_factor = 0.05)`
)
