/**
 * An HTTP server that takes mail as Amazon SES v2 does: the same path, the
 * same members, its errors in its form, and a signature (version 4) that must
 * be over what arrived. For tests of what calls it.
 */
import { Effect, type Scope } from "effect"
import { createHash, createHmac } from "node:crypto"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"

/** A message as it was asked to be sent. */
export interface Sent {
  readonly messageId: string
  readonly recipients: ReadonlyArray<string>
  readonly feedbackTo: string | null
  readonly configurationSet: string | null
  readonly tags: Readonly<Record<string, string>>
  readonly bytes: Uint8Array
}

/** What becomes of a call. `Lost`: it is taken, and the connection ends without an answer. */
export type Behaviour =
  | { readonly _tag: "Takes" }
  | { readonly _tag: "Fails"; readonly status: number; readonly type: string; readonly message: string }
  | { readonly _tag: "Answers"; readonly status: number; readonly body: string }
  | { readonly _tag: "Lost" }
  | { readonly _tag: "Hangs" }

export interface FakeSes {
  readonly endpoint: string
  readonly sent: ReadonlyArray<Sent>
  /** Calls of any kind. */
  readonly calls: () => number
  /** Calls that are waiting for an answer. */
  readonly waiting: () => number
  readonly next: (...behaviours: ReadonlyArray<Behaviour>) => void
}

export const credentials = { accessKeyId: "AKIDEXAMPLE12345", secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY" }
export const region = "eu-central-1"

/** Listens until the scope closes. */
export const start: Effect.Effect<FakeSes, never, Scope.Scope> = Effect.gen(function* () {
  const sent: Array<Sent> = []
  const behaviours: Array<Behaviour> = []
  const waiting = new Set<ServerResponse>()
  let calls = 0

  const serve = async (request: IncomingMessage, response: ServerResponse) => {
    calls += 1
    const chunks: Array<Buffer> = []
    for await (const chunk of request) chunks.push(chunk as Buffer) // a request gives buffers
    const body = Buffer.concat(chunks)
    const fail = (status: number, type: string, message: string) =>
      response.writeHead(status, { "content-type": "application/json", "x-amzn-errortype": type }).end(JSON.stringify({ message }))
    if (!isSigned(request, body)) return fail(403, "InvalidSignatureException", "The request signature we calculated does not match.")
    if (request.method !== "POST" || request.url !== "/v2/email/outbound-emails") return fail(404, "UnknownOperationException", "")
    const behaviour = behaviours.shift() ?? { _tag: "Takes" }
    if (behaviour._tag === "Fails") return fail(behaviour.status, `${behaviour.type}:http://example.com/`, behaviour.message)
    if (behaviour._tag === "Answers") return response.writeHead(behaviour.status, { "content-type": "application/json" }).end(behaviour.body)
    if (behaviour._tag === "Hangs") return waiting.add(response.on("close", () => waiting.delete(response)))
    const fault = faultOf(JSON.parse(body.toString()))
    if (fault !== null) return fail(400, "BadRequestException", fault)
    const messageId = `0107019ae0000000-${String(sent.length + 1).padStart(8, "0")}-0000-4000-8000-000000000000-000000`
    sent.push({ messageId, ...sentOf(JSON.parse(body.toString())) })
    if (behaviour._tag === "Lost") return request.socket.destroy()
    return response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ MessageId: messageId }))
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

/** The members that are looked at. */
interface Asked {
  readonly Content?: { readonly Raw?: { readonly Data?: string } }
  readonly Destination?: { readonly ToAddresses?: ReadonlyArray<string>; readonly CcAddresses?: unknown; readonly BccAddresses?: unknown }
  readonly FeedbackForwardingEmailAddress?: string
  readonly ConfigurationSetName?: string
  readonly EmailTags?: ReadonlyArray<{ readonly Name: string; readonly Value: string }>
}

const faultOf = ({ Content, Destination, EmailTags = [] }: Asked): string | null => {
  const to = Destination?.ToAddresses ?? []
  if (Content?.Raw?.Data === undefined) return "Content.Raw.Data is required"
  if (to.length === 0 || to.length > 50) return "Recipient count exceeds 50, or there is none"
  if (Destination?.CcAddresses !== undefined || Destination?.BccAddresses !== undefined) return "another destination"
  if (!EmailTags.every(({ Name, Value }) => /^[A-Za-z0-9_-]{1,256}$/.test(Name) && /^[A-Za-z0-9_.@-]{1,256}$/.test(Value))) return "bad tag"
  return null
}

const sentOf = ({ Content, Destination, FeedbackForwardingEmailAddress, ConfigurationSetName, EmailTags = [] }: Asked): Omit<Sent, "messageId"> => ({
  recipients: Destination?.ToAddresses ?? [],
  feedbackTo: FeedbackForwardingEmailAddress ?? null,
  configurationSet: ConfigurationSetName ?? null,
  tags: Object.fromEntries(EmailTags.map(({ Name, Value }) => [Name, Value])),
  bytes: Buffer.from(Content?.Raw?.Data ?? "", "base64")
})

const sha256 = (bytes: Uint8Array | string): string => createHash("sha256").update(bytes).digest("hex")
const hmac = (key: Uint8Array | string, text: string): Buffer => createHmac("sha256", key).update(text).digest()

/** Whether the request is signed by `credentials`, for SES in `region`, and over this body. */
const isSigned = ({ method = "", url = "", headers }: IncomingMessage, body: Buffer): boolean => {
  const authorization = /^AWS4-HMAC-SHA256 Credential=([^,/]+)\/(\d{8})\/([^,/]+)\/ses\/aws4_request, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/
  const [, keyId, day = "", signedRegion, names = "", signature] = authorization.exec(headers.authorization ?? "") ?? []
  const date = String(headers["x-amz-date"])
  if (keyId !== credentials.accessKeyId || signedRegion !== region || !date.startsWith(day)) return false
  if (!["host", "x-amz-date"].every((name) => names.split(";").includes(name))) return false
  if ((headers["x-amz-content-sha256"] ?? sha256(body)) !== sha256(body)) return false
  const lines = names.split(";").map((name) => `${name}:${String(headers[name]).trim()}\n`)
  const canonical = [method, url, "", lines.join(""), names, sha256(body)].join("\n")
  const toSign = ["AWS4-HMAC-SHA256", date, `${day}/${region}/ses/aws4_request`, sha256(canonical)].join("\n")
  const key = hmac(hmac(hmac(hmac(`AWS4${credentials.secretAccessKey}`, day), region), "ses"), "aws4_request")
  return hmac(key, toSign).toString("hex") === signature
}
