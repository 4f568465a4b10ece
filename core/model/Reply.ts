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

/** What others say, as an adapter passes it on: one line of whole characters, bounded; null if it is nothing. */
export const oneLine = (text: string | null | undefined): string | null =>
  text?.replace(/\s+/g, " ").trim().slice(0, replyTextMax).toWellFormed() || null

/** An enhanced status code (RFC 3463), and nothing else. */
export const isEnhanced = (code: string | null): boolean => typeof code === "string" && /^[245]\.\d{1,3}\.\d{1,3}$/.test(code)

/** The class of the enhanced status code decides, and the SMTP code where there is none; what is neither is tried again. */
export const classify = (reply: Reply): "accepted" | "transient" | "permanent" => {
  const digit = isEnhanced(reply.enhancedCode) ? reply.enhancedCode![0] : String(reply.smtpCode)[0]
  return digit === "2" ? "accepted" : digit === "5" ? "permanent" : "transient"
}

/** The code that says no more than this. */
const meaning = { accepted: 250, transient: 450, permanent: 550 } as const

/** As the type has it: an adapter that hands on what it was told may hand on anything. */
const isSound = ({ smtpCode, enhancedCode, text }: Reply): boolean =>
  Number.isInteger(smtpCode) &&
  smtpCode >= 200 &&
  smtpCode <= 599 &&
  (enhancedCode === null || isEnhanced(enhancedCode)) &&
  (text === null || typeof text === "string")

/** The reply itself, or one of the same meaning that can be kept and shown. */
export const soundOf = (reply: Reply): Reply =>
  isSound(reply)
    ? reply
    : {
        smtpCode: meaning[classify(reply)],
        enhancedCode: isEnhanced(reply.enhancedCode) ? reply.enhancedCode : null,
        text: typeof reply.text === "string" ? reply.text : null
      }

/** Characters of a server's words that are stored and shown. */
const shownTextMax = 500

/** A server's words, made fit to be stored and shown: one line of whole characters, bounded; null if there are none. */
export const cleanReply = (text: string | null): string | null =>
  text?.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, " ").trim().slice(0, shownTextMax).toWellFormed() || null
