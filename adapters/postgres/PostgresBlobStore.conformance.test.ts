import { PgTypes } from "@effect/sql-pg"
import { Effect, Layer } from "effect"
import { suite } from "../../conformance/BlobStore.ts"
import { conforms } from "../../conformance/vitest.ts"
import type { BlobRef } from "../../core/model/Blob.ts"
import type { TenantId } from "../../core/model/Ids.ts"
import { Store, type Change } from "../../core/ports/Store.ts"
import { Database } from "./Database.ts"
import { migrate } from "./Migrations.ts"
import * as Pglite from "./Pglite.ts"
import * as PostgresBlobStore from "./PostgresBlobStore.ts"
import * as PostgresStore from "./PostgresStore.ts"
import * as TestDatabase from "./TestDatabase.ts"

const corrupted = {
  altered: "set_byte(bytes, length(bytes) - 1, get_byte(bytes, length(bytes) - 1) # 1)",
  cut: "substr(bytes, 1, length(bytes) - 1)"
}

const corrupt = (tenantId: TenantId, { sha256 }: BlobRef, how: "altered" | "cut") =>
  Database.use(({ sql }) =>
    sql.unsafe(
      `update mailroom.blob_part set bytes = ${corrupted[how]} where (upload_id, part) in (
        select upload_id, max(part) from mailroom.blob join mailroom.blob_part using (upload_id)
        where tenant_id = $1 and sha256 = $2 group by upload_id
      )`,
      [PgTypes.uuid(tenantId), sha256]
    )
  ).pipe(Effect.asVoid)

const held = Database.use(({ sql }) =>
  sql.unsafe<{ readonly bytes: number }>("select coalesce(sum(length(bytes)), 0)::float8 as bytes from mailroom.blob_part")
).pipe(Effect.map(([row]) => row!.bytes)) // the statement gives one row

const commit = (changes: ReadonlyArray<Change>) => Store.use((store) => store.commit(changes, []))

const pglite = Layer.effectDiscard(migrate).pipe(Layer.provideMerge(Pglite.layerMemory))

const withStore = Layer.merge(PostgresBlobStore.layerWithStore, PostgresStore.layerWithoutJobs)
conforms("PostgresBlobStore", suite<Database | Store>({ corrupt, held, commit }), withStore.pipe(Layer.provideMerge(TestDatabase.layer())))
conforms("PostgresBlobStore over PGlite", suite<Database | Store>({ corrupt, held, commit }), withStore.pipe(Layer.provideMerge(pglite)))
conforms(
  "PostgresBlobStore beside another store",
  suite({ corrupt, held }),
  PostgresBlobStore.layer.pipe(Layer.provideMerge(TestDatabase.layer()))
)
