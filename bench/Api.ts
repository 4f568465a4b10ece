/** Calls to the API as a client without a library makes them. */
import { randomInt, randomUUID } from "node:crypto"

/** Who calls: a key of an application, and a mailbox that it may send from. */
export interface Caller {
  readonly name: string
  readonly apiKey: string
  readonly mailboxId: string
  readonly environment: "sandbox" | "production"
  /** A text that only this caller's tenant may ever see. */
  readonly canary: string
}

/** A JSON object or a row, whose members are looked at by name. */
// oxlint-disable-next-line typescript/no-explicit-any -- rules read the members that they are about, and declare no shapes
export type Members = Record<string, any>

export interface Reply {
  readonly status: number
  readonly json: Members
  readonly headers: Headers
}

/** Null: no answer. */
export const call = async (
  baseUrl: string,
  apiKey: string,
  method: string,
  path: string,
  { body, headers = {}, timeoutMs = 15_000 }: { readonly body?: unknown; readonly headers?: Record<string, string>; readonly timeoutMs?: number } = {}
): Promise<Reply | null> => {
  try {
    const response = await fetch(`${baseUrl}${path}`, {
      method,
      headers: { authorization: `Bearer ${apiKey}`, ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(timeoutMs)
    })
    const text = await response.text()
    return { status: response.status, json: parsed(text), headers: response.headers }
  } catch {
    return null
  }
}

/** What is no JSON is an answer, too, and has no members but itself. */
const parsed = (text: string): Members => {
  if (text === "") return {}
  try {
    return JSON.parse(text) as Members
  } catch {
    return { unreadable: text }
  }
}

export const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

/** A kilobyte: as text and as HTML it makes the 2 KB that sends are measured with. */
export const kilobyte = "The Analytical Engine weaves algebraic patterns. ".repeat(20)

/** What a send says: the words as text and as HTML. */
export const letter = ({ mailboxId }: Caller, words: string) => ({
  fromMailboxId: mailboxId,
  to: ["charles@example.com"],
  subject: "Note G",
  text: words,
  html: `<p>${words}</p>`
})

/** One message, accepted; its id. */
export const send = async (baseUrl: string, caller: Caller, words = "The engine weaves algebraic patterns."): Promise<string> => {
  const body = letter(caller, words)
  const reply = await call(baseUrl, caller.apiKey, "POST", "/v1/messages", { body, headers: { "idempotency-key": randomUUID() } })
  if (reply?.status !== 202) throw new Error(`void: answered ${reply?.status} ${JSON.stringify(reply?.json)}`)
  return String(reply.json["id"])
}

/** From 0 up to 1. */
export const chance = (): number => randomInt(0, 2 ** 32) / 2 ** 32
