/**
 * The request log and last-used times, written behind: kept in memory, and
 * committed together by `flush`, which runtimes call each second and at the
 * end. A crash loses the last second of it, and nothing else.
 */
import { Context, Effect, Layer } from "effect"
import type { RequestEntry } from "../model/Audit.ts"
import type { ApiKeyId, Millis } from "../model/Ids.ts"
import { Store } from "../ports/Store.ts"

/** While the store is away, the newest this many are kept. */
const entriesMax = 10_000

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
      let entries: Array<RequestEntry> = []
      let used = new Map<ApiKeyId, Millis>()

      return RequestLog.of({
        append: (entry) => {
          entries.push(entry)
          if (entries.length >= 2 * entriesMax) entries = entries.slice(-entriesMax) // in blocks, for it costs a copy
        },
        touch: (id, at) => void used.set(id, Math.max(at, used.get(id) ?? at)),
        // Seen through once begun: what was taken out of the buffers must be written, or put back.
        flush: Effect.uninterruptible(Effect.suspend(() => {
          if (entries.length === 0 && used.size === 0) return Effect.succeed(0)
          const [written, touched] = [entries, used]
          entries = []
          used = new Map()
          return store
            .commit(
              [
                ...(written.length === 0 ? [] : [{ _tag: "AppendRequests" as const, entries: written }]),
                ...(touched.size === 0
                  ? []
                  : [{ _tag: "TouchApiKeys" as const, used: [...touched].map(([id, at]) => ({ id, at })) }])
              ],
              []
            )
            .pipe(
              Effect.as(written.length + touched.size),
              Effect.catch((error) => {
                entries = [...written, ...entries].slice(-entriesMax)
                for (const [id, at] of touched) used.set(id, Math.max(at, used.get(id) ?? at))
                return Effect.as(Effect.logWarning("the request log could not be written", error), 0)
              })
            )
        }))
      })
    })
  )
}
