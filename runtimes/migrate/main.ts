/** Takes the steps that the database lacks. What it says of failures is one line. */
import { Effect } from "effect"
import * as Adapters from "../Adapters.ts"
import * as Config from "../Config.ts"

export const migrate = Effect.gen(function* () {
  const config = yield* Config.deployment()
  return yield* Effect.provide(Adapters.migrate(config), Adapters.database({ ...config, databasePool: 2 }, "migrate"))
})
