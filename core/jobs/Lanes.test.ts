import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect } from "effect"
import { TestClock } from "effect/testing"
import type { Lease } from "../ports/JobQueue.ts"
import { HeldLease, lanes, PlaceInLane, LanePlaces, SuspectTurn, type Lane } from "./Lanes.ts"

const millis = (count: number): bigint => Duration.toNanosUnsafe(Duration.millis(count))
const steady: Lane = { kinds: ["submit"], placesMax: 8, inFlightMax: 8, growsTo: 0, claimPause: Duration.zero }
const growing: Lane = { ...steady, kinds: ["deliver"], growsTo: 4 }

const placesOf = (lane: Lane, state: Partial<Pick<LanePlaces, "taken" | "isSpare">> = {}): LanePlaces =>
  Object.assign(new LanePlaces(lane), { taken: 1, isSpare: true, ...state })

/** A job that was claimed and took so many milliseconds. */
const after = (places: LanePlaces, took: number, { passes = 0, sinceClaim = took } = {}) =>
  places.nextAfter({ passes, sinceClaim: millis(sinceClaim), took: millis(took) })

describe("a job that ends", () => {
  it("brings one in its place while nobody waits for it, however long ago that was claimed, fifty times", () => {
    const places = placesOf(steady)
    assert.strictEqual(after(places, 5_000, { passes: 49, sinceClaim: 600_000 }), 1)
    assert.strictEqual(after(places, 0, { passes: 50 }), 0)
  })

  it("leaves a place that others wait for a tenth of a second after its claim, where the lane is full or the last claim found more than it could take", () => {
    for (const state of [{ taken: 8 }, { isSpare: false }]) {
      const places = placesOf(steady, state)
      assert.strictEqual(after(places, 1, { sinceClaim: 99 }), 1)
      assert.strictEqual(after(places, 1, { sinceClaim: 100 }), 0)
    }
  })

  it("brings two where its lane grows, it was quick, and few are under way", () => {
    assert.strictEqual(after(placesOf(growing, { taken: 3 }), 99), 2)
    assert.strictEqual(after(placesOf(growing, { taken: 3 }), 100), 1)
    assert.strictEqual(after(placesOf(growing, { taken: 4 }), 99), 1)
    assert.strictEqual(after(placesOf(growing, { taken: 3, isSpare: false }), 99), 1)
    assert.strictEqual(after(placesOf(steady, { taken: 3 }), 99), 1)
  })

  it("leaves its place where its lane grows and it took a second", () => {
    assert.strictEqual(after(placesOf(growing), 999), 1)
    assert.strictEqual(after(placesOf(growing), 1_000), 0)
    assert.strictEqual(after(placesOf(steady), 1_000), 1)
  })
})

describe("a place", () => {
  it.effect("takes another only from when it asks for two jobs until it knows of them", () =>
    Effect.gen(function* () {
      const places = placesOf(growing, { taken: 3 })
      const place = new PlaceInLane(places, yield* Clock.Clock, () => false)
      assert.strictEqual(place.holdNext()?.jobsMax, 2)
      assert.strictEqual(places.taken, 4)
      assert.strictEqual(place.holdNext()?.jobsMax, 2) // its commit is made anew
      assert.strictEqual(places.taken, 4)
      assert.deepStrictEqual(place.ended(), [])
      assert.strictEqual(places.taken, 3)
    })
  )

  it.effect("measures each job from the end of the one before", () =>
    Effect.gen(function* () {
      const place = new PlaceInLane(placesOf(growing), yield* Clock.Clock, () => false)
      yield* TestClock.adjust("1 second")
      assert.isNull(place.holdNext())
      place.ended()
      assert.strictEqual(place.holdNext()?.jobsMax, 2)
    })
  )

  it.effect("asks for nothing once the worker stops", () =>
    Effect.gen(function* () {
      const places = placesOf(growing)
      assert.isNull(new PlaceInLane(places, yield* Clock.Clock, () => true).holdNext())
      assert.strictEqual(places.taken, 1)
    })
  )
})

describe("suspects", () => {
  it("are worked one at a time, by lanes in turn", () => {
    const [mail, deliveries, parts] = lanes as [Lane, Lane, Lane]
    const turn = new SuspectTurn()
    assert.isTrue(turn.begin(mail))
    turn.end(parts) // it has none
    assert.isFalse(turn.begin(deliveries))
    assert.isFalse(turn.begin(parts))
    turn.end(mail)
    assert.isFalse(turn.begin(mail)) // it had its turn
    assert.isTrue(turn.begin(deliveries))
    turn.end(deliveries)
    assert.isTrue(turn.begin(mail)) // nobody has asked since
  })

  it("are waited for by no lane that has found none since, or has stopped", () => {
    const [mail, deliveries] = lanes as [Lane, Lane, Lane]
    for (const give of ["pass", "end"] as const) {
      const turn = new SuspectTurn()
      assert.isTrue(turn.begin(mail))
      assert.isFalse(turn.begin(deliveries))
      turn.end(mail)
      assert.isFalse(turn.begin(mail))
      turn[give](deliveries)
      assert.isTrue(turn.begin(mail))
    }
  })
})

describe("a lease that is held", () => {
  it.effect("is ours no more when it has run out by either clock, or is lost, and is ours for longer when it is extended", () =>
    Effect.gen(function* () {
      const clock = yield* Clock.Clock
      let [wallAhead, monotonicAhead] = [0, 0n]
      const skewed: Clock.Clock = Object.assign(Object.create(clock), {
        currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() + wallAhead,
        monotonicTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe() + monotonicAhead
      })
      const lease = { expiresAt: 60_000 } as Lease // all that is looked at
      const isOurs = (of: (held: HeldLease) => void = () => {}) => {
        const held = new HeldLease(lease, skewed)
        of(held)
        return held.isOurs()
      }

      assert.isTrue(isOurs())
      assert.isFalse(isOurs((held) => held.lost()))
      assert.isFalse(isOurs(() => (wallAhead = 60_000)))
      assert.isFalse(isOurs(), "its claim was answered late")
      wallAhead = 0
      assert.isFalse(isOurs(() => (monotonicAhead = 60_000_000_000n)))
      assert.isTrue(isOurs(), "from now on")
      yield* TestClock.adjust("59 seconds")
      assert.isTrue(isOurs())
      assert.isTrue(isOurs((held) => held.extended({ ...lease, expiresAt: 61_000 })))
      yield* TestClock.adjust("1 second")
      assert.isFalse(isOurs())
      assert.isTrue(isOurs((held) => held.extended({ ...lease, expiresAt: 61_000 })))
    })
  )
})
