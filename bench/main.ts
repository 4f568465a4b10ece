/** `npm run bench -- NAME`, or all of them in turn. */
import { spawnSync } from "node:child_process"

const names = ["stack", "upload", "auth", "deadline", "bad-certificates", "hanging", "deliveries", "fairness", "row-security"]
const asked = process.argv.slice(2)
const unknown = asked.filter((name) => !names.includes(name))
if (unknown.length > 0) {
  console.error(`There is no benchmark ${unknown.join(", ")}. Choose of: ${names.join(", ")}`)
  process.exit(2)
}
for (const name of asked.length === 0 ? names : asked) {
  console.log(`\n# ${name}`)
  const { status } = spawnSync(process.execPath, [`${import.meta.dirname}/${name}.ts`], { stdio: "inherit" })
  if (status !== 0) process.exitCode = 1
}
