/** The line that a proxy puts before a connection, to say whose it is: PROXY protocol, version 1. */
import { isIP } from "node:net"

/** With its line end. */
export const sizeMax = 107

/** Whose connection it is; null for the proxy's own, undefined if it is no such line. The line comes without its end. */
export const read = (line: string): string | null | undefined => {
  if (/^PROXY UNKNOWN(?: [!-~ ]*)?$/.test(line)) return null
  const [, version, source, target, ...ports] = /^PROXY TCP([46]) (\S+) (\S+) (\d{1,5}) (\d{1,5})$/.exec(line) ?? []
  if (source === undefined || target === undefined) return undefined
  const isWhole = [source, target].every((address) => isIP(address) === Number(version)) && ports.every((port) => Number(port) <= 65_535)
  return isWhole ? source : undefined
}
