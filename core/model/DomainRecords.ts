/**
 * The DNS records of a mail domain: which there should be, what is to be looked
 * up for them, and what it says. Says nothing of what follows: that is
 * `MailDomain.assess`. What an installation has no setting for is not asked for.
 *
 * Optional records are the ones of what a domain may do and need not: have its
 * bounces under its own name, and receive mail here. They count once they were
 * seen, and no longer than the grace after they have gone.
 */
import type { DomainName } from "./Address.ts"
import type { Millis } from "./Ids.ts"
import { domainGrace } from "./Limits.ts"
import type { MailDomain, RecordCheck } from "./MailDomain.ts"
import * as ReturnPath from "./ReturnPath.ts"

/** What an installation wants of its domains' records. */
export interface RecordSettings {
  /** SPF terms that cover what our mail leaves from: `include:spf.example.net`, `ip4:192.0.2.1`. None: SPF is not asked for. */
  readonly spf: ReadonlyArray<string>
  /** Where mail to a domain comes in; null: nowhere. */
  readonly mxHost: DomainName | null
  /** Where bounces come back to; null: to the sending mailbox. */
  readonly bounceDomain: DomainName | null
}

export type RecordType = "TXT" | "MX" | "CNAME"

export interface ExpectedRecord {
  readonly record: RecordCheck["record"]
  readonly type: RecordType
  readonly name: string
  /** What to set. */
  readonly value: string
  readonly isOptional: boolean
}

/** One question to the DNS. */
export interface Question {
  readonly type: RecordType
  readonly name: string
}

/** TXT records with their strings joined; MX records as `10 host`; the target of a CNAME. */
export type Answer = ReadonlyArray<string> | "unavailable"

/** What the DNS said, by `keyOf` of the question. A name without such records has none of them. */
export type Answers = ReadonlyMap<string, Answer>

export const keyOf = ({ type, name }: Question): string => `${type} ${name}`

/** Where bounces of this domain's mail go; null: to the sending mailbox. */
export const returnPathDomain = ({ domain, checks }: MailDomain, bounceDomain: DomainName | null): DomainName | null =>
  bounceDomain !== null && checks.some(({ record, state }) => record === "return_path" && state === "ok")
    ? ReturnPath.ownHost(domain)
    : bounceDomain

/** The records that a domain should have, in the order in which they are set. It has a proof and a DKIM key. */
export const expected = (of: MailDomain, settings: RecordSettings): ReadonlyArray<ExpectedRecord> => {
  const { domain, proof, dkim, nextDkim } = of
  const { spf, mxHost, bounceDomain } = settings
  const key = dkim ?? nextDkim
  const txt = (record: RecordCheck["record"], name: string, value: string) => ({ record, type: "TXT", name, value, isOptional: false }) as const
  return [
    ...(proof === null ? [] : [txt("ownership", `_mailroom.${domain}`, `mailroom-verify=${proof}`)]),
    ...(key === null ? [] : [txt("dkim", selectorName(domain, key.selector), dkimValue(key.publicKey))]),
    // With a bounce domain, SPF is looked up there: the installation's own, or the one that the CNAME below leads to.
    ...(spf.length === 0 || bounceDomain !== null ? [] : [txt("spf", domain, `v=spf1 ${spf.join(" ")} ~all`)]),
    txt("dmarc", `_dmarc.${domain}`, "v=DMARC1; p=none"),
    ...(bounceDomain === null
      ? []
      : [{ record: "return_path", type: "CNAME", name: ReturnPath.ownHost(domain), value: bounceDomain, isOptional: true } as const]),
    ...(mxHost === null ? [] : [{ record: "mx", type: "MX", name: domain, value: `10 ${mxHost}`, isOptional: true } as const])
  ]
}

/** The record of a key that waits to be seen beside the one that signs; null if none does. */
export const expectedNext = ({ domain, dkim, nextDkim }: MailDomain): ExpectedRecord | null =>
  dkim === null || nextDkim === null
    ? null
    : {
        record: "dkim",
        type: "TXT",
        name: selectorName(domain, nextDkim.selector),
        value: dkimValue(nextDkim.publicKey),
        isOptional: true
      }

/** What to look up for a record: the first name that has an answer of its kind counts. A DMARC policy is inherited. */
export const questionsOf = ({ record, type, name }: ExpectedRecord): ReadonlyArray<Question> => {
  if (record !== "dmarc") return [{ type, name }]
  const labels = name.split(".").slice(1)
  return labels.slice(0, -1).map((_, index) => ({ type, name: `_dmarc.${labels.slice(index).join(".")}` }))
}

/** What the answers say of a record, and since when it has been in order, or not, as far as is known. */
export const check = (
  wanted: ExpectedRecord,
  answers: Answers,
  former: RecordCheck | undefined,
  now: Millis
): RecordCheck => {
  const { state, observed } = look(wanted, answers)
  const wasOk = former?.state === "ok"
  const since = former !== undefined && (state === "unknown" || wasOk === (state === "ok")) ? former.since : now
  return { record: wanted.record, state, expected: wanted.value, observed: observed === null ? null : shortened(observed), since }
}

/**
 * The checks that count towards a domain's health, and how they are kept: what could not be looked up is kept as it was
 * seen last.
 */
export const counted = (
  wanted: ReadonlyArray<ExpectedRecord>,
  found: ReadonlyArray<RecordCheck>,
  former: ReadonlyArray<RecordCheck>,
  now: Millis
): { readonly checks: ReadonlyArray<RecordCheck>; readonly kept: ReadonlyArray<RecordCheck> } => {
  const before = (record: RecordCheck["record"]) => former.find((one) => one.record === record)
  const checks = found.filter((one) => {
    const isOptional = wanted.find(({ record }) => record === one.record)?.isOptional === true
    if (!isOptional || one.state === "ok") return true
    return before(one.record) !== undefined && (one.state === "unknown" || now - one.since <= domainGrace)
  })
  return { checks, kept: checks.map((one) => (one.state === "unknown" ? (before(one.record) ?? one) : one)) }
}

/** What is the matter with a record, and what to do; null if it is in order. */
export const advice = ({ name, type, value }: ExpectedRecord, { record, state, observed }: RecordCheck): string | null => {
  const isQuoted = type === "TXT" && (observed ?? "").split("\n").every((text) => unquoted(text) !== null)
  switch (state) {
    case "ok":
      return null
    case "unknown":
      return `${name} could not be looked up; it is looked up again`
    case "missing":
      return `there is no such record: set ${type} ${name} to ${value}`
    case "mismatch":
      return isQuoted
        ? `the ${record} record for ${name} is there, but in quotation marks, which are part of what was published: publish it without them`
        : mismatches[record](name, value, observed ?? "")
  }
}

const mismatches: Record<RecordCheck["record"], (name: string, value: string, observed: string) => string> = {
  ownership: (name, value) => `the TXT records at ${name} are others: add one that reads ${value}`,
  dkim: (name, _, observed) =>
    observed.includes("\n")
      ? `there are several records at ${name}, and a verifier takes any of them: leave the one expected`
      : /(?:^|;)\s*p\s*=\s*(?:;|$)/i.test(observed)
        ? `the key at ${name} is revoked (p=): set the record expected, or rotate the key`
        : `the record at ${name} is not of this key: set it as expected`,
  spf: (name, value, observed) =>
    observed.includes("\n")
      ? `${name} has several SPF records, which count as none: make them one`
      : `the SPF record of ${name} does not pass our mail: put ${terms(value).join(" ")} into it, before its "all"`,
  dmarc: (name, value) => `${name} has no valid DMARC policy, or several: leave one, such as ${value}`,
  return_path: (name, value) => `${name} leads elsewhere: make it a CNAME of ${value}, or remove it`,
  mx: (name, value) => `mail to ${name} goes elsewhere first: put ${value} before all others to receive it here`
}

interface Looked {
  readonly state: RecordCheck["state"]
  readonly observed: string | null
}

const missing: Looked = { state: "missing", observed: null }

const look = (wanted: ExpectedRecord, answers: Answers): Looked => {
  const quoted: Array<string> = []
  for (const question of questionsOf(wanted)) {
    const answer = answers.get(keyOf(question)) ?? []
    if (answer === "unavailable") return { state: "unknown", observed: null }
    const relevant = wanted.type === "TXT" ? answer.filter((text) => isAbout[wanted.record](text)) : answer
    if (relevant.length > 0) {
      return { state: matches[wanted.record](relevant, wanted) ? "ok" : "mismatch", observed: relevant.join("\n") }
    }
    if (quoted.length === 0) quoted.push(...answer.filter((text) => isAbout[wanted.record](unquoted(text) ?? "")))
  }
  // To everybody else it is as good as none, so it counts only where there is no other. Whoever set it sees it stand there.
  return quoted.length === 0 ? missing : { state: "mismatch", observed: quoted.join("\n") }
}

/** The text of a record whose owner has published the quotation marks of a zone file with it; null for any other. */
const unquoted = (text: string): string | null => {
  const inside = /^\s*"(.*)"\s*$/s.exec(text)?.[1]
  return inside === undefined ? null : inside.replace(/"\s*"/g, "")
}

/** Whether a TXT record is of this kind at all: others may stand beside it. */
const isAbout: Record<RecordCheck["record"], (text: string) => boolean> = {
  ownership: () => true,
  dkim: () => true,
  spf: (text) => /^v=spf1(?: |$)/i.test(text),
  dmarc: (text) => /^v\s*=\s*DMARC1\s*(?:;|$)/.test(text),
  return_path: () => true,
  mx: () => true
}

const matches: Record<RecordCheck["record"], (found: ReadonlyArray<string>, wanted: ExpectedRecord) => boolean> = {
  ownership: (found, { value }) => found.some((text) => text.trim() === value),
  dkim: ([text, ...others], { value }) => others.length === 0 && isKey(text!, value), // there is one
  spf: ([text, ...others], { value }) => others.length === 0 && passes(text!, terms(value)), // there is one
  dmarc: ([text, ...others]) => others.length === 0 && isPolicy(text!), // there is one
  return_path: (found, { value }) => found.some((target) => host(target) === value),
  mx: (found, { value }) => {
    const exchanges = found.map(exchangeOf)
    const first = Math.min(...exchanges.map(({ preference }) => preference))
    return exchanges.some(({ preference, name }) => preference === first && name === exchangeOf(value).name)
  }
}

const selectorName = (domain: DomainName, selector: string): string => `${selector}._domainkey.${domain}`

const dkimValue = (publicKey: string): string => `v=DKIM1; k=rsa; p=${publicKey}`

/** The tags of a tag list (RFC 6376 3.2); null for a text that is none, or has a tag twice. */
const tagsOf = (text: string): ReadonlyMap<string, string> | null => {
  const tags = new Map<string, string>()
  for (const part of text.split(";")) {
    if (part.trim() === "") continue
    const at = part.indexOf("=")
    const name = part.slice(0, at).trim()
    if (at < 0 || !/^[A-Za-z][A-Za-z0-9_]*$/.test(name) || tags.has(name)) return null
    tags.set(name, part.slice(at + 1).trim())
  }
  return tags
}

/** Whether a key record (RFC 6376 3.6.1) is of the expected key, and may be used for mail signed with SHA-256. */
const isKey = (text: string, value: string): boolean => {
  const [tags, own] = [tagsOf(text), tagsOf(value)]
  if (tags === null || own === null) return false
  const lists = (tag: string, word: string) => (tags.get(tag) ?? word).split(":").some((one) => [word, "*"].includes(one.trim().toLowerCase()))
  const bare = (key: string | undefined) => (key ?? "").replace(/\s/g, "")
  return (
    (tags.get("v") ?? "DKIM1") === "DKIM1" &&
    (tags.get("k") ?? "rsa").toLowerCase() === "rsa" &&
    lists("h", "sha256") &&
    lists("s", "email") &&
    bare(tags.get("p")) === bare(own.get("p"))
  )
}

/** The mechanisms that pass our mail, of a whole SPF record that is expected. */
const terms = (value: string): ReadonlyArray<string> => value.toLowerCase().split(/ +/).slice(1, -1)

/** Whether these mechanisms pass: they stand there unqualified, and before what ends the evaluation (RFC 7208 4.6.2). */
const passes = (text: string, wanted: ReadonlyArray<string>): boolean => {
  const own = text.toLowerCase().split(/ +/).slice(1)
  const all = own.findIndex((term) => /^[+?~-]?all$/.test(term))
  const evaluated = new Set((all < 0 ? own : own.slice(0, all)).map((term) => term.replace(/^\+/, "").replace(/\.$/, "")))
  return wanted.every((term) => evaluated.has(term.replace(/\.$/, "")))
}

/** Whether a DMARC record has a policy that receivers follow (RFC 7489 6.3). What else is wrong with it they pass over. */
const isPolicy = (text: string): boolean => {
  const [policy, ...others] = text.split(";").flatMap((tag) => /^p\s*=(.*)$/is.exec(tag.trim())?.[1] ?? [])
  return policy !== undefined && others.length === 0 && ["none", "quarantine", "reject"].includes(policy.trim().toLowerCase())
}

/** A host name as names are compared. The root, of a null MX, is the empty text. */
const host = (name: string): string => name.toLowerCase().replace(/\.$/, "")

const exchangeOf = (text: string): { readonly preference: number; readonly name: string } => {
  const space = text.indexOf(" ")
  return { preference: Number(text.slice(0, space)), name: host(text.slice(space + 1)) }
}

/** Strangers choose what stands in the DNS; a key record is of half that length. */
const shortened = (text: string): string => (text.length > 1_000 ? `${text.slice(0, 1_000).toWellFormed()}…` : text)
