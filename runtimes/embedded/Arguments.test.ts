/** What a program in JavaScript may give to a call by mistake: it is told, by name, and nothing is done. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { inspect } from "node:util"
import { embed, found, operator, rejectionOf } from "./harness.ts"
import { parseAddress, plans, type EmbeddedMailroom } from "./index.ts"

type Called = Readonly<Record<string, (...args: ReadonlyArray<unknown>) => Promise<unknown>>>

/** As JavaScript can call it. */
const untyped = (service: EmbeddedMailroom["management"] | EmbeddedMailroom["webhookManagement"]) => service as unknown as Called

const [plan] = plans
const wrong: ReadonlyArray<readonly [call: string, args: ReadonlyArray<unknown>, fault: string]> = [
  ["putPlan", [{ ...plan, requestsPerDay: 3 }], "plan.requestsPerDay is not known; there are id, keyRequestsPerMinute, tenantRequestsPerDay, recipientsPerDay"],
  ["putPlan", [{ ...plan, recipientsPerDay: "3" }], "plan.recipientsPerDay is something else; it wants a number"],
  ["createPlan", [operator, { id: "mine", recipientsPerDays: 3 }], "plan.recipientsPerDays is not known; "],
  ["listTenants", [{ limt: 3 }], "query.limt is not known; there are after, limit"],
  ["listTenants", [3], "query is something else; it wants { after, limit }"],
  ["createTenant", ["ada", { name: "x", planId: "free" }], "actor is something else; it wants { type, id }"],
  ["createTenant", [{ typ: "operator", id: "ada" }, { name: "x", planId: "free" }], "actor.type is not given; it wants `api_key` or `operator` or `system`"],
  ["createTenant", [operator, { name: 3, planId: "free", plan: "free" }], "input.name is something else; it wants a text\nmanagement.createTenant: input.plan is not known; "],
  ["createApplication", [operator, { tenantId: "t", environment: "staging", name: "x" }], "input.environment is something else; it wants `sandbox` or `production`"],
  ["setTenantStatus", [operator, "t", "closed"], "status is something else; it wants `active` or `suspended`"],
  ["issueKey", [operator, { tenantId: "t", applicationId: "a", name: "k", scopes: "messages:send" }], "input.scopes is something else; it wants a list of texts"],
  ["issueKey", [operator, { tenantId: "t", applicationId: "a", name: "k", scopes: [], text: "svc_live_x" }], "input.text is something else; it wants a text that is `Redacted`"],
  ["createDomain", [operator, { tenantId: "t", domain: "not a domain" }], "input.domain is something else; it wants a domain name, as `parseDomain` makes it"],
  ["createMailbox", [operator, { tenantId: "t", address: "Ada <ada@mail.example>", displayName: "Ada" }], "input.address is something else; it wants an address"],
  ["createDomain", [operator, { tenantId: "t", domain: "Mail.Example" }], "input.domain is something else; it wants a domain name, as `parseDomain` makes it"],
  ["createMailbox", [operator, { tenantId: "t", address: "ada@Mail.Example", displayName: "Ada" }], "input.address is something else; it wants an address"],
  ["recordChecks", ["t", "d", {}], "checks wants a list"],
  ["recordChecks", ["t", "d", [{ record: "owner", state: "fine", expected: "", observed: null, since: 0 }]], "checks[0].record is something else; it wants `ownership` or "],
  ["setCatchAll", [operator, "t", "d"], "mailboxId is not given; it wants a text"],
  ["addSuppression", [operator, { tenantId: "t" }, parseAddress("ada@mail.example")], "realm.environment is not given; it wants `sandbox` or `production`"]
]

describe("the calls of an embedded Mailroom", () => {
  for (const [call, args, fault] of wrong) {
    it(`refuse ${call}(${args.map((arg) => inspect(arg, { breakLength: Infinity })).join(", ").slice(0, 80)})`, async () => {
      const { management } = await embed()

      const error = await rejectionOf(untyped(management)[call]!(...args))

      assert.instanceOf(error, TypeError)
      assert.isTrue(error.message.startsWith(`management.${call}: ${fault}`), error.message)
    })
  }

  it("refuse to be called without anything, and name what they want", async () => {
    const { management, webhookManagement } = await embed()
    for (const [name, service] of Object.entries({ management, webhookManagement })) {
      for (const [call, member] of Object.entries(untyped(service))) {
        if (call === "listPlans") continue // it wants nothing
        const error = await rejectionOf(member())

        assert.instanceOf(error, TypeError, call)
        assert.match(error.message, new RegExp(`^${name}\\.${call}: \\w+ (is not given; it )?wants `))
      }
    }
  })

  it("leave everything as it was", async () => {
    const mailroom = await embed()
    const { tenantId } = await found(mailroom)
    const trail = () => mailroom.management.listAudit(tenantId, {})
    const before = await trail()

    for (const args of [[operator, { tenantId, domain: "not a domain" }], [operator, { tenantId, domain: "a.example", owner: "ada" }]]) {
      assert.instanceOf(await rejectionOf(untyped(mailroom.management)["createDomain"]!(...args)), TypeError)
    }

    assert.deepStrictEqual(await trail(), before)
  })

  it("take what they have handed out", async () => {
    const { management } = await embed()
    await management.putPlan(plans[0]!)
    const [kept] = await management.listPlans()
    await management.putPlan(kept!)
    const { id: tenantId } = await management.createTenant(operator, { name: "x", planId: kept!.id })
    // A realm is whatever has its two members.
    const application = await management.createApplication(operator, { tenantId, environment: "sandbox", name: "y" })

    assert.deepStrictEqual((await management.listSuppressions(application, {})).items, [])
  })
})

describe("the intakes of an embedded Mailroom", () => {
  for (const made of [undefined, {}, "intakes", [3], [{ name: "ses" }], [{ name: "", receive: () => {} }]]) {
    it(`are refused that are ${inspect(made)}`, async () => {
      const error = await rejectionOf(embed({ intakes: Effect.succeed(made as never) })) // as JavaScript can give it

      assert.instanceOf(error, TypeError)
      assert.match(error.message, /^intakes is an Effect that makes something else; it wants a list of NotificationIntakes/)
    })
  }
})
