/** `mailroom sealing`: the ring of keys that seal webhook secrets and DKIM keys. */
import { Effect } from "effect"
import { Command } from "effect/cli"
import { randomBytes } from "node:crypto"
import { Resealing } from "../../core/operations/Resealing.ts"
import * as Config from "../Config.ts"
import { CommandFailed } from "./CommandFailed.ts"
import { json } from "./Inputs.ts"
import { actorOf, by, operating } from "./Operator.ts"
import { note, printRecord } from "./Output.ts"
import { print, untilClosed } from "./Streams.ts"

/** Asks nobody, stores nothing. */
const generate = Effect.fnUntraced(function* () {
  const { sealingKeys } = yield* Config.load(Config.environment())
  const version = Math.max(0, ...sealingKeys.map((key) => key.version)) + 1
  yield* untilClosed(print(`${version}:${randomBytes(32).toString("base64")}\n`))
  if (process.stderr.isTTY) {
    const { name } = Config.settings.sealingKeys
    const hint = version === 1 ? `Set ${name} to it, for every process` : `Add it to ${name} of every process, behind a comma or on a line of its own, and then run \`mailroom sealing reseal\``
    process.stderr.write(`mailroom: ${hint}. Keep a copy apart from the database's backups.\n`)
  }
})

const generateCommand = Command.make("generate", {}, generate).pipe(
  Command.withDescription("Prints a new key as MAILROOM_SEALING_KEYS takes it: `version:key`, one version above those that are set"),
  Command.withExamples([{ command: "(umask 077; mailroom sealing generate > sealing-keys)", description: "The first key, for MAILROOM_SEALING_KEYS_FILE: a file for its owner only" }])
)

const reseal = Command.make(
  "reseal",
  { by, json },
  operating(Effect.fnUntraced(function* ({ by, json }) {
    const result = yield* Resealing.use(({ reseal }) => reseal(actorOf(by)))
    yield* printRecord(json, { ...result })
    const [first] = result.unopened
    if (first === undefined) return yield* note(`all secrets are sealed with key ${result.version} of the ring`)
    const count = result.unopened.reduce((sum, { count }) => sum + count, 0)
    return yield* new CommandFailed({
      exitCode: 1,
      message:
        `secrets that cannot be opened: ${count}, such as that of ${first.what} ${first.id}. ` +
        `Sealing key ${first.sealVersion} is not in the ring (or another is, of that version), or the secret was altered.`
    })
  }))
).pipe(
  Command.withDescription(
    "Seals the secrets of all webhook endpoints, and the DKIM keys of all domains, anew with the newest sealing key. First give every process the ring with the new key beside " +
      "the old ones; then reseal. Keep the old key for as long as backups hold what it sealed, and the oldest for longer: it also signs the addresses that bounces come back to, and the cursors of events. " +
      "Workers may run meanwhile, and it is safe to repeat."
  )
)

export const sealingCommand = Command.make("sealing").pipe(
  Command.withDescription("The ring of keys that webhook secrets and DKIM keys are sealed with"),
  Command.withSubcommands([generateCommand, reseal])
)
