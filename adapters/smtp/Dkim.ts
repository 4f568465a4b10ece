/**
 * Signs messages (RFC 6376, RFC 8463) for the domain of their From field, with
 * the keys that are configured for exactly that domain, or else with the key
 * that comes with the message. A message whose author cannot be told without
 * doubt is not signed.
 *
 * nodemailer's signer is left out: it holds the whole message (or writes it to
 * a disk), knows no Ed25519 and lets a second From field be added unnoticed.
 * Here the bytes are read once to sign and again to send. A signature has no
 * time in it, so the same message always gets the same one.
 */
import { Effect, Redacted, Stream } from "effect"
import { createHash, createPrivateKey, sign, type KeyObject } from "node:crypto"

export interface DkimKey {
  /** The domain of the From addresses that it signs for; not its subdomains. */
  readonly domain: string
  /** The key's public half stands at `<selector>._domainkey.<domain>`. */
  readonly selector: string
  /** RSA of at least 1024 bits, better 2048, or Ed25519; PEM. */
  readonly privateKey: Redacted.Redacted<string>
}

/**
 * The DKIM-Signature fields to be put before a message whose chunks split no CRLF; empty if there is no key for its author.
 * Dies on a key that cannot sign.
 */
export type Signer = <E>(bytes: Stream.Stream<Uint8Array, E>, own: DkimKey | null) => Effect.Effect<Uint8Array, E>

/** Throws on a key that cannot sign. */
export const signer = (configured: ReadonlyArray<DkimKey>): Signer => {
  const keys = configured.map(readKey)
  /** Keys that came with messages, as they were read, for as long as whoever sends them keeps them. */
  const read = new WeakMap<DkimKey, Key>()
  const readOnce = (own: DkimKey): Key => {
    const known = read.get(own) ?? readKey(own)
    read.set(own, known)
    return known
  }

  return (bytes, own) =>
    Effect.suspend(() => {
      const ownKey = own === null || keys.some(({ domain }) => domain === own.domain) ? [] : [readOnce(own)]
      const all = [...keys, ...ownKey]
      if (all.length === 0) return Effect.succeed(nothing)
      const message = reader((domain) => all.some((key) => key.domain === domain))
      return Stream.runForEachWhile(bytes, (chunk) => Effect.sync(() => message.read(chunk))).pipe(
        Effect.flatMap(() => {
          const digest = message.end()
          return digest === null
            ? Effect.succeed(nothing)
            : Effect.map(
                Effect.forEach(all.filter(({ domain }) => domain === digest.domain), (key) => signature(key, digest)),
                (fields) => Buffer.from(fields.join(""), "latin1")
              )
        })
      )
    })
}

const nothing = new Uint8Array(0)

// Keys

interface Key {
  readonly domain: string
  readonly selector: string
  readonly algorithm: "rsa-sha256" | "ed25519-sha256"
  readonly privateKey: KeyObject
}

const hostName = /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*$/

const readKey = (key: DkimKey): Key => {
  const [domain, selector] = [key.domain.toLowerCase(), key.selector.toLowerCase()]
  if (!hostName.test(domain) || !domain.includes(".")) throw new Error("the domain of a DKIM key is a domain name in A-labels")
  if (!hostName.test(selector)) throw new Error(`the DKIM selector at ${domain} is no host name`)
  const privateKey = parsePem(Redacted.value(key.privateKey))
  const bits = privateKey?.asymmetricKeyDetails?.modulusLength ?? 0
  if (privateKey?.asymmetricKeyType === "ed25519") return { domain, selector, algorithm: "ed25519-sha256", privateKey }
  if (privateKey?.asymmetricKeyType === "rsa" && bits >= 1024) return { domain, selector, algorithm: "rsa-sha256", privateKey }
  throw new Error(`the DKIM key ${selector} at ${domain} is no private key in PEM, RSA of at least 1024 bits or Ed25519`)
}

/** Null for what is no private key: the reason could quote it. */
const parsePem = (pem: string): KeyObject | null => {
  try {
    return createPrivateKey(pem)
  } catch {
    return null
  }
}

// Messages

interface Digest {
  readonly domain: string
  readonly fields: ReadonlyArray<Field>
  readonly bodyHash: string
}

interface Field {
  readonly name: string
  /** Canonicalised: unfolded, runs of white space as one space, none at the ends. */
  readonly value: string
}

/** A header block beyond this is nobody's that we know. */
const headSizeMax = 1024 * 1024

/** Takes a message apart as its chunks come; `read` says whether it wants more. */
const reader = (isOurs: (domain: string) => boolean) => {
  const head: Array<Buffer> = []
  let headSize = 0
  let tail = Buffer.alloc(0)
  let author: { readonly domain: string; readonly fields: ReadonlyArray<Field> } | null = null
  const body = simpleBody()

  /** Whether there is anything to sign. */
  const endHead = (): boolean => {
    const fields = parseFields(Buffer.concat(head).toString("latin1"))
    const domain = fields === null ? null : authorDomain(fields)
    author = fields !== null && domain !== null && isOurs(domain) ? { domain, fields } : null
    return author !== null
  }

  return {
    read: (chunk: Uint8Array): boolean => {
      if (author !== null) {
        body.update(chunk)
        return true
      }
      // An empty line ends the head; its four bytes may come in several chunks.
      const window = Buffer.concat([tail, chunk])
      const end = window.indexOf("\r\n\r\n")
      head.push(Buffer.from(end < 0 ? chunk : window.subarray(tail.length, end + 2)))
      headSize += chunk.length
      if (end < 0) {
        tail = Buffer.from(window.subarray(-3))
        return headSize <= headSizeMax
      }
      headSize = Number.NaN
      if (!endHead()) return false
      body.update(window.subarray(end + 4))
      return true
    },
    end: (): Digest | null => {
      // Without an empty line, all of it is head.
      if (headSize <= headSizeMax) endHead()
      return author === null ? null : { ...author, bodyHash: body.digest() }
    }
  }
}

/** RFC 6376 3.4.3: the body as it is, with one line end in place of the empty lines at its end. */
const simpleBody = () => {
  const hash = createHash("sha256")
  const lineEnds = Buffer.alloc(4096, "\r\n")
  let held = 0
  return {
    update: (chunk: Uint8Array): void => {
      let end = chunk.length
      while (end >= 2 && chunk[end - 2] === 0x0d && chunk[end - 1] === 0x0a) end -= 2
      if (end > 0) {
        for (; held > 0; held -= Math.min(held, 2048)) hash.update(lineEnds.subarray(0, 2 * Math.min(held, 2048)))
        hash.update(chunk.subarray(0, end))
      }
      held += (chunk.length - end) / 2
    },
    digest: (): string => hash.update("\r\n").digest("base64")
  }
}

/** Null if any line of it is no field: what comes after such a line is read differently by different readers. */
const parseFields = (head: string): ReadonlyArray<Field> | null => {
  // It is over before it begins, and what follows is body.
  if (head.startsWith("\r\n")) return null
  const lines = head.split("\r\n").reduce<Array<Array<string>>>((all, line) => {
    if (/^[ \t]/.test(line) && all.length > 0) all.at(-1)!.push(line)
    else if (line !== "") all.push([line])
    return all
  }, [])
  const fields = lines.map((folded): Field | null => {
    const match = /^([!-9;-~]+):/.exec(folded[0]!) // no list of lines is empty
    return match === null
      ? null
      : { name: match[1]!.toLowerCase(), value: canonical(folded.join("").slice(match[0].length)) }
  })
  return fields.includes(null) ? null : (fields as ReadonlyArray<Field>) // there is no null in it
}

const canonical = (value: string): string => value.replace(/[ \t]+/g, " ").replace(/^ | $/g, "")

/**
 * The domain of the one author: one From field, of one address, bare or in
 * angle brackets behind a name. A name that needs to be understood to find the
 * address (a comment, a group, an at sign, a bracket outside quotes) finds none.
 */
const authorDomain = (fields: ReadonlyArray<Field>): string | null => {
  const [from, ...more] = fields.filter(({ name }) => name === "from")
  if (from === undefined || more.length > 0) return null
  // A space in its place, for an address has none: what is quoted beside it may be decoded, and read as part of it.
  const plain = from.value.replace(/"(?:[^"\\]|\\[^])*"/g, " ")
  if (/["(),:;\\[\]]/.test(plain)) return null
  const [, inBrackets, bare] = /^(?:[^<>@]*<([^<>\s]+)>|([^<>\s]+))$/.exec(plain) ?? []
  const [, local, domain] = /^([^@]+)@([^@]+)$/.exec(inBrackets ?? bare ?? "") ?? []
  // Some readers decode what looks like an encoded-word there, and find other addresses in it.
  return local === undefined || domain === undefined || local.includes("=?") ? null : domain.toLowerCase()
}

// Signatures

/** Signed once more than they occur, also where they do not, so that none can be added. */
const sealedNames: ReadonlyArray<string> = ["from", "reply-to", "subject"]
/** The same, where they occur; relays add some of them where they are missing. */
const guardedNames: ReadonlyArray<string> = [
  "to",
  "cc",
  "sender",
  "date",
  "message-id",
  "in-reply-to",
  "references",
  "mime-version",
  "content-type",
  "content-transfer-encoding"
]
const listNames: ReadonlyArray<string> = ["list-id", "list-help", "list-unsubscribe", "list-unsubscribe-post"]

const signedNames = (fields: ReadonlyArray<Field>): ReadonlyArray<string> => {
  const times = (name: string, more: number) =>
    Array.from({ length: fields.filter((field) => field.name === name).length + more }, () => name)
  const present = (name: string) => fields.some((field) => field.name === name)
  return [
    ...sealedNames.flatMap((name) => times(name, 1)),
    ...guardedNames.filter(present).flatMap((name) => times(name, 1)),
    ...listNames.flatMap((name) => times(name, 0))
  ]
}

/** A whole field with its line end. */
const signature = ({ algorithm, domain, selector, privateKey }: Key, { fields, bodyHash }: Digest): Effect.Effect<string> => {
  const names = signedNames(fields)
  const unsigned = [
    `DKIM-Signature: v=1; a=${algorithm}; c=relaxed/simple;`,
    ` d=${domain};`,
    ` s=${selector};`,
    ` h=${foldNames(names)};`,
    ` bh=${bodyHash};`,
    " b="
  ].join("\r\n")
  const ownValue = canonical(unsigned.slice("DKIM-Signature:".length).replaceAll("\r\n", ""))
  const signed = [...lowest(names, fields), `dkim-signature:${ownValue}`].join("\r\n")
  const made =
    algorithm === "ed25519-sha256"
      ? signOnThread(null, createHash("sha256").update(signed, "latin1").digest(), privateKey)
      : signOnThread("sha256", Buffer.from(signed, "latin1"), privateKey)
  return Effect.map(made, (bytes) => `${unsigned}${bytes.toString("base64").replace(/.{72}(?=.)/g, "$&\r\n ")}\r\n`)
}

/** RSA takes a millisecond, in which everybody else would wait. */
const signOnThread = (algorithm: string | null, bytes: Buffer, key: KeyObject): Effect.Effect<Buffer> =>
  Effect.callback((resume) =>
    sign(algorithm, bytes, key, (error, signature) => resume(error === null ? Effect.succeed(signature) : Effect.die(error)))
  )

/** The named fields, the lowest of a name first; one more than there are is nothing. */
const lowest = (names: ReadonlyArray<string>, fields: ReadonlyArray<Field>): ReadonlyArray<string> => {
  const left = [...fields]
  return names.flatMap((name) => {
    const index = left.findLastIndex((field) => field.name === name)
    return index < 0 ? [] : left.splice(index, 1).map(({ value }) => `${name}:${value}`)
  })
}

/** Lines of about 70 characters; a colon may be followed by a fold. */
const foldNames = (names: ReadonlyArray<string>): string => {
  const lines: Array<string> = [""]
  for (const [index, name] of names.entries()) {
    const word = index < names.length - 1 ? `${name}:` : name
    if (lines.at(-1)!.length + word.length > 66) lines.push("")
    lines[lines.length - 1] += word
  }
  return lines.join("\r\n ")
}
