/**
 * The body of an upload, read as it arrives: a JSON object with one long
 * Base64 text, which is decoded on the way and never held. The other members
 * are kept, and are for the schema to judge once the object is complete.
 */
import { isUtf8 } from "node:buffer"
import { Base64Decoder, decodedLengthMax } from "./Base64.ts"
import { escapePointer, type Issue } from "./Issues.ts"
import { JsonScanner, type Kind } from "./JsonScanner.ts"

const contentMember = "contentBase64"
/** Longer than any member but the content may be. */
const textBytesMax = 4_096

/** What stands for a member that is no text: the schema sees its type, nobody its value. */
const standIns: Readonly<Record<Exclude<Kind, "text">, unknown>> = { number: 0, literal: null, object: {}, array: [] }

export class UploadBody {
  readonly #scanner: JsonScanner
  readonly #decoder = new Base64Decoder()
  /** Without a prototype, so that `__proto__` is a member like any other. */
  readonly #members: Record<string, unknown> = Object.create(null) as Record<string, unknown> // it has none yet
  #name = ""
  readonly #text = new Uint8Array(textBytesMax)
  #textLength = 0
  #content: Uint8Array = new Uint8Array(0)
  #contentLength = 0
  #fault: Issue | null = null

  constructor() {
    this.#scanner = new JsonScanner({
      begin: (name, kind) => {
        this.#name = name
        this.#textLength = 0
        if (kind !== "text") this.#members[name] = standIns[kind]
      },
      take: (bytes, start) => (this.#name === contentMember ? this.#decodePlain(bytes, start) : 0),
      run: (bytes, start, end) => {
        if (this.#name === contentMember) this.#decode(bytes, start, end)
        else this.#keep(bytes, start, end)
      },
      end: () => {
        if (this.#name === contentMember) {
          this.#members[contentMember] = ""
          if (!this.#decoder.isComplete()) this.#fault ??= notBase64
        } else this.#endText()
      }
    })
  }

  /** Takes in the next bytes: the content that they complete, or what is wrong. */
  write(bytes: Uint8Array): { readonly content: Uint8Array } | { readonly fault: Issue } {
    this.#content = new Uint8Array(decodedLengthMax(bytes.length))
    this.#contentLength = 0
    const fault = this.#firstOf(this.#scanner.write(bytes))
    return fault === null ? { content: this.#content.subarray(0, this.#contentLength) } : { fault }
  }

  /** Nothing more will come: the members, the content an empty text, or what is wrong. */
  end(): { readonly members: Readonly<Record<string, unknown>> } | { readonly fault: Issue } {
    const fault = this.#firstOf(this.#scanner.end())
    return fault === null ? { members: this.#members } : { fault }
  }

  /** Of a text's own fault and the scanner's: behind its own the scanner has nothing more told of, so the text's came before. */
  #firstOf(scanned: Issue | null): Issue | null {
    this.#fault ??= scanned
    return this.#fault
  }

  /** Up to the next escape, the text's end, or the chunk's: at an escape it is asked anew, and must not have looked beyond. */
  #decodePlain(bytes: Uint8Array, start: number): number {
    const escape = bytes.indexOf(0x5c, start)
    const rest = bytes.subarray(start, escape < 0 ? bytes.length : escape)
    const quote = rest.indexOf(0x22)
    const end = start + (quote < 0 ? rest.length : quote)
    const length = this.#decoder.decodedLength(end - start)
    const taken = this.#decoder.writePlain(bytes, start, end, this.#content, this.#contentLength)
    if (taken > 0) this.#contentLength += length
    return taken
  }

  #decode(bytes: Uint8Array, start: number, end: number): void {
    const length = this.#decoder.write(bytes, start, end, this.#content, this.#contentLength)
    if (length < 0) this.#fault ??= notBase64
    else this.#contentLength = length
  }

  #keep(bytes: Uint8Array, start: number, end: number): void {
    const kept = bytes.subarray(start, Math.min(end, start + textBytesMax - this.#textLength))
    this.#text.set(kept, this.#textLength)
    this.#textLength += kept.length
  }

  #endText(): void {
    const text = this.#text.subarray(0, this.#textLength)
    // A text that was cut is too long for its member, wherever it was cut.
    if (this.#textLength < textBytesMax && !isUtf8(text)) {
      this.#fault ??= { path: `/${escapePointer(this.#name)}`, code: "invalid_text", message: "Expected UTF-8" }
    }
    this.#members[this.#name] = utf8.decode(text)
  }
}

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true })

const notBase64: Issue = {
  path: `/${contentMember}`,
  code: "invalid_value",
  message: "Expected Base64 of the standard alphabet (RFC 4648, section 4), padded, without white space"
}
