/**
 * What the checks of a run have in common: a mailbox that can send, a few
 * messages, one to each outcome, a file, a webhook endpoint. Each is made when
 * a check first asks for it, in a sandbox only, and once.
 */
import { Context, DateTime, Effect, Schema } from "effect"
import { NotApplicable } from "../Suite.ts"
import { Deployment, type Exhausted, type NoAnswer, type ReceivedRequest, type Reply } from "./Deployment.ts"
import { Broken, eventually, fits, status } from "./Law.ts"
import * as Shapes from "./Shapes.ts"

export type Unmade = Broken | NotApplicable | NoAnswer | Exhausted

export type Input = Readonly<Record<string, unknown>>

/** An accepted message. */
export interface Sent {
  readonly id: string
  /** X-Request-Id of the answer. */
  readonly requestId: string | undefined
  readonly input: Input
}

export interface Hook {
  readonly endpoint: typeof Shapes.WebhookEndpoint.Type
  readonly secret: string
  /** At the receiver. */
  readonly path: string
  /** The answer to its creation. */
  readonly reply: Reply
  readonly challenges: ReadonlyArray<ReceivedRequest>
}

/** Recipients of the sandbox, by local part. */
export const outcomes = [
  "delivered",
  "bounced",
  "bounced-soft",
  "failed",
  "delayed",
  "late-bounce",
  "duplicate"
] as const
export type Outcome = (typeof outcomes)[number]

export interface Shape {
  /** In whatever this run sends. */
  readonly mark: string
  /** A mailbox that sends. */
  readonly mailbox: Effect.Effect<typeof Shapes.Mailbox.Type, Unmade>
  /** Five messages, in the order in which they were accepted. */
  readonly messages: Effect.Effect<ReadonlyArray<Sent>, Unmade>
  /** A moment just before the first of them, by the deployment's clock. */
  readonly since: Effect.Effect<string, Unmade>
  /** One message to each outcome. */
  readonly outcomes: Effect.Effect<Readonly<Record<Outcome, Sent>>, Unmade>
  /** A file whose scan has ended well. */
  readonly file: Effect.Effect<
    { readonly attachment: typeof Shapes.Attachment.Type; readonly contentBase64: string },
    Unmade
  >
  /** An endpoint for `message.updated`, whose receiver answers 204. */
  readonly hook: Effect.Effect<Hook, Unmade>
  /** The published document, parsed, and the answer it came in. */
  readonly document: Effect.Effect<{ readonly reply: Reply; readonly document: unknown }, Unmade>
  /** Sends, with a fresh Idempotency-Key unless one is given. */
  readonly send: (input: Input, idempotencyKey?: string) => Effect.Effect<Reply, NoAnswer | Exhausted>
  /** A valid send from nobody's mailbox: whatever is wrong with the input is told before that. Leaves nothing. */
  readonly sendFromNobody: (change: Input, idempotencyKey?: string) => Effect.Effect<Reply, NoAnswer | Exhausted>
}

export class Traffic extends Context.Service<Traffic, Shape>()("mailroom/conformance/http/Traffic") {}

export const freshId = (): string => globalThis.crypto.randomUUID()

/** A local part of the sandbox at a domain that is nobody's. */
export const recipient = (outcome: string, tag: string): string => `${outcome}+${tag}@mail.example`

const sent = (reply: Reply, input: Input) =>
  Effect.andThen(
    status(reply, 202),
    Effect.map(
      fits(reply, reply.json, Accepted),
      ({ id }): Sent => ({ id, requestId: reply.headers["x-request-id"], input })
    )
  )

/** Whatever else is wrong with such an answer is for a check of its own. */
const Accepted = Schema.StructWithRest(Schema.Struct({ id: Schema.String }), [
  Schema.Record(Schema.String, Schema.Unknown)
])
const MailboxIds = Schema.StructWithRest(
  Schema.Struct({
    items: Schema.Array(Schema.StructWithRest(Shapes.Mailbox, [Schema.Record(Schema.String, Schema.Unknown)]))
  }),
  [
    Schema.Record(Schema.String, Schema.Unknown)
  ]
)

export const make: Effect.Effect<Shape, never, Deployment> = Effect.gen(function* () {
  const deployment = yield* Deployment
  const { call, environment, target } = deployment
  const mark = freshId().slice(0, 8)
  let keys = 0

  const send: Shape["send"] = (input, idempotencyKey = `conformance-${mark}-${++keys}`) =>
    call({ method: "POST", path: "/v1/messages", headers: { "idempotency-key": idempotencyKey }, json: input })

  const plain = (change: Input): Input => ({
    to: [recipient("delivered", mark)],
    subject: `Conformance ${mark}`,
    text: "The engine weaves",
    ...change
  })

  const sandboxOnly = environment === "sandbox" ?
    Effect.void :
    Effect.fail(new NotApplicable({ reason: "a production key would send real mail, or leave something" }))

  const sender = yield* Effect.cached(
    Effect.gen(function* () {
      yield* sandboxOnly
      const listed = yield* call({ method: "GET", path: "/v1/mailboxes" })
      yield* status(listed, 200)
      const { items } = yield* fits(listed, listed.json, MailboxIds)
      for (const mailbox of items.slice(0, 5)) {
        const input = plain({ fromMailboxId: mailbox.id, subject: `Conformance ${mark} 0` })
        const reply = yield* send(input)
        if (reply.status === 409) continue
        return { mailbox, first: yield* sent(reply, input) }
      }
      return yield* new NotApplicable({
        reason: items.length === 0 ? "the key's tenant has no mailbox" : "no mailbox of the key's tenant can send"
      })
    })
  )
  const mailbox = Effect.map(sender, (made) => made.mailbox)
  const sendFrom = Effect.fnUntraced(function* (change: Input) {
    const input = plain({ fromMailboxId: (yield* mailbox).id, ...change })
    return yield* sent(yield* send(input), input)
  })

  const messages = yield* Effect.cached(
    Effect.gen(function* () {
      const { first } = yield* sender
      const rest = yield* Effect.forEach([1, 2, 3, 4], (count) => sendFrom({ subject: `Conformance ${mark} ${count}` }))
      return [first, ...rest]
    })
  )

  const since = yield* Effect.cached(
    Effect.gen(function* () {
      const { first } = yield* sender
      const reply = yield* call({ method: "GET", path: `/v1/messages/${first.id}` })
      yield* status(reply, 200)
      const shown = Schema.Struct({ message: Schema.Struct({ createdAt: Shapes.Time }) })
      const { message } = yield* Schema.decodeUnknownEffect(shown)(reply.json).pipe(
        Effect.mapError(() => new Broken({ message: "a message has no createdAt", exchange: reply.exchange }))
      )
      return DateTime.formatIso(DateTime.subtract(DateTime.makeUnsafe(message.createdAt), { seconds: 2 }))
    })
  )

  const toOutcomes = yield* Effect.cached(
    Effect.map(
      Effect.forEach(
        outcomes,
        (outcome) =>
          Effect.map(
            sendFrom({ to: [recipient(outcome, mark)], subject: `Conformance ${mark} ${outcome}` }),
            (one) => [outcome, one] as const
          )
      ),
      (made) => Object.fromEntries(made) as Record<Outcome, Sent> // one for each
    )
  )

  const file = yield* Effect.cached(
    Effect.gen(function* () {
      const { id: mailboxId } = yield* mailbox
      const contentBase64 = btoa(`conformance ${mark}`)
      const uploaded = yield* call({
        method: "POST",
        path: "/v1/attachments",
        json: { mailboxId, filename: `conformance-${mark}.txt`, mediaType: "text/plain", contentBase64 }
      })
      yield* status(uploaded, 201)
      const { attachment } = yield* fits(uploaded, uploaded.json, Shapes.Uploaded)
      yield* scanned(attachment.id)
      return { attachment, contentBase64 }
    }).pipe(Effect.provideService(Deployment, deployment))
  )

  const hook = yield* Effect.cached(
    Effect.gen(function* () {
      yield* sandboxOnly
      const { receiver } = target
      if (receiver === null) {
        return yield* new NotApplicable({
          reason: "there is no receiver that the deployment can reach; name one with --receiver-url"
        })
      }
      const path = `/conformance/${mark}`
      receiver.answer(path, welcome)
      const url = receiver.urlOf(path)
      // A type twice: it is subscribed once.
      const eventTypes = ["message.updated", "message.updated"]
      const reply = yield* call({
        method: "POST",
        path: "/v1/webhook-endpoints",
        json: { url, description: `Conformance ${mark}`, eventTypes }
      })
      if (reply.status === 400 && !receiver.isGiven) {
        return yield* new NotApplicable({
          reason: `the deployment does not call ${url}; name a receiver that it can reach with --receiver-url`
        })
      }
      yield* status(reply, 201)
      const created = yield* fits(reply, reply.json, Shapes.CreatedEndpoint)
      deployment.leave(
        `webhook endpoint ${created.endpoint.id} to ${url}: its receiver is gone, and ten failed attempts disable it`
      )
      return { ...created, path, reply, challenges: receiver.received(path) }
    })
  )

  const document = yield* Effect.cached(
    Effect.gen(function* () {
      const reply = yield* call({ method: "GET", path: "/openapi.yaml", as: null, headers: { accept: "*/*" } })
      yield* status(reply, 200)
      // A document in JSON is one in YAML; another takes a parser, which a suite does not bring.
      if (target.parseYaml === null && reply.json === undefined) {
        return yield* new NotApplicable({ reason: "nothing here reads YAML" })
      }
      const document = yield* Effect.try({
        try: () => reply.json ?? target.parseYaml?.(reply.text),
        catch: (error) =>
          new Broken({ message: `the document cannot be read: ${String(error)}`, exchange: reply.exchange })
      })
      return { reply, document }
    })
  )

  return {
    mark,
    mailbox,
    messages,
    since,
    outcomes: toOutcomes,
    file,
    hook,
    document,
    send,
    sendFromNobody: (change, idempotencyKey) => send(plain({ fromMailboxId: freshId(), ...change }), idempotencyKey)
  }
})

/** The answer to a verification request, and 204 to a delivery. */
export const welcome = (body: string) => {
  const challenge = challengeIn(body)
  return challenge === null ?
    { status: 204 } :
    { status: 200, headers: { "content-type": "application/json" }, body: JSON.stringify({ challenge }) }
}

/** The challenge of a verification request; null for any other. */
export const challengeIn = (body: string): string | null => {
  const verification = Schema.Struct({
    type: Schema.Literal("webhook.endpoint_verification"),
    data: Schema.Struct({ challenge: Schema.String })
  })
  const decoded = Schema.decodeUnknownOption(Schema.fromJsonString(verification))(body)
  return decoded._tag === "Some" ? decoded.value.data.challenge : null
}

/** Waits until a scan has ended, and gives the answer to the download. */
export const scanned = (id: string) =>
  Effect.gen(function* () {
    const { call } = yield* Deployment
    return yield* eventually(
      `the scan of attachment ${id} ends`,
      "60 seconds",
      Effect.map(
        call({ method: "GET", path: `/v1/attachments/${id}/download` }),
        (reply) => (isPending(reply) ? undefined : reply)
      )
    )
  })

const pending = Schema.Struct({
  code: Schema.Literal("attachment_not_clean"),
  details: Schema.Struct({ scanState: Schema.Literal("pending") })
})

const isPending = ({ status, json }: Reply): boolean => status === 409 && Schema.is(pending)(json)
