/** What processes have used of the machine; Linux tells it under /proc. */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"

/** The fields behind the name, from the state on. */
const statOf = (pid: number): ReadonlyArray<string> => readFileSync(`/proc/${pid}/stat`, "latin1").split(") ")[1]!.split(" ")

/** Processor time of a process and all its threads in milliseconds; Linux counts it in hundredths of a second. */
export const cpuMs = (pid: number): number => {
  const fields = statOf(pid)
  return (Number(fields[11]) + Number(fields[12])) * 10
}

/** Processor time of a process, of its children, and of those that have ended. */
export const treeCpuMs = (parent: number): number => {
  const fields = statOf(parent)
  let sum = cpuMs(parent) + (Number(fields[13]) + Number(fields[14])) * 10
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue
    try {
      const stat = statOf(Number(name))
      if (Number(stat[1]) === parent) sum += (Number(stat[11]) + Number(stat[12])) * 10
    } catch {
      continue // it has ended meanwhile, and counts among those
    }
  }
  return sum
}

/** Processor time of a PostgreSQL server. */
export const postgresCpuMs = (folder: string): number =>
  treeCpuMs(Number(readFileSync(join(folder, "data", "postmaster.pid"), "latin1").split("\n")[0]))

const memoryMiB = (pid: number, field: "VmHWM" | "VmRSS"): number =>
  Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${pid}/status`, "latin1"))![1]) / 1024

/** Peak resident memory of a process in MiB. */
export const peakMiB = (pid: number): number => memoryMiB(pid, "VmHWM")

export const residentMiB = (pid: number): number => memoryMiB(pid, "VmRSS")

/** Files, sockets and pipes that a process has open. */
export const openFiles = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length
