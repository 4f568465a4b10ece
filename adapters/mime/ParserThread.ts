/** The thread's side of ParserThreads: takes a message in pieces, and answers with what it says. */
import { parentPort } from "node:worker_threads"
import type { Answer, Piece } from "./ParserThreads.ts"
import { readMessage } from "./MimeReader.ts"

let raw = new Uint8Array(0)
let filled = 0

const answer = (isCut: boolean): Answer => {
  try {
    return { parsed: readMessage(raw, isCut), fault: null }
  } catch (error) {
    return { parsed: null, fault: error instanceof Error ? (error.stack ?? error.message) : String(error) }
  }
}

parentPort?.on("message", ({ size, bytes, isCut }: Piece) => {
  if (filled === 0) raw = new Uint8Array(size)
  raw.set(bytes, filled)
  filled += bytes.length
  if (filled < size) return
  const { parsed, fault } = answer(isCut)
  // Attachments are views of it: it moves to whoever asked, and nothing is copied.
  const moved = parsed !== null && parsed.attachments.length > 0 ? [raw.buffer] : []
  raw = new Uint8Array(0)
  filled = 0
  parentPort?.postMessage({ parsed, fault }, moved)
})
