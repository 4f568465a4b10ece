/** A message as Postmark's email API takes it, made of what ours says. */
import * as Addresses from "../../core/model/Address.ts"
import type { Address } from "../../core/model/Address.ts"
import type { MessageId } from "../../core/model/Ids.ts"
import type { Mentioned, ParsedAttachment, ParsedMessage } from "../../core/model/ParsedMessage.ts"

export interface Message {
  readonly From: string
  readonly To: string
  readonly Cc?: string
  readonly Bcc?: string
  readonly Subject: string
  readonly ReplyTo?: string
  readonly TextBody?: string
  readonly HtmlBody?: string
  readonly Headers: ReadonlyArray<{ readonly Name: string; readonly Value: string }>
  readonly Attachments: ReadonlyArray<{
    readonly Name: string
    readonly Content: string
    readonly ContentType: string
    readonly ContentID?: string
  }>
  readonly TrackOpens: false
  readonly TrackLinks: "None"
  readonly Metadata: Readonly<Record<string, string>>
  readonly MessageStream?: string
}

/** Under this name our message's id goes along, and comes back. */
export const metadataKey = "mailroom-message"

/** Recipients of one call. */
const recipientsMax = 50

interface Seen {
  readonly address: Address
  readonly name: string
}

/** Who is mailed by one call, and how they are shown. `to` has at least one. */
export interface Group {
  readonly to: ReadonlyArray<Seen>
  readonly cc: ReadonlyArray<Seen>
  readonly bcc: ReadonlyArray<Address>
}

export const recipientsOf = ({ to, cc, bcc }: Group): ReadonlyArray<Address> => [...[...to, ...cc].map(({ address }) => address), ...bcc]

/** The calls that mail these recipients once each, none of them seen by whom the header does not show them to. */
export const groupsOf = (
  { to, cc }: Pick<ParsedMessage, "to" | "cc">,
  recipients: ReadonlyArray<Address>
): ReadonlyArray<Group> => {
  const left = new Map(recipients.map((address) => [Addresses.foldCase(address), address]))
  const taken = (mentioned: ReadonlyArray<Mentioned>): ReadonlyArray<Seen> =>
    mentioned.flatMap(({ address: written, name }) => {
      const address = left.get(written.toLowerCase())
      if (address === undefined) return []
      left.delete(written.toLowerCase())
      return [{ address, name }]
    })
  const seen = [...taken(to).map((one) => ({ ...one, isTo: true })), ...taken(cc).map((one) => ({ ...one, isTo: false }))]
  const unseen = [...left.values()]
  const groups: Array<Group> = []
  for (let first = 0; first < seen.length; first += recipientsMax) {
    const shown = seen.slice(first, first + recipientsMax)
    const bcc = unseen.splice(0, recipientsMax - shown.length)
    const [inTo, inCc] = [shown.filter(({ isTo }) => isTo), shown.filter(({ isTo }) => !isTo)]
    // Nobody is mailed without a To.
    groups.push(inTo.length > 0 ? { to: inTo, cc: inCc, bcc } : { to: inCc, cc: [], bcc })
  }
  return [...groups, ...unseen.map((address): Group => ({ to: [{ address, name: "" }], cc: [], bcc: [] }))]
}

/** What is passed on of the header; the rest is Postmark's to write. */
const passedOn = /^(message-id|in-reply-to|references|auto-submitted|precedence|importance|priority|list-[a-z-]+|x-[a-z0-9-]+)$/i

export const make = (
  parsed: ParsedMessage,
  { to, cc, bcc }: Group,
  { messageId, messageStream }: { readonly messageId: MessageId; readonly messageStream: string | null }
): Message => ({
  From: parsed.from === null ? "" : shown(parsed.from),
  To: to.map(shown).join(", "),
  ...(cc.length === 0 ? {} : { Cc: cc.map(shown).join(", ") }),
  ...(bcc.length === 0 ? {} : { Bcc: bcc.join(", ") }),
  Subject: parsed.subject,
  ...(parsed.replyTo.length === 0 ? {} : { ReplyTo: parsed.replyTo.map(shown).join(", ") }),
  // A message without a body is refused.
  ...(parsed.text !== null && parsed.text !== "" ? { TextBody: parsed.text } : parsed.html === null ? { TextBody: " " } : {}),
  ...(parsed.html === null ? {} : { HtmlBody: parsed.html }),
  Headers: [
    // Else Postmark writes a Message-ID of its own.
    { Name: "X-PM-KeepID", Value: "true" },
    ...parsed.headers
      .filter(({ name }) => passedOn.test(name) && !/^x-pm-/i.test(name))
      .map(({ name, value }) => ({ Name: name, Value: value }))
  ],
  Attachments: parsed.attachments.map(attached),
  TrackOpens: false,
  TrackLinks: "None",
  Metadata: { [metadataKey]: messageId },
  ...(messageStream === null ? {} : { MessageStream: messageStream })
})

const attached = ({ filename, mediaType, parameters, contentId, bytes }: ParsedAttachment): Message["Attachments"][number] => ({
  Name: filename ?? "attachment",
  Content: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64"),
  ContentType: [mediaType, ...parameters].join("; "),
  ...(contentId === null ? {} : { ContentID: `cid:${contentId.replace(/^<|>$/g, "")}` })
})

/** A name is quoted, whatever is in it. */
const shown = ({ address, name }: Mentioned): string =>
  name === "" ? address : `"${name.replace(/["\\]/g, "\\$&").replace(/[\r\n]+/g, " ")}" <${address}>`
