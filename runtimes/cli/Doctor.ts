/** `mailroom doctor`: is this deployment in order? One line per finding, and what to do. Exit code 1 if something is not. */
import { Effect } from "effect"
import { Command, Flag } from "effect/cli"
import * as Config from "../Config.ts"
import type { Finding, Reader } from "../doctor/Findings.ts"
import { CommandFailed } from "./CommandFailed.ts"
import { print, untilClosed } from "./Streams.ts"

const look = Effect.fnUntraced(function* ({ json }: { readonly json: boolean }) {
  // Every adapter comes with it: too much to load for the commands beside it.
  const [{ examine }, { document, line }] = yield* Effect.promise(() =>
    Promise.all([import("../doctor/main.ts"), import("../doctor/Findings.ts")])
  )
  const counts = { ok: 0, warn: 0, fail: 0 }
  const isWatched = !json && process.stdout.isTTY
  const clear = isWatched ? "\r\u001b[K" : ""
  const reader: Reader = {
    began: (check) => (isWatched ? say(`${clear}      ${check} …`) : Effect.void),
    found: (finding: Finding) => {
      counts[finding.status] += 1
      return say(json ? `${document(finding)}\n` : `${clear}${line(finding)}\n`)
    }
  }
  yield* examine(Config.environment(), reader)
  if (!json) yield* say(`${clear}${counts.ok} ok, ${counts.warn} to look at, ${counts.fail} to mend\n`)
  // As it ends Node waits for what it has asked a disk, also of one that never answers: who was given up there is left by force.
  if (process.getActiveResourcesInfo().some((name) => name.startsWith("FSReq"))) process.kill(process.pid, "SIGKILL")
  if (counts.fail > 0) return yield* new CommandFailed({ exitCode: 1, message: "" })
})

/** A reader that goes away changes no exit code; an output that cannot be written ends the command. */
const say = (text: string) => Effect.orDie(untilClosed(print(text)))

export const doctorCommand = Command.make(
  "doctor",
  { json: Flag.Boolean("json").pipe(Flag.withDescription("JSON Lines: check, status, message, advice"), Flag.withDefault(false)) },
  look
).pipe(
  Command.withDescription("Looks at settings, database, Redis, mail server, spam filter, scanner and files of this deployment, and changes nothing. Exit codes: 0 without a FAIL, 1 with one, 137 with one of a disk that does not answer."),
  Command.withExamples([{ command: "mailroom doctor --json | jq 'select(.status != \"ok\")'", description: "What is not in order" }])
)
