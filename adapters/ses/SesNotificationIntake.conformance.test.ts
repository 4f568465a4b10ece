import { assert, it } from "@effect/vitest"
import { Clock, Context, Effect, Fiber, Layer, Result } from "effect"
import { TestClock } from "effect/testing"
import { generateKeyPairSync, X509Certificate, type KeyObject } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import { generate } from "selfsigned"
import { suite, type Case } from "../../conformance/NotificationIntake.ts"
import { conforms } from "../../conformance/vitest.ts"
import { webhookAnswerBytesMax, webhookDeadline } from "../../core/model/Limits.ts"
import type { Notification } from "../../core/model/Notification.ts"
import { replyTextMax } from "../../core/model/Reply.ts"
import type { IntakeRequest, NotificationIntake } from "../../core/ports/NotificationIntake.ts"
import * as MemoryWebhookTransport from "../memory/MemoryWebhookTransport.ts"
import * as FakeSns from "./FakeSns.ts"
import * as SesNotificationIntake from "./SesNotificationIntake.ts"
import { signedText, type SnsMessage } from "./SnsMessage.ts"

const { WebhookScript } = MemoryWebhookTransport

const certificate = (from: number, to: number) =>
  generate([{ name: "commonName", value: "sns.amazonaws.com" }], { algorithm: "sha256", notBeforeDate: new Date(from), notAfterDate: new Date(to) })
const farAway = 4_000_000_000_000
const [genuine, stranger] = [await certificate(0, farAway), await certificate(0, farAway)]
/** The certificate with another key in it. It is not signed any more, which nobody looks at who trusts its host. */
const withKey = (pem: string, key: KeyObject): string => {
  const { raw, publicKey } = new X509Certificate(pem)
  const [taken, put] = [publicKey, key].map((one) => one.export({ type: "spki", format: "der" })) as [Buffer, Buffer] // one for each
  const at = raw.indexOf(taken)
  const changed = Buffer.concat([raw.subarray(0, at), put, raw.subarray(at + taken.length)])
  // Of the two sequences that it stands in, each has its length behind two bytes.
  for (const length of [2, 6]) changed.writeUInt16BE(changed.readUInt16BE(length) + put.length - taken.length, length)
  return `-----BEGIN CERTIFICATE-----\n${changed.toString("base64")}\n-----END CERTIFICATE-----\n`
}
const curve = generateKeyPairSync("ec", { namedCurve: "P-256" })
const [old, future] = [await certificate(-2_000, -1_000), await certificate(farAway - 2_000, farAway)]

const certificateOf = (name: string) => `https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-${name}.pem`

class Ses extends Context.Service<Ses, NotificationIntake>()("test/Ses") {}

const ses = Layer.effect(
  Ses,
  Effect.gen(function* () {
    const { receive } = yield* WebhookScript
    const serving = (url: string, pem: string) =>
      receive(url, ({ method }) => ({ _tag: "Answers", status: method === "GET" ? 200 : 405, body: new TextEncoder().encode(pem) }))
    yield* serving(FakeSns.certificateUrl, genuine.cert)
    yield* serving(certificateOf("old"), old.cert)
    yield* serving(certificateOf("future"), future.cert)
    yield* serving(certificateOf("curve"), withKey(genuine.cert, curve.publicKey))
    yield* serving(certificateOf("endless"), genuine.cert + "\n".repeat(webhookAnswerBytesMax))
    yield* receive(certificateOf("gone"), () => ({ _tag: "Answers", status: 404, body: new TextEncoder().encode(genuine.cert) }))
    return yield* SesNotificationIntake.make({ topics: ["arn:aws:sns:eu-central-1:123456789012:other", FakeSns.topic] })
  })
).pipe(Layer.provideMerge(MemoryWebhookTransport.layer))

const folder = `${import.meta.dirname}/fixtures`
const cases = readdirSync(folder)
  .filter((file) => file.endsWith(".json"))
  .map((file) => JSON.parse(readFileSync(`${folder}/${file}`, "utf8")) as Case) // each is one

const post = (over: Partial<SnsMessage> = {}, privateKey = genuine.private, text = JSON.stringify(cases[0]!.payload)) =>
  Effect.map(Clock.currentTimeMillis, (at) => FakeSns.request(FakeSns.signed(FakeSns.message(text, at, over), privateKey)))

/** What was posted, read, changed and signed by nobody. */
const altered = ({ headers, body }: IntakeRequest, change: (message: SnsMessage) => object): IntakeRequest => ({
  headers,
  body: new TextEncoder().encode(JSON.stringify(change(JSON.parse(new TextDecoder().decode(body)) as SnsMessage))) // it was one
})

const strangeUrls = [
  "http://sns.eu-central-1.amazonaws.com/SimpleNotificationService-0.pem",
  "http://sns.eu-central-1.amazonaws.com:443/SimpleNotificationService-0.pem",
  "https://sns.eu-central-1.amazonaws.com:8443/SimpleNotificationService-0.pem",
  "https://sns.eu-central-1.amazonaws.com.evil.example/SimpleNotificationService-0.pem",
  "https://evil.example/sns.eu-central-1.amazonaws.com/SimpleNotificationService-0.pem",
  "https://sns.eu-central-1.amazonaws.com@evil.example/SimpleNotificationService-0.pem",
  "https://evil.example#.sns.eu-central-1.amazonaws.com/SimpleNotificationService-0.pem",
  "https://sns.evil.example\\.eu-central-1.amazonaws.com/SimpleNotificationService-0.pem",
  "https://s3.eu-central-1.amazonaws.com/SimpleNotificationService-0.pem",
  "https://sns.a.b.amazonaws.com/SimpleNotificationService-0.pem",
  "https://my-sns.eu-central-1.amazonaws.com/SimpleNotificationService-0.pem",
  "https://my.sns.eu-central-1.amazonaws.com/SimpleNotificationService-0.pem",
  // A bucket that is called sns.
  "https://sns.s3.amazonaws.com/SimpleNotificationService-0.pem",
  "https://sns.s3-eu-central-1.amazonaws.com/SimpleNotificationService-0.pem",
  "https://sns.s3-accelerate.amazonaws.com/SimpleNotificationService-0.pem",
  "https://sns.s3-fips-us-gov-west-1.amazonaws.com/SimpleNotificationService-0.pem",
  "https://sns.s3.eusc-de-east-1.amazonaws.eu/SimpleNotificationService-0.pem",
  "https://sns.eu-central-1.amazonaws.eu/SimpleNotificationService-0.pem",
  "https://sns.eusc-de-east-1.amazonaws.com/SimpleNotificationService-0.pem",
  "https://sns.eu-central-1.amazonaws.com/mine.pem",
  "https://sns.eu-central-1.amazonaws.com/mine/SimpleNotificationService-0.pem",
  "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-0.pem.mine",
  "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-0.pem?x=/mine.pem",
  "https://sns.eu-central-1.amazonaws.com/x/../?Action=Publish&a=/SimpleNotificationService-0.pem",
  "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-..%2f0.pem",
  "file:///etc/SimpleNotificationService-0.pem",
  "not a URL"
]

const conformance = suite({
  intake: Ses,
  cases,
  authentic: (payload, { account } = { account: "ours" }) =>
    post(account === "ours" ? {} : { TopicArn: "arn:aws:sns:eu-central-1:999999999999:mailroom" }, genuine.private, payload),
  forged: [
    { title: "a signature by another key", forge: () => post({}, stranger.private) },
    { title: "a certificate that is not valid any more", forge: () => post({ SigningCertURL: certificateOf("old") }, old.private) },
    { title: "a certificate that is not valid yet", forge: () => post({ SigningCertURL: certificateOf("future") }, future.private) },
    { title: "a certificate of a key that is not RSA", forge: () => post({ SigningCertURL: certificateOf("curve") }, curve.privateKey.export({ type: "pkcs8", format: "pem" }).toString()) },
    { title: "a certificate in an answer that is too long", forge: () => post({ SigningCertURL: certificateOf("endless") }) },
    { title: "a certificate that the host says is not there", forge: () => post({ SigningCertURL: certificateOf("gone") }) },
    { title: "a request with an empty id", forge: () => post({ MessageId: "" }) },
    { title: "a request with an id without end", forge: () => post({ MessageId: "1".repeat(101) }) },
    {
      // What a reader that is not strict takes for the very text that was signed.
      title: "a request that is no UTF-8",
      forge: () =>
        Effect.map(post({}, genuine.private, "a \ufffd"), ({ headers, body }) => ({
          headers,
          body: new Uint8Array(Buffer.from(Buffer.from(body).toString("latin1").replace("\u00ef\u00bf\u00bd", "\u00ff"), "latin1"))
        }))
    },
    {
      title: "the signature of another notification",
      forge: (request) =>
        Effect.map(post({}, genuine.private, "another"), (other) => {
          const { Signature } = JSON.parse(new TextDecoder().decode(other.body)) as SnsMessage // it was one
          return altered(request, (message) => ({ ...message, Signature }))
        })
    },
    ...["Message", "MessageId", "Timestamp", "Type", "Subject", "SignatureVersion", "TopicArn", "Signature"].map((member) => ({
      title: `a request without ${member}`,
      forge: () => Effect.map(post({ Subject: "a subject" }), (request) => altered(request, (message) => ({ ...message, [member]: undefined })))
    })),
    ...strangeUrls.map((SigningCertURL) => ({ title: `a certificate from ${SigningCertURL}`, forge: () => post({ SigningCertURL }) }))
  ],
  isSigned: true
})

conforms("SesNotificationIntake", conformance, ses)

const refusalOf = Effect.fnUntraced(function* (request: IntakeRequest) {
  const { receive } = yield* Ses
  const ending = yield* Effect.result(receive(request))
  return Result.isSuccess(ending) ? null : ending.failure._tag === "IntakeRefused" ? ending.failure.reason : ending.failure._tag
})

const fetched = WebhookScript.use(({ posts }) => Effect.map(posts, (all) => all.map(({ url, method }) => `${method} ${url}`)))

it.effect("SesNotificationIntake fetches a certificate once, and none that is not SNS's own", () =>
  Effect.gen(function* () {
    const requests = yield* Effect.forEach(strangeUrls, (SigningCertURL) => post({ SigningCertURL }))
    for (const request of requests) assert.strictEqual(yield* refusalOf(request), "bad_signature")
    assert.deepStrictEqual(yield* fetched, [])

    const genuineOnes = yield* Effect.forEach(cases, ({ payload }) => post({}, genuine.private, JSON.stringify(payload)))
    const refusals = yield* Effect.forEach(genuineOnes, refusalOf, { concurrency: "unbounded" })

    assert.isTrue(refusals.every((refusal) => refusal === null))
    assert.deepStrictEqual(yield* fetched, [`GET ${FakeSns.certificateUrl}`])
  }).pipe(Effect.provide(ses))
)

it.effect("SesNotificationIntake fetches no more certificates in a minute than it may, whoever names them", () =>
  Effect.gen(function* () {
    const { receive } = yield* WebhookScript
    const urls = Array.from({ length: 30 }, (_, index) => FakeSns.certificateUrl.replace("0123", `forged${index}`))
    for (const url of urls) yield* receive(url, () => ({ _tag: "Answers", status: 404 }))
    const requests = yield* Effect.forEach(urls, (SigningCertURL) => post({ SigningCertURL }))

    const refusals = yield* Effect.forEach(requests, refusalOf, { concurrency: "unbounded" })

    assert.deepStrictEqual(refusals.filter((refusal) => refusal === "bad_signature").length, 10)
    assert.deepStrictEqual(refusals.filter((refusal) => refusal === "IntakeUnavailable").length, 20)
    assert.lengthOf(yield* fetched, 10)
    yield* TestClock.adjust("61 seconds")
    assert.strictEqual(yield* refusalOf(yield* post()), null)
  }).pipe(Effect.provide(ses))
)

it.effect("SesNotificationIntake fetches certificates again at once where the clock was set back", () =>
  Effect.gen(function* () {
    yield* TestClock.setTime(86_400_000)
    for (let index = 0; index < 10; index++) yield* refusalOf(yield* post({ SigningCertURL: certificateOf(`forged${index}`) }))
    assert.strictEqual(yield* refusalOf(yield* post()), "IntakeUnavailable")

    yield* TestClock.setTime(1_000)

    assert.strictEqual(yield* refusalOf(yield* post()), null)
  }).pipe(Effect.provide(ses))
)

it.effect("SesNotificationIntake waits for a certificate only so long, and fetches one at a time", () =>
  Effect.gen(function* () {
    const { receive, waiting } = yield* WebhookScript
    const url = certificateOf("silent")
    yield* receive(url, () => ({ _tag: "Hangs" }))
    const request = yield* post({ SigningCertURL: url })

    const [first, second] = [yield* Effect.forkChild(refusalOf(request)), yield* Effect.forkChild(refusalOf(request))]
    yield* TestClock.adjust(webhookDeadline - 1)
    assert.lengthOf(yield* fetched, 1)
    yield* receive(url, () => ({ _tag: "Answers", status: 200, body: new TextEncoder().encode(genuine.cert) }))
    yield* TestClock.adjust(1)

    assert.deepStrictEqual([yield* Fiber.join(first), yield* Fiber.join(second)], ["IntakeUnavailable", null])
    assert.deepStrictEqual(yield* waiting, [])
  }).pipe(Effect.provide(ses))
)

it.effect("SesNotificationIntake fetches no certificate from a private network", () =>
  Effect.gen(function* () {
    const { lead } = yield* WebhookScript
    yield* lead("sns.eu-central-1.amazonaws.com", ["10.0.0.1"])

    assert.strictEqual(yield* refusalOf(yield* post()), "IntakeUnavailable")
    assert.deepStrictEqual(yield* fetched, [])
  }).pipe(Effect.provide(ses))
)

it.effect("SesNotificationIntake keeps sixteen certificates, and lets go of the oldest", () =>
  Effect.gen(function* () {
    const { receive } = yield* WebhookScript
    const urls = Array.from({ length: 17 }, (_, index) => certificateOf(`kept${index}`))
    for (const url of urls) yield* receive(url, () => ({ _tag: "Answers", status: 200, body: new TextEncoder().encode(genuine.cert) }))
    for (const SigningCertURL of urls) {
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual(yield* refusalOf(yield* post({ SigningCertURL })), null)
    }
    yield* TestClock.adjust("1 minute")

    for (const SigningCertURL of [...urls.slice(1), urls[0]!]) assert.strictEqual(yield* refusalOf(yield* post({ SigningCertURL })), null)

    assert.deepStrictEqual(yield* fetched, [...urls, urls[0]].map((url) => `GET ${url}`))
  }).pipe(Effect.provide(ses))
)

it.effect("SesNotificationIntake takes the certificates of every region", () =>
  Effect.gen(function* () {
    const { receive } = yield* WebhookScript
    for (const host of ["sns.us-gov-west-1.amazonaws.com", "sns.us-iso-east-1.amazonaws.com", "sns.ap-southeast-2.amazonaws.com", "sns.cn-north-1.amazonaws.com.cn", "sns.eusc-de-east-1.amazonaws.eu"]) {
      const SigningCertURL = `https://${host}/SimpleNotificationService-0.pem`
      yield* receive(SigningCertURL, () => ({ _tag: "Answers", status: 200, body: new TextEncoder().encode(genuine.cert) }))

      assert.strictEqual(yield* refusalOf(yield* post({ SigningCertURL })), null, host)
    }
  }).pipe(Effect.provide(ses))
)

it.effect("SesNotificationIntake takes a notification whose subject is null", () =>
  Effect.gen(function* () {
    assert.strictEqual(yield* refusalOf(yield* post({ Subject: null })), null)
  }).pipe(Effect.provide(ses))
)

it.effect("SesNotificationIntake takes nothing for fresh that says no time", () =>
  Effect.gen(function* () {
    assert.strictEqual(yield* refusalOf(yield* post({ Timestamp: "just now" })), "stale")
  }).pipe(Effect.provide(ses))
)

it.effect("SesNotificationIntake passes over a text that is of another type", () =>
  Effect.gen(function* () {
    const { receive } = yield* Ses
    const { payload, notifications } = cases.find(({ title }) => title === "a transient bounce with a delivery status")!
    const strange = JSON.stringify(payload).replace(/"(bounceSubType|diagnosticCode|action)":"[^"]*"/g, '"$1":{"a":["list"]}')

    const told = yield* receive(yield* post({}, genuine.private, strange))

    const [{ outcome, ...of }] = told.notifications as [Notification]
    assert.deepInclude(notifications[0], of)
    assert.deepInclude(outcome, { _tag: "Bounced", class: "transient", enhancedCode: "4.2.2" })
  }).pipe(Effect.provide(ses))
)

it.effect("SesNotificationIntake passes on as much of a text as events can hold", () =>
  Effect.gen(function* () {
    const { receive } = yield* Ses
    const { payload } = cases.find(({ title }) => title === "a delivery to two recipients")!
    const endless = JSON.stringify(payload).replace(/"smtpResponse":"[^"]*"/, `"smtpResponse":"${"d".repeat(50_000)}"`)

    const { notifications } = yield* receive(yield* post({}, genuine.private, endless))

    const [{ outcome }] = notifications as [Notification]
    assert.strictEqual(outcome._tag === "Delivered" ? outcome.smtpResponse?.length : null, replyTextMax)
  }).pipe(Effect.provide(ses))
)

it("SesNotificationIntake verifies a signature over the text that SNS documents", () => {
  const at = Date.UTC(2026, 11, 1)
  const said = ["Message", "a text", "MessageId", "42"]
  const ending = ["TopicArn", FakeSns.topic, "Type"]
  const lines = (...all: ReadonlyArray<string>) => all.map((line) => `${line}\n`).join("")
  const notification = FakeSns.message("a text", at, { MessageId: "42", Subject: "a subject" })
  const { Subject: _, ...without } = notification
  const confirmation = FakeSns.confirmation(at, { MessageId: "42", Message: "a text", SubscribeURL: "https://sns", Token: "a token" })
  const { Timestamp } = notification

  assert.strictEqual(signedText(notification), lines(...said, "Subject", "a subject", "Timestamp", Timestamp, ...ending, "Notification"))
  for (const withNone of [without, { ...without, Subject: null }]) {
    assert.strictEqual(signedText(withNone), lines(...said, "Timestamp", Timestamp, ...ending, "Notification"))
  }
  for (const Type of ["SubscriptionConfirmation", "UnsubscribeConfirmation"] as const) {
    assert.strictEqual(
      signedText({ ...confirmation, Type, Subject: "not signed" }),
      lines(...said, "SubscribeURL", "https://sns", "Timestamp", Timestamp, "Token", "a token", ...ending, Type)
    )
  }
})

it.effect("SesNotificationIntake asks for it again where the certificate does not come", () =>
  Effect.gen(function* () {
    const { next } = yield* WebhookScript
    const url = FakeSns.certificateUrl.replace("0123", "away")
    const request = yield* post({ SigningCertURL: url })
    yield* next({ _tag: "Fails", reason: "network_error" }, { _tag: "Answers", status: 503 }, { _tag: "Answers", status: 429 }, { _tag: "Answers", status: 200, body: new TextEncoder().encode(genuine.cert) })

    const refusals = yield* Effect.forEach([1, 2, 3, 4], () => refusalOf(request))

    assert.deepStrictEqual(refusals, ["IntakeUnavailable", "IntakeUnavailable", "IntakeUnavailable", null])
  }).pipe(Effect.provide(ses))
)

it.effect("SesNotificationIntake confirms a subscription to its topic, at SNS alone", () =>
  Effect.gen(function* () {
    const { receive } = yield* Ses
    const { receive: answering } = yield* WebhookScript
    const confirm = (over: Partial<SnsMessage> = {}) =>
      Effect.map(Clock.currentTimeMillis, (at) => FakeSns.request(FakeSns.signed(FakeSns.confirmation(at, over), genuine.private)))
    const confirmations = Effect.map(fetched, (all) => all.filter((one) => !one.includes(".pem")))
    const wrong = [
      ...strangeUrls,
      FakeSns.subscribeUrl.replace("ConfirmSubscription", "Publish"),
      FakeSns.subscribeUrl.replace("mailroom", "another"),
      FakeSns.subscribeUrl.replace("eu-central-1.amazonaws.com", "evil.example")
    ]
    for (const SubscribeURL of wrong) assert.strictEqual(yield* refusalOf(yield* confirm({ SubscribeURL })), "malformed")
    assert.strictEqual(yield* refusalOf(yield* confirm({ TopicArn: "arn:aws:sns:eu-central-1:999999999999:mailroom" })), "wrong_account")
    assert.deepStrictEqual(yield* confirmations, [])

    yield* answering(new URL(FakeSns.subscribeUrl).href, () => ({ _tag: "Answers", status: 500 }))
    assert.strictEqual(yield* refusalOf(yield* confirm()), "IntakeUnavailable")
    yield* answering(new URL(FakeSns.subscribeUrl).href, () => ({ _tag: "Answers", status: 200 }))
    const { kind, notifications } = yield* receive(yield* confirm())

    assert.deepStrictEqual({ kind, notifications }, { kind: "SubscriptionConfirmation", notifications: [] })
    assert.deepStrictEqual(yield* confirmations, [`GET ${new URL(FakeSns.subscribeUrl).href}`, `GET ${new URL(FakeSns.subscribeUrl).href}`])
    yield* answering(new URL(FakeSns.subscribeUrl).href, () => ({ _tag: "Hangs" }))
    const silent = yield* Effect.forkChild(Effect.flatMap(confirm(), refusalOf))
    yield* TestClock.adjust(webhookDeadline)
    assert.strictEqual(yield* Fiber.join(silent), "IntakeUnavailable")
    const left = yield* receive(yield* confirm({ Type: "UnsubscribeConfirmation" }))
    assert.strictEqual(left.kind, "UnsubscribeConfirmation")
    assert.lengthOf(yield* confirmations, 3)
  }).pipe(Effect.provide(ses))
)
