/**
 * Starts the clamd of this machine, in a folder of its own, set up as
 * docs/deploy.md says, and holds the adapter to it: `check`, the suite, and
 * what must never be called clean. Its only signature is the EICAR file's.
 */
import { Effect, Schedule, Stream } from "effect"
import { spawn, type ChildProcess } from "node:child_process"
import { randomBytes } from "node:crypto"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { deflateRawSync } from "node:zlib"
import { ClamdScanner } from "../adapters/clamd/index.ts"
import { sizeOf, zip } from "../adapters/clamd/Probes.ts"
import { EicarScanner } from "../adapters/eicar/index.ts"
import { suite } from "../conformance/Scanner.ts"
import { Scanner } from "../core/ports/Scanner.ts"
import { blockOf } from "./Documented.ts"

/** Its own limit of depth is below what is looked at here. */
const settings = `${blockOf("clamd.conf")}MaxRecursion 17\n`

const folder = mkdtempSync(join(tmpdir(), "mailroom-clamd-"))
const address = { path: join(folder, "clamd.sock") }

const children: Array<ChildProcess> = []

/** A clamd with these settings, and what `check` has to say of it. */
const start = async (settings: string) => {
  const conf = join(folder, "clamd.conf")
  const database = join(folder, "signatures")
  mkdirSync(database, { recursive: true })
  writeFileSync(join(database, "eicar.hdb"), "44d88612fea8a8f36de82e1278abb02f:68:Eicar-Test-Signature\n")
  writeFileSync(conf, `Foreground yes\nLocalSocket ${address.path}\nDatabaseDirectory ${database}\nTemporaryDirectory ${folder}\n${settings}`)
  const child = spawn("clamd", [`--config-file=${conf}`], { stdio: "ignore" })
  children.push(child)
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()))
  child.once("error", () => {
    console.error("There is no clamd here. On Debian: apt-get install clamav-daemon")
    process.exit(2)
  })
  const report = await Effect.runPromise(Effect.retry(ClamdScanner.check({ address }), { schedule: Schedule.spaced("250 millis"), times: 120 }))
  return {
    report,
    stop: () => {
      child.kill()
      return ended
    }
  }
}

const inZip = (bytes: Uint8Array): Uint8Array =>
  Buffer.concat(zip([deflateRawSync(bytes, { level: 9 })], { method: 8, flags: 0, unpackedSizeBytes: bytes.length }))

const inZips = (depth: number, bytes: Uint8Array): Uint8Array =>
  Array.from({ length: depth }).reduce<Uint8Array>((inner) => inZip(inner), bytes)

const encrypted = Buffer.concat(zip([randomBytes(100)], { method: 0, flags: 1, unpackedSizeBytes: 88 }))

/** Harmless content is random: clamd remembers what it has seen to be clean. */
const samples: ReadonlyArray<readonly [what: string, bytes: () => Uint8Array, wanted: string]> = [
  ["nothing", () => new Uint8Array(), "Clean"],
  ["1,000 bytes", () => randomBytes(1_000), "Clean"],
  ["26,214,400 bytes, the largest attachment", () => randomBytes(26_214_400), "Clean"],
  ["27,262,977 bytes, beyond StreamMaxLength", () => randomBytes(27_262_977), "ScanFailed"],
  ["the EICAR test file", () => EicarScanner.testFile, "Infected"],
  ["the EICAR test file in 16 zips", () => inZips(16, EicarScanner.testFile), "Infected"],
  ["the EICAR test file in 17 zips", () => inZips(17, EicarScanner.testFile), "ScanFailed"],
  ["1,000 bytes in 16 zips", () => inZips(16, randomBytes(1_000)), "Clean"],
  ["1,000 bytes in 17 zips", () => inZips(17, randomBytes(1_000)), "ScanFailed"],
  ["1 GiB in a zip", () => inZip(Buffer.alloc(2 ** 30)), "ScanFailed"],
  ["1 GiB in a zip in a zip", () => inZips(2, Buffer.alloc(2 ** 30)), "ScanFailed"],
  ["an encrypted zip", () => encrypted, "ScanFailed"],
  ["an encrypted zip in a zip", () => inZip(encrypted), "ScanFailed"]
]

const scan = (bytes: Uint8Array) =>
  Scanner.use((scanner) => scanner.scan(Stream.make(bytes), sizeOf([bytes]))).pipe(
    Effect.match({
      onSuccess: (verdict) => [verdict._tag, verdict._tag === "Infected" ? verdict.signature : ""] as const,
      onFailure: ({ _tag, reason }) => [_tag, reason] as const
    })
  )

const failures: Array<string> = []
const row = (isRight: boolean, ...cells: ReadonlyArray<string>) => {
  if (!isRight) failures.push(cells[0]!)
  console.log(`${isRight ? "ok    " : "WRONG "} ${cells.map((cell, index) => cell.padEnd([44, 11, 0][index] ?? 0)).join(" ").trimEnd()}`)
}

try {
  const careless = await start("")
  console.log(`${careless.report.version} as it comes:`)
  for (const fault of careless.report.faults) console.log(`       ${fault}`)
  await careless.stop()

  const clamd = await start(settings)
  console.log("set up as documented:")
  row(clamd.report.faults.length === 0, "check", clamd.report.faults.join("; "))
  const program = Effect.gen(function* () {
    for (const { title, check } of suite({ infected: EicarScanner.testFile }).checks) {
      const exit = yield* Effect.exit(Effect.scoped(check))
      row(exit._tag === "Success", title)
    }
    for (const [what, bytes, wanted] of samples) {
      const sample = bytes()
      const [got, why] = yield* scan(sample)
      row(got === wanted, what, got, why)
    }
  })
  await Effect.runPromise(Effect.provide(program, ClamdScanner.layerWith({ address })))
  await clamd.stop()
} finally {
  for (const child of children) child.kill()
  rmSync(folder, { recursive: true, force: true })
}
console.log(failures.length === 0 ? "as it ought to be" : `${failures.length} WRONG`)
process.exitCode = failures.length === 0 ? 0 : 1
