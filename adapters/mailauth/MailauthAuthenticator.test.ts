import { assert, describe, it } from "@effect/vitest"
import { Cause, Duration, Effect, Exit, Stream } from "effect"
import { dkimSign } from "mailauth"
import { generateKeyPairSync } from "node:crypto"
import { runWithout } from "../../conformance/MissingPackage.ts"
import { withProcessorTime } from "../../conformance/ProcessorTime.ts"
import { MailAuthenticator } from "../../core/ports/MailAuthenticator.ts"
import { ofAuthorShown, type Peer } from "../../core/model/Reception.ts"
import { Mime } from "../../core/ports/Mime.ts"
import * as RfcMime from "../mime/RfcMime.ts"
import * as MailauthAuthenticator from "./MailauthAuthenticator.ts"
import * as Threads from "./Threads.ts"
import * as Zone from "./Zone.ts"

const peer: Peer = { remoteAddress: "192.0.2.1", helo: "mail.client.test", protocol: "ESMTPS" }
const head = "From: Ada <ada@client.test>\r\nSubject: Note G\r\n"

const judge = (
  message: Buffer | ReadonlyArray<Uint8Array>,
  { resolve }: Pick<Zone.Zone, "resolve">,
  { returnPath = "ada@client.test", ...over }: Partial<MailauthAuthenticator.Options & { readonly returnPath: string }> = {}
) =>
  MailAuthenticator.use((authenticator) =>
    authenticator.authenticate({ peer, returnPath, bytes: Stream.fromIterable(Buffer.isBuffer(message) ? [message] : message) })
  ).pipe(Effect.provide(MailauthAuthenticator.layerWith({ hostname: "mail.ours.test", resolve, ...over })))

const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2_048 })
const pem = String(privateKey.export({ type: "pkcs8", format: "pem" }))
const keyRecord = `v=DKIM1; p=${publicKey.export({ type: "spki", format: "der" }).toString("base64")}`
const zone = () => Zone.make({ "TXT client.test": ["v=spf1 ip4:192.0.2.0/24 -all"], "TXT rsa._domainkey.client.test": [keyRecord], "A client.test": ["192.0.2.1"] })

const key = { signingDomain: "client.test", selector: "rsa", privateKey: pem }
const sign = (message: Buffer) =>
  Effect.promise(async () => Buffer.concat([Buffer.from((await dkimSign(message, { ...key, signatureData: [key] })).signatures), message]))

describe("MailauthAuthenticator", () => {
  it.live("leaves what a message of 25 MB costs to a thread", () =>
    Effect.gen(function* () {
      const message = yield* sign(Buffer.from(`${head}\r\n${`${"engine  ".repeat(9)}\r\n`.repeat(340_000)}`))
      const before = process.threadCpuUsage()

      const { result, took } = yield* withProcessorTime(judge(message, zone()))

      const { user, system } = process.threadCpuUsage(before)
      assert.isAtLeast(message.length, 25_000_000)
      assert.strictEqual(result.dkim, "pass")
      assert.isBelow((user + system) / 1_000, took / 2)
    }),
    60_000
  )

  it.live("hands on by 64 KB, each when there is room, what comes in one piece", () =>
    Effect.gen(function* () {
      const program = `import { parentPort } from "node:worker_threads"
        const sizes = []
        let hasRoom = true
        parentPort.on("message", ({ _tag, id, bytes }) => {
          if (_tag === "Bytes") {
            sizes.push(hasRoom ? bytes.length : "too soon")
            hasRoom = false
            setTimeout(() => {
              hasRoom = true
              parentPort.postMessage({ _tag: "More", id })
            }, 5)
          }
          if (_tag === "End") parentPort.postMessage({ _tag: "Found", id, found: sizes })
        })`
      const threads = yield* Threads.make(new URL(`data:text/javascript,${encodeURIComponent(program)}`))
      const { end, found, write } = yield* threads.examine({ mta: "", sender: "", ip: "", helo: "" }, zone().resolve, Duration.minutes(1))

      yield* write(Buffer.alloc(150_000))
      yield* end

      assert.deepEqual<unknown>(yield* found, [65_536, 65_536, 18_928])
    })
  )

  it.live("looks at ten of 1,000 signatures, each of which would have the body hashed anew", () =>
    Effect.gen(function* () {
      const one = (index: number) =>
        `DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=client.test; s=s${index}; l=${index + 1};\r\n h=from; bh=AAAA; b=AAAA\r\n`
      const many = Array.from({ length: 1_000 }, (_, index) => one(index)).join("")
      const names = zone()

      const { result, took } = yield* withProcessorTime(judge(Buffer.from(`${many}${head}\r\n${"x\r\n".repeat(500_000)}`), names))

      assert.notStrictEqual(result.dkim, "pass")
      assert.isAtMost(names.asked.filter((question) => question.includes("_domainkey")).length, 10)
      assert.isAtMost(took, 5_000)
    }),
    30_000
  )

  it.live("still finds the first signature among many", () =>
    Effect.gen(function* () {
      const signed = yield* sign(Buffer.from(`${head}\r\nx\r\n`))
      const more = "DKIM-Signature: v=1; a=rsa-sha256; d=client.test; s=gone; h=from; bh=AAAA; b=AAAA\r\n".repeat(50)
      const end = signed.indexOf("From: ")

      const { dkim } = yield* judge(Buffer.concat([signed.subarray(0, end), Buffer.from(more), signed.subarray(end)]), zone())

      assert.strictEqual(dkim, "pass")
    })
  )

  it.live("is not held up by keys of any size, or by what is no key", () =>
    Effect.gen(function* () {
      const signed = yield* sign(Buffer.from(`${head}\r\nx\r\n`))
      for (const record of [`v=DKIM1; p=${"A".repeat(60_000)}`, "v=DKIM1; p=", ";".repeat(60_000), "v=DKIM1; k=rsa; p=\0"]) {
        const names = Zone.make({ "TXT rsa._domainkey.client.test": [record] })

        const { result, took } = yield* withProcessorTime(judge(signed, names))

        assert.notStrictEqual(result.dkim, "pass")
        assert.isAtMost(took, 2_000)
      }
    })
  )

  it.live("asks few names of an SPF record that includes a hundred, and one that includes itself", () =>
    Effect.gen(function* () {
      const includes = Array.from({ length: 100 }, (_, index) => `include:s${index}.client.test`)
      const many = Zone.make({
        "TXT client.test": [`v=spf1 ${includes.join(" ")} -all`],
        ...Object.fromEntries(includes.map((include) => [`TXT ${include.slice(8)}`, [`v=spf1 ${includes.join(" ")} -all`]]))
      })
      const itself = Zone.make({ "TXT client.test": ["v=spf1 include:client.test mx ptr -all"] })

      for (const names of [many, itself]) {
        const { spf } = yield* judge(Buffer.from(`${head}\r\nx\r\n`), names)

        assert.strictEqual(spf, "permerror")
        assert.isAtMost(names.asked.length, 40)
      }
    })
  )

  it.live("asks a bounded number of names of what asks for as many as it can", () =>
    Effect.gen(function* () {
      const mx = Array.from({ length: 100 }, (_, index) => ({ exchange: `m${index}.client.test`, priority: index }))
      const names = Zone.make({
        "TXT client.test": [`v=spf1 ${"mx ".repeat(10)} -all`],
        "MX client.test": mx,
        ...Object.fromEntries(mx.map(({ exchange }) => [`A ${exchange}`, ["198.51.100.1"]]))
      })
      const signatures = Array.from({ length: 10 }, (_, index) => `DKIM-Signature: v=1; a=rsa-sha256; d=client.test; s=s${index}; h=from; bh=AAAA; b=AAAA\r\n`)
      const seals = Array.from(
        { length: 50 },
        (_, index) => `ARC-Seal: i=${index + 1}; a=rsa-sha256; cv=${index === 0 ? "none" : "pass"}; d=client.test; s=a${index}; b=AAAA\r\n` +
          `ARC-Message-Signature: i=${index + 1}; a=rsa-sha256; d=client.test; s=a${index}; h=from; bh=AAAA; b=AAAA\r\nARC-Authentication-Results: i=${index + 1}; x.test; none\r\n`
      )
      yield* judge(Buffer.from(`${signatures.join("")}${seals.join("")}${head}\r\nx\r\n`), names)

      assert.isAtMost(names.asked.length, 80)
    })
  )

  it.live("asks the author's domain for its policy, whatever the sender has it ask for before", () =>
    Effect.gen(function* () {
      const policy = { "TXT _dmarc.client.test": ["v=DMARC1; p=reject"] }
      const hosts = Array.from({ length: 8 }, (_, index) => `m${index}.eve.test`)
      const manyNames = (prefix: string) => {
        const exchanges = (host: string) => Array.from({ length: 10 }, (_, index) => `${prefix}x${index}.${host}`)
        return {
          ...policy,
          "TXT eve.test": [`v=spf1 ${hosts.map((host) => `mx:${prefix}${host}`).join(" ")} -all`],
          ...Object.fromEntries(hosts.map((host) => [`MX ${prefix}${host}`, exchanges(host).map((exchange) => ({ exchange, priority: 1 }))])),
          ...Object.fromEntries(hosts.flatMap(exchanges).map((host) => [`A ${host}`, ["198.51.100.1"]]))
        }
      }
      const slowNames = (selector: string, host: string) => ({
        ...policy,
        "TXT eve.test": [`v=spf1 include:${host} -all`],
        [`TXT ${host}`]: "hang",
        [`TXT ${selector}._domainkey.eve.test`]: "hang"
      })
      for (const [records, selector] of [
        [manyNames(""), "s"],
        [manyNames("_dmarc."), "s"],
        [slowNames("s", "slow.eve.test"), "s"],
        [slowNames("s", "_dmarc.eve.test"), "s"],
        [slowNames("_dmarc.s", "slow.eve.test"), "_dmarc.s"]
      ] as const) {
        const signature = `DKIM-Signature: v=1; a=rsa-sha256; d=eve.test; s=${selector}; h=from; bh=AAAA; b=AAAA\r\n`
        const { spf, dmarc, dmarcPolicy } = yield* judge(Buffer.from(`${signature}${head}\r\nx\r\n`), Zone.make(records), {
          timeout: "2 seconds",
          returnPath: "eve@eve.test"
        })

        assert.deepStrictEqual([spf, dmarcPolicy], ["temperror", "reject"])
        assert.notStrictEqual(dmarc, "pass")
      }
    })
  )

  it.live("answers when the time is over, whatever the DNS does", () =>
    Effect.gen(function* () {
      const names = Zone.make({ "TXT client.test": "hang", "TXT rsa._domainkey.client.test": "hang", "TXT _dmarc.client.test": "hang" })
      const signed = yield* sign(Buffer.from(`${head}\r\nx\r\n`))

      // Of real time: waiting costs the processor nothing.
      const [took, result] = yield* Effect.timed(judge(signed, names, { timeout: "200 millis" }))

      assert.deepStrictEqual(result, { spf: "temperror", dkim: "temperror", dmarc: "temperror", arc: "temperror", dmarcPolicy: null, author: null })
      assert.isBelow(Duration.toMillis(took), 5_000)
    })
  )

  it.live("gives a thread up that does not listen any more, and the messages it had", () =>
    Effect.gen(function* () {
      const threads = yield* Threads.make(new URL("data:text/javascript,for(;;);"))
      const opening = { mta: "mail.ours.test", sender: "", ip: "192.0.2.1", helo: "" }
      const asking = Duration.seconds(1)
      const other = yield* threads.examine(opening, zone().resolve, asking)

      yield* Effect.scoped(threads.examine(opening, zone().resolve, asking))

      assert.isNull(yield* other.found)
    })
  )

  it.live("does not look at a header without an end, and is quick with a strange one", () =>
    Effect.gen(function* () {
      const signature = (names: string) => `DKIM-Signature: v=1; a=rsa-sha256; d=client.test; s=rsa; bh=AAAA; b=AAAA; h=${names}\r\n`
      const endless = Array.from({ length: 400 }, () => Buffer.alloc(65_536, "x"))
      const strange = [
        "From: ".concat("(".repeat(200_000)),
        "From: ".concat("<".repeat(200_000)),
        "From: ".concat("a@b,".repeat(50_000)),
        "From: ".concat("a:".repeat(100_000)),
        "From: ".concat("\"".repeat(200_001)),
        "a:\r\n".repeat(50_000).concat("From: ada@client.test"),
        "From: ada@client.test\r\n".concat(" x\r\n".repeat(50_000), "X: y"),
        "From: ada@client.test\r\nContent-Type: text/plain; ".concat("a*0=b; ".repeat(30_000)),
        "From: ada@client.test\r\n".concat("x\r\n".repeat(60_000), "X: y"),
        "From: ada@client.test\r\nX: y\r\n".concat("\v\r\n".repeat(60_000)),
        "a".concat("\t".repeat(200_000), "x\r\nFrom: ada@client.test"),
        " From: ".concat("a:".repeat(100_000)),
        "DKIM-Signature: ".concat("a=b;".repeat(50_000)),
        signature("from:".concat("z:".repeat(7_500), "to")).repeat(10).concat("a:\r\n".repeat(25_000), "From: ada@client.test"),
        signature("from".concat(" ".repeat(15_000), ":to")).repeat(10).concat("From: ada@client.test"),
        "DKIM-Signature: v=1; a=rsa-sha256; d=client.test; s=rsa; bh=AAAA; b=AAAA; h=".concat("from:".repeat(40_000), "to"),
        "ARC-Seal: i=1;\r\n".repeat(10_000).concat("From: ada@client.test")
      ]

      const { result } = yield* withProcessorTime(judge(endless, zone()))
      assert.strictEqual(result.dkim, "permerror")
      for (const header of strange) {
        const { took } = yield* withProcessorTime(judge(Buffer.from(`${header}\r\n\r\nx\r\n`), zone()))
        assert.isAtMost(took, 1_500, header.slice(0, 40))
      }
    }),
    60_000
  )

  it.live("takes nobody's word for a message that shows another author, in a field too long to read", () =>
    Effect.gen(function* () {
      const records = Zone.make({ "TXT client.test": ["v=spf1 ip4:192.0.2.0/24 -all"], "TXT _dmarc.client.test": ["v=DMARC1; p=reject"] })
      const alone = yield* judge(Buffer.from(`${head}\r\nx\r\n`), records)
      for (const fold of [" ".repeat(17_000), "\r\n ".repeat(2_500)]) {
        for (const message of [`From: <eve@bank.test>${fold}\r\n${head}\r\nx\r\n`, `${head}From:${fold}<eve@bank.test>\r\n\r\nx\r\n`]) {
          const { spf, dmarc, dmarcPolicy } = yield* judge(Buffer.from(message), records)

          assert.deepStrictEqual([spf, dmarc, dmarcPolicy], ["pass", "permerror", null])
        }
      }
      assert.strictEqual(alone.dmarc, "pass")
    })
  )

  it.live("takes no line for the author's that goes on with our own, nor misses one that is folded before its colon", () =>
    Effect.gen(function* () {
      const records = Zone.make({ "TXT client.test": ["v=spf1 ip4:192.0.2.0/24 -all"], "TXT _dmarc.client.test": ["v=DMARC1; p=reject"] })

      for (const header of [" From: ada@client.test\r\nSubject: Note G", "From\r\n : eve@bank.test, ada@client.test"]) {
        const { dmarc } = yield* judge(Buffer.from(`${header}\r\n\r\nx\r\n`), records)
        assert.strictEqual(dmarc, "permerror", header)
      }
    })
  )

  it.live("lets no field pass that others may read as another author's", () =>
    Effect.gen(function* () {
      const records = Zone.make({ "TXT client.test": ["v=spf1 ip4:192.0.2.0/24 -all"], "TXT _dmarc.client.test": ["v=DMARC1; p=reject"] })
      const authors: ReadonlyArray<readonly [from: string, dmarc: string]> = [
        ["ada@client.test eve@bank.test", "permerror"],
        ["<ada@client.test> <eve@bank.test>", "permerror"],
        ["<eve@bank.test,ada@client.test>", "permerror"],
        ["\"Eve\" <eve@bank.test,ada@client.test>", "permerror"],
        ["ada@client.test", "pass"],
        ["ada@client.test <ada@client.test>", "pass"],
        ["\"eve@bank.test\" <ada@client.test> (eve@bank.test)", "pass"],
        ["ada@client.test (at the desk @ home)", "pass"],
        [`"${"a".repeat(5_000)}" <ada@client.test>`, "permerror"]
      ]
      for (const [from, expected] of authors) {
        const { dmarc } = yield* judge(Buffer.from(`From: ${from}\r\n\r\nx\r\n`), records)
        assert.strictEqual(dmarc, expected, from.slice(0, 80))
      }
    })
  )

  it.live("names the author whose domain it asked, whoever else the field may be read to name", () =>
    Effect.gen(function* () {
      const records = Zone.make({ "TXT client.test": ["v=spf1 ip4:192.0.2.0/24 -all"], "TXT _dmarc.client.test": ["v=DMARC1; p=reject"] })
      const authors: ReadonlyArray<readonly [from: string, author: string | null]> = [
        ["Ada <ada@client.test>", "client.test"],
        ["ada@CLIENT.test.", "client.test"],
        ["ada@b\u00fccher.test", "xn--bcher-kva.test"],
        ["[ada@client.test @client.test <eve@bank.test>:", "client.test"],
        ["\",[: <eve@bank.test>@client.test", "client.test"],
        ["ada@client.test eve@bank.test", "client.test"],
        ["ada@client.test, eve@bank.test", null],
        [`<ada@client.test>${" ".repeat(17_000)}`, null],
        ["", null]
      ]
      for (const [from, expected] of authors) {
        const { author } = yield* judge(Buffer.from(`From: ${from}\r\n\r\nx\r\n`), records)
        assert.strictEqual(author, expected, from.slice(0, 80))
      }
    })
  )

  it.live("lets nobody pass whom the message does not show", () =>
    Effect.gen(function* () {
      const records = Zone.make({ "TXT client.test": ["v=spf1 ip4:192.0.2.0/24 -all"], "TXT _dmarc.client.test": ["v=DMARC1; p=reject"] })
      const { readHead } = yield* Effect.provide(Mime, RfcMime.layer)
      const shown: ReadonlyArray<readonly [from: string, dmarc: string]> = [
        ["Ada <ada@client.test>", "pass"],
        ["[ada@client.test @client.test <eve@bank.test>:", "permerror"],
        ["\",[: <eve@bank.test>@client.test", "permerror"],
        ["ada@other.test eve@bank.test", "permerror"],
        ["eve@\uff42ank.test", "permerror"],
        ["eve\uff20bank.test, ada@client.test", "permerror"]
      ]
      for (const [from, expected] of shown) {
        const message = Buffer.from(`From: ${from}\r\n\r\nx\r\n`)
        const head = yield* readHead(message)
        const { dmarc } = ofAuthorShown(yield* judge(message, records), head.from)
        assert.strictEqual(dmarc, expected, from)
      }
    })
  )

  it.live("does not begin where a bundle has left the program of its threads behind, and says what to do", () =>
    Effect.gen(function* () {
      for (const url of [undefined, "file:///srv/app/bundle.mjs"]) {
        const exit = yield* Effect.exit(Effect.sync(() => Threads.programBeside(url)))

        assert.isTrue(Exit.isFailure(exit) && /external/.test(Cause.pretty(exit.cause)), String(url))
      }
    })
  )

  it("does not begin where mailauth is not installed, for then nothing would be refused", () => {
    const program = `
      import { Effect, Layer } from "effect"
      import { layerWith } from ${JSON.stringify(import.meta.resolve("./MailauthAuthenticator.ts"))}
      const layer = layerWith({ hostname: "mail.ours.test" })
      await Effect.runPromise(Effect.scoped(Layer.build(layer))).then(() => console.log("begun"), ({ code }) => console.log(code))`

    assert.deepInclude(runWithout("mailauth", import.meta.dirname, program), { stdout: "ERR_MODULE_NOT_FOUND\n", stderr: "" })
    assert.deepInclude(runWithout(null, import.meta.dirname, program), { stdout: "begun\n", stderr: "" })
  })
})
