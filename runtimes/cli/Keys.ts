/** `mailroom keys generate`: a new key for the ring that seals webhook secrets. Asks nobody, stores nothing. */
import { Effect } from "effect"
import { Command } from "effect/cli"
import { randomBytes } from "node:crypto"
import * as Config from "../Config.ts"
import { print, untilClosed } from "./Streams.ts"

const generate = Effect.fnUntraced(function* () {
  const { sealingKeys } = yield* Config.load(Config.environment())
  const version = Math.max(0, ...sealingKeys.map((key) => key.version)) + 1
  yield* untilClosed(print(`${version}:${randomBytes(32).toString("base64")}\n`))
  if (process.stderr.isTTY) {
    const { name } = Config.settings.sealingKeys
    const hint = version === 1 ? `Set ${name} to it, for every process` : `Add it to ${name} of every process, behind a comma, and then run \`mailroom keys reseal\``
    process.stderr.write(`mailroom: ${hint}. Keep a copy apart from the database's backups.\n`)
  }
})

export const generateCommand = Command.make("generate", {}, generate).pipe(
  Command.withDescription("Prints a new key as MAILROOM_SEALING_KEYS takes it: `version:key`, one version above those that are set"),
  Command.withExamples([{ command: "mailroom keys generate > sealing-keys", description: "The first key, for MAILROOM_SEALING_KEYS_FILE" }])
)

export const keysCommand = Command.make("keys").pipe(
  Command.withDescription("The key ring that webhook secrets are sealed with"),
  Command.withSubcommands([generateCommand])
)
