/** Management on memory adapters: what is refused, what is on record, and what two operators do to each other. */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Effect, Layer, Redacted, Result } from "effect"
import { TestClock } from "effect/testing"
import * as MemoryJobQueue from "../../adapters/memory/MemoryJobQueue.ts"
import * as MemoryRateLimiter from "../../adapters/memory/MemoryRateLimiter.ts"
import * as MemoryStore from "../../adapters/memory/MemoryStore.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import * as Address from "../model/Address.ts"
import * as ApiKey from "../model/ApiKey.ts"
import { scopes, type Scope } from "../model/ApiKey.ts"
import type { Actor } from "../model/Audit.ts"
import type { ApiKeyId, ApplicationId, EndpointId, MailboxId, TenantId } from "../model/Ids.ts"
import { Store, StoreUnavailable } from "../ports/Store.ts"
import { Access } from "./Access.ts"
import { Management } from "./Management.ts"
import { RequestLog } from "./RequestLog.ts"
import { installation } from "./TenantManagement.ts"
import { WebhookManagement } from "./WebhookManagement.ts"

const ada: Actor = { type: "operator", id: "ada" }
const nobody = "0197a000-0000-7000-8000-000000000000"

const sealingKeys = [{ version: 1, key: Redacted.make(new Uint8Array(32)) }]
const ports = Layer.mergeAll(
  MemoryStore.layer,
  MemoryJobQueue.layer,
  MemoryRateLimiter.layer,
  NodeCrypto.layerSeeded("management", { sealingKeys, memoryCostKiB: 64, timeCost: 1 })
)
const layer = Layer.mergeAll(Management.layer, WebhookManagement.layer, Access.layer).pipe(
  Layer.provide(RequestLog.layer),
  Layer.provideMerge(ports)
)

/** A tenant with a sandbox application and a key. */
const founded = Effect.gen(function* () {
  const management = yield* Management
  yield* management.createPlan(ada, { id: "standard" })
  const { id: tenantId } = yield* management.createTenant(ada, { name: "Analytical Engines", planId: "standard" })
  const application = yield* management.createApplication(ada, { tenantId, environment: "sandbox", name: "Billing" })
  const issue = (over: { readonly expiresAt?: number } = {}) =>
    management.issueKey(ada, { tenantId, applicationId: application.id, name: "web", scopes, ...over })
  return { management, tenantId, application, issue }
})

const domainName = (text: string) => Result.getOrThrow(Address.parseDomain(text))
const address = (text: string) => Result.getOrThrow(Address.parse(text))

/** What a request with this key gets. */
const admitted = (text: Redacted.Redacted<string>) =>
  Access.use(({ admit }) =>
    admit(
      { authorization: `Bearer ${Redacted.value(text)}`, operation: "listMessages", requestId: "r", clientAddress: "192.0.2.1" },
      () => {},
      () => {}
    )
  ).pipe(
    Effect.as("admitted"),
    Effect.catchTag("Unauthorized", ({ reason }) => Effect.succeed(reason))
  )

const acts = (tenantId: TenantId) =>
  Effect.map(Management.use(({ listAudit }) => listAudit(tenantId, {})), ({ items }) =>
    items.map(({ action, actor, subject }) => `${actor.id} ${action} ${subject.type} ${subject.id}`).toReversed()
  )

const managed = <E>(title: string, test: Effect.Effect<void, E, Layer.Success<typeof layer>>) =>
  it.effect(title, () => Effect.provide(test, layer))

describe("Management", () => {
  managed(
    "records each write in its own commit, with who made it",
    Effect.gen(function* () {
      const { management, tenantId, application, issue } = yield* founded
      const { apiKey } = yield* issue()
      yield* management.updateTenant(ada, tenantId, { name: "Engines" })
      yield* management.setTenantStatus(ada, tenantId, "suspended")
      yield* management.setTenantStatus(ada, tenantId, "active")
      yield* management.updateApplication(ada, tenantId, application.id, { name: "Invoices" })
      yield* management.setApplicationStatus(ada, tenantId, application.id, "suspended")
      yield* management.setApplicationStatus(ada, tenantId, application.id, "active")
      yield* management.updateKey(ada, tenantId, apiKey.id, { name: "site" })
      const rotated = yield* management.rotateKey(ada, tenantId, apiKey.id, { overlap: 0 })
      assert.strictEqual(rotated.apiKey.version, 1)
      yield* management.revokeKey(ada, tenantId, rotated.apiKey.id)
      const domain = yield* management.createDomain(ada, { tenantId, domain: domainName("mail.example") })
      yield* management.confirmDomain(ada, tenantId, domain.id)
      yield* management.setDomainSuspended(ada, tenantId, domain.id, true)
      yield* management.setDomainSuspended(ada, tenantId, domain.id, false)
      const mailbox = yield* management.createMailbox(ada, { tenantId, address: address("ada@mail.example"), displayName: "" })
      yield* management.updateMailbox(ada, tenantId, mailbox.id, { displayName: "Ada" })
      yield* management.updateMailbox(ada, tenantId, mailbox.id, { status: "suspended" })

      assert.deepStrictEqual(yield* acts(tenantId), [
        `ada tenant.create tenant ${tenantId}`,
        `ada application.create application ${application.id}`,
        `ada api_key.issue api_key ${apiKey.id}`,
        `ada tenant.update tenant ${tenantId}`,
        `ada tenant.suspend tenant ${tenantId}`,
        `ada tenant.reinstate tenant ${tenantId}`,
        `ada application.update application ${application.id}`,
        `ada application.suspend application ${application.id}`,
        `ada application.reinstate application ${application.id}`,
        `ada api_key.update api_key ${apiKey.id}`,
        `ada api_key.rotate api_key ${apiKey.id}`,
        `ada api_key.issue api_key ${rotated.apiKey.id}`,
        `ada api_key.revoke api_key ${rotated.apiKey.id}`,
        `ada domain.create domain ${domain.id}`,
        `ada domain.confirm domain ${domain.id}`,
        `ada domain.suspend domain ${domain.id}`,
        `ada domain.reinstate domain ${domain.id}`,
        `ada mailbox.create mailbox ${mailbox.id}`,
        `ada mailbox.update mailbox ${mailbox.id}`,
        `ada mailbox.suspend mailbox ${mailbox.id}`
      ])
    })
  )

  managed(
    "records nothing, and makes no event, where nothing changes",
    Effect.gen(function* () {
      const { management, tenantId, application, issue } = yield* founded
      const { apiKey } = yield* issue()
      const { id: domainId } = yield* management.createDomain(ada, { tenantId, domain: domainName("mail.example") })
      const mailbox = yield* management.createMailbox(ada, { tenantId, address: address("ada@mail.example"), displayName: "Ada" })
      yield* management.revokeKey(ada, tenantId, apiKey.id)
      const before = yield* acts(tenantId)

      yield* management.updateTenant(ada, tenantId, { name: "Analytical Engines", planId: "standard" })
      yield* management.setTenantStatus(ada, tenantId, "active")
      yield* management.updateApplication(ada, tenantId, application.id, { name: "Billing" })
      yield* management.setApplicationStatus(ada, tenantId, application.id, "active")
      yield* management.updateKey(ada, tenantId, apiKey.id, { name: "web" })
      yield* management.revokeKey(ada, tenantId, apiKey.id)
      yield* management.setDomainSuspended(ada, tenantId, domainId, false)
      const same = yield* management.updateMailbox(ada, tenantId, mailbox.id, { displayName: "Ada", status: "active" })

      assert.deepStrictEqual(yield* acts(tenantId), before)
      assert.deepStrictEqual(same, mailbox)
    })
  )

  managed(
    "records plans under the installation, and a plan that stays as it is not at all",
    Effect.gen(function* () {
      const { management } = yield* founded
      const standard = yield* management.getPlan("standard")
      yield* management.putPlan(standard)
      yield* management.putPlan({ ...standard, recipientsPerDay: 7 })
      yield* management.updatePlan(ada, "standard", { tenantRequestsPerDay: 9 })
      const trial = { id: "trial", keyRequestsPerMinute: 1, tenantRequestsPerDay: 2, recipientsPerDay: 3 }
      yield* management.createPlan(ada, trial)

      assert.deepStrictEqual(yield* acts(installation), [
        "ada plan.create plan standard",
        "mailroom plan.update plan standard",
        "ada plan.update plan standard",
        "ada plan.create plan trial"
      ])
      assert.deepStrictEqual(yield* management.listPlans, [{ ...standard, recipientsPerDay: 7, tenantRequestsPerDay: 9 }, trial])
    })
  )

  managed(
    "refuses what an operator cannot mean, and says which member it is",
    Effect.gen(function* () {
      const { management, tenantId, application, issue } = yield* founded
      yield* TestClock.adjust("1 hour")
      const now = yield* Clock.currentTimeMillis
      const { apiKey, text } = yield* issue()
      const key = { tenantId, applicationId: application.id, name: "k", scopes }
      const live = ApiKey.format("production", new Uint8Array(ApiKey.publicIdBytes), new Uint8Array(ApiKey.secretBytes))
      const refused: ReadonlyArray<readonly [string, Effect.Effect<unknown, { readonly message: string }>]> = [
        ["There is no plan gold.", management.createTenant(ada, { name: "n", planId: "gold" })],
        ["There is no plan gold.", management.updateTenant(ada, tenantId, { planId: "gold" })],
        ["There is no plan gold.", management.updatePlan(ada, "gold", { recipientsPerDay: 1 })],
        ["There is no tenant", management.createApplication(ada, { tenantId: nobody as TenantId, environment: "sandbox", name: "n" })],
        ["There is no tenant", management.createDomain(ada, { tenantId: nobody as TenantId, domain: domainName("a.example") })],
        ["There is no tenant", management.listKeys(nobody as TenantId, {})],
        ["There is no tenant", management.listAudit(nobody as TenantId, {})],
        ["There is no tenant", management.listDomains(nobody as TenantId, {})],
        ["There is no tenant", management.listMailboxes(nobody as TenantId, {})],
        ["There is no application", management.listKeys(tenantId, { applicationId: nobody as ApplicationId })],
        [`There is no API key ${nobody} in this tenant.`, management.getKey(tenantId, nobody as ApiKeyId)],
        [`There is no mailbox ${nobody} in this tenant.`, management.getMailbox(tenantId, nobody as MailboxId)],
        ["There is no application", management.issueKey(ada, { ...key, applicationId: nobody as ApplicationId })],
        ["There is no domain b.example in this tenant.", management.createMailbox(ada, { tenantId, address: address("a@b.example"), displayName: "" })],
        ["id is the nil UUID", management.createTenant(ada, { id: installation, name: "n", planId: "standard" })],
        ["name wants 1 to 200 characters.", management.createTenant(ada, { name: " ", planId: "standard" })],
        ["name wants 1 to 200 characters.", management.updateTenant(ada, tenantId, { name: "é".repeat(201) })],
        ["name wants 1 to 200 characters.", management.createApplication(ada, { tenantId, environment: "sandbox", name: "" })],
        ["name holds a control character", management.updateApplication(ada, tenantId, application.id, { name: "a\u001b[31m" })],
        ["name holds a control character", management.updateKey(ada, tenantId, apiKey.id, { name: "a\u202eb" })],
        ["actor wants 1 to 200 characters.", management.setTenantStatus({ type: "operator", id: "" }, tenantId, "suspended")],
        ["keyRequestsPerMinute wants a whole number from 1 to", management.updatePlan(ada, "standard", { keyRequestsPerMinute: 0 })],
        ["recipientsPerDay wants a whole number from 1 to", management.createPlan(ada, { id: "free", recipientsPerDay: 1.5 })],
        ["tenantRequestsPerDay is missing", management.createPlan(ada, { id: "new", keyRequestsPerMinute: 1, recipientsPerDay: 1 })],
        ["id wants 1 to 63 letters", management.createPlan(ada, { id: "a b", keyRequestsPerMinute: 1, tenantRequestsPerDay: 1, recipientsPerDay: 1 })],
        ["A plan with this id exists already.", management.createPlan(ada, { id: "standard" })],
        ["name wants 1 to 200 characters.", management.issueKey(ada, { ...key, name: "" })],
        ["scopes holds \"messages:sent\", which is no scope; there are mailboxes:read, ", management.issueKey(ada, { ...key, scopes: ["messages:sent" as Scope] })],
        [`scopes holds "${"s".repeat(60)}", which`, management.issueKey(ada, { ...key, scopes: ["s".repeat(61) as Scope] })],
        ["text is no API key of the environment sandbox.", management.issueKey(ada, { ...key, text: Redacted.make("svc_test_") })],
        ["text is no API key of the environment sandbox.", management.issueKey(ada, { ...key, text: live.text })],
        ["An API key with this publicId exists already.", management.issueKey(ada, { ...key, text })],
        ["expiresAt lies in the past.", management.issueKey(ada, { ...key, expiresAt: now })],
        ["expiresAt lies behind 9999-12-31, the last day there is", management.issueKey(ada, { ...key, expiresAt: 253_402_300_800_000 })],
        ["expiresAt wants a whole number", management.issueKey(ada, { ...key, expiresAt: now + 0.5 })],
        ["overlap is longer than 90 days", management.rotateKey(ada, tenantId, apiKey.id, { overlap: 90 * 86_400_000 + 1 })],
        ["overlap wants a whole number from 0 to", management.rotateKey(ada, tenantId, apiKey.id, { overlap: 0.5 })],
        ["limit wants a whole number from 1 to 1000.", management.listTenants({ limit: 0 })],
        ["limit wants a whole number from 1 to 1000.", management.listApplications(tenantId, { limit: 1_001 })],
        ["after names nothing in this list.", management.listApplications(tenantId, { after: nobody })],
        ["after names nothing in this list.", management.listTenants({ after: nobody })],
        ["after names nothing in this list.", management.listTenants({ after: "tenant" })],
        ["after is the number of no item", management.listAudit(tenantId, { after: nobody })]
      ]
      const before = yield* acts(tenantId)

      for (const [says, effect] of refused) assert.include((yield* Effect.flip(effect)).message, says)

      assert.deepStrictEqual(yield* acts(tenantId), before)
    })
  )

  managed(
    "lists page by page, and says whether there is more",
    Effect.gen(function* () {
      const { management, tenantId, application } = yield* founded
      const names = ["b", "c"]
      for (const name of names) yield* management.createApplication(ada, { tenantId, environment: "production", name })
      for (const name of names) yield* management.createTenant(ada, { name, planId: "standard" })

      const first = yield* management.listApplications(tenantId, { limit: 2 })
      const rest = yield* management.listApplications(tenantId, { after: first.items[1]!.id })
      assert.isFalse((yield* management.listApplications(tenantId, { limit: 3 })).hasMore)
      assert.deepStrictEqual([first.items.map(({ name }) => name), first.hasMore], [["Billing", "b"], true])
      assert.deepStrictEqual([rest.items.map(({ name }) => name), rest.hasMore], [["c"], false])
      const tenants = yield* management.listTenants({ limit: 2 })
      const others = yield* management.listTenants({ after: tenants.items[1]!.id, limit: 1 })
      assert.deepStrictEqual([tenants.items.length, tenants.hasMore, others.items.length, others.hasMore], [2, true, 1, false])
      const newest = yield* management.listAudit(tenantId, { limit: 1 })
      assert.deepStrictEqual([newest.items[0]!.action, newest.hasMore], ["application.create", true])
      const older = yield* management.listAudit(tenantId, { after: String(newest.items[0]!.number) })
      const whole = yield* management.listAudit(tenantId, {})
      assert.deepStrictEqual([older.items, older.hasMore], [whole.items.slice(1), false])
      assert.doesNotThrow(() => JSON.stringify(whole), "whoever embeds it answers with it")
      assert.deepStrictEqual(yield* management.getApplication(tenantId, application.id), application)
    })
  )

  managed(
    "lets two operators change one record at a time, and holds one to the version that was looked at",
    Effect.gen(function* () {
      const { management, tenantId } = yield* founded
      yield* management.createPlan(ada, { id: "scale" })
      const seen = yield* management.getTenant(tenantId)

      yield* Effect.all(
        [
          management.updateTenant(ada, tenantId, { name: "Engines" }),
          management.updateTenant(ada, tenantId, { planId: "scale" }),
          management.setTenantStatus(ada, tenantId, "suspended")
        ],
        { concurrency: "unbounded" }
      )

      const now = yield* management.getTenant(tenantId)
      assert.deepStrictEqual(now, { ...seen, name: "Engines", planId: "scale", status: "suspended", version: 4 })
      const stale = yield* Effect.flip(management.updateTenant(ada, tenantId, { name: "Mine", version: seen.version }))
      assert.deepInclude(stale, { _tag: "StaleVersion", version: 4 })
      assert.strictEqual((yield* management.updateTenant(ada, tenantId, { name: "Mine", version: 4 })).version, 5)
    })
  )

  managed(
    "are left as they are, whatever they are, by who has decided on another version",
    Effect.gen(function* () {
      const { management, tenantId, application, issue } = yield* founded
      const { apiKey } = yield* issue()
      const domain = yield* management.createDomain(ada, { tenantId, domain: domainName("a.example") })
      const mailbox = yield* management.createMailbox(ada, { tenantId, address: address("a@a.example"), displayName: "" })
      const [before, changed] = [yield* acts(tenantId), { name: "Mine", displayName: "Mine", version: 7 }]

      for (const [what, stale] of [
        [`tenant ${tenantId}`, management.updateTenant(ada, tenantId, changed)],
        [`application ${application.id}`, management.updateApplication(ada, tenantId, application.id, changed)],
        [`API key ${apiKey.id}`, management.updateKey(ada, tenantId, apiKey.id, changed)],
        [`mailbox ${mailbox.id}`, management.updateMailbox(ada, tenantId, mailbox.id, changed)],
        [`mailbox ${mailbox.id}`, management.removeMailbox(ada, tenantId, mailbox.id, changed)],
        [`domain ${domain.id}`, management.removeDomain(ada, tenantId, domain.id, changed)]
      ] as ReadonlyArray<readonly [string, Effect.Effect<unknown, { readonly message: string }>]>) {
        assert.include((yield* Effect.flip(stale)).message, `The ${what} has changed meanwhile: it is at version 1.`)
      }
      assert.deepStrictEqual(yield* acts(tenantId), before)
    })
  )
})

describe("API keys", () => {
  managed(
    "rotates a key with an overlap: both are admitted until it ends, and the old one no longer",
    Effect.gen(function* () {
      const { management, tenantId, issue } = yield* founded
      const old = yield* issue()
      yield* Store.use(({ commit }) => commit([{ _tag: "TouchApiKeys", used: [{ id: old.apiKey.id, at: 0 }] }], []))

      yield* TestClock.adjust(1)

      const { apiKey, text, replaced } = yield* management.rotateKey(ada, tenantId, old.apiKey.id, { overlap: 3_600_000 })

      assert.deepStrictEqual([apiKey.name, apiKey.scopes, apiKey.applicationId], [old.apiKey.name, scopes, old.apiKey.applicationId])
      assert.deepStrictEqual([apiKey.expiresAt, replaced.expiresAt], [null, (yield* Clock.currentTimeMillis) + 3_600_000])
      assert.deepStrictEqual([apiKey.lastUsedAt, replaced.lastUsedAt, apiKey.createdAt, replaced.createdAt], [null, 0, 1, 0])
      yield* TestClock.adjust(3_599_999)
      assert.deepStrictEqual([yield* admitted(old.text), yield* admitted(text)], ["admitted", "admitted"])
      yield* TestClock.adjust(1)
      assert.deepStrictEqual([yield* admitted(old.text), yield* admitted(text)], ["expired", "admitted"])
      assert.strictEqual((yield* management.getKey(tenantId, old.apiKey.id)).state, "expired")
    })
  )

  managed(
    "does not lengthen a key's life by rotating it, and wants to be told when the new one ends",
    Effect.gen(function* () {
      const { management, tenantId, issue } = yield* founded
      const { apiKey } = yield* issue({ expiresAt: 60_000 })
      const rotate = (expiresAt?: number | null) =>
        management.rotateKey(ada, tenantId, apiKey.id, { overlap: 3_600_000, ...(expiresAt === undefined ? {} : { expiresAt }) })

      assert.deepInclude(yield* Effect.flip(rotate()), { _tag: "InvalidInput", field: "expiresAt" })
      assert.strictEqual((yield* issue({ expiresAt: 253_402_300_799_999 })).apiKey.expiresAt, 253_402_300_799_999, "the last moment there is")
      const never = yield* rotate(null)
      const until = yield* rotate(500_000)

      assert.deepStrictEqual([never.apiKey.expiresAt, until.apiKey.expiresAt, until.replaced.expiresAt], [null, 500_000, 60_000])
      yield* TestClock.adjust(60_000)
      assert.deepInclude(yield* Effect.flip(rotate(null)), { _tag: "KeyEnded", how: "expired" })
      yield* management.revokeKey(ada, tenantId, never.apiKey.id)
      const over = management.rotateKey(ada, tenantId, never.apiKey.id, { overlap: 0 })
      assert.deepInclude(yield* Effect.flip(over), { _tag: "KeyEnded", how: "revoked" })
    })
  )

  managed(
    "refuses a revoked key at the next request, though it was just admitted",
    Effect.gen(function* () {
      const { management, tenantId, issue } = yield* founded
      const { apiKey, text } = yield* issue()
      assert.strictEqual(yield* admitted(text), "admitted")

      assert.strictEqual((yield* management.revokeKey(ada, tenantId, apiKey.id)).state, "revoked")

      assert.strictEqual(yield* admitted(text), "revoked")
    })
  )

  managed(
    "tells of a key what would become of a request, and never its hash",
    Effect.gen(function* () {
      const { management, tenantId, application, issue } = yield* founded
      const { apiKey, text } = yield* issue()
      const state = Effect.map(management.getKey(tenantId, apiKey.id), (key) => key.state)

      yield* management.setTenantStatus(ada, tenantId, "suspended")
      assert.deepStrictEqual([yield* state, yield* admitted(text)], ["tenant_suspended", "tenant"])
      const twice = { tenantId, applicationId: application.id, name: "k", scopes: ["messages:read", "messages:read"] } as const
      const issued = yield* management.issueKey(ada, twice)
      assert.deepStrictEqual([issued.apiKey.state, issued.apiKey.scopes], ["tenant_suspended", ["messages:read"]])
      yield* management.setApplicationStatus(ada, tenantId, application.id, "suspended")
      assert.deepStrictEqual([yield* state, yield* admitted(text)], ["application_suspended", "application"])
      assert.strictEqual((yield* management.listKeys(tenantId, {})).items[0]!.state, "application_suspended")
      yield* management.setTenantStatus(ada, tenantId, "active")
      yield* management.setApplicationStatus(ada, tenantId, application.id, "active")
      assert.deepStrictEqual([yield* state, yield* admitted(text)], ["active", "admitted"])
      const { id: other } = yield* management.createApplication(ada, { tenantId, environment: "production", name: "Other" })
      yield* management.issueKey(ada, { ...twice, applicationId: other })
      const { items } = yield* management.listKeys(tenantId, { applicationId: application.id })
      assert.deepStrictEqual(items.map((key) => key.state), ["active", "active"])
      assert.notInclude(JSON.stringify(items), "argon2")
    })
  )

  it.effect("tells the text of a key whose commit landed though the store did not say so", () =>
    Effect.gen(function* () {
      const context = yield* Layer.build(ports)
      const store = Context.get(context, Store)
      let isCut = false
      const cut: typeof store.commit = (changes, jobs) =>
        Effect.flatMap(store.commit(changes, jobs), (committed) =>
          isCut ? Effect.fail(new StoreUnavailable({ cause: "cut" })) : Effect.succeed(committed)
        )
      const deaf = Context.add(context, Store, { ...store, commit: cut })

      yield* Effect.gen(function* () {
        const { management, tenantId, issue } = yield* founded
        isCut = true
        const issued = yield* issue()
        const rotated = yield* management.rotateKey(ada, tenantId, issued.apiKey.id, { overlap: 60_000 })

        for (const { text } of [issued, rotated]) assert.strictEqual(yield* admitted(text), "admitted")
      }).pipe(
        Effect.provide(Layer.mergeAll(Management.layer, Access.layer).pipe(Layer.provide(RequestLog.layer))),
        Effect.provide(deaf)
      )
    })
  )
})

describe("mailboxes", () => {
  it.effect("are paged, as domains are, by reads of no more than the page", () =>
    Effect.gen(function* () {
      const context = yield* Layer.build(ports)
      const store = Context.get(context, Store)
      const whole = () => Effect.die("not asked")
      const paged = Context.add(context, Store, {
        ...store,
        mailboxes: { ...store.mailboxes, list: whole },
        domains: { ...store.domains, list: whole }
      })

      yield* Effect.gen(function* () {
        const { management, tenantId } = yield* founded
        const [one, two] = yield* Effect.forEach(["a.example", "b.example"], (name) => management.createDomain(ada, { tenantId, domain: domainName(name) }))
        const boxes = yield* Effect.forEach(["a@a.example", "b@b.example", "c@a.example", "d@a.example"], (text) =>
          management.createMailbox(ada, { tenantId, address: address(text), displayName: "" })
        )
        const shown = ({ items, hasMore }: { readonly items: ReadonlyArray<{ readonly address: string }>; readonly hasMore: boolean }) =>
          `${items.map((item) => item.address[0]).join("")}${hasMore ? " …" : ""}`

        assert.strictEqual(shown(yield* management.listMailboxes(tenantId, {})), "abcd")
        assert.strictEqual(shown(yield* management.listMailboxes(tenantId, { limit: 2 })), "ab …")
        assert.strictEqual(shown(yield* management.listMailboxes(tenantId, { limit: 2, after: boxes[1]!.id })), "cd")
        assert.strictEqual(shown(yield* management.listMailboxes(tenantId, { limit: 2, domainId: one!.id })), "ac …")
        assert.strictEqual(shown(yield* management.listMailboxes(tenantId, { after: boxes[0]!.id, domainId: one!.id })), "cd")
        const domains = yield* management.listDomains(tenantId, { limit: 1 })
        assert.deepStrictEqual([domains.items.map(({ domain, mailboxCount }) => [domain.id, mailboxCount]), domains.hasMore], [[[one!.id, 3]], true])
        const rest = yield* management.listDomains(tenantId, { limit: 1, after: one!.id })
        assert.deepStrictEqual([rest.items.map(({ domain, mailboxCount }) => [domain.id, mailboxCount]), rest.hasMore], [[[two!.id, 1]], false])

        const { id: other } = yield* management.createTenant(ada, { name: "Difference Engines", planId: "standard" })
        const refusals = yield* Effect.all([
          Effect.flip(management.listMailboxes(tenantId, { after: nobody })),
          Effect.flip(management.listMailboxes(tenantId, { after: boxes[1]!.id, domainId: one!.id })),
          Effect.flip(management.listMailboxes(other, { after: boxes[1]!.id })),
          Effect.flip(management.listDomains(tenantId, { after: nobody })),
          Effect.flip(management.listDomains(other, { after: one!.id }))
        ])
        for (const { message } of refusals) assert.strictEqual(message, "after names nothing in this list.")
      }).pipe(Effect.provide(Management.layer), Effect.provide(paged))
    })
  )

  it.effect("are made by a look at their domain alone, which is the tenant's own", () =>
    Effect.gen(function* () {
      const context = yield* Layer.build(ports)
      const store = Context.get(context, Store)
      const unlisted = Context.add(context, Store, { ...store, domains: { ...store.domains, list: () => Effect.die("not asked") } })

      yield* Effect.gen(function* () {
        const { management, tenantId } = yield* founded
        const domain = domainName("mail.example")
        const { id: domainId } = yield* management.createDomain(ada, { tenantId, domain })
        const { id: other } = yield* management.createTenant(ada, { name: "Difference Engines", planId: "standard" })
        const boxOf = (of: TenantId, text: string) => management.createMailbox(ada, { tenantId: of, address: address(text), displayName: "" })

        assert.strictEqual((yield* boxOf(tenantId, "ada@mail.example")).domainId, domainId)
        assert.strictEqual((yield* management.domainNamed(tenantId, domain)).id, domainId)
        const refusals = yield* Effect.all([Effect.flip(boxOf(other, "eve@mail.example")), Effect.flip(management.domainNamed(other, domain))])
        for (const { message } of refusals) assert.strictEqual(message, "There is no domain mail.example in this tenant.")
      }).pipe(Effect.provide(Management.layer), Effect.provide(unlisted))
    })
  )
})

describe("WebhookManagement", () => {
  managed(
    "knows no endpoint of another tenant, and of none that is there",
    Effect.gen(function* () {
      const { tenantId, application } = yield* founded
      const webhooks = yield* WebhookManagement
      const says = `There is no webhook endpoint ${nobody} in this tenant.`

      assert.strictEqual((yield* Effect.flip(webhooks.getEndpoint(tenantId, nobody as EndpointId))).message, says)
      assert.strictEqual((yield* Effect.flip(webhooks.testEndpoint(ada, tenantId, nobody as EndpointId))).message, says)
      assert.deepStrictEqual(yield* webhooks.listEndpoints(tenantId, { applicationId: application.id }), { items: [], hasMore: false })
      assert.deepInclude(yield* Effect.flip(webhooks.listEndpoints(nobody as TenantId, {})), { what: "tenant" })
    })
  )
})
