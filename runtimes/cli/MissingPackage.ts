/** Packages are optional for those who embed the core or use the client; whoever runs a command without one is told which. */

/** One line; null if the error is another. */
export const missingPackage = (error: unknown): string | null => {
  if (!(error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND")) return null
  const [, name = "a package"] = /Cannot find package '([^']+)'/.exec(error.message) ?? []
  return `${name} is not installed. The command line wants: npm install @effect/platform-node @effect/sql-pg @electric-sql/pglite argon2 iconv-lite ioredis mailauth nodemailer undici yaml`
}
