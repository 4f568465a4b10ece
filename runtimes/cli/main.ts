#!/usr/bin/env node
/** `mailroom VERB`: every runtime behind one command. Faults are one line each on standard error; exit code 2 means usage or configuration. */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Cause, Effect } from "effect"
import { CliError, Command } from "effect/cli"
import { setTimeout } from "node:timers"
import * as LogLines from "../LogLines.ts"
import { version } from "../Version.ts"
import { CommandFailed } from "./CommandFailed.ts"
import { commands, managementCommands } from "./Commands.ts"
import * as Invocation from "./Invocation.ts"
import { missingPackage } from "./MissingPackage.ts"
import { allTaken } from "./Streams.ts"

const mailroom = Command.make("mailroom").pipe(
  Command.withDescription("An email API to host yourself: send, inspect and automate mailbox activity"),
  Command.withSubcommands([...commands, ...managementCommands])
)

/** What was asked for cannot be done as asked: the caller has to change something. */
const isUsage = (error: unknown): boolean =>
  CliError.isCliError(error) || (error instanceof Error && "_tag" in error && error._tag === "ConfigFaults")

/** What the exit code says. */
const exitCodeOf = (error: unknown): number => (error instanceof CommandFailed ? error.exitCode : isUsage(error) ? 2 : 1)

/** After a signal: those who run until they are told to stop have said that it is their end; of others, nobody may take it for success. */
const stoppedCode = (): number => {
  if (process.exitCode !== undefined) return Number(process.exitCode)
  process.stderr.write("mailroom: stopped before its end: what was asked for may be done or not\n")
  return 130
}

const report = (cause: Cause.Cause<unknown>) =>
  Effect.sync(() => {
    const error = Cause.squash(cause)
    // Faults of the command line itself are told already.
    if (Cause.hasInterruptsOnly(cause) || CliError.isCliError(error)) return
    if (error instanceof CommandFailed && error.message === "") return
    const text = missingPackage(error) ?? (error instanceof Error ? error.message : String(error))
    for (const line of text.split("\n")) process.stderr.write(`mailroom: ${line}\n`)
  })

/** A command that is over ends, whatever somebody's adapter has left open: a pool would keep it for ever, and without a word. */
const leaveBehind = (): void => {
  // @effect-diagnostics-next-line globalTimers:off -- it fires only where something else keeps the process, as no fiber's does
  const late = setTimeout(() => {
    const open = [...new Set(process.getActiveResourcesInfo())].filter((name) => !/^(?:Pipe|TTY)/.test(name)) // our own output
    process.stderr.write(`mailroom: all is done; what is still open is left behind: ${open.join(", ")}\n`)
    process.exit(0)
  }, 1_000)
  late.unref()
}

// Whoever closes our output does not want to read it; the service goes on.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {})

/** Seconds. A terminal sends a Ctrl-C to all that run in it; npm passes its own on, and so do others who start programs. */
const sameCtrlC = 0.5

// The first signal lets what is under way finish; the second does not wait for it.
let signals = 0
let interruptedAt = -Infinity
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => {
    if (signal === "SIGINT") {
      const now = process.uptime()
      if (now - interruptedAt < sameCtrlC) return
      interruptedAt = now
    }
    signals += 1
    if (signals > 1) process.exit(130)
    // For a person; on a pipe, standard error is JSON lines.
    if (process.stderr.isTTY) process.stderr.write("mailroom: stopping; what is under way may finish. Once more stops at once.\n")
  })
}

Invocation.refuseClusters(process.argv.slice(2)).pipe(
  Effect.andThen(Command.run(mailroom, { version })),
  Effect.andThen(allTaken),
  Effect.tapCause(report),
  // Standard output is for what a command was asked for: by default, the log would go there.
  Effect.provide([NodeServices.layer, Invocation.layer, LogLines.layer]),
  (program) =>
    NodeRuntime.runMain(program, {
      disableErrorReporting: true,
      teardown: (exit, onExit) => {
        if (exit._tag === "Success") {
          leaveBehind()
          return onExit(0)
        }
        if (Cause.hasInterruptsOnly(exit.cause)) return onExit(stoppedCode())
        return onExit(exitCodeOf(Cause.squash(exit.cause)))
      }
    })
)
