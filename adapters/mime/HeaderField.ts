/**
 * What both writing and reading know of header fields (RFC 5322, 2047): which
 * hold addresses, which have a syntax of their own, and what a line of text is.
 */

export const isAddressField = (name: string): boolean => /^(?:resent-)?(?:from|sender|reply-to|to|cc)$/i.test(name)

/** Fields with a syntax of their own, in which an encoded word means nothing. */
export const isStructuredField = (name: string): boolean =>
  /^(?:(?:resent-)?(?:date|message-id)|in-reply-to|references|mime-version|content-(?!description).+)$/i.test(name) ||
  /^(?:received.*|return-path|list-.+|.*signature.*|arc-.+|authentication-results)$/i.test(name)

/** A dot-atom at a domain of ASCII labels: an address that means the same to every reader. */
export const isPlainAddress = (address: string): boolean => /^[\w!#$%&'*+\-/=?^`{|}~.]+@[a-z0-9.-]+$/i.test(address)

/** Text as a header can hold it: line ends and control characters become a space. */
export const oneLine = (text: string): string =>
  text.toWellFormed().replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, " ").trim()

/** The bytes of a text whose characters each are one. */
export const bytesOf = (text: string): Uint8Array => Buffer.from(text, "latin1")

/** A quoted string, whatever the text holds. */
export const quoted = (text: string): string => `"${text.replace(/["\\]/g, "\\$&")}"`
