/** Starts a program of this folder and waits for the line of JSON by which it says that it is ready. */
import { spawn, type ChildProcess } from "node:child_process"
import { createInterface } from "node:readline"

export interface Started {
  readonly pid: number
  readonly ready: Readonly<Record<string, string>>
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
    stdio: ["ignore", "pipe", "inherit"]
  })
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()))
  const line = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout! }).once("line", resolve) // piped above
    void ended.then(() => reject(new Error(`${file} ended before it was ready`)))
  })
  return {
    pid: child.pid!, // it printed a line, so it runs
    ready: JSON.parse(line),
    stop: async () => {
      child.kill("SIGTERM")
      await ended
    }
  }
}
