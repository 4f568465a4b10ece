/**
 * What is said of a command line before any command runs. Help and a version
 * that were asked for are output. A command line that is at fault has none: why,
 * and which help to ask, stand on standard error, in a line each.
 */
import { Effect } from "effect"
import { CliOutput, type CliError } from "effect/cli"
import { usage, type CommandFailed } from "./CommandFailed.ts"
import { note, Output } from "./Output.ts"

export const layer = CliOutput.layerPresenter({
  present: (event) => {
    if (event._tag === "InvalidInvocation") {
      const help = `\`${event.commandPath.join(" ")} --help\` shows what there is`
      return Effect.forEach([...event.errors.map(reasonOf), help], note, { discard: true })
    }
    // Whoever leaves the subcommand out wants to see which there are, and has done nothing yet.
    if (event._tag === "Help" && event.reason === "Implicit") return list(event)
    return CliOutput.defaultPresenter.present(event)
  }
})

/** Written together, as in `-tv`, flags are read one by one: of `--by -hugo` the `h` would be help, and its command would not run. */
const cluster = /^-[^-=][^=]+/

/**
 * Fails for what stands behind one hyphen and is not one letter: we have no flags that want to be written so, and whoever gave a
 * value must not be shown help, and told by 0 that it is done.
 */
export const refuseClusters = (parameters: ReadonlyArray<string>): Effect.Effect<void, CommandFailed> => {
  const end = parameters.indexOf("--")
  const found = parameters.slice(0, end < 0 ? parameters.length : end).find((text) => cluster.test(text) && Number.isNaN(Number(text)))
  return found === undefined
    ? Effect.void
    : Effect.fail(usage(`there is no flag ${found}; a value that begins with a hyphen comes with its flag, as in --name=${found}`))
}

const list = Effect.fnUntraced(function* ({ helpDoc }: CliOutput.Presenter.Help) {
  const { error } = yield* Output
  // Whether there are colours is by default a matter of standard output.
  const formatter = process.stderr.isTTY ? yield* CliOutput.Formatter : CliOutput.defaultFormatter({ colors: false })
  yield* error(`${formatter.formatHelpDoc(helpDoc)}\n`)
})

const plain = CliOutput.defaultFormatter({ colors: false })

/** One line; Effect's has several where it has something to suggest. */
const reasonOf = (error: CliError.NonShowHelpErrors): string => {
  const [reason] = plain.formatCliError(error).split("\n")
  const suggestions = "suggestions" in error ? error.suggestions : []
  return suggestions.length === 0 ? reason! : `${reason}; did you mean ${suggestions.join(" or ")}?`
}
