/**
 * Crypto on Node. The argon2 package hashes secrets, on threads of its own;
 * node:crypto does the rest.
 *
 * A UUID is RFC 9562's version 7 with its method 1: 48 bits of milliseconds, a
 * 42-bit counter (12 bits of rand_a, 30 of rand_b) and 32 random bits. The
 * counter starts at random in its lower half, and goes up by one while the
 * clock stands still or is behind the last id, so ids rise whatever the clock
 * does; the upper half lasts for 2^41 of them.
 */
import { Clock, Effect, Layer, Redacted, Semaphore } from "effect"
import { hash as argon2, argon2id } from "argon2"
import {
  argon2Sync,
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  generateKeyPair,
  hash,
  hkdfSync,
  randomBytes,
  timingSafeEqual,
  type KeyObject
} from "node:crypto"
import { availableParallelism } from "node:os"
import type { FreshId, Millis } from "../../core/model/Ids.ts"
import type { SealedSecret } from "../../core/model/SealedSecret.ts"
import { Crypto, CryptoBusy, SealBroken, type GeneratedKey } from "../../core/ports/Crypto.ts"
import { seededRsa } from "./SeededRsa.ts"

/** One key of the ring: 32 bytes. The highest version seals, every version opens. */
export interface SealingKey {
  readonly version: number
  readonly key: Redacted.Redacted<Uint8Array>
}

export interface Options {
  readonly sealingKeys: ReadonlyArray<SealingKey>
  /** Hashes at a time; one fewer than there are processors, and at least one, unless said otherwise. */
  readonly hashConcurrency?: number
  /** Hashes that wait for their turn; 64, unless said otherwise. */
  readonly hashQueueMax?: number
}

/** Who is known already is not to wait for processors that hash for whoever asks: one is left. */
export const hashesAtOnce = (processors: number): number => Math.max(1, processors - 1)

export interface SeededOptions extends Options {
  /** Argon2id's memory for new hashes, at least 8; 19456, unless said otherwise. */
  readonly memoryCostKiB?: number
  /** Argon2id's passes for new hashes; 2, unless said otherwise. */
  readonly timeCost?: number
  /** Bits of the DKIM keys that are made, a multiple of 16, at least 1024; 2048, unless said otherwise. */
  readonly dkimKeyBits?: number
}

/** Draws from the operating system. Dies at once on a key ring that is empty, ambiguous or not of 32-byte keys. */
export const layer = (options: Options): Layer.Layer<Crypto> =>
  Layer.sync(Crypto, () => make(options, { draw: randomBytes, argon2: argon2OnThreads, cost: productionCost, generateDkimKey: rsaOnThread }))

/**
 * For simulations, never for production: everything random follows from the
 * seed, so whoever knows it knows every secret. Hashes are computed in place,
 * not on threads, and may be made cheap, so a run replays exactly and fast.
 */
export const layerSeeded = (seed: string | number, options: SeededOptions): Layer.Layer<Crypto> =>
  Layer.sync(Crypto, () => {
    const draw = seeded(seed)
    return make(options, {
      draw,
      argon2: argon2InPlace,
      generateDkimKey: Effect.sync(() => seededRsa(draw, options.dkimKeyBits ?? dkimKeyBits)),
      cost: {
        memory: options.memoryCostKiB ?? productionCost.memory,
        passes: options.timeCost ?? productionCost.passes,
        lanes: productionCost.lanes
      }
    })
  })

/** AES-256-GCM with a 128-bit tag. Public only for the published vectors. */
export const encrypt = (
  key: KeyObject,
  iv: Buffer,
  associated: Buffer,
  plaintext: Buffer
): { readonly ciphertext: Buffer; readonly tag: Buffer } => {
  const cipher = createCipheriv("aes-256-gcm", key, iv, { authTagLength: tagLength }).setAAD(associated)
  const ciphertext = Buffer.concat([cipher.update(plaintext), cipher.final()])
  return { ciphertext, tag: cipher.getAuthTag() }
}

/** Throws if anything was altered. Public only for the published vectors. */
export const decrypt = (key: KeyObject, iv: Buffer, associated: Buffer, ciphertext: Buffer, tag: Buffer): Buffer => {
  const decipher = createDecipheriv("aes-256-gcm", key, iv, { authTagLength: tagLength }).setAAD(associated).setAuthTag(tag)
  return Buffer.concat([decipher.update(ciphertext), decipher.final()])
}

type Draw = (count: number) => Buffer

interface Cost {
  readonly memory: number
  readonly passes: number
  readonly lanes: number
}

type Argon2id = (secret: Redacted.Redacted<string>, salt: Buffer, cost: Cost) => Effect.Effect<Buffer>

const productionCost: Cost = { memory: 19_456, passes: 2, lanes: 1 }
const saltLength = 16
const hashLength = 32

const dkimKeyBits = 2_048

interface Means {
  readonly draw: Draw
  readonly argon2: Argon2id
  readonly cost: Cost
  readonly generateDkimKey: Effect.Effect<GeneratedKey>
}

const make = (options: Options, { draw, argon2, cost, generateDkimKey }: Means) => {
  const ring = keyRing(options.sealingKeys)
  const { hashConcurrency = hashesAtOnce(availableParallelism()), hashQueueMax = 64 } = options
  if (!(Number.isSafeInteger(hashConcurrency) && hashConcurrency >= 1)) throw new TypeError("hashConcurrency wants a whole number from 1")
  if (!(Number.isSafeInteger(hashQueueMax) && hashQueueMax >= 0)) throw new TypeError("hashQueueMax wants a whole number from 0")
  const pooled = hashPool(hashConcurrency, hashQueueMax)
  const proofKey = draw(32).toString("base64url")
  const nextUuid = uuids(inStock(draw))
  const macKey = macKeysFrom(ring.oldest.key)

  return Crypto.of({
    uuid: Effect.map(Clock.currentTimeMillis, nextUuid),
    randomBytes: (count) => Effect.sync(() => Uint8Array.from(draw(count))),
    digest: (text) => Effect.sync(() => hash("sha256", text, "hex")),

    hashSecret: (secret) =>
      Effect.suspend(() => {
        const salt = draw(saltLength)
        return Effect.map(pooled(argon2(secret, salt, cost)), (digest) => formatPhc(cost, salt, digest))
      }),

    verifySecret: (secret, text) =>
      Effect.suspend(() => {
        const phc = parsePhc(text)
        return phc === null
          ? Effect.succeed(false)
          : Effect.map(pooled(argon2(secret, phc.salt, phc.cost)), (digest) => timingSafeEqual(digest, phc.digest))
      }),

    proof: (secret, text) =>
      // With every request, so no HMAC, which takes several times as long: what it would withstand, nobody can do to a text
      // that never leaves the process.
      Effect.sync(() => hash("sha256", JSON.stringify([proofKey, Redacted.value(secret), text]), "base64url")),

    seal: (secret, context) =>
      Effect.sync(() => {
        const iv = draw(ivLength)
        const { version, key } = ring.newest
        const { ciphertext, tag } = encrypt(key, iv, sealedTo(version, context), Buffer.from(Redacted.value(secret)))
        return { version, iv: toBase64(iv), ciphertext: toBase64(ciphertext), tag: toBase64(tag) }
      }),

    open: (sealed, context) =>
      Effect.try({
        try: () => Redacted.make(open(ring.byVersion.get(sealed.version), sealed, context)),
        catch: () => new SealBroken({ version: sealed.version })
      }),

    sign: (secret, bytes) =>
      Effect.sync(() => createHmac("sha256", Redacted.value(secret)).update(bytes).digest("hex")),

    mac: (purpose, text) => Effect.sync(() => createHmac("sha256", macKey(purpose)).update(text).digest("hex")),

    generateDkimKey
  })
}

/**
 * A key for each purpose, of which the core has a few, kept as OpenSSL takes it: to derive one takes ten times as long as
 * the MAC, and so does taking its bytes.
 */
const macKeysFrom = (key: KeyObject) => {
  const keys = new Map<string, KeyObject>()
  return (purpose: string): KeyObject => {
    const kept = keys.get(purpose)
    if (kept !== undefined) return kept
    const derived = createSecretKey(Buffer.from(hkdfSync("sha256", key, "", `mailroom mac ${purpose}`, 32)))
    keys.set(purpose, derived)
    return derived
  }
}

// DKIM keys

const rsaOnThread: Effect.Effect<GeneratedKey> = Effect.callback((resume) => {
  generateKeyPair("rsa", { modulusLength: dkimKeyBits }, (error, publicKey, privateKey) =>
    resume(error === null ? Effect.sync(() => pairOf(publicKey, privateKey)) : Effect.die(error))
  )
})

const pairOf = (publicKey: KeyObject, privateKey: KeyObject): GeneratedKey => ({
  publicKey: toBase64(publicKey.export({ type: "spki", format: "der" })),
  privateKey: Redacted.make(privateKey.export({ type: "pkcs8", format: "pem" }).toString())
})

// Key ring and sealed secrets

const ivLength = 12
const tagLength = 16

const keyRing = (keys: ReadonlyArray<SealingKey>) => {
  const given: unknown = keys // from JavaScript it may be anything
  if (!Array.isArray(given)) throw new TypeError("sealingKeys wants a list of { version, key }, each key 32 bytes that are `Redacted`")
  const sorted = keys
    .map(({ version, key }) => {
      if (!Number.isSafeInteger(version)) throw new Error("the version of a sealing key is a whole number")
      if (!Redacted.isRedacted(key) || !(Redacted.value(key) instanceof Uint8Array)) throw new TypeError(`sealing key ${version} wants bytes that are \`Redacted\``)
      if (Redacted.value(key).length !== 32) throw new Error(`sealing key ${version} is not of 32 bytes`)
      return { version, key: createSecretKey(Redacted.value(key)) }
    })
    .toSorted((left, right) => left.version - right.version)
  const byVersion = new Map(sorted.map(({ version, key }) => [version, key]))
  if (byVersion.size < sorted.length) throw new Error("two sealing keys have the same version")
  const [oldest, newest] = [sorted[0], sorted.at(-1)]
  if (oldest === undefined || newest === undefined) throw new Error("there is no sealing key")
  return { oldest, newest, byVersion }
}

/** The associated data. The context comes last and whole, so no two pairs look the same. */
const sealedTo = (version: number, context: string): Buffer => Buffer.from(`mailroom seal ${version} ${context}`)

const open = (key: KeyObject | undefined, sealed: SealedSecret, context: string): string => {
  if (key === undefined) throw new Error("no such key")
  const iv = fromBase64(sealed.iv)
  const tag = fromBase64(sealed.tag)
  if (iv.length !== ivLength || tag.length !== tagLength) throw new Error("an IV or a tag of the wrong length")
  return decrypt(key, iv, sealedTo(sealed.version, context), fromBase64(sealed.ciphertext), tag).toString()
}

const toBase64 = (bytes: Buffer): string => bytes.toString("base64")

/** Refuses what Node would skip over, and the second spellings of the same bytes. */
const fromBase64 = (text: string): Buffer => {
  const bytes = Buffer.from(text, "base64")
  if (toBase64(bytes) !== text) throw new Error("not base64")
  return bytes
}

// Argon2id

const argon2OnThreads: Argon2id = (secret, salt, { memory, passes, lanes }) =>
  Effect.promise(() =>
    argon2(Redacted.value(secret), {
      type: argon2id,
      memoryCost: memory,
      timeCost: passes,
      parallelism: lanes,
      hashLength,
      salt,
      raw: true
    })
  )

/** Lets the others run first, as a thread would, so that a full queue is full in a simulation too. */
const argon2InPlace: Argon2id = (secret, salt, { memory, passes, lanes }) =>
  Effect.andThen(
    Effect.yieldNow,
    Effect.sync(() =>
      argon2Sync("argon2id", {
        message: Redacted.value(secret),
        nonce: salt,
        memory,
        passes,
        parallelism: lanes,
        tagLength: hashLength
      })
    )
  )

/** The order of the parameters is the PHC string format's own, which strict readers insist on. */
const formatPhc = ({ memory, passes, lanes }: Cost, salt: Buffer, digest: Buffer): string =>
  `$argon2id$v=19$m=${memory},t=${passes},p=${lanes}$${unpadded(salt)}$${unpadded(digest)}`

/** A salt of at least 8 bytes, a hash of 32. */
const phcShape = /^\$argon2id\$v=19\$m=(\d{1,7}),t=(\d{1,3}),p=(\d{1,3})\$([A-Za-z0-9+/]{11,64})\$([A-Za-z0-9+/]{43})$/

/** Null for what no secret hashes to, be it that Argon2 itself refuses the cost. */
const parsePhc = (text: string): { readonly cost: Cost; readonly salt: Buffer; readonly digest: Buffer } | null => {
  const match = phcShape.exec(text)
  if (match === null) return null
  const [memory, passes, lanes] = [Number(match[1]), Number(match[2]), Number(match[3])]
  if (passes < 1 || lanes < 1 || memory < 8 * lanes) return null
  return {
    cost: { memory, passes, lanes },
    salt: Buffer.from(match[4]!, "base64"), // the groups of a match are there
    digest: Buffer.from(match[5]!, "base64")
  }
}

const unpadded = (bytes: Buffer): string => toBase64(bytes).replaceAll("=", "")

/**
 * At most `concurrency` at a time and `queueMax` in line. A hash that has begun
 * is waited for, since its thread cannot be stopped.
 */
const hashPool = (concurrency: number, queueMax: number) => {
  const turns = Semaphore.makeUnsafe(concurrency)
  let admitted = 0
  return <A>(work: Effect.Effect<A>): Effect.Effect<A, CryptoBusy> =>
    Effect.uninterruptibleMask((restore) => {
      if (admitted >= concurrency + queueMax) return Effect.fail(new CryptoBusy())
      admitted += 1
      return Effect.ensuring(
        restore(turns.withPermit(Effect.uninterruptible(work))),
        Effect.sync(() => {
          admitted -= 1
        })
      )
    })
}

// Randomness

/** The key stream of AES-256 in counter mode under the seed's digest. */
const seeded = (seed: string | number): Draw => {
  const stream = createCipheriv("aes-256-ctr", hash("sha256", String(seed), "buffer"), Buffer.alloc(16))
  return (count) => stream.update(Buffer.alloc(count))
}

/** Drawn by the page, and given out once: asking the system costs more than the bytes. For what is no secret. */
const inStock = (draw: Draw): Draw => {
  let stock: Buffer = Buffer.alloc(0)
  let used = 0
  return (count) => {
    if (used + count > stock.length) [stock, used] = [draw(4_096), 0]
    used += count
    return stock.subarray(used - count, used)
  }
}

const uuids = (draw: Draw): ((now: Millis) => FreshId) => {
  let millis = -1
  let counter = 0
  /** What all ids of one millisecond begin with. */
  let beginning = ""
  return (now) => {
    const time = Math.max(0, Math.floor(now))
    if (time > millis) {
      millis = time
      counter = draw(6).readUIntBE(0, 6) % 2 ** 41
      const time12 = hexOf(millis, 12)
      beginning = `${time12.slice(0, 8)}-${time12.slice(8)}-7`
    } else {
      counter += 1
    }
    const high = Math.floor(counter / 2 ** 30)
    const low = counter % 2 ** 30
    // By 16 bits: what is no small integer is slow to write.
    const id = `${beginning}${hexOf(high, 3)}-${hexOf(0x8000 | (low >>> 16), 4)}-${hexOf(low & 0xffff, 4)}${draw(4).toString("hex")}`
    return id as FreshId // nothing has it yet
  }
}

const hexOf = (value: number, digits: number): string => value.toString(16).padStart(digits, "0")
