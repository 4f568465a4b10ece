/** What the server says: a code, an enhanced status code (RFC 3463) and one line of printable ASCII. */

export interface Reply {
  readonly code: number
  readonly enhancedCode: string
  readonly text: string
}

const reply = (code: number, enhancedCode: string, text: string): Reply => ({ code, enhancedCode, text })

/** As on the wire. What is not printable ASCII becomes `?`, so that nobody's words begin a line of ours. */
export const lineOf = ({ code, enhancedCode, text }: Reply): string =>
  `${code} ${enhancedCode} ${text.replace(/[^\x20-\x7e]/g, "?").slice(0, 400)}\r\n`

export const ok = reply(250, "2.0.0", "ok")
export const senderOk = reply(250, "2.1.0", "sender ok")
export const recipientOk = reply(250, "2.1.5", "recipient ok")
export const taken = reply(250, "2.0.0", "message taken")
export const bye = reply(221, "2.0.0", "bye")
export const readyForTls = reply(220, "2.0.0", "ready for TLS")
export const help = reply(214, "2.0.0", "see RFC 5321")

export const stopping = reply(421, "4.3.2", "the server is stopping, try again")
export const idle = reply(421, "4.4.2", "nothing was said for too long")
export const tooManyErrors = reply(421, "4.7.0", "too many errors")
export const tooManyCommands = reply(421, "4.7.0", "too many commands and no message")
export const tooManyConnections = reply(421, "4.3.2", "too many connections, try again later")
export const tooManyFromAddress = reply(421, "4.7.0", "too many connections from this address")
export const unavailable = reply(451, "4.3.0", "the message could not be stored, try again later")
export const recipientUnavailable = reply(451, "4.3.0", "the recipient could not be looked up, try again later")
export const tooManyRecipients = reply(452, "4.5.3", "too many recipients of one message")

export const unknownCommand = reply(500, "5.5.2", "no such command")
export const notHttp = reply(500, "5.5.2", "this is SMTP")
export const tooLong = reply(500, "5.5.6", "the line is too long")
export const controlCharacter = reply(500, "5.5.2", "a command has no control characters")
export const bareLineEnd = reply(500, "5.5.2", "a command ends with CR LF")
export const notUtf8 = reply(500, "5.5.2", "a command is UTF-8")
export const badName = reply(501, "5.5.4", "a host name is wanted, and that alone")
export const noParameters = reply(501, "5.5.4", "no parameters are known here")
export const badSender = reply(501, "5.1.7", "FROM: wants an address in angle brackets, or none in them")
export const badRecipient = reply(501, "5.1.3", "TO: wants an address in angle brackets")
export const badParameters = reply(501, "5.5.4", "the parameters cannot be read")
export const unknownParameter = reply(555, "5.5.4", "a parameter that was not offered")
export const wantsUtf8 = reply(553, "5.6.7", "an address beyond ASCII wants SMTPUTF8")
export const notOffered = reply(502, "5.5.1", "not offered here")
export const wantsHello = (verb: "EHLO" | "LHLO") => reply(503, "5.5.1", `${verb} goes first`)
export const wantsSender = reply(503, "5.5.1", "MAIL goes first")
export const wantsRecipient = reply(503, "5.5.1", "RCPT goes first")
export const hasSender = reply(503, "5.5.1", "there is a sender already")
export const hasTls = reply(503, "5.5.1", "TLS is there already")
/** RFC 5321 leaves the choice (3.3); RFC 2033 does not (4.2). */
export const noRecipients = (protocol: "SMTP" | "LMTP") => reply(protocol === "LMTP" ? 503 : 554, "5.5.1", "no recipient was taken")
export const tooLarge = reply(552, "5.3.4", "the message is too large")
export const bareInMessage = reply(550, "5.6.11", "a CR or LF stands alone in the message")
