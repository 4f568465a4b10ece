/**
 * Encoded words (RFC 2047, 2231 5), as loosely as senders write them: beside
 * other characters, with white space in them, too long, unpadded. White space
 * between two is not part of the text, and a character may begin in one and end
 * in the next. Time is linear in the text.
 */
import { decode } from "./Charset.ts"
import { decodeBase64, decodeQ } from "./TransferDecoding.ts"

export interface DecodedText {
  readonly text: string
  readonly isProper: boolean
}

/** Text of a field with the words in it decoded. It may hold any character, line ends too. */
export const decodeWords = (text: string): DecodedText => {
  let decoded = ""
  let isProper = true
  let run: Array<Word> = []
  let kept = 0

  const flush = () => {
    const joined = joinWords(run)
    decoded += joined.text
    isProper &&= joined.isProper
    run = []
  }

  for (const word of wordsOf(text)) {
    const between = text.slice(kept, word.start)
    if (run.length === 0 || between.trim() !== "") {
      flush()
      decoded += between
    }
    run.push(word)
    kept = word.end
  }
  if (kept === 0) return { text, isProper: !/=\?[^?\s]*\?/.test(text) }
  flush()
  return { text: decoded + text.slice(kept), isProper }
}

interface Word {
  readonly start: number
  readonly end: number
  readonly charset: string
  readonly isBase64: boolean
  readonly content: string
}

/** Characters that the name of a charset may have, with a language. */
const charsetLengthMax = 80

function* wordsOf(text: string): Generator<Word> {
  let end = -1
  for (let start = text.indexOf("=?"); start >= 0; start = text.indexOf("=?", start)) {
    const [mark, charset, encoding] = /^=\?([^?\s]{1,80})\?([bq])\?/i.exec(text.slice(start, start + charsetLengthMax + 6)) ?? []
    if (mark === undefined) {
      start += 2
      continue
    }
    const begin = start + mark.length
    if (end < begin) end = text.indexOf("?=", begin)
    if (end < 0) return
    const content = text.slice(begin, end)
    // Where another begins, this one has no end. The beginning itself cannot be mistaken: "?Q?=" is part of the mark.
    const next = content.indexOf("=?")
    if (next >= 0) {
      start = begin + next
      continue
    }
    yield { start, end: end + 2, charset: charset!.toLowerCase(), isBase64: encoding!.toLowerCase() === "b", content }
    start = end + 2
  }
}

/** Neighbours in one charset are decoded as one, since senders split characters. */
const joinWords = (words: ReadonlyArray<Word>): DecodedText => {
  let text = ""
  let isProper = true
  for (let at = 0; at < words.length; ) {
    const { charset } = words[at]!
    const pieces: Array<Uint8Array> = []
    let content = ""
    for (; at < words.length && words[at]!.charset === charset; at++) {
      const word = words[at]!
      content += word.content
      // Some even split what base64 makes one group of.
      const isSplit = word.isBase64 && words[at + 1]?.isBase64 === true && words[at + 1]?.charset === charset && word.content.length % 4 > 0
      if (isSplit && !word.content.endsWith("=")) {
        isProper = false
        continue
      }
      const { bytes, isProper: isWell } = word.isBase64 ? decodeBase64(Buffer.from(content)) : decodeQ(Buffer.from(content))
      isProper &&= isWell && !/\s/.test(content)
      pieces.push(bytes)
      content = ""
    }
    const decoded = decode(pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces), charset)
    text += decoded.text
    isProper &&= decoded.problem === null
  }
  return { text, isProper }
}
