import { assert, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { suite, type Case } from "../../conformance/NotificationIntake.ts"
import { conforms } from "../../conformance/vitest.ts"
import type { Notification } from "../../core/model/Notification.ts"
import { replyTextMax } from "../../core/model/Reply.ts"
import type { IntakeRequest } from "../../core/ports/NotificationIntake.ts"
import * as PostmarkNotificationIntake from "./PostmarkNotificationIntake.ts"

const secret = "a secret: of the operator"
const intake = PostmarkNotificationIntake.make({ secret: Redacted.make(secret), serverId: 1234 })

const folder = `${import.meta.dirname}/fixtures`
const cases = readdirSync(folder)
  .filter((file) => file.endsWith(".json"))
  .map((file) => JSON.parse(readFileSync(`${folder}/${file}`, "utf8")) as Case) // each is one

const basic = (user: string, password: string) => `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`

const posted = (payload: string, authorization = basic("postmark", secret)): IntakeRequest => ({
  headers: { "content-type": "application/json", "user-agent": "Postmark", authorization },
  body: new TextEncoder().encode(payload)
})

/** The payload, of another server. */
const ofAnother = (payload: string): string => JSON.stringify({ ...JSON.parse(payload), ServerID: 4321 })

const conformance = suite({
  intake: Effect.succeed(intake),
  cases,
  authentic: (payload, { account } = { account: "ours" }) => Effect.succeed(posted(account === "ours" ? payload : ofAnother(payload))),
  forged: [
    { title: "another password", authorization: basic("postmark", "a secret: of an operator") },
    { title: "no password", authorization: basic("postmark", "") },
    { title: "the password and more", authorization: basic("postmark", `${secret} `) },
    { title: "the secret for a user name", authorization: Buffer.from(secret).toString("base64") },
    { title: "the digest of the secret", authorization: "Bearer 2f1b" },
    { title: "another scheme", authorization: `Digest ${secret}` },
    { title: "another scheme before ours", authorization: `Digest ${basic("postmark", secret)}` },
    { title: "more than the secret", authorization: `${basic("postmark", secret)} and more` },
    { title: "an empty header", authorization: "" },
    { title: "basic authentication without a colon", authorization: `Basic ${Buffer.from("secret").toString("base64")}` }
  ].map(({ title, authorization }) => ({
    title,
    forge: ({ headers, body }: IntakeRequest) => Effect.succeed({ headers: { ...headers, authorization }, body })
  })),
  isSigned: false
})

conforms("PostmarkNotificationIntake", conformance, Layer.empty)

it.effect("PostmarkNotificationIntake takes the secret as a bearer token as well, and any server where none is named", () =>
  Effect.gen(function* () {
    const token = "a-token-of-the-operator"
    const { receive } = PostmarkNotificationIntake.make({ secret: Redacted.make(token) })
    const payload = ofAnother(JSON.stringify(cases[0]!.payload))

    for (const authorization of [`Bearer ${token}`, `bearer  ${token}`, basic("", token)]) {
      assert.deepStrictEqual((yield* receive(posted(payload, authorization))).notifications, cases[0]!.notifications)
    }
    const withoutColon = yield* Effect.flip(receive(posted(payload, `Basic ${Buffer.from(token).toString("base64")}`)))
    assert.deepInclude(withoutColon, { _tag: "IntakeRefused", reason: "bad_signature" })
  })
)

it.effect("PostmarkNotificationIntake tells bounces apart whose ids are the same as doubles", () =>
  Effect.gen(function* () {
    const large = cases.find(({ title }) => title.includes("larger than a double"))!
    const bounceOf = (id: string, Email: string) =>
      posted(JSON.stringify({ ...(large.payload as object), Email, ID: 0 }).replace('"ID":0', `"ID":${id}`))
    const ada = bounceOf("4323372036854775806", "ada@example.org")
    const charles = bounceOf("4323372036854775807", "charles@example.org")

    const [first, other, again] = yield* Effect.forEach([ada, charles, ada], intake.receive)

    assert.strictEqual(again!.id, first!.id)
    assert.notStrictEqual(other!.id, first!.id)
  })
)

it.effect("PostmarkNotificationIntake takes no notification that names no server, where one is named", () =>
  Effect.gen(function* () {
    const { ServerID: _, ...rest } = cases[0]!.payload as { readonly ServerID: unknown } // as each has it

    const refusal = yield* Effect.flip(intake.receive(posted(JSON.stringify(rest))))

    assert.deepInclude(refusal, { _tag: "IntakeRefused", reason: "wrong_account" })
  })
)

it.effect("PostmarkNotificationIntake tells apart what differs in one thing only", () =>
  Effect.gen(function* () {
    const delivery = cases.find(({ title }) => title === "a delivery")!.payload as object // each is
    const complaint = cases.find(({ title }) => title === "a complaint")!.payload as object
    const change = cases.find(({ title }) => title === "a suppression for a complaint")!.payload as object
    const payloads = [
      delivery,
      { ...delivery, MessageID: "883953f4-6105-42a2-a16a-000000000099" },
      { ...delivery, Recipient: "ada@example.org" },
      { ...delivery, DeliveredAt: "2026-12-01T09:30:06Z" },
      { ...delivery, Metadata: { another: "submission" } },
      complaint,
      { ...complaint, ID: 43 },
      { ...complaint, RecordType: "Bounce" },
      { ...complaint, BouncedAt: "2026-12-01T09:30:06Z" },
      change,
      { ...change, ChangedAt: "2026-12-01T09:30:06Z" }
    ]

    const told = yield* Effect.forEach(payloads, (payload) => intake.receive(posted(JSON.stringify(payload))))

    assert.strictEqual(new Set(told.map(({ id }) => id)).size, payloads.length)
  })
)

it.effect("PostmarkNotificationIntake passes over a member of another type: Postmark does not send again what is refused", () =>
  Effect.gen(function* () {
    for (const { title, payload, kind } of cases) {
      for (const member of Object.keys(payload as object).filter((member) => !["RecordType", "ServerID"].includes(member))) {
        for (const strange of [7, ["a list"], { an: "object" }, true]) {
          const changed = JSON.stringify({ ...(payload as object), [member]: strange }) // each is an object

          const told = yield* intake.receive(posted(changed))

          assert.strictEqual(told.kind, kind, title)
        }
      }
    }
    const bounce = cases.find(({ title }) => title === "a hard bounce")!
    const changed = { ...(bounce.payload as object), ID: "692560173", Details: { text: "smtp;550" }, Description: null }
    const { notifications } = yield* intake.receive(posted(JSON.stringify(changed)))
    assert.deepInclude(notifications[0]?.outcome, { _tag: "Bounced", class: "permanent", diagnostic: "HardBounce" })
  })
)

it.effect("PostmarkNotificationIntake passes on as much of a text as events can hold", () =>
  Effect.gen(function* () {
    const bounce = cases.find(({ title }) => title === "a hard bounce")!.payload as object // each is

    const { notifications } = yield* intake.receive(posted(JSON.stringify({ ...bounce, Details: "d".repeat(50_000) })))

    const [{ outcome }] = notifications as [Notification]
    assert.strictEqual(outcome._tag === "Bounced" ? outcome.diagnostic?.length : null, replyTextMax)
  })
)
