/** What is wrong with a message, each word once, in the order in which core/model/ParsedMessage.ts explains them. */

export const words = [
  "bare_line_ends",
  "long_line",
  "nul",
  "eight_bit_header",
  "no_header",
  "malformed_header",
  "duplicate_header",
  "missing_from",
  "missing_date",
  "bad_date",
  "bad_address",
  "bad_media_type",
  "bad_parameter",
  "bad_encoded_word",
  "unknown_charset",
  "bad_charset",
  "unknown_encoding",
  "bad_base64",
  "bad_quoted_printable",
  "bad_uuencode",
  "missing_boundary",
  "unclosed_multipart",
  "empty_multipart",
  "encoded_multipart",
  "truncated_header",
  "too_many_headers",
  "too_many_parts",
  "too_deep",
  "too_long",
  "too_costly"
] as const

export type Word = (typeof words)[number]

export class Defects {
  readonly #found = new Set<Word>()

  add(word: Word): void {
    this.#found.add(word)
  }

  /** Unless what was read is as it should be. */
  addUnless(isProper: boolean, word: Word): void {
    if (!isProper) this.#found.add(word)
  }

  list(): ReadonlyArray<Word> {
    return words.filter((word) => this.#found.has(word))
  }
}
