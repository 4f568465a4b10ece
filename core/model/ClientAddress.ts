/** The address a request came from, as the IP guard counts it: IPv4 whole, IPv6 by its /64. */

/** The counter's name: `192.0.2.7`, or `2001:db8:0:1::/64`. Text that is no address is its own counter. */
export const bucketOf = (address: string): string => {
  const bare = address.replace(/%.*$/, "").toLowerCase()
  if (!bare.includes(":")) return bare
  const groups = groupsOf(bare)
  const [high, low] = groups.slice(6).map((group) => Number.parseInt(group, 16))
  if (high !== undefined && low !== undefined && groups.slice(0, 6).join(":") === mapped) {
    return [high >> 8, high & 0xff, low >> 8, low & 0xff].join(".")
  }
  return `${groups.slice(0, 4).join(":")}::/64`
}

/** What an IPv4 address begins with that came through an IPv6 socket. */
const mapped = "0:0:0:0:0:ffff"

/** All eight, in hexadecimal without leading zeros. */
const groupsOf = (address: string): ReadonlyArray<string> => {
  const inHex = address.replace(/(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/, (_, a, b, c, d) => `${pair(a, b)}:${pair(c, d)}`)
  const [head, tail] = inHex.split("::") as [string, string?] // a split has a first part
  const left = head === "" ? [] : head.split(":")
  const right = tail === undefined || tail === "" ? [] : tail.split(":")
  const zeros = tail === undefined ? [] : Array<string>(Math.max(0, 8 - left.length - right.length)).fill("0")
  return [...left, ...zeros, ...right].map((group) => group.replace(/^0+(?=.)/, ""))
}

const pair = (high: string, low: string): string => (Number(high) * 256 + Number(low)).toString(16)
