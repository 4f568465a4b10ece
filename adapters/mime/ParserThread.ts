/** The thread's side of ParserThreads: takes a message, and answers with what it says. */
import { parentPort } from "node:worker_threads"
import type { Answer, Question } from "./ParserThreads.ts"
import { readMessage } from "./MimeReader.ts"

const answer = ({ bytes, isCut }: Question): Answer => {
  try {
    return { parsed: readMessage(bytes, isCut), fault: null }
  } catch (error) {
    return { parsed: null, fault: error instanceof Error ? (error.stack ?? error.message) : String(error) }
  }
}

parentPort?.on("message", (question: Question) => {
  const { parsed, fault } = answer(question)
  // Attachments are views of the message: it moves back to whoever asked, and nothing is copied.
  const moved = parsed !== null && parsed.attachments.length > 0 ? [question.bytes.buffer] : []
  parentPort?.postMessage({ parsed, fault }, moved)
})
