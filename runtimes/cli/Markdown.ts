/** `docs/cli.md`: every command with its arguments and flags, as its own `--help` tells them. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Context, Effect, Option } from "effect"
import { CliOutput, Command, type HelpDoc } from "effect/cli"
import { exitCodes } from "./Operator.ts"

type Any = Command.Command.Any

/** The page of these commands of `mailroom`; those of `management` share what is said of all of them. */
export const cliMarkdown = (commands: ReadonlyArray<Any>, management: ReadonlyArray<Any>): string => {
  const root = Command.make("mailroom").pipe(Command.withSubcommands([...commands, ...management]))
  const chapter = (command: Any) => leavesOf(command, []).map((path) => sectionOf(helpOf(root, path))).join("\n\n")
  return `${[
    "# Command line",
    "`mailroom COMMAND --help` shows arguments, flags and examples of one command; which flags are required, this page says. Settings come from the environment: [configuration.md](configuration.md). This page is generated: `npm run docs`.",
    globalFlags,
    ...commands.map(chapter),
    managementIntroduction,
    ...management.map(chapter)
  ].join("\n\n")}\n`
}

const globalFlags =
  "Every command also takes `--help`; `--log-level` (`debug`, `info`, `warn`, `error` or `none`, in lower case), which goes before `MAILROOM_LOG_LEVEL`; and `--wizard`, which asks for what the command takes. " +
  "`mailroom --version` tells the version, and `mailroom --completions` with `bash`, `zsh`, `fish` or `powershell` prints a completion script."

const managementIntroduction = [
  "# Management",
  [
    "The commands below work on the deployment's database, with the settings of its other processes. Each write is in the audit trail, with who made it:",
    "`--by`, or the user of the system. Nothing is deleted but suppressions, mailboxes that have no mail and domains that have no mailboxes. Suspending and revoking ask nothing, are in force at the next request, and say what they did."
  ].join("\n"),
  [
    "`--json` prints one JSON document on standard output: an object, or an array for a list. Its members are in camelCase and stay as they are, times are",
    "RFC 3339 in UTC, and what is not there is null. Without it there is a table, or key and value, for people. Notes and faults are on standard error."
  ].join("\n"),
  [
    "A list shows 100 items unless `--limit` says otherwise, and says if there are more: `--after`, with the id of the last one, goes on. Two who change a",
    "record at one time do not undo each other; `--if-version` refuses a change if the record has moved since it was looked at."
  ].join("\n"),
  "A key's text is printed once, where the key is made, or written with `--out` to a file of mode 0600. No secret is ever an argument.",
  ["| exit code | means |", "|---|---|", ...Object.entries(exitCodes).map(([code, means]) => `| ${code} | ${means} |`)].join("\n")
].join("\n\n")

/** The paths of the commands that do something. */
const leavesOf = (command: Any, before: ReadonlyArray<string>): ReadonlyArray<ReadonlyArray<string>> => {
  const path = [...before, command.name]
  const inner = command.subcommands.flatMap(({ commands }) => [...commands])
  return inner.length === 0 ? [path] : inner.flatMap((one) => leavesOf(one, path))
}

/** What `--help` would print, before it is text. */
const helpOf = (root: Command.Command<"mailroom", never, {}, unknown, unknown>, path: ReadonlyArray<string>): HelpDoc.HelpDoc => {
  const shown: Array<HelpDoc.HelpDoc> = []
  const presenter = CliOutput.layerPresenter({
    present: (event) => Effect.sync(() => (event._tag === "Help" ? void shown.push(event.helpDoc) : undefined))
  })
  const asked = Command.runWith(root, { version: "" })([...path, "--help"])
  // No command is run, so what commands need is not there.
  const nothing = Context.empty() as Context.Context<unknown>
  Effect.runSync(asked.pipe(Effect.provide([NodeServices.layer, presenter]), Effect.provideContext(nothing)))
  return shown[0]!
}

const sectionOf = ({ usage, description, args = [], flags, examples = [] }: HelpDoc.HelpDoc): string =>
  [
    `## ${usage.replace(" [flags]", "").replace(/<([^>]+)>/g, (_, name: string) => name.toUpperCase())}`,
    description,
    ...(args.length + flags.length === 0 ? [] : [table([...args.map(argumentRow), ...flags.map(flagRow)])]),
    ...(examples.length === 0 ? [] : [`\`\`\`sh\n${examples.map(exampleOf).join("\n")}\n\`\`\``])
  ].join("\n\n")

const table = (rows: ReadonlyArray<readonly [name: string, about: string]>): string =>
  ["| | |", "|---|---|", ...rows.map(([name, about]) => `| ${name} | ${about.replaceAll("|", "\\|")} |`)].join("\n")

const argumentRow = ({ name, description, required }: HelpDoc.ArgDoc): readonly [string, string] => [
  `\`${name.toUpperCase()}\``,
  `${textOf(description)}${required ? "" : " (optional)"}`
]

const flagRow = ({ name, aliases, type, description, required }: HelpDoc.FlagDoc): readonly [string, string] => [
  `\`${[`--${name}`, ...aliases].join("`, `")}\`${type === "boolean" ? "" : ` ${type.replace(/[<>]/g, "").replaceAll("|", " or ")}`}`,
  `${textOf(description)}${required ? " (required)" : ""}`
]

const exampleOf = ({ command, description }: HelpDoc.ExampleDoc): string =>
  description === undefined ? command : `${command} # ${description}`

const textOf = (text: Option.Option<string>): string => Option.getOrElse(text, () => "")
