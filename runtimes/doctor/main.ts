/**
 * Looks at a deployment before it runs, or while it does: settings, database,
 * Redis, mail server, spam filter, scanner, files. Changes nothing, and tells each finding
 * as soon as it has it, with what to do.
 */
import { Effect } from "effect"
import * as Config from "../Config.ts"
import * as DatabaseChecks from "./DatabaseChecks.ts"
import * as Files from "./Files.ts"
import { bounded, voice, type Reader, type Voice } from "./Findings.ts"
import * as Outside from "./Outside.ts"
import * as RedisChecks from "./RedisChecks.ts"

export const examine = Effect.fn("doctor")(function* (variables: Config.Variables, reader: Reader) {
  const run = Effect.fnUntraced(function* <E, R>(name: string, check: (says: Voice) => Effect.Effect<void, E, R>) {
    yield* reader.began(name)
    const says = voice(name, reader)
    return yield* bounded(check(says), says)
  })
  const { config, faults } = Config.read(variables, {}, ["database", "sealing keys", "scanner"])
  const says = voice("settings", reader)
  for (const fault of faults) yield* says.fail(fault, "See docs/configuration.md.")
  if (faults.length === 0) yield* says.ok(`all in order, for ${config?.mode}`)
  if (config !== null) yield* ineffective(config, variables, says)
  if (config === null) return yield* says.warn("nothing else was looked at", "Mend the settings first.")

  yield* run("files", (says) => Files.secrets(config, variables, says))
  const { databaseUrl } = config
  if (databaseUrl !== null) yield* run("database", () => DatabaseChecks.database({ ...config, databaseUrl }, reader))
  yield* run("redis", (says) => RedisChecks.redis(config, says))
  yield* run("blobs", (says) => Files.blobs(config, says))
  yield* run("certificate", (says) => Files.certificate(config, says))
  yield* run("mail", (says) => Outside.mail(config, says))
  if (config.inboundRspamd !== null) yield* run("rspamd", (says) => Outside.rspamd(config, says))
  yield* run("scanner", (says) => Outside.scanner(config, says))
})

/**
 * What is set, and does nothing beside another setting. No fault of the start: one file may hold the settings of all processes,
 * and one process have another scanner, or a port for `/metrics` that nobody else reaches.
 */
const ineffective = Effect.fnUntraced(function* (config: Config.Config, variables: Config.Variables, says: Voice) {
  const { metrics, metricsToken, scanner, clamd } = Config.settings
  if (config.metrics === "open" && config.metricsToken !== null) {
    yield* says.warn(`${metrics.name} is open: ${metricsToken.name} is asked of nobody`, `Take ${metrics.name} out, unless nobody else reaches the port.`)
  }
  if (config.scanner !== null && config.scanner !== "clamd" && variables[clamd.name] !== undefined) {
    yield* says.warn(`${scanner.name} is ${config.scanner}: nothing is shown to the clamd of ${clamd.name}`, `Set ${scanner.name}=clamd, or take ${clamd.name} out.`)
  }
})
