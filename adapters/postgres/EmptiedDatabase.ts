/**
 * One database for all scenarios of a test file, emptied before each: a set of
 * its own for each of them, at a fraction of what a database costs.
 */
import { Effect, Exit, Layer, Scope, type Context } from "effect"
import { afterAll } from "vitest"
import * as Database from "./Database.ts"

/** The layer's database, opened when first asked for and closed behind the last test of the file. */
export const layer = <E>(database: Layer.Layer<Database.Database, E>): Layer.Layer<Database.Database, E> => {
  const scope = Scope.makeUnsafe()
  const memoMap = Layer.makeMemoMapUnsafe()
  afterAll(() => Effect.runPromise(Scope.close(scope, Exit.void)))
  const opened: Effect.Effect<Context.Context<Database.Database>, E> = Database.onLiveClock(Layer.buildWithMemoMap(database, memoMap, scope))
  return Layer.effectContext(Effect.tap(opened, (services) => Effect.orDie(Effect.provideContext(empty, services))))
}

const empty = Effect.gen(function* () {
  const { sql } = yield* Database.Database
  const kept = ["migration", "log_head", "relay"]
  const found = yield* sql<{ name: string }>`select tablename as name from pg_tables where schemaname = 'mailroom'`
  const names = found.map(({ name }) => name).filter((name) => !kept.includes(name))
  yield* sql.unsafe(`truncate ${names.map((name) => `mailroom.${name}`).join(", ")}`)
  yield* sql`update mailroom.log_head set position = 0`
  yield* sql`update mailroom.relay set position = 0, holder = '', held_until_ms = 0`
})
