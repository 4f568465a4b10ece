/** What authors get wrong about webhooks: each flaw is put into a transport that is right, and a law names it. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { gunzipSync } from "node:zlib"
import * as UndiciWebhookTransport from "../adapters/undici/UndiciWebhookTransport.ts"
import { WebhookTransport, WebhookUnanswered, type WebhookRequest } from "../core/ports/WebhookTransport.ts"
import { conforms, prove } from "./Proof.ts"
import { withReceivers, withWire, type Certificates } from "./WebhookSockets.ts"
import { suite } from "./WebhookTransport.ts"
import { suite as wireSuite } from "./WebhookTransportWire.ts"

type Transport = WebhookTransport["Service"]
type Flawed = Parameters<typeof withReceivers>[0]

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

const stale = "says that a connection was stale which it had used before, and which ended before a byte of an answer; of no other"

/** Of those over sockets. */
const flawsOnTheWire: ReadonlyArray<readonly [flaw: string, law: string, make: (transport: Transport) => Transport]> = [
  [
    "that nobody says what was stale",
    stale,
    ({ get, post }) => ({ get, post: (request) => Effect.mapError(post(request), ({ reason, cause }) => new WebhookUnanswered({ reason, cause })) })
  ],
  [
    "that all that ended is called stale",
    stale,
    ({ get, post }) => ({ get, post: (request) => Effect.mapError(post(request), ({ reason, cause }) => new WebhookUnanswered({ reason, cause, isStale: true })) })
  ]
]

describe("the suite of WebhookTransport", () => {
  const both = [
    [flaws, (flawed: Flawed) => conforms("flawed", suite, withReceivers(flawed))],
    [flawsOnTheWire, (flawed: Flawed) => conforms("flawed", wireSuite, withWire(flawed, {} as Certificates))] // no law of these has one
  ] as const
  for (const [flaws, held] of both) {
    for (const [flaw, law, make] of flaws) {
      it.live(`refuses ${flaw}`, () =>
        Effect.gen(function* () {
          const flawed = Layer.effect(WebhookTransport, Effect.map(WebhookTransport, make)).pipe(Layer.provide(UndiciWebhookTransport.layer))

          const { checks } = yield* prove([held(flawed)], { filter: [law], timeout: "3 seconds", onResult: () => Effect.void })

          assert.deepStrictEqual(checks.map(({ title, outcome }) => [title, outcome]), [[law, "failed"]])
        }))
    }
  }
})
