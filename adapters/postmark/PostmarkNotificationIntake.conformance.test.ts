import { assert, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { suite, type Case } from "../../conformance/NotificationIntake.ts"
import { conforms } from "../../conformance/vitest.ts"
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
