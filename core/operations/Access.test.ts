import { assert, describe, it } from "@effect/vitest"
import { requiredScopes } from "./Access.ts"

describe("the operations", () => {
  it("each want the scope that the specification gives them", () => {
    assert.deepStrictEqual(requiredScopes, {
      listMailboxes: "mailboxes:read",
      listDomains: "mailboxes:read",
      listMessages: "messages:read",
      sendMessage: "messages:send",
      getMessage: "messages:read",
      updateMessage: "messages:write",
      uploadAttachment: "attachments:write",
      downloadAttachment: "attachments:read",
      listEvents: "messages:read",
      listWebhookEndpoints: "webhooks:read",
      createWebhookEndpoint: "webhooks:write",
      listWebhookDeliveries: "webhooks:read",
      replayWebhookDelivery: "webhooks:write"
    })
  })
})
