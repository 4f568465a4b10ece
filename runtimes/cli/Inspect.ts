/**
 * `mailroom inspect`: what the service would make of a webhook URL, a mail
 * address, a signature or a message, for support. Reads standard input, or
 * messages' files, prints one line of JSON for each input, and touches no
 * network. Secrets come in on standard input only, and are in no output.
 */
import { DateTime, Effect, Redacted, Result } from "effect"
import { Command } from "effect/cli"
import * as Address from "../../core/model/Address.ts"
import * as Webhook from "../../core/model/Webhook.ts"
import * as WebhookUrl from "../../core/model/WebhookUrl.ts"
import { type CommandFailed, usage } from "./CommandFailed.ts"
import { mimeCommand } from "./InspectMail.ts"
import { dsnCommand } from "./InspectReport.ts"
import { printLines } from "./Output.ts"
import { eachLines, type Line, untilClosed } from "./Streams.ts"

/** Bytes of a line that are looked at: many times what a URL or an address may have. */
const lineBytesMax = 16 * 1024
/** Of what is longer, so much is repeated. */
const shownMax = 1024
/** Bytes of one object to sign or to verify; a body of 24 MiB fits in Base64. */
const objectBytesMax = 32 * 1024 * 1024

/** The verdict on a URL, by the rules of production. `reason` is a stable word. */
export const judgeUrl = (line: Line) => {
  const parsed = line.isUtf8 && !line.isCut ?
    WebhookUrl.parse(line.text, WebhookUrl.publicOnly) :
    Result.fail(line.isCut ? "too_long" : "malformed")
  return Result.match(parsed, {
    onSuccess: ({ host, port }) => ({ input: line.text, ok: true, reason: null, host, port }),
    onFailure: (reason) => ({ input: shown(line), ok: false, reason, ...placeOf(line) })
  })
}

/** The verdict on an address; `reason` is a sentence, and `normalized` what is mailed to. */
export const judgeAddress = (line: Line) => {
  const parsed = line.isUtf8 ?
    line.isCut ?
      Result.fail(`an address has at most ${Address.addressLengthMax} characters`) :
      Address.parse(line.text) :
    Result.fail("the line is not UTF-8")
  return Result.match(parsed, {
    onSuccess: (normalized) => ({ input: line.text, ok: true, normalized, reason: null }),
    onFailure: (reason) => ({ input: shown(line), ok: false, normalized: null, reason })
  })
}

const shown = ({ text }: Line): string => (text.length > shownMax ? `${text.slice(0, shownMax).toWellFormed()}…` : text)

/** Where a URL leads that may not be called; nowhere, if it is none. */
const placeOf = ({ text, isCut, isUtf8 }: Line): { readonly host: string | null; readonly port: number | null } => {
  const url = isCut || !isUtf8 ? null : URL.parse(text)
  if (url === null || url.hostname === "") return { host: null, port: null }
  const usual = { "https:": 443, "http:": 80 }[url.protocol] ?? null
  return { host: url.hostname.replace(/^\[|\]$/g, ""), port: url.port === "" ? usual : Number(url.port) }
}

/** One line out for each line in; empty lines are none. */
const judging = (judge: (line: Line) => object) =>
  untilClosed(
    eachLines(lineBytesMax, (lines) => {
      const judged = lines.filter(({ text, isCut }) => text !== "" || isCut).map(judge)
      return judged.length === 0 ? Effect.void : printLines(judged)
    })
  )

type Members = Readonly<Record<string, unknown>>

/** A member that must be there as text; its value is in no fault. */
const text = (members: Members, name: string): Effect.Effect<string, CommandFailed> => {
  const value = members[name]
  return typeof value === "string" ? Effect.succeed(value) : Effect.fail(fault(members, name, "a string"))
}

const fault = (members: Members, name: string, wants: string): CommandFailed =>
  usage(Object.hasOwn(members, name) ? `${name} wants ${wants}` : `${name} is missing; it wants ${wants}`)

const secretOf = Effect.fnUntraced(function* (members: Members) {
  const secret = yield* text(members, "secret")
  if (!/^whsec_./.test(secret)) {
    return yield* fault(members, "secret", "the whsec_… text that creating the endpoint returned")
  }
  return Redacted.make(secret)
})

const bodyOf = Effect.fnUntraced(function* (members: Members) {
  const body = yield* text(members, "body")
  const bytes = Uint8Array.from(Buffer.from(body, "base64"))
  // Buffer takes anything for Base64, and leaves out what is none.
  if (Buffer.from(bytes).toString("base64") !== body) {
    return yield* fault(members, "body", "Base64 (RFC 4648, section 4), padded and without white space")
  }
  return bytes
})

/** A number of seconds, or the header's text. */
const timestampOf = Effect.fnUntraced(function* (members: Members) {
  const value = members["timestamp"]
  if (typeof value !== "string" && typeof value !== "number") return yield* fault(members, "timestamp", "Unix seconds")
  return String(value)
})

/** The three headers under which the service would send a body. */
export const sign = Effect.fnUntraced(function* (members: Members) {
  const secret = yield* secretOf(members)
  const id = yield* text(members, "id")
  // As one header value; a comma in it would read as two.
  if (!/^[!-+\--~]{1,255}$/.test(id)) {
    return yield* fault(members, "id", "1 to 255 visible ASCII characters without a comma")
  }
  const timestamp = yield* timestampOf(members)
  if (!/^\d{1,15}$/.test(timestamp)) return yield* fault(members, "timestamp", "Unix seconds")
  const body = yield* bodyOf(members)
  const { Crypto } = yield* Effect.promise(() => import("../../core/ports/Crypto.ts"))
  const NodeCrypto = yield* Effect.promise(() => import("../../adapters/node/NodeCrypto.ts"))
  // Nothing is sealed here; a ring wants a key all the same.
  const layer = NodeCrypto.layer({ sealingKeys: [{ version: 1, key: Redacted.make(new Uint8Array(32)) }] })
  const mac = yield* Crypto.use((crypto) => crypto.sign(secret, Webhook.signedBytes(id, timestamp, body))).pipe(
    Effect.provide(layer)
  )
  const headers = Webhook.deliveryHeaders(id, timestamp, mac)
  return {
    "Service-Webhook-Id": headers["service-webhook-id"],
    "Service-Webhook-Timestamp": headers["service-webhook-timestamp"],
    "Service-Webhook-Signature": headers["service-webhook-signature"]
  }
})

/** What a receiver makes of a request (Spec 6, Signature): the published client is asked. Whether the body is an event, it may be any. */
export const verify = Effect.fnUntraced(function* (members: Members) {
  const secret = Redacted.value(yield* secretOf(members))
  const id = yield* text(members, "id")
  const timestamp = yield* timestampOf(members)
  const signature = yield* text(members, "signature")
  const body = yield* bodyOf(members)
  const now = yield* nowOf(members)
  const { verifyWebhook, WebhookVerificationError } = yield* Effect.promise(() => import("../../client/Webhook.ts"))
  const headers = {
    "Service-Webhook-Id": id,
    "Service-Webhook-Timestamp": timestamp,
    "Service-Webhook-Signature": signature
  }
  const refused = yield* Effect.promise(() =>
    verifyWebhook({ secret, headers, body, now }).then(
      () => null,
      (error: unknown) => {
        if (error instanceof WebhookVerificationError) return error.reason
        throw error
      }
    )
  )
  const reason = refused === "invalid_body" ? null : refused
  return { ok: reason === null, reason }
})

const nowOf = Effect.fnUntraced(function* (members: Members) {
  const { now = null } = members
  if (now === null) return DateTime.toDate(yield* DateTime.now)
  const seconds = typeof now === "number" ?
    now :
    typeof now === "string" && /^\d{1,15}$/.test(now) ?
    Number(now) :
    Number.NaN
  if (!(Math.abs(seconds) <= 8.64e12)) return yield* fault(members, "now", "Unix seconds")
  return DateTime.toDate(DateTime.makeUnsafe(seconds * 1000))
})

/** One object, over as many lines as it likes, or one in each line. A fault says in which line its object begins. */
const answering = <E>(answer: (members: Members) => Effect.Effect<object, E>) =>
  Effect.gen(function* () {
    let pending = ""
    let pendingBytes = 0
    let line = 0
    let beginsAt = 1
    let answered = 0
    const unread = (why: string) => usage(beginsAt === 1 ? `standard input ${why}` : `line ${beginsAt} ${why}`)
    const take = Effect.fnUntraced(function* ({ text, isCut, isUtf8 }: Line) {
      line += 1
      if (pending === "") {
        if (text.trim() === "") return
        beginsAt = line
        pendingBytes = 0
      }
      pendingBytes += Buffer.byteLength(text) + 1
      if (isCut || pendingBytes > objectBytesMax) return yield* unread(`has more than ${objectBytesMax} bytes`)
      if (!isUtf8) return yield* unread("is not UTF-8")
      pending += `${text}\n`
      if (!text.trimEnd().endsWith("}")) return
      const members = objectIn(pending)
      if (members === null) return
      pending = ""
      answered += 1
      const where = beginsAt === 1 ? "" : ` (line ${beginsAt})`
      const result = yield* answer(members).pipe(
        Effect.mapError((error) => (isUsage(error) && where !== "" ? usage(`${error.message}${where}`) : error))
      )
      yield* printLines([result])
    })
    yield* eachLines(objectBytesMax, (lines) => Effect.forEach(lines, take, { discard: true }))
    if (pending !== "" || answered === 0) {
      return yield* unread(pending === "" ? "is empty; it wants a JSON object" : "is no JSON object")
    }
  }).pipe(untilClosed)

const isUsage = (error: unknown): error is CommandFailed =>
  error instanceof Error && "_tag" in error && error._tag === "CommandFailed"

/** Why it is none is not told: a parser's message repeats what it read. */
const objectIn = (text: string): Members | null => {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Members) : null // it is an object
  } catch {
    return null
  }
}

const url = Command.make("url", {}, () => judging(judgeUrl)).pipe(
  Command.withDescription(
    "Judges webhook URLs, one a line: {input, ok, reason, host, port}. Names are not looked up; addresses are judged in any notation. " +
      "Reasons: too_long, malformed, scheme, credentials, fragment, host, port, address."
  ),
  Command.withExamples([{
    command: "echo https://10.0.0.1/hook | mailroom inspect url",
    description: "A private address"
  }])
)

const address = Command.make("address", {}, () => judging(judgeAddress)).pipe(
  Command.withDescription("Judges mail addresses, one a line: {input, ok, normalized, reason}."),
  Command.withExamples([{ command: "mailroom inspect address < addresses.txt", description: "A list of addresses" }])
)

const signCommand = Command.make("sign", {}, () => answering(sign)).pipe(
  Command.withDescription(
    "Signs as the service does: reads {secret, id, timestamp, body}, with the body in Base64, and prints the three Service-Webhook headers. " +
      "One JSON object, or one a line."
  )
)

const verifyCommand = Command.make("verify", {}, () => answering(verify)).pipe(
  Command.withDescription(
    "Verifies as a receiver does: reads {secret, id, timestamp, body, signature, now}, with the body in Base64 and now in Unix seconds " +
      "(default: the clock), and prints {ok, reason}. One JSON object, or one a line. Reasons: missing_header, repeated_header, " +
      "malformed_timestamp, timestamp_out_of_tolerance, malformed_signature, signature_mismatch."
  )
)

export const inspectCommand = Command.make("inspect").pipe(
  Command.withDescription(
    "What the service would make of URLs, addresses, signatures and messages: standard input in, JSON Lines out, no network"
  ),
  Command.withSubcommands([url, address, signCommand, verifyCommand, mimeCommand, dsnCommand])
)
