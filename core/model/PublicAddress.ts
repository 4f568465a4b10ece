/**
 * Which IP addresses belong to the public Internet (the IANA special-purpose
 * registries), and which an installation allows besides.
 *
 * An IPv6 address that stands for an IPv4 address (IPv4-mapped, NAT64) is
 * judged as that address, by the registries and by the allowed blocks alike.
 */

/** Whether a text is an IPv4 address in four decimal parts, or an IPv6 address without brackets and zone. */
export const isAddress = (text: string): boolean => bytesOf(text) !== undefined

/** Whether an address is public, or in one of these blocks (`127.0.0.0/8`, `::1/128`). Text that is no address is not. */
export const isAllowed = (address: string, allowedBlocks: ReadonlyArray<string>): boolean => {
  const bytes = bytesOf(address)
  if (bytes === undefined) return false
  const meant = embedded(bytes)
  return isPublic(meant) || allowedBlocks.some((text) => isIn(meant, allowedBlockOf(text)))
}

/** The blocks that this installation allows, as they were read: some few, and the same for each address. */
const read = new Map<string, Block | undefined>()

const allowedBlockOf = (text: string): Block | undefined => {
  if (!read.has(text)) read.set(text, blockOf(text))
  return read.get(text)
}

/** Whether a text is an address and the length of its network's prefix: `10.0.0.0/8`. */
export const isBlock = (text: string): boolean => blockOf(text) !== undefined

/** 4 bytes or 16. */
type Bytes = ReadonlyArray<number>

interface Block {
  readonly network: Bytes
  readonly bits: number
}

const blockOf = (text: string): Block | undefined => {
  const [address = "", prefix = "", ...rest] = text.split("/")
  const network = bytesOf(address)
  if (network === undefined || rest.length > 0 || !/^(0|[1-9]\d{0,2})$/.test(prefix)) return undefined
  return Number(prefix) <= network.length * 8 ? { network, bits: Number(prefix) } : undefined
}

const embedded = (bytes: Bytes): Bytes => (embedding.some((block) => isIn(bytes, block)) ? bytes.slice(12) : bytes)

const isPublic = (bytes: Bytes): boolean => {
  const isInOneOf = (list: ReadonlyArray<Block>) => list.some((block) => isIn(bytes, block))
  return bytes.length === 4 ? !isInOneOf(specialIPv4) : isInOneOf(globalUnicast) && !isInOneOf(specialGlobalUnicast)
}

const isIn = (bytes: Bytes, block: Block | undefined): boolean => {
  if (block === undefined || block.network.length !== bytes.length) return false
  for (let index = 0, bits = block.bits; bits > 0; index++, bits -= 8) {
    const mask = 0xff & (0xff << Math.max(8 - bits, 0))
    if (((bytes[index]! ^ block.network[index]!) & mask) !== 0) return false // of equal length
  }
  return true
}

/** Of an address as `isAddress` takes it; undefined for any other text. */
export const bytesOf = (text: string): Bytes | undefined => (text.includes(":") ? parseIPv6(text) : parseIPv4(text))

/** A leading zero is refused: some would read it as octal. */
const parseIPv4 = (text: string): Bytes | undefined => {
  const parts = text.split(".")
  const isWhole = parts.length === 4 && parts.every((part) => /^(0|[1-9]\d{0,2})$/.test(part) && Number(part) < 256)
  return isWhole ? parts.map(Number) : undefined
}

const parseIPv6 = (text: string): Bytes | undefined => {
  const halves = text.split("::")
  if (halves.length > 2) return undefined
  const head = groupsOf(halves[0]!, halves.length === 1) // a split has a first part
  const tail = groupsOf(halves[1] ?? "", true)
  if (head === undefined || tail === undefined) return undefined
  const missing = 16 - head.length - tail.length
  // `::` stands for at least one group of zeros.
  if (halves.length === 1 ? missing !== 0 : missing < 2) return undefined
  return [...head, ...Array<number>(missing).fill(0), ...tail]
}

/** The bytes of groups between colons; the last may be an IPv4 address where the whole ends. */
const groupsOf = (text: string, isEnd: boolean): Bytes | undefined => {
  if (text === "") return []
  const groups = text.split(":")
  const bytes: Array<number> = []
  for (const [index, group] of groups.entries()) {
    const value = Number.parseInt(group, 16)
    const ipv4 = isEnd && index === groups.length - 1 && group.includes(".") ? parseIPv4(group) : undefined
    if (ipv4 !== undefined) bytes.push(...ipv4)
    else if (/^[0-9a-f]{1,4}$/i.test(group)) bytes.push(value >> 8, value & 0xff)
    else return undefined
  }
  return bytes
}

const blocks = (...texts: ReadonlyArray<string>): ReadonlyArray<Block> => texts.flatMap((text) => blockOf(text) ?? [])

const specialIPv4 = blocks(
  "0.0.0.0/8", // this network
  "10.0.0.0/8", // private use
  "100.64.0.0/10", // shared by carriers
  "127.0.0.0/8", // loopback
  "168.63.129.16/32", // public by registry, but the host's agent from inside an Azure machine
  "169.254.0.0/16", // link-local, where clouds keep their metadata
  "172.16.0.0/12", // private use
  "192.0.0.0/24", // protocol assignments
  "192.0.2.0/24", // documentation
  "192.88.99.0/24", // 6to4 relays, deprecated
  "192.168.0.0/16", // private use
  "198.18.0.0/15", // benchmarks
  "198.51.100.0/24", // documentation
  "203.0.113.0/24", // documentation
  "224.0.0.0/4", // multicast
  "240.0.0.0/4" // reserved, and broadcast
)

/**
 * All that is assigned for use on the Internet. Outside of it lie the
 * unspecified address, loopback, IPv4-compatible (::/96), local NAT64
 * (64:ff9b:1::/48), discard-only (100::/64), segment routing (5f00::/16),
 * unique local (fc00::/7), link-local, site-local and multicast addresses,
 * and what nobody has been given.
 */
const globalUnicast = blocks("2000::/3")

const specialGlobalUnicast = blocks(
  "2001::/23", // protocol assignments, Teredo among them
  "2001:db8::/32", // documentation
  "2002::/16", // 6to4, which leads to an IPv4 address
  "3fff::/20" // documentation
)

/** Their last four bytes are the IPv4 address that they lead to. */
const embedding = blocks(
  "::ffff:0:0/96", // IPv4-mapped
  "64:ff9b::/96" // NAT64
)
