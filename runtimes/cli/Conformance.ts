/**
 * `mailroom conformance`: runs the black-box suite against a deployment, or the
 * ports' suites on an author's adapters (`AdapterProof.ts`). Progress goes to standard error, the report to standard output. Exit codes:
 * 0 all passed, 1 some failed, 2 usage, 3 the deployment cannot be reached,
 * 130 interrupted. API keys come from the environment, from files or from
 * standard input, never from an argument, which other users could see.
 */
import { Effect, Option, Redacted, type Stdio } from "effect"
import { Command, Flag } from "effect/cli"
import * as fs from "node:fs/promises"
import { isIP } from "node:net"
import * as Config from "../Config.ts"
import * as FileFault from "../FileFault.ts"
import { over, proveAdapters, words } from "./AdapterProof.ts"
import { CommandFailed, usage } from "./CommandFailed.ts"
import { anyNumberOf } from "./Inputs.ts"
import { listen, type Options as ReceiverOptions } from "./Receiver.ts"
import { print, readAll, untilClosed } from "./Streams.ts"

// By name, as the suite itself: no runtime carries it.
type Progress = import("../../conformance/http/index.ts").Progress
type Report = import("../../conformance/http/index.ts").Report
type Target = import("../../conformance/http/index.ts").Target

const keyBytesMax = 4_096

interface Flags {
  readonly baseUrl: Option.Option<string>
  readonly adapters: Option.Option<string>
  readonly json: boolean
  readonly filter: ReadonlyArray<string>
  readonly timeout: number
  readonly apiKeyFile: Option.Option<string>
  readonly otherKeyFile: Option.Option<string>
  readonly narrowKeyFile: Option.Option<string>
  readonly receiverUrl: Option.Option<string>
  readonly receiverListen: Option.Option<string>
  readonly allowLive: boolean
  readonly exhaustLimits: boolean
}

const prove = Effect.fnUntraced(function* (flags: Flags) {
  const { adapters, baseUrl } = flags
  if (Option.isSome(baseUrl) && Option.isSome(adapters)) return yield* usage("--base-url and --adapters prove different things: give one of them")
  if (Option.isNone(baseUrl) && Option.isNone(adapters)) {
    return yield* usage("what is to be proved? Give --base-url URL for a deployment, or --adapters FILE for adapters of your own")
  }
  if (Option.isSome(adapters)) return yield* proveAdapters(adapters.value, flags)
  return yield* proveDeployment(Option.getOrThrow(baseUrl), flags)
})

const proveDeployment = Effect.fnUntraced(function* (address: string, flags: Flags) {
  const baseUrl = yield* addressOf("--base-url", address)
  const key = yield* apiKey(Option.getOrNull(flags.apiKeyFile))
  const otherKey = yield* keyIn("--other-key-file", Option.getOrNull(flags.otherKeyFile))
  const narrowKey = yield* keyIn("--narrow-key-file", Option.getOrNull(flags.narrowKeyFile))
  const isLive = [key, otherKey, narrowKey].some((one) => one !== null && Redacted.value(one).startsWith("svc_live_"))
  if (isLive && !flags.allowLive) {
    return yield* usage(
      "a production key (svc_live_) is not used unless --allow-live is given; nothing is sent with one even then"
    )
  }
  if (flags.timeout < 1) return yield* usage("--timeout wants a number of seconds, 1 or more")

  const at = yield* receiverAt(flags, baseUrl)
  const receiver = at === null ? null : yield* listen(at).pipe(Effect.mapError(({ message }) => usage(message)))
  const suite = yield* Effect.promise(() => import("../../conformance/http/index.ts"))
  const { parse } = yield* Effect.promise(() => import("yaml"))
  const target: Target = {
    baseUrl,
    key,
    otherKey,
    narrowKey,
    receiver,
    parseYaml: (text): unknown => parse(text),
    mayExhaustLimits: flags.exhaustLimits
  }
  const show = (report: Report) =>
    untilClosed(print(flags.json ? `${JSON.stringify(report, null, 2)}\n` : suite.toText(report)))
  const report = yield* suite
    .run(target, {
      filter: flags.filter,
      timeout: flags.timeout * 1_000,
      onProgress: (progress) =>
        Effect.sync(() => void process.stderr.write(progressLine(progress, process.stderr.isTTY))),
      onInterrupt: (report) =>
        Effect.gen(function* () {
          yield* clearLine
          yield* Effect.orDie(show(report)) // a broken output ends the command as it is
        })
    })
    .pipe(
      Effect.catchTag("Unreachable", ({ message, report }) =>
        Effect.andThen(
          report === null ? Effect.void : show(report),
          Effect.fail(new CommandFailed({ exitCode: 3, message: `${baseUrl} cannot be reached: ${message}` }))
        )),
      Effect.catchTag(
        "KeyRefused",
        ({ which }) => Effect.fail(usage(`${baseUrl} refuses ${keyNames[which]} with 401`))
      ),
      Effect.catchTag("ScopesMissing", ({ scopes }) =>
        Effect.andThen(
          clearLine,
          Effect.fail(
            usage(
              `${baseUrl} refuses the API key with 403, for it lacks ${scopes.join(", ")}: the suite wants a key of all scopes`
            )
          )
        )),
      Effect.catchTag("NothingToRun", () => Effect.fail(usage("--filter leaves no check")))
    )
  yield* show(report)
  if (report.failed > 0) return yield* new CommandFailed({ exitCode: 1, message: "" })
}, Effect.scoped)

const keyNames = {
  key: "the API key",
  otherKey: "the key of --other-key-file",
  narrowKey: "the key of --narrow-key-file"
} as const

/** An address to put paths behind. */
const addressOf = (flag: string, text: string) => {
  const url = URL.parse(text)
  const isPlain = url !== null && (url.protocol === "http:" || url.protocol === "https:") && url.search === "" &&
    url.hash === ""
  // Not repeated: it may hold what must not show.
  if (!isPlain || url.username !== "" || url.password !== "") {
    return Effect.fail(
      usage(
        `${flag} wants an http or https URL without credentials, query and fragment, such as https://mail.example.com`
      )
    )
  }
  return Effect.succeed(`${url.origin}${url.pathname.replace(/\/+$/, "")}`)
}

/** A file goes before the environment, and that before standard input. */
const apiKey = Effect.fnUntraced(function* (file: string | null) {
  if (file !== null) return yield* keyFrom("--api-key-file", file)
  const { apiKey } = Config.settings
  const set = yield* Effect.mapError(Effect.fromResult(Config.textOf(apiKey, Config.environment())), usage)
  if (set !== null && set.text !== "") return yield* keyOf(set.name, set.text)
  if (process.stdin.isTTY) return yield* usage(`an API key is wanted: set ${apiKey.name}, or give --api-key-file FILE`)
  process.stderr.write("mailroom: reading the API key from standard input\n")
  return yield* keyFrom("standard input", "-")
})

const keyIn = (flag: string, file: string | null) => (file === null ? Effect.succeed(null) : keyFrom(flag, file))

const keyFrom = Effect.fnUntraced(
  function* (flag: string, file: string): Effect.fn.Return<Redacted.Redacted<string>, CommandFailed, Stdio.Stdio> {
    if (file === "-") return yield* keyOf(flag, (yield* readAll(keyBytesMax)).text)
    const text = yield* Effect.tryPromise({
      try: () => fs.readFile(file, "utf8"),
      catch: (error) => usage(`${flag} ${file}: ${FileFault.reasonOf(error)}`)
    })
    return yield* keyOf(flag, text)
  }
)

const keyOf = (where: string, text: string) => {
  const key = text.trim()
  return /^svc_(test|live)_[!-~]+$/.test(key) ?
    Effect.succeed(Redacted.make(key)) :
    Effect.fail(usage(`${where} holds no API key: it begins with svc_test_ or svc_live_, and has no white space`))
}

/** Where the webhook receiver listens; null: there is none, for the deployment could not reach it. */
const receiverAt = Effect.fnUntraced(function* ({ receiverUrl, receiverListen }: Flags, baseUrl: string) {
  const publicUrl = Option.isNone(receiverUrl) ? null : yield* addressOf("--receiver-url", receiverUrl.value)
  const at = Option.isNone(receiverListen) ?
    null :
    /^(?:\[([0-9a-f:]+)\]|([^:/\s]+)):(\d{1,5})$/i.exec(receiverListen.value)
  if (Option.isSome(receiverListen) && (at === null || Number(at[3]) > 65_535)) {
    return yield* usage("--receiver-listen wants host:port")
  }
  if (publicUrl !== null && at === null) {
    return yield* usage("--receiver-url wants --receiver-listen HOST:PORT, where it leads to")
  }
  if (publicUrl === null && !isLoopback(new URL(baseUrl).hostname)) return null
  return { host: at?.[1] ?? at?.[2] ?? "127.0.0.1", port: Number(at?.[3] ?? 0), publicUrl } satisfies ReceiverOptions
})

/** A deployment on this machine reaches a receiver on this machine. */
const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "[::1]" || (isIP(host) === 4 && host.startsWith("127."))

/** On a terminal one line that is written over; else a line for each check. */
const progressLine = (progress: Progress, isTerminal: boolean | undefined): string => {
  const before = isTerminal === true ? over : ""
  if (progress._tag === "Waiting") {
    return `${before}waiting ${progress.seconds} s for the deployment's limit (${progress.scope})${
      before === "" ? "\n" : ""
    }`
  }
  const { number, total } = progress
  if (progress._tag === "Started") {
    const line = `${number}/${total} ${progress.suite}: ${progress.title}`
    return before === "" ? "" : `${before}${line.slice(0, (process.stderr.columns ?? 80) - 1)}`
  }
  const { outcome, suite, title, law, durationMs } = progress.result
  const line = `${words[outcome]} ${number}/${total} ${suite}: ${title} (${law}) ${durationMs} ms`
  if (before === "") return `${line}\n`
  // What failed stays; what passed makes way for the next.
  return outcome === "failed" ? `${before}${line}\n` : number === total ? before : ""
}

const clearLine = Effect.sync(() => void (process.stderr.isTTY && process.stderr.write(over)))

export const conformanceCommand = Command.make(
  "conformance",
  {
    baseUrl: Flag.String("base-url").pipe(
      Flag.withDescription("The address of the deployment, such as https://mail.example.com"),
      Flag.optional
    ),
    adapters: Flag.String("adapters").pipe(
      Flag.withDescription("A module whose default export says which adapters are held to which suites; see adapters/ADDING.md"),
      Flag.optional
    ),
    json: Flag.Boolean("json").pipe(Flag.withDescription("The report as JSON"), Flag.withDefault(false)),
    filter: anyNumberOf("filter", "Only checks whose suite, title or section holds this text; may be repeated"),
    timeout: Flag.Int("timeout").pipe(
      Flag.withDescription("Seconds for each check, without waits for the deployment's limits (default 120)"),
      Flag.withDefault(120)
    ),
    apiKeyFile: Flag.String("api-key-file").pipe(
      Flag.withDescription(
        "A file that holds the API key; - is standard input (default: MAILROOM_API_KEY, or else standard input)"
      ),
      Flag.optional
    ),
    otherKeyFile: Flag.String("other-key-file").pipe(
      Flag.withDescription("A file with a key of another tenant, environment or application, which must see nothing"),
      Flag.optional
    ),
    narrowKeyFile: Flag.String("narrow-key-file").pipe(
      Flag.withDescription("A file with a key that has mailboxes:read, and lacks messages:send"),
      Flag.optional
    ),
    receiverUrl: Flag.String("receiver-url").pipe(
      Flag.withDescription(
        "How the deployment reaches the webhook receiver of this command (default: none; on this machine, directly)"
      ),
      Flag.optional
    ),
    receiverListen: Flag.String("receiver-listen").pipe(
      Flag.withDescription("host:port at which the webhook receiver listens (default: any port of 127.0.0.1)"),
      Flag.optional
    ),
    allowLive: Flag.Boolean("allow-live").pipe(
      Flag.withDescription("Take a production key. Whatever would send or store something is left out."),
      Flag.withDefault(false)
    ),
    exhaustLimits: Flag.Boolean("exhaust-limits").pipe(
      Flag.withDescription("Use up the key's requests of a minute, to see the 429"),
      Flag.withDefault(false)
    )
  },
  prove
).pipe(
  Command.withDescription(
    "Proves a deployment over HTTP, with a sandbox key of all scopes; or adapters, with the suites of their ports. " +
      "Against a deployment it sends some twenty sandbox messages, and keeps to its limits. " +
      "Exit codes: 0 all passed, 1 some failed, 2 usage, 3 unreachable."
  ),
  Command.withExamples([
    {
      command: "MAILROOM_API_KEY=… mailroom conformance --base-url http://127.0.0.1:3025",
      description: "A deployment on this machine"
    },
    {
      command:
        "mailroom conformance --base-url https://mail.example.com --api-key-file key.txt --filter webhooks --json",
      description: "A part of the suite, for a machine"
    },
    { command: "mailroom conformance --adapters ./mine.ts", description: "Adapters of your own" }
  ])
)
