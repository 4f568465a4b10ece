/** What authors get wrong about webhooks: each flaw is put into a transport that is right, and a law names it. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { gunzipSync } from "node:zlib"
import * as UndiciWebhookTransport from "../adapters/undici/UndiciWebhookTransport.ts"
import { WebhookTransport, WebhookUnanswered, type WebhookRequest } from "../core/ports/WebhookTransport.ts"
import { conforms, prove } from "./Proof.ts"
import { withReceivers } from "./WebhookSockets.ts"
import { suite } from "./WebhookTransport.ts"

type Transport = WebhookTransport["Service"]

/** What is answered is unpacked where that is possible. */
const unpacked = (answer: Effect.Success<ReturnType<Transport["post"]>>) => {
  try {
    return { ...answer, body: Uint8Array.from(gunzipSync(answer.body)) }
  } catch {
    return answer
  }
}

const inTime = Effect.timeoutOrElse({
  duration: "10 seconds",
  orElse: () => Effect.fail(new WebhookUnanswered({ reason: "network_error" }))
})

const flaws: ReadonlyArray<readonly [flaw: string, law: string, make: (transport: Transport) => Transport]> = [
  [
    "headers that are written into the caller's",
    "posts the body's bytes and the headers as they are, and adds where to and how long",
    ({ get, post }) => ({ get, post: (request: WebhookRequest) => post({ ...request, headers: Object.assign(request.headers, { "x-sent-by": "us" }) }) })
  ],
  [
    "answers that are unpacked",
    "decompresses nothing, and keeps no cookie",
    ({ get, post }) => ({ get, post: (request) => Effect.map(post(request), unpacked) })
  ],
  [
    "a get that is tried again",
    "sends once, and says so if no answer comes",
    ({ get, post }) => ({ post, get: (request) => Effect.retry(get(request), { times: 1 }) })
  ],
  [
    "a get that nobody can interrupt",
    "lets a receiver go when it is interrupted, and reaches it again",
    ({ get, post }) => ({ post, get: (request) => Effect.promise(() => Effect.runPromise(Effect.result(get(request)))).pipe(Effect.flatMap(Effect.fromResult)) })
  ],
  ["a deadline", "waits for as long as its caller does", ({ get, post }) => ({ get, post: (request) => inTime(post(request)) })]
]

describe("the suite of WebhookTransport", () => {
  for (const [flaw, law, make] of flaws) {
    it.live(`refuses ${flaw}`, () =>
      Effect.gen(function* () {
        const flawed = Layer.effect(WebhookTransport, Effect.map(WebhookTransport, make)).pipe(Layer.provide(UndiciWebhookTransport.layer))

        const { checks } = yield* prove([conforms("flawed", suite, withReceivers(flawed))], { filter: [law], timeout: "3 seconds", onResult: () => Effect.void })

        assert.deepStrictEqual(checks.map(({ title, outcome }) => [title, outcome]), [[law, "failed"]])
      }))
  }
})
