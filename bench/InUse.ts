/**
 * What processes of the product have in use: their own memory once garbage is
 * collected, without the room that V8 keeps for what comes. Between collections
 * a process's memory says more of V8's choices than of what is held.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { sleep } from "./Api.ts"
import type { Supervised } from "./Cluster.ts"
import type { Collected } from "./collecting.ts"
import { privateMiB } from "./Processor.ts"

/** Of all that a process has, and of V8's heap, which is part of it. */
export interface InUse {
  readonly allMiB: number
  readonly heapMiB: number
}

export const open = () => {
  const folder = mkdtempSync(join(tmpdir(), "mailroom-collected-"))
  return {
    /**
     * For the processes that are asked. The C library gives back what is freed: by itself it would keep 19 MiB, a key's
     * hash, for some threads and not for others.
     */
    variables: {
      MALLOC_MMAP_THRESHOLD_: "131072",
      MALLOC_TRIM_THRESHOLD_: "131072",
      NODE_OPTIONS: `--expose-gc --import ${import.meta.resolve("./collecting.ts")}`,
      BENCH_COLLECTED_FOLDER: folder
    },
    /** Makes a process that is running collect its garbage. */
    of: async (one: Supervised): Promise<InUse> => {
      const file = join(folder, String(one.pid))
      rmSync(file, { force: true })
      one.signal("SIGUSR2")
      for (let waited = 0; !existsSync(file); waited += 10) {
        if (waited > 20_000) throw new Error(`void: ${one.name} does not collect its garbage\n${one.tail(3)}`)
        await sleep(10)
      }
      const { used, free }: Collected = JSON.parse(readFileSync(file, "utf8"))
      return { allMiB: privateMiB(one.pid!) - free / 1_048_576, heapMiB: used / 1_048_576 } // it has just answered
    },
    close: () => rmSync(folder, { recursive: true })
  }
}
