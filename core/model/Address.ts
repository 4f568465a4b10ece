/**
 * Mail addresses, bare: `local@domain`. The local part is a dot-atom of ASCII
 * (RFC 5322 3.2.3); quoted local parts, comments, address literals, display
 * names and what looks like an encoded-word (RFC 2047) are refused, so an
 * address means the same to every parser it meets.
 * The domain is mapped by UTS 46 and kept in A-label form.
 */
import { Effect, Result, Schema, SchemaGetter, SchemaIssue } from "effect"

/** A normalised address: local part as given, domain lower-case in A-label form. */
export const Address = Schema.String.pipe(Schema.brand("Address"))
export type Address = typeof Address.Type

/** A domain name, lower-case, in A-label form. */
export const DomainName = Schema.String.pipe(Schema.brand("DomainName"))
export type DomainName = typeof DomainName.Type

export const localPartLengthMax = 64
export const addressLengthMax = 254

const dotAtom = /^[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+(?:\.[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+)*$/
const label = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/
/** Characters with a meaning in a URL's authority; the WHATWG host parser must not see them. */
const notInHost = /[\u0000-\u0020\u007f%/\\?#@:[\]<>^|`{}"']/

/** A domain that is its own A-label form, as most are: plain labels of which none is encoded, and the last is no number. */
const mapped = /^(?:(?!xn--)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+(?!xn--)[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?$/

/** Maps a domain to its A-label form, or says why it is none. */
export const parseDomain = (input: string): Result.Result<DomainName, string> => {
  if (input.length <= 253 && mapped.test(input)) return Result.succeed(input as DomainName) // what the rest would make of it
  if (input === "" || input.length > 253 || notInHost.test(input)) return Result.fail("the domain is not a host name")
  if (input.endsWith(".")) return Result.fail("leave out the dot at the end of the domain")
  // The WHATWG URL host parser is UTS 46 non-transitional processing, and is on every platform we run on.
  const url = URL.parse(`http://${input}/`)
  if (url === null) return Result.fail("the domain is not a host name")
  const host = url.hostname
  const labels = host.split(".")
  if (host.length > 253 || labels.length < 2) return Result.fail("the domain needs at least two labels")
  if (!labels.every((part) => label.test(part))) return Result.fail("the domain has a label that is no host name label")
  if (/^[0-9]+$/.test(labels[labels.length - 1]!)) return Result.fail("the domain is an IP address")
  return Result.succeed(host as DomainName) // checked above
}

/** Normalises an address, or says why it is none. */
export const parse = (input: string): Result.Result<Address, string> => {
  if (input.trim() !== input) return Result.fail("remove the white space around the address")
  if (/[<>]/.test(input)) return Result.fail("give the bare address, without a display name and angle brackets")
  const at = input.indexOf("@")
  if (at < 0) return Result.fail("an address is local@domain")
  const local = input.slice(0, at)
  if (local.length > localPartLengthMax) return Result.fail(`the part before @ has at most ${localPartLengthMax} characters`)
  if (!dotAtom.test(local)) return Result.fail("the part before @ is not a dot-atom of ASCII characters")
  if (local.includes("=?")) return Result.fail("the part before @ looks like an encoded-word")
  return Result.flatMap(parseDomain(input.slice(at + 1)), (domain) => {
    const address = `${local}@${domain}`
    return address.length > addressLengthMax
      ? Result.fail(`an address has at most ${addressLengthMax} characters`)
      : Result.succeed(address as Address) // both halves are checked
  })
}

/** The part before `@`. */
export const localPart = (address: Address): string => address.slice(0, address.lastIndexOf("@"))

/** The part after `@`. */
export const domainOf = (address: Address): DomainName => address.slice(address.lastIndexOf("@") + 1) as DomainName // of a parsed address

/** Equal for addresses that name one recipient: case is folded, though RFC 5321 would allow it to matter. */
export const foldCase = (address: Address): string => address.toLowerCase()

/** Decodes request text to a normalised address; the issue names what is wrong. */
export const AddressFromString = Schema.String.annotate({ format: "email", examples: ["ada@example.com"] }).pipe(
  Schema.decodeTo(Address, {
    decode: SchemaGetter.transformEffect((text: string) =>
      Result.match(parse(text), {
        onSuccess: (address) => Effect.succeed(address),
        onFailure: (message) => Effect.fail(new SchemaIssue.InvalidValue({ message }))
      })
    ),
    encode: SchemaGetter.transform((address: string) => address)
  })
)
