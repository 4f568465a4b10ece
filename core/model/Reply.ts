/** What a mail server or provider answered, and the one place where it becomes transient or permanent. */

/** Characters of a reply's text that an adapter passes on: more than any server means to say. */
export const replyTextMax = 1_000

export interface Reply {
  /** 200 to 599. The adapter of a provider that speaks no SMTP gives the code that says the same: 250, 450, 550. */
  readonly smtpCode: number
  /** class.subject.detail (RFC 3463), null if absent. */
  readonly enhancedCode: string | null
  /** At most `replyTextMax` characters. */
  readonly text: string | null
}

/** The class of the enhanced status code decides, and the SMTP code where there is none; what is neither is tried again. */
export const classify = (reply: Reply): "accepted" | "transient" | "permanent" => {
  const digit = /^[245]\.\d{1,3}\.\d{1,3}$/.test(reply.enhancedCode ?? "")
    ? reply.enhancedCode![0]
    : String(reply.smtpCode)[0]
  return digit === "2" ? "accepted" : digit === "5" ? "permanent" : "transient"
}

/** Characters of a server's words that are stored and shown. */
const shownTextMax = 500

/** A server's words, made fit to be stored and shown: one line, bounded; null if there are none. */
export const cleanReply = (text: string | null): string | null =>
  text?.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, " ").trim().slice(0, shownTextMax) || null
