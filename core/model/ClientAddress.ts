/** The address that somebody comes from: as it is written, and as the IP guard counts it, IPv4 whole and IPv6 by its /64. */
import { bytesOf } from "./PublicAddress.ts"

/** An address without a zone; an IPv4 address that came through an IPv6 socket, in any of its forms, as IPv4. Any other text stays. */
export const plainOf = (address: string): string => {
  if (!address.includes(":")) return address
  const bare = address.replace(/%.*$/, "")
  const bytes = bytesOf(bare)
  return bytes !== undefined && mapped.every((byte, index) => bytes[index] === byte) ? bytes.slice(12).join(".") : bare
}

/** The counter's name: `192.0.2.7`, or `2001:db8:0:1::/64`. Text that is no address is its own counter. */
export const bucketOf = (address: string): string => {
  const plain = plainOf(address)
  const bytes = plain.includes(":") ? bytesOf(plain) : undefined
  if (bytes === undefined) return plain
  return `${[0, 2, 4, 6].map((index) => (bytes[index]! * 256 + bytes[index + 1]!).toString(16)).join(":")}::/64` // it has sixteen
}

/** What an IPv4 address begins with that came through an IPv6 socket. */
const mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]
