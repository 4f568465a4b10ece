/**
 * `mailroom inspect mime`: what the service finds in messages. Files, or one
 * message on standard input; one line of JSON for each, in their order. What
 * cannot be read is one line on standard error, and the others are told all the
 * same.
 */
import { DateTime, Effect, Stdio, Stream } from "effect"
import { Argument, Command } from "effect/cli"
import { createHash } from "node:crypto"
import { createReadStream } from "node:fs"
import { receivedMediaType } from "../../core/model/Attachment.ts"
import type { MimePart } from "../../core/model/MimePart.ts"
import type { ParsedMessage } from "../../core/model/ParsedMessage.ts"
import { Mime } from "../../core/ports/Mime.ts"
import * as FileFault from "../FileFault.ts"
import { oneLine } from "../TerminalText.ts"
import { CommandFailed } from "./CommandFailed.ts"
import { printLines } from "./Output.ts"
import { type OutputClosed, untilClosed } from "./Streams.ts"

/** Paths of messages; none, or `-`, is standard input. */
export const files = Argument.String("file").pipe(
  Argument.withDescription("a message as it was received (.eml); - or none is standard input"),
  Argument.variadic()
)

/** One line of JSON for each message, its file first; in the end a failure, if a file could not be read. */
export const eachMail = Effect.fnUntraced(function* (
  paths: ReadonlyArray<string>,
  tell: (parsed: ParsedMessage) => object
) {
  const RfcMime = yield* Effect.promise(() => import("../../adapters/mime/RfcMime.ts"))
  const tellEach = Effect.gen(function* () {
    const mime = yield* Mime
    let unread = 0
    for (const path of paths.length === 0 ? ["-"] : paths) {
      const bytes = path === "-" ? yield* standardInput : fileBytes(path)
      unread += yield* mime.parse(bytes).pipe(
        Effect.flatMap((parsed) => printLines([{ file: path, ...tell(parsed) }])),
        Effect.as(0),
        Effect.catchTag("Unreadable", ({ why }) => Effect.as(complain(`${path}: ${why}`), 1))
      )
    }
    if (unread > 0) return yield* new CommandFailed({ exitCode: 1, message: "" })
  })
  yield* untilClosed<void, CommandFailed | OutputClosed, Stdio.Stdio>(Effect.provide(tellEach, RfcMime.layer))
})

interface Unreadable {
  readonly _tag: "Unreadable"
  readonly why: string
}

const unreadable = (cause: unknown): Unreadable => ({ _tag: "Unreadable", why: FileFault.reasonOf(cause) })

const fileBytes = (path: string): Stream.Stream<Uint8Array, Unreadable> =>
  Stream.fromAsyncIterable<Uint8Array, Unreadable>(createReadStream(path), unreadable)

const standardInput = Effect.map(Stdio.Stdio, ({ stdin }) => Stream.mapError(stdin, unreadable))

const complain = (line: string) => Effect.sync(() => void process.stderr.write(`mailroom: ${oneLine(line)}\n`))

/** What `inspect mime` says of a message. */
export const describe = (parsed: ParsedMessage): object => ({
  subject: parsed.subject,
  date: parsed.date === null ? null : DateTime.formatIso(DateTime.makeUnsafe(parsed.date)),
  from: parsed.from,
  to: parsed.to,
  cc: parsed.cc,
  messageId: parsed.messageId,
  inReplyTo: parsed.inReplyTo,
  references: parsed.references,
  text: parsed.text,
  html: parsed.html,
  mime: withoutIds(parsed.structure),
  attachments: parsed.attachments.map(({ filename, mediaType, parameters, disposition, contentId, bytes }) => ({
    filename,
    mediaType: receivedMediaType(mediaType, parameters),
    sizeBytes: bytes.length,
    sha256: createHash("sha256").update(bytes).digest("hex"),
    disposition,
    contentId
  })),
  defects: parsed.defects
})

/** No attachment has been stored, so none has an id. */
const withoutIds = ({ attachmentId: _, parts, ...part }: MimePart): object => ({ ...part, parts: parts.map(withoutIds) })

export const mimeCommand = Command.make("mime", { files }, ({ files }) => eachMail(files, describe)).pipe(
  Command.withDescription(
    "Reads messages, one line of JSON for each: {file, subject, date, from, to, cc, messageId, inReplyTo, references, text, html, mime, attachments, defects}. " +
      "No message is refused: what is wrong with it is in defects."
  ),
  Command.withExamples([{ command: "mailroom inspect mime message.eml", description: "What is in a message" }])
)
