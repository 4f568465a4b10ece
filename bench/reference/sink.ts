/**
 * A mail server that keeps nothing: it takes commands apart, finds the dot at
 * the end of a message, says yes, and counts. Forked, it sends its port, and
 * then what it has counted whenever it is asked. `--delay-ms N` is how long it
 * thinks about a message before it answers.
 */
import { createServer, type AddressInfo, type Socket } from "node:net"
import { parseArgs } from "node:util"

const { values } = parseArgs({ options: { "delay-ms": { type: "string", default: "0" } } })
const delayMs = Number(values["delay-ms"])
const end = Buffer.from("\r\n.\r\n")

let messages = 0
let bytes = 0
let connections = 0

const replies: Readonly<Record<string, string>> = {
  EHLO: "250-sink.example\r\n250-PIPELINING\r\n250-8BITMIME\r\n250-SIZE 52428800\r\n250 ENHANCEDSTATUSCODES\r\n",
  HELO: "250 sink.example\r\n",
  MAIL: "250 2.1.0 Ok\r\n",
  RCPT: "250 2.1.5 Ok\r\n",
  DATA: "354 End data with <CR><LF>.<CR><LF>\r\n",
  RSET: "250 2.0.0 Ok\r\n",
  QUIT: "221 2.0.0 Bye\r\n"
}

const serve = (socket: Socket): void => {
  let heard: Buffer = Buffer.alloc(0)
  let isMessage = false
  let isThinking = false
  connections += 1

  /** How much of what was heard is taken. */
  const take = (from: number, say: (words: string) => void): number => {
    if (isThinking) return from
    if (!isMessage) {
      const index = heard.indexOf(0x0a, from)
      if (index < 0) return from
      const verb = heard.toString("latin1", from, from + 4).toUpperCase()
      say(replies[verb] ?? "500 5.5.2 What?\r\n")
      isMessage = verb === "DATA"
      if (verb === "QUIT") socket.end()
      return index + 1
    }
    const index = heard.indexOf(end, from)
    if (index < 0) return from
    messages += 1
    bytes += index + 2 - from
    isMessage = false
    if (delayMs === 0) say("250 2.0.0 Ok: queued\r\n")
    else {
      isThinking = true
      setTimeout(() => {
        isThinking = false
        read("250 2.0.0 Ok: queued\r\n")
      }, delayMs)
    }
    return index + end.length
  }

  const read = (first: string): void => {
    let said = first
    let from = 0
    const say = (words: string) => {
      said += words
    }
    for (let next = take(0, say); next !== from; next = take(from, say)) from = next
    heard = heard.subarray(from)
    if (said !== "" && socket.writable) socket.write(said, "latin1")
  }

  socket.setNoDelay(true)
  socket.on("error", () => undefined)
  socket.on("data", (chunk) => {
    heard = heard.length === 0 ? chunk : Buffer.concat([heard, chunk])
    if (!isThinking) read("")
  })
  socket.write("220 sink.example ESMTP\r\n")
}

const server = createServer(serve)
process.on("message", () => {
  process.send!({ messages, bytes, connections }) // forked
  messages = 0
  bytes = 0
  connections = 0
})
process.once("disconnect", () => process.exit()) // whoever started it has ended
server.listen(0, "127.0.0.1", () => process.send!((server.address() as AddressInfo).port)) // it listens
