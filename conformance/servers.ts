/**
 * The servers that the tests bring along: one private PostgreSQL for a run,
 * which starts while the first tests are loaded. TEST_POSTGRES_BIN
 * names the folder of another version's `initdb` and `postgres`.
 */
import { Effect, Exit, Scope } from "effect"
import type { TestProject } from "vitest/node"
import * as PrivatePostgres from "../adapters/postgres/PrivatePostgres.ts"

declare module "vitest" {
  interface ProvidedContext {
    /** The folder of the private PostgreSQL server: of its socket, its `log`, and its data. */
    readonly postgresFolder: string
  }
}

export default async (project: TestProject): Promise<() => Promise<void>> => {
  const scope = Scope.makeUnsafe()
  const binaries = process.env["TEST_POSTGRES_BIN"]
  const server = await Effect.runPromise(Scope.provide(PrivatePostgres.open({ binaries }), scope))
  project.provide("postgresFolder", server.folder)
  return () => Effect.runPromise(Scope.close(scope, Exit.void))
}
