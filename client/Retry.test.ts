import { assert, describe, it } from "@effect/vitest"
import { routes, type Operation } from "./Contract.ts"
import { MailroomConnectionError, MailroomError } from "./Errors.ts"
import { timerMillisMax } from "./Platform.ts"
import * as Retry from "./Retry.ts"

const about = { operation: "listDomains", attempts: 1, idempotencyKey: null }
const refused = (
  status: number,
  { code = "some", retryAfter = null }: { code?: string; retryAfter?: number | null } = {}
) => new MailroomError("refused", { ...about, status, code, requestId: null, details: {}, retryAfter })
const broken = (reason: MailroomConnectionError["reason"]) =>
  new MailroomConnectionError("broken", { ...about, reason })

const operations = Object.keys(routes) as ReadonlyArray<Operation> // the keys of the table
const onceOnly: ReadonlyArray<Operation> = ["createWebhookEndpoint", "replayWebhookDelivery"]

const decide = (failure: MailroomError | MailroomConnectionError, overrides: Partial<Retry.Circumstances> = {}) =>
  Retry.delayMs(failure, {
    operation: "listDomains",
    retries: 0,
    maxRetries: 2,
    maxRetryDelayMs: 60_000,
    random: 0,
    ...overrides
  })

describe("A failure", () => {
  for (const operation of operations) {
    const isRepeatable = !onceOnly.includes(operation)
    it(`of ${operation} is worth another try ${isRepeatable ? "if it may pass" : "only if nothing was done"}`, () => {
      const isRetried = (failure: MailroomError | MailroomConnectionError) => decide(failure, { operation }) !== null

      for (const status of [408, 429]) assert.isTrue(isRetried(refused(status)), String(status))
      for (const status of [500, 502, 503, 504, 507, 520, 521, 522, 523, 524, 529, 530, 599]) {
        assert.strictEqual(isRetried(refused(status)), isRepeatable, String(status))
      }
      for (const reason of ["network", "timeout"] as const) {
        assert.strictEqual(isRetried(broken(reason)), isRepeatable, reason)
      }
      assert.isTrue(isRetried(refused(409, { code: "idempotency_pending" })))
      for (const status of [200, 301, 400, 401, 403, 404, 405, 409, 413, 415, 431, 501, 505, 600]) {
        assert.isFalse(isRetried(refused(status)), String(status))
      }
      assert.isFalse(isRetried(refused(409, { code: "idempotency_conflict", retryAfter: 1 })))
      assert.isFalse(isRetried(refused(409, { code: "attachment_not_clean", retryAfter: 5 })))
      assert.isFalse(isRetried(broken("invalid_response")))
    })
  }

  it("is final once the retries are used up", () => {
    assert.deepStrictEqual([0, 1, 2, 3].map((retries) => decide(refused(503), { retries }) !== null), [
      true,
      true,
      false,
      false
    ])
    assert.isNull(decide(refused(503), { maxRetries: 0 }))
  })
})

describe("The wait", () => {
  it("doubles from half a second, up to its limit", () => {
    const waits = (random: number) =>
      [0, 1, 2, 3, 4, 5, 6, 2_000].map((retries) =>
        decide(refused(503), { retries, maxRetries: 9_999, maxRetryDelayMs: 10_000, random })
      )

    assert.deepStrictEqual(waits(1), [500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000, 10_000])
    assert.deepStrictEqual(waits(0), [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000, 5_000])
    assert.strictEqual(decide(broken("network"), { random: 0.5 }), 375)
  })

  it("is what the service asks for and a random part more, never less", () => {
    const waits = (retryAfter: number) => [0, 0.5, 1].map((random) => decide(refused(429, { retryAfter }), { random }))

    assert.deepStrictEqual(waits(0), [0, 500, 1_000])
    assert.deepStrictEqual(waits(1), [1_000, 1_500, 2_000])
    assert.deepStrictEqual(waits(60), [60_000, 67_500, 75_000])
    assert.deepStrictEqual(waits(61), [null, null, null])
    assert.isNull(decide(refused(503, { retryAfter: 1 }), { maxRetryDelayMs: 999 }))
  })

  it("is never longer than a timer can be, beyond which it would fire at once", () => {
    const retryAfter = Math.floor(timerMillisMax / 1000)

    assert.strictEqual(decide(refused(503, { retryAfter }), { random: 1, maxRetryDelayMs: timerMillisMax }), timerMillisMax)
  })
})

describe("Retry-After", () => {
  const now = Date.parse("2026-12-01T09:30:00Z")
  const rows: ReadonlyArray<readonly [string | null, number | null]> = [
    [null, null],
    ["0", 0],
    ["120", 120],
    [" 7 ", 7],
    ["Tue, 01 Dec 2026 09:30:20 GMT", 20],
    ["Tuesday, 01-Dec-26 09:30:20 GMT", 20],
    ["Tue, 01 Dec 2026 09:29:00 GMT", 0],
    ["", null],
    ["soon", null],
    ["-5", null],
    ["1.5", null],
    ["1e3", null],
    ["2026-12-01 09:30:20", null],
    ["in 5", null],
    ["retry 10", null],
    ["try again after 12", null],
    ["Dec 2026", null],
    ["Tue, 99 Dec 2026 09:30:20 GMT", null],
    ["Tue Dec  1 09:30:20 2026", 20],
    ["9999999999", 9_999_999_999]
  ]
  for (const [header, seconds] of rows) {
    it(`${JSON.stringify(header)} is ${seconds === null ? "nothing" : `${seconds} seconds`}`, () => {
      assert.strictEqual(Retry.parseRetryAfter(header, now), seconds)
    })
  }

  it("is in UTC in each of its forms, wherever the caller is", () => {
    const zone = process.env["TZ"]
    process.env["TZ"] = "America/New_York"
    try {
      assert.strictEqual(Retry.parseRetryAfter("Tue Dec  1 09:30:20 2026", now), 20)
      assert.strictEqual(Retry.parseRetryAfter("Tue, 01 Dec 2026 09:30:20 GMT", now), 20)
    } finally {
      if (zone === undefined) delete process.env["TZ"]
      else process.env["TZ"] = zone
    }
  })

  it("counts from the caller's clock, rounded up", () => {
    assert.strictEqual(Retry.parseRetryAfter("Tue, 01 Dec 2026 09:30:20 GMT", now + 500), 20)
    assert.strictEqual(Retry.parseRetryAfter("Tue, 01 Dec 2026 09:30:20 GMT", now + 1_000), 19)
  })
})
