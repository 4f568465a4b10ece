/** For tests: a zone of names that exist nowhere else. */
import type { Resolve } from "./Threads.ts"

/** By `TYPE name`: records, or the code that a look-up fails with. Other names are not there. */
export type Records = Readonly<Record<string, ReadonlyArray<unknown> | string>>

export interface Zone {
  readonly resolve: Resolve
  /** What was asked, in order. */
  readonly asked: ReadonlyArray<string>
}

export const make = (records: Records): Zone => {
  const asked: Array<string> = []
  return {
    asked,
    resolve: (name, type) => {
      const question = `${type} ${name.toLowerCase()}`
      asked.push(question)
      const found = records[question]
      if (found === "hang") return new Promise(() => {})
      if (typeof found === "object") return Promise.resolve(type === "TXT" ? found.map((text) => [text].flat()) : found)
      const isThere = Object.keys(records).some((key) => key.endsWith(` ${name.toLowerCase()}`))
      return Promise.reject(Object.assign(new Error(question), { code: found ?? (isThere ? "ENODATA" : "ENOTFOUND") }))
    }
  }
}
