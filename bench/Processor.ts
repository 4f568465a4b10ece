/** What processes have used of the machine; Linux tells it under /proc. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs"
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
  const own = cpuMs(parent) + (Number(fields[13]) + Number(fields[14])) * 10
  return childrenOf(parent).reduce((sum, pid) => sum + unlessEnded(() => cpuMs(pid)), own)
}

const postmasterOf = (folder: string): number => Number(readFileSync(join(folder, "data", "postmaster.pid"), "latin1").split("\n")[0])

/** Processor time of a PostgreSQL server. */
export const postgresCpuMs = (folder: string): number => treeCpuMs(postmasterOf(folder))

/** What a PostgreSQL server has of memory beside the buffers that its processes share. */
export const postgresMiB = (folder: string): number => {
  const postmaster = postmasterOf(folder)
  return [postmaster, ...childrenOf(postmaster)].reduce((sum, pid) => sum + unlessEnded(() => privateMiB(pid)), 0)
}

const childrenOf = (parent: number): ReadonlyArray<number> =>
  readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return []
    try {
      return Number(statOf(Number(name))[1]) === parent ? [Number(name)] : []
    } catch {
      return [] // it has ended meanwhile
    }
  })

const memoryMiB = (pid: number, field: "VmHWM" | "VmRSS" | "RssAnon"): number =>
  Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${pid}/status`, "latin1"))![1]) / 1024

const unlessEnded = (look: () => number): number => {
  try {
    return look()
  } catch {
    return 0
  }
}

/** Peak resident memory of a process in MiB. */
export const peakMiB = (pid: number): number => memoryMiB(pid, "VmHWM")

/** The peak is what it has now; from here on it is counted anew. */
export const forgetPeak = (pid: number): void => writeFileSync(`/proc/${pid}/clear_refs`, "5")

export const residentMiB = (pid: number): number => memoryMiB(pid, "VmRSS")

/** Of its resident memory what it shares with nobody: neither code nor the buffers of a server. */
export const privateMiB = (pid: number): number => memoryMiB(pid, "RssAnon")

/** Files, sockets and pipes that a process has open. */
export const openFiles = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length
