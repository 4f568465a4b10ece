/** What a worker does with leases: holds them, ends them, gives them back; and which jobs it works alone. */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Duration, Effect, Fiber, Layer, Logger, Metric } from "effect"
import { TestClock } from "effect/testing"
import type { TenantId } from "../model/Ids.ts"
import * as Metrics from "../Metrics.ts"
import { Place } from "../operations/Commit.ts"
import { JobQueue, LeaseLost, QueueUnavailable, type Job, type JobKind, type Lease } from "../ports/JobQueue.ts"
import { StoreUnavailable } from "../ports/Store.ts"
import { DeliverWebhook } from "./DeliverWebhook.ts"
import { HeldLease } from "./Lanes.ts"
import { ParseMessage } from "./ParseMessage.ts"
import { PollProvider } from "./PollProvider.ts"
import { ScanAttachment } from "./ScanAttachment.ts"
import { SubmitMessage } from "./SubmitMessage.ts"
import { Worker } from "./Worker.ts"

const leaseOf = (kind: JobKind, subject: string, claims = 1): Lease => ({
  job: { kind, subject, realm: { tenantId: "some tenant" as TenantId, environment: "sandbox" }, group: "group", dueAt: 0 },
  token: subject,
  claims,
  expiresAt: 60_000
})

type Claim = Parameters<(typeof JobQueue.Service)["claim"]>[0]

/** A worker that runs, and what it has done by now: what and when, in seconds. */
const running = Effect.fnUntraced(function* (
  /** What each claim brings, by the first kind that is asked for. */
  batches: Partial<Record<JobKind, Array<ReadonlyArray<Lease>>>>,
  handle: (lease: Lease, held: HeldLease) => Effect.Effect<boolean, StoreUnavailable>,
  queueOf: Partial<typeof JobQueue.Service> = {}
) {
  const clock = yield* Clock.Clock
  const did: Array<string> = []
  const lines: Array<string> = []
  const [offered, asked]: [Array<Job>, Array<Claim>] = [[], []]
  const note = (text: string) => Effect.map(Clock.currentTimeMillis, (now) => void did.push(`${text} ${now / 1_000}`))
  const queue: typeof JobQueue.Service = {
    offer: (jobs) => Effect.sync(() => void offered.push(...jobs)),
    claim: (claim) =>
      Effect.sync(() => {
        asked.push(claim)
        return batches[claim.kinds[0]!]?.shift() ?? []
      }),
    release: ({ token }, delay) => note(`give back ${token} for ${Duration.toSeconds(delay)} s at`),
    throttle: () => Effect.void,
    epoch: Effect.succeed("epoch"),
    awaitWork: (_, atMost) => Effect.sleep(atMost),
    ...queueOf,
    complete: (lease) => Effect.andThen(note(`complete ${lease.token}`), queueOf.complete?.(lease) ?? Effect.void),
    extend: (lease, timeout) => Effect.andThen(note(`extend ${lease.token}`), queueOf.extend?.(lease, timeout) ?? Effect.succeed(lease))
  }
  const handler = {
    handle: (lease: Lease, held = new HeldLease(lease, clock)) => Effect.andThen(note(`begin ${lease.token}`), handle(lease, held))
  }
  const handlers = Layer.mergeAll(
    Layer.succeed(JobQueue, queue),
    Layer.succeed(DeliverWebhook, handler),
    Layer.succeed(SubmitMessage, { ...handler, recordTaken: Effect.void, cutOff: Effect.void }),
    Layer.succeed(ScanAttachment, { handle: (lease) => Effect.orDie(Effect.asVoid(handler.handle(lease))) }),
    Layer.succeed(PollProvider, { handle: (lease) => Effect.orDie(Effect.asVoid(handler.handle(lease))) }),
    Layer.succeed(ParseMessage, handler)
  )
  const logged = Logger.layer([Logger.map(Logger.formatJson, (line) => void lines.push(line))])
  const { run, release } = Context.get(yield* Layer.build(Layer.provide(Worker.layer, handlers)), Worker)
  let isStopping = false
  const worker = yield* Effect.forkChild(Effect.provide(run(() => isStopping, Duration.seconds(1)), logged), { startImmediately: true })
  const stop = Effect.sync(() => void (isStopping = true))
  return { did, lines, offered, asked, worker, stop, release }
})

const taking = (seconds: number) => () => Effect.as(Effect.sleep(Duration.seconds(seconds)), true)
const begun = (did: ReadonlyArray<string>) => did.filter((one) => one.startsWith("begin"))
const broken = () => Effect.die(new Error("a bug"))

describe("a lease", () => {
  it.effect("is held by a third of its time for as long as the work goes on, also when the queue does not answer, and no longer", () =>
    Effect.gen(function* () {
      let extensions = 0
      const extend = (lease: Lease) => (++extensions === 2 ? Effect.fail(new QueueUnavailable({ cause: "silence" })) : Effect.succeed(lease))
      const { did } = yield* running({ submit: [[leaseOf("submit", "a")]] }, taking(90), { extend })

      yield* TestClock.adjust("5 minutes")

      assert.deepStrictEqual(did, ["begin a 0", "extend a 20", "extend a 40", "extend a 60", "extend a 80"])
    })
  )

  it.effect("is held on though the queue broke when it was asked to", () =>
    Effect.gen(function* () {
      let extensions = 0
      const extend = (lease: Lease) => (++extensions === 2 ? broken() : Effect.succeed(lease))
      const { did } = yield* running({ submit: [[leaseOf("submit", "a")]] }, taking(90), { extend })

      yield* TestClock.adjust("5 minutes")

      assert.deepStrictEqual(did, ["begin a 0", "extend a 20", "extend a 40", "extend a 60", "extend a 80"])
    })
  )

  it.effect("that was lost is not asked for again", () =>
    Effect.gen(function* () {
      const extend = ({ token }: Lease) => Effect.fail(new LeaseLost({ token }))
      const { did } = yield* running({ submit: [[leaseOf("submit", "a")]] }, taking(90), { extend })

      yield* TestClock.adjust("5 minutes")

      assert.deepStrictEqual(did, ["begin a 0", "extend a 20"])
    })
  )

  it.effect("is known to its work to be another's once it is lost, or was not extended for as long as it lasts", () =>
    Effect.gen(function* () {
      const until: Record<string, number> = {}
      const extend = (lease: Lease) => {
        if (lease.token === "lost") return Effect.fail(new LeaseLost({ token: lease.token }))
        return lease.token === "silent" ? Effect.never : Effect.map(Clock.currentTimeMillis, (now) => ({ ...lease, expiresAt: now + 60_000 }))
      }
      const handle = Effect.fnUntraced(function* ({ token }: Lease, held: HeldLease) {
        for (let second = 0; second < 90 && held.isOurs(); second++) {
          until[token] = second
          yield* Effect.sleep("1 second")
        }
        return true
      })
      yield* running({ submit: [["kept", "lost", "silent"].map((token) => leaseOf("submit", token))] }, handle, { extend })

      yield* TestClock.adjust("2 minutes")

      assert.deepStrictEqual(until, { kept: 89, lost: 19, silent: 59 })
    })
  )

  it.effect("of a job that broke while it was being extended runs out", () =>
    Effect.gen(function* () {
      const extend = (lease: Lease) => Effect.as(Effect.sleep("2 seconds"), lease)
      const handle = () => Effect.andThen(Effect.sleep("21 seconds"), broken())
      const count = Effect.map(Metric.value(Metrics.jobsEnded.submit.broken), ({ count }) => count)
      const before = yield* count
      const { did, lines } = yield* running({ submit: [[leaseOf("submit", "a")]] }, handle, { extend })

      yield* TestClock.adjust("5 minutes")

      assert.deepStrictEqual([did, yield* count], [["begin a 0", "extend a 20"], before + 1])
      assert.isTrue(lines.length === 1 && lines[0]!.includes("a job came to no end") && lines[0]!.includes('"messageId":"a"'), lines.join("\n"))
    })
  )

  it.effect("is completed where the handler has not ended the job, and only there", () =>
    Effect.gen(function* () {
      const handle = ({ token }: Lease) => Effect.succeed(token === "ended")
      const { did } = yield* running({ submit: [[leaseOf("submit", "ended"), leaseOf("submit", "left")]] }, handle)

      yield* TestClock.adjust("1 second")

      assert.deepStrictEqual(did.filter((one) => one.startsWith("complete")), ["complete left 0"])
    })
  )

  it.effect("that another has by the end of the work is no fault", () =>
    Effect.gen(function* () {
      const complete = ({ token }: Lease) => Effect.fail(new LeaseLost({ token }))
      const { did, lines } = yield* running({ submit: [[leaseOf("submit", "a")]] }, () => Effect.succeed(false), { complete })

      yield* TestClock.adjust("1 minute")

      assert.deepStrictEqual([did, lines], [["begin a 0", "complete a 0"], []])
    })
  )
})

describe("a job", () => {
  it.effect("that the store could not serve is offered again in half a minute, and the operator is told whose it is", () =>
    Effect.gen(function* () {
      const handle = () => Effect.fail(new StoreUnavailable({ cause: "away" }))
      const { did, lines, offered } = yield* running({ deliver: [[leaseOf("deliver", "a")]] }, handle)

      yield* TestClock.adjust("1 second")

      assert.deepStrictEqual(offered.map(({ subject, dueAt }) => [subject, dueAt]), [["a", 30_000]])
      assert.deepStrictEqual(did, ["begin a 0", "complete a 0"])
      assert.strictEqual(lines.length, 1)
      for (const part of ["a job could not be done; it is tried again", '"tenantId":"some tenant"', '"deliveryId":"a"']) assert.include(lines[0], part)
    })
  )

  it.effect("that is under way when the worker is told to stop comes to its end, and is the last", () =>
    Effect.gen(function* () {
      const { did, stop, worker } = yield* running(
        { submit: [[leaseOf("submit", "a")], [leaseOf("submit", "b")]] },
        () => Effect.as(Effect.sleep("5 seconds"), false)
      )
      yield* stop

      yield* TestClock.adjust("10 seconds")
      yield* Fiber.join(worker)

      assert.deepStrictEqual(did, ["begin a 0", "complete a 5"])
    })
  )

  it.effect("of what a stop cuts off is given back, a claim that counts for nothing, but for mail", () =>
    Effect.gen(function* () {
      const batches = () => ({ submit: [[leaseOf("submit", "mail"), leaseOf("scan", "file", 2), leaseOf("scan", "suspect", 3)]] })
      const stopped = yield* running(batches(), taking(3_600))
      yield* stopped.stop
      yield* TestClock.adjust("15 seconds")
      yield* Fiber.interrupt(stopped.worker)
      yield* stopped.release
      yield* stopped.release // nothing more
      assert.deepStrictEqual(stopped.did.filter((one) => one.startsWith("give")).toSorted(), [
        "give back file for 0 s at 15",
        "give back suspect for 0 s at 15"
      ])

      const broken = yield* running(batches(), taking(3_600))
      yield* TestClock.adjust("15 seconds")
      yield* Fiber.interrupt(broken.worker)
      yield* broken.release
      assert.deepStrictEqual(broken.did.filter((one) => one.startsWith("give")), [], "nobody told it to stop")
    })
  )

  it.effect("of mail that waited alone for others to end, when the worker is interrupted, is given back, for nobody was told of it", () =>
    Effect.gen(function* () {
      const batches = { submit: [[leaseOf("scan", "file"), leaseOf("submit", "suspect", 4)]] }
      const { did, stop, worker, release } = yield* running(batches, taking(3_600))
      yield* stop
      yield* TestClock.adjust("15 seconds")
      yield* Fiber.interrupt(worker)
      yield* release

      assert.sameMembers(did, ["begin file 0", "give back file for 0 s at 15", "give back suspect for 0 s at 15"])
    })
  )

  it.effect("that a claim brings to a worker which has been told to stop is given back, whether it is trusted or not", () =>
    Effect.gen(function* () {
      const brought = [leaseOf("submit", "a"), leaseOf("submit", "b"), leaseOf("submit", "suspect", 3)]
      const claim = ({ kinds }: Claim) => Effect.delay(Effect.succeed(kinds[0] === "submit" ? brought.splice(0) : []), "2 seconds")
      const { did, stop, worker } = yield* running({}, taking(1), { claim })
      yield* stop

      yield* TestClock.adjust("10 seconds")
      yield* Fiber.join(worker)

      assert.deepStrictEqual(did, ["give back a for 0 s at 2", "give back b for 0 s at 2", "give back suspect for 0 s at 2"])
    })
  )

  it.effect("that a job's end brings to a worker which has been told to stop is given back", () =>
    Effect.gen(function* () {
      const handle = Effect.fnUntraced(function* ({ token }: Lease) {
        if (token !== "a") return true
        const place = yield* Place
        place?.holdNext()
        yield* Effect.sleep("5 seconds")
        place?.take(["b", "c"].map((token) => ({ ...leaseOf("submit", token), outgoing: null })))
        return true
      })
      const { did, stop, worker } = yield* running({ submit: [[leaseOf("submit", "a")]] }, handle)
      yield* stop

      yield* TestClock.adjust("1 minute")
      yield* Fiber.join(worker)

      assert.deepStrictEqual(did, ["begin a 0", "give back b for 0 s at 5", "give back c for 0 s at 5"])
    })
  )
})

describe("a claim", () => {
  it.effect("is not made by a lane whose first free place comes when the worker has been told to stop", () =>
    Effect.gen(function* () {
      const full = Array.from({ length: 256 }, (_, index) => leaseOf("submit", String(index)))
      const { asked, stop, worker } = yield* running({ submit: [full] }, taking(5))
      yield* stop

      yield* TestClock.adjust("10 seconds")
      yield* Fiber.join(worker)

      assert.deepStrictEqual(asked.map(({ kinds }) => kinds[0]), ["submit", "deliver", "parse", "scan"])
    })
  )

  it.effect("leaves half of the places to other groups, and few messages are read at a time", () =>
    Effect.gen(function* () {
      const { asked } = yield* running({}, taking(1))

      assert.deepStrictEqual(asked.map(({ kinds }) => kinds[0]), ["submit", "deliver", "parse", "scan"])
      for (const { inFlightMax, limit } of asked) assert.isAtMost(inFlightMax, limit / 2)
      assert.isAtMost(asked[2]!.limit, 8)
    })
  )
})

describe("a lane", () => {
  it.effect("of its own have scans, so that mail whose server hangs holds up none", () =>
    Effect.gen(function* () {
      const mail = Array.from({ length: 256 }, (_, index) => leaseOf("submit", String(index)))
      const { did } = yield* running({ submit: [mail], scan: [[leaseOf("scan", "file")]] }, ({ job }) => taking(job.kind === "scan" ? 1 : 600)())

      yield* TestClock.adjust("2 seconds")

      assert.strictEqual(begun(did).length, 257)
      assert.include(did, "begin file 0")
    })
  )
})

describe("a job that came to no end", () => {
  for (const claims of [1, 3]) {
    it.effect(`because an adapter interrupted it is told and counted as one that broke, and ends nobody else: claim ${claims}`, () =>
      Effect.gen(function* () {
        const count = Effect.map(Metric.value(Metrics.jobsEnded.submit.broken), ({ count }) => count)
        const before = yield* count
        const batches = { submit: [[leaseOf("submit", "interrupted", claims)], [leaseOf("submit", "next")]], deliver: [[leaseOf("deliver", "beside")]] }
        const { did, lines, worker } = yield* running(batches, ({ token }) => (token === "interrupted" ? Effect.interrupt : Effect.as(Effect.sleep("5 seconds"), false)))

        yield* TestClock.adjust("10 seconds")

        assert.isUndefined(worker.pollUnsafe())
        assert.includeMembers(did.map((one) => one.split(" ", 2).join(" ")), ["complete beside", "complete next"])
        assert.strictEqual((yield* count) - before, 1)
        assert.strictEqual(lines.length, 1)
        assert.include(lines[0], "a job came to no end; its lease runs out and it comes again")
      })
    )
  }

  it.effect("once is worked beside others, and twice when those have ended, its lease held meanwhile, and alone of its like", () =>
    Effect.gen(function* () {
      const leases = [leaseOf("submit", "first"), leaseOf("submit", "once", 2), leaseOf("submit", "twice", 3), leaseOf("submit", "other", 4)]
      const { did } = yield* running({ submit: [leases] }, ({ token }) => taking(token === "first" ? 50 : 1)())

      yield* TestClock.adjust("1 minute")

      const held = [20, 40].flatMap((second) => [`extend first ${second}`, `extend twice ${second}`])
      assert.sameMembers(did, ["give back other for 1 s at 0", "begin first 0", "begin once 0", ...held, "begin twice 50"])
    })
  )

  it.effect("twice is worked one after the other, and lanes that have such jobs take turns", () =>
    Effect.gen(function* () {
      const often = (kind: JobKind) => Array.from({ length: 40 }, (_, index) => [leaseOf(kind, `${kind} ${index}`, 3)])
      const { did } = yield* running({ submit: often("submit"), parse: often("parse") }, taking(3))

      yield* TestClock.adjust("20 seconds")

      const lanes = begun(did).map((one) => one.split(" ")[1])
      assert.isAtLeast(lanes.length, 4)
      assert.deepStrictEqual(lanes, lanes.map((_, index) => (index % 2 === 0 ? "submit" : "parse")))
    })
  )

  it.effect("does not wait for the turn of a lane that has none any more", () =>
    Effect.gen(function* () {
      // One of the other lane is found while the first is under way, and it is gone by the time that it might be worked.
      const submit = Array.from({ length: 40 }, (_, index) => [leaseOf("submit", `submit ${index}`, 3)])
      const { did } = yield* running({ submit, parse: [[leaseOf("parse", "parse", 3)]] }, taking(3))

      yield* TestClock.adjust("10 seconds")

      assert.isAtLeast(begun(did).filter((one) => one.startsWith("begin submit")).length, 3)
    })
  )
})
