/**
 * What a line of a client asks for. It is read once, here, and by the grammar
 * of RFC 5321: what is not in it is refused with the reply that says so, and
 * nothing is made of it.
 */
import * as Reply from "./Reply.ts"

export type Command =
  | { readonly _tag: "Hello"; readonly verb: "HELO" | "EHLO" | "LHLO"; readonly name: string }
  | { readonly _tag: "Mail"; readonly path: string | null; readonly sizeBytes: number; readonly isUtf8: boolean }
  | { readonly _tag: "Recipient"; readonly path: string }
  | { readonly _tag: "Data" | "Reset" | "Noop" | "Quit" | "StartTls" | "Help" }
  /** `isFatal`: whoever says this speaks another protocol, or hides one in ours. */
  | { readonly _tag: "Refused"; readonly reply: Reply.Reply; readonly isFatal?: boolean }

const refused = (reply: Reply.Reply): Command => ({ _tag: "Refused", reply })

/** Of a line without its end. */
export const read = (line: Uint8Array): Command => {
  if (line.some((byte) => byte < 0x20 || byte === 0x7f)) return refused(Reply.controlCharacter)
  const text = utf8(line)
  if (text === null) return refused(Reply.notUtf8)
  if (/[\u0080-\u009f\u2028\u2029]/.test(text)) return refused(Reply.controlCharacter)
  const [, word = "", rest = ""] = /^([A-Za-z]*)(.*)$/.exec(text) ?? []
  const verb = word.toUpperCase()
  if (rest !== "" && !rest.startsWith(" ")) return refused(Reply.unknownCommand)
  const argument = rest.trim()
  switch (verb) {
    case "HELO":
    case "EHLO":
    case "LHLO":
      return /^[!-~]+$/.test(argument) ? { _tag: "Hello", verb, name: argument } : refused(Reply.badName)
    case "MAIL":
      return mail(argument)
    case "RCPT":
      return recipient(argument)
    case "DATA":
      return argument === "" ? { _tag: "Data" } : refused(Reply.noParameters)
    case "RSET":
      return argument === "" ? { _tag: "Reset" } : refused(Reply.noParameters)
    case "QUIT":
      return argument === "" ? { _tag: "Quit" } : refused(Reply.noParameters)
    case "STARTTLS":
      return argument === "" ? { _tag: "StartTls" } : refused(Reply.noParameters)
    case "NOOP":
      return { _tag: "Noop" }
    case "HELP":
      return { _tag: "Help" }
    case "VRFY":
    case "EXPN":
    case "AUTH":
    case "ETRN":
    case "TURN":
      return refused(Reply.notOffered)
    case "BDAT":
      // The bytes behind it are a message, whatever they look like.
      return { _tag: "Refused", reply: Reply.notOffered, isFatal: true }
    case "GET":
    case "POST":
    case "PUT":
    case "HEAD":
    case "OPTIONS":
    case "CONNECT":
      return { _tag: "Refused", reply: Reply.notHttp, isFatal: true }
    default:
      return refused(Reply.unknownCommand)
  }
}

const utf8 = (line: Uint8Array): string | null => {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(line)
  } catch {
    return null
  }
}

/** In octets, with its brackets. */
const pathSizeMax = 256

/**
 * A path and what follows it: a source route, which is left out as RFC 5321 (4.1.1.3) has it, a local part, plain or
 * quoted, and a domain or an address literal, which only `postmaster` may lack. Which of them are addresses of ours is not said here.
 */
const pathForm =
  /^<(?:@[^\s<>",:@]+(?:,@[^\s<>",:@]+)*:)?((?:"(?:[^"\\]|\\.)*"|[^\s<>"@\\(),:;[\]]+)@(?:[^\s<>"@\\(),:;[\]]+|\[[A-Za-z0-9.:-]+\])|postmaster)?>(.*)$/i

interface Path {
  /** Empty for the null sender. */
  readonly path: string
  readonly parameters: string
}

const pathOf = (keyword: string, argument: string): Path | null => {
  if (argument.slice(0, keyword.length).toUpperCase() !== keyword) return null
  const form = pathForm.exec(argument.slice(keyword.length).trimStart())
  if (form === null) return null
  const [, path = "", parameters = ""] = form
  return new TextEncoder().encode(path).length + 2 > pathSizeMax ? null : { path, parameters }
}

const mail = (argument: string): Command => {
  const read = pathOf("FROM:", argument)
  if (read === null || /^postmaster$/i.test(read.path)) return refused(Reply.badSender)
  const parameters = parametersOf(read.parameters)
  if (parameters === null) return refused(Reply.badParameters)
  let sizeBytes = 0
  for (const [key, value] of parameters) {
    if (key === "SIZE" && /^\d{1,20}$/.test(value ?? "")) sizeBytes = Number(value)
    else if (key === "BODY" && /^(7BIT|8BITMIME)$/i.test(value ?? "")) continue
    else if (key === "SMTPUTF8" && value === null) continue
    else return refused(["SIZE", "BODY", "SMTPUTF8"].includes(key) ? Reply.badParameters : Reply.unknownParameter)
  }
  const isUtf8 = parameters.has("SMTPUTF8")
  if (!isUtf8 && isBeyondAscii(read.path)) return refused(Reply.wantsUtf8)
  return { _tag: "Mail", path: read.path === "" ? null : read.path, sizeBytes, isUtf8 }
}

/** Such a path is for whoever asked for SMTPUTF8 (RFC 6531, 3.4). */
export const isBeyondAscii = (path: string): boolean => /[^\0-\x7f]/.test(path)

const recipient = (argument: string): Command => {
  const read = pathOf("TO:", argument)
  if (read === null || read.path === "") return refused(Reply.badRecipient)
  const parameters = parametersOf(read.parameters)
  if (parameters === null) return refused(Reply.badParameters)
  return parameters.size === 0 ? { _tag: "Recipient", path: read.path } : refused(Reply.unknownParameter)
}

/** By upper-case keyword; null for one that has no value, and in all if they are none, or one stands twice. */
const parametersOf = (text: string): ReadonlyMap<string, string | null> | null => {
  const parameters = new Map<string, string | null>()
  if (!/^(?: +[^ ]+)* *$/.test(text)) return null
  for (const parameter of text.split(" ").filter((part) => part !== "")) {
    const [, keyword, , value = null] = /^([A-Za-z0-9][A-Za-z0-9-]*)(=([^=]+))?$/.exec(parameter) ?? []
    if (keyword === undefined || parameters.has(keyword.toUpperCase())) return null
    parameters.set(keyword.toUpperCase(), value)
  }
  return parameters
}
