/**
 * The trace field that we put before what we receive (RFC 5321 4.4), and how
 * mail that goes round in circles is told by such fields.
 */
import type { Millis, RequestId } from "./Ids.ts"
import type { Header } from "./MimePart.ts"
import type { Peer } from "./Reception.ts"
import * as Timestamp from "./Timestamp.ts"

/** Hops after which mail is taken to be going round in circles. */
const hopsMax = 30

/** By which we know our own fields again. */
const marker = "(Mailroom)"

/** One `Received` field, folded, with its line end. Nothing of the peer's own words can end it or reach into another clause. */
export const received = (peer: Peer, hostName: string, id: RequestId, at: Millis): Uint8Array => {
  const literal = peer.remoteAddress.includes(":") ? `IPv6:${peer.remoteAddress}` : peer.remoteAddress
  return new TextEncoder().encode(
    `Received: from ${word(peer.helo)} ([${word(literal)}])\r\n` +
      `\tby ${hostName} ${marker} with ${peer.protocol} id ${id};\r\n` +
      `\t${Timestamp.toMailDate(at)}\r\n`
  )
}

/** What a client calls itself, as an atom: what cannot stand there is left out. */
const word = (text: string): string => text.replace(/[^A-Za-z0-9.:_[\]-]/g, "").slice(0, 255) || "unknown"

/** Whether these header fields are those of mail that goes round in circles: too many hops, or one that was here. */
export const isLoop = (headers: ReadonlyArray<Header>, hostName: string): boolean => {
  const hops = headers.filter(({ name }) => name.toLowerCase() === "received")
  const own = ` by ${hostName} ${marker} `.toLowerCase()
  return hops.length > hopsMax || hops.some(({ value }) => value.replace(/\s+/g, " ").toLowerCase().includes(own))
}
