import { assert, describe, it } from "@effect/vitest"
import * as Command from "./Command.ts"
import * as Reply from "./Reply.ts"

const read = (line: string) => Command.read(Buffer.from(line))

const refusal = (reply: Reply.Reply) => ({ _tag: "Refused", reply }) as const

const sender = (over: object) => ({ _tag: "Mail", path: "a@b.test", sizeBytes: 0, isUtf8: false, ...over })

const ofOctets = (octets: number, letter: string) => `u@${letter.repeat((octets - 4) / Buffer.byteLength(letter))}`

const rows: ReadonlyArray<readonly [line: string, command: object]> = [
  ["\ufeffQUIT", refusal(Reply.unknownCommand)],
  ["RCPT TO:<PostMaster>", { _tag: "Recipient", path: "PostMaster" }],
  ["MAIL FROM:<PostMaster>", refusal(Reply.badSender)],
  ["RCPT TO:<u@[192.0.2.1]>", { _tag: "Recipient", path: "u@[192.0.2.1]" }],
  ["RCPT TO:<u@[IPv6:2001:db8::1]>", { _tag: "Recipient", path: "u@[IPv6:2001:db8::1]" }],
  [`RCPT TO:<${ofOctets(256, "x")}>`, { _tag: "Recipient", path: ofOctets(256, "x") }],
  [`RCPT TO:<${ofOctets(256, "é")}>`, { _tag: "Recipient", path: ofOctets(256, "é") }],
  [`RCPT TO:<${ofOctets(257, "x")}>`, refusal(Reply.badRecipient)],
  [`RCPT TO:<${ofOctets(258, "é")}>`, refusal(Reply.badRecipient)],
  ["RCPT TO:<>", refusal(Reply.badRecipient)],
  ["MAIL FROM:<>", sender({ path: null })],
  ["mail from:<a@b.test> size=12 body=8bitmime smtputf8", sender({ sizeBytes: 12, isUtf8: true })],
  [`MAIL FROM:<a@b.test> SIZE=${"9".repeat(20)}`, sender({ sizeBytes: 1e20 })],
  ...["SIZE=", "SIZE", `SIZE=${"9".repeat(21)}`, "SIZE=1k", "BODY", "BODY=BINARYMIME", "SMTPUTF8=1", "SIZE=1 SIZE=2", "SIZE=1 size=2", "=1", "-A=1", "A==1"].map(
    (parameters) => [`MAIL FROM:<a@b.test> ${parameters}`, refusal(Reply.badParameters)] as const
  ),
  ["MAIL FROM:<a@b.test>SIZE=1", refusal(Reply.badParameters)],
  ["MAIL FROM:<a@b.test> RET=FULL", refusal(Reply.unknownParameter)],
  ["RCPT TO:<u@b.test> NOTIFY=NEVER", refusal(Reply.unknownParameter)],
  ["MAIL FROM:<ä@b.test>", refusal(Reply.wantsUtf8)],
  ...["GET / HTTP/1.1", "POST / HTTP/1.1", "PUT / HTTP/1.1", "HEAD / HTTP/1.1", "OPTIONS * HTTP/1.1", "CONNECT a.test:25 HTTP/1.1"].map(
    (line) => [line, { _tag: "Refused", reply: Reply.notHttp, isFatal: true }] as const
  ),
  ["BDAT 12 LAST", { _tag: "Refused", reply: Reply.notOffered, isFatal: true }]
]

describe("a command", () => {
  for (const [line, command] of rows) {
    const shown = line.length < 60 ? line : `${line.slice(0, 30)}… of ${Buffer.byteLength(line)} octets`
    it(`is read as ${"reply" in command ? (command.reply as Reply.Reply).text : "what it says"}: ${JSON.stringify(shown)}`, () => {
      assert.deepStrictEqual<object>(read(line), command)
    })
  }
})
