import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as Fixtures from "../../conformance/fixtures.ts"
import { Database } from "./Database.ts"
import * as Reads from "./Reads.ts"
import * as TestDatabase from "./TestDatabase.ts"

/** So many, under names as long as they may be, are more than a connection takes in one row. */
const count = 60_000
const displayName = "\u{1f4ee}".repeat(200)

layer(TestDatabase.layer())("a tenant with very many mailboxes", (it) => {
  it.effect("has them listed, all of them and by address", () =>
    Effect.gen(function* () {
      const database = yield* Database
      const domain = Fixtures.mailDomain(Fixtures.realm().tenantId)
      const { tenantId } = domain
      const mailbox = Fixtures.mailbox(domain, { displayName })
      yield* database.sql`
        insert into mailroom.mailbox (id, tenant_id, domain_id, address, folded_address, version, record)
        select id, ${tenantId}::uuid, ${domain.id}::uuid, address, address, 1,
          json_build_object('id', id, 'address', address, 'rest', ${JSON.stringify(mailbox)}::json)
        from (select gen_random_uuid() as id, to_char(n, 'FM00000') || '@long.example' as address from generate_series(1, ${count}::integer) n) given`
      const reads = Reads.make(database, { jobsOffered: false })

      const found = yield* reads.mailboxes.list(tenantId)

      assert.lengthOf(found, count)
      assert.isTrue(found.every(({ address }, index) => address === `${String(index + 1).padStart(5, "0")}@long.example`))
    })
  )
})
