import { Effect, Layer } from "effect"
import { createHash } from "node:crypto"
import { suite, type Case } from "../../conformance/MailAuthenticator.ts"
import { conforms } from "../../conformance/vitest.ts"
import * as MemoryMailAuthenticator from "./MemoryMailAuthenticator.ts"

const made = (title: string, text: string, expected: Case["expected"]): Case => ({
  title,
  peer: { remoteAddress: "192.0.2.1", helo: "client.test", protocol: "ESMTP" },
  returnPath: "ada@client.test",
  message: new TextEncoder().encode(`From: ada@client.test\r\n\r\n${text}\r\n`),
  expected
})

const cases = [
  made("finds what it was told of a message", "one", { spf: "pass", dkim: "fail", dmarc: "pass", arc: "none", dmarcPolicy: "reject" }),
  made("finds what it was told of another", "two", { spf: "softfail", dkim: "none", dmarc: "none", arc: "fail", dmarcPolicy: null })
]

const scripted = Layer.effectDiscard(
  MemoryMailAuthenticator.MailAuthenticatorScript.use((script) =>
    Effect.forEach(cases, ({ message, expected }) => script.answer(createHash("sha256").update(message).digest("hex"), expected))
  )
).pipe(Layer.provideMerge(MemoryMailAuthenticator.layer))

conforms("MemoryMailAuthenticator", suite({ cases }), scripted)
