/**
 * What every WebhookTransport does, whatever it runs on: what it sends, what it
 * hands back, and where it does not go. `WebhookTransportWire` holds adapters
 * with sockets to the rest.
 */
import assert from "node:assert/strict"
import { Context, Effect, Fiber, Result, type Scope } from "effect"
import { TestClock } from "effect/testing"
import { webhookAnswerBytesMax } from "../core/model/Limits.ts"
import * as WebhookUrl from "../core/model/WebhookUrl.ts"
import type { TargetPolicy } from "../core/model/WebhookUrl.ts"
import { WebhookTransport, type WebhookRequest } from "../core/ports/WebhookTransport.ts"
import type { Suite } from "./Suite.ts"

/** A request as its receiver gets it. Header names are in lower case. */
export interface Arrived {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
}

/** What a receiver does about a request. */
export type Behaviour =
  | { readonly _tag: "Answers"; readonly status: number; readonly headers?: Readonly<Record<string, string>>; readonly body?: Uint8Array }
  /** It says nothing, and stays. */
  | { readonly _tag: "Hangs" }
  /** It says nothing, and goes. */
  | { readonly _tag: "Leaves" }

export interface Receiver {
  /** A fresh name, which leads to `address`, and a path with a query. */
  readonly url: string
  readonly host: string
  readonly arrived: Effect.Effect<ReadonlyArray<Arrived>>
  /** Requests that hang, and whose sender is still there. */
  readonly waiting: Effect.Effect<number>
  /** The addresses at which it was connected to, each time. */
  readonly reached: Effect.Effect<ReadonlyArray<string>>
}

/**
 * Receivers, and the names that lead to them: the layer that is held to the suite provides it beside the transport, and
 * the transport looks names up where `lead` has put them. `mailroom/conformance/webhook-sockets` has one for transports
 * that take a `Resolver`.
 */
export class Receivers extends Context.Service<
  Receivers,
  {
    /** Allows http, and `address`. */
    readonly policy: TargetPolicy
    /** Where receivers listen. */
    readonly address: string
    /** Where they listen as well, and which is not allowed. */
    readonly forbidden: string
    readonly open: (behave: (arrived: Arrived) => Behaviour) => Effect.Effect<Receiver, never, Scope.Scope>
    /** Where a name leads: the first look-up has the first answer, and so on; the last stays. Nowhere is no answer. */
    readonly lead: (host: string, ...answers: ReadonlyArray<ReadonlyArray<string>>) => Effect.Effect<void>
  }
>()("mailroom/conformance/Receivers") {}

export const ok: Behaviour = { _tag: "Answers", status: 200 }
const echo = ({ body }: Arrived): Behaviour => ({ _tag: "Answers", status: 200, body })
/** The word "gzip". */
const gzipped = Uint8Array.from(atob("H4sIAAAAAAACA0uvyiwAAPJc6ToEAAAA"), (letter) => letter.charCodeAt(0))
const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)

/** The target of a URL that is one. */
export const targetOf = (url: string, policy: TargetPolicy) => Effect.orDie(Effect.fromResult(WebhookUrl.parse(url, policy)))

/** A post of a few bytes, unless said otherwise. */
const postTo = Effect.fnUntraced(function* ({ url }: Receiver, over: Partial<WebhookRequest> = {}) {
  const { policy } = yield* Receivers
  const { post } = yield* WebhookTransport
  const target = yield* targetOf(url, policy)
  const { headers = { "content-type": "application/json" } } = over
  return yield* post({ target, body: bytesOf("{}"), ...over, headers: Object.freeze(headers) }) // they are the caller's
})

const getFrom = Effect.fnUntraced(function* ({ url }: Receiver) {
  const { policy } = yield* Receivers
  const { get } = yield* WebhookTransport
  return yield* get({ target: yield* targetOf(url, policy), headers: Object.freeze({ accept: "*/*" }) })
})

const ways: ReadonlyArray<(receiver: Receiver) => ReturnType<typeof getFrom>> = [(receiver) => postTo(receiver), getFrom]

const open = (behave: (arrived: Arrived) => Behaviour = () => ok) => Receivers.use((receivers) => receivers.open(behave))

const assertFails = Effect.fnUntraced(function* (receiver: Receiver, reason: "unsafe_url" | "network_error", over: Partial<WebhookRequest> = {}) {
  const error = yield* Effect.flip(postTo(receiver, over))
  assert.equal(error._tag, "WebhookUnanswered")
  assert.equal(error.reason, reason)
})

/** In real time: sockets have no other. */
export const until = <A, E, R>(look: Effect.Effect<A, E, R>, holds: (value: A) => boolean): Effect.Effect<A, E, R> =>
  look.pipe(
    Effect.tap(() => Effect.yieldNow),
    Effect.repeat({ until: holds })
  )

const isZero = (count: number) => count === 0

const checks: Suite<WebhookTransport | Receivers>["checks"] = [
  {
    title: "posts the body's bytes and the headers as they are, and adds where to and how long",
    check: Effect.gen(function* () {
      const receiver = yield* open()
      const { pathname, search, host } = new URL(receiver.url)
      const headers = {
        "content-type": "application/json",
        "user-agent": "Service-Webhooks/1.0",
        "service-webhook-id": "019a0000-0000-7000-8000-000000000001",
        "service-webhook-signature": `v1=${"0f".repeat(32)}`
      }
      const bodies = [bytesOf("{\"a\":\"\u{1f4ee}\r\n\"}"), new Uint8Array(), Uint8Array.from({ length: 256 }, (_, byte) => byte), new Uint8Array(200_000).fill(97)]

      for (const body of bodies) yield* postTo(receiver, { headers, body })

      const arrived = yield* receiver.arrived
      assert.equal(arrived.length, bodies.length)
      for (const [index, { method, path, headers: found, body }] of arrived.entries()) {
        const { connection: _, ...rest } = found
        assert.equal(method, "POST")
        assert.equal(path, pathname + search)
        assert.deepEqual(rest, { ...headers, host, "content-length": String(bodies[index]?.length) })
        assert.deepEqual(new Uint8Array(body), bodies[index])
      }
    })
  },
  {
    title: "gets what is there, without a body, and connects to nothing that is not allowed",
    check: Effect.gen(function* () {
      const { forbidden, lead, policy } = yield* Receivers
      const { get } = yield* WebhookTransport
      const whole = Uint8Array.from({ length: webhookAnswerBytesMax + 1 }, (_, index) => index % 251)
      const receiver = yield* open(() => ({ _tag: "Answers", status: 200, body: whole }))
      const { pathname, search, host } = new URL(receiver.url)
      const target = yield* targetOf(receiver.url, policy)

      const { body, status, truncated } = yield* get({ target, headers: { accept: "*/*" } })
      yield* lead(receiver.host, [forbidden])
      const unsafe = yield* Effect.flip(get({ target, headers: {} }))

      assert.deepEqual([status, truncated, new Uint8Array(body)], [200, true, whole.slice(0, webhookAnswerBytesMax)])
      assert.equal(unsafe.reason, "unsafe_url")
      const [arrived, ...more] = yield* receiver.arrived
      assert.deepEqual([arrived?.method, arrived?.path, arrived?.body.length, more.length], ["GET", pathname + search, 0, 0])
      const { connection: _, ...headers } = arrived?.headers ?? {}
      assert.deepEqual(headers, { accept: "*/*", host })
    })
  },
  {
    title: "sends a view of larger bytes, and nothing around it",
    check: Effect.gen(function* () {
      const receiver = yield* open(echo)
      const around = bytesOf("secret{\"a\":1}secret")

      const { body } = yield* postTo(receiver, { body: around.subarray(6, 13) })

      assert.deepEqual(new Uint8Array(body), bytesOf("{\"a\":1}"))
    })
  },
  {
    title: "hands back what was answered, whatever it is",
    check: Effect.gen(function* () {
      const statuses = [200, 201, 202, 299, 300, 304, 400, 401, 404, 410, 413, 429, 500, 503, 599]
      for (const status of statuses) {
        const body = status === 304 ? new Uint8Array() : bytesOf(`status ${status} \u{1f4ee}`)
        const answer = yield* postTo(yield* open(() => ({ _tag: "Answers", status, body })))

        assert.deepEqual({ ...answer, body: new Uint8Array(answer.body) }, { status, retryAfter: null, body, truncated: false })
      }
    })
  },
  {
    title: "hands back Retry-After as it came",
    check: Effect.gen(function* () {
      for (const retryAfter of ["120", "Fri, 31 Dec 1999 23:59:59 GMT", "soon, if you like"]) {
        const answer = yield* postTo(yield* open(() => ({ _tag: "Answers", status: 503, headers: { "retry-after": retryAfter } })))

        assert.equal(answer.retryAfter, retryAfter)
      }
    })
  },
  {
    title: "follows no redirect",
    check: Effect.gen(function* () {
      const elsewhere = yield* open()
      for (const status of [301, 302, 303, 307, 308]) {
        const receiver = yield* open(() => ({ _tag: "Answers", status, headers: { location: elsewhere.url } }))

        for (const ask of ways) assert.equal((yield* ask(receiver)).status, status)
      }
      assert.deepEqual(yield* elsewhere.reached, [])
    })
  },
  {
    title: `reads ${webhookAnswerBytesMax} bytes of an answer, and says whether there were more`,
    check: Effect.gen(function* () {
      for (const length of [0, 1, webhookAnswerBytesMax - 1, webhookAnswerBytesMax, webhookAnswerBytesMax + 1, 5_000_000]) {
        const whole = Uint8Array.from({ length }, (_, index) => index % 251)
        const { body, truncated } = yield* postTo(yield* open(() => ({ _tag: "Answers", status: 200, body: whole })))

        assert.deepEqual(new Uint8Array(body), whole.slice(0, webhookAnswerBytesMax))
        assert.equal(truncated, length > webhookAnswerBytesMax)
      }
    })
  },
  {
    title: "decompresses nothing, and keeps no cookie",
    check: Effect.gen(function* () {
      const headers = { "content-encoding": "gzip", "set-cookie": "session=1; Path=/" }
      for (const body of [bytesOf("not gzip"), gzipped]) {
        const receiver = yield* open(() => ({ _tag: "Answers", status: 200, headers, body }))

        for (const ask of ways) assert.deepEqual(new Uint8Array((yield* ask(receiver)).body), body)

        assert.deepEqual((yield* receiver.arrived).map((arrived) => arrived.headers["cookie"]), [undefined, undefined])
      }
    })
  },
  {
    title: "sends once, and says so if no answer comes",
    check: Effect.gen(function* () {
      const { address, lead } = yield* Receivers
      const receiver = yield* open(() => ({ _tag: "Leaves" }))
      yield* assertFails(receiver, "network_error")
      assert.equal((yield* receiver.arrived).length, 1)

      // Who has got the request is not passed over for the next address.
      yield* lead(receiver.host, [address, address])
      for (const ask of ways) assert.equal((yield* Effect.flip(ask(receiver))).reason, "network_error")
      assert.equal((yield* receiver.arrived).length, 3)
    })
  },
  {
    title: "cannot reach a name that leads nowhere",
    check: Effect.gen(function* () {
      const receiver = yield* open()
      yield* Receivers.use(({ lead }) => lead(receiver.host, []))

      yield* assertFails(receiver, "network_error")

      assert.deepEqual(yield* receiver.reached, [])
    })
  },
  {
    title: "connects to nothing if any address of the name is not allowed",
    check: Effect.gen(function* () {
      const { address, forbidden, lead } = yield* Receivers
      const receiver = yield* open()
      const unsafe = [[forbidden], [address, forbidden], [forbidden, address], [address, address, forbidden], [address, "10.0.0.1"], ["::1"], [`::ffff:${forbidden}`], ["what?"]]
      for (const addresses of unsafe) {
        yield* lead(receiver.host, addresses)
        yield* assertFails(receiver, "unsafe_url")
      }
      assert.deepEqual(yield* receiver.reached, [])
    })
  },
  {
    title: "allows what the target's policy allows, of names and of addresses",
    check: Effect.gen(function* () {
      const { address, policy } = yield* Receivers
      const receiver = yield* open()
      const { port } = new URL(receiver.url)
      for (const url of [receiver.url, receiver.url.replace(new URL(receiver.url).host, `${address}:${port}`)]) {
        const target = yield* targetOf(url, policy)
        yield* assertFails(receiver, "unsafe_url", { target: { ...target, policy: WebhookUrl.publicOnly } })
        yield* assertFails(receiver, "unsafe_url", { target: { ...target, policy: { ...policy, allowedBlocks: ["10.0.0.0/8", "::/0"] } } })
      }
      assert.deepEqual(yield* receiver.reached, [])
    })
  },
  {
    title: "goes where it has looked, though the name leads elsewhere the next moment, 50 times",
    check: Effect.gen(function* () {
      const { address, forbidden, lead } = yield* Receivers
      const receiver = yield* open()
      yield* lead(receiver.host, ...Array.from({ length: 100 }, (_, index) => [index % 2 === 0 ? address : forbidden]))

      for (let round = 0; round < 50; round++) {
        assert.equal((yield* postTo(receiver)).status, 200)
        yield* assertFails(receiver, "unsafe_url")
      }

      assert.equal((yield* receiver.arrived).length, 50)
      assert.deepEqual([...new Set(yield* receiver.reached)], [address])
    })
  },
  {
    title: "lets a receiver go when it is interrupted, and reaches it again",
    check: Effect.gen(function* () {
      for (const ask of ways) {
        let behaviour: Behaviour = { _tag: "Hangs" }
        const receiver = yield* open(() => behaviour)
        const asking = yield* Effect.forEach(Array.from({ length: 10 }), () => Effect.forkScoped(ask(receiver)))
        yield* until(receiver.waiting, (count) => count === 10)

        yield* Fiber.interruptAll(asking)

        yield* until(receiver.waiting, isZero)
        behaviour = ok
        assert.equal((yield* ask(receiver)).status, 200)
      }
    })
  },
  {
    title: "waits for as long as its caller does",
    check: Effect.gen(function* () {
      const receiver = yield* open(() => ({ _tag: "Hangs" }))
      const asking = yield* Effect.forEach(ways, (ask) => Effect.forkScoped(ask(receiver)))
      yield* until(receiver.waiting, (count) => count === ways.length)

      yield* TestClock.adjust("1 hour")

      assert.deepEqual(asking.map((one) => one.pollUnsafe()), asking.map(() => undefined), "it keeps a deadline of its own")
      yield* Fiber.interruptAll(asking)
    })
  },
  {
    title: "reaches a receiver while another hangs on to all it gets",
    check: Effect.gen(function* () {
      const hanging = yield* open(() => ({ _tag: "Hangs" }))
      const receiver = yield* open()
      const posts = yield* Effect.forEach(Array.from({ length: 300 }), () => Effect.forkScoped(postTo(hanging)))
      yield* until(hanging.waiting, (count) => count >= 10)

      const answers = yield* Effect.forEach(Array.from({ length: 20 }), () => postTo(receiver), { concurrency: "unbounded" })

      assert.deepEqual(answers.map(({ status }) => status), Array<number>(20).fill(200))
      yield* Fiber.interruptAll(posts)
      yield* until(hanging.waiting, isZero)
    })
  },
  {
    title: "gives each of many requests at a time its own answer",
    check: Effect.gen(function* () {
      const receivers = [yield* open(echo), yield* open(echo), yield* open(echo)]
      const numbers = Array.from({ length: 300 }, (_, index) => index)

      const answers = yield* Effect.forEach(
        numbers,
        (number) => Effect.result(postTo(receivers[number % 3]!, { body: bytesOf(String(number)) })), // one of three
        { concurrency: "unbounded" }
      )

      const texts = answers.map((answer) => (Result.isSuccess(answer) ? new TextDecoder().decode(answer.success.body) : answer.failure.message))
      assert.deepEqual(texts, numbers.map(String))
    })
  }
]

export const suite: Suite<WebhookTransport | Receivers> = { name: "WebhookTransport", checks }
