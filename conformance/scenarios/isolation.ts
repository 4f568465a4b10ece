/** The walls between tenants, environments and applications: what is not yours is absent, and your data goes nowhere else. */
import { Effect, Stream } from "effect"
import * as assert from "node:assert/strict"
import { domainOf } from "../../core/model/Address.ts"
import { system } from "../../core/model/Audit.ts"
import type { AttachmentId, MailboxId, MessageId } from "../../core/model/Ids.ts"
import { address, freshId } from "../fixtures.ts"
import { letter, pass, scenario, settle, someKey, type Process, type ScenarioSuite, type Tenancy, type World } from "./World.ts"

interface Owned {
  readonly of: Tenancy
  readonly canary: string
  readonly messageId: MessageId
  readonly attachmentId: AttachmentId
}

/** A tenant's data, all of it marked with a canary. */
const own = (process: Process, of: Tenancy) =>
  Effect.gen(function* () {
    const canary = `canary-${freshId().replaceAll("-", "")}`
    const attachment = yield* process.attachments.upload(
      of.principal,
      { mailboxId: of.mailbox.id, filename: `${canary}.txt`, mediaType: "text/plain" },
      Stream.make(new TextEncoder().encode(canary))
    )
    const sent = yield* process.messages.send(
      of.principal,
      someKey(),
      letter(of, address(canary), { subject: canary, text: canary, attachmentIds: [attachment.id] })
    )
    return { of, canary, messageId: sent.message.id, attachmentId: attachment.id } satisfies Owned
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
    return JSON.stringify({ messages, details, events, mailboxes, domains })
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

        assert.deepEqual([error._tag, error._tag === "NotFound" && error.field], ["NotFound", null])
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
    )
  ]
}
