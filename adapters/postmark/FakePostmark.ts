/**
 * An HTTP server that takes mail as Postmark's email API does: the same path,
 * members and limits, and its errors by their codes. For tests of what calls it.
 */
import { Effect, type Scope } from "effect"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { Message } from "./PostmarkMessage.ts"

/** What becomes of a call. `Lost`: it is taken, and the connection ends without an answer. */
export type Behaviour =
  | { readonly _tag: "Takes" }
  | { readonly _tag: "Answers"; readonly status: number; readonly body: object | string }
  | { readonly _tag: "Lost" }
  | { readonly _tag: "Hangs" }

export interface FakePostmark {
  readonly endpoint: string
  readonly sent: ReadonlyArray<Message>
  /** Calls of any kind. */
  readonly calls: () => number
  /** Calls that are waiting for an answer. */
  readonly waiting: () => number
  readonly next: (...behaviours: ReadonlyArray<Behaviour>) => void
}

export const serverToken = "00000000-aaaa-4bbb-8ccc-000000000000"

/** Listens until the scope closes. */
export const start: Effect.Effect<FakePostmark, never, Scope.Scope> = Effect.gen(function* () {
  const sent: Array<Message> = []
  const behaviours: Array<Behaviour> = []
  const waiting = new Set<ServerResponse>()
  let calls = 0

  const serve = async (request: IncomingMessage, response: ServerResponse) => {
    calls += 1
    const chunks: Array<Buffer> = []
    for await (const chunk of request) chunks.push(chunk as Buffer) // a request gives buffers
    const answer = (status: number, body: object | string) =>
      response.writeHead(status, { "content-type": "application/json" }).end(typeof body === "string" ? body : JSON.stringify(body))
    if (request.method !== "POST" || request.url !== "/email") return answer(404, "")
    if (request.headers["x-postmark-server-token"] !== serverToken) return answer(401, { ErrorCode: 10, Message: "No valid token." })
    const behaviour = behaviours.shift() ?? { _tag: "Takes" }
    if (behaviour._tag === "Answers") return answer(behaviour.status, behaviour.body)
    if (behaviour._tag === "Hangs") return waiting.add(response.on("close", () => waiting.delete(response)))
    const message = JSON.parse(Buffer.concat(chunks).toString()) as Message // or what `faultOf` finds
    const fault = faultOf(message)
    if (fault !== null) return answer(422, { ErrorCode: 300, Message: fault })
    sent.push(message)
    if (behaviour._tag === "Lost") return request.socket.destroy()
    const MessageID = `00000000-0000-4000-8000-${String(sent.length).padStart(12, "0")}`
    return answer(200, { To: message.To, SubmittedAt: "2026-12-01T09:30:00.0000000Z", MessageID, ErrorCode: 0, Message: "OK" })
  }

  const server = createServer((request, response) => void serve(request, response).catch(() => response.destroy()))
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
    () => Effect.sync(() => (server.closeAllConnections(), server.close()))
  )
  const address = server.address()
  const port = typeof address === "object" && address !== null ? address.port : 0
  return {
    endpoint: `http://127.0.0.1:${port}`,
    sent,
    calls: () => calls,
    waiting: () => waiting.size,
    next: (...more) => void behaviours.push(...more)
  }
})

/** The bare addresses of a list, names left out. */
export const addressesIn = (list: string | undefined): ReadonlyArray<string> =>
  (list ?? "")
    .replace(/"(?:[^"\\]|\\.)*"/g, "")
    .split(",")
    .map((one) => /<([^<>]*)>/.exec(one)?.[1] ?? one.trim())
    .filter((one) => one !== "")

const members = new Set(
  ["From", "To", "Cc", "Bcc", "Subject", "ReplyTo", "TextBody", "HtmlBody", "Headers", "Attachments", "TrackOpens", "TrackLinks", "Metadata", "MessageStream", "Tag"]
)

const faultOf = (message: Message): string | null => {
  const unknown = Object.keys(message).find((member) => !members.has(member))
  const all = [message.To, message.Cc, message.Bcc].flatMap(addressesIn)
  if (unknown !== undefined) return `Unknown member ${unknown}`
  if (addressesIn(message.From).length !== 1) return "Invalid 'From' address."
  if (addressesIn(message.To).length === 0) return "Zero recipients specified"
  if (all.length > 50) return "Maximum of 50 recipients allowed per email message."
  if (!all.every((address) => /^[a-z0-9.!#$%&'`*+\-/=^_{}|~]+@[a-z0-9.-]+$/i.test(address))) return "Illegal email address"
  if ((message.TextBody ?? "") === "" && (message.HtmlBody ?? "") === "") return "Provide either email TextBody or HtmlBody or both."
  if (!Object.entries(message.Metadata).every(([name, value]) => name.length <= 20 && value.length <= 80)) return "Metadata is too long"
  return null
}
