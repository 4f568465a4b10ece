/** What every Crypto adapter promises; `CryptoKeyRing` holds what several of them promise each other. */
import { Cause, Effect, Exit, Fiber, Redacted } from "effect"
import { TestClock } from "effect/testing"
import assert from "node:assert/strict"
import type { SealedSecret } from "../core/model/SealedSecret.ts"
import { Crypto, CryptoBusy } from "../core/ports/Crypto.ts"
import type { Check, Suite } from "./Suite.ts"

export const secret = Redacted.make("whsec_B5xqEqLYcPVYQsYFvZUZsvV4TYcK")
export const context = "tenant-1/endpoint-1"

const check = (title: string, body: (crypto: Crypto["Service"]) => Effect.Effect<void, unknown>): Check<Crypto> => ({
  title,
  check: Effect.flatMap(Crypto, body)
})

// Identifiers

const uuidShape = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const millisOf = (uuid: string): number => Number.parseInt(uuid.slice(0, 8) + uuid.slice(9, 13), 16)

const takeUuids = (crypto: Crypto["Service"], count: number) => Effect.all(Array.from({ length: count }, () => crypto.uuid))

const assertRising = (uuids: ReadonlyArray<string>) => {
  for (const [index, uuid] of uuids.entries()) {
    assert.match(uuid, uuidShape)
    if (index > 0) assert.ok(uuids[index - 1]! < uuid, `${uuid} does not rise above ${uuids[index - 1]}`)
  }
}

/** Sets the clock to a time that no id of this adapter has reached. */
const reachNewTime = Effect.fnUntraced(function* (crypto: Crypto["Service"]) {
  const now = millisOf(yield* crypto.uuid) + 1_000_000
  yield* TestClock.setTime(now)
  return now
})

const identifiers = [
  check("makes UUIDs of version 7 that begin with the clock's milliseconds", (crypto) =>
    Effect.gen(function* () {
      const now = yield* reachNewTime(crypto)

      const uuid = yield* crypto.uuid

      assert.match(uuid, uuidShape)
      assert.equal(millisOf(uuid), now)
    })
  ),
  check("makes rising UUIDs while the clock stands still", (crypto) =>
    Effect.gen(function* () {
      const now = yield* reachNewTime(crypto)

      const uuids = yield* takeUuids(crypto, 5_000)

      assertRising(uuids)
      assert.ok(millisOf(uuids.at(-1)!) - now < 5, "the ids run away from the clock")
    })
  ),
  check("makes rising UUIDs while the clock goes on", (crypto) =>
    Effect.gen(function* () {
      yield* reachNewTime(crypto)
      const uuids: Array<string> = []
      for (let step = 0; step < 50; step++) {
        uuids.push(...(yield* takeUuids(crypto, 3)))
        yield* TestClock.adjust(step % 3)
      }

      assertRising(uuids)
    })
  ),
  check("makes rising UUIDs when the clock steps back", (crypto) =>
    Effect.gen(function* () {
      const now = yield* reachNewTime(crypto)
      const before = yield* takeUuids(crypto, 3)
      yield* TestClock.setTime(now - 3_600_000)
      const behind = yield* takeUuids(crypto, 100)
      yield* TestClock.setTime(now + 1)
      const after = yield* takeUuids(crypto, 3)

      assertRising([...before, ...behind, ...after])
      assert.equal(millisOf(after[0]!), now + 1)
    })
  ),
  check("makes UUIDs that cannot be guessed from the one before", (crypto) =>
    Effect.gen(function* () {
      yield* reachNewTime(crypto)

      const tails = (yield* takeUuids(crypto, 1_000)).map((uuid) => uuid.slice(-8))

      assert.ok(new Set(tails).size > 990, "the last 32 bits repeat")
    })
  ),
  check("draws as many random bytes as asked for, other ones each time", (crypto) =>
    Effect.gen(function* () {
      for (const count of [0, 1, 24, 1_000, 70_000]) assert.equal((yield* crypto.randomBytes(count)).length, count)

      const draws = yield* Effect.all(Array.from({ length: 200 }, () => crypto.randomBytes(16)))

      assert.equal(new Set(draws.map((bytes) => Buffer.from(bytes).toString("hex"))).size, 200)
      assert.ok(new Set(draws.flatMap((bytes) => [...bytes])).size > 250, "some bytes never come")
    })
  ),
  check("leaves the bytes alone that it has drawn", (crypto) =>
    Effect.gen(function* () {
      const drawn = yield* Effect.all(Array.from({ length: 10 }, () => crypto.randomBytes(16)))
      const copies = drawn.map((bytes) => Uint8Array.from(bytes))

      for (let time = 0; time < 200; time++) yield* crypto.randomBytes(1_000)

      assert.deepEqual(drawn.map((bytes) => Uint8Array.from(bytes)), copies)
    })
  )
]

// Digests

/** FIPS 180-4's examples, and the empty text. */
const digests: ReadonlyArray<readonly [text: string, digest: string]> = [
  ["", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"],
  ["abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"],
  [
    "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
  ]
]

const digesting = [
  check("digests with SHA-256, in lower-case hex", (crypto) =>
    Effect.gen(function* () {
      for (const [text, digest] of digests) assert.equal(yield* crypto.digest(text), digest)
    })
  ),
  check("digests a text's UTF-8 bytes", (crypto) =>
    Effect.gen(function* () {
      assert.equal(yield* crypto.digest("é"), "4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c")
      assert.notEqual(yield* crypto.digest("e\u0301"), yield* crypto.digest("\u00e9"), "it digests another spelling of the text")
    })
  ),
  check("signs with HMAC-SHA256 under the secret's UTF-8 bytes", (crypto) =>
    Effect.gen(function* () {
      const sign = (key: string, text: string) => crypto.sign(Redacted.make(key), Buffer.from(text))

      // RFC 4231, cases 1 and 2
      assert.equal(yield* sign("\u000b".repeat(20), "Hi There"), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7")
      assert.equal(
        yield* sign("Jefe", "what do ya want for nothing?"),
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
      )
      assert.equal(yield* sign("whsec_ключ", "Hello"), "4169e314a72df8e03a82e5124012106ebb9f43c4818f7aa1d96ece460ed4108a")
    })
  ),
  check("signs bytes that are no text, and none at all", (crypto) =>
    Effect.gen(function* () {
      const binary = yield* crypto.sign(secret, Uint8Array.of(0, 255, 13, 10, 0xc3))
      const altered = yield* crypto.sign(secret, Uint8Array.of(0, 255, 13, 10, 0xc2))
      const none = yield* crypto.sign(secret, new Uint8Array())

      for (const signature of [binary, altered, none]) assert.match(signature, /^[0-9a-f]{64}$/)
      assert.equal(new Set([binary, altered, none]).size, 3)
    })
  ),
  check("derives a MAC per purpose and text, the same each time", (crypto) =>
    Effect.gen(function* () {
      const first = yield* crypto.mac("bounce", "message-1")

      assert.match(first, /^[0-9a-f]{64}$/)
      assert.equal(yield* crypto.mac("bounce", "message-1"), first)
      assert.notEqual(yield* crypto.mac("bounce", "message-2"), first)
      assert.notEqual(yield* crypto.mac("unsubscribe", "message-1"), first)
      for (const between of ["", " ", ":", "/", "|", ".", ",", "\n", "\u0000"]) {
        assert.notEqual(yield* crypto.mac(`bounce${between}message`, "1"), yield* crypto.mac("bounce", `message${between}1`))
        assert.notEqual(yield* crypto.mac(`bounce${between}message-1`, ""), yield* crypto.mac("bounce", `${between}message-1`))
      }
    })
  )
]

// API key secrets

/** The reference implementation's own vector, and near misses of it. */
export const knownHash = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"
const noHashes = [
  "",
  "password",
  "$argon2id$",
  knownHash.slice(0, -1),
  knownHash.slice(0, -10),
  knownHash.replace("nf65", "nf66"),
  knownHash.replace("HGi/4", "HGj/4"),
  knownHash.replace("c29tZXNhbHQ", "c29tZXNhbHR0"),
  knownHash.replace("m=256", "m=257"),
  knownHash.replace("m=256", "m=1"),
  knownHash.replace("t=2", "t=0"),
  knownHash.replace("p=1", "p=0"),
  knownHash.replace("v=19", "v=16"),
  knownHash.replace("argon2id", "argon2i"),
  knownHash.replace("argon2id", "toString"),
  knownHash.replace("$nf65", "$!f65"),
  `${knownHash}\n`,
  knownHash.slice(0, knownHash.lastIndexOf("$"))
]

/** More hashes at once than any adapter may hold. */
const floodSize = 1_000

const secrets = [
  check("hashes a secret to Argon2id in PHC format and knows it again", (crypto) =>
    Effect.gen(function* () {
      const hash = yield* crypto.hashSecret(secret)

      assert.match(hash, /^\$argon2id\$v=19\$m=\d+,t=\d+,p=\d+\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/)
      assert.equal(yield* crypto.verifySecret(secret, hash), true)
      assert.equal(yield* crypto.verifySecret(Redacted.make(Redacted.value(secret).slice(0, -1)), hash), false)
    })
  ),
  check("knows no secret that only looks like the hashed one", (crypto) =>
    Effect.gen(function* () {
      const long = "a".repeat(100)
      const likenesses: ReadonlyArray<readonly [secret: string, likeness: string]> = [
        [`${long}b`, `${long}c`],
        [long, `${long}a`],
        ["ab\u0000cd", "ab\u0000ce"],
        ["secret", "secret\n"],
        ["secret", " secret"],
        ["secret", "Secret"],
        ["\u00e9", "e\u0301"],
        ["ﬁ", "fi"]
      ]
      for (const [text, likeness] of likenesses) {
        const hash = yield* crypto.hashSecret(Redacted.make(text))

        assert.equal(yield* crypto.verifySecret(Redacted.make(text), hash), true)
        assert.equal(yield* crypto.verifySecret(Redacted.make(likeness), hash), false, `takes ${JSON.stringify(likeness)} for ${JSON.stringify(text)}`)
      }
    })
  ),
  check("salts: the same secret has another hash each time", (crypto) =>
    Effect.gen(function* () {
      const [first, second] = yield* Effect.all([crypto.hashSecret(secret), crypto.hashSecret(secret)])

      assert.notEqual(first, second)
    })
  ),
  check("verifies a hash that another implementation made, at its own cost", (crypto) =>
    Effect.gen(function* () {
      assert.equal(yield* crypto.verifySecret(Redacted.make("password"), knownHash), true)
      assert.equal(yield* crypto.verifySecret(Redacted.make("Password"), knownHash), false)
    })
  ),
  check("verifies no secret against a text that is no hash of it", (crypto) =>
    Effect.gen(function* () {
      for (const text of noHashes) {
        assert.equal(yield* crypto.verifySecret(Redacted.make("password"), text), false, `accepted ${text}`)
      }
    })
  ),
  check("refuses a flood of hashes with CryptoBusy, and recovers when it ends", (crypto) =>
    Effect.gen(function* () {
      const known = yield* crypto.hashSecret(secret)
      const taken: Array<number> = []
      const floods: ReadonlyArray<Effect.Effect<unknown, CryptoBusy>> = [crypto.hashSecret(secret), crypto.verifySecret(secret, known), crypto.hashSecret(secret)]
      for (const work of floods) {
        const fibers = yield* Effect.forEach(Array.from({ length: floodSize }), () => Effect.forkChild(work))
        yield* Effect.yieldNow
        yield* Effect.yieldNow
        const refused = fibers.flatMap((fiber) => fiber.pollUnsafe() ?? []).filter(Exit.isFailure)
        yield* Fiber.interruptAll(fibers)

        assert.ok(refused.length > 0, `${floodSize} hashes were taken on at once`)
        taken.push(floodSize - refused.length)
        for (const { cause } of refused) assert.ok(Cause.squash(cause) instanceof CryptoBusy)
        const hash = yield* crypto.hashSecret(secret)
        assert.equal(yield* crypto.verifySecret(secret, hash), true)
      }
      assert.ok(taken[2]! > taken[0]! / 2, "who gave up has kept its place")
    })
  ),
  check("proves a verified secret by a text that is the same for that secret and hash alone", (crypto) =>
    Effect.gen(function* () {
      const prove = (text: string, hash: string) => crypto.proof(Redacted.make(text), hash)
      const proof = yield* prove("ab", "cd")
      const others = yield* Effect.all([prove("ab", "ce"), prove("aB", "cd"), prove("abc", "d"), prove("a", "bcd"), prove("cd", "ab")])

      assert.equal(yield* prove("ab", "cd"), proof)
      assert.equal(new Set([proof, ...others]).size, others.length + 1)
      assert.ok(proof.length <= 64, "the proof is not short")
    })
  )
]

// Sealed secrets

/** Whether it opens, in a word; if not, with which key's version that was told. */
export const opening = (crypto: Crypto["Service"], sealed: SealedSecret, under = context) =>
  crypto.open(sealed, under).pipe(
    Effect.map(() => "opened"),
    Effect.catchTag("SealBroken", ({ version }) => Effect.succeed(version === sealed.version ? "broken" : `broken, of key ${version}`))
  )

const bytesOf = (base64: string): Buffer => Buffer.from(base64, "base64")

const flipped = (base64: string, index: number): string => {
  const bytes = bytesOf(base64)
  bytes[index] = bytes[index]! ^ 1
  return bytes.toString("base64")
}

const tampered = (sealed: SealedSecret): ReadonlyArray<readonly [what: string, sealed: SealedSecret]> => [
  ...(["iv", "ciphertext", "tag"] as const).flatMap((field) =>
    Array.from(
      bytesOf(sealed[field]),
      (_, index) => [`${field}, byte ${index}`, { ...sealed, [field]: flipped(sealed[field], index) }] as const
    )
  ),
  ["a longer version", { ...sealed, version: sealed.version + 1 }],
  ["an unknown version", { ...sealed, version: sealed.version + 1_000_000 }],
  ["a negative version", { ...sealed, version: -sealed.version - 1 }],
  ["no tag", { ...sealed, tag: "" }],
  ["a tag of 4 bytes", { ...sealed, tag: bytesOf(sealed.tag).subarray(0, 4).toString("base64") }],
  ["a tag of 12 bytes", { ...sealed, tag: bytesOf(sealed.tag).subarray(0, 12).toString("base64") }],
  ["a tag of 15 bytes", { ...sealed, tag: bytesOf(sealed.tag).subarray(0, 15).toString("base64") }],
  ["a tag of 17 bytes", { ...sealed, tag: Buffer.concat([bytesOf(sealed.tag), Buffer.alloc(1)]).toString("base64") }],
  ["no IV", { ...sealed, iv: "" }],
  ["an IV of 16 bytes", { ...sealed, iv: Buffer.concat([bytesOf(sealed.iv), Buffer.alloc(4)]).toString("base64") }],
  ["a shorter ciphertext", { ...sealed, ciphertext: bytesOf(sealed.ciphertext).subarray(0, -1).toString("base64") }],
  ["no ciphertext", { ...sealed, ciphertext: "" }],
  ["an IV that is not base64", { ...sealed, iv: "%".repeat(16) }],
  ["a tag with a line end", { ...sealed, tag: `${sealed.tag}\n` }],
  ["a ciphertext with more behind it", { ...sealed, ciphertext: `${sealed.ciphertext}!` }],
  ["another spelling of the tag", { ...sealed, tag: sealed.tag.replace(/=+$/, "") }]
]

const sealing = [
  check("opens what it sealed", (crypto) =>
    Effect.gen(function* () {
      for (const text of ["", Redacted.value(secret), "ключ 🔑 \u0000\r\n", "x".repeat(10_000)]) {
        const sealed = yield* crypto.seal(Redacted.make(text), context)
        assert.equal(Redacted.value(yield* crypto.open(sealed, context)), text)
      }
    })
  ),
  check("seals to a 96-bit IV, a 128-bit tag and a ciphertext that does not show the secret", (crypto) =>
    Effect.gen(function* () {
      const sealed = yield* crypto.seal(secret, context)

      assert.equal(bytesOf(sealed.iv).length, 12)
      assert.equal(bytesOf(sealed.tag).length, 16)
      assert.equal(bytesOf(sealed.ciphertext).length, Redacted.value(secret).length)
      assert.ok(!bytesOf(sealed.ciphertext).toString("latin1").includes("whsec"))
      assert.ok(!JSON.stringify(sealed).includes(Redacted.value(secret)))
    })
  ),
  check("opens nothing in another context", (crypto) =>
    Effect.gen(function* () {
      const sealed = yield* crypto.seal(secret, context)

      for (const other of ["tenant-1/endpoint-2", "tenant-2/endpoint-1", "", ` ${context}`, `${context} `]) {
        assert.equal(yield* opening(crypto, sealed, other), "broken", `opened in "${other}"`)
      }
      const wide = yield* crypto.seal(secret, "tenant-\u0142")
      for (const other of ["tenant-B", "tenant-?", "tenant-\u0143"]) {
        assert.equal(yield* opening(crypto, wide, other), "broken", `opened in "${other}"`)
      }
    })
  ),
  check("opens nothing that was altered in any field", (crypto) =>
    Effect.gen(function* () {
      const sealed = yield* crypto.seal(secret, context)

      for (const [what, altered] of tampered(sealed)) {
        assert.equal(yield* opening(crypto, altered), "broken", `opened with ${what}`)
      }
    })
  ),
  check("opens nothing put together from two sealed secrets", (crypto) =>
    Effect.gen(function* () {
      const first = yield* crypto.seal(secret, context)
      const second = yield* crypto.seal(secret, context)

      for (const field of ["iv", "ciphertext", "tag"] as const) {
        assert.equal(yield* opening(crypto, { ...first, [field]: second[field] }), "broken", `opened with another ${field}`)
      }
    })
  ),
  check("never uses an IV twice", (crypto) =>
    Effect.gen(function* () {
      const sealed = yield* Effect.all(Array.from({ length: 2_000 }, () => crypto.seal(secret, context)))

      assert.equal(new Set(sealed.map(({ iv }) => iv)).size, 2_000)
      assert.equal(new Set(sealed.map(({ ciphertext }) => ciphertext)).size, 2_000)
    })
  ),
  check("hands out opened secrets so that no log prints them", (crypto) =>
    Effect.gen(function* () {
      const opened = yield* crypto.open(yield* crypto.seal(secret, context), context)

      for (const printed of [String(opened), `${opened}`, JSON.stringify({ opened })]) {
        assert.ok(!printed.includes(Redacted.value(secret)), "the secret is printed")
      }
    })
  )
]

// DKIM keys

const rsa = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" }
const { subtle } = globalThis.crypto

/** The bytes between the lines of a PEM. */
const derOf = (pem: string) => Uint8Array.from(bytesOf(pem.replace(/-----[^-]+-----|\s/g, "")))

const dkimKeys = [
  check("makes RSA keys of 2048 bits whose halves belong together, another one each time", (crypto) =>
    Effect.gen(function* () {
      const [first, second] = [yield* crypto.generateDkimKey, yield* crypto.generateDkimKey]
      const pem = Redacted.value(first.privateKey)
      const spki = Uint8Array.from(bytesOf(first.publicKey))
      const publicKey = yield* Effect.promise(() => subtle.importKey("spki", spki, rsa, true, ["verify"]))
      const privateKey = yield* Effect.promise(() => subtle.importKey("pkcs8", derOf(pem), rsa, false, ["sign"]))
      const mail = Buffer.from("mail")
      const signature = yield* Effect.promise(() => subtle.sign(rsa, privateKey, mail))
      const { n, e } = yield* Effect.promise(() => subtle.exportKey("jwk", publicKey))

      assert.match(pem, /^-----BEGIN PRIVATE KEY-----\n/)
      assert.equal(Buffer.from(n!, "base64url").length, 256)
      assert.equal(Buffer.from(e!, "base64url").toString("hex"), "010001")
      assert.ok(yield* Effect.promise(() => subtle.verify(rsa, publicKey, signature, mail)))
      assert.notEqual(first.publicKey, second.publicKey)
    })
  ),
  check("hands out private keys so that no log prints them", (crypto) =>
    Effect.gen(function* () {
      const made = yield* crypto.generateDkimKey

      assert.ok(!JSON.stringify(made).includes("PRIVATE KEY"), "the key is printed")
    })
  )
]

export const suite: Suite<Crypto> = {
  name: "Crypto",
  checks: [...identifiers, ...digesting, ...secrets, ...sealing, ...dkimKeys]
}
