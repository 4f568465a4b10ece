/**
 * What a reply means, by what it answers: the dialogue about a message as one
 * table. Pure; `PipeliningConnection` does what it says. What comes before a
 * message is said in `SmtpIntroduction`.
 *
 * Of a reply the first digit counts (RFC 5321, 4.2), and of two codes the
 * others too: without 354 not a byte of a message goes out (3.3), and 421, to
 * whatever it is the reply, says that the server hangs up (3.8, 4.2.2).
 */

/** What a reply answers. Those below the line are about a message that is refused already: of what was said at once, some still has its reply to come. */
export type Asked =
  | "sender"
  | "recipient"
  | "data"
  | "bytes"
  | "dot"
  // The line.
  | "recipient of refused"
  | "data of refused"
  | "data of nobody"
  | "lone dot"
  | "reset"

export type Meaning =
  /** It is as it should be, and the dialogue goes on. */
  | "go on"
  /** This recipient has a reply of its own; the message has one if each has. */
  | "keep"
  /** The bytes go out. */
  | "send"
  /** The server has the message. */
  | "accept"
  /** The message is refused, unless the words are about us (`judge`): then it is unavailable, and the connection ends. */
  | "refuse"
  /** Refused, and the connection ends. Of one in its envelope that is not the first here, the server has nothing: it goes to another. */
  | "leave"
  /** Nobody knows what became of the message, and the connection ends. */
  | "unknown"
  /** What the server keeps of the transaction is taken back. */
  | "reset"
  /** An empty message goes out, to nobody. */
  | "lone dot"
  /** The connection may carry another message. */
  | "rest"
  /** The connection ends. */
  | "end"

type Row = Readonly<Record<Kind, Meaning>>

const row = (yes: Meaning, ask: Meaning, bye: Meaning, no: Meaning, other: Meaning): Row => ({ yes, ask, bye, no, other })

const meanings: Readonly<Record<Asked, Row>> = {
  //                           2yz        354         421      4yz, 5yz   other
  /** MAIL (RFC 5321, 4.1.1.2). */
  "sender":               row("go on",   "unknown",  "leave", "refuse",  "unknown"),
  /** RCPT (4.1.1.3): each has its own reply, and one that got no sensible answer is asked for again. */
  "recipient":            row("go on",   "keep",     "leave", "keep",    "keep"),
  /** DATA (4.1.1.4). RSET follows a refusal (4.1.4): whoever was taken before it is to be forgotten. */
  "data":                 row("unknown", "send",     "leave", "refuse",  "unknown"),
  /** Nothing is asked here. A refusal counts, though the rest of the bytes stays on the wire; whatever it is, the connection ends. */
  "bytes":                row("unknown", "unknown",  "leave", "refuse",  "unknown"),
  /** The end of the message (4.1.1.4): with 2yz, and not before, it is the server's (6.1). */
  "dot":                  row("accept",  "unknown",  "leave", "refuse",  "unknown"),

  /** After a refused sender, each is refused for want of one (3.3). */
  "recipient of refused": row("go on",   "go on",    "go on", "go on",   "go on"),
  /** DATA that went out with them may be taken all the same: then it gets a dot, which the server refuses (RFC 2920, 3.1). */
  "data of refused":      row("reset",   "lone dot", "end",   "reset",   "reset"),
  /** The sender was refused: whoever asks for the message may have another in mind, and would send somebody an empty one. */
  "data of nobody":       row("reset",   "end",      "end",   "reset",   "reset"),
  "lone dot":             row("reset",   "reset",    "end",   "reset",   "reset"),
  /** RSET (4.1.1.5) cannot fail; a server that says so is not used again. */
  "reset":                row("rest",    "end",      "end",   "end",     "end")
}

/** Kinds of reply: done, 354, 421, refused, and what means nothing here (RFC 5321, 4.2 has it taken for the end). */
type Kind = "yes" | "ask" | "bye" | "no" | "other"

const kindOf = (code: number): Kind => {
  if (code >= 200 && code < 300) return "yes"
  if (code === 354) return "ask"
  if (code === 421) return "bye"
  return code >= 400 ? "no" : "other"
}

export const meaningOf = (asked: Asked, code: number): Meaning => meanings[asked][kindOf(code)]
