/** The address a request came from, as the IP guard counts it: IPv4 whole, IPv6 by its /64. */
import { bytesOf } from "./PublicAddress.ts"

/** The counter's name: `192.0.2.7`, or `2001:db8:0:1::/64`. Text that is no address is its own counter. */
export const bucketOf = (address: string): string => {
  const bare = address.replace(/%.*$/, "").toLowerCase()
  const bytes = bare.includes(":") ? bytesOf(bare) : undefined
  if (bytes === undefined) return bare
  if (mapped.every((byte, index) => bytes[index] === byte)) return bytes.slice(12).join(".")
  return `${[0, 2, 4, 6].map((index) => (bytes[index]! * 256 + bytes[index + 1]!).toString(16)).join(":")}::/64` // it has sixteen
}

/** What an IPv4 address begins with that came through an IPv6 socket. */
const mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]
