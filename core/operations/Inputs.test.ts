/** What the schemas refuse by themselves, for whoever decodes with them. Over HTTP some of it is refused before, as bytes. */
import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import { SendMessageInput } from "./Sending.ts"
import { CreateWebhookEndpointInput } from "./Webhooks.ts"

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
