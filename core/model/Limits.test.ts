import { assert, describe, it } from "@effect/vitest"
import * as Limits from "./Limits.ts"

const minute = 60_000
const hour = 60 * minute
const day = 24 * hour

describe("the limits", () => {
  it("of the plans are those that are published", () => {
    const published = Limits.plans.filter(({ id }) => id !== "dev")

    assert.deepStrictEqual(published, [
      { id: "free", keyRequestsPerMinute: 60, tenantRequestsPerDay: 5_000, recipientsPerDay: 500 },
      { id: "standard", keyRequestsPerMinute: 120, tenantRequestsPerDay: 100_000, recipientsPerDay: 50_000 },
      { id: "scale", keyRequestsPerMinute: 600, tenantRequestsPerDay: 1_000_000, recipientsPerDay: 1_000_000 }
    ])
  })

  it("of webhooks are those of the specification", () => {
    const { webhookEventTypesMax, webhookDescriptionLengthMax, deliveryAttemptsMax, consecutiveFailuresMax } = Limits

    assert.deepStrictEqual([webhookEventTypesMax, webhookDescriptionLengthMax, deliveryAttemptsMax, consecutiveFailuresMax], [20, 255, 5, 10])
  })

  it("of webhook requests are those of the specification, and those that were decided", () => {
    const { webhookDeadline, webhookAnswerBytesMax, webhookUrlLengthMax, webhookRetryAfterMax, deliveryAttemptsKept } = Limits

    assert.deepStrictEqual([webhookDeadline, webhookRetryAfterMax], [5_000, hour])
    assert.deepStrictEqual([webhookAnswerBytesMax, webhookUrlLengthMax, deliveryAttemptsKept], [64 * 1024, 2_048, 100])
    assert.deepStrictEqual([Limits.handshakesPerApplicationMax, Limits.handshakesPerHostMax, Limits.endpointsPerApplicationMax], [5, 1, 100])
  })

  it("of time are those that were decided", () => {
    const { idempotencyRetention, unusedAttachmentRetention, eventRetentionDefault, notificationRetention, submissionWindow, domainGrace, blobGrace } = Limits

    assert.deepStrictEqual(
      [idempotencyRetention, unusedAttachmentRetention, eventRetentionDefault, notificationRetention, submissionWindow, domainGrace, blobGrace],
      [day, 7 * day, 30 * day, 48 * hour, 48 * hour, day, day]
    )
    assert.isAbove(Limits.eventGrace, Limits.freshEventMax)
  })

  it("of sizes are those that were decided", () => {
    const { attachmentSizeBytesMax, sendBodyBytesMax, uploadBodyBytesMax, bodyBytesMax, eventDataBytesMax } = Limits
    const mebibyte = 1024 * 1024

    assert.deepStrictEqual(
      [attachmentSizeBytesMax, sendBodyBytesMax, uploadBodyBytesMax, bodyBytesMax],
      [25 * mebibyte, 16 * mebibyte, 36 * mebibyte, 64 * 1024]
    )
    assert.isAtMost(eventDataBytesMax, 20 * 1024)
  })
})
