/**
 * The client's address. It is the peer's, unless the peer is a proxy we were
 * told of: then it is the last hop in `X-Forwarded-For` that is not one. No
 * other forwarding header is read.
 */
import { BlockList, isIP } from "node:net"
import { plainOf } from "../core/model/ClientAddress.ts"

export interface TrustedProxies {
  readonly isTrusted: (address: string) => boolean
}

/** Of addresses and CIDR ranges. Text that is neither is left out: settings are checked where they are read. */
export const make = (ranges: ReadonlyArray<string>): TrustedProxies => {
  const list = new BlockList()
  for (const range of ranges) {
    const [address, bits] = range.split("/") as [string, string?] // a split has a first part
    const family = isIP(address)
    if (family === 0) continue
    list.addSubnet(address, Number(bits ?? (family === 4 ? 32 : 128)), family === 4 ? "ipv4" : "ipv6")
  }
  return { isTrusted: (address) => list.check(address, isIP(address) === 4 ? "ipv4" : "ipv6") }
}

export const addressOf = (peer: string, forwardedFor: string | undefined, { isTrusted }: TrustedProxies): string => {
  let address = plainOf(peer)
  if (forwardedFor === undefined || !isTrusted(address)) return address
  const hops = forwardedFor.split(",")
  for (let index = hops.length - 1; index >= 0; index--) {
    const hop = plainOf(withoutPort(hops[index]!.trim()))
    if (isIP(hop) === 0) return address // what stands before a hop that is no address was not written by a proxy of ours
    address = hop
    if (!isTrusted(hop)) return address
  }
  return address
}

/** `192.0.2.7:4711`, `[2001:db8::1]:4711` and `[2001:db8::1]` as some proxies write them. */
const withoutPort = (hop: string): string => {
  const bracketed = /^\[([^\]]+)\](?::\d+)?$/.exec(hop)
  if (bracketed !== null) return bracketed[1]!
  return /^\d{1,3}(?:\.\d{1,3}){3}:\d+$/.test(hop) ? hop.slice(0, hop.indexOf(":")) : hop
}
