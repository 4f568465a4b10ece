/**
 * The request log and last-used times, written behind: kept in memory, and
 * committed a thousand at a time by `flush`, which runtimes call each second
 * and at the end. A crash loses the last second of it, and nothing else.
 */
import { Context, Effect, Layer } from "effect"
import type { RequestEntry } from "../model/Audit.ts"
import type { ApiKeyId, Millis } from "../model/Ids.ts"
import { Store, type Change } from "../ports/Store.ts"
import * as SeldomLog from "../SeldomLog.ts"

/** While the store is away, the newest this many are kept. */
const entriesMax = 10_000

/** Of one commit: accepts share it, and wait for all of its rows. A busy second's at once were 40 ms of them. */
const entriesPerCommit = 1_000

export class RequestLog extends Context.Service<
  RequestLog,
  {
    /** Notes a request that has ended. */
    readonly append: (entry: RequestEntry) => void
    /** Notes that a key was used. */
    readonly touch: (id: ApiKeyId, at: Millis) => void
    /** Commits what has gathered; the number of entries and keys written. What cannot be written now is kept. */
    readonly flush: Effect.Effect<number>
  }
>()("mailroom/core/operations/RequestLog") {
  static readonly layer = Layer.effect(
    RequestLog,
    Effect.gen(function* () {
      const store = yield* Store
      const seldom = SeldomLog.make()
      let entries: Array<RequestEntry> = []
      let used = new Map<ApiKeyId, Millis>()

      /** The oldest, as many as one commit has, and all keys: how many that were, 0 if the store took none. */
      const flushSome = Effect.suspend(() => {
        const [written, touched] = [entries.slice(0, entriesPerCommit), used]
        entries = entries.slice(entriesPerCommit)
        used = new Map()
        if (written.length === 0 && touched.size === 0) return Effect.succeed(0)
        const keys = [...touched].map(([id, at]) => ({ id, at }))
        const changes: ReadonlyArray<Change> = [
          ...(written.length === 0 ? [] : [{ _tag: "AppendRequests" as const, entries: written }]),
          ...(keys.length === 0 ? [] : [{ _tag: "TouchApiKeys" as const, used: keys }])
        ]
        return store.commit(changes, []).pipe(
          Effect.as(written.length + touched.size),
          Effect.catch((error) => {
            entries = [...written, ...entries].slice(-entriesMax)
            for (const [id, at] of touched) used.set(id, Math.max(at, used.get(id) ?? at))
            return Effect.as(seldom(Effect.logWarning("the request log could not be written", error)), 0)
          })
        )
      })

      /** What is there by now; what comes meanwhile is the next one's. */
      const flush = Effect.gen(function* () {
        let [left, flushed, some] = [entries.length, 0, 0]
        do {
          some = yield* flushSome
          flushed += some
          left -= entriesPerCommit
        } while (some > 0 && left > 0)
        return flushed
      })

      return RequestLog.of({
        append: (entry) => {
          entries.push(entry)
          if (entries.length >= 2 * entriesMax) entries = entries.slice(-entriesMax) // in blocks, for it costs a copy
        },
        touch: (id, at) => void used.set(id, Math.max(at, used.get(id) ?? at)),
        // Seen through once begun: what was taken out of the buffers must be written, or put back.
        flush: Effect.uninterruptible(flush)
      })
    })
  )
}
