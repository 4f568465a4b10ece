import { assert, describe, it } from "@effect/vitest"
import * as Fixtures from "../../conformance/fixtures.ts"
import type { DomainName } from "./Address.ts"
import * as DomainRecords from "./DomainRecords.ts"
import type { Answer, ExpectedRecord, RecordSettings } from "./DomainRecords.ts"
import { domainGrace } from "./Limits.ts"
import type { SealedDkimKey, RecordCheck } from "./MailDomain.ts"

const tenantId = Fixtures.realm().tenantId
const name = "mail.example.com" as DomainName
const key = (selector: string, publicKey = "TUlJQklqQU5CZ2txaGtpRzl3MEJBUUVGQUFPQw=="): SealedDkimKey => ({
  selector,
  publicKey,
  privateKey: { version: 1, iv: "AAAA", ciphertext: "AAAA", tag: "AAAA" }
})
const domain = Fixtures.mailDomain(tenantId, { domain: name, proof: "c0ffee", dkim: key("mr1") })
const plain: RecordSettings = { spf: ["include:spf.example.net", "ip4:192.0.2.1"], mxHost: "in.example.net" as DomainName, bounceDomain: null }
const bouncing: RecordSettings = { ...plain, bounceDomain: "bounces.example.net" as DomainName }

const wanted = (record: RecordCheck["record"], settings: RecordSettings = plain): ExpectedRecord =>
  DomainRecords.expected(domain, settings).find((one) => one.record === record)!

const said = (of: ExpectedRecord, answer: Answer, former?: RecordCheck, now = 10) =>
  DomainRecords.check(of, new Map([[DomainRecords.keyOf(of), answer]]), former, now)

const stateOf = (record: RecordCheck["record"], ...answer: ReadonlyArray<string>) =>
  said(wanted(record, record === "return_path" ? bouncing : plain), answer).state

describe("the records of a domain", () => {
  it("are asked for as far as the installation has settings for them", () => {
    const shown = (settings: RecordSettings) =>
      DomainRecords.expected(domain, settings).map(({ record, type, name, value, isOptional }) => `${record} ${type} ${name} ${value}${isOptional ? " ?" : ""}`)
    const always = [
      "ownership TXT _mailroom.mail.example.com mailroom-verify=c0ffee",
      "dkim TXT mr1._domainkey.mail.example.com v=DKIM1; k=rsa; p=TUlJQklqQU5CZ2txaGtpRzl3MEJBUUVGQUFPQw=="
    ]
    const dmarc = "dmarc TXT _dmarc.mail.example.com v=DMARC1; p=none"
    const mx = "mx MX mail.example.com 10 in.example.net ?"

    assert.deepStrictEqual(shown({ spf: [], mxHost: null, bounceDomain: null }), [...always, dmarc])
    assert.deepStrictEqual(shown(plain), [
      ...always,
      "spf TXT mail.example.com v=spf1 include:spf.example.net ip4:192.0.2.1 ~all",
      dmarc,
      mx
    ])
    assert.deepStrictEqual(shown(bouncing), [...always, dmarc, "return_path CNAME bounce.mail.example.com bounces.example.net ?", mx])
  })

  it("ask for the key that signs, else for the one that waits; and for that beside it while a key is rotated", () => {
    const dkim = (of: typeof domain) => DomainRecords.expected(of, plain).find(({ record }) => record === "dkim")?.name
    const [fresh, rotating] = [{ ...domain, dkim: null, nextDkim: key("mr2") }, { ...domain, nextDkim: key("mr2") }]

    assert.strictEqual(dkim(domain), "mr1._domainkey.mail.example.com")
    assert.strictEqual(dkim(fresh), "mr2._domainkey.mail.example.com")
    assert.strictEqual(dkim(rotating), "mr1._domainkey.mail.example.com")
    assert.deepStrictEqual(
      [domain, fresh, rotating].map((of) => DomainRecords.expectedNext(of)?.name),
      [undefined, undefined, "mr2._domainkey.mail.example.com"]
    )
  })

  const rows: ReadonlyArray<readonly [RecordCheck["record"], RecordCheck["state"], ReadonlyArray<string>]> = [
    ["ownership", "ok", ["mailroom-verify=c0ffee"]],
    ["ownership", "ok", ["v=spf1 -all", " mailroom-verify=c0ffee "]],
    ["ownership", "mismatch", ["mailroom-verify=decaf"]],
    ["ownership", "missing", []],
    ["dkim", "ok", ["v=DKIM1; k=rsa; p=TUlJQklqQU5CZ2txaGtpRzl3MEJBUUVGQUFPQw=="]],
    ["dkim", "ok", ["p=TUlJQklqQU5CZ2 txaGtpRzl3\tMEJBUUVGQUFPQw== ;"]],
    ["dkim", "ok", ["v=DKIM1; h=sha1:sha256; s=*; t=y:s; n=ours; p=TUlJQklqQU5CZ2txaGtpRzl3MEJBUUVGQUFPQw=="]],
    ["dkim", "mismatch", ["v=DKIM1; k=rsa; p="]],
    ["dkim", "mismatch", ["v=DKIM1; k=rsa; p=tUlJQklqQU5CZ2txaGtpRzl3MEJBUUVGQUFPQw=="]],
    ["dkim", "mismatch", ["v=DKIM1; k=ed25519; p=TUlJQklqQU5CZ2txaGtpRzl3MEJBUUVGQUFPQw=="]],
    ["dkim", "mismatch", ["v=DKIM1; h=sha1; p=TUlJQklqQU5CZ2txaGtpRzl3MEJBUUVGQUFPQw=="]],
    ["dkim", "mismatch", ["v=DKIM1; s=other; p=TUlJQklqQU5CZ2txaGtpRzl3MEJBUUVGQUFPQw=="]],
    ["dkim", "mismatch", ["v=DKIM2; p=TUlJQklqQU5CZ2txaGtpRzl3MEJBUUVGQUFPQw=="]],
    ["dkim", "mismatch", ["p=TUlJQklqQU5CZ2txaGtpRzl3MEJBUUVGQUFPQw==; p="]],
    ["dkim", "mismatch", ["p=TUlJQklqQU5CZ2txaGtpRzl3MEJBUUVGQUFPQw==", "p="]],
    ["dkim", "mismatch", ["no tags at all"]],
    ["dkim", "mismatch", ['"v=DKIM1; k=rsa; p=TUlJQklqQU5CZ2txaGtpRzl3MEJBUUVGQUFPQw=="']],
    ["spf", "ok", ["v=spf1 include:spf.example.net ip4:192.0.2.1 ~all"]],
    ["spf", "ok", ["google-site-verification=x", "V=SPF1  a  +IP4:192.0.2.1 include:SPF.example.net. ?all"]],
    ["spf", "ok", ["v=spf1 ip4:192.0.2.1 include:spf.example.net redirect=_spf.example.org"]],
    ["spf", "mismatch", ["v=spf1 include:spf.example.net -all"]],
    ["spf", "mismatch", ["v=spf1 include:spf.example.net ~ip4:192.0.2.1 -all"]],
    ["spf", "mismatch", ["v=spf1 include:spf.example.net -all ip4:192.0.2.1"]],
    ["spf", "mismatch", ["v=spf1 include:spf.example.net ip4:192.0.2.1 -all", "v=spf1 -all"]],
    ["spf", "missing", ["v=spf10 include:spf.example.net ip4:192.0.2.1 -all"]],
    ["spf", "ok", ['"v=spf1 -all"', "v=spf1 include:spf.example.net ip4:192.0.2.1 ~all"]],
    ["spf", "mismatch", ['"v=spf1 include:spf.example.net ip4:192.0.2.1 ~all"']],
    ["spf", "mismatch", [' "v=spf1 include:spf.example.net" " ip4:192.0.2.1 ~all" ']],
    ["spf", "missing", ['"v=spf1 include:spf.example.net ip4:192.0.2.1 ~all']],
    ["spf", "missing", ['"google-site-verification=x"', '"']],
    ["spf", "missing", []],
    ["dmarc", "ok", ["v=DMARC1; p=reject; rua=mailto:dmarc@example.com; adkim=s"]],
    ["dmarc", "ok", ["verification=x", "v = DMARC1 ;p = None;"]],
    ["dmarc", "ok", ["v=DMARC1; p=none; rua=mailto:a@example.com; rua=mailto:b@example.com"]],
    ["dmarc", "ok", ["v=DMARC1; p=reject; rua=mailto:a@example.com;mailto:b@example.com"]],
    ["dmarc", "ok", ["v=DMARC1; P=quarantine; pct; =; x-y=z"]],
    ["dmarc", "mismatch", ["v=DMARC1; p=reject rua=mailto:a@example.com"]],
    ["dmarc", "mismatch", ["v=DMARC1; sp=none"]],
    ["dmarc", "mismatch", ["v=DMARC1; p=maybe"]],
    ["dmarc", "mismatch", ["v=DMARC1; rua=mailto:dmarc@example.com"]],
    ["dmarc", "mismatch", ["v=DMARC1; p=none", "v=DMARC1; p=reject"]],
    ["dmarc", "mismatch", ["v=DMARC1; p=none; p=reject"]],
    ["dmarc", "missing", ["p=none; v=DMARC1", "v=dmarc1; p=none"]],
    ["dmarc", "mismatch", ['"v=DMARC1; p=none"']],
    ["return_path", "ok", ["Bounces.Example.NET."]],
    ["return_path", "mismatch", ["bounces.example.org"]],
    ["return_path", "missing", []],
    ["mx", "ok", ["10 in.example.net"]],
    ["mx", "ok", ["20 backup.example.com", "5 IN.example.net."]],
    ["mx", "ok", ["5 other.example.com", "5 in.example.net"]],
    ["mx", "mismatch", ["10 mx.example.com", "20 in.example.net"]],
    ["mx", "mismatch", ["0 ."]],
    ["mx", "missing", []]
  ]
  for (const [record, state, answer] of rows) {
    it(`${record}: ${JSON.stringify(answer)} is ${state}`, () => assert.strictEqual(stateOf(record, ...answer), state))
  }

  it("show what was found, but not all that a stranger may have put there", () => {
    const found = said(wanted("spf"), ["v=spf1 -all", "v=spf1 +all", "another text"])
    const long = said(wanted("ownership"), ["x".repeat(60_000)])

    assert.strictEqual(found.observed, "v=spf1 -all\nv=spf1 +all")
    assert.strictEqual(said(wanted("spf"), ['"v=spf1 -all"', '"another text"']).observed, '"v=spf1 -all"')
    assert.strictEqual(long.observed?.length, 1_001)
  })

  it("inherit a DMARC policy from the domains above, down to two labels", () => {
    const dmarc = wanted("dmarc")
    const names = DomainRecords.questionsOf(dmarc).map((question) => question.name)
    const state = (...pairs: ReadonlyArray<readonly [string, Answer]>) => {
      const answers = new Map(pairs.map(([of, answer]) => [DomainRecords.keyOf({ type: "TXT", name: of }), answer] as const))
      return DomainRecords.check(dmarc, answers, undefined, 0).state
    }

    assert.deepStrictEqual(names, ["_dmarc.mail.example.com", "_dmarc.example.com"])
    assert.strictEqual(state(["_dmarc.example.com", ["v=DMARC1; p=reject"]]), "ok")
    assert.strictEqual(state(["_dmarc.mail.example.com", ["v=DMARC1; p=?"]], ["_dmarc.example.com", ["v=DMARC1; p=reject"]]), "mismatch")
    assert.strictEqual(state(["_dmarc.mail.example.com", ['"v=DMARC1; p=none"']], ["_dmarc.example.com", ["v=DMARC1; p=reject"]]), "ok")
    assert.strictEqual(state(["_dmarc.mail.example.com", []], ["_dmarc.example.com", ['"v=DMARC1; p=reject"']]), "mismatch")
    assert.strictEqual(state(["_dmarc.mail.example.com", ['"v=DMARC1; p=none"']], ["_dmarc.example.com", "unavailable"]), "unknown")
    assert.strictEqual(state(["_dmarc.mail.example.com", "unavailable"], ["_dmarc.example.com", ["v=DMARC1; p=reject"]]), "unknown")
    assert.strictEqual(state(), "missing")
  })
})

describe("since when", () => {
  const ownership = wanted("ownership")
  const former = (state: RecordCheck["state"]): RecordCheck => ({ record: "ownership", state, expected: "x", observed: null, since: 3 })
  const [good, bad]: ReadonlyArray<ReadonlyArray<string>> = [[ownership.value], []]

  it("a record is in order, or not, from when it last entered or left that", () => {
    assert.strictEqual(said(ownership, good!).since, 10)
    assert.strictEqual(said(ownership, good!, former("ok")).since, 3)
    assert.strictEqual(said(ownership, good!, former("missing")).since, 10)
    assert.strictEqual(said(ownership, bad!, former("ok")).since, 10)
    assert.strictEqual(said(ownership, bad!, former("mismatch")).since, 3)
  })

  it("goes on while nobody can look it up", () => {
    assert.deepStrictEqual(said(ownership, "unavailable", former("missing")), { ...former("unknown"), expected: ownership.value })
    assert.strictEqual(said(ownership, "unavailable").since, 10)
  })
})

describe("what counts", () => {
  const all = DomainRecords.expected(domain, bouncing)
  const checked = (record: RecordCheck["record"], state: RecordCheck["state"], since = 0): RecordCheck => ({
    record,
    state,
    expected: "x",
    observed: null,
    since
  })
  const counted = (found: ReadonlyArray<RecordCheck>, former: ReadonlyArray<RecordCheck> = [], now = 0) =>
    DomainRecords.counted(all, found, former, now)

  it("is every record that must be there, and an optional one once it was", () => {
    const [owned, mx] = [checked("ownership", "missing"), checked("mx", "missing")]

    assert.deepStrictEqual(counted([owned, mx]).checks, [owned])
    assert.deepStrictEqual(counted([owned, checked("mx", "ok")]).checks, [owned, checked("mx", "ok")])
    assert.deepStrictEqual(counted([owned, mx], [checked("mx", "ok")]).checks, [owned, mx])
  })

  it("is an optional record that has gone for as long as the grace", () => {
    const gone = checked("return_path", "mismatch", 5)

    assert.deepStrictEqual(counted([gone], [gone], 5 + domainGrace).checks, [gone])
    assert.deepStrictEqual(counted([gone], [gone], 6 + domainGrace).checks, [])
  })

  it("is kept as it was seen last while it cannot be looked up", () => {
    const [unknown, ok] = [checked("dkim", "unknown"), checked("dkim", "ok")]

    assert.deepStrictEqual(counted([unknown], [ok]), { checks: [unknown], kept: [ok] })
    assert.deepStrictEqual(counted([unknown]), { checks: [unknown], kept: [unknown] })
    assert.deepStrictEqual(counted([checked("mx", "unknown")]), { checks: [], kept: [] })
  })
})

describe("the Return-Path", () => {
  const at = (state: RecordCheck["state"]) => ({
    ...domain,
    checks: [{ record: "return_path", state, expected: "x", observed: null, since: 0 } as const]
  })

  it("is under the domain's own name once its record was seen, else the installation's, or none", () => {
    const { bounceDomain } = bouncing

    assert.strictEqual(DomainRecords.returnPathDomain(at("ok"), bounceDomain), "bounce.mail.example.com")
    for (const of of [domain, at("missing"), at("mismatch")]) {
      assert.strictEqual(DomainRecords.returnPathDomain(of, bounceDomain), bounceDomain)
    }
    assert.strictEqual(DomainRecords.returnPathDomain(at("ok"), null), null)
  })
})

describe("advice", () => {
  it("says what to do about each record that is not in order, and nothing of one that is", () => {
    for (const of of DomainRecords.expected(domain, bouncing)) {
      assert.include(DomainRecords.advice(of, said(of, [])), of.value)
      assert.include(DomainRecords.advice(of, said(of, "unavailable")), of.name)
    }
    const told = (record: RecordCheck["record"], ...answer: ReadonlyArray<string>) => {
      const of = wanted(record)
      return DomainRecords.advice(of, said(of, answer))
    }
    assert.isNull(told("dmarc", "v=DMARC1; p=none"))
    assert.include(told("dkim", "v=DKIM1; p="), "revoked")
    assert.include(told("dkim", "v=DKIM1; p=AAAA"), "not of this key")
    assert.include(told("dkim", "p=AAAA", "p="), "several")
    assert.include(told("spf", "v=spf1 -all"), "put include:spf.example.net ip4:192.0.2.1 into it")
    assert.include(told("spf", "v=spf1 -all", "v=spf1 ~all"), "several")
  })

  it("says of a record in quotation marks that it is there, and to publish it without them", () => {
    for (const record of ["ownership", "dkim", "spf", "dmarc"] as const) {
      const of = wanted(record)
      const advice = DomainRecords.advice(of, said(of, [`"${of.value}"`]))

      assert.include(advice, "publish it without them", record)
      assert.include(advice, of.name, record)
      assert.notInclude(DomainRecords.advice(of, said(of, [`"${of.value}`])), "without them", record)
    }
  })
})
