/** Work that waits in the store, as as many sends would have left it. */
import { Effect, Layer, Redacted } from "effect"
import { randomUUID } from "node:crypto"
import { Client } from "pg"
import * as Database from "../adapters/postgres/Database.ts"
import * as JobNews from "../adapters/postgres/JobNews.ts"
import * as PostgresStore from "../adapters/postgres/PostgresStore.ts"
import type { MessageId } from "../core/model/Ids.ts"
import type { Job } from "../core/ports/JobQueue.ts"
import { Store, type Change } from "../core/ports/Store.ts"

const perCommit = 500

/** Queues copies of an accepted message, with their jobs. */
export const queueCopies = (databaseUrl: string, id: string, count: number): Promise<void> =>
  Effect.gen(function* () {
    const store = yield* Store
    const { sql } = yield* Database.Database
    const [row] = yield* sql.unsafe<{ tenant_id: string; environment: string }>(
      `select tenant_id::text as tenant_id, environment from mailroom.message where id = '${id}'`
    )
    const realm = { tenantId: row!.tenant_id as never, environment: row!.environment as never } // as written
    const model = yield* store.messages.get(realm, id as MessageId)
    const content = yield* store.messages.content(realm, id as MessageId)
    for (let done = 0; done < count; done += perCommit) {
      const changes: Array<Change> = []
      const jobs: Array<Job> = []
      for (let index = done; index < Math.min(count, done + perCommit); index++) {
        const recipients = model!.recipients.map((recipient) => ({ ...recipient, status: "queued" as const }))
        const message = {
          ...model!,
          id: randomUUID() as MessageId,
          recipients,
          nextAttemptAt: 1,
          status: "queued" as const,
          version: 1,
          submissions: [],
          attempts: 0,
          sentAt: null,
          mime: null
        }
        changes.push({ _tag: "InsertMessage", message, content: content! })
        jobs.push({ kind: "submit", subject: message.id, realm, group: realm.tenantId, dueAt: 1 })
      }
      yield* store.commit(changes, jobs)
      if (done % 10_000 === 0) process.stderr.write(`${done} of ${count} queued\r`)
    }
  }).pipe(
    Effect.provide(
      PostgresStore.layer.pipe(
        Layer.provideMerge(JobNews.layerLocal),
        Layer.provideMerge(Database.layer({ url: Redacted.make(databaseUrl) }))
      )
    ),
    Effect.runPromise
  )

/**
 * Resolves when no message waits for its submission any more, some milliseconds late. It looks at one that waits until that
 * does no more: asked for any of them, the server walks along all that have waited, which took a third of its time.
 */
export const drained = async (databaseUrl: string, timeoutMs = 120_000): Promise<void> => {
  const client = new Client({ connectionString: databaseUrl })
  await client.connect()
  try {
    const last = "select id from mailroom.message where next_attempt_ms is not null order by next_attempt_ms desc limit 1"
    const one = "select id from mailroom.message where id = $1 and next_attempt_ms is not null"
    const begun = performance.now()
    let id: string | undefined
    for (;;) {
      if (id !== undefined) id = (await client.query<{ id: string }>(one, [id])).rows[0]?.id
      id ??= (await client.query<{ id: string }>(last)).rows[0]?.id
      if (id === undefined) return
      if (performance.now() - begun > timeoutMs) throw new Error("void: the backlog does not drain")
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  } finally {
    await client.end()
  }
}
