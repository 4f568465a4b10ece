/** What docs/deploy.md shows of other servers' configuration, as it is run here. */
import { readFileSync } from "node:fs"
import { join } from "node:path"

/** The block of that language; there is one. */
export const blockOf = (language: string): string => {
  const page = readFileSync(join(import.meta.dirname, "../docs/deploy.md"), "utf8")
  const [, block, another] = page.split(`\n\`\`\`${language}\n`)
  if (block === undefined || another !== undefined) throw new Error(`docs/deploy.md has not one block of ${language}`)
  return block.slice(0, block.indexOf("```"))
}
