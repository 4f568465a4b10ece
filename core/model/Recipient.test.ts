import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import * as fc from "fast-check"
import type { Address } from "./Address.ts"
import type { Table } from "./Machine.ts"
import * as Recipient from "./Recipient.ts"

type Tag = Recipient.Input["_tag"]

const address = (text: string) => text as Address // plain enough to be valid
const submission = { provider: "smtp", providerMessageId: "p1" }
const permanent: Recipient.Bounce = { class: "permanent", smtpCode: 550, enhancedCode: "5.1.1", diagnostic: "no such user" }
const gaveUp: Recipient.Failure = { stage: "provider", code: "expired", message: "gave up" }

const inputs: { readonly [T in Tag]: Extract<Recipient.Input, { readonly _tag: T }> } = {
  Accepted: { _tag: "Accepted", at: 10, submission },
  Delivered: { _tag: "Delivered", at: 20, smtpResponse: "250 ok" },
  Bounced: { _tag: "Bounced", at: 30, bounce: permanent },
  Failed: { _tag: "Failed", at: 40, failure: gaveUp }
}
const tags = Object.keys(inputs) as ReadonlyArray<Tag> // the keys of the literal above
const table: Table<Recipient.State, Tag, string> = Recipient.transitions
const states = Object.keys(table) as ReadonlyArray<Recipient.State> // a machine has a row for each state

const recipient = (over: Partial<Recipient.Recipient> = {}): Recipient.Recipient => ({
  ...Recipient.make(address("ada@example.com"), "to", 0),
  ...over
})

/** Takes an input as a message does: what moves nothing leaves its evidence. */
const take = (held: Recipient.Recipient, input: Recipient.Input): Recipient.Recipient =>
  Result.match(Recipient.decide(held, input), {
    onSuccess: (decision) => Recipient.apply(held, decision),
    onFailure: () => Recipient.witness(held, input)
  })

describe("recipient", () => {
  for (const state of states) {
    for (const tag of tags) {
      const cell = table[state][tag]
      if (cell === undefined) {
        it(`${state} + ${tag} -> illegal, and changes nothing`, () => {
          const before = recipient({ status: state })
          const copy = structuredClone(before)

          const decided = Recipient.decide(before, inputs[tag])

          assert.isTrue(Result.isFailure(decided))
          assert.deepStrictEqual(before, copy)
          assert.strictEqual(Recipient.witness(before, inputs[tag]).status, state)
        })
      } else {
        it(`${state} + ${tag} -> ${cell.to}`, () => {
          const before = recipient({ status: state })

          const decision = Result.getOrThrow(Recipient.decide(before, inputs[tag]))
          const after = Recipient.apply(before, decision)

          assert.deepStrictEqual(decision, { from: state, to: cell.to, input: inputs[tag], emits: cell.emits ?? null })
          assert.strictEqual(after.status, cell.to)
          assert.strictEqual(after.updatedAt, inputs[tag].at)
        })
      }
    }
  }

  it("moves as the specification says, and in no other way", () => {
    const moves = states.flatMap((state) => tags.flatMap((tag) => (table[state][tag] ? [`${state} + ${tag} -> ${table[state][tag].to}`] : [])))

    assert.deepStrictEqual(moves, [
      "queued + Accepted -> sent",
      "queued + Bounced -> bounced",
      "queued + Failed -> failed",
      "sent + Delivered -> delivered",
      "sent + Bounced -> bounced",
      "sent + Failed -> failed",
      "delivered + Bounced -> bounced",
      "delivered + Failed -> failed",
      "bounced + Failed -> failed"
    ])
  })

  it("has an event for each outcome, and none for being accepted", () => {
    const emitted = new Set(states.flatMap((state) => tags.map((tag) => `${tag}: ${table[state][tag]?.emits ?? "nothing"}`)))

    assert.includeMembers([...emitted], ["Delivered: message.delivered", "Bounced: message.bounced", "Failed: message.failed"])
    assert.notMatch([...emitted].join(), /Accepted: message/)
  })

  it("remembers who took it, and keeps that through what follows", () => {
    const after = [inputs.Accepted, inputs.Delivered, inputs.Bounced, inputs.Failed].reduce(take, recipient())

    assert.deepStrictEqual(after.submission, submission)
    assert.deepStrictEqual(after.evidence, {
      delivered: { at: 20, smtpResponse: "250 ok" },
      bounced: { at: 30, bounce: permanent },
      failed: { at: 40, failure: gaveUp }
    })
  })
})

describe("the end of a recipient", () => {
  const at = fc.integer({ min: 0, max: 3 })
  const text = fc.option(fc.constantFrom("x", "y"))
  const bounced = fc.record({
    class: fc.constantFrom("permanent", "transient", "undetermined", "suppressed"),
    smtpCode: fc.option(fc.constantFrom(450, 550)),
    enhancedCode: text,
    diagnostic: text
  })
  const notification: fc.Arbitrary<Recipient.Input> = fc.oneof(
    fc.record({ _tag: fc.constant("Delivered"), at, smtpResponse: text }),
    fc.record({ _tag: fc.constant("Bounced"), at, bounce: bounced }),
    fc.record({
      _tag: fc.constant("Failed"),
      at,
      failure: fc.record({ stage: fc.constant("provider"), code: fc.constantFrom("a", "b"), message: fc.constantFrom("m", "n") })
    })
  )
  const accepted = take(recipient(), inputs.Accepted)
  const endOf = (arrived: ReadonlyArray<Recipient.Input>) => {
    const { status, evidence, submission } = arrived.reduce(take, accepted)
    return { status, evidence, submission }
  }
  /** The same notifications in another order, some of them several times. */
  const twoOrders = fc.array(notification, { maxLength: 6 }).chain((set) =>
    fc
      .array(set.length === 0 ? fc.nat(0) : fc.nat(set.length - 1), { maxLength: 6 })
      .chain((repeated) =>
        fc.tuple(
          fc.constant(set),
          fc.shuffledSubarray([...set, ...(set.length === 0 ? [] : repeated.map((index) => set[index]!))], {
            minLength: set.length === 0 ? 0 : set.length + repeated.length
          })
        )
      )
  )

  it("is a function of the set of notifications, whatever their order and number", () => {
    fc.assert(fc.property(twoOrders, ([once, again]) => assert.deepStrictEqual(endOf(again), endOf(once))), { numRuns: 2_000 })
  })

  it("does not change when the evidence is stored in between", () => {
    // A database may give an object's members back in another order.
    const reversed = (value: unknown): unknown =>
      value !== null && typeof value === "object"
        ? Object.fromEntries(Object.entries(value).reverse().map(([name, member]) => [name, reversed(member)]))
        : value
    const stored = (held: Recipient.Recipient): Recipient.Recipient => ({
      ...held,
      evidence: reversed(held.evidence) as Recipient.Evidence // the same members
    })

    fc.assert(
      fc.property(twoOrders, ([once, again]) => {
        const { status, evidence } = again.reduce((held, input) => stored(take(held, input)), accepted)

        assert.deepStrictEqual({ status, evidence, submission }, endOf(once))
      }),
      { numRuns: 2_000 }
    )
  })

  it("is the strongest outcome that was notified", () => {
    fc.assert(
      fc.property(fc.array(notification, { maxLength: 6 }), (arrived) => {
        const has = (tag: Tag) => arrived.some(({ _tag }) => _tag === tag)

        const expected = has("Failed") ? "failed" : has("Bounced") ? "bounced" : has("Delivered") ? "delivered" : "sent"

        assert.strictEqual(endOf(arrived).status, expected)
      })
    )
  })

  const bounce = (kind: Recipient.Bounce["class"], at: number, enhancedCode = "5.1.1"): Recipient.Input => ({
    _tag: "Bounced",
    at,
    bounce: { ...permanent, class: kind, enhancedCode }
  })
  const byStrength = ["suppressed", "permanent", "undetermined", "transient"] as const
  for (const [index, stronger] of byStrength.slice(0, -1).entries()) {
    const weaker = byStrength[index + 1]!
    it(`rests on a ${stronger} bounce rather than on a ${weaker} one, though that came first`, () => {
      for (const enhancedCode of ["5.1.1", "5.7.1"]) {
        const [weak, strong] = [bounce(weaker, 1, enhancedCode), bounce(stronger, 2, enhancedCode)]

        assert.strictEqual(endOf([weak, strong]).evidence.bounced?.bounce.class, stronger)
        assert.strictEqual(endOf([strong, weak]).evidence.bounced?.bounce.class, stronger)
      }
    })
  }

  it("keeps the earliest delivery, and the earliest of the strongest bounces", () => {
    const { evidence } = endOf([{ ...inputs.Delivered, at: 9 }, { ...inputs.Delivered, at: 7 }, bounce("transient", 1), bounce("permanent", 5), bounce("permanent", 4)])

    assert.strictEqual(evidence.delivered?.at, 7)
    assert.deepStrictEqual(evidence.bounced, { at: 4, bounce: permanent })
  })

  it("keeps what speaks of the address before what was refused for its content, whichever came first", () => {
    const refused: Recipient.Input = { _tag: "Bounced", at: 1, bounce: { ...permanent, enhancedCode: "5.7.1" } }

    assert.strictEqual(endOf([refused, bounce("permanent", 2)]).evidence.bounced?.bounce.enhancedCode, "5.1.1")
    assert.strictEqual(endOf([bounce("permanent", 2), refused]).evidence.bounced?.bounce.enhancedCode, "5.1.1")
  })

  it("emits at most one event per outcome, however often it is told", () => {
    fc.assert(
      fc.property(twoOrders, ([, again]) => {
        const emitted: Array<string> = []
        again.reduce((held, input) => {
          const decided = Recipient.decide(held, input)
          if (Result.isSuccess(decided) && decided.success.emits !== null) emitted.push(decided.success.emits)
          return take(held, input)
        }, accepted)

        assert.lengthOf(new Set(emitted), emitted.length)
      })
    )
  })
})

describe("a permanent bounce", () => {
  const rows: ReadonlyArray<readonly [enhancedCode: string | null, smtpCode: number | null, isHard: boolean]> = [
    ["5.1.1", 550, true],
    ["5.1.2", 550, true],
    ["5.1.3", 501, true],
    ["5.1.6", 551, true],
    ["5.1.10", 556, true],
    ["5.2.1", 550, true],
    [null, null, true],
    ["5.1.8", 550, false],
    ["5.2.2", 552, false],
    ["5.7.1", 550, false],
    [null, 550, false]
  ]
  for (const [enhancedCode, smtpCode, isHard] of rows) {
    it(`with ${enhancedCode ?? "no code"} (${smtpCode ?? "no reply"}) ${isHard ? "speaks" : "does not speak"} of the address`, () => {
      assert.strictEqual(Recipient.isHard({ class: "permanent", smtpCode, enhancedCode, diagnostic: null }), isHard)
    })
  }
})

describe("a bounce that is not for good", () => {
  for (const kind of ["transient", "undetermined", "suppressed"] as const) {
    it(`but ${kind}, says nothing against the address, whatever its codes`, () => {
      for (const [enhancedCode, smtpCode] of [[null, null], ["5.1.1", 550]] as const) {
        assert.isFalse(Recipient.isHard({ class: kind, smtpCode, enhancedCode, diagnostic: null }), String(enhancedCode))
      }
    })
  }
})

describe("a complaint", () => {
  it("moves no state, and keeps its first time in either order", () => {
    const held = recipient({ status: "delivered" })

    const late = Recipient.complain(Recipient.complain(held, 5), 9)
    const early = Recipient.complain(Recipient.complain(held, 9), 5)

    assert.deepStrictEqual(late, early)
    assert.deepStrictEqual(late, { ...held, complainedAt: 5 })
  })

  it("that is told again is no change", () => {
    const held = Recipient.complain(recipient(), 5)

    assert.strictEqual(Recipient.complain(held, 5), held)
  })
})

describe("a recipient that is queued", () => {
  it("has heard what was said of it before it was accepted, the weakest first", () => {
    const said = [inputs.Failed, inputs.Bounced, inputs.Delivered]

    assert.deepStrictEqual(Recipient.heard(recipient()), [])
    for (const input of said) assert.deepStrictEqual(Recipient.heard(Recipient.witness(recipient(), input)), [input])
    assert.deepStrictEqual(Recipient.heard(said.reduce(Recipient.witness, recipient())), said.toReversed())
  })

  it("says why it was put off, and when", () => {
    const deferral = { smtpCode: 451, enhancedCode: "4.7.1", diagnostic: "later" }

    assert.deepStrictEqual(Recipient.defer(recipient(), deferral, 8), { ...recipient(), deferral, updatedAt: 8 })
  })
})

describe("the recipients of a message", () => {
  it("are each mailed once, in the strongest role, however the case is written", () => {
    const unique = Recipient.unique(
      {
        to: [address("ada@example.com"), address("Ada@example.com")],
        cc: [address("ADA@example.com"), address("bob@example.com")],
        bcc: [address("bob@example.com"), address("eve@example.com")]
      },
      7
    )

    assert.deepStrictEqual(
      unique.map(({ address, role, status, updatedAt }) => [address, role, status, updatedAt]),
      [
        ["ada@example.com", "to", "queued", 7],
        ["bob@example.com", "cc", "queued", 7],
        ["eve@example.com", "bcc", "queued", 7]
      ]
    )
  })
})
