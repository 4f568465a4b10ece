/** The address a request came from, as the IP guard counts it: IPv4 whole, IPv6 by its /64. */

/** The counter's name: `192.0.2.7`, or `2001:db8:0:1::/64`. Text that is no address is its own counter. */
export const bucketOf = (address: string): string => {
  const bare = address.replace(/%.*$/, "").toLowerCase()
  const mapped = /^::ffff:(\d{1,3}(?:\.\d{1,3}){3})$/.exec(bare)
  if (mapped !== null) return mapped[1]!
  if (!bare.includes(":")) return bare
  const [head, tail] = bare.split("::") as [string, string?] // a split has a first part
  const left = head === "" ? [] : head.split(":")
  const right = tail === undefined || tail === "" ? [] : tail.split(":")
  const groups = tail === undefined ? left : [...left, ...Array<string>(Math.max(0, 8 - left.length - right.length)).fill("0"), ...right]
  return `${groups.slice(0, 4).map((group) => group.replace(/^0+(?=.)/, "")).join(":")}::/64`
}
