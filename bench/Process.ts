/** Starts a program of this folder and waits for the line of JSON by which it says that it is ready. */
import { spawn, type ChildProcess } from "node:child_process"
import { createInterface } from "node:readline"

export interface Started {
  readonly pid: number
  readonly ready: Readonly<Record<string, string>>
  /** What it answers to a number that it is sent; for those that take one. */
  readonly ask: (number: number) => Promise<unknown>
  readonly stop: () => Promise<void>
}

export const start = (file: string, ...parameters: ReadonlyArray<string>): Promise<Started> => startWith({}, file, ...parameters)

/** With variables beside those of this process. */
export const startWith = async (
  variables: Readonly<Record<string, string>>,
  file: string,
  ...parameters: ReadonlyArray<string>
): Promise<Started> => {
  const child: ChildProcess = spawn(process.execPath, [`${import.meta.dirname}/${file}`, ...parameters], {
    env: { ...process.env, ...variables },
    stdio: ["ignore", "pipe", "inherit", "ipc"]
  })
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()))
  const line = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout! }).once("line", resolve) // piped above
    void ended.then(() => reject(new Error(`${file} ended before it was ready`)))
  })
  return {
    pid: child.pid!, // it printed a line, so it runs
    ready: JSON.parse(line),
    ask: (number) => {
      const answer = new Promise<unknown>((resolve) => child.once("message", resolve))
      child.send(number)
      return Promise.race([answer, ended.then(() => Promise.reject(new Error(`${file} ended instead of an answer`)))])
    },
    stop: async () => {
      child.kill("SIGTERM")
      await ended
    }
  }
}
