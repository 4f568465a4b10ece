#!/usr/bin/env node
/** The installed command. What it is made of may be missing, so it imports nothing of that at first. */
import { missingPackage } from "./MissingPackage.ts"

import("./main.ts").catch((error: unknown) => {
  const missing = missingPackage(error)
  if (missing === null) throw error
  process.stderr.write(`mailroom: ${missing}\n`)
  process.exitCode = 1
})
