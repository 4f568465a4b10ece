#!/usr/bin/env node
/** The installed command. What it is made of may be missing, or the Node too old for it, so it imports nothing of that at first. */
import { missingPackage } from "./MissingPackage.ts"
import { oldNode } from "./OldNode.ts"

const refuse = (reason: string) => {
  process.stderr.write(`mailroom: ${reason}\n`)
  process.exitCode = 1
}

const old = oldNode(process.versions.node, process.execPath)
if (old !== null) refuse(old)
else {
  import("./main.ts").catch((error: unknown) => {
    const missing = missingPackage(error)
    if (missing === null) throw error
    refuse(missing)
  })
}
