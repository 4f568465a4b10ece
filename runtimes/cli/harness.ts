/** For tests: the management commands as an operator types them, in this process and on memory adapters. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Cause, Effect, Exit, Layer, Redacted } from "effect"
import { CliError, Command } from "effect/cli"
import * as MemoryJobQueue from "../../adapters/memory/MemoryJobQueue.ts"
import * as MemoryRateLimiter from "../../adapters/memory/MemoryRateLimiter.ts"
import * as MemoryStore from "../../adapters/memory/MemoryStore.ts"
import * as NodeCrypto from "../../adapters/node/NodeCrypto.ts"
import { keyOf, type Question } from "../../core/model/DomainRecords.ts"
import { Access } from "../../core/operations/Access.ts"
import { RequestLog } from "../../core/operations/RequestLog.ts"
import { ResolutionFailed, Resolver } from "../../core/ports/Resolver.ts"
import { CommandFailed } from "./CommandFailed.ts"
import { managementCommands } from "./Commands.ts"
import * as Invocation from "./Invocation.ts"
import { Operator, services } from "./Operator.ts"
import { Output } from "./Output.ts"
import { sealingCommand } from "./Sealing.ts"
import { OutputClosed } from "./Streams.ts"

export const nobody = "0197a000-0000-7000-8000-000000000000"
export const epoch = "1970-01-01T00:00:00.000Z"

const sealingKey = (version: number) => ({ version, key: Redacted.make(new Uint8Array(32).fill(version)) })
export const ring = (...versions: ReadonlyArray<number>) =>
  NodeCrypto.layerSeeded("cli", { sealingKeys: versions.map(sealingKey), memoryCostKiB: 64, timeCost: 1, dkimKeyBits: 1_024 })

/** What the DNS says, by `DomainRecords.keyOf`. Names of domains are of one test each. */
export const dns = new Map<string, ReadonlyArray<string>>()
const answer = (question: Question) =>
  Effect.suspend(() => {
    const said = dns.get(keyOf(question))
    return said === undefined ? Effect.fail(new ResolutionFailed({ reason: "not_found" })) : Effect.succeed(said)
  })
const resolver = Layer.succeed(Resolver, {
  addresses: () => Effect.die("no command looks up addresses"),
  txt: (name) => answer({ type: "TXT", name }),
  mx: (name) => Effect.as(answer({ type: "MX", name }), []),
  cname: (name) => Effect.map(answer({ type: "CNAME", name }), ([target]) => target!)
})

const ports = Layer.mergeAll(MemoryStore.layer, MemoryJobQueue.layer, MemoryRateLimiter.layer, resolver, ring(1))
export const layer = Layer.merge(services, Access.layer).pipe(Layer.provide(RequestLog.layer), Layer.provideMerge(ports))

const mailroom = Command.make("mailroom").pipe(Command.withSubcommands([...managementCommands, sealingCommand]))

interface Ended {
  readonly code: number
  readonly out: string
  readonly error: string
}

/** Runs a command line; what has blanks in it comes behind. */
export const run = (line: string, ...more: ReadonlyArray<string>) => running(() => Effect.void, line, more)

/** The same, with nobody who reads standard output. */
export const unread = (line: string, ...more: ReadonlyArray<string>) => running(() => Effect.fail(new OutputClosed()), line, more)

const running = (take: () => Effect.Effect<void, OutputClosed>, line: string, more: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const [out, error]: [Array<string>, Array<string>] = [[], []]
    const context = yield* Effect.context<Layer.Success<typeof layer>>()
    const exit = yield* Command.runWith(mailroom, { version: "0" })([...line.split(" "), ...more]).pipe(
      Effect.provide([NodeServices.layer, Invocation.layer]),
      Effect.provideService(Operator, Layer.succeedContext(context)),
      Effect.provideService(Output, {
        out: (text) => Effect.andThen(take(), Effect.sync(() => void out.push(text))),
        error: (text) => Effect.sync(() => void error.push(text))
      }),
      Effect.exit
    )
    const fault = Exit.isSuccess(exit) ? null : Cause.squash(exit.cause)
    if (fault instanceof CommandFailed) error.push(fault.message)
    else if (fault !== null && !CliError.isCliError(fault)) return yield* Effect.die(fault)
    const code = fault === null ? 0 : fault instanceof CommandFailed ? fault.exitCode : 2
    return { code, out: out.join(""), error: error.join("") } satisfies Ended
  })

/** Runs what must succeed, with `--json`; its document. */
// oxlint-disable-next-line typescript/no-explicit-any -- a test reads the members it is about
export const json = (line: string, ...more: ReadonlyArray<string>): Effect.Effect<any, never, Layer.Success<typeof layer>> =>
  Effect.flatMap(run(line, ...more, "--json"), ({ code, out, error }) =>
    code === 0 ? Effect.succeed(JSON.parse(out) as unknown) : Effect.die(new Error(`${line}: ${error}`))
  )

/** A plan, a tenant and a sandbox application. */
export const founded = Effect.gen(function* () {
  yield* json("plan create standard")
  const tenant: string = (yield* json("tenant create --plan standard", "--name", "Analytical Engines")).id
  const app: string = (yield* json(`app create --tenant ${tenant} --name Billing --environment sandbox`)).id
  return { tenant, app }
})
