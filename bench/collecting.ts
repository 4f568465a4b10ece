/**
 * Loaded ahead of a process of the product (`--expose-gc --import`): told so by
 * SIGUSR2, it collects all garbage and writes what V8 holds by then into
 * `BENCH_COLLECTED_FOLDER`, under its process id.
 */
import { renameSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { getHeapSpaceStatistics } from "node:v8"
import { isMainThread } from "node:worker_threads"

/** In bytes. `used`: what is left in V8's heap. `free`: room that V8 keeps for what comes, and that nothing is in. */
export interface Collected {
  readonly used: number
  readonly free: number
}

const folder = process.env["BENCH_COLLECTED_FOLDER"]
const collect = globalThis.gc
if (isMainThread && folder !== undefined && collect !== undefined) {
  // In its last resort V8 gives back pages, too, that it would keep for later otherwise.
  const all = { type: "major", execution: "sync", flavor: "last-resort" } as const
  process.on("SIGUSR2", () => {
    collect(all)
    // What was finalized by the first one is garbage only now.
    setImmediate(() => {
      collect(all)
      const spaces = getHeapSpaceStatistics()
      const used = spaces.reduce((sum, space) => sum + space.space_used_size, 0)
      const free = spaces.reduce((sum, space) => sum + space.physical_space_size, 0) - used
      const file = join(folder, String(process.pid))
      writeFileSync(`${file}.part`, JSON.stringify({ used, free } satisfies Collected))
      renameSync(`${file}.part`, file)
    })
  })
}
