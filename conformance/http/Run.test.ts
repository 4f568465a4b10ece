/** The suite on trial: it passes on this service, and notices each way in which a service could be broken. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Clock, Context, Effect, Layer, Logger, Redacted, Result } from "effect"
import { HttpServer } from "effect/http"
import * as YAML from "yaml"
import * as EicarScanner from "../../adapters/eicar/EicarScanner.ts"
import { MemoryBlobStore, MemoryJobQueue, MemoryRateLimiter, MemoryStore } from "../../adapters/memory/index.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import * as NodeResolver from "../../adapters/node/NodeResolver.ts"
import * as RfcMime from "../../adapters/mime/RfcMime.ts"
import * as SandboxMailProvider from "../../adapters/sandbox/SandboxMailProvider.ts"
import * as UndiciWebhookTransport from "../../adapters/undici/UndiciWebhookTransport.ts"
import * as Mailroom from "../../core/Mailroom.ts"
import * as Address from "../../core/model/Address.ts"
import { type Scope, scopes } from "../../core/model/ApiKey.ts"
import type { Actor } from "../../core/model/Audit.ts"
import type { Environment, TenantId } from "../../core/model/Ids.ts"
import * as Limits from "../../core/model/Limits.ts"
import { Management } from "../../core/operations/Management.ts"
import * as Loops from "../../core/Loops.ts"
import { MailProviders } from "../../core/ports/MailProvider.ts"
import { defaults, Settings } from "../../core/Settings.ts"
import { listen } from "../../runtimes/cli/Receiver.ts"
import * as Http from "../../runtimes/http/index.ts"
import { type Options, type Receiver, type Report, run, suites, type Target, toText } from "./index.ts"
import * as CorruptMail from "./CorruptMail.ts"
import * as CorruptRequests from "./CorruptRequests.ts"
import { mutated } from "./Corruption.ts"

const actor: Actor = { type: "operator", id: "conformance" }

interface Service {
  readonly target: Target
  readonly keys: {
    readonly otherTenant: string
    readonly otherEnvironment: string
    readonly otherApplication: string
    readonly narrow: string
    readonly slow: string
  }
}

class Running extends Context.Service<Running, Service>()("mailroom/conformance/http/Running") {}

/** The whole service, as `dev` puts it together, with parties of every kind. */
const service = Layer.effect(
  Running,
  Effect.gen(function* () {
    const ports = Layer.mergeAll(
      MemoryStore.layer,
      MemoryJobQueue.layer,
      MemoryRateLimiter.layer,
      MemoryBlobStore.layer,
      NodeCrypto.layer({ sealingKeys: [{ version: 1, key: Redacted.make(new Uint8Array(32).fill(7)) }] }),
      RfcMime.layer,
      EicarScanner.layer,
      Layer.succeed(MailProviders, {
        sandbox: SandboxMailProvider.make({ delayedAfter: 1_500, lateBounceAfter: 1_500 }),
        production: null
      }),
      UndiciWebhookTransport.layer.pipe(Layer.provideMerge(NodeResolver.layer))
    )
    const settings = {
      ...defaults,
      ipRequestsPerMinute: 1_000_000,
      webhookTargets: { allowHttp: true, allowedBlocks: ["127.0.0.0/8"] }
    }
    const core = Mailroom.layer.pipe(Layer.provideMerge(ports), Layer.provide(Layer.succeed(Settings, settings)))
    const context = yield* Layer.build(
      Http.layer({ grace: "1 second" }).pipe(
        Layer.provideMerge(Http.Server.layer({ host: "127.0.0.1", port: 0, grace: "1 second" })),
        Layer.provideMerge(Loops.layer),
        Layer.provideMerge(core),
        Layer.provideMerge(Logger.layer([]))
      )
    )
    const { address } = Context.get(context, HttpServer.HttpServer)
    const management = Context.get(context, Management)
    yield* Effect.forEach(Limits.plans, (plan) => management.putPlan(plan))
    const tenant = Effect.fnUntraced(function* (planId: string) {
      const { id } = yield* management.createTenant(actor, { name: "Analytical Engines", planId })
      const domain = Result.getOrThrow(Address.parseDomain(`d${globalThis.crypto.randomUUID().slice(0, 18)}.example`))
      const { id: domainId } = yield* management.createDomain(actor, { tenantId: id, domain })
      const since = yield* Clock.currentTimeMillis
      const ok = (record: "ownership" | "dkim") => ({ record, state: "ok", expected: "", observed: "", since }) as const
      yield* management.recordChecks(id, domainId, [ok("ownership"), ok("dkim")])
      for (const local of ["ada", "charles"]) {
        const at = Result.getOrThrow(Address.parse(`${local}@${domain}`))
        yield* management.createMailbox(actor, { tenantId: id, address: at, displayName: local })
      }
      return id
    })
    const key = Effect.fnUntraced(
      function* (tenantId: TenantId, environment: Environment, granted: ReadonlyArray<Scope> = scopes) {
        const { id: applicationId } = yield* management.createApplication(actor, {
          tenantId,
          environment,
          name: "Application"
        })
        return Redacted.value(
          (yield* management.issueKey(actor, { tenantId, applicationId, name: "key", scopes: granted })).text
        )
      }
    )
    const own = yield* tenant("dev")
    return {
      target: {
        baseUrl: `http://127.0.0.1:${"port" in address ? address.port : 0}`,
        key: Redacted.make(yield* key(own, "sandbox")),
        otherKey: null,
        narrowKey: null,
        receiver: yield* listen({ host: "127.0.0.1", port: 0, publicUrl: null }),
        parseYaml: (text: string): unknown => YAML.parse(text),
        mayExhaustLimits: false
      },
      keys: {
        otherTenant: yield* key(yield* tenant("dev"), "sandbox"),
        otherEnvironment: yield* key(own, "production"),
        otherApplication: yield* key(own, "sandbox"),
        narrow: yield* key(own, "sandbox", ["mailboxes:read"]),
        slow: yield* key(yield* tenant("free"), "sandbox")
      }
    }
  }).pipe(Effect.orDie)
)

const quiet: Options = {
  filter: [],
  timeout: "60 seconds",
  onProgress: () => Effect.void,
  onInterrupt: () => Effect.void
}

const prove = (target: Target, options: Partial<Options> = {}) => run(target, { ...quiet, ...options })

const named = (report: Report, outcome: string) =>
  report.checks.filter((result) => result.outcome === outcome).map(({ suite, title }) => `${suite}: ${title}`)

/** A server that answers everything alike. */
const alike = (status: number, body: unknown): Target => ({
  baseUrl: "http://deployment.example",
  key: Redacted.make("svc_test_0123456789"),
  otherKey: Redacted.make("svc_test_9876543210"),
  narrowKey: Redacted.make("svc_test_5555555555"),
  receiver: null,
  parseYaml: null,
  mayExhaustLimits: true,
  fetch: () => Promise.resolve(Response.json(body, { status }))
})

layer(service, { excludeTestServices: true, timeout: "30 seconds" })("The HTTP suite", (it) => {
  const live = (title: string, effect: Effect.Effect<void, unknown, Running>) => it.effect(title, () => effect, 120_000)

  live(
    "passes on this service, and leaves out only what needs a minute's limit",
    Effect.gen(function* () {
      const { target, keys } = yield* Running
      const report = yield* prove({
        ...target,
        otherKey: Redacted.make(keys.otherTenant),
        narrowKey: Redacted.make(keys.narrow)
      })

      assert.deepStrictEqual(named(report, "failed"), [], toText(report))
      assert.deepStrictEqual(named(report, "not_applicable"), [
        "contract: every 429 of this run says when to come back: Retry-After, in seconds",
        "limits: requests beyond a minute's limit are answered 429 rate_limited, with when to come back"
      ])
      assert.strictEqual(report.passed + 2, suites.flatMap(({ checks }) => checks).length)
      assert.lengthOf(report.left, 2)
      assert.match(report.left[0]!, /^webhook endpoint .* ten failed attempts disable it$/)
      assert.match(report.left[1]!, /^2\d messages in the sandbox$/) // some twenty, as the command says of itself
    })
  )

  for (const [which, inapplicable] of [["otherEnvironment", 1], ["otherApplication", 5]] as const) {
    live(
      `proves isolation from ${which}, as far as there is any`,
      Effect.gen(function* () {
        const { target, keys } = yield* Running
        const report = yield* prove({ ...target, otherKey: Redacted.make(keys[which]) }, { filter: ["isolation:"] })

        assert.deepStrictEqual([report.passed, named(report, "failed"), report.notApplicable], [
          6 - inapplicable,
          [],
          inapplicable
        ])
      })
    )
  }

  live(
    "uses up a minute's limit if it is told to, and finds it kept",
    Effect.gen(function* () {
      const { target, keys } = yield* Running
      const report = yield* prove({ ...target, key: Redacted.make(keys.slow), mayExhaustLimits: true }, {
        filter: ["limits:", "every 429"]
      })

      assert.deepStrictEqual(named(report, "failed"), [])
      assert.strictEqual(report.passed, 1)
      assert.isAtMost(report.requests, 65)
    })
  )

  for (const { name, filter, beside, fetch, breaks } of [...CorruptRequests.corruptions, ...CorruptMail.corruptions]) {
    live(
      `notices ${name}`,
      Effect.gen(function* () {
        const { target, keys } = yield* Running
        const report = yield* prove(
          {
            ...target,
            otherKey: Redacted.make(keys.otherTenant),
            narrowKey: Redacted.make(keys.narrow),
            fetch: mutated(fetch)
          },
          { filter: [...beside, ...filter], timeout: "20 seconds" }
        )

        const judged = report.checks.filter((result) =>
          filter.some((part) => `${result.suite}: ${result.title}`.includes(part))
        )
        const failed = judged.filter(({ outcome }) => outcome === "failed")
        assert.isAbove(failed.length, 0, toText(report))
        for (const { law, title, reason } of failed) assert.match(`${law}: ${title}: ${reason}`, breaks)
        assert.notMatch(JSON.stringify(report), /svc_(test|live)_[0-9A-Za-z]{6}|whsec_[0-9A-Za-z]{6}/)
      })
    )
  }

  type Received = ReturnType<Receiver["received"]>[number]
  const header = (name: string, change: (value: string) => string) => (got: Received): Received => ({
    ...got,
    headers: { ...got.headers, [`service-webhook-${name}`]: change(got.headers[`service-webhook-${name}`] ?? "") }
  })
  const deliveries: ReadonlyArray<readonly [what: string, change: (got: Received) => Received, reason: RegExp]> = [
    ["in upper case", header("signature", (value) => `v1=${value.slice(3).toUpperCase()}`), /64 lower-case hex digits/],
    ["of another time", header("timestamp", (value) => String(Number(value) + 1)), /is the HMAC-SHA256/],
    ["in milliseconds", header("timestamp", (value) => `${value}000`), /in Unix seconds/],
    [
      "over another body",
      (got) => ({ ...got, body: new TextEncoder().encode(`${new TextDecoder().decode(got.body)} `) }),
      /is the HMAC/
    ],
    [
      "by somebody else",
      ({ headers, ...got }) => ({ ...got, headers: { ...headers, "user-agent": "node" } }),
      /method and headers/
    ]
  ]
  for (const [what, change, reason] of deliveries) {
    live(
      `notices a delivery that is signed ${what}`,
      Effect.gen(function* () {
        const { target } = yield* Running
        const receiver = {
          ...target.receiver!,
          received: (path: string) => target.receiver!.received(path).map(change)
        }
        const report = yield* prove({ ...target, receiver }, { filter: ["an event is delivered with its id"] })

        assert.strictEqual(report.failed, 1)
        assert.match(report.checks[0]!.reason!, reason)
        assert.match(
          report.checks[0]!.exchanges[0]!.request,
          /^POST \(to the receiver\)\n[^]*service-webhook-signature: v1=/
        )
      })
    )
  }
})

describe("The HTTP suite", () => {
  const clueless = ([
    [200, {}],
    [400, {
      code: "invalid_request",
      message: "No.",
      requestId: "0199d6a0-7c4e-7b1a-9f3d-0000000000d4",
      error: "Bad Request",
      details: {}
    }]
  ] as const).map(([status, body]) => alike(status, body))

  it.live("has no check that a server passes which answers everything alike", () =>
    Effect.gen(function* () {
      const passed = yield* Effect.forEach(clueless, (target) =>
        Effect.map(prove(target), (report) => new Set(named(report, "passed"))))

      const unshaken = [...passed[0]!].filter((name) =>
        passed[1]!.has(name)
      )
      assert.deepStrictEqual(unshaken.filter((name) => !name.includes("of this run")), [])
    }), 60_000)

  it.live("waits as long as a 429 says, and asks again", () =>
    Effect.gen(function* () {
      const [target] = clueless
      const said: Array<string> = []
      let asked = 0
      const busy = { code: "rate_limited", message: "", requestId: "", details: { scope: "key" } }
      const fetch = () =>
        Promise.resolve(
          ++asked % 2 === 1 ?
            Response.json(busy, { status: 429, headers: { "retry-after": "1" } }) :
            Response.json({ items: [] })
        )

      const report = yield* prove({ ...target!, otherKey: null, narrowKey: null, fetch }, {
        filter: ["mailboxes have an id"],
        onProgress: (progress) => Effect.sync(() => void said.push(progress._tag))
      })

      assert.deepStrictEqual([report.passed, report.failed, asked], [1, 0, 4])
      assert.deepStrictEqual(said, ["Waiting", "Started", "Waiting", "Ended"])
      assert.isAtLeast(report.pacedMs, 2_000)
      assert.isBelow(report.checks[0]!.durationMs, 500)
    }), 20_000)

  it.live("does not wait for another day, and says that it could not judge", () =>
    Effect.gen(function* () {
      let asked = 0
      const busy = { code: "rate_limited", details: { scope: "tenant_day" } }
      const fetch = () =>
        Promise.resolve(
          ++asked === 1 ?
            Response.json({ items: [] }) :
            Response.json(busy, { status: 429, headers: { "retry-after": "40000" } })
        )

      const report = yield* prove({ ...clueless[0]!, otherKey: null, narrowKey: null, fetch }, {
        filter: ["mailboxes have an id"]
      })

      assert.deepStrictEqual([report.failed, report.checks[0]!.reason], [
        1,
        "the deployment asks to wait 40000 s (tenant_day), and the run ends sooner"
      ])
    }))

  it.live("gives up on a check that takes too long, and goes on", () =>
    Effect.gen(function* () {
      let asked = 0
      const fetch: typeof globalThis.fetch = (_, init) =>
        ++asked === 2 ?
          new Promise((_, reject) => {
            init?.signal?.addEventListener("abort", () => reject(new Error("aborted")))
          }) :
          Promise.resolve(Response.json({ items: [] }))

      const report = yield* prove({ ...clueless[0]!, otherKey: null, narrowKey: null, fetch }, {
        filter: ["mailboxes:"],
        timeout: "300 millis"
      })

      assert.deepStrictEqual(report.checks.map(({ outcome }) => outcome), ["failed", "passed", "passed"])
      assert.strictEqual(report.checks[0]!.reason, "not judged within 300ms")
    }))

  it.live("ends when nobody answers any more, with what it has found", () =>
    Effect.gen(function* () {
      let asked = 0
      const fetch = () => (++asked < 3 ?
        Promise.resolve(Response.json({ items: [] })) :
        Promise.reject(new TypeError("fetch failed", { cause: new Error("ECONNREFUSED") })))

      const error = yield* Effect.flip(
        prove({ ...clueless[0]!, otherKey: null, narrowKey: null, fetch }, { filter: ["mailboxes:"] })
      )

      assert.strictEqual(error._tag, "Unreachable")
      if (error._tag !== "Unreachable") return
      assert.match(error.message, /^GET \/v1\/mailboxes: ECONNREFUSED$/)
      assert.deepStrictEqual([error.report?.passed, error.report?.failed, error.report?.notRun], [1, 1, 1])
    }))

  it.live("ends at the first answer that says which scopes the key lacks, whatever was judged before", () =>
    Effect.gen(function* () {
      const asked: Array<string> = []
      let interrupted = 0
      const fetch: typeof globalThis.fetch = (url, init) => {
        asked.push(`${init?.method} ${String(url)}`)
        const refusal = { code: "insufficient_scope", details: { required: ["events:read"], missing: ["events:read"] } }
        return Promise.resolve(asked.length < 3 ? Response.json({ items: [] }) : Response.json(refusal, { status: 403 }))
      }

      const error = yield* Effect.flip(
        prove({ ...clueless[0]!, otherKey: null, narrowKey: null, fetch }, {
          filter: ["mailboxes:"],
          onInterrupt: () => Effect.sync(() => void (interrupted += 1))
        })
      )

      assert.strictEqual(error._tag, "ScopesMissing")
      if (error._tag !== "ScopesMissing") return
      assert.deepStrictEqual(error.scopes, ["events:read"])
      assert.deepStrictEqual([asked.length, interrupted], [3, 0])
    }))

  it.live("sends nothing with a production key, and stores nothing", () =>
    Effect.gen(function* () {
      const asked: Array<string> = []
      const fetch: typeof globalThis.fetch = (_, init) => {
        asked.push(`${init?.method} ${String(init?.body)}`)
        return Promise.resolve(
          Response.json({ items: [{ id: globalThis.crypto.randomUUID(), address: "a@b.example", displayName: "" }] })
        )
      }
      const receiver = yield* listen({ host: "127.0.0.1", port: 0, publicUrl: null })
      const key = Redacted.make("svc_live_0123456789")
      const { checks } = yield* prove({ ...clueless[0]!, key, otherKey: null, narrowKey: null, receiver, fetch })

      const sendings = checks.filter(({ reason }) =>
        reason === "a production key would send real mail, or leave something"
      )
      assert.isAbove(sendings.length, 40)
      assert.isFalse(asked.some((request) => request.includes(receiver.urlOf(""))))
    }).pipe(Effect.scoped), 60_000)
})
