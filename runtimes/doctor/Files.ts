/** Files that hold secrets, the certificate for mail that comes in, and the folder of blobs. Looks, and writes nothing. */
import { Clock, Effect } from "effect"
import { X509Certificate } from "node:crypto"
import * as fs from "node:fs/promises"
import { dirname, resolve } from "node:path"
import { fileNameOf, settings, type Config, type Variables } from "../Config.ts"
import * as InboundHost from "../InboundHost.ts"
import type { Voice } from "./Findings.ts"

/** Files with secrets that settings name. */
const secretFiles = ({ dkimFile, inboundTlsKey }: Config, variables: Variables): ReadonlyArray<readonly [name: string, file: string]> => [
  ...Object.values(settings).flatMap(({ name, isSecret }) => {
    const file = isSecret === true ? variables[fileNameOf(name)] : undefined
    return file === undefined || file === "" ? [] : [[fileNameOf(name), file] as const]
  }),
  ...(dkimFile === null ? [] : [[settings.dkimFile.name, dkimFile] as const]),
  ...(inboundTlsKey === null ? [] : [[settings.inboundTlsKey.name, inboundTlsKey] as const])
]

export const secrets = Effect.fnUntraced(function* (config: Config, variables: Variables, says: Voice) {
  for (const [name, file] of secretFiles(config, variables)) {
    const stat = yield* Effect.option(Effect.tryPromise(() => fs.stat(file)))
    if (stat._tag === "None") yield* says.fail(`${name} names no file that can be read`, "Name a file that is there, and that this user may read.")
    else if ((stat.value.mode & 0o007) !== 0) yield* says.warn(`${name}: ${file} is open to every user of this machine`, `chmod o-rwx ${file}`)
    else yield* says.ok(`${name}: ${file} is closed to others`)
  }
})

const day = 86_400_000
/** By then whoever renews certificates has missed a few times. */
const renewalDue = 14 * day

/** Whether those who send mail here find the certificate of this host. */
export const certificate = Effect.fnUntraced(function* (config: Config, says: Voice) {
  const file = config.inboundTlsCert
  if (file === null || config.inboundTlsKey === null) return
  const fault = yield* Effect.flip(InboundHost.certificate(config)).pipe(Effect.option)
  if (fault._tag === "Some") return yield* says.fail(fault.value.message, "Name a certificate and its key, in PEM, that this user may read.")
  const found = new X509Certificate(yield* Effect.promise(() => fs.readFile(file)))
  const now = yield* Clock.currentTimeMillis
  const left = found.validToDate.getTime() - now
  const [from, until] = [found.validFromDate, found.validToDate].map((date) => date.toISOString().slice(0, 10))
  const host = InboundHost.hostNameOf(config)
  if (found.validFromDate.getTime() > now) {
    yield* says.fail(`it is valid from ${from} on`, "Take the one before until then, or set this machine's clock: senders who check it send no mail.")
  } else if (left <= 0) yield* says.fail(`it was valid until ${until}`, "Renew it: senders who check it send no mail.")
  else if (found.checkHost(host) === undefined) {
    yield* says.warn(`it is not for ${host}`, `Have one made for that name, or name the host as it does: ${settings.inboundHostname.name}.`)
  } else if (left < renewalDue) yield* says.warn(`it is valid until ${until}`, "Look at what should have renewed it by now.")
  else yield* says.ok(`for ${host}, until ${until}`)
})

/** The folder, or the one that it will be made in. */
export const blobs = Effect.fnUntraced(function* ({ blobs }: Config, says: Voice) {
  if (blobs === "postgres") return yield* says.ok("in the database")
  const folder = resolve(blobs.directory)
  const problem = yield* Effect.promise(() => unwritable(folder))
  if (problem !== null) {
    return yield* says.fail(problem, `Make it a folder that this user may write, on a disk that all processes share: ${settings.blobs.name}.`)
  }
  const full = yield* Effect.promise(() => fullness(folder))
  if (full !== null) return yield* says.fail(full, "Make room: without it no attachment and no large mail is taken.")
  yield* (yield* Effect.promise(() => isThere(folder)))
    ? says.ok(`${folder} can be written`)
    : says.warn(`${folder} is not there yet`, `The first process makes it. If it was there before, mount its disk, or mend ${settings.blobs.name}.`)
})

/** A disk with less room than this takes some blobs still, and the largest not for long. */
const roomMin = 256 * 1024 * 1024

/** That of the disk on which the folder is, or will be; null if there is room, or if the disk does not tell. */
const fullness = async (folder: string): Promise<string | null> => {
  const disk = await fs.statfs(folder).catch(() => null)
  if (disk === null) return dirname(folder) === folder ? null : await fullness(dirname(folder))
  const { blocks, bavail, bsize, files, ffree } = disk
  if (files > 0 && ffree === 0) return `the disk of ${folder} has no room for another file`
  const room = bavail * bsize
  return blocks > 0 && room < roomMin ? `the disk of ${folder} has room for ${Math.floor(room / 1024 / 1024)} MiB only` : null
}

const isThere = (folder: string): Promise<boolean> => fs.stat(folder).then(() => true, () => false)

const unwritable = async (folder: string): Promise<string | null> => {
  const stat = await fs.stat(folder).catch(() => null)
  if (stat === null) {
    const above = dirname(folder)
    return above === folder ? `${folder} is not there` : await unwritable(above)
  }
  if (!stat.isDirectory()) return `${folder} is no folder`
  return await fs.access(folder, fs.constants.W_OK | fs.constants.X_OK).then(() => null, () => `${folder} cannot be written by this user`)
}
