import { afterAll } from "@effect/vitest"
import { Effect } from "effect"
import { mkdtempSync, rmSync } from "node:fs"
import * as fs from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { suite } from "../../conformance/BlobStore.ts"
import { conforms } from "../../conformance/vitest.ts"
import * as FileBlobStore from "./FileBlobStore.ts"

const directory = mkdtempSync(join(tmpdir(), "mailroom-blobs-"))
afterAll(() => rmSync(directory, { recursive: true }))

const blobs = suite({
  held: Effect.promise(async () => {
    const entries = await fs.readdir(directory, { recursive: true, withFileTypes: true })
    const sizes = await Promise.all(entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => fs.stat(join(parentPath, name))))
    return sizes.reduce((sum, { size }) => sum + size, 0)
  }),
  corrupt: (tenantId, { sha256, sizeBytes }, how) =>
    Effect.promise(async () => {
      const path = join(directory, tenantId, sha256.slice(0, 2), sha256.slice(2, 4), sha256)
      if (how === "cut") return fs.truncate(path, sizeBytes - 1)
      const bytes = await fs.readFile(path)
      bytes[sizeBytes - 1]! ^= 1
      await fs.writeFile(path, bytes)
    })
})

conforms("FileBlobStore", blobs, FileBlobStore.layer({ directory }))
