/** Mailboxes and domains that an operator removes: who had them is refused, who has their names since is served, and nothing stays without its owner. */
import { Effect } from "effect"
import * as assert from "node:assert/strict"
import { domainOf } from "../../core/model/Address.ts"
import { system } from "../../core/model/Audit.ts"
import type { Mailbox } from "../../core/model/Mailbox.ts"
import type { MailDomain } from "../../core/model/MailDomain.ts"
import type { Change } from "../../core/ports/Store.ts"
import { address, domainName } from "../fixtures.ts"
import { forget, insertMessage } from "../StoreLaw.ts"
import { settledAt } from "../StoreMessageRetention.ts"
import { answerTo, arrive } from "./Arrivals.ts"
import { Ahead, once } from "./Faults.ts"
import * as Time from "./Time.ts"
import { healthyChecks, letter, logOf, scenario, send, settle, someKey, typesOf, type Process, type ScenarioSuite, type Tenancy } from "./World.ts"

const [ada, day] = [address("ada"), 86_400_000]
const week = { messageRetention: 7 * day }

const suspendMailbox = ({ management }: Process, { realm, mailbox }: Tenancy) =>
  management.updateMailbox(system, realm.tenantId, mailbox.id, { status: "suspended" })

const removeMailbox = ({ management }: Process, { realm, mailbox }: Tenancy) => management.removeMailbox(system, realm.tenantId, mailbox.id, {})

const suspendDomain = ({ management }: Process, { realm, mailbox }: Tenancy, suspended = true) =>
  management.setDomainSuspended(system, realm.tenantId, mailbox.domainId, suspended)

const removeDomain = ({ management }: Process, { realm, mailbox }: Tenancy) => management.removeDomain(system, realm.tenantId, mailbox.domainId, {})

/** Mailbox and domain, as an operator closes them. */
const close = (process: Process, of: Tenancy) =>
  Effect.all([suspendMailbox(process, of), removeMailbox(process, of), suspendDomain(process, of), removeDomain(process, of)])

export const suite: ScenarioSuite = {
  name: "mailboxes and domains that are removed",
  checks: [
    scenario("what still needs a mailbox or a domain is told, and it goes when nothing does, on the record", (world) =>
      Effect.gen(function* () {
        const [of, other] = [yield* world.found(), yield* world.found()]
        const process = yield* world.boot()
        const { management } = process
        const { realm: { tenantId }, mailbox: { id, domainId, address: text } } = of
        const name = domainOf(text)
        const refused = <A, E extends { readonly message: string }>(removal: Effect.Effect<A, E>) => Effect.map(Effect.flip(removal), ({ message }) => message)
        const stale = { version: 1 }

        assert.equal(yield* refused(removeMailbox(process, of)), `The mailbox ${id} is in use; suspend it first.`)
        yield* management.setCatchAll(system, tenantId, domainId, id)
        const suspended = yield* suspendMailbox(process, of)
        assert.equal(yield* refused(removeMailbox(process, of)), `The mailbox ${id} takes the mail to all other addresses of ${name}; have that go elsewhere first.`)
        yield* management.setCatchAll(system, tenantId, domainId, null)
        for (const environment of ["sandbox", "production"] as const) {
          const message = settledAt({ tenantId, environment }, 0, { mailboxId: id })
          yield* world.store.commit([insertMessage(message)], [])
          assert.equal(yield* refused(removeMailbox(process, of)), `The mailbox ${id} has mail, and is kept as long as that is.`)
          yield* world.store.commit([forget("messages", 1)], [])
        }
        assert.equal((yield* Effect.flip(management.removeMailbox(system, tenantId, id, stale)))._tag, "StaleVersion")

        // One that has mailboxes is no hindrance to another of its tenant.
        const neighbour = yield* management.createDomain(system, { tenantId, domain: domainName() })
        yield* management.createMailbox(system, { tenantId, address: address("ada", neighbour.domain), displayName: "" })
        assert.equal(yield* refused(removeDomain(process, of)), `The domain ${name} is in use; suspend it first.`)
        const { version } = yield* suspendDomain(process, of)
        assert.equal(yield* refused(removeDomain(process, of)), `The domain ${name} has mailboxes; remove them first.`)
        assert.deepEqual(yield* management.removeMailbox(system, tenantId, id, suspended), suspended)
        assert.equal((yield* Effect.flip(management.removeDomain(system, tenantId, domainId, stale)))._tag, "StaleVersion")
        const both = (of: Tenancy) => [Effect.asVoid(removeMailbox(process, of)), Effect.asVoid(removeDomain(process, of))]
        for (const ofStranger of both({ ...of, realm: other.realm })) assert.equal((yield* Effect.flip(ofStranger))._tag, "UnknownResource")
        assert.equal((yield* management.removeDomain(system, tenantId, domainId, { version })).domain, name)

        for (const again of both(of)) assert.equal((yield* Effect.flip(again))._tag, "UnknownResource")
        const { items } = yield* management.listAudit(tenantId, { limit: 2 })
        assert.deepEqual(items.map(({ action, subject }) => `${action} ${subject.id}`), [`domain.remove ${domainId}`, `mailbox.remove ${id}`])
      })
    ),

    scenario("an address whose mail is gone moves on to another tenant, with its domain, in every process that knew it", (world) =>
      Effect.gen(function* () {
        const [of, other] = [yield* world.found(), yield* world.found()]
        const [process, elsewhere] = [yield* world.boot(undefined, week), yield* world.boot()]
        const text = of.mailbox.address
        yield* send(elsewhere, of, ada)
        yield* arrive(elsewhere, text)
        yield* settle(process)
        yield* suspendMailbox(process, of)
        assert.equal((yield* Effect.flip(removeMailbox(process, of)))._tag, "InUse")

        yield* Time.adjust(week.messageRetention + day)
        yield* process.sweep.retain
        yield* close(process, of)

        assert.equal(yield* answerTo(elsewhere, text), "550 5.7.1")
        const refused = yield* Effect.flip(elsewhere.messages.send(of.principal, someKey(), letter(of, ada)))
        assert.equal(refused._tag, "NotFound")
        assert.deepEqual((yield* elsewhere.mailboxes.list(of.principal)).items, [])
        const { id: domainId } = yield* process.management.createDomain(system, { tenantId: other.realm.tenantId, domain: domainOf(text) })
        yield* process.management.recordChecks(other.realm.tenantId, domainId, healthyChecks)
        const input = { tenantId: other.realm.tenantId, address: text, displayName: "" }
        const moved = { ...other, mailbox: yield* process.management.createMailbox(system, input) }
        const before = yield* logOf(world, of)

        yield* arrive(elsewhere, text)
        yield* send(elsewhere, moved, ada)
        yield* settle(process)

        const query = { limit: 10, cursor: null, mailboxId: moved.mailbox.id }
        assert.equal((yield* elsewhere.messages.list(moved.principal, query)).items.length, 2)
        assert.deepEqual(yield* logOf(world, of), before)
      })
    ),

    scenario("a mailbox that is made while its domain is suspended or removed is refused", (world) =>
      Effect.gen(function* () {
        const operator = yield* world.boot()
        const create = Effect.fnUntraced(function* (of: Tenancy, meanwhile: Effect.Effect<unknown, unknown>) {
          const process = yield* world.boot(new Ahead("Store.commit", once(meanwhile)))
          const input = { tenantId: of.realm.tenantId, address: address("new", domainOf(of.mailbox.address)), displayName: "" }
          return (yield* Effect.flip(process.management.createMailbox(system, input)))._tag
        })
        const [suspended, removed] = [yield* world.found(), yield* world.found()]

        assert.equal(yield* create(suspended, suspendDomain(operator, suspended)), "InvalidInput")
        assert.equal(yield* create(removed, close(operator, removed)), "UnknownResource")

        const list = (of: Tenancy) => Effect.map(world.store.mailboxes.list(of.realm.tenantId), (found) => found.length)
        assert.deepEqual([yield* list(suspended), yield* list(removed)], [1, 0])
      })
    ),

    scenario("a domain's other mail goes to no mailbox that is removed while it is chosen", (world) =>
      Effect.gen(function* () {
        const operator = yield* world.boot()
        const choose = ({ management }: Process, { realm, mailbox }: Tenancy) => management.setCatchAll(system, realm.tenantId, mailbox.domainId, mailbox.id)
        const [kept, gone] = [yield* world.found(), yield* world.found()]
        for (const one of [kept, gone]) yield* suspendMailbox(operator, one)

        const removing = yield* world.boot(new Ahead("Store.commit", once(choose(operator, kept))))
        assert.match((yield* Effect.flip(removeMailbox(removing, kept))).message, /takes the mail to all other addresses/)
        const choosing = yield* world.boot(new Ahead("Store.commit", once(removeMailbox(operator, gone))))
        assert.equal((yield* Effect.flip(choose(choosing, gone)))._tag, "UnknownResource")

        const domainOfOne = ({ realm, mailbox }: Tenancy) => operator.management.getDomain(realm.tenantId, mailbox.domainId)
        assert.deepEqual([(yield* domainOfOne(kept)).catchAll, (yield* domainOfOne(gone)).catchAll], [kept.mailbox.id, null])
      })
    ),

    scenario("what is taken into use again while it is removed stays, with what came for it", (world) =>
      Effect.gen(function* () {
        const [of, other] = [yield* world.found(), yield* world.found()]
        const operator = yield* world.boot()
        /** As another operator's process would, whose turn is not held up by the removal's. */
        const turn = (kind: "domain" | "mailbox", turned: Effect.Effect<Partial<Mailbox> | Partial<MailDomain>>) =>
          Effect.flatMap(turned, (record) => world.store.commit([{ _tag: "Update", kind, record } as Change], [])) // read as it is
        const mailboxTurned = (status: Mailbox["status"]) =>
          turn("mailbox", Effect.map(Effect.orDie(world.store.mailboxes.get(of.realm.tenantId, of.mailbox.id)), (found) => ({ ...found, version: found!.version + 1, status })))
        const domainTurned = (health: MailDomain["health"]) =>
          turn("domain", Effect.map(Effect.orDie(world.store.domains.get(other.realm.tenantId, other.mailbox.domainId)), (found) => ({ ...found, version: found!.version + 1, health })))

        yield* suspendMailbox(operator, of)
        const used = mailboxTurned("active").pipe(Effect.andThen(send(operator, of, ada)), Effect.andThen(mailboxTurned("suspended")))
        const removing = yield* world.boot(new Ahead("Store.commit", once(used)))
        assert.match((yield* Effect.flip(removeMailbox(removing, of))).message, /has mail/)

        yield* suspendMailbox(operator, other)
        yield* removeMailbox(operator, other)
        yield* suspendDomain(operator, other)
        const input = { tenantId: other.realm.tenantId, address: other.mailbox.address, displayName: "" }
        const created = operator.management.createMailbox(system, input)
        const again = domainTurned("pending").pipe(Effect.andThen(created), Effect.andThen(domainTurned("suspended")))
        const removingToo = yield* world.boot(new Ahead("Store.commit", once(again)))
        assert.match((yield* Effect.flip(removeDomain(removingToo, other))).message, /has mailboxes/)

        assert.equal((yield* world.store.mailboxes.list(other.realm.tenantId)).length, 1)
      })
    ),

    scenario("a message that is accepted at the moment at which its mailbox goes is told of as failed at once, and its owner can read it", (world) =>
      Effect.gen(function* () {
        const of = yield* world.found()
        const operator = yield* world.boot()
        const gone = Effect.all([suspendMailbox(operator, of), removeMailbox(operator, of)])
        const process = yield* world.boot(new Ahead("Store.commit", once(gone)))

        const { message } = yield* process.messages.send(of.principal, someKey(), letter(of, ada))
        yield* settle(operator)

        assert.deepEqual(typesOf(yield* logOf(world, of, message.id)), ["message.queued", "message.failed"])
        const { status, failure } = (yield* operator.messages.get(of.principal, message.id)).message
        assert.deepEqual([status, failure], ["failed", { stage: "submit", code: "mailbox_removed", message: "the sending mailbox was removed" }])
        assert.equal((yield* Effect.flip(operator.messages.send(of.principal, someKey(), letter(of, ada))))._tag, "NotFound")
      })
    )
  ]
}
