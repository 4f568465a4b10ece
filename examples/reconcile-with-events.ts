/**
 * Catches up with everything that happened, and remembers how far it came: run
 * it again after a downtime, and it goes on where it stopped.
 */
import { readFile, rename, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"

const file = process.argv[2] ?? ".mailroom/dev.json"
const stateFile = process.argv[3] ?? join(dirname(file), "reconciled.json") // of this deployment
const { baseUrl, apiKey } = JSON.parse(await readFile(file, "utf8"))

interface State {
  /** The last cursor that was not null. */
  cursor: string | null
  /** Ids of events taken since that cursor, for its page is read again. */
  seen: Array<string>
}

const state: State = await readFile(stateFile, "utf8").then(JSON.parse, () => ({ cursor: null, seen: [] }))

/** Durable before the next page is asked for: written beside, then moved into place. */
const remember = async () => {
  await writeFile(`${stateFile}.new`, JSON.stringify(state))
  await rename(`${stateFile}.new`, stateFile)
}

let taken = 0
for (;;) {
  const query = new URLSearchParams({ limit: "100", ...(state.cursor === null ? {} : { cursor: state.cursor }) })
  const response = await fetch(`${baseUrl}/v1/events?${query}`, { headers: { authorization: `Bearer ${apiKey}` } })
  const page = JSON.parse(await response.text())
  if (!response.ok) throw new Error(`${response.status} ${page.code}: ${page.message} (request ${page.requestId})`)

  for (const event of page.items) {
    if (state.seen.includes(event.id)) continue
    console.log(`${event.occurredAt}  ${event.type.padEnd(22)} ${event.resourceId}`)
    state.seen.push(event.id)
    taken += 1
  }
  if (page.nextCursor === null) {
    await remember()
    break
  }
  state.cursor = page.nextCursor
  state.seen = []
  await remember()
}
console.log(`${taken} new events`)
