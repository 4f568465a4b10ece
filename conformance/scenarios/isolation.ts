/** The walls between tenants, environments and applications: what is not yours is absent, and your data goes nowhere else. */
import { Effect, Redacted, References, Stream } from "effect"
import * as assert from "node:assert/strict"
import { domainOf } from "../../core/model/Address.ts"
import { system } from "../../core/model/Audit.ts"
import type { AttachmentId, DeliveryId, EndpointId, MailboxId, MessageId } from "../../core/model/Ids.ts"
import { WebhookUnanswered } from "../../core/ports/WebhookTransport.ts"
import { address, freshId } from "../fixtures.ts"
import { arrive, plain } from "./Arrivals.ts"
import { deliveriesTo, deliveryTo, endpointOf, happen, hook, postsTo, replay, respond, type Hook } from "./Receivers.ts"
import { answered, letter, loggedTo, logOf, messageOf, pass, scenario, send, settle, someKey, typesOf, upload, type Process, type ScenarioSuite, type Tenancy, type World } from "./World.ts"

interface Owned {
  readonly of: Tenancy
  readonly canary: string
  readonly messageId: MessageId
  readonly attachmentId: AttachmentId
  readonly to: Hook
}

/** A tenant's data, all of it marked with a canary. */
const own = (process: Process, of: Tenancy) =>
  Effect.gen(function* () {
    const canary = `canary-${freshId().replaceAll("-", "")}`
    const to = yield* hook(process, of, { url: `https://${canary}.example/`, description: canary, eventTypes: ["*"] })
    const attachment = yield* upload(process, of, `${canary}.txt`, canary)
    const sent = yield* process.messages.send(
      of.principal,
      someKey(),
      letter(of, address(canary), { subject: canary, text: canary, attachmentIds: [attachment.id] })
    )
    return { of, canary, to, messageId: sent.message.id, attachmentId: attachment.id } satisfies Owned
  })

/** Another mailbox at the domain of the first. */
const secondMailbox = (process: Process, { realm, mailbox }: Tenancy) =>
  process.management.createMailbox(system, {
    tenantId: realm.tenantId,
    address: address("second", domainOf(mailbox.address)),
    displayName: "Second"
  })

/** Everything a caller can see, as text. */
const view = (process: Process, { principal }: Tenancy) =>
  Effect.gen(function* () {
    const messages = yield* process.messages.list(principal, { limit: 100, cursor: null, mailboxId: null })
    const details = yield* Effect.forEach(messages.items, ({ id }) => process.messages.get(principal, id))
    const events = yield* process.events.list(principal, { limit: 100, cursor: null })
    const mailboxes = yield* process.mailboxes.list(principal)
    const domains = yield* process.mailboxes.listDomains(principal)
    const endpoints = yield* process.webhooks.listEndpoints(principal)
    const deliveries = yield* process.webhooks.listDeliveries(principal, { limit: 100, endpointId: null })
    return JSON.stringify({ messages, details, events, mailboxes, domains, endpoints, deliveries })
  })

/** Every operation that takes an id, on ids of one owner, as the caller sees it: what differs must be nothing. */
const probes = (
  process: Process,
  caller: Tenancy,
  ids: { readonly messageId: MessageId; readonly attachmentId: AttachmentId; readonly mailboxId: MailboxId }
): Readonly<Record<string, Effect.Effect<unknown, { readonly _tag: string }>>> => ({
    getMessage: process.messages.get(caller.principal, ids.messageId),
    updateMessage: process.messages.update(caller.principal, ids.messageId, { mailboxId: caller.mailbox.id, isStarred: true }),
    updateMessageMailbox: process.messages.update(caller.principal, ids.messageId, { mailboxId: ids.mailboxId, isStarred: true }),
    listMessagesMailbox: process.messages.list(caller.principal, { limit: 10, cursor: null, mailboxId: ids.mailboxId }),
    downloadAttachment: process.attachments.download(caller.principal, ids.attachmentId),
    sendAttachment: process.messages.send(
      caller.principal,
      someKey(),
      letter(caller, address("ada"), { attachmentIds: [ids.attachmentId] })
    ),
    sendMailbox: process.messages.send(caller.principal, someKey(), letter(caller, address("ada"), { fromMailboxId: ids.mailboxId })),
    uploadMailbox: process.attachments.upload(
      caller.principal,
      { mailboxId: ids.mailboxId, filename: "a.txt", mediaType: "text/plain" },
      Stream.make(new Uint8Array([1]))
    )
  })

const play = (world: World) =>
  Effect.gen(function* () {
    const process = yield* world.boot()
    const first = yield* world.found("production")
    const others = {
      "another tenant": yield* world.found("production"),
      "the sandbox of the same tenant": yield* world.foundApplication(first, "sandbox")
    }
    return { process, first, others }
  })

export const suite: ScenarioSuite = {
  name: "isolation",
  checks: [
    scenario("nobody sees another tenant's or environment's canary, in any list, detail or event", (world) =>
      Effect.gen(function* () {
        const { process, first, others } = yield* play(world)
        const owned = yield* Effect.forEach([first, ...Object.values(others)], (of) => own(process, of))
        yield* settle(process)
        yield* pass(process, "1 minute", "1 second")

        for (const { of, canary } of owned) {
          const seen = yield* view(process, of)
          assert.ok(seen.includes(canary), "one sees one's own")
          for (const other of owned) if (other.canary !== canary) assert.ok(!seen.includes(other.canary))
        }
        for (const { request, bytes } of world.stage.submissions) {
          const out = Buffer.from(bytes).toString("latin1")
          const mine = owned.filter(({ canary }) => out.includes(canary))
          assert.equal(mine.length, 1)
          assert.equal(mine[0]!.of.realm.tenantId, request.realm.tenantId)
          assert.equal(mine[0]!.of.realm.environment, "production", "sandbox mail never reaches the production provider")
        }
        for (const { to, canary } of owned) {
          const posts = postsTo(world, to)
          assert.ok(posts.some(({ text }) => text.includes(canary)), "a receiver hears of its own")
          for (const { text } of posts) for (const other of owned) if (other.canary !== canary) assert.ok(!text.includes(other.canary))
        }
      })
    ),

    scenario("an id of somebody else answers as a random id does, in every operation", (world) =>
      Effect.gen(function* () {
        const { process, first, others } = yield* play(world)
        const mine = yield* own(process, first)
        yield* settle(process)
        const random = () => ({ messageId: freshId<MessageId>(), attachmentId: freshId<AttachmentId>(), mailboxId: freshId<MailboxId>() })

        for (const [who, caller] of Object.entries(others)) {
          // Mailboxes are the tenant's, so its sandbox may use them: there only the other ids are foreign.
          const mailboxId = who === "another tenant" ? first.mailbox.id : freshId<MailboxId>()
          const foreign = probes(process, caller, { messageId: mine.messageId, attachmentId: mine.attachmentId, mailboxId })
          const absent = probes(process, caller, random())
          for (const [operation, probe] of Object.entries(foreign)) {
            const [left, right] = [yield* Effect.flip(probe), yield* Effect.flip(absent[operation]!)]
            assert.equal(left._tag, "NotFound", `${who}: ${operation}`)
            assert.deepEqual({ ...left }, { ...right }, `${who}: ${operation}`)
          }
        }
        const untouched = yield* process.messages.get(first.principal, mine.messageId)
        assert.equal(untouched.message.isStarred, false)
      })
    ),

    scenario("endpoints and deliveries are their application's: to every other, they are as if they were not", (world) =>
      Effect.gen(function* () {
        const { process, first, others } = yield* play(world)
        const to = yield* hook(process, first)
        const apart = { ...others, "another application of the same environment": yield* world.foundApplication(first, "production") }
        yield* happen(process, first)
        yield* settle(process)
        const delivery = yield* deliveryTo(world, to)

        for (const [who, { principal }] of Object.entries(apart)) {
          const list = (endpointId: EndpointId) => Effect.flip(process.webhooks.listDeliveries(principal, { limit: 10, endpointId }))
          const again = (id: DeliveryId) => Effect.flip(process.webhooks.replay(principal, id))
          const [foreignList, absentList] = [yield* list(to.endpoint.id), yield* list(freshId<EndpointId>())]
          const [foreignReplay, absentReplay] = [yield* again(delivery.id), yield* again(freshId<DeliveryId>())]
          assert.deepEqual({ ...foreignList }, { ...absentList }, who)
          assert.deepEqual({ ...foreignReplay }, { ...absentReplay }, who)
          assert.deepEqual([foreignList._tag, foreignList._tag === "NotFound" && foreignList.field], ["NotFound", "endpointId"], who)
          assert.deepEqual([foreignReplay._tag, foreignReplay._tag === "NotFound" && foreignReplay.field], ["NotFound", null], who)
          assert.deepEqual((yield* process.webhooks.listEndpoints(principal)).items, [], who)
          assert.deepEqual((yield* process.webhooks.listDeliveries(principal, { limit: 10, endpointId: null })).items, [], who)
        }
        assert.deepEqual(yield* deliveryTo(world, to), delivery)
      })
    ),

    scenario("no signing secret, challenge or answer of a receiver gets into a log, an event, the audit trail or what is shown or stored", (world) =>
      Effect.gen(function* () {
        const lines: Array<string> = []
        const process = yield* world.boot()
        const of = yield* world.found("sandbox")
        const said = `said-${freshId()}`
        yield* Effect.gen(function* () {
          const to = yield* hook(process, of, { eventTypes: ["*"] })
          respond(world, (_, nth) =>
            nth === 1
              ? Effect.fail(new WebhookUnanswered({ reason: "network_error", cause: new Error("reset") }))
              : Effect.succeed(answered(nth % 2 === 0 ? 500 : 200, said))
          )
          yield* Effect.flip(process.webhooks.createEndpoint(of.principal, { url: "http://x.example", description: null, eventTypes: ["*"] }))
          yield* happen(process, of)
          yield* pass(process, "20 minutes", "1 minute")
          const [delivered] = (yield* deliveriesTo(world, to)).filter(({ status }) => status === "delivered")
          yield* replay(process, of, delivered!)
          world.stage.receive = () => Effect.die(new Error("a bug"))
          yield* pass(process, "10 minutes", "1 minute")
          world.stage.receive = () => Effect.succeed(answered(200, said))
          yield* Effect.flip(hook(process, of))

          const shown = yield* view(process, of)
          const audited = JSON.stringify(yield* world.store.audit.page(of.realm.tenantId, 1_000))
          const stored = JSON.stringify([yield* endpointOf(world, to), yield* deliveriesTo(world, to)], (_, value: unknown) =>
            typeof value === "bigint" ? String(value) : value
          )
          const challenges = world.stage.posts.flatMap(({ json }) => (json.data.challenge === undefined ? [] : [json.data.challenge as string]))
          assert.ok(lines.some((line) => line.includes("a webhook receiver did not answer")) && challenges.length === 2)
          for (const secret of [Redacted.value(to.secret), Redacted.value(to.secret).slice("whsec_".length), "whsec_", said, ...challenges]) {
            for (const [where, text] of Object.entries({ logs: lines.join("\n"), shown, audited, stored })) {
              assert.ok(!text.includes(secret), `${where} hold ${secret.slice(0, 8)}…`)
            }
          }
        }).pipe(Effect.provideService(References.MinimumLogLevel, "All"), Effect.provide(loggedTo(lines)))
      })
    ),

    scenario("an attachment of another mailbox of the same tenant cannot be sent", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const tenancy = yield* world.found()
        const other = yield* secondMailbox(process, tenancy)
        const { attachmentId } = yield* own(process, tenancy)

        const error = yield* Effect.flip(
          process.messages.send(tenancy.principal, someKey(), {
            ...letter(tenancy, address("ada"), { attachmentIds: [attachmentId] }),
            fromMailboxId: other.id
          })
        )

        assert.deepEqual([error._tag, error._tag === "NotFound" && error.field], ["NotFound", "attachmentIds"])
      })
    ),

    scenario("a message is flagged through its own mailbox only", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const tenancy = yield* world.found()
        const other = yield* secondMailbox(process, tenancy)
        const { messageId } = yield* own(process, tenancy)

        const error = yield* Effect.flip(
          process.messages.update(tenancy.principal, messageId, { mailboxId: other.id, isStarred: true })
        )

        assert.deepEqual([error._tag, error._tag === "NotFound" && error.field], ["NotFound", "mailboxId"])
        const message = yield* messageOf(world, tenancy, messageId)
        assert.deepEqual([message.isStarred, message.version], [false, 1])
        assert.deepEqual(typesOf(yield* logOf(world, tenancy, messageId)), ["message.queued"])
      })
    ),

    scenario("applications of one environment share messages and events; mailbox events are seen from both environments", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const first = yield* world.found("production")
        const [sibling, sandbox] = [
          yield* world.foundApplication(first, "production"),
          yield* world.foundApplication(first, "sandbox")
        ]
        const { messageId, canary } = yield* own(process, first)

        assert.equal((yield* process.messages.get(sibling.principal, messageId)).message.id, messageId)
        assert.ok((yield* view(process, sibling)).includes(canary))
        const seen = yield* process.events.list(sandbox.principal, { limit: 100, cursor: null })
        assert.ok(seen.items.some(({ type }) => type === "mailbox.created"))
        assert.ok(seen.items.every(({ type }) => !type.startsWith("message.")))
      })
    ),

    scenario("an events cursor is good for its tenant and environment alone, in any process, and for nobody who altered it", (world) =>
      Effect.gen(function* () {
        const [process, other] = [yield* world.boot(), yield* world.boot()]
        const one = yield* world.found("production")
        const [sibling, sandbox] = [yield* world.foundApplication(one, "production"), yield* world.foundApplication(one, "sandbox")]
        const two = yield* world.found("production")
        for (const tenancy of [one, sandbox, two]) {
          for (let count = 0; count < 3; count++) yield* send(process, tenancy, address("ada@recipient.example"))
        }
        const page = (of: Tenancy, cursor: string | null, by = process) => by.events.list(of.principal, { limit: 2, cursor })
        const first = yield* page(one, null)
        const cursor = first.nextCursor!

        const second = yield* page(one, cursor)
        assert.ok(second.items.length > 0)
        assert.deepEqual(yield* page(sibling, cursor, other), second)
        assert.equal((yield* page(one, null, other)).nextCursor, cursor, "the same place has the same cursor")
        const altered = [...cursor].flatMap((digit, index) =>
          index < 3 ? [] : [cursor.slice(0, index) + (digit === "0" ? "1" : "0") + cursor.slice(index + 1)]
        )
        for (const [of, text] of [[two, cursor], [sandbox, cursor], ...altered.map((text) => [one, text] as const)] as const) {
          const error = yield* Effect.flip(page(of, text))
          assert.deepEqual([error._tag, error._tag === "InvalidCursor" && error.reason], ["InvalidCursor", "malformed"], text)
        }
      })
    ),

    scenario("an events cursor of before, whose position anybody can write, does not tell where in the log one's events are", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        const of = yield* world.found("production")
        yield* send(process, of, address("ada@recipient.example"))
        const page = (cursor: string | null) => process.events.list(of.principal, { limit: 100, cursor })
        const all = yield* page(null)
        assert.ok(all.items.length > 1)

        for (let bits = 0; bits < 63; bits++) assert.deepEqual(yield* page(`e1.${(2n ** BigInt(bits)).toString(36)}.0`), all, `position 2^${bits}`)
      })
    ),

    scenario("a message of any length is whole for whoever judges it, and for each tenant", (world) =>
      Effect.gen(function* () {
        const process = yield* world.boot()
        // Above 256 KiB it is fetched from where it was stored; below, it is at hand.
        for (const length of [10, 255_000, 400_000]) {
          const [one, two] = [yield* world.found(), yield* world.found()]
          const bytes = plain({}, "0123456789\n".repeat(length / 10))
          world.stage.judged.length = 0

          yield* arrive(process, [one.mailbox.address, two.mailbox.address], bytes)

          assert.equal(world.stage.judged.length, 2)
          for (const judged of world.stage.judged) assert.ok(Buffer.from(judged).equals(Buffer.from(bytes)))
          for (const each of [one, two]) {
            const [message] = yield* world.store.messages.page(each.realm, { mailboxId: null, before: null, limit: 10 })
            const stored = yield* Stream.mkUint8Array(world.blobs.read(each.realm.tenantId, message!.mime!))
            assert.ok(Buffer.from(stored.subarray(stored.length - bytes.length)).equals(Buffer.from(bytes)), `${length} of it`)
          }
        }
      })
    )
  ]
}
