/** The run that proves adapters outside a test runner: here on adapters whose verdict is known. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Redacted, type Duration } from "effect"
import { TestClock } from "effect/testing"
import * as MemoryJobQueue from "../adapters/memory/MemoryJobQueue.ts"
import { JobQueue } from "../core/ports/JobQueue.ts"
import { suite as jobQueue } from "./JobQueue.ts"
import { conforms, plays, prove, scenarios, toText, type Proof } from "./Proof.ts"
import type { AdapterSet } from "./scenarios/World.ts"
import { NotApplicable, type Suite } from "./Suite.ts"

const run = (proofs: ReadonlyArray<Proof>, filter: ReadonlyArray<string> = [], timeout: Duration.Input = "1 minute") => {
  const told: Array<string> = []
  const onResult = ({ title, outcome }: { readonly title: string; readonly outcome: string }, number: number, total: number) =>
    Effect.sync(() => void told.push(`${number}/${total} ${title}: ${outcome}`))
  return Effect.map(prove(proofs, { filter, timeout, onResult }), (report) => ({ report, told }))
}

const two: Suite<never> = {
  name: "Two",
  checks: [
    { title: "holds", check: Effect.void },
    { title: "is broken", check: Effect.fail("because") }
  ]
}

describe("a proof", () => {
  it.live("holds an adapter to every check of its suite, and tells of each", () =>
    Effect.gen(function* () {
      const { report, told } = yield* run([conforms("memory", jobQueue, MemoryJobQueue.layer)])

      assert.strictEqual(report.failed, 0)
      assert.strictEqual(report.passed, jobQueue.checks.length)
      assert.deepStrictEqual(report.checks.map(({ title }) => title), jobQueue.checks.map(({ title }) => title))
      assert.strictEqual(told.length, jobQueue.checks.length)
    }))

  it("wants a suite, and says of one that was not called with its options what is to be done", () => {
    const given = (suite: unknown) => () => conforms("mine", suite as Suite<never>, Layer.empty)

    assert.throws(given(undefined), TypeError, 'conforms("mine", …) wants a suite')
    assert.throws(given(() => two), TypeError, 'conforms("mine", …) wants a suite, and not a function: this one is called with options first, as in blobStore({ corrupt, held }), or with the layer of an adapter, as in storeAgreement(MemoryStore.layer)')
  })

  it.live("names the law that was broken, and what broke it", () =>
    Effect.gen(function* () {
      const { report, told } = yield* run([conforms("mine", two, Layer.empty)])

      assert.deepStrictEqual(told, ["1/2 holds: passed", "2/2 is broken: failed"])
      assert.match(toText(report), /^FAILED {2}mine breaks a law of Two:\n {8}is broken\n {10}because\n\n1 passed, 1 failed, in \d+\.\d s\n$/)
    }))

  it.live("says which laws could not be judged, and why, and fails none of them", () =>
    Effect.gen(function* () {
      const checks = [{ title: "wants more", check: Effect.fail(new NotApplicable({ reason: "it is not there" })) }, two.checks[0]!]
      const { report, told } = yield* run([conforms("mine", { name: "Two", checks }, Layer.empty)])

      assert.deepStrictEqual(told, ["1/2 wants more: not_applicable", "2/2 holds: passed"])
      assert.deepStrictEqual([report.passed, report.failed, report.notApplicable], [1, 0, 1])
      assert.match(toText(report), /^NOT APPLICABLE {2}mine, Two: wants more\n {10}it is not there\n\n1 passed, 0 failed, 1 not applicable, in \d+\.\d s\n$/)
    }))

  it.live("tells the step of a law that failed by its place in the suite", () =>
    Effect.gen(function* () {
      const neverCompletes = Effect.map(JobQueue, (queue) => JobQueue.of({ ...queue, complete: () => Effect.void }))
      const mine = Layer.effect(JobQueue, neverCompletes).pipe(Layer.provide(MemoryJobQueue.layer))
      const { report } = yield* run([conforms("mine", jobQueue, mine)])

      const reasons = report.checks.flatMap(({ reason }) => reason ?? [])
      assert.isNotEmpty(reasons)
      assert.isNotEmpty(reasons.filter((reason) => /\nat line \d+ of conformance\/JobQueue\w*\.ts$/.test(reason)))
    }))

  it.live("tells where the author's own code broke, and all that is behind it", () =>
    Effect.gen(function* () {
      const checks = [
        "at receive (file:///srv/my%20mail/acme.ts:54:14)",
        "at async /srv/my mail/acme.ts:54:14",
        String.raw`at Object.receive (C:\mail\acme.ts:54:14)`
      ].map((frame) => {
        const inner = new Error("connection refused")
        inner.stack = `Error: connection refused\n    at parse (node:net:9:9)\n    at call (/srv/my mail/node_modules/driver/index.js:1:2)\n    ${frame}`
        const outer = new TypeError("no account", { cause: new Error("no answer", { cause: inner }) })
        outer.stack = "TypeError: no account\n    at outer (/srv/my mail/map.ts:3:4)\n    at check (/srv/node_modules/mailroom/dist/conformance/JobQueue.js:94:7)"
        return { title: frame, check: Effect.die(outer) }
      })
      const { report } = yield* run([conforms("mine", { name: "Acme", checks }, Layer.empty)])

      const why = (file: string) =>
        `no account\ncaused by no answer\ncaused by connection refused\nat line 54 of ${file}\nat line 94 of conformance/JobQueue.js`
      assert.deepStrictEqual(
        report.checks.map(({ reason }) => reason),
        ["/srv/my mail/acme.ts", "/srv/my mail/acme.ts", String.raw`C:\mail\acme.ts`].map(why)
      )
    }))

  it.live("takes what a message quotes for no place of its own, and a place that cannot be decoded as it stands", () =>
    Effect.gen(function* () {
      const quoting = (quoted: string, frame: string) => {
        const error = new Error(`no account\n    at ${quoted}:1:2`)
        error.stack = `Error: ${error.message}\n    at ${frame}:54:14`
        return { title: frame, check: Effect.die(error) }
      }
      const checks = [
        quoting("/etc/acme.conf", "/srv/acme.ts"),
        quoting("file:///etc/100%", "file:///srv/100%/acme.ts"),
        quoting("/etc/acme.conf", "file:///C:/my%20mail/acme.ts")
      ]
      const { report } = yield* run([conforms("mine", { name: "Acme", checks }, Layer.empty)])

      assert.deepStrictEqual(
        report.checks.map(({ reason }) => reason?.split("\n").slice(2)),
        ["/srv/acme.ts", "file:///srv/100%/acme.ts", "C:/my mail/acme.ts"].map((file) => [`at line 54 of ${file}`])
      )
    }))

  it.live("ends with the causes of a failure that is its own cause", () =>
    Effect.gen(function* () {
      const endless = new Error("endless")
      endless.cause = endless
      const { report } = yield* run([conforms("mine", { name: "Loop", checks: [{ title: "fails", check: Effect.fail(endless) }] }, Layer.empty)])

      assert.match(report.checks[0]!.reason ?? "", /^endless(\ncaused by endless){1,5}\nat line/)
    }))

  it.live("shows what came where a check waited for a failure", () =>
    Effect.gen(function* () {
      const check = Effect.flip(Effect.succeed({ status: 200, secret: Redacted.make("open sesame"), body: new Uint8Array(5_000) }))
      const { report } = yield* run([conforms("mine", { name: "Flip", checks: [{ title: "fails", check: Effect.asVoid(check) }] }, Layer.empty)])

      const reason = report.checks[0]?.reason ?? ""
      assert.match(reason, /^the check did not expect \{"status":200,"secret":<redacted>,"body":Uint8Array\(/)
      assert.notInclude(reason, "sesame")
      assert.isBelow(reason.length, 1_100)
    }))

  it.live("runs on a virtual clock that all checks of an adapter share", () =>
    Effect.gen(function* () {
      const waits = Effect.gen(function* () {
        yield* TestClock.adjust("1 hour")
        const sleeping = yield* Effect.forkChild(Effect.sleep("1 hour"))
        yield* TestClock.adjust("1 hour")
        assert.isDefined(sleeping.pollUnsafe())
      })
      const { report } = yield* run([conforms("mine", { name: "Clock", checks: [{ title: "waits", check: waits }] }, Layer.empty)])

      assert.strictEqual(report.passed, 1)
    }))

  it.live("ends a check that comes to no end, and goes on with the next", () =>
    Effect.gen(function* () {
      const checks = [{ title: "hangs", check: Effect.never }, ...two.checks]
      const { report } = yield* run([conforms("mine", { name: "Slow", checks }, Layer.empty)], [], "50 millis")

      assert.deepStrictEqual(report.checks.map(({ outcome }) => outcome), ["failed", "passed", "failed"])
      assert.strictEqual(report.checks[0]!.reason, "it came to no end in 50ms")
    }))

  it.live("goes on with the next where what comes to no end does not listen to interruption either, and says so", () =>
    Effect.gen(function* () {
      const deaf = Effect.uninterruptible(Effect.never)
      const checks = [{ title: "hangs", check: deaf }, ...two.checks]
      const { report } = yield* run(
        [conforms("mine", { name: "Deaf", checks }, Layer.empty), conforms("mute", two, Layer.effectDiscard(deaf))],
        [],
        "50 millis"
      )

      const why = "it came to no end in 50ms, nor when it was interrupted"
      assert.deepStrictEqual(report.checks.map(({ outcome }) => outcome), ["failed", "passed", "failed", "failed", "failed"])
      assert.strictEqual(report.checks[0]!.reason, why)
      assert.deepStrictEqual(report.checks.slice(3).map(({ reason }) => reason), Array<string>(2).fill(`the adapter could not be made: ${why}`))
    }))

  it.live("fails an adapter whose scope does not close, and goes on with the next; one of a set fails its scenario", () =>
    Effect.gen(function* () {
      const holding = (release: Effect.Effect<void>) => Layer.effectDiscard(Effect.addFinalizer(() => release))
      const set = holding(Effect.never) as unknown as Layer.Layer<AdapterSet> // its scenario asks for none
      const { report, told } = yield* run(
        [
          conforms("deaf", two, holding(Effect.never)),
          conforms("broken", two, holding(Effect.die("no server"))),
          ...plays("a set", set, [{ name: "Set", checks: [{ title: "holds", check: Effect.void }] }])
        ],
        ["holds"],
        "50 millis"
      )

      const law = "releases what it holds when its scope closes"
      assert.deepStrictEqual(told, ["1/3 holds: passed", `2/4 ${law}: failed`, "3/4 holds: passed", `4/5 ${law}: failed`, "5/5 holds: failed"])
      const reasons = report.checks.flatMap(({ adapter, reason }) => (reason === null ? [] : `${adapter}: ${reason}`))
      const why = "its scope could not be closed: it came to no end in 50ms, nor when it was interrupted"
      assert.deepStrictEqual(reasons, [`deaf: ${why}`, "broken: its scope could not be closed: no server", `a set: ${why}`])
      assert.deepStrictEqual([report.passed, report.failed], [2, 3])
    }))

  it.live("tells what broke a law before what held its scope open, and ends with who runs it where a scope does not close", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const holds = Effect.addFinalizer(() => Effect.never)
      const checks = [{ title: "breaks", check: Effect.andThen(holds, Effect.fail("because")) }]
      const { report } = yield* run([conforms("mine", { name: "Both", checks }, Layer.empty)], [], "50 millis")
      const waits = { title: "waits", check: Effect.andThen(Deferred.succeed(begun, undefined), Effect.never) }
      const running = yield* Effect.forkChild(run([conforms("mine", { name: "Left", checks: [waits] }, Layer.effectDiscard(holds))], [], "50 millis"))
      yield* Deferred.await(begun)

      yield* Fiber.interrupt(running)

      assert.deepStrictEqual(report.checks.map(({ reason }) => reason), ["because"])
    }))

  it.live("has ended a check before the next begins, and ends with who runs it", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      let begun = yield* Deferred.make<void>()
      const says = (text: string) => Effect.sync(() => void seen.push(text))
      const hangs = Effect.onInterrupt(Effect.andThen(Effect.suspend(() => Deferred.succeed(begun, undefined)), Effect.never), () => says("ended"))
      const checks = [{ title: "hangs", check: hangs }, { title: "next", check: says("next") }]
      yield* run([conforms("mine", { name: "Slow", checks }, Layer.empty)], [], "50 millis")
      begun = yield* Deferred.make<void>()
      const running = yield* Effect.forkChild(run([conforms("mine", { name: "Left", checks }, Layer.empty)]))
      yield* Deferred.await(begun)

      yield* Fiber.interrupt(running)

      assert.deepStrictEqual(seen, ["ended", "next", "ended"])
    }))

  it.live("fails every check of an adapter that cannot be made", () =>
    Effect.gen(function* () {
      const broken = Layer.effect(JobQueue, Effect.fail("no server"))
      const { report } = yield* run([conforms("mine", jobQueue, broken)], ["epoch"])

      assert.isAbove(report.failed, 0)
      assert.strictEqual(report.passed, 0)
      for (const { reason } of report.checks) assert.strictEqual(reason, "the adapter could not be made: no server")
    }))

  it.live("runs only what the filter leaves, and is none if that is nothing", () =>
    Effect.gen(function* () {
      const { told } = yield* run([conforms("mine", two, Layer.empty)], ["HOLDS"])
      assert.deepStrictEqual(told, ["1/1 holds: passed"])

      const nothing = yield* Effect.flip(run([conforms("mine", two, Layer.empty)], ["no such title"]))
      assert.strictEqual(nothing._tag, "NothingToProve")
    }))

  it("knows every suite of scenarios", () => {
    assert.strictEqual(new Set(scenarios.map(({ name }) => name)).size, scenarios.length)
    assert.strictEqual(scenarios.length, 31)
  })
})
