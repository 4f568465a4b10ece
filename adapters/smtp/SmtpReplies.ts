/**
 * Takes a server's words apart into replies, however they are cut. Lines may
 * end in LF alone, and empty lines before a reply are passed over; what has no
 * three digits, or lines of several codes, is a reply that says nothing.
 */
import { StringDecoder } from "node:string_decoder"
import { replySizeMax } from "./SmtpSettings.ts"

export interface Said {
  /** 0 if it is none that SMTP knows. */
  readonly code: number
  /** All lines, with their codes. */
  readonly text: string
}

export class SmtpReplies {
  readonly #decoder = new StringDecoder("utf8")
  /** What has come and is not taken, from the beginning of a line on, and how much of it has no line end. */
  #heard = ""
  #searched = 0
  /** Whether a line end may be in it: to look for one copies together what came in pieces. */
  #mayEnd = false
  /** The lines so far of a reply that goes on, and their code. */
  #begun = ""
  #code = 0
  #isTooLong = false

  hear(chunk: Buffer): void {
    const text = this.#decoder.write(chunk)
    this.#mayEnd ||= text.includes("\n")
    this.#heard += text
  }

  /** The next whole reply; null if it has not all come. */
  next(): Said | null {
    for (;;) {
      const end = this.#mayEnd ? this.#heard.indexOf("\n", this.#searched) : -1
      this.#isTooLong ||= this.#begun.length + (end < 0 ? this.#heard.length : end) > replySizeMax
      if (end < 0 || this.#isTooLong) {
        this.#searched = this.#heard.length
        this.#mayEnd = false
        return null
      }
      const line = this.#heard.slice(0, this.#heard[end - 1] === "\r" ? end - 1 : end)
      this.#heard = this.#heard.slice(end + 1)
      this.#searched = 0
      if (line === "" && this.#begun === "") continue
      const code = this.#begun === "" || codeOf(line) === this.#code ? codeOf(line) : 0
      const text = this.#begun === "" ? line : `${this.#begun}\r\n${line}`
      if (code > 0 && line[3] === "-") {
        this.#begun = text
        this.#code = code
        continue
      }
      this.#begun = ""
      return { code, text }
    }
  }

  /** Whether more has come than whole replies. */
  isBegun(): boolean {
    return this.#heard !== "" || this.#begun !== ""
  }

  /** Then nothing more is understood. */
  isTooLong(): boolean {
    return this.#isTooLong
  }
}

/** Three digits, of which the first is 1 to 5, and then nothing, a space, or a hyphen. */
const codeOf = (line: string): number => {
  const code = (line.charCodeAt(0) - 48) * 100 + (line.charCodeAt(1) - 48) * 10 + (line.charCodeAt(2) - 48)
  for (let index = 0; index < 3; index++) {
    const digit = line.charCodeAt(index) - 48
    if (!(digit >= 0 && digit <= 9)) return 0
  }
  const isEnded = line.length === 3 || line[3] === " " || line[3] === "-"
  return isEnded && code >= 100 && code < 600 ? code : 0
}
