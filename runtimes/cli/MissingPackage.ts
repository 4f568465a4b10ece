/** Packages are optional for those who embed the core or use the client; whoever runs a command without one is told which. */

const wanted =
  "All commands together want: npm install @effect/platform-node @effect/sql-pg @electric-sql/pglite argon2 iconv-lite ioredis mailauth undici yaml"

/** One line; null if the error is another. */
export const missingPackage = (error: unknown): string | null => {
  if (!(error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND")) return null
  const [, name] = /Cannot find package '([^']+)'/.exec(error.message) ?? []
  if (name !== undefined) return `${name} is not installed: npm install ${name}. ${wanted}`
  // A file of a package that is there: one of another version has it.
  return `packages do not fit together: ${error.message}. npm chooses versions that fit in a folder of Mailroom's own, and not with -g. ${wanted}`
}
