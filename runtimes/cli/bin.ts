#!/usr/bin/env node
/** The installed command. Its packages are optional for those who embed the core or use the client, so it says which are missing. */
import("./main.ts").catch((error: unknown) => {
  const isMissing = error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND"
  if (!isMissing) throw error
  const [, name = "a package"] = /Cannot find package '([^']+)'/.exec(error.message) ?? []
  process.stderr.write(
    `mailroom: ${name} is not installed. The command line wants: npm install @effect/platform-node @effect/sql-pg @electric-sql/pglite argon2 ioredis nodemailer postal-mime undici yaml\n`
  )
  process.exitCode = 1
})
