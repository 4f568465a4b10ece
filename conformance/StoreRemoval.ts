/** Laws of records that are removed: what is gone with them, and that their names are free again. */
import { Effect } from "effect"
import assert from "node:assert/strict"
import type { MailboxId } from "../core/model/Ids.ts"
import type { Rejection } from "../core/ports/Store.ts"
import * as Fixtures from "./fixtures.ts"
import { demand, insert, land, law, next, outcome, recordsOf, refusal, remove, stored, suppose, times, together, update, type Service } from "./StoreLaw.ts"

const removable = ["attachment", "domain", "mailbox"] as const
const named = ["domain", "mailbox"] as const
type Named = (typeof named)[number]

/** The field that is unique of a kind. */
const fields = { domain: "domain", mailbox: "address" } as const

/** A record of another tenant, with the same name. */
const twinOf = (kind: Named, records: ReturnType<typeof recordsOf>) => {
  const others = recordsOf(Fixtures.realm())
  return kind === "domain" ? { ...others.domain, domain: records.domain.domain } : { ...others.mailbox, address: records.mailbox.address }
}

/** Whose mail to the mailbox's address would be. */
const ownersOf = (store: Service, { mailbox, domain }: ReturnType<typeof recordsOf>) =>
  Effect.map(store.mailboxes.addressee({ address: mailbox.address, untagged: null, domain: domain.domain }), (found) => ({
    domain: found.domain?.tenantId ?? null,
    mailbox: found.mailbox?.tenantId ?? null
  }))

export const removals = [
  ...removable.map((kind) =>
    law(`removes a record (${kind}) only in the version that is given, and what was made for it finds none`, (store) =>
      Effect.gen(function* () {
        const record = recordsOf(Fixtures.realm())[kind]
        const removeAt = (version: number) => remove(kind, { ...record, version })
        const moved = { _tag: "VersionMoved", kind, id: record.id }
        yield* land(store, insert(kind, record), update(kind, next(record)))

        for (const version of [1, 3]) assert.deepEqual(yield* refusal(store, removeAt(version)), moved)
        assert.deepEqual(yield* stored(store, kind, record), next(record))
        yield* land(store, removeAt(2))

        assert.equal(yield* stored(store, kind, record), null)
        const late = [removeAt(2), update(kind, { ...record, version: 3 }), demand(kind, next(record)), suppose(kind, next(record))]
        for (const change of late) assert.deepEqual(yield* refusal(store, change), moved)
      })
    )
  ),
  ...removable.map((kind) =>
    law(`takes a record (${kind}) away for the changes behind it, and gives it back with a list that cannot be applied`, (store) =>
      Effect.gen(function* () {
        const records = recordsOf(Fixtures.realm())
        const record = records[kind]
        const moved = { _tag: "VersionMoved", kind, id: record.id }
        yield* land(store, insert(kind, record))

        for (const behind of [remove(kind, record), update(kind, next(record)), demand(kind, record)]) {
          assert.deepEqual(yield* refusal(store, remove(kind, record), behind), moved)
        }
        assert.deepEqual(yield* stored(store, kind, record), record)
        // Another under its id and its name, and none of that again.
        const again = { ...record, createdAt: 7 }
        yield* land(store, remove(kind, record), insert(kind, again))
        assert.deepEqual(yield* stored(store, kind, record), again)
        yield* land(store, remove(kind, again), insert(kind, record), remove(kind, record))
        assert.equal(yield* stored(store, kind, record), null)
      })
    )
  ),
  ...named.map((kind) =>
    law(`frees the name of a record (${kind}) that is removed, and shows the one that has it since`, (store) =>
      Effect.gen(function* () {
        const records = recordsOf(Fixtures.realm())
        const twin = twinOf(kind, records)
        yield* land(store, insert("domain", records.domain), insert("mailbox", records.mailbox))
        const taken = { _tag: "Duplicate", kind, field: fields[kind] }
        assert.deepEqual(yield* refusal(store, insert(kind, twin)), taken)

        yield* land(store, remove(kind, records[kind]))
        assert.equal((yield* ownersOf(store, records))[kind], null)
        yield* land(store, insert(kind, twin))

        assert.equal((yield* ownersOf(store, records))[kind], twin.tenantId)
        assert.deepEqual(yield* refusal(store, insert(kind, records[kind])), taken)
      })
    )
  ),
  ...named.map((kind) =>
    law(`sees in one list whether a name (${kind}) is free by then`, (store) =>
      Effect.gen(function* () {
        const records = recordsOf(Fixtures.realm())
        const [record, twin] = [records[kind], twinOf(kind, records)]
        yield* land(store, insert(kind, record))

        const reason = yield* refusal(store, insert(kind, twin), remove(kind, record))
        assert.deepEqual(reason, { _tag: "Duplicate", kind, field: fields[kind] })
        assert.deepEqual(yield* stored(store, kind, record), record)
        yield* land(store, remove(kind, record), insert(kind, twin))

        assert.deepEqual([yield* stored(store, kind, record), yield* stored(store, kind, twin)], [null, twin])
        // What is new and gone in one list leaves its name free, and no other.
        yield* land(store, remove(kind, twin), insert(kind, record), remove(kind, record), insert(kind, twin))
        assert.equal((yield* refusal(store, insert(kind, record)))._tag, "Duplicate")
      })
    )
  ),
  ...named.map((kind) =>
    law(`gives a name (${kind}) that is removed to one of those who want it at that moment, or to nobody`, (store) =>
      Effect.gen(function* () {
        const records = recordsOf(Fixtures.realm())
        const twins = times(8, () => twinOf(kind, records))
        yield* land(store, insert("domain", records.domain), insert("mailbox", records.mailbox))

        const changes = [remove(kind, records[kind]), ...twins.map((twin) => insert(kind, twin))]
        const outcomes = yield* together(changes.map((change) => outcome(store, change)))

        assert.equal(outcomes[0], null)
        const heirs = twins.filter((_, index) => outcomes[index + 1] === null)
        assert.ok(heirs.length < 2, "one name, two records")
        for (const reason of outcomes.slice(1)) assert.ok(reason === null || isTaken(reason, kind))
        assert.equal((yield* ownersOf(store, records))[kind], heirs[0]?.tenantId ?? null)
      })
    )
  ),
  law("shows a mailbox that is removed in no list, and no domain counts it", (store) =>
    Effect.gen(function* () {
      const { domain, mailbox } = recordsOf(Fixtures.realm())
      const other = Fixtures.mailbox(domain, { id: Fixtures.freshId<MailboxId>(), address: Fixtures.address("grace", domain.domain) })
      yield* land(store, insert("domain", domain), insert("mailbox", mailbox), insert("mailbox", other))

      yield* land(store, remove("mailbox", mailbox))

      const { tenantId } = domain
      const query = { domainId: domain.id, after: null, limit: 10 }
      assert.deepEqual([yield* store.mailboxes.list(tenantId), yield* store.mailboxes.page(tenantId, query)], [[other], [other]])
      assert.deepEqual(yield* store.domains.list(tenantId), [{ domain, mailboxCount: 1 }])
      yield* land(store, remove("mailbox", other), remove("domain", domain))
      assert.deepEqual([yield* store.domains.list(tenantId), yield* store.domains.named([domain.domain])], [[], []])
    })
  )
]

const isTaken = (reason: Rejection, kind: Named): boolean => reason._tag === "Duplicate" && reason.kind === kind && reason.field === fields[kind]
