/** Mail that comes in, in scenarios: messages as another server hands them over, and reports as one writes them. */
import { Effect, Exit, Stream } from "effect"
import type { Peer } from "../../core/model/Reception.ts"
import { ReceiveRefused } from "../../core/operations/Receive.ts"
import { freshId } from "../fixtures.ts"
import type { Process } from "./World.ts"

export const peer: Peer = { remoteAddress: "192.0.2.25", helo: "mx.sender.example", protocol: "ESMTPS" }

/** A message's bytes: header fields and a body, its lines ended by CRLF. */
export const written = (fields: Readonly<Record<string, string>>, body: string): Uint8Array =>
  new TextEncoder().encode(
    `${Object.entries(fields).map(([name, value]) => `${name}: ${value}\n`).join("")}\n${body}`.replace(/\r?\n/g, "\r\n")
  )

/** A plain message. */
export const plain = (over: Readonly<Record<string, string>> = {}, body = "The engine weaves.\n"): Uint8Array =>
  written(
    {
      From: "Charles <charles@sender.example>",
      To: "Ada <ada@there.example>, mary@there.example",
      Cc: "luigi@there.example",
      Subject: "Note G",
      "Message-ID": `<${freshId()}@sender.example>`,
      Date: "Thu, 01 Jan 1970 00:00:00 +0000",
      ...over
    },
    body
  )

/** A message with a text and a file. */
export const withFile = (file: string): Uint8Array =>
  plain(
    { "MIME-Version": "1.0", "Content-Type": "multipart/mixed; boundary=b" },
    [
      "--b",
      "Content-Type: text/plain",
      "",
      "See the notes.",
      "--b",
      "Content-Type: application/octet-stream",
      "Content-Disposition: attachment; filename=\"notes.bin\"",
      "",
      file,
      "--b--",
      ""
    ].join("\n")
  )

/** How a recipient is refused, as code and enhanced status code; null if mail to it is taken. */
export const answerTo = ({ receive }: Process, address: string) =>
  receive.recipient(address).pipe(
    Effect.as(null),
    Effect.catchTag("ReceiveRefused", ({ code, enhancedCode }) => Effect.succeed(`${code} ${enhancedCode}`))
  )

/** How a message was refused, as code and enhanced status code. */
export const refusalOf = <E>(exit: Exit.Exit<void, E>): string => {
  const error = Exit.isFailure(exit) ? exit.cause.reasons.map((reason) => ("error" in reason ? reason.error : null))[0] : null
  return error instanceof ReceiveRefused ? `${error.code} ${error.enhancedCode}` : "not refused"
}

/** Hands a message over in pieces, which can be read once, as those from a socket. */
export const arrive = (
  { receive }: Process,
  recipients: string | ReadonlyArray<string>,
  bytes: Uint8Array = plain(),
  returnPath: string | null = "charles@sender.example"
) =>
  receive.accept({
    peer,
    returnPath,
    recipients: typeof recipients === "string" ? [recipients] : recipients,
    bytes: Stream.fromIterable(Array.from({ length: Math.ceil(bytes.length / 100) }, (_, at) => bytes.subarray(100 * at, 100 * at + 100)).values())
  })

/** What a report of the standard form says of one recipient. */
export interface Told {
  readonly to: string
  readonly action: "failed" | "delayed" | "delivered" | "relayed" | "expanded"
  readonly status: string
  readonly diagnostic?: string
}

/** A delivery status notification (RFC 3464) about a message of this Message-ID. */
export const dsn = (messageId: string, told: ReadonlyArray<Told>, date = "Thu, 01 Jan 1970 00:00:00 +0000"): Uint8Array =>
  written(
    {
      From: "MAILER-DAEMON@mx.there.example",
      To: "whoever@example.com",
      Subject: "Delivery Status Notification",
      Date: date,
      "Message-ID": `<${freshId()}@mx.there.example>`,
      "Auto-Submitted": "auto-replied",
      "MIME-Version": "1.0",
      "Content-Type": "multipart/report; report-type=delivery-status; boundary=b"
    },
    [
      "--b",
      "Content-Type: text/plain",
      "",
      "This is a report about your message.",
      "",
      "--b",
      "Content-Type: message/delivery-status",
      "",
      "Reporting-MTA: dns; mx.there.example",
      ...told.flatMap(({ to, action, status, diagnostic }) => [
        "",
        `Final-Recipient: rfc822; ${to}`,
        `Action: ${action}`,
        `Status: ${status}`,
        ...(diagnostic === undefined ? [] : [`Diagnostic-Code: smtp; ${diagnostic}`])
      ]),
      "",
      "--b",
      "Content-Type: text/rfc822-headers",
      "",
      `Message-ID: ${messageId}`,
      "",
      "--b--",
      ""
    ].join("\n")
  )
