/**
 * The fields of a delivery status notification (RFC 3464, 6533), as servers
 * write them: groups run together or torn apart, types missing, addresses
 * dressed up, words of their own for the action.
 */
import { addressesIn, addressesOf, fieldOf } from "./MailText.ts"

/** What a report says of one recipient, before it is judged. */
export interface Finding {
  readonly address: string | null
  /** Where the server sent it on to, if it tells: another name of the same recipient. */
  readonly alias: string | null
  readonly action: "failed" | "delayed" | "delivered" | "relayed" | "expanded" | null
  /** The enhanced status code. */
  readonly status: string | null
  /** As the server said it, with its lines. */
  readonly diagnostic: string | null
  readonly willRetry: boolean
}

/** Nobody sends one message to more; a report that names more is not worth the time. */
export const recipientsMax = 1_000
const linesMax = 40_000
const lineLengthMax = 4_000

type Group = ReadonlyMap<string, string>

const ofRecipient = new Set([
  "original-recipient", "final-recipient", "x-actual-recipient", "action", "status", "remote-mta", "diagnostic-code",
  "last-attempt-date", "will-retry-until", "final-log-id"
])

/** The fields that name a recipient. */
const recipientNames: ReadonlySet<string> = new Set(["final-recipient", "original-recipient"])

/** Whether a text holds fields of RFC 3464 that speak of a recipient. */
export const isStatus = (text: string): boolean => {
  let hasRecipient = false
  let saysWhat = false
  for (const line of text.split("\n", 4_000)) {
    const name = fieldOf(line.slice(0, 200))?.name ?? ""
    hasRecipient ||= recipientNames.has(name)
    saysWhat ||= name === "action" || name === "status" || name === "diagnostic-code"
    if (hasRecipient && saysWhat) return true
  }
  return false
}

export interface DeliveryStatus {
  readonly findings: ReadonlyArray<Finding>
  /** Some servers name the message here, outside any standard. */
  readonly originalMessageId: string | null
}

export const read = (text: string): DeliveryStatus => {
  const { groups, originalMessageId } = groupsIn(text)
  return { findings: groups.map(toFinding), originalMessageId }
}

/** A group for each recipient. */
const groupsIn = (text: string): { readonly groups: ReadonlyArray<Group>; readonly originalMessageId: string | null } => {
  const { blocks, originalMessageId } = blocksIn(text)
  return { groups: runsOf(blocks).flatMap(groupsOf).filter(speaks).slice(0, recipientsMax), originalMessageId }
}

interface Field {
  readonly name: string
  value: string
}

/** The fields that speak of recipients, as empty lines part them. */
const blocksIn = (text: string): { readonly blocks: ReadonlyArray<ReadonlyArray<Field>>; readonly originalMessageId: string | null } => {
  const blocks: Array<Array<Field>> = []
  let originalMessageId: string | null = null
  let isOpen = false
  let last: Field | null = null
  for (const raw of text.split("\n", linesMax)) {
    const line = raw.slice(0, lineLengthMax)
    if (last !== null && /^[ \t]+\S/.test(line)) {
      if (last.value.length < lineLengthMax) last.value = `${last.value} ${line.trim()}`.trim()
      continue
    }
    last = null
    isOpen &&= line.trim() !== ""
    const field = fieldOf(line)
    if (field === null) continue
    if (/^(x-)?original-message-id$/.test(field.name)) originalMessageId ??= field.value
    if (!ofRecipient.has(field.name)) continue
    if (!isOpen) blocks.push([])
    isOpen = true
    last = { ...field }
    blocks.at(-1)!.push(last)
  }
  return { blocks, originalMessageId }
}

const namesRecipient = ({ name }: Field): boolean => recipientNames.has(name)
const isOutcome = ({ name }: Field): boolean => name === "action" || name === "status"

/**
 * Fields among which an empty line parts no groups: it does where both what is before and what is behind it names somebody,
 * and what is before tells what became of the mail. Where no block does both, groups are torn apart, and empty lines say nothing.
 */
const runsOf = (blocks: ReadonlyArray<ReadonlyArray<Field>>): ReadonlyArray<ReadonlyArray<Field>> => {
  if (!blocks.some((block) => block.some(namesRecipient) && block.some(isOutcome))) return [blocks.flat()]
  const runs: Array<Array<Field>> = []
  let hasName = false
  let hasOutcome = false
  for (const block of blocks) {
    const isNamed = block.some(namesRecipient)
    if (runs.length === 0 || (isNamed && hasName && hasOutcome)) {
      runs.push([])
      hasName = hasOutcome = false
    }
    for (const field of block) runs.at(-1)!.push(field)
    hasName ||= isNamed
    hasOutcome ||= block.some(isOutcome)
  }
  return runs
}

/**
 * RFC 3464 gives the fields of a group no order, so the next group begins where a field is said again; and with the names
 * before it, where this one has names of its own and names lead: an outcome follows the last.
 */
const groupsOf = (run: ReadonlyArray<Field>): ReadonlyArray<Group> => {
  const lead = run.findLastIndex(namesRecipient) < run.findLastIndex(isOutcome)
  const groups: Array<Group> = []
  let group: Array<Field> = []
  for (const field of run) {
    if (group.some(({ name }) => name === field.name)) {
      const end = lead ? group.findLastIndex((other) => !namesRecipient(other)) + 1 : group.length
      const behind = group.slice(end)
      const moves = group.slice(0, end).some(namesRecipient) && behind.every(({ name }) => name !== field.name)
      groups.push(toGroup(moves ? group.slice(0, end) : group))
      group = moves ? behind : []
    }
    group.push(field)
  }
  return [...groups, toGroup(group)]
}

const toGroup = (fields: ReadonlyArray<Field>): Group => new Map(fields.map(({ name, value }) => [name, value]))

/** Remote-MTA and dates alone say nothing of anybody. */
const speaks = (group: Group): boolean =>
  ["final-recipient", "original-recipient", "action", "status", "diagnostic-code"].some((name) => group.has(name))

const toFinding = (group: Group): Finding => {
  const status = statusOf(group.get("status") ?? "")
  const final = ownAddress(group.get("final-recipient"))
  return {
    address: originalAddress(group.get("original-recipient"), final) ?? final ??
      ownAddress(group.get("x-actual-recipient")) ?? bareAddress(group.get("final-recipient")),
    alias: null,
    action: actionOf(group.get("action") ?? "", status),
    status,
    diagnostic: diagnosticOf(group.get("diagnostic-code")),
    willRetry: group.has("will-retry-until")
  }
}

/** As the sender gave it, in xtext (RFC 3461): some leave in the escapes of `+` and `=`, which alone of those occur in addresses. */
const originalAddress = (value: string | undefined, final: string | null): string | null => {
  const address = ownAddress(value)
  // A sub-address may look like one; where the mail went to shows it.
  return address === final ? address : address?.replace(/\+2B/g, "+").replace(/\+3D/g, "=") ?? null
}

/** `rfc822; <user@host> (comment)`, with any of it missing; null if there is no address in it. */
const ownAddress = (value: string | undefined): string | null => {
  if (value === undefined) return null
  const semicolon = value.indexOf(";")
  const type = semicolon < 0 ? "" : value.slice(0, semicolon).trim().toLowerCase()
  const typed = /^[\w-]{0,20}$/.test(type) && semicolon >= 0 ? value.slice(semicolon + 1) : value
  const decoded = unescaped(typed).trim()
  return addressesOf(decoded).at(-1) ?? addressesIn(`<${decoded.replace(/[<>\s]/g, "")}>`)[0]?.address ?? null
}

/** A recipient of the server itself, without a domain. */
const bareAddress = (value: string | undefined): string | null => {
  const bare = (value ?? "").slice((value ?? "").indexOf(";") + 1).replace(/[<>"]/g, "").trim()
  return /^[^\s@;:]{1,64}$/.test(bare) ? bare : null
}

/** Escapes `\x{C3A9}` of RFC 6533 that should have been taken away. */
const unescaped = (value: string): string => {
  if (!value.includes("\\x{")) return value
  return value.replace(/\\x\{([0-9A-Fa-f]{2,6})\}/g, (whole, hex: string) => {
    const code = Number.parseInt(hex, 16)
    return code <= 0x10ffff ? String.fromCodePoint(code) : whole
  })
}

/** A code with anything around it. */
export const statusOf = (value: string): string | null =>
  /(?:^|[^\d.])([245])\.\s?(\d{1,3})\.\s?(\d{1,3})(?![\d.]*\d)/.exec(value.slice(0, 200))?.slice(1).join(".") ?? null

const actionOf = (value: string, status: string | null): Finding["action"] => {
  const word = /^\W*([a-z-]+)/.exec(value.toLowerCase())?.[1] ?? ""
  if (/^(fail|undeliver|bounce|error|reject|expired|permanent|non-?deliver)/.test(word)) return "failed"
  if (/^(delay|defer|transient|temporar|warning|retry|queued)/.test(word)) return "delayed"
  if (/^(deliver|success)/.test(word)) return "delivered"
  if (word.startsWith("relay")) return "relayed"
  if (word.startsWith("expand")) return "expanded"
  return status === null ? null : status.startsWith("2") ? "delivered" : status.startsWith("5") ? "failed" : null
}

/** Without its type (`smtp;`), on one line. */
const diagnosticOf = (value: string | undefined): string | null => {
  if (value === undefined) return null
  const text = value.replace(/^\s*[\w-]{1,20}\s*;/, "").replace(/\s+/g, " ").trim()
  return text === "" ? null : text
}
