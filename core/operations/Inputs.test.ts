/** What the schemas refuse by themselves, for whoever decodes with them. Over HTTP some of it is refused before, as bytes. */
import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import { SendMessageInput } from "./Sending.ts"
import { CreateWebhookEndpointInput, UnsupportedEventType } from "./Webhooks.ts"

const message = { fromMailboxId: "0193b3c4-0000-7000-8000-000000000001", to: ["ada@mail.example"], text: "The engine weaves" }
const endpoint = { url: "https://hooks.example/", eventTypes: ["*"] }

describe("Text that not every store can hold", () => {
  for (const [field, decode] of [
    ["subject", (text) => Schema.decodeUnknownResult(SendMessageInput)({ ...message, subject: text })],
    ["text", (text) => Schema.decodeUnknownResult(SendMessageInput)({ ...message, text })],
    ["html", (text) => Schema.decodeUnknownResult(SendMessageInput)({ ...message, html: text })],
    ["description", (text) => Schema.decodeUnknownResult(CreateWebhookEndpointInput)({ ...endpoint, description: text })]
  ] as ReadonlyArray<readonly [field: string, decode: (text: string) => Result.Result<unknown, unknown>]>) {
    it(`is no ${field}`, () => {
      assert.isTrue(Result.isSuccess(decode("a whole \u{1d11e}")))
      for (const text of ["a NUL \0", "half a character \ud834"]) assert.isTrue(Result.isFailure(decode(text)), JSON.stringify(text))
    })
  }
})

it("Event types that cannot be subscribed are told by the first one's beginning, and how many others there are", () => {
  const says = (...unsupported: ReadonlyArray<string>) => new UnsupportedEventType({ unsupported, supported: ["*"] }).message.split(";")[0]

  assert.strictEqual(says("message.read"), 'Cannot be subscribed: "message.read"')
  assert.strictEqual(says("message.read", "b", "c"), 'Cannot be subscribed: "message.read" and 2 more')
  assert.strictEqual(says(`a${"b".repeat(60)}`, "c"), `Cannot be subscribed: "a${"b".repeat(59)}" and 1 more`)
})
