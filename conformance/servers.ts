/**
 * What the tests of a run share: one private PostgreSQL, which starts while the
 * first tests are loaded (TEST_POSTGRES_BIN names the folder of another
 * version's `initdb` and `postgres`), and what Node has compiled, which each of
 * the many hundred processes that they start would compile anew.
 */
import { Effect, Exit, Scope } from "effect"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { TestProject } from "vitest/node"
import * as PrivatePostgres from "../adapters/postgres/PrivatePostgres.ts"

declare module "vitest" {
  interface ProvidedContext {
    /** The folder of the private PostgreSQL server: of its socket, its `log`, and its data. */
    readonly postgresFolder: string
  }
}

export default async (project: TestProject): Promise<() => Promise<void>> => {
  const compiled = mkdtempSync(join(tmpdir(), "mailroom-compiled-"))
  process.env["NODE_COMPILE_CACHE"] ??= compiled // workers are started after this, and have it from here
  const scope = Scope.makeUnsafe()
  const binaries = process.env["TEST_POSTGRES_BIN"]
  const server = await Effect.runPromise(Scope.provide(PrivatePostgres.open({ binaries }), scope))
  project.provide("postgresFolder", server.folder)
  return async () => {
    await Effect.runPromise(Scope.close(scope, Exit.void))
    rmSync(compiled, { recursive: true, force: true })
  }
}
