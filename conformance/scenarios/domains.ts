/** A domain from its claim to its end: what DNS says decides its health, and its health decides what is sent from it. */
import { Clock, Effect, Redacted, Result } from "effect"
import * as assert from "node:assert/strict"
import { ClockOffset, clockOffsetMax } from "../../core/ClockOffset.ts"
import type { DomainName } from "../../core/model/Address.ts"
import { system } from "../../core/model/Audit.ts"
import { keyOf, type ExpectedRecord } from "../../core/model/DomainRecords.ts"
import type { Data } from "../../core/model/Event.ts"
import { domainCheckIntervals, domainCheckRetry } from "../../core/model/Limits.ts"
import { isVerified, type RecordCheck } from "../../core/model/MailDomain.ts"
import type { DomainRecordSet } from "../../core/operations/DomainManagement.ts"
import type { SettingsShape } from "../../core/Settings.ts"
import { address, domainName } from "../fixtures.ts"
import { answerTo, arrive } from "./Arrivals.ts"
import { Faults } from "./Faults.ts"
import * as Time from "./Time.ts"
import { accepted, loggedTo, logOf, messageOf, scenario, send, settle, someKey, letter, type Process, type ScenarioSuite, type Tenancy, type World } from "./World.ts"

const settings: Partial<SettingsShape> = {
  spf: ["include:spf.example.net"],
  mxHost: "in.example.net" as DomainName,
  bounceDomain: null
}

/** A tenant with a mailbox at a domain that nobody has proved yet. */
const claimed = Effect.fnUntraced(function* (world: World, over: Partial<SettingsShape> = {}) {
  const process = yield* world.boot(undefined, { ...settings, ...over })
  const founded = yield* world.found()
  const { tenantId } = founded.realm
  const { management } = process
  const { id, domain: name } = yield* management.createDomain(system, { tenantId, domain: domainName() })
  const mailbox = yield* management.createMailbox(system, { tenantId, address: address("ada", name), displayName: "Ada" })
  const set = yield* management.domainRecords(system, tenantId, id)
  const of: Tenancy = { ...founded, mailbox }
  const show = Effect.map(world.store.domains.get(tenantId, id), (found) => found!)
  const events = Effect.map(logOf(world, of, id), (log) =>
    log.map(({ data, type }) => {
      assert.equal(type, "domain.health_changed")
      return data as Data<"domain.health_changed"> // by its type
    })
  )
  /** Its DKIM key is as if this version of the sealing key had sealed it. */
  const sealedBy = (version: number) =>
    Effect.flatMap(show, ({ dkim, ...before }) => {
      const record = { ...before, version: before.version + 1, dkim: { ...dkim!, privateKey: { ...dkim!.privateKey, version } } }
      return world.store.commit([{ _tag: "Update", kind: "domain", record }], [])
    })
  const moves = Effect.map(events, (all) => all.map(({ previousHealth, health }) => `${previousHealth} ${health}`))
  return { process, of, tenantId, id, name, set, show, sealedBy, events, moves }
}, Effect.orDie)

type Claimed = Effect.Success<ReturnType<typeof claimed>>

const publish = (world: World, ...records: ReadonlyArray<ExpectedRecord>) => {
  for (const record of records) world.stage.dns.set(keyOf(record), [record.value])
}

const withdraw = (world: World, { records }: DomainRecordSet, ...kinds: ReadonlyArray<RecordCheck["record"]>) => {
  for (const record of records) if (kinds.includes(record.record)) world.stage.dns.delete(keyOf(record))
}

const required = ({ records }: DomainRecordSet) => records.filter(({ isOptional }) => !isOptional)

/** Lets time pass with a checker and a worker that look at what is due. */
const elapse = (process: Process, hours: number, step = 15) =>
  Effect.gen(function* () {
    for (let left = hours * 60; left > 0; left -= step) {
      yield* Time.leap(`${Math.min(step, left)} minutes`)
      yield* process.checkDomains.tick
      yield* process.sweep.tick
      yield* settle(process)
    }
  })

/** Whether a send is refused just while the domain is not verified. */
const obeys = Effect.fnUntraced(function* ({ process, of, show }: Claimed) {
  const sending = yield* Effect.result(process.messages.send(of.principal, someKey(), letter(of, address("charles"))))
  const { health } = yield* show
  assert.equal(Result.isSuccess(sending), isVerified(health), `at ${health}`)
  if (Result.isFailure(sending)) assert.equal(sending.failure._tag, "DomainNotSendable")
  return health
})

export const suite: ScenarioSuite = {
  name: "mail domains",
  checks: [
    scenario("a claimed domain is pending until its records are seen in DNS, and mail is sent from it from then on", (world) =>
      Effect.gen(function* () {
        const claim = yield* claimed(world)
        const { process, set, show, events } = claim
        assert.deepEqual(set.records.map(({ record }) => record), ["ownership", "dkim", "spf", "dmarc", "mx"])
        yield* elapse(process, 1, 1)
        assert.equal(yield* obeys(claim), "pending")
        assert.deepEqual(yield* events, [], "nothing has changed")
        assert.equal((yield* show).dkim, null, "a key that nobody can find signs nothing")

        publish(world, ...required(set))
        yield* elapse(process, 1)

        assert.equal(yield* obeys(claim), "healthy")
        const [event, ...more] = yield* events
        assert.deepEqual([event!.previousHealth, event!.health, event!.verified, event!.reasons], ["pending", "healthy", true, []])
        assert.deepEqual(more, [])
        const { dkim, nextDkim } = yield* show
        assert.deepEqual([dkim === null, nextDkim === null], [false, true], "its key has been seen")
      })
    ),

    scenario("without ownership, or without DKIM, everything else does not make a domain", (world) =>
      Effect.gen(function* () {
        for (const lacking of ["ownership", "dkim"] as const) {
          const claim = yield* claimed(world)
          publish(world, ...claim.set.records)
          withdraw(world, claim.set, lacking)
          yield* elapse(claim.process, 2)

          assert.equal(yield* obeys(claim), "pending", lacking)
          assert.deepEqual(yield* claim.moves, [])
        }
      })
    ),

    scenario("a record that drifts degrades a domain, one that it cannot do without fails it after a day, and back", (world) => {
      const lines: Array<string> = []
      return Effect.gen(function* () {
        const claim = yield* claimed(world)
        const { process, set, moves, events, of } = claim
        publish(world, ...required(set))
        yield* elapse(process, 1)

        withdraw(world, set, "dmarc")
        yield* elapse(process, 30, 60)
        assert.equal(yield* obeys(claim), "degraded", "and no more than that, however long it lasts")
        const [reason, ...more] = (yield* events).at(-1)!.reasons
        assert.deepEqual([reason!.record, reason!.state, reason!.observed, more], ["dmarc", "missing", null, []])
        withdraw(world, set, "ownership")
        yield* elapse(process, 2)
        publish(world, ...required(set))
        yield* elapse(process, 2)
        assert.equal(yield* obeys(claim), "healthy")

        withdraw(world, set, "ownership")
        yield* elapse(process, 20, 60)
        assert.equal(yield* obeys(claim), "degraded")
        world.stage.behave = () => Effect.succeed({ providerMessageId: "x", replies: [], pollAt: null })
        const waiting = yield* send(process, of, address("waits"))
        yield* elapse(process, 8, 60)
        assert.equal(yield* obeys(claim), "failing")
        const sent = world.stage.submissions.length
        world.stage.behave = (request) => Effect.succeed(accepted(request))
        yield* elapse(process, 4, 60)
        assert.equal(world.stage.submissions.length, sent, "mail that was accepted waits")

        publish(world, ...required(set))
        yield* elapse(process, 10, 60)
        assert.equal(yield* obeys(claim), "healthy")
        assert.equal((yield* process.messages.get(of.principal, waiting)).message.status, "sent", "and goes when it may")
        assert.deepEqual(yield* moves, [
          "pending healthy",
          "healthy degraded",
          "degraded healthy",
          "healthy degraded",
          "degraded failing",
          "failing healthy"
        ])
        const rounds = (yield* world.store.audit.page(claim.tenantId, 100)).filter(({ action }) => action === "domain.check")
        assert.equal(rounds.length, 8, "each is in the audit trail, and so are the first look and what was missed when it was degraded already")
        assert.equal(lines.filter((line) => line.includes("the health of a domain has changed")).length, 6, "and each is in the operator's log")
      }).pipe(Effect.provide(loggedTo(lines)))
    }),

    scenario("a DNS that does not answer changes nothing, however long, and what it says then counts", (world) =>
      Effect.gen(function* () {
        const claims = [yield* claimed(world), yield* claimed(world), yield* claimed(world)] as const
        const [pending, healthy, degraded] = claims
        const { process } = pending
        for (const { set } of [healthy, degraded]) publish(world, ...required(set))
        yield* elapse(process, 1)
        withdraw(world, degraded.set, "ownership")
        yield* elapse(process, 2)
        const states = Effect.forEach(claims, ({ show }) => Effect.map(show, ({ health }) => health))
        const checks = Effect.forEach(claims, ({ show }) => Effect.map(show, (domain) => domain.checks))
        const before = [yield* states, yield* checks]
        assert.deepEqual(before[0], ["pending", "healthy", "degraded"])

        world.stage.dnsIsDown = true
        publish(world, ...required(pending.set))
        yield* elapse(process, 72, 60)
        assert.deepEqual([yield* states, yield* checks], before)
        for (const claim of claims) yield* obeys(claim)

        world.stage.dnsIsDown = false
        yield* elapse(process, 2)
        assert.deepEqual(yield* states, ["healthy", "healthy", "failing"], "it was gone before, and is gone still")
      })
    ),

    scenario("a suspended domain stays suspended, whatever DNS says, until it is reinstated and checked", (world) =>
      Effect.gen(function* () {
        const claim = yield* claimed(world)
        const { process, set, tenantId, id, moves } = claim
        publish(world, ...required(set))
        yield* elapse(process, 1)
        yield* process.management.setDomainSuspended(system, tenantId, id, true)
        yield* elapse(process, 3)
        assert.equal(yield* obeys(claim), "suspended")
        const asked = yield* process.checkDomains.check(system, tenantId, id)
        assert.deepEqual([asked.domain.health, asked.domain.nextCheckAt], ["suspended", null])
        assert.ok(asked.records.filter(({ expected }) => !expected.isOptional).every(({ check }) => check.state === "ok"))

        yield* process.management.setDomainSuspended(system, tenantId, id, false)
        assert.equal(yield* obeys(claim), "pending")
        yield* process.checkDomains.tick
        assert.equal(yield* obeys(claim), "healthy")
        assert.deepEqual(yield* moves, ["pending healthy", "healthy suspended", "suspended pending", "pending healthy"])
      })
    ),

    scenario("mail is signed with the key whose record was seen: the former one until then, the new one from then on", (world) =>
      Effect.gen(function* () {
        const { process, of, set, tenantId, id, show, name, moves } = yield* claimed(world)
        publish(world, ...required(set))
        yield* elapse(process, 1)
        const signedWith = Effect.gen(function* () {
          yield* send(process, of, address("charles"))
          yield* settle(process)
          return world.stage.submissions.at(-1)!.request.dkim
        })
        const first = (yield* show).dkim!
        const used = yield* signedWith
        assert.deepEqual([used?.domain, used?.selector], [name, first.selector])
        assert.match(Redacted.value(used!.privateKey), /^-----BEGIN PRIVATE KEY-----/)
        assert.equal(yield* signedWith, used, "it is opened once")
        assert.ok(!JSON.stringify([used, yield* show]).includes("PRIVATE KEY"), "and printed nowhere")

        const seenSince = Effect.map(show, ({ checks }) => checks.find(({ record }) => record === "dkim")?.since)
        const since = yield* seenSince
        const { next } = yield* process.management.rotateDkim(system, tenantId, id)
        yield* elapse(process, 3)
        assert.equal(yield* signedWith, used)
        world.stage.dns.set(keyOf(next!), ["v=DKIM1; k=rsa; p="])
        yield* elapse(process, 2)
        assert.equal((yield* signedWith)?.selector, first.selector)
        publish(world, next!)
        yield* elapse(process, 2)
        assert.equal((yield* world.store.audit.page(tenantId, 1))[0]?.action, "domain.check", "that it signs from now on is in the audit trail")

        const second = (yield* signedWith)?.selector
        assert.ok(next!.name.startsWith(`${second}._domainkey.`))
        assert.notEqual(second, first.selector)
        assert.equal(yield* seenSince, since, "its record has been in order all the time")
        withdraw(world, set, "dkim")
        yield* elapse(process, 48, 60)
        assert.deepEqual([(yield* show).health, (yield* show).nextDkim], ["healthy", null], "the former record may go")

        const third = (yield* process.management.rotateDkim(system, tenantId, id)).next!
        world.stage.dns.delete(keyOf(next!))
        publish(world, third)
        yield* elapse(process, 2)
        assert.ok(third.name.startsWith(`${(yield* signedWith)?.selector}._domainkey.`))
        assert.deepEqual(yield* moves, ["pending healthy"], "nor does a key that takes the other's place at once degrade it")
      })
    ),

    scenario("a key that cannot be opened holds mail back, and sends nothing unsigned", (world) =>
      Effect.gen(function* () {
        const { process, of, set, show, sealedBy } = yield* claimed(world)
        publish(world, ...required(set))
        yield* elapse(process, 1)
        const good = (yield* show).dkim!
        yield* sealedBy(99)
        const fresh = yield* world.boot(undefined, settings)
        const id = yield* send(fresh, of, address("charles"))
        yield* elapse(fresh, 2)
        assert.equal(world.stage.submissions.length, 0)

        yield* sealedBy(good.privateKey.version)
        yield* elapse(fresh, 10, 60)

        assert.equal((yield* fresh.messages.get(of.principal, id)).message.status, "sent")
        assert.equal(world.stage.submissions.at(-1)!.request.dkim?.selector, good.selector)
      })
    ),

    scenario("mail of the sandbox is not signed: a key that cannot be opened holds none of it back", (world) =>
      Effect.gen(function* () {
        const { process, of, set, sealedBy } = yield* claimed(world)
        publish(world, ...required(set))
        yield* elapse(process, 1)
        yield* sealedBy(99)
        const sandbox = yield* world.foundApplication(of, "sandbox")

        const id = yield* send(process, sandbox, address("charles"))
        yield* settle(process)

        assert.equal((yield* messageOf(world, sandbox, id)).status, "sent")
      })
    ),

    scenario("bounces come back under the domain's own name while its record leads to us, and else as before", (world) =>
      Effect.gen(function* () {
        const bounceDomain = "bounces.example.net" as DomainName
        const { process, of, set, name, moves } = yield* claimed(world, { bounceDomain })
        const returnPath = set.records.find(({ record }) => record === "return_path")!
        const used = Effect.gen(function* () {
          yield* send(process, of, address("charles"))
          yield* settle(process)
          return world.stage.submissions.at(-1)!.request.envelope.returnPath?.split("@")[1]
        })
        publish(world, ...required(set))
        yield* elapse(process, 1)
        assert.equal(yield* used, bounceDomain)
        publish(world, returnPath)
        yield* elapse(process, 2)
        assert.equal(yield* used, `bounce.${name}`)

        world.stage.dns.set(keyOf(returnPath), ["elsewhere.example.org"])
        yield* elapse(process, 2)
        assert.equal(yield* used, bounceDomain)
        yield* elapse(process, 30, 60)
        assert.deepEqual(yield* moves, ["pending healthy", "healthy degraded", "degraded healthy"], "whoever does without it may")
      })
    ),

    scenario("of several workers one checks a domain, and if it ends there and then another does, a little later", (world) =>
      Effect.gen(function* () {
        const { process, set, show, moves } = yield* claimed(world)
        publish(world, ...required(set))
        const others = [yield* world.boot(undefined, settings), yield* world.boot(undefined, settings)]
        yield* Time.leap("1 minute")

        yield* Effect.all([process, ...others].map(({ checkDomains }) => checkDomains.tick), { concurrency: "unbounded" })
        assert.equal(world.stage.dnsQuestions, 5, "one round")
        assert.deepEqual(yield* moves, ["pending healthy"])

        withdraw(world, set, "spf")
        for (let call = 1; ; call++) {
          const faults = new Faults(call, "before")
          const crashing = yield* world.boot(faults, settings)
          yield* Time.leap("90 minutes")
          yield* Effect.exit(crashing.checkDomains.tick)
          if (!faults.hasStruck) break
          yield* Time.leap("10 minutes")
          yield* others[0]!.checkDomains.tick
          assert.equal((yield* show).health, call % 2 === 1 ? "degraded" : "healthy", `after a crash at call ${call}`)
          if (call % 2 === 1) publish(world, ...required(set))
          else withdraw(world, set, "spf")
        }
      })
    ),

    scenario("a worker whose look-ups hang keeps a domain from the others for minutes, and no longer", (world) =>
      Effect.gen(function* () {
        const { process, set, show } = yield* claimed(world)
        publish(world, ...required(set))
        const other = yield* world.boot(undefined, settings)
        yield* Time.leap("1 minute")
        world.stage.dnsHangs = true
        yield* Effect.forkScoped(process.checkDomains.tick)
        yield* Time.calm
        world.stage.dnsHangs = false

        for (let minute = 0; minute < 4; minute++) {
          assert.equal(yield* other.checkDomains.tick, 0)
          yield* Time.leap("1 minute")
        }
        yield* Time.leap("1 minute")
        assert.equal(yield* other.checkDomains.tick, 1)

        assert.equal((yield* show).health, "healthy")
      }).pipe(Effect.scoped)
    ),

    scenario("a domain is looked at often while it waits for its records, ever less, and once an hour when it has them or is a day old", (world) =>
      Effect.gen(function* () {
        const { process, tenantId, id, show } = yield* claimed(world)
        const begun = (yield* show).createdAt
        const lasts = Effect.fnUntraced(function* (age: number, wait: number, label: string) {
          yield* Time.setTime(begun + age)
          yield* process.checkDomains.check(system, tenantId, id)
          const { nextCheckAt } = yield* show
          const found = nextCheckAt! - (begun + age)
          assert.ok(found >= 0.9 * wait && found <= 1.1 * wait, `${label}: ${found}`)
        })
        const { fresh, recent, settled } = domainCheckIntervals

        yield* lasts(60_000, fresh, "new")
        yield* lasts(59 * 60_000, fresh, "still new")
        yield* lasts(60 * 60_000, recent, "an hour old")
        world.stage.dnsIsDown = true
        yield* lasts(61 * 60_000, domainCheckRetry, "not to be looked up")
        world.stage.dnsIsDown = false
        yield* lasts(23 * 3_600_000, recent, "nearly a day old")
        yield* lasts(24 * 3_600_000, settled, "a day old")
        const other = yield* claimed(world)
        publish(world, ...required(other.set))
        yield* other.process.checkDomains.check(system, other.tenantId, other.id)
        const { nextCheckAt } = yield* other.show
        assert.ok(nextCheckAt! - (yield* Clock.currentTimeMillis) >= 0.9 * settled, "it has them")
      })
    ),

    scenario("a worker whose clock is far from the store's checks no domain", (world) =>
      Effect.gen(function* () {
        let offset = clockOffsetMax + 1
        const { process } = yield* Effect.provideService(claimed(world), ClockOffset, () => offset)

        yield* elapse(process, 1)
        assert.equal(world.stage.dnsQuestions, 0)
        offset = clockOffsetMax
        yield* elapse(process, 1)

        assert.ok(world.stage.dnsQuestions > 0)
      })
    ),

    scenario("who changes a domain while it is checked is not undone", (world) =>
      Effect.gen(function* () {
        const { process, set, tenantId, id, show } = yield* claimed(world)
        publish(world, ...required(set))
        yield* Time.leap("1 minute")
        const ticking = yield* Effect.forkScoped(process.checkDomains.tick)
        while (world.stage.dnsQuestions === 0) yield* Effect.yieldNow
        yield* process.management.setDomainSuspended(system, tenantId, id, true)
        yield* Time.calm
        assert.ok(ticking.pollUnsafe() !== undefined)

        assert.equal((yield* show).health, "suspended")
        assert.equal((yield* show).nextCheckAt, null)
      }).pipe(Effect.scoped)
    ),

    scenario("rounds of all domains do not fall on one moment, and those that change nothing leave no trace in the audit", (world) =>
      Effect.gen(function* () {
        const claims = yield* Effect.forEach(Array.from({ length: 12 }), () => claimed(world))
        const { process } = claims[0]!
        for (const { set } of claims) publish(world, ...required(set))
        yield* elapse(process, 1)
        const waits = Effect.forEach(claims, ({ show }) => Effect.zipWith(show, Clock.currentTimeMillis, ({ nextCheckAt }, now) => nextCheckAt! - now))
        const next = yield* waits
        assert.ok(new Set(next).size > 6 && next.every((wait) => wait > 0 && wait <= 66 * 60_000))
        const rounds = Effect.forEach(claims, ({ tenantId, id }) =>
          Effect.map(
            world.store.audit.page(tenantId, 100),
            (entries) => entries.filter(({ action, subject }) => action === "domain.check" && subject.id === id).length
          )
        )
        const before = yield* rounds
        assert.ok(before.every((count) => count > 0), "what made them healthy is told")

        yield* elapse(process, 24, 60)

        assert.deepEqual(yield* rounds, before)
        assert.ok((yield* waits).some((wait) => wait > 2 * domainCheckRetry), "and the next is an hour behind them all the same")
        yield* process.checkDomains.check(system, claims[0]!.tenantId, claims[0]!.id)
        assert.deepEqual(yield* rounds, [before[0]! + 1, ...before.slice(1)], "who asks for a round is named")
      })
    ),

    scenario("the postmaster of this host is the mailbox that is named for it, and of no domain of a tenant", (world) =>
      Effect.gen(function* () {
        const [of, other] = [yield* world.found(), yield* world.found()]
        const host = { hostName: "In.example.net", bounceDomain: "bounces.example" as DomainName } // plain enough to be one
        const process = yield* world.boot(undefined, { ...host, postmaster: of.mailbox.address })
        const ours = ["postmaster", "PostMaster", "postmaster@in.example.net", "Postmaster@IN.EXAMPLE.NET", "postmaster@bounces.example"]
        assert.deepEqual(yield* Effect.forEach(ours, (to) => answerTo(process, to)), ours.map(() => null))
        yield* arrive(process, ours)
        const taken = yield* world.store.messages.page(of.realm, { mailboxId: null, before: null, limit: 10 })
        assert.deepEqual(taken.map(({ mailboxId }) => mailboxId), [of.mailbox.id], "one row, for all lead to one mailbox")

        const { domain } = (yield* world.store.domains.get(other.realm.tenantId, other.mailbox.domainId))!
        const others = [`postmaster@${domain}`, "postmaster@elsewhere.example", "postmaster+x@in.example.net", "nobody@in.example.net"]
        assert.deepEqual(yield* Effect.forEach(others, (to) => answerTo(process, to)), ["550 5.1.1", "550 5.7.1", "550 5.7.1", "550 5.7.1"])
        yield* process.management.updateMailbox(system, of.realm.tenantId, of.mailbox.id, { status: "suspended" })
        assert.equal(yield* answerTo(process, "postmaster"), "550 5.2.1")

        const without = yield* world.boot(undefined, host)
        assert.deepEqual(yield* Effect.forEach(ours, (to) => answerTo(without, to)), ["550 5.1.1", "550 5.1.1", "550 5.7.1", "550 5.7.1", "550 5.1.1"])
      })
    ),

    scenario("a domain that others vouch for is not checked until it is asked for, and a stranger's is not there", (world) =>
      Effect.gen(function* () {
        const claim = yield* claimed(world)
        const { process, tenantId, id } = claim
        yield* process.management.confirmDomain(system, tenantId, id)
        yield* elapse(process, 72, 60)
        assert.equal(yield* obeys(claim), "healthy")
        assert.equal(world.stage.dnsQuestions, 0)

        const stranger = yield* world.found()
        const refused = yield* Effect.flip(process.checkDomains.check(system, stranger.realm.tenantId, id))
        assert.equal(refused._tag, "UnknownResource")
        const { domain, records } = yield* process.checkDomains.check(system, tenantId, id)
        assert.deepEqual([domain.health, domain.nextCheckAt === null], ["degraded", false])
        assert.ok(records.every(({ advice }) => advice !== null))
      })
    )
  ]
}
